"""The text index: which entities of every vocabulary have the words of a question, best first.

Knows texts and nothing of what entities mean or who may read them. `entity_words` says what counts as text, `words`
what makes two words one, `postings` which entity has which, `slots` what was written before and after it,
`ranking` the order; `projection` keeps them on disk. `substring_index` is the text that substrings of contents are
looked for in. Any number of processes share one index; each search first applies what the log has and the index
has not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Literal, TypeVar

import msgspec

from tallystick.errors import StorageRefused, TallystickError
from tallystick.log import Head
from tallystick.projections.database import Damaged
from tallystick.projections.text.lookup import ContentHit, ContentMatches, Hit, Kind, Lookup, TextHits
from tallystick.projections.text.postings import RecentWords
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.text.slots import SlotTable

__all__ = ["RANKED_LIMIT", "ContentHit", "ContentMatches", "Hit", "Kind", "Mode", "TextHits", "TextIndex"]

Mode = Literal["substring", "ranked"]
RANKED_LIMIT = 20
SIMILAR_SECONDS = 0.002
SEARCH_SECONDS = 1.0
"""Who searches by words waits no longer for what is not in the index yet: then he gets what there is."""

logger = logging.getLogger(__name__)

T = TypeVar("T")
_ATTEMPTS = 20
_WORKERS = min(4, os.cpu_count() or 1)


class TextIndex:
    """`catch_up` brings the projection to the head of the log, as a follower's does; `catch_up_within` as near as it
    gets in so many seconds, and says whether that is the head."""

    def __init__(
        self,
        projection: TextProjection,
        catch_up: Callable[[], object],
        *,
        catch_up_within: Callable[[float], bool] | None = None,
        head: Callable[[], Head] | None = None,
        used: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`head` returns the head of the log. `used` is entered for as long as somebody searches: it must not be
        closed then."""
        self._projection = projection
        self._catch_up = catch_up
        self._catch_up_within = catch_up_within
        self._head = head
        self._used = used
        self._threads = ThreadPoolExecutor(_WORKERS, thread_name_prefix="text")
        self._own = threading.local()
        self._lookups: list[Lookup] = []
        self._slots, self._recent = SlotTable(), RecentWords()

    async def search(
        self,
        words: str,
        *,
        types: Collection[str] | None = None,
        kinds: Collection[Kind] = ("node", "edge"),
        among: Collection[str] | None = None,
        limit: int = 200,
        spreads: bool = True,
    ) -> TextHits:
        """Words as a person says them. Includes everything that was committed before it was called, or says up to
        where it looked.

        `types` are those of nodes and relations of edges, `among` ids: nothing else is found. `spreads`: what was
        written just before and after an entity that has the words is found too. A caller from whom entities are
        withheld must say no, since such a hit tells what its neighbour says.
        """

        def search(look: Lookup, is_current: bool) -> TextHits:
            # What earned its neighbour the words may have been redacted since.
            found = look.search(words, types, kinds, among, limit, spreads=spreads and is_current)
            return found if not is_current else msgspec.structs.replace(found, position=None)

        return await self._ask(search, seconds=SEARCH_SECONDS)

    async def contents(
        self, query: str, *, node_type: str | None = None, limit: int | None = None, mode: Mode = "substring"
    ) -> ContentMatches:
        """Only the contents of nodes: those that hold the query as it stands, in any case; or, ranked, its words.
        Without a limit: all, or the best 20."""
        if mode == "ranked":
            return await self._ask(lambda look, _: look.ranked(query, node_type, limit or RANKED_LIMIT))
        return await self._ask(lambda look, _: look.substring(query, node_type, limit))

    async def holding(self, text: str, types: Collection[str]) -> Collection[str] | None:
        """Nodes of the types that may hold the text as it stands, in any case, in whichever value: the caller looks
        himself. None where that may be any of them."""

        def holding(look: Lookup, is_current: bool) -> tuple[list[str] | None]:
            return (look.holding(text, types) if is_current else None,)

        try:
            (found,) = await self._ask(holding, seconds=SEARCH_SECONDS)
            return None if found is None else frozenset(found)
        except TallystickError as error:
            logger.warning("every entity is looked through, since the text index cannot be asked: %s", error.message)
            return None

    async def nearest_words(self, words: str, limit: int = 5) -> list[str]:
        """Words that entities have, and that look like these; none while words that were redacted may be left."""

        def nearest(look: Lookup, is_current: bool) -> list[str]:
            return look.nearest_words(words, limit) if is_current else []

        return await self._ask(nearest, seconds=SEARCH_SECONDS)

    async def similar(
        self, texts: Sequence[str], node_type: str, *, besides: str, limit: int = 3, seconds: float = SIMILAR_SECONDS
    ) -> list[str]:
        """Nodes of the type, other than `besides`, that say nearly the same; none where it takes too long.

        The index as it stands: what was committed a moment ago may not be in it yet.
        """
        deadline = time.monotonic() + seconds
        look = self._in_thread(lambda: self._lookup().similar(texts, node_type, besides, limit, deadline))
        with self._used():
            try:
                return await asyncio.wait_for(look, seconds)
            except (TimeoutError, TallystickError):
                return []

    def close(self) -> None:
        self._threads.shutdown()
        for each in self._lookups:
            each.close()

    async def _ask(self, question: Callable[[Lookup, bool], T | None], *, seconds: float | None = None) -> T:
        """`seconds`: it need not wait any longer for the index. The question is told whether that has everything."""
        with self._used():
            return await self._in_thread(partial(self._answer, question, seconds))

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _answer(self, question: Callable[[Lookup, bool], T | None], seconds: float | None) -> T:
        damage = 0
        look = self._lookup()
        for _ in range(_ATTEMPTS):
            try:
                is_current = self._reach_head(look, seconds)
                reached = self._projection.reached
                look.begin()
                found = question(look, is_current)
            except Damaged as error:
                damage += 1
                if damage > 1:
                    raise
                self._projection.distrust(error.message)
                continue
            # Another process may have begun to build the index anew since it was at the head.
            if found is not None and not (is_current and look.was_behind(reached)):
                return found
        raise TallystickError("the text index is being rewritten", code="PROJECTION_BUSY", hint="try again")

    def _reach_head(self, look: Lookup, seconds: float | None) -> bool:
        try:
            if seconds is not None and self._catch_up_within is not None:
                return self._catch_up_within(seconds)
            self._catch_up()
        except StorageRefused as refusal:
            if refusal.code != StorageRefused.code:
                raise
            return self._is_current(look, refusal, is_late_allowed=seconds is not None)
        return True

    def _is_current(self, look: Lookup, refusal: StorageRefused, *, is_late_allowed: bool) -> bool:
        """Of an index that cannot be written: whether it has everything. Raises the refusal if it cannot be read."""
        try:
            position = look.position()
        except TallystickError:
            raise refusal from None
        if self._head is not None and position == self._head().lamport:
            return True
        if not is_late_allowed:
            raise refusal
        return False

    def _lookup(self) -> Lookup:
        """This thread's own."""
        found: Lookup | None = getattr(self._own, "lookup", None)
        if found is None:
            found = self._own.lookup = Lookup(self._projection, self._slots, self._recent)
            self._lookups.append(found)
        return found
