"""The vectors on disk: `_system/vectors.db`, a row for each entity that says something, and its vector once it has one.

Following the log needs no model: what is written waits for its vector, what is rewritten, deleted or redacted loses
the one it had. So a process without the model erases as well as one with it. A vector tells much of its text, and is
treated as a copy of it. What was redacted, even in part, gets no vector until it is written again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from tallystick.commits import DELETIONS, REDACTIONS, chain
from tallystick.commits.mask import REDACTED
from tallystick.commits.reserved_attributes import said
from tallystick.errors import TallystickError
from tallystick.extensions.vectors.registered import database_path
from tallystick.log import Entry, Head
from tallystick.projections.content import Contents
from tallystick.projections.database import Connection, Damaged, Database, Reader, check_follows, check_version
from tallystick.projections.text.entity_words import Entity, values
from tallystick.projections.text.projection import Key, key_of, read_entity

CHARACTERS_MAX = 4_000
"""Of a text: more than the model reads."""

_VERSION = 1
_SCRUB_AGAIN_SECONDS = 5.0
_REDACTED, _DELETED = 1, 2
"""Why copies have to go: the first is waited for."""
_DUE = dict.fromkeys(REDACTIONS, _REDACTED) | dict.fromkeys(DELETIONS, _DELETED)
_TABLES = ("place", "entities", "vectors", "dropped")
_SCHEMA = """
CREATE TABLE place (
  one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER, head TEXT, scrub INTEGER, epoch INTEGER, model TEXT);
CREATE TABLE entities (
  number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, is_edge INTEGER NOT NULL, type TEXT NOT NULL,
  log_offset INTEGER NOT NULL, vector INTEGER);
