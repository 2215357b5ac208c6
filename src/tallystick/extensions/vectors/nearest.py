"""The vectors as a process that searches holds them: in memory, a byte for each dimension, all compared each time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.extensions.vectors.model import DIMENSIONS
from tallystick.projections.database import Connection, Damaged
from tallystick.projections.text.lookup import Hit, Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tallystick.extensions.vectors.model import Vector

SIMILARITY_MIN = 0.3
"""Two texts that have nothing to do with each other are about as near as this at most."""
_WAITING_MIN = 32
"""So many texts may be without a vector, or a tenth of those that have one."""
_ROWS_MIN = 1024
_CANDIDATES = 4_096
"""Of more than these the signs of the dimensions choose, which are compared twenty times as fast."""


class VectorTable:
    """For one thread. Follows the database by what was added and dropped since it last looked."""

    def __init__(self) -> None:
        self._begin(0)

    def refresh(self, db: Connection, identity: str) -> bool:
        """Whether the vectors are of this model, and nearly all texts have one: what has none yet would fall behind
        what has, however well its words fit."""
        row = db.execute("SELECT epoch, model FROM place").fetchone()
        if row is None:
            raise Damaged("it does not say where it is")
        epoch, model = row
        if epoch != self._epoch or self._dead > max(_ROWS_MIN, self._size // 2):
            self._begin(epoch)
        if model != identity:
            return False
        self._drop(db)
        self._add(db)
        allowed = max(_WAITING_MIN, (self._size - self._dead) // 10)
        query = "SELECT 1 FROM entities WHERE vector IS NULL LIMIT 1 OFFSET ?"
        return db.execute(query, (allowed,)).fetchone() is None

    def nearest(
        self,
        vector: Vector,
        *,
        types: Collection[str] | None,
        kinds: Collection[Kind],
        among: Collection[str] | None,
        limit: int,
    ) -> list[Hit]:
        """Best first."""
        rows = np.flatnonzero(self._usable(types, kinds, among))
        if len(rows) > _CANDIDATES:
            differing = np.bitwise_count(self._signs[rows] ^ _signs(vector[None])).sum(axis=1, dtype=np.uint16)
            rows = rows[np.argpartition(differing, _CANDIDATES)[:_CANDIDATES]]
        scores = self._codes[rows].astype(np.float32) @ vector / self._norms[rows]
        near = np.flatnonzero(scores >= SIMILARITY_MIN)
        # Of two that are as near the newer one comes first.
        order = near[np.lexsort((-rows[near], -scores[near]))][:limit]
        return [Hit(key[0], key[1], float(scores[at])) for at in order for key in [self._keys[rows[at]]]]

    def _usable(
        self, types: Collection[str] | None, kinds: Collection[Kind], among: Collection[str] | None
    ) -> NDArray[np.bool_]:
        usable = self._alive[: self._size].copy()
        if len(set(kinds)) == 1:
            usable &= self._is_edge[: self._size] == ("edge" in kinds)
        if types is not None:
            numbers = [self._type_numbers[each] for each in types if each in self._type_numbers]
            usable &= np.isin(self._types[: self._size], numbers)
        if among is not None:
            named = np.zeros(self._size, dtype=np.bool_)
            named[[row for each in among for kind in kinds if (row := self._rows.get((each, kind))) is not None]] = True
            usable &= named
        return usable

    def _begin(self, epoch: int) -> None:
        self._epoch = epoch
        self._size = self._dead = self._newest = self._change = 0
        self._codes: NDArray[np.int8] = np.zeros((_ROWS_MIN, DIMENSIONS), dtype=np.int8)
        self._signs: NDArray[np.uint64] = np.zeros((_ROWS_MIN, DIMENSIONS // 64), dtype=np.uint64)
        self._norms: NDArray[np.float32] = np.ones(_ROWS_MIN, dtype=np.float32)
        self._types: NDArray[np.int32] = np.zeros(_ROWS_MIN, dtype=np.int32)
        self._is_edge: NDArray[np.bool_] = np.zeros(_ROWS_MIN, dtype=np.bool_)
        self._alive: NDArray[np.bool_] = np.zeros(_ROWS_MIN, dtype=np.bool_)
        self._keys: list[tuple[str, Kind]] = []
        self._rows: dict[tuple[str, Kind], int] = {}
        self._by_vector: dict[int, int] = {}
        self._type_numbers: dict[str, int] = {}

    def _drop(self, db: Connection) -> None:
        for change, vector in db.execute("SELECT change, vector FROM dropped WHERE change > ?", (self._change,)):
            self._change = change
            row = self._by_vector.pop(vector, None)
            if row is not None:
                self._codes[row] = 0
                self._signs[row] = 0
                self._alive[row] = False
                self._dead += 1
                if self._rows.get(self._keys[row]) == row:
                    del self._rows[self._keys[row]]

    def _add(self, db: Connection) -> None:
        found = db.execute(
            "SELECT vectors.number, id, is_edge, type, codes FROM vectors JOIN entities"
            " ON entities.number = vectors.entity WHERE vectors.number > ? ORDER BY vectors.number",
            (self._newest,),
        ).fetchall()
        if not found:
            return
        start, end = self._size, self._size + len(found)
        self._make_room(end)
        self._codes[start:end] = _decoded([each[4] for each in found])
        self._signs[start:end] = _signs(self._codes[start:end])
        self._norms[start:end] = np.linalg.norm(self._codes[start:end].astype(np.float32), axis=1)
        for row, (vector, entity_id, is_edge, type_name, _) in enumerate(found, start):
            key: tuple[str, Kind] = (entity_id, "edge" if is_edge else "node")
            self._keys.append(key)
            self._rows[key] = row
            self._by_vector[vector] = row
            self._types[row] = self._type_numbers.setdefault(type_name, len(self._type_numbers) + 1)
            self._is_edge[row] = bool(is_edge)
        self._alive[start:end] = True
        self._size, self._newest = end, found[-1][0]

    def _make_room(self, rows: int) -> None:
        if rows > len(self._codes):
            more = max(rows, 2 * len(self._codes)) - len(self._codes)
            for name in ("_codes", "_signs", "_norms", "_types", "_is_edge", "_alive"):
                setattr(self, name, _longer(getattr(self, name), more))


def _longer(array: NDArray[Any], more: int) -> NDArray[Any]:
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), dtype=array.dtype)])


def _signs(vectors: NDArray[Any]) -> NDArray[np.uint64]:
    return np.packbits(vectors > 0, axis=1).view(np.uint64)


def _decoded(codes: Sequence[object]) -> NDArray[np.int8]:
    sound = [each for each in codes if isinstance(each, bytes) and len(each) == DIMENSIONS and any(each)]
    if len(sound) != len(codes):
        raise Damaged("a vector is not what it was")
    return np.frombuffer(b"".join(sound), dtype=np.int8).reshape(-1, DIMENSIONS)
