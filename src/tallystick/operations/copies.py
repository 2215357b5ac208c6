"""Copies of a memory outside its directory: exports, backups, and logs that servers keep.

After a redaction they show which copies still contain the erased values. The list proves nothing, and nothing depends
on it. Exports are one line each in the tenant's `_system/backups.jsonl`; other copies are known to the extensions that
make them, and each extension describes its own by a `CopyHolder`.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.config import Settings
from tallystick.errors import StorageRefused
from tallystick.extension import installed
from tallystick.projections.registry import PendingErasure
from tallystick.system.private_files import sync_file, write_all
from tallystick.system.regular_files import read_regular

FILE_NAME = "backups.jsonl"

logger = logging.getLogger(__name__)


class Backup(msgspec.Struct, frozen=True):
    id: str
    at: str
    target: str
    """The place it was written to; `-` if unknown."""
    position: int
    """Lamport of the last commit in it."""
    commits: int


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How backups to one store are going."""

    target: str
    is_configured: bool
    """Whether servers of this base back up to it."""
    is_given_up: bool
    """It fails, no server backs up to it, and a backup elsewhere succeeded since."""
    last: str | None
    """When the last run that succeeded ended; None where there was none."""
    number: int | None
    kept: int
    waiting: int
    """Commits of all tenants that are in no backup there."""
    failed: str | None
    failing_since: str | None
    problems: list[str]


class LastBackup(msgspec.Struct, frozen=True, kw_only=True):
    at: str | None
    """When the last run that succeeded ended; None where none has."""
    failing_since: str | None
    """The time since which a store in use has been failing, the longest; None if none fails."""


def _none(settings: Settings) -> Sequence[Any]:
    return ()


class CopyHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Access to the copies that an extension makes. Each field is a function of the settings of a tenant."""

    name: str
    backups: Callable[[Settings], Sequence[Backup]] = _none
    """Return copies that keep what was in them when they were made."""
    pending: Callable[[Settings], Sequence[PendingErasure]] = _none
    """Return copies that will be erased, and may still contain what was redacted or deleted."""
    destroy: Callable[[Settings, str], bool] = lambda settings, place: False
    """Record that a place, such as a server, contains nothing any more. Returns False if no erasure waits for it."""
    stores: Callable[[Settings], Sequence[StoreStatus]] = _none
    last: Callable[[Settings], LastBackup | None] = lambda settings: None
    """Return when a backup was last made; None if none was made and none is configured. Reads one file at most."""
    kept: Callable[[Settings], str | None] = lambda settings: None
    """Return for how long copies are kept, in words; None if none are made."""


def copy_holders() -> list[CopyHolder]:
    return list(installed().load("copies"))


def last_backup(settings: Settings) -> LastBackup | None:
    return next((last for holder in copy_holders() if (last := holder.last(settings)) is not None), None)


def backups_kept(settings: Settings) -> str | None:
    """Return for how long backups are kept, in words; None if none are made."""
    return next((kept for holder in copy_holders() if (kept := holder.kept(settings)) is not None), None)


def known_backups(settings: Settings) -> list[Backup]:
    """Return the exports of the tenant that were not destroyed, then its other backups."""
    others = (backup for holder in copy_holders() for backup in holder.backups(settings))
    return [*exports(settings.system), *others]


class _Destroyed(msgspec.Struct, frozen=True):
    destroyed: str
    at: str
    by: str


def note_export(system: Path, target: str, *, position: int, commits: int) -> None:
    """Never raises: an export that cannot be noted is still an export."""
    # The name of a file may be any bytes.
    target = target.encode("utf-8", "backslashreplace").decode()
    backup = Backup(f"backup_{secrets.token_hex(4)}", to_text(wall_clock()), target, position, commits)
    try:
        _append(system / FILE_NAME, backup)
    except OSError as error:
        logger.warning("the export could not be noted in %s: %s", system / FILE_NAME, error.strerror)


def note_destroyed(system: Path, export_id: str, *, by: str) -> bool:
    """Return False if there is no such export, or it was destroyed before."""
    if all(export.id != export_id for export in exports(system)):
        return False
    _append(system / FILE_NAME, _Destroyed(export_id, to_text(wall_clock()), by))
    return True


def exports(system: Path) -> list[Backup]:
    """Return the exports that are not recorded as destroyed, oldest first."""
    found: dict[str, Backup] = {}
    for line in _lines(system / FILE_NAME):
        if isinstance(line, Backup):
            found[line.id] = line
        else:
            found.pop(line.destroyed, None)
    return list(found.values())


def _lines(path: Path) -> Iterator[Backup | _Destroyed]:
    try:
        raw = read_regular(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageRefused(
            f"{path} cannot be read: {error.strerror}",
            hint="it lists the exports of this memory; let this user read it",
        ) from error
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
        sync_file(fd)
    finally:
        os.close(fd)
