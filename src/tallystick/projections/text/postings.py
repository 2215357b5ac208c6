"""The postings: which words there are, and which entities have each of them.

Entities are numbered by slots. The slots that have a word are bitmaps in three levels, for once, twice and four times
or more, cut into blocks of 65,536 slots so that a change rewrites little. The words of the newest entities are not in
the bitmaps yet: they stand with the entities themselves, and are merged when there are enough of them. So
writing one entity writes one row, or two where it has a content.
"""

from __future__ import annotations

import threading
from array import array
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from itertools import accumulate
from operator import sub

from pyroaring import BitMap

from tallystick.projections.database import Connection
from tallystick.projections.text.entity_words import NAMED, OF_TYPE
from tallystick.projections.text.words import stem

SCHEMA = """
CREATE TABLE terms (id INTEGER PRIMARY KEY, stem TEXT NOT NULL, word TEXT NOT NULL);
CREATE INDEX terms_stem ON terms (stem);
CREATE TABLE postings (key INTEGER PRIMARY KEY, slots BLOB NOT NULL);
CREATE TABLE unmerged (slot INTEGER PRIMARY KEY, words BLOB NOT NULL);
"""
LEVELS = (1, 2, 4)
_BLOCK_BITS = 16
_LEVEL_BITS = 2
_KEY_BITS = _BLOCK_BITS + _LEVEL_BITS
"""A key is a term, a level and a block."""
_FEW = 8
_LARGE = 255
_PLAIN, _BITMAP = b"\0", b"\1"
_CACHED_MAX = 200_000

TermLevels = list[list[int]]
"""The terms of one entity: those that it has at all, at least twice, at least four times. Each in order."""


def stem_of(word: str) -> str:
    return word if word[0] in (NAMED, OF_TYPE) else stem(word)


def terms_of_stem(db: Connection, stem: str) -> list[int]:
    return [term for (term,) in db.execute("SELECT id FROM terms WHERE stem = ?", (stem,))]


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
            row = (db.execute("INSERT INTO terms VALUES (NULL, ?, ?)", (root, word)).lastrowid,)
        found = self._known[word] = int(row[0])
        return found


def levels_of(terms: Collection[int], counts: Collection[int]) -> TermLevels:
    """`counts`: how often each of them stands there."""
    several = [(term, count) for term, count in zip(terms, counts, strict=True) if count > 1]
    return [sorted(terms), *(sorted([term for term, count in several if count >= least]) for least in LEVELS[1:])]


def with_content(kept: TermLevels, content: Mapping[int, int]) -> TermLevels:
    """The terms that stand with an entity, which its content may have too, and the others of its content."""
    beside = frozenset(kept[0])
    only_there = {term: count for term, count in content.items() if term not in beside}
    others = levels_of(only_there.keys(), only_there.values())
    return [sorted((*some, *more)) for some, more in zip(kept, others, strict=True)]


def only(levels: TermLevels, terms: Container[int]) -> TermLevels:
    return [[term for term in level if term in terms] for level in levels]


def encode_levels(levels: TermLevels) -> bytes:
    """Distances between terms, a byte each: common words have small numbers. A distance too large for a byte stands
    behind them."""
    steps = [*map(len, levels[1:]), *_deltas(levels[0]), *_deltas(levels[1]), *_deltas(levels[2])]
    large = [step for step in steps if step >= _LARGE]
    small = bytes([step if step < _LARGE else _LARGE for step in steps] if large else steps)
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


def _deltas(terms: list[int]) -> Iterable[int]:
    return map(sub, terms, (0, *terms))


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
        written, emptied = [], []
        for key, added, removed in self._by_block():
            row = db.execute("SELECT slots FROM postings WHERE key = ?", (key,)).fetchone()
            slots = decode_slots(row[0]) if row is not None else BitMap()
            slots -= removed
            slots |= added
            if slots:
                written.append((key, encode_slots(slots)))
            elif row is not None:
                emptied.append((key,))
        db.executemany("INSERT OR REPLACE INTO postings VALUES (?, ?)", written)
        db.executemany("DELETE FROM postings WHERE key = ?", emptied)
        for each in (*self._added, *self._removed):
            each.clear()

    def _by_block(self) -> Iterator[tuple[int, BitMap, BitMap]]:
        for level, (added, removed) in enumerate(zip(self._added, self._removed, strict=True)):
            for term in sorted(added.keys() | removed.keys()):
                plus, minus = added.get(term, []), removed.get(term, [])
                blocks = {slot >> _BLOCK_BITS for slot in (*plus, *minus)}
                for block in blocks:
                    yield key_of(term, level, block), _within(plus, block, blocks), _within(minus, block, blocks)


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


