"""The registry: every projection of a log. A new one is added here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING

import msgspec

from tallystick.commits import DELETIONS, REDACTIONS, chain
from tallystick.config import DEFAULT_TENANT
from tallystick.errors import Corrupt
from tallystick.extensions.cypher import projection as cypher
from tallystick.extensions.ontology import views
from tallystick.extensions.proofs import tiles
from tallystick.extensions.vectors import projection as vectors
from tallystick.log import Head
from tallystick.log.redaction_index import NEEDLE
from tallystick.log.unopened import unopened
from tallystick.projections import Projection, sql
from tallystick.projections.database import Damaged, Reader
from tallystick.projections.log_reader import LogReader
from tallystick.projections.text import projection as text
from tallystick.projections.worker import REST_SECONDS

if TYPE_CHECKING:
    from subprocess import Popen

    from tallystick.commits.signed_note import SignerKey
    from tallystick.extensions.cypher.engine import EngineThread
    from tallystick.extensions.openlineage.lineage_emitter import Destination
    from tallystick.extensions.proofs.witnesses import WitnessAddress


class Place(msgspec.Struct, frozen=True):
    """Where the projections of a tenant lie, and what they follow."""

    home: Path
    log: LogReader
    database: Path | None = None
    """Where `graph.db` lies, if elsewhere."""
    repairs: bool = False
    """Content files that people edited are put right at the start, and what they wrote is kept beside."""
    lineage: Destination | None = None
    """Where events go, if they go anywhere."""
    keys: tuple[SignerKey, ...] = ()
    """Those that checkpoints of the log are signed with, if any are."""
    witnesses: tuple[WitnessAddress, ...] = ()
    """Who is asked to cosign them."""
    cypher: EngineThread | None = None
    """The engine that has a graph of it, if one does."""
    tenant: str = DEFAULT_TENANT
    """As which it is known there."""
    elsewhere: Callable[[str], Popen[bytes]] | None = None
    """Begins a process that brings the projection of this name to the head, for one that has far to go."""

    def lock(self, name: str) -> Path:
        return self.home / "_system" / f"{name}.lock"


class Copies(msgspec.Struct, frozen=True):
    """What a projection keeps on disk of what commits say."""

    database: Callable[[Path, Path | None], Path]
    """By the home, and where `graph.db` lies if elsewhere: what holds the position, once the projection was made."""
    position: str
    """The query for its position, as JSON."""
    erasing: str
    """The query that finds a row while copies are left of what was redacted or deleted."""


class Registered(msgspec.Struct, frozen=True):
    name: str
    make: Callable[[Place], Projection]
    copies: Copies | None
    """None: it keeps nothing that could be erased."""
    rest_seconds: float = REST_SECONDS
    """Between two looks at the log for which nobody waits."""
    closing_seconds: float | None = None
    """How long whoever closes it waits for what is under way; None: until it is done."""
    commits_at_once: int = 0
    """How many to apply together where there are many; 0: as the log is read."""
    by_default: bool = False
    """Whether every server keeps it. It is made of the log alone, so that any process can bring it to the head."""
    is_wanted: Callable[[Place], bool] = lambda place: False
    """Whether it follows wherever the tenant is open, because somebody else wants what it makes."""

    def keeps_copies(self, place: Place) -> bool:
        if self.copies is None:
            return False
        path = self.copies.database(place.home, place.database)
        return path.exists() and not (self.name == "sql" and sql.is_of_another(path, place.home))


def _lineage(place: Place) -> Projection:
    # Most processes hand nothing on, and start faster without it.
    from tallystick.extensions.openlineage.lineage_emitter import LineageEmitter

    if place.lineage is None:
        raise ValueError("no place is named for events to go to")
    return LineageEmitter(place.home / "_system", place.log, place.lineage)


def _tiles(place: Place) -> Projection:
    if not place.keys:
        return tiles.TilesProjection(place.home)
    # Most processes sign nothing, and start faster without what it takes.
    from tallystick.extensions.proofs.checkpoints import SignedTiles
    from tallystick.extensions.proofs.witnesses import Witnesses

    return SignedTiles(place.home, place.keys, Witnesses(place.witnesses) if place.witnesses else None)


PROJECTIONS: dict[str, Registered] = {
    each.name: each
    for each in (
        Registered(
            "views",
            lambda place: views.Views(place.home, place.log.line, repairs=place.repairs),
            Copies(lambda home, database: views.database_path(home), views.POSITION, views.ERASING),
            by_default=True,
        ),
        Registered(
            "sql",
            lambda place: sql.SqlProjection(place.database or sql.database_path(place.home), home=place.home),
            Copies(lambda home, database: database or sql.database_path(home), sql.POSITION, sql.ERASING),
            # A page of an index that several of them change is written once.
            commits_at_once=10_000,
            by_default=True,
        ),
        Registered(
            "text",
            lambda place: text.TextProjection(place.home, place.log.line),
            Copies(lambda home, database: text.database_path(home), text.POSITION, text.ERASING),
            # Whoever searches catches up first, and many texts cost less together.
            rest_seconds=1.0,
            by_default=True,
        ),
        Registered(
            "vectors",
            lambda place: vectors.VectorProjection(place.home, place.log.line),
            Copies(lambda home, database: vectors.database_path(home), vectors.POSITION, vectors.ERASING),
            rest_seconds=1.0,
        ),
        Registered(
            "cypher",
            lambda place: cypher.CypherProjection(place.home, place.cypher, place.tenant),
            Copies(lambda home, database: cypher.database_path(home), cypher.POSITION, cypher.ERASING),
            closing_seconds=3.0,
            commits_at_once=2_000,
            is_wanted=lambda place: place.cypher is not None,
        ),
        Registered("lineage", _lineage, None, closing_seconds=3.0, is_wanted=lambda place: place.lineage is not None),
        Registered(
            "tiles",
            _tiles,
            None,
            rest_seconds=tiles.SIGNED_EVERY_SECONDS,
            commits_at_once=20_000,
            is_wanted=lambda place: bool(place.keys),
        ),
    )
}

BY_DEFAULT = [name for name, each in PROJECTIONS.items() if each.by_default]
COPIES = {name: each.copies for name, each in PROJECTIONS.items() if each.copies is not None}

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
    for name, copies in COPIES.items():
        path = copies.database(home, database)
        if path.exists() and (pending := _pending(name, copies, path, home)) is not None:
            found.append(pending)
    return found


def pending_redactions(home: Path, *, database: Path | None = None) -> list[PendingErasure]:
    """Those of the pending erasures that a redaction waits for: a deletion alone is not among them."""
    pending = pending_erasures(home, database=database)
    if not pending:
        return []
    with unopened(home / "_system") as log:
        lines = [chain.decode(line) for _, line in log.segments.lines_with(NEEDLE, 0, log.end)]
    redactions = {commit.lamport for commit in lines if commit.operation in REDACTIONS}
    return [each for each in pending if redactions.intersection(each.commits) or (redactions and not each.commits)]


def _pending(name: str, copies: Copies, path: Path, home: Path) -> PendingErasure | None:
    try:
        with closing(Reader(path)) as reader, reader.snapshot() as db:
            at = _position(copies, db)
            is_erasing = db.execute(copies.erasing).fetchone() is not None
        commits = _unseen(home / "_system", at)
    except (Damaged, Corrupt, msgspec.MsgspecError):
        # It is built again from the log when it is next opened: what is in the old file goes then.
        return PendingErasure(name, 0, [])
    return PendingErasure(name, at.lamport, commits) if is_erasing or commits else None


def _unseen(system: Path, at: Head) -> list[int]:
    """Raises Corrupt where `at` is not on the log."""
    with unopened(system) as log:
        lines = [line for _, line, _ in log.segments.lines(at.end, log.end)]
    return [chain.decode(line).lamport for line in lines if any(verb in line for verb in _VERBS)]


def check_not_removed(home: Path) -> None:
    """For who finds no commit there. Raises Corrupt where something says that there were some: what follows a log
    never is before it, and is all that is left to tell."""
    for copies in COPIES.values():
        path = copies.database(home, None)
        position = _followed(copies, path).lamport if path.exists() else 0
        if position:
            raise Corrupt(
                f"there is no log in {home}, but {path.name} follows one up to position {position}: it was removed",
                hint=f"bring it back from a backup or an export; to begin a new memory, move {home} away",
            )


def _followed(copies: Copies, path: Path) -> Head:
    try:
        with closing(Reader(path)) as reader, reader.snapshot() as db:
            return _position(copies, db)
    except (Damaged, msgspec.MsgspecError):
        return Head()


def _position(copies: Copies, db: Connection) -> Head:
    row = db.execute(copies.position).fetchone()
    return msgspec.json.decode(row[0], type=Head) if row else Head()