CREATE UNIQUE INDEX entities_id ON entities (id, is_edge);
CREATE INDEX entities_waiting ON entities (number) WHERE vector IS NULL;
CREATE TABLE vectors (number INTEGER PRIMARY KEY AUTOINCREMENT, entity INTEGER NOT NULL, codes BLOB NOT NULL);
CREATE TABLE dropped (change INTEGER PRIMARY KEY AUTOINCREMENT, vector INTEGER NOT NULL)
"""


def counts(path: Path) -> tuple[int, int]:
    """How many texts have a vector, and how many there are. Changes nothing."""
    if not path.exists():
        return 0, 0
    try:
        with closing(Reader(path)) as reader, reader.snapshot() as db:
            made, texts = db.execute("SELECT count(vector), count(*) FROM entities").fetchone()
            return made, texts
    except Damaged:
        # Built again when it is next opened.
        return 0, 0


class Waiting(msgspec.Struct, frozen=True):
    """A text without a vector."""

    number: int
    """Another one as soon as the entity is touched: a vector that comes too late finds nothing to belong to."""
    text: str


class VectorProjection:
    name = "vectors"

    def __init__(self, home: Path, line: Callable[[int], bytes]) -> None:
        self.path = database_path(home)
        self._line = line
        self._contents = Contents(home)
        self._database = Database(self.path, _prepare)
        self.has_waiting = threading.Event()
        """Set at the head while texts wait for a vector."""

    # -- the contract

    def position(self) -> Head:
        return self._database.position(_read_head)

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        with self._database.transaction() as db:
            check_follows(_read_head(db), entries, head)
            due = min((_DUE[each.commit.operation] for each in entries if each.commit.operation in _DUE), default=0)
            for key, entity in _outcome(entries).items():
                _drop(db, key)
                if entity is not None and _says_something(entity):
                    db.execute(
                        "INSERT INTO entities (id, is_edge, type, log_offset) VALUES (?, ?, ?, ?)",
                        (*key, entity.type, entity.offset),
                    )
            db.execute("UPDATE place SET head = ?", (msgspec.json.encode(head).decode(),))
            if due:
                db.execute("UPDATE place SET scrub = CASE WHEN scrub THEN min(scrub, ?) ELSE ? END", (due, due))

    def settle(self, *, final: bool = False) -> float | None:
        with self._database.guarded() as db:
            if db.execute("SELECT 1 FROM entities WHERE vector IS NULL LIMIT 1").fetchone():
                self.has_waiting.set()
        if self._due() == _DELETED and not final and (rest := self._database.rest_seconds):
            return rest
        return None if self.erase() else _SCRUB_AGAIN_SECONDS

    def erase(self) -> bool:
        if not self._due():
            return True
        with self._database.paced():
            if not self._database.scrub():
                return False
        with self._database.transaction() as db:
            db.execute("UPDATE place SET scrub = 0")
        return True

    def reset(self) -> None:
        with self._database.transaction() as db:
            for table in _TABLES:
                db.execute(f"DROP TABLE {table}")
            _make_tables(db)
            db.execute("UPDATE place SET scrub = ?", (_REDACTED,))

    def close(self) -> None:
        self._database.close()

    def distrust(self, why: str) -> None:
        """A reader met damage."""
        self._database.distrust(why)

    # -- vectors; for who holds the projection's lock, at the head

    def use_model(self, identity: str) -> None:
        """Vectors of another model are thrown away, and their texts wait again."""
        with self._database.transaction() as db:
            if db.execute("SELECT 1 FROM place WHERE model = ?", (identity,)).fetchone():
                return
            db.execute("DELETE FROM vectors")
            db.execute("DELETE FROM dropped")
            db.execute("UPDATE entities SET vector = NULL")
            db.execute("UPDATE place SET model = ?, epoch = ?", (identity, _new_epoch()))

    def waiting(self, limit: int) -> list[Waiting]:
        """The oldest first. Empty: `has_waiting` is taken back."""
        with self._database.guarded() as db:
            rows = db.execute(
                "SELECT number, log_offset FROM entities WHERE vector IS NULL ORDER BY number LIMIT ?", (limit,)
            ).fetchall()
        if not rows:
            self.has_waiting.clear()
        return [Waiting(number, self._text(offset)) for number, offset in rows]

    def put(self, identity: str, vectors: Mapping[int, bytes]) -> None:
        """Of those texts that still wait, for vectors of this model."""
        with self._database.transaction() as db:
            if not db.execute("SELECT 1 FROM place WHERE model = ?", (identity,)).fetchone():
                return
            for number, codes in vectors.items():
                if db.execute("SELECT 1 FROM entities WHERE number = ? AND vector IS NULL", (number,)).fetchone():
                    row = db.execute("INSERT INTO vectors (entity, codes) VALUES (?, ?)", (number, codes)).lastrowid
                    db.execute("UPDATE entities SET vector = ? WHERE number = ?", (row, number))

    def _text(self, log_offset: int) -> str:
        entity = read_entity(chain.decode(self._line(log_offset)), log_offset)
        # Who and when before what, as people say it: the order counts. Not the id, which words find.
        return "\n".join([*sorted(values(said(entity.attrs)), key=len), self._content(entity)])[:CHARACTERS_MAX]

    def _content(self, entity: Entity) -> str:
        content = entity.content
        if content is None or content.get("encoding") != "utf-8" or content.get("text") == REDACTED:
            return ""
        try:
            return self._contents.read(content)[: 4 * CHARACTERS_MAX].decode("utf-8", "ignore")
        except TallystickError:
            # The text index says that it cannot be read.
            return ""

    def _due(self) -> int:
        with self._database.guarded() as db:
            row = db.execute("SELECT scrub FROM place").fetchone()
        return int(row[0]) if row else 0


def _outcome(entries: Sequence[Entry]) -> dict[Key, Entity | None]:
    """What is left of each entity that the commits are about; in the order in which they were last written."""
    found: dict[Key, Entity | None] = {}
    for entry in entries:
        entity = None if entry.commit.operation in _DUE else read_entity(entry.commit, entry.offset)
        key = key_of(entry.commit) if entity is None else (entity.id, entity.is_edge)
        found.pop(key, None)
        found[key] = entity
    return found


def _says_something(entity: Entity) -> bool:
    """Besides its id and its type, which words find."""
    return entity.content is not None or any(values(said(entity.attrs)))


def _drop(db: Connection, key: Key) -> None:
    row = db.execute("SELECT number, vector FROM entities WHERE id = ? AND is_edge = ?", key).fetchone()
    if row is None:
        return
    number, vector = row
    db.execute("DELETE FROM entities WHERE number = ?", (number,))
    if vector is not None:
        db.execute("DELETE FROM vectors WHERE number = ?", (vector,))
        db.execute("INSERT INTO dropped (vector) VALUES (?)", (vector,))


def _read_head(db: Connection) -> str:
    row = db.execute("SELECT head FROM place").fetchone()
    if row is None:
        raise Damaged("it does not say where it is")
    return str(row[0])


def _prepare(db: Connection) -> None:
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        db.execute("BEGIN IMMEDIATE")
        _make_tables(db)
        db.execute("COMMIT")
    (version,) = db.execute("SELECT version FROM place").fetchone() or (0,)
    check_version(version, _VERSION, "vectors.db")


def _make_tables(db: Connection) -> None:
    for statement in _SCHEMA.split(";\n"):
        db.execute(statement)
    db.execute("INSERT INTO place VALUES (1, ?, '', 0, ?, '')", (_VERSION, _new_epoch()))


def _new_epoch() -> int:
    """Names the time in which a number stands for the same vector; no two are alike."""
    return time.time_ns() // 1000
