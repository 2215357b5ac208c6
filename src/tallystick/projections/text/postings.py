"""The postings: which words there are, and which entities have each of them.

Entities are numbered by slots. The slots that have a word are bitmaps in three levels, for once, twice and four times
or more, cut into blocks of 65,536 slots so that a change rewrites little. The words of the newest entities are not in
the bitmaps yet: they stand with the entities themselves, and are merged when there are enough of them. So
writing one entity writes one row.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise

import msgspec
from pyroaring import BitMap

from tallystick.projections.database import Connection
from tallystick.projections.text.entity_words import NAMED, OF_TYPE
from tallystick.projections.text.words import stem

SCHEMA = """
CREATE TABLE terms (id INTEGER PRIMARY KEY, stem TEXT NOT NULL, word TEXT NOT NULL, slots INTEGER NOT NULL);
CREATE INDEX terms_stem ON terms (stem);
CREATE INDEX terms_unused ON terms (id) WHERE slots = 0;
CREATE TABLE postings (
  term INTEGER, level INTEGER, block INTEGER, slots BLOB, PRIMARY KEY (term, level, block)) WITHOUT ROWID;
"""
LEVELS = (1, 2, 4)
_BLOCK_BITS = 16
_FEW = 8
_LARGE = 255
_PLAIN, _BITMAP = b"\0", b"\1"
_CACHED_MAX = 200_000

TermLevels = list[list[int]]
"""The terms of one entity: those that it has at all, at least twice, at least four times. Each in order."""


class Term(msgspec.Struct, frozen=True):
    id: int
    word: str
    slots: int
    """How many entities have it; without those that are not merged yet."""


def stem_of(word: str) -> str:
    return word if word[0] in (NAMED, OF_TYPE) else stem(word)


def terms_of_stem(db: Connection, stem: str) -> list[Term]:
    rows = db.execute("SELECT id, word, slots FROM terms WHERE stem = ?", (stem,))
    return [Term(*row) for row in rows]


class TermIds:
    """The writer's: numbers words, and remembers some. What was numbered in a transaction that failed must be
    forgotten."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._epoch = -1

    def of(self, db: Connection, words: Iterable[str]) -> list[int]:
        known = self._known
        return [known[word] if word in known else self._find_or_add(db, word) for word in words]

    def begin(self, epoch: int) -> None:
        """`epoch` changes when words were taken out of the index, by whichever process."""
        if epoch != self._epoch or len(self._known) > _CACHED_MAX:
            self.forget()
            self._epoch = epoch

    def forget(self) -> None:
        self._known.clear()

    def _find_or_add(self, db: Connection, word: str) -> int:
        root = stem_of(word)
        row = db.execute("SELECT id FROM terms WHERE stem = ? AND word = ?", (root, word)).fetchone()
        if row is None:
            row = (db.execute("INSERT INTO terms VALUES (NULL, ?, ?, 0)", (root, word)).lastrowid,)
        found = self._known[word] = int(row[0])
        return found


def levels_of(db: Connection, ids: TermIds, counts: dict[str, int]) -> TermLevels:
    terms = ids.of(db, counts)
    several = [(term, count) for term, count in zip(terms, counts.values(), strict=True) if count > 1]
    return [sorted(terms), *(sorted(term for term, count in several if count >= least) for least in LEVELS[1:])]


def encode_levels(levels: TermLevels) -> bytes:
    """Distances between terms, a byte each: common words have small numbers. A distance too large for a byte stands
    behind them."""
    steps = [*map(len, levels[1:]), *(step for terms in levels for step in _deltas(terms))]
    large = [step for step in steps if step >= _LARGE]
    small = bytes(min(step, _LARGE) for step in steps)
    code = "H" if not large or max(large) < 1 << 16 else "I"
    return code.encode() + len(small).to_bytes(4) + small + array(code, large).tobytes()


def decode_levels(data: bytes) -> TermLevels:
    """Of nothing: nothing at any level. Raises ValueError for what is no such thing."""
    if not data:
        return [[] for _ in LEVELS]
    end = 5 + int.from_bytes(data[1:5])
    large = iter(array(data[:1].decode("ascii"), data[end:]))
    steps = [next(large, 0) if step == _LARGE else step for step in data[5:end]]
    counts = steps[: len(LEVELS) - 1]
    levels, start = [], len(counts)
    for count in (len(steps) - len(counts) - sum(counts), *counts):
        levels.append(list(accumulate(steps[start : start + count])))
        start += count
    return levels


def _deltas(terms: list[int]) -> list[int]:
    return [*terms[:1], *(after - before for before, after in pairwise(terms))]


