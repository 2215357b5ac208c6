"""The stores that this base is backed up to, as the last run found them: `_system/stored_backups.json` of the base."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from tallystick.extensions.backup.object_store import quoted_if_old
from tallystick.system.private_files import make_directory, replace_file
from tallystick.system.regular_files import read_regular

STORED_NAME = "stored_backups.json"


class KeptBackup(msgspec.Struct, frozen=True):
    """One that lies in an object store."""

    number: int
    at: str
    tenants: dict[str, tuple[int, int]]
    """Position and commits of each."""


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The local record of one object store."""

    kept: list[KeptBackup] = []
    finished: str = ""
    """When the last run that succeeded ended, also if it found nothing new."""
    seconds: float = 0.0
    new_bytes: int = 0
    problems: list[str] = []
    """The files that the run could not back up."""
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
