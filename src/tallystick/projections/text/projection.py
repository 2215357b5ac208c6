"""The text index on disk: which node has which text, and where it stands.

`_system/text/`: a small database and the folded files beside it. The database decides: a text
in the files that no row points to is debris. Files are written before the transaction that
points to them, and wiped after the one that lets go of them, from a note it left.
The files are not synced. A power cut can take pages from them that the database counts on,
so the checksums are compared once after each boot.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from tallystick.commits import Verb
from tallystick.commits.payloads import NodePayload, read_extent, read_node, read_target
from tallystick.errors import StorageRefused, TallystickError
from tallystick.log import Entry, Head
from tallystick.projections.content import Contents
from tallystick.projections.database import Connection, Damaged, Database, check_follows
from tallystick.projections.text.substring_index import (
    LATE,
    ORDERED,
    TRAILER_BYTES,
    Place,
    SubstringWriter,
    folded_pieces,
    path_of,
)

DATABASE = "text.db"
POSITION = "SELECT head FROM place WHERE head != ''"
ERASING = "SELECT 1 FROM place WHERE scrub"
RANKED_CHARACTERS_MAX = 1 << 20
"""Of a longer text only the beginning is ranked; all of it is found by substring."""

_VERSION = 2
_SPARE_BYTES = 8 << 20
"""Wiped or late texts of at least so much before moving to new files is worth it."""
_STALE_MAX = 10_000
_SCRUB_AGAIN_SECONDS = 5.0
_READ_AGAIN_SECONDS = 10.0
_REDACTED, _DELETED = 1, 2
"""Why copies of texts have to go: the first is waited for."""
_SCHEMA = """
CREATE TABLE place (
  one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER, head TEXT, boot TEXT, generation INTEGER,
  ordered_end INTEGER, late_end INTEGER, newest INTEGER, wiped INTEGER, rewrites INTEGER, stale INTEGER, scrub INTEGER);
