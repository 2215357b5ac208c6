"""The text index on disk: which entity has which words, and where the contents of nodes stand.

`_system/text/`: a database with the words of every node and edge, and beside it the folded files with the contents
of nodes. Which words a merged content has is read from there, so that they stand with the entity only until then.
The database decides: a text in the files that no row points to is debris. Files are written before the
transaction that points to them, and wiped after the one that lets go of them, from a note it left.
The files are not synced. A power cut can take pages from them that the database counts on,
so the checksums are compared once after each boot.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from tallystick.commits import DELETIONS, EDGE_VERBS, REDACTIONS, Commit, Verb, chain
from tallystick.commits.mask import REDACTED, redact
from tallystick.commits.payloads import read_edge, read_extent, read_node, read_target
from tallystick.errors import StorageRefused, TallystickError
from tallystick.log import Entry, Head
from tallystick.projections.content import Contents
from tallystick.projections.database import Connection, Damaged, Database, check_follows, check_version
from tallystick.projections.text import postings, slots
from tallystick.projections.text.entity_words import Entity, marks_of, words_of_entity
from tallystick.projections.text.postings import (
    Changes,
    TermIds,
    TermLevels,
    decode_levels,
    encode_levels,
    levels_of,
    only,
    with_content,
)
from tallystick.projections.text.slots import SlotWriter
from tallystick.projections.text.substring_index import (
    LATE,
    ORDERED,
    TRAILER_BYTES,
    Place,
    SubstringWriter,
    folded_pieces,
    path_of,
)
from tallystick.projections.text.words import name_parts, words_of

DATABASE = "text.db"
POSITION = "SELECT head FROM place WHERE head != ''"
ERASING = "SELECT 1 FROM place WHERE scrub"
RANKED_CHARACTERS_MAX = 1 << 20
"""Of a longer text only the beginning is ranked; all of it is found by substring."""

MERGED_AT = 4_096
"""So many entities whose words are not in the postings yet: a process that searches keeps them in memory."""
_MERGED_IN_BULK = 4 * MERGED_AT
"""While it follows a long log, and nobody can search: merging many at once costs less."""

_VERSION = 5
_SPARE_BYTES = 8 << 20
"""Wiped or late texts of at least so much before moving to new files is worth it."""
_SCRUB_AGAIN_SECONDS = 5.0
_READ_AGAIN_SECONDS = 10.0
_REDACTED, _DELETED = 1, 2
"""Why copies of texts have to go: the first is waited for."""
_SCHEMA = f"""
CREATE TABLE place (
  one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER, head TEXT, boot TEXT, generation INTEGER,
  ordered_end INTEGER, late_end INTEGER, newest INTEGER, wiped INTEGER, rewrites INTEGER, scrub INTEGER,
  next_slot INTEGER, merged INTEGER, entities INTEGER, length INTEGER, change INTEGER, epoch INTEGER,
  recent_rewrites INTEGER);
