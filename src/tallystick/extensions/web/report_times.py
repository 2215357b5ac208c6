"""From a question to the report that answers it: how long people take, as the pages see it.

A question begins with the first search or look at an entity after the last export, and ends with the next export. What
was taken is kept in a small file of each memory, for all processes that serve it; who has asked is known to this one.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

import msgspec

from tallystick.system.private_files import FILE_MODE, replace_file

VISITORS_MAX = 10_000
KEPT = 1_000
BYTES_MAX = 16_000
"""Of the file; then only the last that count are left in it."""
FILE_NAME = "report_times"
FORGOTTEN_SECONDS = 3_600
"""Whoever exports so long after a look did something else in between."""

Visitor = tuple[str, str, str]
"""Tenant, actor and session."""


class ReportSeconds(msgspec.Struct, frozen=True):
    reports: int
    median: float
    longest: float


class ReportTimes:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._asked: OrderedDict[Visitor, float] = OrderedDict()

    def asked(self, visitor: Visitor) -> None:
        now = self._now()
        if now - self._asked.get(visitor, -FORGOTTEN_SECONDS) >= FORGOTTEN_SECONDS:
            self._asked[visitor] = now
            self._asked.move_to_end(visitor)
            if len(self._asked) > VISITORS_MAX:
                self._asked.popitem(last=False)

    def exported(self, visitor: Visitor, system: Path) -> None:
        """`system` is where its memory keeps such files; one that takes none is not counted in."""
        began = self._asked.pop(visitor, None)
        if began is not None and (took := self._now() - began) < FORGOTTEN_SECONDS:
            with suppress(OSError):
                _keep(system / FILE_NAME, took)


def report_seconds(system: Path) -> ReportSeconds | None:
    took = _kept(system / FILE_NAME)
    return ReportSeconds(len(took), round(median(took), 1), round(max(took), 1)) if took else None


def _keep(path: Path, took: float) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)
    try:
        os.write(fd, b"%.3f\n" % took)
        is_full = os.fstat(fd).st_size > BYTES_MAX
    finally:
        os.close(fd)
    if is_full:
        # Whoever adds one at this moment is not counted: one of a thousand, and it is no proof of anything.
        replace_file(path, b"".join(b"%.3f\n" % each for each in _kept(path)))


def _kept(path: Path) -> list[float]:
    """The last that count; a line that a crash or a person left behind is none."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2 * BYTES_MAX))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    return [took for each in lines if (took := _seconds(each)) is not None][-KEPT:]


def _seconds(line: bytes) -> float | None:
    try:
        took = float(line)
    except ValueError:
        return None
    return took if 0 <= took < FORGOTTEN_SECONDS else None
