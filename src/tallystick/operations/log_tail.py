"""The newest commits, found from the end of the log without reading the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from tallystick.commits import Commit, chain
from tallystick.log import Entry, Head
from tallystick.log.segments import Segments

_CHUNK_BYTES = 1 << 16


def newest(directory: Path, head: Head, *, limit: int, wanted: Callable[[Commit], bool]) -> list[Entry]:
    """The last `limit` that are wanted, oldest first. Reads back until it has them. Not verified."""
    found: list[Entry] = []
    segments = Segments(directory)
    try:
        segments.refresh()
        for offset, line in backwards(segments, head.end) if limit else ():
            commit = chain.decode(line)
            if wanted(commit):
                found.append(Entry(offset, commit, line))
                if len(found) == limit:
                    break
    finally:
        segments.close()
    return found[::-1]


def backwards(segments: Segments, end: int) -> Iterator[tuple[int, bytes]]:
    """Offset and line of every line before `end`, the last first."""
    rest, start = b"", end
    while start:
        # `rest` is what precedes the first newline seen so far: it may begin further back.
        # Twice as much each time a long line has not ended yet.
        size = min(max(_CHUNK_BYTES, len(rest)), start)
        start -= size
        piece = _read_all(segments, start, size) + rest
        first, *lines = piece.split(b"\n")
        place = start + len(piece)
        for line in reversed(lines):
            place -= len(line)
            if line:
                yield place, line
            place -= 1
        rest = first
    if rest:
        yield 0, rest


def _read_all(segments: Segments, offset: int, size: int) -> bytes:
    """Across the borders of segments."""
    found = b""
    while len(found) < size:
        piece = segments.read(offset + len(found), size - len(found))
        if not piece:
            break
        found += piece
    return found
