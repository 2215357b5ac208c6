"""The registry: every projection of a log, the core's and those that extensions contribute."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallystick.commits import DELETIONS, REDACTIONS, chain
from tallystick.config import DEFAULT_TENANT, Settings
from tallystick.errors import Corrupt
from tallystick.extension import installed
from tallystick.log import Head
from tallystick.log.redaction_index import NEEDLE
from tallystick.log.unopened import unopened
from tallystick.projections import Projection, sql
from tallystick.projections.database import Damaged, Reader
from tallystick.projections.log_reader import LogReader
from tallystick.projections.text import TextIndex
from tallystick.projections.text import projection as text
from tallystick.projections.worker import REST_SECONDS, ProjectionWorker

if TYPE_CHECKING:
    from subprocess import Popen

logger = logging.getLogger(__name__)

Parts = Mapping[str, Any]
"""By projection: what was prepared for it."""
OpenedStore = Callable[[], Any]
"""Returns the store of a process that serves, once it is open."""
Prepare = Callable[[Settings, OpenedStore | None], AbstractContextManager[Callable[[str], Any]]]
"""Prepares a projection in a process, which serves if it has a store. While inside, the result is called with the name
of a tenant and returns its part; None: it has none."""


class Place(msgspec.Struct, frozen=True):
    """Where the projections of a tenant lie, and what they follow."""

    home: Path
    log: LogReader
    database: Path | None = None
    """Where `graph.db` lies, if elsewhere."""
    tenant: str = DEFAULT_TENANT
    parts: Parts = {}
    elsewhere: Callable[[str], Popen[bytes]] | None = None
    """Begins a process that brings the projection of this name to the head, for one that has far to go."""

    def lock(self, name: str) -> Path:
        return self.home / "_system" / f"{name}.lock"


class Use(msgspec.Struct, frozen=True):
    """A projection of an open tenant, for what callers use of it."""

    settings: Settings
    place: Place
    worker: ProjectionWorker
    used: Callable[[], AbstractContextManager[None]]
    """Entered for as long as the tenant must not be closed."""


class Companion(Protocol):
    """The part of a projection that callers use, such as a search index. Created at first use, one per tenant."""

    def close(self) -> None:
        """Called in a thread, before the projection is closed."""
        ...


class Copies(msgspec.Struct, frozen=True):
    """What a projection keeps on disk of what commits say."""

    database: Callable[[Path, Path | None], Path]
    """By the home, and where `graph.db` lies if elsewhere: what holds the position, once the projection was made."""
    position: str
    """The query for its position, as JSON."""
    erasing: str
    """The query that finds a row while copies are left of what was redacted or deleted."""


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    make: Callable[[Place], Projection]
    copies: Copies | None = None
    """None: it keeps nothing that could be erased."""
    rest_seconds: float = REST_SECONDS
    """Between two looks at the log for which nobody waits."""
    closing_seconds: float | None = None
    """How long whoever closes it waits for what is under way; None: until it is done."""
    commits_at_once: int = 0
    """How many to apply together where there are many; 0: as the log is read."""
    by_default: bool = False
    """Whether every server keeps it. It is made of the log alone, so that any process can bring it to the head."""
    prepare: Prepare | None = None
    """Prepares its part of a `Place`, such as the address that it writes to."""
    hands_on: bool = False
    """Whether it follows wherever a tenant is open that it has a part of."""
    hands_on_closed: bool = False
    """Whether a server now and then hands on, too, what others wrote for tenants that are not open in it."""
    companion: Callable[[Use], Companion] | None = None
    findings: str = ""
    """Refers to a function of a `consistency_check.replay.Subject` that yields what differs from the log."""
    outside: str = ""
    """Of one that is kept by another program: what to do while that program is away. It is built again by a reset."""
    drop: Callable[[Settings], str | None] | None = None
    """Deletes what another program keeps of a tenant that is deleted. Returns what could not be, for the operator."""

    def keeps_copies(self, place: Place) -> bool:
        if self.copies is None:
            return False
        path = self.copies.database(place.home, place.database)
        return path.exists() and not (self.name == "sql" and sql.is_of_another(path, place.home))


def _text_index(use: Use) -> TextIndex:
    worker = use.worker
    assert isinstance(worker.projection, text.TextProjection)
    return TextIndex(
        worker.projection,
        worker.catch_up,
        catch_up_within=worker.catch_up_within,
        head=worker.log_head,
        used=use.used,
    )


_SQL = Registered(
    name="sql",
    make=lambda place: sql.SqlProjection(place.database or sql.database_path(place.home), home=place.home),
    copies=Copies(lambda home, database: database or sql.database_path(home), sql.POSITION, sql.ERASING),
    # A page of an index that several of them change is written once.
    commits_at_once=10_000,
    by_default=True,
    findings="tallystick.projections.consistency_check.sql:findings",
)
_TEXT = Registered(
    name="text",
    make=lambda place: text.TextProjection(place.home, place.log.line),
    copies=Copies(lambda home, database: text.database_path(home), text.POSITION, text.ERASING),
    # Whoever searches catches up first, and many texts cost less together.
    rest_seconds=1.0,
    by_default=True,
    companion=_text_index,
    findings="tallystick.projections.consistency_check.text:findings",
)


@cache
def registered() -> dict[str, Registered]:
    """Return every projection by name. One of an extension that is at fault is left out, and logged."""
    theirs: list[Registered] = list(installed().load("projections"))
    # Those that people look at come first.
    ordered = [*(each for each in theirs if each.by_default), _SQL, _TEXT, *theirs]
    found: dict[str, Registered] = {}
    for each in ordered:
        if found.setdefault(each.name, each) is not each:
            logger.warning("a projection named '%s' is left out: there is one already", each.name)
    return found


def by_default() -> list[str]:
    return [name for name, each in registered().items() if each.by_default]


def all_copies() -> dict[str, Copies]:
    return {name: each.copies for name, each in registered().items() if each.copies is not None}


@contextmanager
def prepared(settings: Settings, store: OpenedStore | None = None) -> Iterator[Callable[[str], Parts]]:
    """Prepare all of them in this process, which serves if it has a store. Yields a function that returns the parts of
    a tenant."""
    with ExitStack() as stack:
        made = {
            name: stack.enter_context(each.prepare(settings, store))
            for name, each in registered().items()
            if each.prepare is not None
        }

        def parts_of(tenant: str) -> Parts:
            return {name: part for name, of in made.items() if (part := of(tenant)) is not None}

        yield parts_of


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
    for name, copies in all_copies().items():
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
    for copies in all_copies().values():
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
