"""The end of the log, read as it lies there: what the SQL mirror has not seen yet.

Only what is durable, and never more than a little: a hook has no time for a whole log. Nothing is verified but that
the lines follow on what the mirror has seen; who wants proof asks `tallystick verify`.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

TAIL_BYTES_MAX = 4 << 20
_SECTOR_BYTES = 512
_TORN_READS_MAX = 20
_SEGMENT = re.compile(r"[0-9]{20}\.jsonl")


class Away(Exception):
    """The memory cannot be asked now: it is not there, too far behind, damaged, or somebody's alone."""


class Place(msgspec.Struct, frozen=True):
    """Of a position in the log, as much as is needed to go on from there."""

    lamport: int = 0
    end: int = 0
    commit_id: str | None = None


class Line(msgspec.Struct, frozen=True):
    lamport: int
    commit_id: str
    operation: str
    actor: str
    timestamp: str
    prev: str | None
    payload: dict[str, Any]
    tool: str = ""
    reason: str | None = None


def read_head(system: Path) -> Place:
    """Raises Away where there is no log, or its head cannot be read."""
    try:
        fd = os.open(system / "head", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Away("there is no log") from error
    try:
        for _ in range(_TORN_READS_MAX):
            raw = os.pread(fd, _SECTOR_BYTES, 0)
            body = raw[9:-1].rstrip(b" ")
            if raw[:8] == b"%08x" % zlib.crc32(body):
                return msgspec.json.decode(body, type=Place)
    except (OSError, msgspec.MsgspecError) as error:
        raise Away("the head of the log cannot be read") from error
    finally:
        os.close(fd)
    raise Away("the head of the log is damaged")


def read_tail(system: Path, after: Place) -> tuple[list[Line], Place]:
    """What was committed after that place, and where that ends. Raises Away where it is too much or does not follow."""
    head = read_head(system)
    if after.end == head.end:
        if after.commit_id != head.commit_id:
            raise Away("what was seen is not on this log")
        return [], head
    if not 0 < head.end - after.end <= TAIL_BYTES_MAX:
        raise Away("it is too far behind the log")
    try:
        lines = [msgspec.json.decode(line, type=Line) for line in _lines(system / "log", after.end, head.end)]
    except (OSError, msgspec.MsgspecError) as error:
        raise Away("the log cannot be read") from error
    prev = after.commit_id
    for line in lines:
        if line.prev != prev:
            raise Away("what was seen is not on this log")
        prev = line.commit_id
    if prev != head.commit_id:
        raise Away("the log was written meanwhile")
    return lines, head


def _lines(directory: Path, start: int, end: int) -> Iterator[bytes]:
    """A line never crosses from one segment to the next."""
    at = 0
    for name in sorted(filter(_SEGMENT.fullmatch, os.listdir(directory))):
        with open(directory / name, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if start < at + size and at < end:
                file.seek(max(start - at, 0))
                yield from filter(None, file.read(min(end, at + size) - max(start, at)).split(b"\n"))
            at += size
