"""Files and directories that are made for their owner alone, whatever the umask, and survive a power cut."""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tallystick.errors import InvalidArgument

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = 0o077
_SYNCS_AT_ONCE = 8
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_NO_FULL_SYNC = frozenset({errno.ENOTSUP, errno.ENOTTY, errno.EINVAL})


def sync_data(fd: int) -> None:
    """What was written to a file survives a power cut, and so does its size."""
    if _FULL_SYNC is None:
        os.fdatasync(fd)
    else:
        _sync_fully(fd, _FULL_SYNC)


def sync_file(fd: int) -> None:
    """The same of everything about a file, or of the names in a directory."""
    if _FULL_SYNC is None:
        os.fsync(fd)
    else:
        _sync_fully(fd, _FULL_SYNC)


def _sync_fully(fd: int, full_sync: int) -> None:
    """On macOS: its fsync leaves what was written in the cache of the disk, and it has no fdatasync."""
    try:
        fcntl.fcntl(fd, full_sync)
    except OSError as error:
        if error.errno not in _NO_FULL_SYNC:
            raise
        os.fsync(fd)  # As much as this file system can do.


def make_directory(path: Path) -> None:
    """With those above it that are missing; what is there stays as it is."""
    try:
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_directory(path.parent)
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


@contextmanager
def replacing(path: Path, *, unfinished: Path | None = None, mode: int = FILE_MODE) -> Iterator[BinaryIO]:
    """Write a file that takes this name, durably, when the block ends without an error.

    A crash leaves what was there before, or all of the new one, and at worst `unfinished` (the name
    with `.new` behind it unless given) beside it. Raises OSError, and then nothing was replaced unless
    it was the directory that could not be synced.
    """
    fresh = unfinished or path.with_name(f"{path.name}.new")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb") as file:
            yield file
            file.flush()
            # Before the name: after a power cut a name must not lead to bytes that never arrived.
            sync_file(file.fileno())
        os.rename(fresh, path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def replace_file(path: Path, data: bytes, *, unfinished: Path | None = None) -> None:
    """`replacing` in one piece."""
    with replacing(path, unfinished=unfinished) as file:
        file.write(data)


def place_file(path: Path, data: bytes) -> None:
    """Whole as soon as it has its name, and durable only after `sync_files`: many of them cost less together.

    A power cut before that may leave anything under the name: nothing may count on it yet.
    """
    fresh = path.with_name(f"{path.name}.new")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE), "wb") as file:
        file.write(data)
    os.rename(fresh, path)


def sync_files(paths: Sequence[Path]) -> None:
    """Files and directories, in no order. Asked for at the same time, most of them share one turn of the disk."""
    # Short processes, as hooks are, sync nothing and start without it.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_SYNCS_AT_ONCE) as threads:
        for _ in threads.map(_sync, paths):
            """Raises what one of them raised."""


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync_file(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """A write may take less than it was given, without an error: a disk that is nearly full, a signal."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_directory(path: Path) -> None:
    """A created, renamed or removed name survives a power cut only after this."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(fd)
    finally:
        os.close(fd)


def is_private(seen: os.stat_result, uid: int, groups: Collection[int]) -> bool:
    """Whether nobody else may touch it. A group of ours may read files of root's, too: so Kubernetes hands secrets to a
    server that is not root."""
    open_to = seen.st_mode & _OTHERS
    return not open_to or (open_to == stat.S_IRGRP and seen.st_uid == 0 != uid and seen.st_gid in groups)


def check_private(path: Path, seen: os.stat_result, code: str) -> None:
    if not is_private(seen, os.geteuid(), {os.getegid(), *os.getgroups()}):
        raise InvalidArgument(
            f"{path} can be read or written by others", code=code, hint=f"chmod 600 {shlex.quote(str(path))}"
        )


def check_outside(path: Path, base: Path, harm: str, *, code: str) -> None:
    """Raise InvalidArgument for a file in the base."""
    if path.resolve().is_relative_to(base.resolve()):
        raise InvalidArgument(
            f"{path} lies in the base: {harm}", code=code, hint="keep it elsewhere, and not in the same backup"
        )


def create_file(path: Path) -> None:
    """An empty file for its owner alone, if there is none. An existing file stays as it is."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))


def close_to_others(path: Path) -> None:
    """Let nobody else read or write a database of ours, and what SQLite keeps beside it."""
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        with suppress(FileNotFoundError):
            if each.stat().st_mode & _OTHERS:
                each.chmod(FILE_MODE)
