"""The backups that were taken of a log, as far as they were taken by us.

`_system/backups.jsonl`, a line each, so that after a redaction it can be told which copies
still hold what was erased. It proves nothing and nothing depends on it.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.private_files import write_all

FILE_NAME = "backups.jsonl"

logger = logging.getLogger(__name__)


class Backup(msgspec.Struct, frozen=True):
    id: str
    at: str
    target: str
    """Where it was written to; `-` when that is not known."""
    position: int
    """Lamport of the last commit in it."""
    commits: int


class _Destroyed(msgspec.Struct, frozen=True):
    destroyed: str
    at: str
    by: str


def note_backup(system: Path, target: str, *, position: int, commits: int) -> None:
    """Never raises: a backup that cannot be noted is still a backup."""
    backup = Backup(f"backup_{secrets.token_hex(4)}", to_text(wall_clock()), target, position, commits)
    try:
        _append(system / FILE_NAME, backup)
    except OSError as error:
        logger.warning("the backup could not be noted in %s: %s", system / FILE_NAME, error.strerror)


def note_destroyed(system: Path, backup_id: str, *, by: str) -> bool:
    """False when there is no such backup, or it was destroyed before."""
    if all(backup.id != backup_id for backup in backups(system)):
        return False
    _append(system / FILE_NAME, _Destroyed(backup_id, to_text(wall_clock()), by))
    return True


def backups(system: Path) -> list[Backup]:
    """Those that nobody said were destroyed, oldest first."""
    found: dict[str, Backup] = {}
    for line in _lines(system / FILE_NAME):
        if isinstance(line, Backup):
            found[line.id] = line
        else:
            found.pop(line.destroyed, None)
    return list(found.values())


def _lines(path: Path) -> Iterator[Backup | _Destroyed]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return
    for line in raw.splitlines():
        # A line that a crash cut short says nothing.
        with suppress(msgspec.MsgspecError):
            yield _read_line(line)


def _read_line(line: bytes) -> Backup | _Destroyed:
    try:
        return msgspec.json.decode(line, type=Backup)
    except msgspec.ValidationError:
        return msgspec.json.decode(line, type=_Destroyed)


def _append(path: Path, line: Backup | _Destroyed) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, msgspec.json.encode(line) + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
