"""The audit log from its end: what was decided last is asked for most.

Lines are read as they lie there: whether they are the ones that were written is for the proof to say.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tallystick.audit.files import files_in

_BLOCK_BYTES = 1 << 18


def newest_lines(directory: Path, before: int | None = None) -> Iterator[bytes]:
    """Whole lines without their ends, newest first; with `before`, none of a file that begins there or behind it."""
    for path in reversed(files_in(directory)):
        if before is None or int(path.stem) < before:
            yield from read_backwards(path)


def read_backwards(path: Path, begin: int = 0) -> Iterator[bytes]:
    """The lines of a file from its end to the byte `begin`, where one begins."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        rest = b""
        is_last = True
        while end > begin:
            start = max(begin, end - _BLOCK_BYTES)
            file.seek(start)
            rest, *lines = (file.read(end - start) + rest).split(b"\n")
            end = start
            # Behind the last end of a line is nothing, or what a writer is busy with.
            yield from reversed(lines[:-1] if is_last and lines else lines)
            is_last = is_last and not lines
        if rest and not is_last:
            yield rest


def is_look(line: bytes, tool: str) -> bool:
    """Whether it says that this tool was allowed to read or search: told by the bytes, since quotes within texts are
    escaped."""
    # The cheapest first: it is asked of every line.
    is_allowed_look = b'"decision":true' in line and (b'"action":"SEARCH"' in line or b'"action":"READ"' in line)
    return is_allowed_look and b'"tool":%b' % msgspec.json.encode(tool) in line
