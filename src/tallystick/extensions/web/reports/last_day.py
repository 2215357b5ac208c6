"""The last day in half hours: how many commits, and by whom."""

from __future__ import annotations

import asyncio
import logging
import sys
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import msgspec

from tallystick.clock import to_text
from tallystick.engine.store import Store
from tallystick.errors import Corrupt, TallystickError
from tallystick.policy import Action, Principal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

logger = logging.getLogger(__name__)

SPANS = 48
SPAN_MILLISECONDS = 1_800_000
AUTHORS_AT_ONCE = 500
"""A line of the log is read for each: so many take a few milliseconds."""
AUTHORS_MAX = 50_000
"""Of more commits a day it is not counted who made them."""


class Span(msgspec.Struct, frozen=True):
    since: str
    commits: int
    by_actor: dict[str, int] | None
    """None where that was not counted."""


def edges_of_day(now: int) -> list[str]:
    """Where the spans begin, the oldest first, and where the last one ends."""
    return [to_text(max(0, now - number * SPAN_MILLISECONDS)) for number in range(SPANS, -1, -1)]


def count_in_spans(timestamps: Iterable[str], now: int) -> list[int]:
    """How many of these fall into each."""
    edges = edges_of_day(now)
    counts = Counter(bisect_right(edges, each) - 1 for each in timestamps)
    return [counts[number] + (counts[SPANS] if number == SPANS - 1 else 0) for number in range(SPANS)]


async def count_last_day(store: Store, principal: Principal, now: int, authors: Authors) -> list[Span] | None:
    """The commits of the last day, the oldest half hour first; None where something may be withheld. Reads a few
    lines for each span, however many there are, and a bounded number for their authors, which are kept from one look to
    the next: the others follow."""
    edges = edges_of_day(now)

    def look(state: State, read_filter: ReadFilter) -> list[Span] | None:
        if read_filter.narrows:
            return None
        places = [state.resolve(edges[0])]
        for edge in edges[1:]:
            later = range(places[-1] + 1, state.count + 1)
            places.append(places[-1] + bisect_right(later, edge, key=state.timestamp))
        authors.extend(state, places[0])
        counts = zip(edges, pairwise(places), authors.count(places), strict=False)
        return [Span(since, after - before, by_actor) for since, (before, after), by_actor in counts]

    found = await store.read(principal, Action.SEARCH, look)
    if found is not None:
        authors.go_on(store, principal.tenant)
    return found


class Authors:
    """Of the newest commits without a gap, by their sequence numbers."""

    def __init__(self) -> None:
        self._names: deque[str] = deque()
        self._first = 1
        self._since = 0
        """Behind this one they are wanted."""
        self._is_whole = True
        self._going_on: asyncio.Task[None] | None = None

    def extend(self, state: State, since: int) -> None:
        """By some of those that are missing: the newest, then the next older ones."""
        self._since = max(since, state.count - AUTHORS_MAX)
        if not self._names or self._end > state.count or self._end <= self._since:
            self._names.clear()
            self._first = state.count + 1
        while self._first <= self._since and self._names:
            self._names.popleft()
            self._first += 1
        for seq in range(self._end + 1, min(state.count, self._end + AUTHORS_AT_ONCE) + 1):
            self._names.append(self._author(state, seq))
        for seq in range(self._first - 1, max(self._since, self._first - AUTHORS_AT_ONCE - 1), -1):
            self._names.appendleft(self._author(state, seq))
            self._first = seq
        self._is_whole = self._first == self._since + 1 and self._end == state.count

    def count(self, places: Sequence[int]) -> Iterator[dict[str, int] | None]:
        """Of the commits behind each place, up to the next; None where not all are known."""
        names = list(self._names)
        for before, after in pairwise(places):
            start, end = before + 1 - self._first, after + 1 - self._first
            is_known = start >= 0 and end <= len(names)
            yield {} if before == after else dict(Counter(names[start:end])) if is_known else None

    def go_on(self, store: Store, tenant: str) -> None:
        """Until it has all, a few at a time, whether or not somebody looks again."""
        if not self._is_whole and (self._going_on is None or self._going_on.done()):
            self._going_on = asyncio.create_task(self._go_on(store, tenant), name="authors of the last day")

    async def _go_on(self, store: Store, tenant: str) -> None:
        try:
            while not self._is_whole:
                with await store.tenants.using(tenant) as partition:
                    await partition.look(lambda state: self.extend(state, self._since))
                await asyncio.sleep(0)
        except TallystickError as error:
            logger.info("who wrote in the last day is not counted: %s", error.message)

    @property
    def _end(self) -> int:
        return self._first + len(self._names) - 1

    def _author(self, state: State, seq: int) -> str:
        try:
            return sys.intern(state.author(seq))
        except Corrupt:
            # Whoever reads the commit itself is told.
            return ""
