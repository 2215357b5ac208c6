"""Who may write: a base that follows another memory, or whose memory was taken over, takes no writes.

`_system/replica.json` says so to every process that has the base open, at once: a partition looks for it before each
claim and each append.
A restore that was interrupted leaves `.restoring` in the base, and nothing is opened until it is finished.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from tallystick.errors import Conflict, StorageRefused
from tallystick.log import Log
from tallystick.log.files import FilesLog
from tallystick.system.private_files import make_directory, replace_file, sync_directory
from tallystick.system.regular_files import read_regular

FILE_NAME = "replica.json"
RESTORING = ".restoring"


class Replica(msgspec.Struct, frozen=True, omit_defaults=True):
    source: str
    """What it follows, or who took the memory over."""
    since: str
    is_fenced: bool = False
    """It was the memory, and another is now."""
    number: int = 0
    """The newest backup that it holds."""
    as_of: str = ""
    """When that was made."""


def read_replica(base: Path) -> Replica | None:
    path = base / "_system" / FILE_NAME
    try:
        return msgspec.json.decode(read_regular(path), type=Replica)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError):
        # Whoever cannot tell must not write.
        return Replica("something that cannot be read", "")


def write_replica(base: Path, replica: Replica) -> None:
    make_directory(base / "_system")
    replace_file(base / "_system" / FILE_NAME, msgspec.json.encode(replica))


def end_replica(base: Path) -> None:
    """From now on writes are taken, by every process that has the base open."""
    (base / "_system" / FILE_NAME).unlink(missing_ok=True)
    sync_directory(base / "_system")


def require_restored(base: Path) -> None:
    """Raises Conflict where a restore was begun and not finished."""
    if (base / RESTORING).exists():
        raise Conflict(
            f"a restore into {base} was not finished",
            code="RESTORE_UNFINISHED",
            hint="run the same 'tallystick restore' again: it begins anew, or finishes what was ready",
        )


def open_copy(system: Path, *, segment_bytes_max: int) -> Log:
    """The log of a base that follows another, for whoever brings it up to date."""
    return FilesLog(system, segment_bytes_max=segment_bytes_max)


def require_writable(base: Path) -> None:
    """Raises StorageRefused if the base follows another memory, or its memory was taken over."""
    if not (base / "_system" / FILE_NAME).exists():
        return
    replica = read_replica(base)
    if replica is not None and replica.is_fenced:
        raise StorageRefused(
            f"this memory was taken over by {replica.source}: nothing is written here any more",
            code="TAKEN_OVER",
            hint="connect to the other; reads go on here, and docs/runbooks/take-over.md says what to do",
        )
    if replica is not None:
        raise StorageRefused(
            f"this base follows {replica.source}: it is for reading",
            code="IS_REPLICA",
            hint="write where it is written, or run 'tallystick promote' to make this one the memory",
        )
