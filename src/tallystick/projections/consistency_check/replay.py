"""A projection's database as a copy, and beside it what the log gives when it is replayed up to where the copy is."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from tallystick.commits import REDACTIONS
from tallystick.errors import TallystickError
from tallystick.log import Entry, Head, Log, head_after
from tallystick.projections import Projection
from tallystick.projections.database import Connection, Damaged, mode_of
from tallystick.projections.log_reader import CHUNK_COMMITS
from tallystick.projections.registry import Place, all_copies
from tallystick.projections.row_diff import differing_rows, doubted, shown
from tallystick.projections.worker import trouble_of
from tallystick.system.file_locks import locked

Status = Literal["differs", "edited", "waits"]
"""It is wrong; a person changed it and that is not adopted yet; a server has not got to it yet."""

LIMIT = 20
_LOCK_SECONDS = 30.0

logger = logging.getLogger(__name__)


class Finding(msgspec.Struct, frozen=True):
    projection: str
    where: str
    """A file below the home, and the table in it."""
    key: str
    what: str
    status: Status = "differs"


class Subject:
    """One projection that is being compared, and what comes out beside the findings."""

    def __init__(self, place: Place, path: Path, log: Log, elsewhere: Path, progress: Callable[[int], None]) -> None:
        self.place = place
        self.home = place.home
        self.path = path
        self.log = log
        self.elsewhere = elsewhere
        self.progress = progress
        self.position = 0
        self.behind = 0
        self.not_compared = None if path.exists() else "it was never made"

    @property
    def where(self) -> str:
        return str(self.path.relative_to(self.home)) if self.path.is_relative_to(self.home) else str(self.path)


def copy_database(one: Subject) -> None:
    """As it is at this moment, with whatever is damaged in it."""
    address = f"{one.path.absolute().as_uri()}?{mode_of(one.path)}"
    with closing(sqlite3.connect(address, uri=True, timeout=_LOCK_SECONDS)) as live:
        live.execute("PRAGMA query_only = ON")
        with closing(sqlite3.connect(one.elsewhere / "copy.db")) as copy:
            live.backup(copy)


def damage(one: Subject, look: Callable[[], None]) -> Iterator[str]:
    try:
        with doubted():
            look()
    except (Damaged, TypeError, ValueError, OverflowError) as error:
        yield f"cannot be read: {error}"


@contextmanager
def opened(one: Subject, expected: Path | None = None) -> Iterator[Connection]:
    """The copy; beside it, as schema `expected`, what was replayed. Text comes as bytes: it may be none any more."""
    with closing(sqlite3.connect(one.elsewhere / "copy.db", isolation_level=None)) as db:
        db.text_factory = bytes
        if expected is not None:
            db.execute("ATTACH ? AS expected", (str(expected),))
        yield db


def structure(name: str, one: Subject, db: Connection) -> Iterator[Finding]:
    """Also whether each index says what its table says."""
    try:
        with doubted():
            said = [shown(row[0]) for row in db.execute(f"PRAGMA integrity_check({LIMIT})")]
    except Damaged as error:
        said = [error.message]
    yield from (Finding(name, one.where, "", each) for each in said if each != "ok")


def unerased(name: str, one: Subject) -> Iterator[Finding]:
    try:
        with doubted(), opened(one) as db:
            is_erasing = db.execute(all_copies()[name].erasing).fetchone() is not None
    except Damaged:
        return
    if is_erasing:
        yield Finding(name, one.where, "", "copies of what was redacted or deleted are still to be erased", "waits")


def guarded(name: str, one: Subject, findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        with doubted():
            yield from findings
    except Damaged as error:
        yield Finding(name, one.where, "", f"cannot be read: {error.message}")


def differing(
    name: str, one: Subject, table: str, db: Connection, select: Callable[[str], str], key: Sequence[str]
) -> Iterator[Finding]:
    found = differing_rows(db, select, key)
    yield from guarded(name, one, (Finding(name, f"{one.where}, table {table}", *each) for each in found))


def replayed(name: str, one: Subject, ask: str, make: Callable[[], Projection]) -> Iterator[Finding]:
    """Brings the other one to where the copy says it is."""
    try:
        until = _position(one, ask)
        if until is not None and not _replay(make(), one, until):
            raise Damaged(f"it says that it is at position {until.lamport}, which is not on this log")
    except TallystickError as error:
        if not isinstance(error, Damaged) and not _is_stuck(error):
            raise
        one.not_compared = error.message
        yield Finding(name, one.where, "", error.message)
        return
    if until is None:
        one.behind, one.not_compared = one.log.head().count, "it has seen nothing of the log yet"
        return
    one.position, one.behind = until.lamport, one.log.head().count - until.count
    if one.behind and any(entry.commit.operation in REDACTIONS for entry in one.log.read(until)):
        one.not_compared = "it has not seen a redaction yet, so the log cannot be replayed up to where it is"


def _position(one: Subject, ask: str) -> Head | None:
    try:
        with doubted(), opened(one) as db:
            row = db.execute(ask).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Head)
    except (Damaged, msgspec.MsgspecError, TypeError) as error:
        raise Damaged(f"it does not say where it is: {error}") from error


def standing(name: str, one: Subject, make: Callable[[], Projection]) -> Iterator[Finding]:
    """Whether it can go on from where it is: one that only waits for a server does, one that is stuck does not."""
    trouble = trouble_of(lock_of(one.home, name))
    if trouble is not None:
        what = f"stands still at position {trouble.position}: {trouble.problem}"
        yield Finding(name, one.where, "", what)
    elif one.behind:
        try:
            _replay(make(), one, one.log.head())
        except TallystickError as error:
            if not _is_stuck(error):
                raise
            yield Finding(name, one.where, "", error.message)


def _is_stuck(error: TallystickError) -> bool:
    return error.code == "PROJECTION_STUCK"


@contextmanager
def naming_bugs(projection: Projection) -> Iterator[None]:
    """A commit that a projection cannot show must not look like one that it has not seen yet."""
    try:
        yield
    except TallystickError:
        raise
    except Exception as error:
        logger.exception("projection %s cannot follow the log", projection.name)
        at = projection.position().lamport
        raise TallystickError(
            f"the {projection.name} cannot show what was committed behind position {at}: {type(error).__name__}",
            code="PROJECTION_STUCK",
            hint="nothing is lost, the log has everything; please report this bug",
        ) from error


def _replay(projection: Projection, one: Subject, until: Head) -> bool:
    try:
        with naming_bugs(projection):
            return _leads_to(projection, one, until)
    finally:
        projection.close()


def _leads_to(projection: Projection, one: Subject, until: Head) -> bool:
    """False when the log does not lead there."""
    while (at := projection.position()) != until:
        for entries in _drafts(one.log.read(at), until.end):
            head = head_after(entries, at)
            projection.apply(entries, head)
            one.progress(head.end)
            at = projection.position()
            if at != head:
                break  # It wants to begin again.
        else:
            return at == until
    return True


def _drafts(reading: Iterator[Entry], end: int) -> Iterator[list[Entry]]:
    entries: list[Entry] = []
    for entry in reading:
        if entry.end > end:
            break
        entries.append(entry)
        if entry.commit.ends_draft and len(entries) >= CHUNK_COMMITS:
            yield entries
            entries = []
    if entries:
        yield entries


# -- turns


def lock_of(home: Path, name: str) -> Path:
    return home / "_system" / f"{name}.lock"


@contextmanager
def held(lock: Path) -> Iterator[None]:
    """No follower writes meanwhile. Where there is no lock yet, none ever did."""
    if not lock.exists():
        yield
        return
    with locked(lock, timeout_seconds=_LOCK_SECONDS, create=False) as is_ours:
        if not is_ours:
            raise TallystickError(
                f"another process keeps {lock.name} for too long", code="PROJECTION_BUSY", hint="try again"
            )
        yield
