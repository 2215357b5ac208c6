"""Search in the texts of nodes: by substring, or ranked by words.

Knows contents and nothing of what nodes mean. `projection` keeps the index, `folded` is the
text that substrings are looked for in, `ranking` the order of what words find. Any number of
processes share one index; each search first applies what the log has and the index has not.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import msgspec

from tallystick.errors import TallystickError
from tallystick.projections.database import Connection, Damaged, Reader
from tallystick.projections.text import ranking
from tallystick.projections.text.projection import DATABASE, At, TextProjection, read_place
from tallystick.projections.text.substring_index import Mapped, folded

Mode = Literal["substring", "ranked"]
RANKED_LIMIT = 20

_ATTEMPTS = 20
_WORKERS = min(4, os.cpu_count() or 1)


class Hit(msgspec.Struct, frozen=True):
    node_id: str
    score: float | None = None
    """Ranked only: BM25, higher is better."""
    snippet: str | None = None
    """Ranked only: some of the text around the words that were found."""


class TextMatches(msgspec.Struct, frozen=True):
    hits: list[Hit]
    """By substring: as the nodes were made. Ranked: those with all words, then those with any, best first."""
    skipped: list[str]
    """Nodes whose content could not be read, so that nobody knows whether it matches."""


class TextIndex:
    """`catch_up` brings the projection to the head of the log, as a follower's does."""

    def __init__(
        self,
        projection: TextProjection,
        catch_up: Callable[[], object],
        *,
        used: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`used` is entered for as long as somebody searches: it must not be closed then."""
        self._projection = projection
        self._catch_up = catch_up
        self._used = used
        self._threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="text")
        self._own = threading.local()
        self._eyes: list[_ThreadReader] = []

    async def search(
        self, query: str, *, node_type: str | None = None, limit: int | None = None, mode: Mode = "substring"
    ) -> TextMatches:
        """Includes everything that was committed before it was called. Without a limit: all, or the best 20."""
        look = asyncio.get_running_loop().run_in_executor
        with self._used():
            return await look(self._threads, self._search, query, node_type, limit, mode)

    def close(self) -> None:
        self._threads.shutdown()
        for eyes in self._eyes:
            eyes.close()

    def _search(self, query: str, node_type: str | None, limit: int | None, mode: Mode) -> TextMatches:
        damage = 0
        for _ in range(_ATTEMPTS):
            try:
                self._catch_up()
                found = self._pair().look(query, node_type, limit, mode)
            except Damaged as error:
                damage += 1
                if damage > 1:
                    raise
                self._projection.distrust(error.message)
                continue
            if found is not None:
                return found
        raise TallystickError("the text index is being rewritten", code="PROJECTION_BUSY", hint="try again")

    def _pair(self) -> _ThreadReader:
        """This thread's own."""
        eyes: _ThreadReader | None = getattr(self._own, "eyes", None)
        if eyes is None:
            eyes = self._own.eyes = _ThreadReader(self._projection)
            self._eyes.append(eyes)
        return eyes


class _ThreadReader:
    """What one thread looks with: a connection and the mapped files."""

    def __init__(self, projection: TextProjection) -> None:
        self._directory = projection.directory
        self._reader = Reader(projection.directory / DATABASE)
        self._mapped: Mapped | None = None

    def look(self, query: str, node_type: str | None, limit: int | None, mode: Mode) -> TextMatches | None:
        """None when texts were moved or wiped meanwhile."""
        with self._reader.snapshot() as db:
            at = read_place(db)
            if db.execute("SELECT 1 FROM wipes").fetchone():
                return None
            type_number = _type_number(db, node_type)
            if type_number == 0:
                return TextMatches([], [])
            skipped = _skipped(db, type_number)
            if mode == "ranked":
                return TextMatches(_ranked(db, query, type_number, limit), skipped)
            try:
                hits = self._substring(db, at, query, type_number, limit)
            except FileNotFoundError:
                return None
        with self._reader.snapshot() as db:
            now = read_place(db)
        return TextMatches(hits, skipped) if (now.generation, now.rewrites) == (at.generation, at.rewrites) else None

    def close(self) -> None:
        self._reader.close()

    def _substring(self, db: Connection, at: At, query: str, type_number: int | None, limit: int | None) -> list[Hit]:
        needle = folded(query)
        if not needle:
            return []
        if self._mapped is None or not self._mapped.covers(at.generation, at.ends):
            self._mapped = Mapped(self._directory, at.generation, at.ends)
        return _hits(db, self._mapped.search(needle, at.ends, type_number, limit))


def _hits(db: Connection, numbers: list[int]) -> list[Hit]:
    """In the order of the numbers."""
    rows = db.execute(
        "SELECT node FROM json_each(?) AS wanted JOIN texts ON texts.number = wanted.value ORDER BY wanted.id",
        (msgspec.json.encode(numbers).decode(),),
    )
    return [Hit(node) for (node,) in rows]


def _ranked(db: Connection, query: str, type_number: int | None, limit: int | None) -> list[Hit]:
    hits = []
    for number, score in ranking.best(db, query, type_number, RANKED_LIMIT if limit is None else limit):
        node = db.execute("SELECT node FROM texts WHERE number = ?", (number,)).fetchone()[0]
        hits.append(Hit(node, float(f"{score:.4g}"), ranking.snippet(db, query, number)))
    return hits


def _skipped(db: Connection, type_number: int | None) -> list[str]:
    rows = db.execute("SELECT node, type FROM texts WHERE unread IS NOT NULL ORDER BY number")
    return [node for node, number in rows if type_number in (None, number)]


def _type_number(db: Connection, node_type: str | None) -> int | None:
    """None for any type, 0 for one that no node has."""
    if node_type is None:
        return None
    row = db.execute("SELECT number FROM types WHERE name = ?", (node_type,)).fetchone()
    return 0 if row is None else int(row[0])
