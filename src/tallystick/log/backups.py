"""The backups that were taken of a memory, as far as they were taken by us.

So that after a redaction it can be told which copies still hold what was erased. It proves nothing
and nothing depends on it. Exports are a line each in the tenant's `_system/backups.jsonl`; what lies in object stores
is in `_system/stored_backups.json` of the base, as the last run found it there.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.config import Settings
from tallystick.errors import StorageRefused
from tallystick.private_files import make_directory, replace_file, sync_file, write_all
from tallystick.regular_files import read_regular

FILE_NAME = "backups.jsonl"
STORED_NAME = "stored_backups.json"
_UNQUOTED = re.compile(r"[?#]|%(?!25|3F|23)")

logger = logging.getLogger(__name__)


class Backup(msgspec.Struct, frozen=True):
    id: str
    at: str
    target: str
    """Where it was written to; `-` when that is not known."""
    position: int
    """Lamport of the last commit in it."""
    commits: int


class KeptBackup(msgspec.Struct, frozen=True):
    """One that lies in an object store."""

    number: int
    at: str
    tenants: dict[str, tuple[int, int]]
    """Position and commits of each."""


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known here of one object store."""

    kept: list[KeptBackup] = []
    finished: str = ""
    """When the last run that succeeded ended, also if it found nothing new."""
    seconds: float = 0.0
    new_bytes: int = 0
    problems: list[str] = []
    """Of that run: what could not be backed up."""
    failed: str = ""
    """Why the last run did not succeed; empty where it did."""
    failing_since: str = ""
    swept: str = ""
    """When pieces that no backup names were looked for."""
    epoch: int = 0
    """Of the memory, counted by those who took it over."""


def read_targets(base: Path) -> dict[str, Target]:
    """By address. A file that cannot be read says nothing."""
    with suppress(OSError, msgspec.MsgspecError):
        known = msgspec.json.decode(read_regular(base / "_system" / STORED_NAME), type=dict[str, Target])
        return {quoted_if_old(url): target for url, target in known.items()}
    return {}


def write_target(base: Path, url: str, target: Target, *, instead_of: Collection[str] = ()) -> None:
    """Raises OSError. For whoever holds the lock of backups."""
    others = {other: known for other, known in read_targets(base).items() if other not in instead_of}
    make_directory(base / "_system")
    replace_file(base / "_system" / STORED_NAME, msgspec.json.encode({**others, url: target}))


def address_of_directory(path: str) -> str:
    """Read again, it is the same directory."""
    return f"file://{path}".replace("%", "%25").replace("?", "%3F").replace("#", "%23")


def quoted_if_old(url: str) -> str:
    """Older versions kept the name of a directory as it is."""
    path = url.removeprefix("file://")
    return address_of_directory(path) if path != url and _UNQUOTED.search(path) else url


def known_backups(settings: Settings) -> list[Backup]:
    """Of the tenant that the settings name: exports that nobody said were destroyed, and what lies in stores."""
    stored = [
        Backup(f"{url}#{kept.number}", kept.at, url, *kept.tenants[settings.tenant])
        for url, target in read_targets(settings.base).items()
        for kept in target.kept
        if settings.tenant in kept.tenants
    ]
    return [*backups(settings.system), *stored]


class _Destroyed(msgspec.Struct, frozen=True):
    destroyed: str
    at: str
    by: str


def note_backup(system: Path, target: str, *, position: int, commits: int) -> None:
    """Never raises: a backup that cannot be noted is still a backup."""
    # The name of a file may be any bytes.
    target = target.encode("utf-8", "backslashreplace").decode()
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