class Changes:
    """What a transaction does to the bitmaps; written at its end, each block once."""

    def __init__(self) -> None:
        self._added, self._removed = (
            [defaultdict[int, list[int]](list) for _ in LEVELS],
            [defaultdict[int, list[int]](list) for _ in LEVELS],
        )

    def add(self, slot: int, levels: TermLevels) -> None:
        _note(self._added, slot, levels)

    def remove(self, slot: int, levels: TermLevels) -> None:
        _note(self._removed, slot, levels)

    def replace(self, slot: int, before: TermLevels, after: TermLevels) -> None:
        pairs = [(set(old), set(new)) for old, new in zip(before, after, strict=True)]
        self.remove(slot, [sorted(old - new) for old, new in pairs])
        self.add(slot, [sorted(new - old) for old, new in pairs])

    def write(self, db: Connection) -> None:
        written, emptied, counted = [], [], []
        for key, added, removed in self._by_block():
            row = db.execute("SELECT slots FROM postings WHERE term = ? AND level = ? AND block = ?", key).fetchone()
            slots = decode_slots(row[0]) if row is not None else BitMap()
            before = len(slots)
            slots -= removed
            slots |= added
            if slots:
                written.append((*key, encode_slots(slots)))
            elif row is not None:
                emptied.append(key)
            if key[1] == 0 and len(slots) != before:
                counted.append((len(slots) - before, key[0]))
        db.executemany("INSERT OR REPLACE INTO postings VALUES (?, ?, ?, ?)", written)
        db.executemany("DELETE FROM postings WHERE term = ? AND level = ? AND block = ?", emptied)
        db.executemany("UPDATE terms SET slots = slots + ? WHERE id = ?", counted)
        for each in (*self._added, *self._removed):
            each.clear()

    def _by_block(self) -> Iterator[tuple[tuple[int, int, int], BitMap, BitMap]]:
        for level, (added, removed) in enumerate(zip(self._added, self._removed, strict=True)):
            for term in sorted(added.keys() | removed.keys()):
                plus, minus = added.get(term, []), removed.get(term, [])
                blocks = {slot >> _BLOCK_BITS for slot in (*plus, *minus)}
                for block in blocks:
                    yield (term, level, block), _within(plus, block, blocks), _within(minus, block, blocks)


def _within(slots: list[int], block: int, blocks: set[int]) -> BitMap:
    return BitMap(slots if len(blocks) == 1 else [slot for slot in slots if slot >> _BLOCK_BITS == block])


def _note(changed: list[defaultdict[int, list[int]]], slot: int, levels: TermLevels) -> None:
    for slots_of, terms in zip(changed, levels, strict=True):
        for term in terms:
            slots_of[term].append(slot)


def encode_slots(slots: BitMap) -> bytes:
    """A few as they are; many as a bitmap, compressed."""
    return _PLAIN + array("I", slots).tobytes() if len(slots) < _FEW else _BITMAP + slots.serialize()


def decode_slots(data: bytes) -> BitMap:
    return BitMap(array("I", data[1:])) if data[:1] == _PLAIN else BitMap.deserialize(data[1:])


def slots_with(db: Connection, terms: Iterable[int]) -> list[BitMap]:
    """By level: the merged slots that have any of the terms."""
    found = [BitMap() for _ in LEVELS]
    for term in terms:
        for level, data in db.execute("SELECT level, slots FROM postings WHERE term = ?", (term,)):
            found[level] |= decode_slots(data)
    return found


def drop_unused(db: Connection) -> None:
    """Words that no entity has any more; everything must be merged."""
    db.execute("DELETE FROM terms WHERE slots = 0")


def all_terms(db: Connection, schema: str) -> Iterator[tuple[int, bytes]]:
    """For a connection to which text is bytes."""
    yield from db.execute(f"SELECT id, word FROM {schema}.terms")


Recent = dict[int, list[list[int]]]
"""By term, by level: slots that are not merged yet."""


class RecentWords:
    """The words of the newest entities, as one process last saw them; for any number of threads."""

    def __init__(self) -> None:
        self._seen: tuple[int, int] | None = None
        self._found: Recent = {}

    def read(self, db: Connection, merged: int, seen: tuple[int, int]) -> Recent:
        """`seen` tells one moment of the index from another."""
        # Threads may race here: each returns what it read itself.
        if seen == self._seen:
            return self._found
        found: Recent = {}
        for slot, words in db.execute("SELECT slot, words FROM entities WHERE slot >= ?", (merged,)):
            for level, terms in enumerate(decode_levels(words)):
                for term in terms:
                    found.setdefault(term, [[] for _ in LEVELS])[level].append(slot)
        self._found, self._seen = found, seen
        return found
