"""The tail of the log: the newest commits, and those that follow."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from contextlib import aclosing, suppress
from itertools import pairwise

import msgspec

from tallystick.clock import to_text
from tallystick.commits import Commit
from tallystick.log import Entry
from tallystick.operations import OperationContext
from tallystick.policy import Action, Principal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.store import Store

SPANS = 48
SPAN_MILLISECONDS = 1_800_000


async def newest(
    store: Store,
    principal: Principal,
    *,
    limit: int,
    wanted: Callable[[Commit], bool],
    seconds_max: float | None = None,
) -> tuple[list[Entry], int]:
    """The last `limit` that are wanted, oldest first, and the position up to which it looked. Reads back until it has
    them, or for so long."""
    await store.partition(principal)
    position = store.position(principal)
    found: list[Entry] = []
    if limit:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds_max), aclosing(store.commits(principal, newest_first=True)) as entries:
                async for entry in entries:
                    if entry.commit.lamport <= position and wanted(entry.commit):
                        found.append(entry)
                        if len(found) == limit:
                            break
    return found[::-1], position


class Span(msgspec.Struct, frozen=True):
    since: str
    commits: int


async def count_last_day(store: Store, principal: Principal, now: int) -> list[Span] | None:
    """The commits of the last day, the oldest half an hour first; None where something may be withheld. Reads a few
    lines for each, however many there are."""
    edges = [to_text(now - number * SPAN_MILLISECONDS) for number in range(SPANS, -1, -1)]

    def look(state: State, read_filter: ReadFilter) -> list[Span] | None:
        if read_filter.narrows:
            return None
        places = [state.resolve(edges[0])]
        for edge in edges[1:]:
            later = range(places[-1] + 1, state.count + 1)
            places.append(places[-1] + bisect_right(later, edge, key=state.timestamp))
        return [Span(since, after - before) for since, (before, after) in zip(edges, pairwise(places), strict=False)]

    return await store.read(principal, Action.SEARCH, look)


async def follow(
    context: OperationContext,
    store: Store,
    position: int,
    *,
    wanted: Callable[[Commit], bool],
    show: Callable[[Entry], None],
) -> None:
    """What is written behind a position, by any process. Ends only when it is cancelled."""
    async for entry in store.watch(context.principal, after=position):
        if wanted(entry.commit):
            show(entry)
