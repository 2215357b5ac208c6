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
    ├── Unmasked         raise a limit of the process, or restart: the redaction is written, and carried out then
    └── StorageRefused   free space, or make the file system writable
        ├── Misplaced    put the files of the log back, or restart
        └── Exhausted    raise a limit of the process (open files, memory), then repeat

A bug of ours is not in this tree: `server` and `cli` log it once and answer with an id.
"""

from __future__ import annotations

import errno
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


class Unmasked(LogError):
    """The commits are durable, but the payloads that they redact are not overwritten yet: the next claim of the log
    does it or, if the cause is LogClosed, the next process that opens the log."""

    code = "REDACTION_PENDING"


class StorageRefused(LogError):
    """The disk is full or read-only. Nothing was appended; reads go on."""

    code = "STORAGE_REFUSED"


class Misplaced(StorageRefused):
    """Files of the log were removed, replaced or moved while this process had it open. Nothing was appended."""

    code = "LOG_MISPLACED"


class Exhausted(StorageRefused):
    """The process or the machine ran out of open files, memory or threads. The call may be repeated."""

    code = "RESOURCES_EXHAUSTED"


_SCARCE = {
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "this machine has too many open files",
    errno.ENOMEM: "there is not enough memory",
    errno.ENOBUFS: "there is not enough memory",
}
_NO_THREAD = "can't start new thread"


def exhaustion(error: BaseException) -> Exhausted | None:
    """Return the refusal to answer with if a limit of the process or machine caused the error, else None."""
    if isinstance(error, Exhausted):
        return error
    if isinstance(error, OSError):
        message = _SCARCE.get(error.errno or 0)
    elif isinstance(error, MemoryError):
        message = _SCARCE[errno.ENOMEM]
    elif isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        message = "no thread can be started"
    else:
        message = None
    return None if message is None else Exhausted(message, hint=_RAISE_LIMITS)


_RAISE_LIMITS = (
    "repeat it with the same nonce, if it has one; if it persists, raise the limit of open files (ulimit -n)"
    " or of memory, or serve fewer clients and tenants. The log is intact"
)
