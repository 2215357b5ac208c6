"""Advisory locks between processes (flock).

A lock belongs to one opening of a file: two openings in one process exclude each other too. The
kernel frees it when its holder dies, so no crash leaves anything locked; the file itself stays.
Local file systems only.
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE_SECONDS_MIN = 0.0002
_PAUSE_SECONDS_MAX = 0.005
_NEXT_PAUSE_SECONDS_MAX = 0.001
_TURNSTILE_SECONDS_MAX = 1.0


def open_lock(path: Path) -> int:
    """The file of a lock, made where it is missing. Never removed: whoever waits on a removed one waits alone."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def take(
    fd: int,
    *,
    timeout_seconds: float | None = None,
    shared: bool = False,
    is_abandoned: Callable[[], bool] = lambda: False,
    pause_seconds_max: float = _PAUSE_SECONDS_MAX,
) -> bool:
    """Whether it was had in time; without a timeout it waits for as long as it takes. Blocks the thread."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    if timeout_seconds is None:
        fcntl.flock(fd, kind)
        return True
    deadline = time.monotonic() + timeout_seconds
    pause = _PAUSE_SECONDS_MIN
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline or is_abandoned():
                return False
        # Of those that wait, none should try in step with another.
        time.sleep(pause * random.random())
        pause = min(pause * 2, pause_seconds_max)


def take_in_turn(fd: int, turnstile: int, *, timeout_seconds: float) -> bool:
    """Like `take`, but the process that released the lock does not overtake one that waits for it.

    The process that is next holds `turnstile`, the opening of another lock file, until it has the lock. The turnstile
    guards nothing: a process that did not get it in a second waits without it, since its holder may be suspended.
    """
    deadline = time.monotonic() + timeout_seconds
    is_next = take(turnstile, timeout_seconds=min(timeout_seconds / 2, _TURNSTILE_SECONDS_MAX))
    if not is_next and timeout_seconds == 0:
        return False
    try:
        return take(
            fd, timeout_seconds=max(0.0, deadline - time.monotonic()), pause_seconds_max=_NEXT_PAUSE_SECONDS_MAX
        )
    finally:
        if is_next:
            release(turnstile)


def release(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)


@contextmanager
def bytes_locked(fd: int, start: int = 0, length: int = 0) -> Iterator[None]:
    """Bytes of a file (0: to its end), whoever holds the file itself. Waits; for a moment only, and for one thread:
    these locks are the process's, and closing any opening of the file frees them."""
    fcntl.lockf(fd, fcntl.LOCK_EX, length, start)
    try:
        yield
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN, length, start)


@contextmanager
def locked(path: Path, *, timeout_seconds: float | None = None, create: bool = True) -> Iterator[bool]:
    """Hold the lock inside; yields False where it was not had in time. Without `create` a directory may be locked."""
    fd = open_lock(path) if create else _opened(path)
    try:
        yield take(fd, timeout_seconds=timeout_seconds)
    finally:
        os.close(fd)


def is_held(path: Path) -> bool:
    """By anybody, at this moment. Asked for shared, so that two who ask do not take each other for the holder."""
    try:
        fd = _opened(path)
    except OSError:
        return False
    try:
        return not take(fd, shared=True, timeout_seconds=0)
    finally:
        os.close(fd)


def _opened(path: Path) -> int:
    # Not waiting for the other end, should something else than a file lie there.
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
