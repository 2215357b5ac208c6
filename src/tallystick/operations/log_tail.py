"""The tail of the log: the newest commits, and those that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tallystick.commits import Commit
from tallystick.log import Entry
from tallystick.log.segments import Segments
from tallystick.operations import OperationContext
from tallystick.store import Store

_CHUNK_BYTES = 1 << 16


async def newest(
    context: OperationContext, store: Store, *, limit: int, wanted: Callable[[Commit], bool]
) -> tuple[list[Entry], int]:
    """The last `limit` that are wanted, oldest first, and the position up to which it looked. Reads back until it has
    them."""
    await store.partition(context.principal)
    position = store.position(context.principal)
    found: list[Entry] = []
    if limit:
        async for entry in store.commits(context.principal, newest_first=True):
            if entry.commit.lamport <= position and wanted(entry.commit):
                found.append(entry)
                if len(found) == limit:
                    break
    return found[::-1], position


async def follow(
    context: OperationContext,
    store: Store,
    position: int,
    *,
    wanted: Callable[[Commit], bool],
    show: Callable[[Entry], None],
) -> None:
    """What is written behind a position, by any process. Ends only when it is cancelled."""
    async for entry in store.watch(context.principal, after=position):
        if wanted(entry.commit):
            show(entry)


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
