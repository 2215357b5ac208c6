"""The comparison: what lies beside the log, held against what the log gives when it is replayed.

Changes nothing below the home. Each database is copied at one moment, the log is replayed up
to the position that the copy says, in another directory, and both are compared there; so
servers may go on writing. A person's edit that waits to be adopted is told, and is no damage.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from tallystick.commits import REDACTIONS
from tallystick.errors import TallystickError
from tallystick.file_locks import locked
from tallystick.log import Entry, Head, Log, head_after
from tallystick.projections import Projection
from tallystick.projections.content import Contents
from tallystick.projections.database import Connection, Damaged, Reader
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import CHUNK_COMMITS, LogReader
from tallystick.projections.registry import PROJECTIONS, Place
from tallystick.projections.row_diff import differing_rows, doubted, shown
from tallystick.projections.sandboxed_files import SandboxedFiles
from tallystick.projections.sql import SqlProjection
from tallystick.projections.text.projection import DATABASE, TextProjection
from tallystick.projections.text.substring_index import LATE, ORDERED, TRAILER_BYTES, path_of, trailer
from tallystick.projections.views import Views, ontology
from tallystick.projections.views.content_files import NOT_ADOPTED
from tallystick.projections.views.views_db import FileRow, ViewsDb
from tallystick.projections.worker import trouble_of

Name = Literal["views", "sql", "text"]
Status = Literal["differs", "edited", "waits"]
"""It is wrong; a person changed it and that is not adopted yet; a server has not got to it yet."""

NAMES: tuple[Name, ...] = ("views", "sql", "text")
LIMIT = 20
_LOCK_SECONDS = 30.0
_CHUNK_BYTES = 1 << 20

logger = logging.getLogger(__name__)


class Finding(msgspec.Struct, frozen=True):
    projection: Name
    where: str
    """A file below the home, and the table in it."""
    key: str
    what: str
    status: Status = "differs"


class Compared(msgspec.Struct):
    """One projection."""

    name: Name
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
    limit: int = LIMIT,
    progress: Callable[[int], None] = lambda done: None,
) -> Comparison:
    """Of a log that is sound. `database`: where `graph.db` lies, if elsewhere. What was never made is not compared.

    Needs room for a second copy of what it compares in the directory for temporary files. `progress` is told the
    bytes of the log that were replayed, three times over.
    """
    compared, findings = [], []
    with closing(open_log()) as log:
        size = log.head().end
        for number, name in enumerate(NAMES):
            path = PROJECTIONS[name].database(home, database)
            with tempfile.TemporaryDirectory(prefix="tallystick-comparing-") as elsewhere:
                one = _One(home, path, log, Path(elsewhere), partial(_told, progress, number * size))
                result = Compared(name)
                for finding in (*_FINDINGS[name](one), *_unerased(name, one)) if path.exists() else ():
                    if _count(result, finding.status) <= limit:
                        findings.append(finding)
                result.position, result.behind, result.not_compared = one.position, one.behind, one.not_compared
                compared.append(result)
    return Comparison(compared, findings)


def rebuild(home: Path, open_log: Callable[[], Log], name: Name, *, database: Path | None = None) -> None:
    """Throw a projection's database away and build it again from the log. Servers may go on: they notice."""
    path = PROJECTIONS[name].database(home, database)
    with _held(lock_of(home, name)):
        for ending in ("", "-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
    worker = Follower(Place(home, LogReader(open_log), database)).worker(name)
    try:
        with _telling_bugs(worker.projection):
            worker.catch_up()
    finally:
        worker.close()


def _told(progress: Callable[[int], None], before: int, done: int) -> None:
    progress(before + done)


def _count(result: Compared, status: Status) -> int:
    setattr(result, status, getattr(result, status) + 1)
    return int(getattr(result, status))


class _One:
    """One projection that is being compared, and what comes out beside the findings."""

    def __init__(self, home: Path, path: Path, log: Log, elsewhere: Path, progress: Callable[[int], None]) -> None:
        self.home = home
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


# -- graph.db


def _sql(one: _One) -> Iterator[Finding]:
    for what in _damage(one, lambda: _copied(one)):
        yield Finding("sql", one.where, "", what)
        return
    with _opened(one) as db:
        yield from _structure("sql", one, db)
    expected = one.elsewhere / "graph.db"
    yield from _replayed("sql", one, PROJECTIONS["sql"].position, lambda: SqlProjection(expected))
    if one.position and not one.not_compared:
        with _opened(one, expected) as db:
            yield from _guarded("sql", one, _schema(one, db))
            for table, key in _tables(db).items():
                yield from _rows("sql", one, table, db, _whole(table), key)
    yield from _standing("sql", one, lambda: SqlProjection(expected))


def _tables(db: Connection) -> dict[str, list[str]]:
    """Each with the columns of its key."""
    rows = db.execute("SELECT name FROM expected.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    names = [name.decode() for (name,) in rows.fetchall()]
    columns = {name: db.execute(f'PRAGMA expected.table_info("{name}")').fetchall() for name in names}
    return {name: [column[1].decode() for column in columns[name] if column[5]] for name in names}


def _whole(table: str) -> Callable[[str], str]:
    # These are notes to itself, not something that follows from the log.
    where = " WHERE key NOT IN ('scrub', 'owner')" if table == "meta" else ""
    return lambda schema: f'SELECT * FROM {schema}."{table}"{where}'


def _schema(one: _One, db: Connection) -> Iterator[Finding]:
    """Tables and indexes that people added are theirs."""
    objects = "SELECT name, type, sql FROM {}.sqlite_master"
    for name, kind, _ in db.execute(f"{objects.format('expected')} EXCEPT {objects.format('main')}").fetchall():
        yield Finding("sql", one.where, f"{shown(kind)} {shown(name)}", "is not defined as it should be")


# -- the views

_VIEW_TABLES = {
    "definition": ("SELECT id, kind, attrs FROM {}.definition", ["id"]),
    "node": ("SELECT id, created, lamport, offset, fragment FROM {}.node", ["id"]),
    "connection": ("SELECT id, created, modified, source, target, offset, fragment FROM {}.connection", ["id"]),
    "file": ("SELECT path, kind, id, offset, digest, encoding FROM {}.file WHERE due != 'remove'", ["path"]),
    "version": ("SELECT kind, id, digest, blob FROM {}.version", ["kind", "id", "digest"]),
}
"""With their keys. The other columns and tables are about this disk, not about the log."""


def _views(one: _One) -> Iterator[Finding]:
    published = ("registry.json", "ontology.yaml")

    def copied() -> None:
        with _held(lock_of(one.home, "views")):
            _copied(one)
            for name in published:
                if (there := one.home / "_system" / name).is_file():
                    shutil.copyfile(there, one.elsewhere / name)

    for what in _damage(one, copied):
        yield Finding("views", one.where, "", what)
        return
    with _opened(one) as db:
        yield from _structure("views", one, db)
    yield from _replayed("views", one, PROJECTIONS["views"].position, lambda: _views_of(one))
    if one.position and not one.not_compared:
        with _opened(one, one.elsewhere / "_system" / "views.db") as db:
            for table, (select, key) in _VIEW_TABLES.items():
                yield from _rows("views", one, table, db, select.format, key)
            yield from _guarded("views", one, _published(one, db))
            yield from _guarded("views", one, _content_files(one, db))
    yield from _standing("views", one, lambda: _views_of(one))


def _views_of(one: _One) -> Views:
    return Views(one.elsewhere, one.log.line)


def _published(one: _One, db: Connection) -> Iterator[Finding]:
    with closing(sqlite3.connect(one.elsewhere / "_system" / "views.db")) as expected:
        table = ViewsDb(expected)
        known = ontology.OntologyDocument(table.definitions())
        if not known.exists:
            return
        registry, yaml = table.registry(), ontology.to_yaml(known)
    if ViewsDb(db).registry() != registry and not _has_differing_entities(db):
        yield Finding("views", one.where, "", "its entities are not in the order in which they were made")
    yield from _published_file(one, "ontology.yaml", yaml, is_current=True)
    yield from _published_file(one, "registry.json", registry, is_current=_is_current(ViewsDb(db)))


def _has_differing_entities(db: Connection) -> bool:
    return any(
        next(differing_rows(db, select.format, key), None) is not None
        for select, key in (_VIEW_TABLES[table] for table in ("node", "connection"))
    )


def _is_current(table: ViewsDb) -> bool:
    """A large registry is rewritten once a second, not with each commit."""
    left = table.note("registry.json")
    return left is not None and msgspec.json.decode(left)["generation"] == table.generation


def _published_file(one: _One, name: str, expected: bytes, *, is_current: bool) -> Iterator[Finding]:
    where, path = f"_system/{name}", one.elsewhere / name
    there = path.read_bytes() if path.exists() else None
    if there == expected:
        return
    if not is_current:
        yield Finding("views", where, "", "a server has not rewritten it yet", "waits")
    elif there is None:
        yield Finding("views", where, "", "is missing")
    else:
        found, wanted = set(there.splitlines()), set(expected.splitlines())
        lines = [line for line in expected.splitlines() if line not in found]
        lines += [line for line in there.splitlines() if line not in wanted]
        for key in dict.fromkeys(map(_key_of, lines or [b""])):
            yield Finding("views", where, key, "is not what the log says")


def _key_of(line: bytes) -> str:
    """Of a line of the registry: the id of the entity; of another file, the line."""
    return shown(line.strip().partition(b": {")[0].strip(b'"- '))


def _content_files(one: _One, db: Connection) -> Iterator[Finding]:
    files = SandboxedFiles(one.home)
    rows = db.execute("SELECT path, digest FROM expected.file WHERE due != 'remove'").fetchall()
    doubtful = [
        (path.decode(), digest.decode())
        for path, digest in rows
        if _digest(files, tuple(path.decode().split("/"))) != digest.decode()
    ]
    if not doubtful:
        return
    # Nobody writes them now; what was changed since the table was copied is left for the next time.
    with _held(lock_of(one.home, "views")), closing(Reader(one.path)) as reader, reader.snapshot() as now:
        table = ViewsDb(now)
        for path, digest in doubtful:
            row = table.file_at(path)
            if row is not None and row.digest == digest and row.due != "remove":
                yield from _judged(table, files, row)


def _judged(table: ViewsDb, files: SandboxedFiles, row: FileRow) -> Iterator[Finding]:
    there, found = _digest(files, row.parts), files.find(row.parts)
    if there == row.digest:
        return
    if row.due:
        yield Finding("views", row.path, row.id, row.problem or "a server has not written it yet", "waits")
    elif found is None:
        yield Finding("views", row.path, row.id, "is missing")
    elif (found.st_size, found.st_mtime_ns) == (row.size, row.mtime_ns):
        yield Finding("views", row.path, row.id, "its bytes are not what they were, though nobody saved it")
    elif there is not None and found.st_mtime_ns <= (row.mtime_ns or 0) and table.had_version(row.kind, row.id, there):
        yield Finding("views", row.path, row.id, "is an older version of it")
    else:
        yield Finding("views", row.path, row.id, row.problem or NOT_ADOPTED, "edited")


def _digest(files: SandboxedFiles, parts: tuple[str, ...]) -> str | None:
    try:
        return files.digest(parts)
    except (OSError, TallystickError):
        return None


# -- the text index

_TEXTS = """SELECT texts.number AS number, node, name AS type, digest, bytes, crc, unread FROM {0}.texts
LEFT JOIN {0}.types ON types.number = texts.type
WHERE texts.number NOT IN (SELECT number FROM expected.texts WHERE unread IS NOT NULL)"""
"""Without those whose content cannot be read now: whoever proves the blobs names it."""
_RANKED = """SELECT id AS number, c0 AS text FROM {0}.ranked_content
WHERE id NOT IN (SELECT number FROM expected.texts WHERE unread IS NOT NULL)"""


def _text(one: _One) -> Iterator[Finding]:
    unsound: list[Finding] = []

    def copied() -> None:
        # The texts move and are wiped with the rows that say where they are.
        with _held(lock_of(one.home, "text")):
            _copied(one)
            with _opened(one) as db:
                unsound.extend(_folded(one, db))

    for what in _damage(one, copied):
        yield Finding("text", one.where, "", what)
        return
    yield from unsound
    with _opened(one) as db:
        yield from _structure("text", one, db)
        yield from _words(one, db)
    yield from _replayed("text", one, PROJECTIONS["text"].position, lambda: _text_of(one))
    if one.position and not one.not_compared:
        with _opened(one, one.elsewhere / "_system" / "text" / DATABASE) as db:
            yield from _rows("text", one, "texts", db, _TEXTS.format, ["node"])
            yield from _rows("text", one, "ranked", db, _RANKED.format, ["number"])
    yield from _standing("text", one, lambda: _text_of(one))


def _text_of(one: _One) -> TextProjection:
    return TextProjection(one.elsewhere, contents=Contents(one.home))


def _words(one: _One, db: Connection) -> Iterator[Finding]:
    try:
        with doubted():
            db.execute("INSERT INTO ranked (ranked) VALUES ('integrity-check')")
    except Damaged as error:
        where = f"{one.where}, table ranked"
        yield Finding("text", where, "", f"its words are not those of its texts: {error.message}")


def _folded(one: _One, db: Connection) -> Iterator[Finding]:
    generation, ends, newest = _place(db)
    for file in (ORDERED, LATE):
        path = path_of(one.path.parent, generation, file)
        where = str(path.relative_to(one.home))
        rows = db.execute("SELECT number, node, type, start, bytes, crc FROM texts WHERE file = ?", (file,)).fetchall()
        if not rows:
            continue
        try:
            with path.open("rb") as texts:
                for number, node, kind, start, size, crc in rows:
                    if start + size + TRAILER_BYTES > ends[file] or (file == ORDERED and number > newest):
                        yield Finding("text", f"{one.where}, table place", shown(node), "lies behind the last text")
                    elif not _is_whole(texts.fileno(), start, size, crc, trailer(number, kind)):
                        yield Finding("text", where, shown(node), "its text is not what was written")
        except FileNotFoundError:
            yield Finding("text", where, "", "is missing")


def _place(db: Connection) -> tuple[int, tuple[int, int], int]:
    row = db.execute("SELECT generation, ordered_end, late_end, newest FROM place").fetchone()
    if row is None or not all(isinstance(value, int) for value in row):
        raise Damaged("it does not say where it is")
    return row[0], (row[1], row[2]), row[3]


def _is_whole(fd: int, start: int, size: int, crc: int, ending: bytes) -> bool:
    found = 0
    for offset in range(0, size, _CHUNK_BYTES):
        found = zlib.crc32(os.pread(fd, min(_CHUNK_BYTES, size - offset), start + offset), found)
    return found == crc and os.pread(fd, TRAILER_BYTES, start + size) == ending


_FINDINGS: dict[Name, Callable[[_One], Iterator[Finding]]] = {"views": _views, "sql": _sql, "text": _text}


# -- copies and replays


def _copied(one: _One) -> None:
    """As it is at this moment, with whatever is damaged in it."""
    address = f"{one.path.absolute().as_uri()}?mode=rw"
    with closing(sqlite3.connect(address, uri=True, timeout=_LOCK_SECONDS)) as live:
        live.execute("PRAGMA query_only = ON")
        with closing(sqlite3.connect(one.elsewhere / "copy.db")) as copy:
            live.backup(copy)


def _damage(one: _One, look: Callable[[], None]) -> Iterator[str]:
    try:
        with doubted():
            look()
    except (Damaged, TypeError, ValueError, OverflowError) as error:
        yield f"cannot be read: {error}"


@contextmanager
def _opened(one: _One, expected: Path | None = None) -> Iterator[Connection]:
    """The copy; beside it, as schema `expected`, what was replayed. Text comes as bytes: it may be none any more."""
    with closing(sqlite3.connect(one.elsewhere / "copy.db", isolation_level=None)) as db:
        db.text_factory = bytes
        if expected is not None:
            db.execute("ATTACH ? AS expected", (str(expected),))
        yield db


def _structure(name: Name, one: _One, db: Connection) -> Iterator[Finding]:
    """Also whether each index says what its table says."""
    try:
        with doubted():
            said = [shown(row[0]) for row in db.execute(f"PRAGMA integrity_check({LIMIT})")]
    except Damaged as error:
        said = [error.message]
    yield from (Finding(name, one.where, "", each) for each in said if each != "ok")


def _unerased(name: Name, one: _One) -> Iterator[Finding]:
    try:
        with doubted(), _opened(one) as db:
            is_erasing = db.execute(PROJECTIONS[name].erasing).fetchone() is not None
    except Damaged:
        return
    if is_erasing:
        yield Finding(name, one.where, "", "copies of what was redacted or deleted are still to be erased", "waits")


def _guarded(name: Name, one: _One, findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        with doubted():
            yield from findings
    except Damaged as error:
        yield Finding(name, one.where, "", f"cannot be read: {error.message}")


def _rows(
    name: Name, one: _One, table: str, db: Connection, select: Callable[[str], str], key: Sequence[str]
) -> Iterator[Finding]:
    found = differing_rows(db, select, key)
    yield from _guarded(name, one, (Finding(name, f"{one.where}, table {table}", *each) for each in found))


def _replayed(name: Name, one: _One, ask: str, make: Callable[[], Projection]) -> Iterator[Finding]:
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


def _position(one: _One, ask: str) -> Head | None:
    try:
        with doubted(), _opened(one) as db:
            row = db.execute(ask).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Head)
    except (Damaged, msgspec.MsgspecError, TypeError) as error:
        raise Damaged(f"it does not say where it is: {error}") from error


def _standing(name: Name, one: _One, make: Callable[[], Projection]) -> Iterator[Finding]:
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
def _telling_bugs(projection: Projection) -> Iterator[None]:
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


def _replay(projection: Projection, one: _One, until: Head) -> bool:
    try:
        with _telling_bugs(projection):
            return _leads_to(projection, one, until)
    finally:
        projection.close()


def _leads_to(projection: Projection, one: _One, until: Head) -> bool:
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


def lock_of(home: Path, name: Name) -> Path:
    return home / "_system" / f"{name}.lock"


@contextmanager
def _held(lock: Path) -> Iterator[None]:
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