CREATE TABLE types (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE texts (
  number INTEGER PRIMARY KEY, node TEXT NOT NULL UNIQUE, type INTEGER NOT NULL, digest BLOB,
  file INTEGER, start INTEGER, bytes INTEGER, crc INTEGER, unread TEXT);
CREATE INDEX texts_unread ON texts (number) WHERE unread IS NOT NULL;
CREATE TABLE wipes (file INTEGER, start INTEGER, bytes INTEGER);
CREATE VIRTUAL TABLE ranked USING fts5 (text, tokenize = 'porter unicode61');
"""

logger = logging.getLogger(__name__)


def database_path(home: Path) -> Path:
    return home / "_system" / "text" / DATABASE


class At(msgspec.Struct, array_like=True):
    """The one row of `place`."""

    head: str
    boot: str
    generation: int
    ordered_end: int
    late_end: int
    newest: int
    """The largest number in the ordered file."""
    wiped: int
    rewrites: int
    """Counts transactions that let go of texts: a reader that sees it change looks again."""
    stale: int
    """Texts deleted from the ranked index since its last optimize: their words are still in its pages."""
    scrub: int
    """Why copies of texts have to go, or 0."""

    @property
    def ends(self) -> tuple[int, int]:
        return self.ordered_end, self.late_end


class _Row(msgspec.Struct, array_like=True, frozen=True):
    number: int
    type: int
    digest: bytes | None
    file: int | None
    start: int | None
    bytes: int | None
    crc: int | None

    @property
    def place(self) -> Place | None:
        if self.file is None or self.start is None or self.bytes is None or self.crc is None:
            return None
        return Place(self.file, self.start, self.bytes, self.crc)


class _Node(msgspec.Struct, frozen=True):
    """A node as the commits at hand leave it; `number` is the commit that made it."""

    number: int
    type: str
    content: dict[str, Any] | None


class TextProjection:
    name = "text"

    def __init__(self, home: Path, *, contents: Contents | None = None) -> None:
        """`contents`: where the blobs are, if not in the home."""
        self.directory = home / "_system" / "text"
        self._contents = contents or Contents(home)
        self._database = Database(self.directory / DATABASE, _prepare, keeps_rejected=False)
        self._checked = False
        self._read_again = 0.0

    # -- the contract

    def position(self) -> Head:
        return self._database.position(self._checked_head)

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        with self._changing() as (db, at, substrings):
            check_follows(at.head, entries, head)
            nodes, due = _outcome(db, entries, head.count - len(entries))
            for node_id, node in sorted(nodes.items(), key=lambda item: item[1].number if item[1] else 0):
                self._put(db, at, substrings, node_id, node)
            at.head = msgspec.json.encode(head).decode()
            at.scrub = min(at.scrub or due, due or at.scrub)

    def settle(self, *, final: bool = False) -> float | None:
        with self._database.guarded() as db:
            at = read_place(db)
            if db.execute("SELECT 1 FROM wipes").fetchone():
                with self._substrings(at) as substrings:
                    self._wipe(db, substrings)
            self._read_the_unread(db)
        if at.scrub:
            rest = 0.0 if final or at.scrub == _REDACTED else self._database.rest_seconds
            return rest or (None if self.erase() else _SCRUB_AGAIN_SECONDS)
        if at.stale > _STALE_MAX:
            self._optimize()
        if max(at.wiped, at.late_end) > max(_SPARE_BYTES, at.ordered_end // 2):
            self._move()
        return None

    def erase(self) -> bool:
        with self._database.guarded() as db:
            due = read_place(db).scrub
        if not due:
            return True
        with self._database.paced():
            return self._scrub()

    def reset(self) -> None:
        with self._database.transaction() as db:
            for table in ("place", "types", "texts", "wipes", "ranked"):
                db.execute(f"DROP TABLE {table}")
            _make_tables(db)
            db.execute("UPDATE place SET scrub = 1")
            generation = read_place(db).generation
        self._drop_others(generation)

    def close(self) -> None:
        self._database.close()

    def distrust(self, why: str) -> None:
        """A reader met damage."""
        self._database.distrust(why)

    # -- one text

    def _put(self, db: Connection, at: At, substrings: SubstringWriter, node_id: str, node: _Node | None) -> None:
        row = _find(db, node_id)
        if node is None:
            if row is not None:
                _let_go(db, at, row)
                db.execute("DELETE FROM texts WHERE number = ?", (row.number,))
            return
        type_number = _type_number(db, node.type)
        if row is not None:
            if (row.number, row.type, row.digest) == (node.number, type_number, _digest(node.content)):
                return
            _let_go(db, at, row)
            db.execute("DELETE FROM texts WHERE number = ?", (row.number,))
        self._add(db, at, substrings, node_id, node, type_number)

    def _add(
        self, db: Connection, at: At, substrings: SubstringWriter, node_id: str, node: _Node, type_number: int
    ) -> None:
        place = unread = None
        file = ORDERED if node.number > at.newest else LATE
        try:
            text = self._text(node.content)
            if text:
                place = substrings.put(file, folded_pieces(text), node.number, type_number)
        except (TallystickError, UnicodeDecodeError) as error:
            logger.warning("the content of '%s' cannot be searched: %s", node_id, error)
            unread = msgspec.json.encode(node.content).decode()
        if place is not None:
            at.newest = max(at.newest, node.number if file == ORDERED else 0)
            ranked = text[: 4 * RANKED_CHARACTERS_MAX].decode("utf-8", "ignore")[:RANKED_CHARACTERS_MAX]
            db.execute("INSERT INTO ranked (rowid, text) VALUES (?, ?)", (node.number, ranked))
        where = (place.file, place.start, place.bytes, place.crc) if place else (None,) * 4
        db.execute(
            "INSERT INTO texts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (node.number, node_id, type_number, _digest(node.content), *where, unread),
        )

    def _text(self, content: dict[str, Any] | None) -> bytes:
        """Raises with code CONTENT_READ_FAILED."""
        if content is None or content.get("encoding") != "utf-8":
            return b""
        return self._contents.read(content)

    def _read_the_unread(self, db: Connection) -> None:
        """A blob may come back. Not looked for all the time: it may be large and still not what it should be."""
        if time.monotonic() < self._read_again:
            return
        self._read_again = time.monotonic() + _READ_AGAIN_SECONDS
        rows = db.execute("SELECT number, node, type, unread FROM texts WHERE unread IS NOT NULL").fetchall()
        for number, node_id, type_number, unread in rows:
            content = msgspec.json.decode(unread)
            try:
                self._text(content).decode()
            except (TallystickError, UnicodeDecodeError):
                continue
            with self._changing() as (db, at, substrings):
                db.execute("DELETE FROM texts WHERE number = ?", (number,))
                self._add(db, at, substrings, node_id, _Node(number, "", content), type_number)

    # -- files and transactions

    @contextmanager
    def _changing(self) -> Iterator[tuple[Connection, At, SubstringWriter]]:
        """A transaction over rows and files. What the rows let go of is wiped when it is committed."""
        with self._database.guarded() as db, self._substrings(at := read_place(db)) as substrings:
            with self._database.transaction():
                yield db, at, substrings
                at.ordered_end, at.late_end = substrings.ends
                _write_place(db, at)
            self._wipe(db, substrings)

    @contextmanager
    def _substrings(self, at: At) -> Iterator[SubstringWriter]:
        try:
            substrings = SubstringWriter(self.directory, at.generation, list(at.ends))
            try:
                yield substrings
            finally:
                substrings.close()
        except OSError as error:
            raise StorageRefused(
                f"the text index could not be written: {error.strerror}", hint="free some space; the log has everything"
            ) from error

    def _wipe(self, db: Connection, substrings: SubstringWriter) -> None:
        wipes = db.execute("SELECT file, start, bytes FROM wipes").fetchall()
        for file, start, size in wipes:
            substrings.wipe(file, start, size)
        if wipes:
            db.execute("DELETE FROM wipes")

    def _scrub(self) -> bool:
        """The words of what is gone are in the ranked index's older pages, its bytes in files and free pages."""
        with self._database.guarded() as db, self._substrings(at := read_place(db)) as substrings:
            self._wipe(db, substrings)
            substrings.wipe_debris()
            substrings.sync()
        self._drop_others(at.generation)
        self._optimize()
        if not self._database.scrub():
            return False
        with self._database.transaction() as db:
            db.execute("UPDATE place SET scrub = 0")
        return True

    def _optimize(self) -> None:
        with self._database.transaction() as db:
            db.execute("INSERT INTO ranked (ranked) VALUES ('optimize')")
            db.execute("UPDATE place SET stale = 0")

    def _move(self) -> None:
        """All texts to a new pair of files, in order. Readers keep the old pair mapped for as long as they need it."""
        with self._database.guarded() as db:
            at = read_place(db)
        fresh = msgspec.structs.replace(at, generation=at.generation + 1, ordered_end=0, late_end=0, newest=0, wiped=0)
        with self._substrings(at) as old, self._substrings(fresh) as new, self._database.transaction():
            for number, type_number, *where in db.execute(
                "SELECT number, type, file, start, bytes, crc FROM texts WHERE file IS NOT NULL ORDER BY number"
            ).fetchall():
                place = new.put(ORDERED, old.pieces(Place(*where)), number, type_number)
                if place.crc != where[3]:
                    raise Damaged(f"the text of node number {number} is not what it was")
                fresh.newest = number
                db.execute("UPDATE texts SET file = ?, start = ? WHERE number = ?", (ORDERED, place.start, number))
            db.execute("DELETE FROM wipes")
            fresh.ordered_end, fresh.late_end = new.ends
            _write_place(db, fresh)
        self._drop_others(fresh.generation)

    def _drop_others(self, generation: int) -> None:
        keep = {path_of(self.directory, generation, file) for file in (ORDERED, LATE)}
        for path in self.directory.glob("*.folded"):
            if path not in keep:
                path.unlink(missing_ok=True)

    # -- opening

    def _checked_head(self, db: Connection) -> str:
        at = read_place(db)
        if not self._checked and not (_boot() and at.boot == _boot()):
            self._check(db, at)
        self._checked = True
        if not at.head:
            self._drop_others(at.generation)
        return at.head

    def _check(self, db: Connection, at: At) -> None:
        """Once after a boot. Raises Damaged."""
        self._drop_others(at.generation)
        with self._substrings(at) as substrings:
            self._wipe(db, substrings)
            for number, *where in db.execute(
                "SELECT number, file, start, bytes, crc FROM texts WHERE file IS NOT NULL"
            ):
                if not substrings.is_sound(Place(*where), number):
                    raise Damaged(f"the text of node number {number} is not what it was")
        db.execute("UPDATE place SET boot = ?", (_boot(),))


def read_place(db: Connection) -> At:
    row = db.execute(f"SELECT {', '.join(At.__struct_fields__)} FROM place").fetchone()
    if row is None:
        raise Damaged("it does not say where it is")
    return At(*row)


def _write_place(db: Connection, at: At) -> None:
    names = At.__struct_fields__
    db.execute(f"UPDATE place SET {', '.join(f'{name} = ?' for name in names)}", msgspec.structs.astuple(at))


def _prepare(db: Connection) -> None:
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        db.execute("BEGIN IMMEDIATE")
        _make_tables(db)
        db.execute("COMMIT")
    version = db.execute("SELECT version FROM place").fetchone()
    if version != (_VERSION,):
        raise Damaged("it was made by another version")


def _make_tables(db: Connection) -> None:
    for statement in _SCHEMA.split(";\n"):
        db.execute(statement)
    # A generation that never was: readers may still have files of an index mapped that was given up.
    generation = time.time_ns() // 1000
    db.execute("INSERT INTO place VALUES (1, ?, '', ?, ?, 0, 0, 0, 0, 0, 0, 0)", (_VERSION, _boot(), generation))


def _outcome(db: Connection, entries: Sequence[Entry], seen: int) -> tuple[dict[str, _Node | None], int]:
    """What the commits make of each node they are about, None for one that is gone; and why copies have to go."""
    nodes: dict[str, _Node | None] = {}
    due = 0
    for seq, entry in enumerate(entries, seen + 1):
        verb = entry.commit.operation
        if verb is Verb.UPSERT_NODE:
            payload = read_node(entry.commit.payload)
            before = nodes[payload.id] if payload.id in nodes else _kept(db, payload.id)
            nodes[payload.id] = _Node(before.number if before else seq, payload.type, _content(payload))
        elif verb is Verb.DELETE_NODE:
            nodes[read_target(entry.commit.payload).node_id] = None
            due = due or _DELETED
        elif verb is Verb.REDACT_NODE:
            if not read_extent(entry.commit.payload).takes_content:
                continue
            due = _REDACTED
            node_id = read_target(entry.commit.payload).node_id
            before = nodes[node_id] if node_id in nodes else _kept(db, node_id)
            nodes[node_id] = _Node(before.number, before.type, None) if before else None
    return nodes, due


def _content(payload: NodePayload) -> dict[str, Any] | None:
    content = payload.content
    return content if content and ("text" in content or "blob" in content) else None


def _kept(db: Connection, node_id: str) -> _Node | None:
    row = db.execute(
        "SELECT texts.number, types.name FROM texts JOIN types ON types.number = type WHERE node = ?", (node_id,)
    ).fetchone()
    return None if row is None else _Node(row[0], row[1], None)


def _find(db: Connection, node_id: str) -> _Row | None:
    row = db.execute(
        "SELECT number, type, digest, file, start, bytes, crc FROM texts WHERE node = ?", (node_id,)
    ).fetchone()
    return None if row is None else _Row(*row)


def _let_go(db: Connection, at: At, row: _Row) -> None:
    place = row.place
    if place is None:
        return
    db.execute("DELETE FROM ranked WHERE rowid = ?", (row.number,))
    db.execute("INSERT INTO wipes VALUES (?, ?, ?)", (place.file, place.start, place.bytes))
    at.wiped += place.bytes + TRAILER_BYTES
    at.rewrites += 1
    at.stale += 1


def _type_number(db: Connection, name: str) -> int:
    row = db.execute("SELECT number FROM types WHERE name = ?", (name,)).fetchone()
    if row is not None:
        return int(row[0])
    return int(db.execute("INSERT INTO types (name) VALUES (?)", (name,)).lastrowid or 0)


def _digest(content: dict[str, Any] | None) -> bytes | None:
    if content is None or content.get("encoding") != "utf-8":
        return None
    said = content["text"] if "text" in content else f"blob {content['blob']}"
    return blake2b(said.encode(), digest_size=16).digest()


@cache
def _boot() -> str:
    """Names the time since the machine was started; empty where that cannot be told."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