CREATE TABLE types (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE entities (
  slot INTEGER PRIMARY KEY, id TEXT NOT NULL, is_edge INTEGER NOT NULL, type INTEGER NOT NULL, log_offset INTEGER,
  words BLOB, digest BLOB, file INTEGER, start INTEGER, bytes INTEGER, crc INTEGER, unread INTEGER);
CREATE UNIQUE INDEX entities_id ON entities (id, is_edge);
CREATE INDEX entities_unread ON entities (slot) WHERE unread IS NOT NULL;
CREATE TABLE wipes (file INTEGER, start INTEGER, bytes INTEGER);
{postings.SCHEMA.strip()}
{slots.SCHEMA.strip()}
"""
_TABLES = ("place", "types", "entities", "wipes", "terms", "postings", "unmerged", "blocks", "chains")

logger = logging.getLogger(__name__)


def database_path(home: Path) -> Path:
    return home / "_system" / "text" / DATABASE


class At(msgspec.Struct, array_like=True):
    """The one row of `place`."""

    head: str
    boot: str
    generation: int
    ordered_end: int = 0
    late_end: int = 0
    newest: int = 0
    """The largest slot in the ordered file."""
    wiped: int = 0
    rewrites: int = 0
    """Counts transactions that let go of texts: a reader that sees it change looks again."""
    scrub: int = 0
    """Why copies of texts have to go, or 0."""
    next_slot: int = 1
    merged: int = 1
    """The words of slots from here on are not in the postings yet."""
    entities: int = 0
    length: int = 0
    """Words of all entities together."""
    change: int = 0
    """Counts transactions."""
    epoch: int = 0
    """Counts how often words were taken out, from a number that no other index began with."""
    recent_rewrites: int = 0
    """Counts entities that were changed or taken out before their words were merged."""

    @property
    def position(self) -> int:
        return msgspec.json.decode(self.head, type=Head).lamport if self.head else 0

    @property
    def ends(self) -> tuple[int, int]:
        return self.ordered_end, self.late_end


class _Row(msgspec.Struct, array_like=True, frozen=True):
    slot: int
    type: int
    words: bytes
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


Key = tuple[str, bool]
"""Its id, and whether it is an edge."""


class _Change:
    """A transaction over rows and files."""

    def __init__(self, db: Connection, at: At, substrings: SubstringWriter) -> None:
        at.change += 1
        self.db, self.at, self.substrings = db, at, substrings
        self.slots = SlotWriter(db, at.change)
        self.postings = Changes()
        self.rows: list[tuple[Any, ...]] = []
        """Of entities, to be written at the end: each entity once."""
        self.unmerged: list[tuple[int, bytes]] = []
        self._types: dict[str, int] = {}

    def type_number(self, name: str) -> int:
        found = self._types.get(name)
        if found is None:
            found = self._types[name] = _type_number(self.db, name)
        return found

    def forget_unmerged(self, slot: int) -> None:
        self.at.recent_rewrites += 1
        self.db.execute("DELETE FROM unmerged WHERE slot = ?", (slot,))

    def finish(self, *, merge: bool, purge: bool) -> None:
        at = self.at
        self.db.executemany(f"INSERT OR REPLACE INTO entities VALUES ({', '.join('?' * 12)})", self.rows)
        self.db.executemany("INSERT INTO unmerged VALUES (?, ?)", self.unmerged)
        if merge or at.next_slot - at.merged >= _MERGED_IN_BULK:
            for slot, levels in postings.unmerged(self.db, at.merged):
                self.postings.add(slot, levels)
            self.db.execute("DELETE FROM unmerged")
            at.merged = at.next_slot
        self.postings.write(self.db)
        if purge:
            postings.drop_unused(self.db)
            at.epoch += 1
        self.slots.write()
        at.ordered_end, at.late_end = self.substrings.ends
        _write_place(self.db, at)


class TextProjection:
    name = "text"

    def __init__(self, home: Path, line: Callable[[int], bytes], *, contents: Contents | None = None) -> None:
        """`line` reads the log: of what was redacted in part, the rest. `contents`: where the blobs are, if not in
        the home."""
        self.directory = home / "_system" / "text"
        self._line = line
        self._contents = contents or Contents(home)
        self._database = Database(self.directory / DATABASE, _prepare)
        self._term_ids = TermIds()
        self._checked = False
        self._read_again = 0.0
        self.reached = 0
        """The furthest position at which this process saw it: where it is behind that, it is being built anew."""

    def _seen(self, head: Head) -> Head:
        self.reached = max(self.reached, head.lamport)
        return head

    # -- the contract

    def position(self) -> Head:
        return self._seen(self._database.position(self._checked_head))

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        with self._changing() as change:
            check_follows(change.at.head, entries, head)
            for key, (is_new, entity) in self._outcome(change.db, entries).items():
                self._put(change, key, is_new, entity)
            due = min((_DUE[each.commit.operation] for each in entries if each.commit.operation in _DUE), default=0)
            change.at.head = msgspec.json.encode(head).decode()
            change.at.scrub = min(change.at.scrub or due, due or change.at.scrub)
        self._seen(head)

    def settle(self, *, final: bool = False) -> float | None:
        with self._database.guarded() as db:
            at = read_place(db)
            if db.execute("SELECT 1 FROM wipes").fetchone():
                with self._substrings(at) as substrings:
                    self._wipe(db, substrings)
            self._read_the_unread(db)
        # The next process to search reads what is not merged.
        if at.next_slot - at.merged >= (MERGED_AT // 8 or 1 if final else MERGED_AT):
            with self._changing(merge=True):
                pass
        if at.scrub:
            rest = 0.0 if final or at.scrub == _REDACTED else self._database.rest_seconds
            return rest or (None if self.erase() else _SCRUB_AGAIN_SECONDS)
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
            for table in _TABLES:
                db.execute(f"DROP TABLE {table}")
            _make_tables(db)
            db.execute("UPDATE place SET scrub = 1")
            generation = read_place(db).generation
        self.reached = 0
        self._drop_others(generation)

    def close(self) -> None:
        self._database.close()

    def content(self, log_offset: int) -> str:
        """That the line there says; empty where there is none or it cannot be read. For any thread."""
        try:
            text = self._text(read_entity(chain.decode(self._line(log_offset)), log_offset).content)
            return text.decode("utf-8", "ignore")
        except TallystickError:
            return ""

    def distrust(self, why: str) -> None:
        """A reader met damage."""
        self._database.distrust(why)

    # -- one entity

    def _outcome(self, db: Connection, entries: Sequence[Entry]) -> dict[Key, tuple[bool, Entity | None]]:
        """What the commits make of each entity they are about, and whether the one before it is gone; in the order
        in which they were made."""
        found: dict[Key, tuple[bool, Entity | None]] = {}
        for entry in entries:
            commit = entry.commit
            said = None if commit.operation in _DUE else read_entity(commit, entry.offset)
            key = key_of(commit) if said is None else (said.id, said.is_edge)
            is_new, before = found.get(key, (False, None))
            if commit.operation in REDACTIONS:
                before = before if key in found else self._stored(db, key)
                if before is not None:
                    found[key] = (is_new, _redacted(before, read_extent(commit.payload).redacted_fields))
            elif said is None:
                found[key] = (True, None)
            else:
                if before is None:
                    found.pop(key, None)
                else:
                    said = msgspec.structs.replace(said, chain=before.chain)
                found[key] = (is_new, said)
        return found

    def _stored(self, db: Connection, key: Key) -> Entity | None:
        row = db.execute("SELECT log_offset FROM entities WHERE id = ? AND is_edge = ?", key).fetchone()
        return None if row is None else read_entity(chain.decode(self._line(row[0])), row[0])

    def _put(self, change: _Change, key: Key, is_new: bool, entity: Entity | None) -> None:
        row = _find(change.db, key)
        if row is not None and (is_new or entity is None):
            self._remove(change, row)
            row = None
        if entity is not None:
            self._write(change, row or _make(change, entity), entity)

    def _write(self, change: _Change, row: _Row, entity: Entity) -> None:
        pieces: list[bytes] = []
        text, unread = b"", None
        try:
            text = self._text(entity.content)
            pieces = list(folded_pieces(text))
            place = self._placed(change, row, entity, pieces)
        except (TallystickError, UnicodeDecodeError) as error:
            logger.warning("the content of '%s' cannot be searched: %s", entity.id, error)
            place, unread = None, 1
            _let_go(change, row)
        words = self._change_words(change, row, entity, b"".join(pieces), _parts_of_names(text), place)
        where = (place.file, place.start, place.bytes, place.crc) if place else (None,) * 4
        type_number, digest = change.type_number(entity.type), _digest(entity.content)
        change.rows.append(
            (row.slot, entity.id, entity.is_edge, type_number, entity.offset, words, digest, *where, unread)
        )

    def _change_words(
        self, change: _Change, row: _Row, entity: Entity, content: bytes, parts: list[str], place: Place | None
    ) -> bytes:
        """To those of an entity whose folded content stands there. Returns those to be kept with it: also the parts
        of names, since a folded content does not show where they begin."""
        at = change.at
        said, in_content = words_of_entity(entity) + parts, ranked_words(content)
        counts = Counter(said)
        for mark in marks_of(entity):
            counts[mark] = 1
        beside = frozenset(counts) if place is not None else None
        if in_content:
            counts.update(in_content)
        terms = self._term_ids.of(change.db, counts)
        levels = levels_of(terms, counts.values())
        kept = levels
        if beside is not None:
            kept = only(levels, {term for term, word in zip(terms, counts, strict=True) if word in beside})
        words = encode_levels(kept)
        if row.slot < at.merged:
            if words != row.words or place != row.place:
                change.postings.replace(row.slot, self._levels(change, row), levels)
        else:
            if row.words:
                change.forget_unmerged(row.slot)
            if beside is not None:
                change.unmerged.append((row.slot, encode_levels(levels)))
        length = len(said) + len(in_content)
        at.length += length - change.slots.length(row.slot)
        change.slots.set_length(row.slot, length)
        return words

    def _levels(self, change: _Change, row: _Row) -> TermLevels:
        """The words of a merged entity as it stands."""
        kept, place = decode_levels(row.words), row.place
        if place is None:
            return kept
        if not change.substrings.is_sound(place, row.slot):
            raise Damaged(f"the text in slot {row.slot} is not what it was")
        counts = Counter(ranked_words(b"".join(change.substrings.pieces(place))))
        return with_content(kept, dict(zip(self._term_ids.of(change.db, counts), counts.values(), strict=True)))

    def _remove(self, change: _Change, row: _Row) -> None:
        if row.slot < change.at.merged:
            change.postings.remove(row.slot, self._levels(change, row))
        else:
            change.forget_unmerged(row.slot)
        _let_go(change, row)
        change.at.entities -= 1
        change.at.length -= change.slots.length(row.slot)
        change.slots.unlink(row.slot)
        change.db.execute("DELETE FROM entities WHERE slot = ?", (row.slot,))

    def _placed(self, change: _Change, row: _Row, entity: Entity, pieces: Sequence[bytes]) -> Place | None:
        """Where the content stands, for those who look for substrings of it: now, if it does not yet."""
        type_number = change.type_number(entity.type)
        if row.place is not None and (row.type, row.digest) == (type_number, _digest(entity.content)):
            return row.place
        _let_go(change, row)
        if not any(pieces) or entity.is_edge:
            return None
        file = ORDERED if row.slot > change.at.newest else LATE
        place = change.substrings.put(file, iter(pieces), row.slot, type_number)
        change.at.newest = max(change.at.newest, row.slot if file == ORDERED else 0)
        return place

    def _text(self, content: dict[str, Any] | None) -> bytes:
        """Raises with code CONTENT_READ_FAILED."""
        if content is None or content.get("encoding") != "utf-8" or content.get("text") == REDACTED:
            return b""
        return self._contents.read(content)

    def _read_the_unread(self, db: Connection) -> None:
        """A blob may come back. Not looked for all the time: it may be large and still not what it should be."""
        if time.monotonic() < self._read_again:
            return
        self._read_again = time.monotonic() + _READ_AGAIN_SECONDS
        for key in db.execute("SELECT id, is_edge FROM entities WHERE unread IS NOT NULL").fetchall():
            entity = self._stored(db, key)
            try:
                self._text(entity.content if entity else None).decode()
            except (TallystickError, UnicodeDecodeError):
                continue
            with self._changing() as change:
                self._put(change, key, False, entity)

    # -- files and transactions

    @contextmanager
    def _changing(self, *, merge: bool = False, purge: bool = False) -> Iterator[_Change]:
        """A transaction over rows and files. What the rows let go of is wiped when it is committed. `purge`: words
        that nobody has any more go too, once everything is merged."""
        with self._database.guarded() as db, self._substrings(at := read_place(db)) as substrings:
            self._term_ids.begin(at.epoch)
            try:
                with self._database.transaction():
                    change = _Change(db, at, substrings)
                    yield change
                    change.finish(merge=merge or purge, purge=purge)
            except BaseException:
                self._term_ids.forget()
                raise
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
        with self._changing(purge=True):
            pass
        if not self._database.scrub():
            return False
        with self._database.transaction() as db:
            db.execute("UPDATE place SET scrub = 0")
        return True

    def _move(self) -> None:
        """All texts to a new pair of files, in order. Readers keep the old pair mapped for as long as they need it."""
        with self._database.guarded() as db:
            at = read_place(db)
        fresh = msgspec.structs.replace(at, generation=at.generation + 1, ordered_end=0, late_end=0, newest=0, wiped=0)
        with self._substrings(at) as old, self._substrings(fresh) as new, self._database.transaction():
            for slot, type_number, *where in db.execute(
                "SELECT slot, type, file, start, bytes, crc FROM entities WHERE file IS NOT NULL ORDER BY slot"
            ).fetchall():
                place = new.put(ORDERED, old.pieces(Place(*where)), slot, type_number)
                if place.crc != where[3]:
                    raise Damaged(f"the text in slot {slot} is not what it was")
                fresh.newest = slot
                db.execute("UPDATE entities SET file = ?, start = ? WHERE slot = ?", (ORDERED, place.start, slot))
            db.execute("DELETE FROM wipes")
            fresh.ordered_end, fresh.late_end = new.ends
            _write_place(db, fresh)
        self._drop_others(fresh.generation)

    def _drop_others(self, generation: int) -> None:
        keep = {path_of(self.directory, generation, file) for file in (ORDERED, LATE)}
        for path in self.directory.glob("*.folded"):
            if path not in keep and not path.is_dir():
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
            for slot, *where in db.execute("SELECT slot, file, start, bytes, crc FROM entities WHERE file IS NOT NULL"):
                if not substrings.is_sound(Place(*where), slot):
                    raise Damaged(f"the text in slot {slot} is not what it was")
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
    (version,) = db.execute("SELECT version FROM place").fetchone() or (0,)
    check_version(version, _VERSION, DATABASE)


def _make_tables(db: Connection) -> None:
    for statement in _SCHEMA.split(";\n"):
        db.execute(statement)
    # A generation that never was: readers may still have files of an index mapped that was given up.
    generation = time.time_ns() // 1000
    db.execute("INSERT INTO place (one, version) VALUES (1, ?)", (_VERSION,))
    _write_place(db, At(head="", boot=_boot(), generation=generation, epoch=generation))


_DUE = dict.fromkeys(REDACTIONS, _REDACTED) | dict.fromkeys(DELETIONS, _DELETED)


def key_of(commit: Commit) -> Key:
    """Of what it redacts or deletes."""
    if commit.operation in EDGE_VERBS:
        return read_edge(commit.payload).name, True
    return read_target(commit.payload).node_id, False


def read_entity(commit: Commit, offset: int) -> Entity:
    run_id = (commit.run_context or {}).get("run_id")
    said = (offset, commit.actor, f"by {commit.actor}" if run_id is None else f"run {run_id}")
    if commit.operation is Verb.UPSERT_NODE:
        node = read_node(commit.payload)
        return Entity(node.id, False, node.type, node.attrs, _content(node.content), *said)
    edge = read_edge(commit.payload)
    return Entity(edge.name, True, edge.rel, edge.attrs, _content(edge.content), *said)


def _content(content: dict[str, Any] | None) -> dict[str, Any] | None:
    return content if content and ("text" in content or "blob" in content) else None


def _redacted(entity: Entity, fields: list[str] | None) -> Entity:
    """Again, if its line was masked by now."""
    left = redact({"attrs": entity.attrs, "content": entity.content}, fields)
    return msgspec.structs.replace(entity, attrs=left["attrs"], content=left["content"])


def _make(change: _Change, entity: Entity) -> _Row:
    slot = change.at.next_slot
    change.at.next_slot += 1
    change.at.entities += 1
    if not entity.is_edge:
        change.slots.link(slot, entity.chain)
    return _Row(slot, 0, b"", None, None, None, None, None)


def _find(db: Connection, key: Key) -> _Row | None:
    row = db.execute(
        "SELECT slot, type, words, digest, file, start, bytes, crc FROM entities WHERE id = ? AND is_edge = ?", key
    ).fetchone()
    return None if row is None else _Row(*row)


def ranked_words(folded: bytes) -> list[str]:
    """Of a folded content."""
    return words_of(folded[: 4 * RANKED_CHARACTERS_MAX].decode("utf-8", "ignore")[:RANKED_CHARACTERS_MAX])


def _parts_of_names(content: bytes) -> list[str]:
    """Of a content as it is written, as far as it is ranked."""
    return name_parts(content[: 4 * RANKED_CHARACTERS_MAX].decode("utf-8", "ignore")[:RANKED_CHARACTERS_MAX])


def _let_go(change: _Change, row: _Row) -> None:
    """Of the content as it stood."""
    place = row.place
    if place is None:
        return
    change.db.execute("INSERT INTO wipes VALUES (?, ?, ?)", (place.file, place.start, place.bytes))
    change.at.wiped += place.bytes + TRAILER_BYTES
    change.at.rewrites += 1


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