def key_of(term: int, level: int, block: int) -> int:
    return term << _KEY_BITS | level << _BLOCK_BITS | block


def term_in(key: int) -> int:
    return key >> _KEY_BITS


def level_in(key: int) -> int:
    return key >> _BLOCK_BITS & (1 << _LEVEL_BITS) - 1


_LAST = (1 << _KEY_BITS) - 1
"""From the first key of a term to its last."""
_FIRST_KEY = f"(id << {_KEY_BITS})"


def slots_with(db: Connection, terms: Iterable[int]) -> list[BitMap]:
    """By level: the merged slots that have any of the terms."""
    found = [BitMap() for _ in LEVELS]
    for term in terms:
        first = key_of(term, 0, 0)
        for key, data in db.execute(
            "SELECT key, slots FROM postings WHERE key BETWEEN ? AND ?", (first, first + _LAST)
        ):
            found[level_in(key)] |= decode_slots(data)
    return found


def drop_unused(db: Connection) -> None:
    """Words that no entity has any more; everything must be merged."""
    db.execute(f"DELETE FROM terms WHERE id NOT IN (SELECT key >> {_KEY_BITS} FROM postings)")


def words_beginning(db: Connection, start: str, recent: Container[int]) -> list[str]:
    """Words whose stem begins so, and that somebody has."""
    rows = db.execute(
        f"SELECT id, word, EXISTS (SELECT 1 FROM postings WHERE key BETWEEN {_FIRST_KEY} AND {_FIRST_KEY} + {_LAST})"
        " FROM terms WHERE stem >= ? AND stem < ?",
        (start, f"{start}\U0010ffff"),
    )
    return [word for term, word, is_merged in rows if is_merged or term in recent]


def all_terms(db: Connection, schema: str) -> Iterator[tuple[int, bytes]]:
    """For a connection to which text is bytes."""
    yield from db.execute(f"SELECT id, word FROM {schema}.terms")


Recent = dict[int, list[list[int]]]
"""By term, by level: slots that are not merged yet."""


def unmerged(db: Connection, first: int) -> Iterator[tuple[int, TermLevels]]:
    """The words of entities from this slot on, which must not be merged yet."""
    for slot, words in db.execute(
        "SELECT slot, coalesce(unmerged.words, entities.words) FROM entities LEFT JOIN unmerged USING (slot)"
        " WHERE slot >= ?",
        (first,),
    ):
        yield slot, decode_levels(words)


class RecentWords:
    """The words of the newest entities, as one process last saw them; for any number of threads. May know a little
    more than the snapshot that a thread looks at."""

    def __init__(self) -> None:
        self._seen: tuple[int, ...] = ()
        self._next = 0
        self._found: Recent = {}
        self._lock = threading.Lock()

    def read(self, db: Connection, merged: int, next_slot: int, seen: tuple[int, ...]) -> Recent:
        """As long as `seen` is the same, entities were only added."""
        with self._lock:
            if (merged, *seen) != self._seen:
                self._found, self._seen, self._next = {}, (merged, *seen), merged
            if self._next < next_slot:
                _note_recent(self._found, unmerged(db, self._next))
                self._next = next_slot
            return self._found


def _note_recent(found: Recent, entities: Iterable[tuple[int, TermLevels]]) -> None:
    for slot, levels in entities:
        for level, terms in enumerate(levels):
            for term in terms:
                slots = found.get(term)
                if slots is None:
                    slots = found[term] = [[] for _ in LEVELS]
                slots[level].append(slot)
