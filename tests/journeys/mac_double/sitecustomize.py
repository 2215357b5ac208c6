"""A process that has this in its path finds itself on a machine like a Mac, as far as Python shows it."""

from __future__ import annotations

import builtins
import fcntl
import io
import os
from typing import Any

FULL_SYNC = 51

for name in (
    *("fdatasync", "posix_fadvise", "posix_fallocate", "copy_file_range", "splice", "sched_getaffinity"),
    *("eventfd", "memfd_create", "pidfd_open", "pipe2", "getrandom", "O_TMPFILE", "O_DIRECT", "O_PATH"),
):
    if hasattr(os, name):
        delattr(os, name)

_open, _open_fd, _control = io.open, os.open, fcntl.fcntl


def _check(path: Any) -> None:
    if isinstance(path, str | os.PathLike) and os.fspath(path).startswith("/proc/"):
        raise FileNotFoundError(2, "there is no /proc", path)


def _opened(path: Any, *rest: Any, **more: Any) -> Any:
    _check(path)
    return _open(path, *rest, **more)


def _opened_fd(path: Any, *rest: Any, **more: Any) -> int:
    _check(path)
    return _open_fd(path, *rest, **more)


def _controlled(fd: int, command: int, argument: Any = 0) -> Any:
    if command != FULL_SYNC:
        return _control(fd, command, argument)
    os.fsync(fd)
    with _open(os.environ["FULL_SYNCS"], "a") as noted:
        noted.write("x")
    return 0


builtins.open = io.open = _opened  # type: ignore[assignment]  # it has many forms, and passes them on
os.open = _opened_fd
fcntl.F_FULLFSYNC = FULL_SYNC  # type: ignore[attr-defined]
fcntl.fcntl = _controlled  # type: ignore[assignment]
