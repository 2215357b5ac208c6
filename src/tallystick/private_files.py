"""Files and directories that are made for their owner alone, whatever the umask."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_OTHERS = 0o077


def make_directory(path: Path) -> None:
    """With those above it that are missing; what is there stays as it is."""
    try:
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_directory(path.parent)
        path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)


def opener(path: str | Path, flags: int) -> int:
    """For `open`: what it creates is private."""
    return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)


def write_file(path: Path, data: bytes) -> None:
    with open(path, "wb", opener=opener) as file:
        file.write(data)


def create_file(path: Path) -> None:
    """An empty file, if there is none. One that is open to others, and what SQLite keeps beside it, is so no longer."""
    os.close(opener(path, os.O_RDWR | os.O_CREAT))
    for each in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        with suppress(FileNotFoundError):
            if each.stat().st_mode & _OTHERS:
                each.chmod(FILE_MODE)
