"""The comparison: what lies beside the log, held against what the log gives when it is replayed.

Changes nothing below the home. Each database is copied at one moment, the log is replayed up
to the position that the copy says, in another directory, and both are compared there; so
servers may go on writing. A person's edit that waits to be adopted is told, and is no damage.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from tallystick.config import DEFAULT_TENANT
from tallystick.errors import StorageRefused
from tallystick.extension import load
from tallystick.log import Log
from tallystick.projections.consistency_check.replay import (
    LIMIT,
    Finding,
    Status,
    Subject,
    held,
    lock_of,
    naming_bugs,
    unerased,
)
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Parts, Place, Registered, registered
from tallystick.projections.sql import SqlProjection

_BLOCK_BYTES = 512
"""What `st_blocks` counts, whatever the file system."""


class Compared(msgspec.Struct):
    """One projection."""

    name: str
    position: int = 0
    behind: int = 0
    """Commits that it has not seen yet."""
    differs: int = 0
    edited: int = 0
    waits: int = 0
    not_compared: str | None = None


class Comparison(msgspec.Struct, frozen=True):
    projections: list[Compared]
    findings: list[Finding]
    """The first of each status and projection; `Compared` counts them all."""

    @property
    def sound(self) -> bool:
        return not any(each.differs for each in self.projections)


def compare(
    home: Path,
    open_log: Callable[[], Log],
    *,
    database: Path | None = None,
    parts: Parts | None = None,
    tenant: str = DEFAULT_TENANT,
    limit: int = LIMIT,
    progress: Callable[[int], None] = lambda done: None,
) -> Comparison:
    """Of a log that is sound. `database`: where `graph.db` lies, if elsewhere. What was never made is not compared.

    Needs room for a second copy of what it compares in the directory for temporary files. `progress` is told the
    bytes of the log that were replayed, once for each of `compared_in(home)`.
    """
    place = Place(home, LogReader(open_log), database, tenant, parts or {})
    compared, findings = [], []
    with closing(open_log()) as log:
        size = log.head().end
        for number, each in enumerate(compared_in(home)):
            path = _path(each, home, database)
            with tempfile.TemporaryDirectory(prefix="tallystick-comparing-") as elsewhere:
                one = Subject(place, path, log, Path(elsewhere), partial(_advanced, progress, number * size))
                result = Compared(each.name)
                for finding in (*load(each.findings)(one), *unerased(each.name, one)) if path.exists() else ():
                    if _count(result, finding.status) <= limit:
                        findings.append(finding)
                result.position, result.behind, result.not_compared = one.position, one.behind, one.not_compared
                compared.append(result)
    return Comparison(compared, findings)


def compared_in(home: Path) -> list[Registered]:
    """Return the projections that every memory has, and those in another program that this memory has."""
    return [
        each
        for each in registered().values()
        if each.findings and (each.by_default or _path(each, home, None).exists())
    ]


def rebuild(
    home: Path,
    open_log: Callable[[], Log],
    name: str,
    *,
    database: Path | None = None,
    parts: Parts | None = None,
    tenant: str = DEFAULT_TENANT,
) -> None:
    """Throw a projection's database away and build it again from the log. Servers may go on: they notice."""
    path = _path(registered()[name], home, database)
    worker = Follower(Place(home, LogReader(open_log), database, tenant, parts or {})).worker(name)
    with held(lock_of(home, name)):
        if registered()[name].outside:
            worker.projection.reset()
        else:
            if isinstance(worker.projection, SqlProjection) and path.is_file():
                worker.projection.require_replaceable()
            files = [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm")]
            _require_room(files)
            for file in files:
                _remove(file)
    try:
        with naming_bugs(worker.projection):
            worker.catch_up()
    finally:
        worker.close()


def _path(each: Registered, home: Path, database: Path | None) -> Path:
    assert each.copies is not None
    return each.copies.database(home, database)


def _require_room(files: Sequence[Path]) -> None:
    """A new one grows as large as the old, and so does its write-ahead log; servers keep the old until they notice."""
    size = sum(file.stat().st_blocks * _BLOCK_BYTES for file in files if file.is_file())
    if size and (free := shutil.disk_usage(files[0].parent).free) < size:
        raise StorageRefused(
            f"there is no room to build {files[0].name} again: it has {size} bytes, and {free} are free; it was kept",
            hint=f"free some space where {files[0].parent} lies, then do this again",
        )


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageRefused(
            f"{path} cannot be removed: {error.strerror}", hint="move it away yourself; it is built again from the log"
        ) from error


def _advanced(progress: Callable[[int], None], before: int, done: int) -> None:
    progress(before + done)


def _count(result: Compared, status: Status) -> int:
    setattr(result, status, getattr(result, status) + 1)
    return int(getattr(result, status))
