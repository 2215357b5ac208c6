"""The slots: of each entity how long its text is, and what was written just before and after it.

Kept in blocks of 256 in the database. A process that searches keeps them in memory, 12 bytes an entity, and reads
the blocks that changed since it last looked.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Sequence
from hashlib import blake2b

from tallystick.projections.database import Connection

SCHEMA = """
CREATE TABLE blocks (block INTEGER PRIMARY KEY, change INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX blocks_change ON blocks (change);
CREATE TABLE chains (chain INTEGER PRIMARY KEY, last INTEGER NOT NULL);
CREATE INDEX chains_last ON chains (last);
"""
_BLOCK = 256
_FIELDS = 3
_BEFORE, _AFTER, _LENGTH = range(_FIELDS)


class SlotWriter:
    """For one transaction. Slot 0 is nobody's: it stands for none."""

    def __init__(self, db: Connection, change: int) -> None:
        self._db = db
        self._change = change
        self._blocks: dict[int, array[int]] = {}
        self._lasts: dict[int, int] = {}

    def set_length(self, slot: int, length: int) -> None:
        self._set(slot, _LENGTH, length)

    def length(self, slot: int) -> int:
        return self._get(slot, _LENGTH)

    def link(self, slot: int, chain: str) -> None:
        """As the last of its chain."""
        key = int.from_bytes(blake2b(chain.encode("utf-8", "surrogatepass"), digest_size=8).digest(), signed=True)
        if key not in self._lasts:
            row = self._db.execute("SELECT last FROM chains WHERE chain = ?", (key,)).fetchone()
            self._lasts[key] = 0 if row is None else row[0]
        if before := self._lasts[key]:
            self._set(slot, _BEFORE, before)
            self._set(before, _AFTER, slot)
        self._lasts[key] = slot

    def unlink(self, slot: int) -> None:
        self._write_lasts()
        before, after = self._get(slot, _BEFORE), self._get(slot, _AFTER)
        if before:
            self._set(before, _AFTER, after)
        if after:
            self._set(after, _BEFORE, before)
        if before:
            self._db.execute("UPDATE chains SET last = ? WHERE last = ?", (before, slot))
        else:
            self._db.execute("DELETE FROM chains WHERE last = ?", (slot,))
        for field in range(_FIELDS):
            self._set(slot, field, 0)

    def write(self) -> None:
        self._db.executemany(
            "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?)",
            [(block, self._change, data.tobytes()) for block, data in self._blocks.items()],
        )
        self._blocks.clear()
        self._write_lasts()

    def _write_lasts(self) -> None:
        self._db.executemany("INSERT OR REPLACE INTO chains VALUES (?, ?)", self._lasts.items())
        self._lasts.clear()

    def _get(self, slot: int, field: int) -> int:
        return self._block(slot)[slot % _BLOCK * _FIELDS + field]

    def _set(self, slot: int, field: int, value: int) -> None:
        self._block(slot)[slot % _BLOCK * _FIELDS + field] = value

    def _block(self, slot: int) -> array[int]:
        block = slot // _BLOCK
        found = self._blocks.get(block)
        if found is None:
            row = self._db.execute("SELECT data FROM blocks WHERE block = ?", (block,)).fetchone()
            found = array("I", row[0] if row is not None else bytes(4 * _FIELDS * _BLOCK))
            self._blocks[block] = found
        return found


class SlotTable:
    """For any number of threads; may know a little more than the snapshot that a thread looks at."""

    def __init__(self) -> None:
        self._fields = array("I")
        self._seen = (0, 0)
        self._lock = threading.Lock()

    def refresh(self, db: Connection, generation: int, change: int) -> array[int]:
        """`_FIELDS` numbers a slot."""
        with self._lock:
            if self._seen[0] != generation:
                self._fields, self._seen = array("I"), (generation, 0)
            if self._seen[1] < change:
                self._read(db, self._seen[1])
                self._seen = (generation, change)
            return self._fields

    def _read(self, db: Connection, seen: int) -> None:
        size = _BLOCK * _FIELDS
        for block, data in db.execute("SELECT block, data FROM blocks WHERE change > ? ORDER BY block", (seen,)):
            start = block * size
            if len(self._fields) < start:
                self._fields.frombytes(bytes(4 * (start - len(self._fields))))
            if len(self._fields) == start:
                self._fields.frombytes(data)
            else:
                self._fields[start : start + size] = array("I", data)


def neighbours(fields: array[int], slot: int, shares: Sequence[float]) -> list[tuple[int, float]]:
    """What was written before and after it, each with its share: the nearest has the first."""
    found = []
    for field in (_BEFORE, _AFTER):
        at = slot
        for share in shares:
            at = fields[at * _FIELDS + field]
            if not at:
                break
            found.append((at, share))
    return found


def length_of(fields: array[int], slot: int) -> int:
    return fields[slot * _FIELDS + _LENGTH]
