"""Every error that is raised on purpose, and who can mend it.

TallystickError
├── InvalidArgument      the caller: say it differently
├── NotFound             the caller: name something that exists
├── Conflict             the caller: look again, then decide
├── Denied               whoever writes the policy
├── LimitExceeded        the caller: ask for less, or page
└── LogError             the operator
    ├── HeadMoved        nobody: the partition catches up and tries again
    ├── Corrupt          restore from a backup; the log is never overwritten
    │   └── Unreadable   find out why the disk gives nothing back: the log may be sound
    ├── Unsettled        repeat it with the same nonce: it may have been written
    │   └── LogClosed    find out why the disk failed, then restart
    └── StorageRefused   free space, or make the file system writable

A bug of ours is not in this tree: `server` and `cli` log it once and answer with an id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self


class TallystickError(Exception):
    """`code` is stable and may be matched on; `message` is for reading; `details` is JSON-ready."""

    code = "ERROR"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details or {}
        if code is not None:
            self.code = code

    def at(self, place: str | None) -> Self:
        """The same error, naming the operation of a call that it is about (`ops[3]`)."""
        if place is not None and "at" not in self.details:
            self.message = f"{place}: {self.message}"
            self.details = {**self.details, "at": place}
        return self


class InvalidArgument(TallystickError):
    """The call itself is malformed; `problems` lists every fault found, one sentence each."""

    code = "INVALID_ARGUMENT"

    def __init__(self, message: str, *, problems: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.problems = list(problems) or [message]

    def at(self, place: str | None) -> Self:
        if place is not None and "at" not in self.details:
            self.problems = [f"{place}: {problem}" for problem in self.problems]
        return super().at(place)


class NotFound(TallystickError):
    code = "ENTITY_NOT_FOUND"


class Conflict(TallystickError):
    code = "CONFLICT"


class Denied(TallystickError):
    code = "AUTHORIZATION_DENIED"


class LimitExceeded(TallystickError):
    code = "TOO_MUCH"


class LogError(TallystickError):
    code = "LOG_ERROR"


class HeadMoved(LogError):
    """Another writer was first. Nothing was appended."""

    code = "HEAD_MOVED"


class Corrupt(LogError):
    """The log says something false. `details` has file, line, lamport where known."""

    code = "LOG_CORRUPT"


class Unreadable(Corrupt):
    """The disk did not give back what is stored: it is gone, or a sector of it is. Whether the log is damaged is not
    known. To whoever has to rely on a line, or proves the log, it is as good as damaged; unlike StorageRefused it
    does not say that nothing was appended."""

    code = "LOG_UNREADABLE"

    def __init__(self, message: str, *, hint: str | None = None, **kwargs: Any) -> None:
        super().__init__(message, hint=hint or _LOOK_AT_DISK, **kwargs)


_LOOK_AT_DISK = "look at the disk and at what the kernel says of it, then start again; the log may be sound"


class Unsettled(LogError):
    """It is not known whether the commits were appended, and asking the log did not tell."""

    code = "UNSETTLED"


class LogClosed(Unsettled):
    """A sync failed: what reached the disk is unknown, so this process writes no more."""

    code = "LOG_CLOSED"


class StorageRefused(LogError):
    """The disk is full or read-only. Nothing was appended; reads go on."""

    code = "STORAGE_REFUSED"
