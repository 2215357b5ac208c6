"""Whether a log can be read and written, as far as its partition has observed.

Answering costs nothing: failures are recorded when they happen, and cleared by the next read, write or check that
succeeds. A failure of one caller's draft is not a failure of the log.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tallystick.errors import (
    Corrupt,
    LogClosed,
    LogError,
    Misplaced,
    StorageRefused,
    TallystickError,
    Unmasked,
    Unreadable,
)
from tallystick.log import Head
from tallystick.system.private_files import sync_file, write_all

STUCK_SECONDS = 10.0
"""A lock or an append that takes longer counts as a failure."""

_WORDS: tuple[tuple[type[Exception], str], ...] = (
    (LogClosed, "this process writes no more until it is restarted"),
    (Unreadable, "the log cannot be read"),
    (Corrupt, "the log is damaged"),
    (Unmasked, "a redaction is not carried out yet"),
    (Misplaced, "files of the log were removed, replaced or moved"),
    (StorageRefused, "the log cannot be written"),
    (Exception, "the log cannot be used"),
)
_NOT_OF_THE_LOG = frozenset({"TOO_MUCH", "IS_REPLICA"})
"""Refusals of one draft, and of every write to a base that is meant for reading."""


class Trouble(msgspec.Struct, frozen=True):
    """Without paths and ids: probes answer callers that have not identified themselves."""

    reason: str
    code: str
    restart_helps: bool = False


class LogHealth:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._unread: Trouble | None = None
        self._unwritten: Trouble | None = None
        self._closed: Trouble | None = None
        self.refused_bytes = 0
        """The size of the group that storage refused last; 0 if the last append succeeded."""
        self._step: tuple[str, float] | None = None
        """The step of a write that is under way, and when it began."""
        self._held: tuple[Head, float] | None = None
        """The head at which checks found the lock held, and the time of the first of them."""

    @property
    def trouble(self) -> Trouble | None:
        return self._closed or self._unread or self._unwritten or self._stuck()

    # -- what the partition reports

    def begin(self, step: str) -> None:
        self._step = step, self._now()

    def end(self) -> None:
        self._step = None

    def can_read(self) -> None:
        self._unread = None

    def can_write(self) -> None:
        self._unwritten = self._held = None
        self.refused_bytes = 0

    def cannot_read(self, error: Exception) -> None:
        if _is_of_the_log(error):
            self._unread = _trouble(error)

    def cannot_write(self, error: Exception, *, size: int = 0) -> None:
        closed = error.__cause__ if isinstance(error, Unmasked) else error
        if isinstance(closed, LogClosed):
            self._closed = Trouble(closed.message, closed.code, restart_helps=True)
        elif _is_of_the_log(error):
            self._unwritten = _trouble(error)
            self.refused_bytes = max(size, self.refused_bytes)

    def lock_is_held(self, head: Head) -> None:
        """By another process, when it was last tried. A head that moves belongs to a writer that is at work."""
        if self._held is None or self._held[0] != head:
            self._held = head, self._now()

    def _stuck(self) -> Trouble | None:
        if self._step is not None and self._seconds(self._step[1]) > STUCK_SECONDS:
            return Trouble(f"{self._step[0]} for {self._seconds(self._step[1]):.0f} s", "LOG_STUCK")
        if self._held is not None and self._seconds(self._held[1]) > STUCK_SECONDS:
            return Trouble(f"waiting for the log's lock for {self._seconds(self._held[1]):.0f} s", "LOG_STUCK")
        return None

    def _seconds(self, since: float) -> float:
        return self._now() - since


def try_storage(system: Path, size: int) -> None:
    """Raise OSError unless the log's directory is in its place and, if `size` is not 0, takes so many bytes more."""
    os.stat(system / "lock")  # Never removed, unlike the directory, which other parts create anew.
    if not size:
        return
    with tempfile.TemporaryFile(dir=system) as file:
        write_all(file.fileno(), bytes(size))
        sync_file(file.fileno())


def _is_of_the_log(error: Exception) -> bool:
    if isinstance(error, LogError):
        return error.code not in _NOT_OF_THE_LOG
    return isinstance(error, OSError)


def _trouble(error: Exception) -> Trouble:
    words = next(words for kind, words in _WORDS if isinstance(error, kind))
    cause = error if isinstance(error, OSError) else error.__cause__
    why = f": {cause.strerror}" if isinstance(cause, OSError) and cause.strerror else ""
    code = error.code if isinstance(error, TallystickError) else "STORAGE_REFUSED"
    restart_helps = isinstance(error, Misplaced) and bool(error.details.get("restart_helps"))
    return Trouble(words + why, code, restart_helps)
