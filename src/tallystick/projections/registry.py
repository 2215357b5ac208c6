"""The registry: every projection that lies on disk beside a log. A new one is added here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from tallystick.commits import DELETIONS, REDACTIONS, chain
from tallystick.errors import Corrupt
from tallystick.log import Head
from tallystick.log.head_file import HeadFile
from tallystick.log.segments import Segments
from tallystick.projections import Projection, sql, views
from tallystick.projections.database import Damaged, Reader
from tallystick.projections.log_reader import LogReader
from tallystick.projections.text import projection as text


class Place(msgspec.Struct, frozen=True):
    """Where the projections of a tenant lie, and what they follow."""

    home: Path
    log: LogReader
    database: Path | None = None
    """Where `graph.db` lies, if elsewhere."""
    repairs: bool = False
    """Content files that people edited are put right at the start, and what they wrote is kept beside."""

    def lock(self, name: str) -> Path:
        return self.home / "_system" / f"{name}.lock"


class Registered(msgspec.Struct, frozen=True):
    name: str
    make: Callable[[Place], Projection]
    database: Callable[[Path, Path | None], Path]
    """By the home, and where `graph.db` lies if elsewhere: what holds the position, once the projection was made."""
    position: str
    """The query for its position, as JSON."""
    erasing: str
    """The query that finds a row while copies are left of what was redacted or deleted."""

    def is_there(self, place: Place) -> bool:
        path = self.database(place.home, place.database)
        return path.exists() and not (self.name == "sql" and sql.is_of_another(path, place.home))


PROJECTIONS: dict[str, Registered] = {
    each.name: each
    for each in (
        Registered(
            "views",
            lambda place: views.Views(place.home, place.log.line, repairs=place.repairs),
            lambda home, database: views.database_path(home),
            views.POSITION,
            views.ERASING,
        ),
        Registered(
            "sql",
            lambda place: sql.SqlProjection(place.database or sql.database_path(place.home), home=place.home),
            lambda home, database: database or sql.database_path(home),
            sql.POSITION,
            sql.ERASING,
        ),
        Registered(
            "text",
            lambda place: text.TextProjection(place.home),
            lambda home, database: text.database_path(home),
            text.POSITION,
            text.ERASING,
        ),
    )
}

_VERBS = tuple(f'"operation":"{verb.value}"'.encode() for verb in DELETIONS | REDACTIONS)


class PendingErasure(msgspec.Struct, frozen=True):
    """Something that may still hold what was redacted or deleted."""

    where: str
    position: int
    """Up to where it follows the log."""
    commits: list[int]
    """Redactions and deletions that it has not seen. Empty: it has seen them, and copies are left in its files."""


def pending_erasures(home: Path, *, database: Path | None = None) -> list[PendingErasure]:
    """Changes nothing. `database`: where `graph.db` lies, if elsewhere."""
    found = []
    for each in PROJECTIONS.values():
        path = each.database(home, database)
        if path.exists() and (pending := _pending(each, path, home)) is not None:
            found.append(pending)
    return found


def _pending(each: Registered, path: Path, home: Path) -> PendingErasure | None:
    try:
        with closing(Reader(path)) as reader, reader.snapshot() as db:
            row = db.execute(each.position).fetchone()
            is_erasing = db.execute(each.erasing).fetchone() is not None
        at = msgspec.json.decode(row[0], type=Head) if row else Head()
        commits = _unseen(home / "_system", at)
    except (Damaged, Corrupt, msgspec.MsgspecError):
        # It is built again from the log when it is next opened: what is in the old file goes then.
        return PendingErasure(each.name, 0, [])
    return PendingErasure(each.name, at.lamport, commits) if is_erasing or commits else None


def _unseen(system: Path, at: Head) -> list[int]:
    """Reads only: the log is not opened, since that might repair its end. Raises Corrupt where `at` is not on it."""
    with closing(Segments(system / "log")) as segments, closing(HeadFile(system / "head")) as head_file:
        head = head_file.read() or Head()
        segments.refresh()
        lines = [line for _, line, _ in segments.lines(at.end, min(segments.size, head.end))]
    return [chain.decode(line).lamport for line in lines if any(verb in line for verb in _VERBS)]
