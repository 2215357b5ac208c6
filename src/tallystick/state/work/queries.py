"""The queries: which work nodes of a project fit a filter, and a page of them in some order.

Filters are sets that are kept anyway, so most cost a few intersections. Documents are read
only where a property is an object, a list or a long text.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import chain, islice
from typing import Any, Literal

import msgspec
from pyroaring import BitMap

from tallystick.state.attributes import TEXT_MAX, scalar
from tallystick.state.conditions import is_same
from tallystick.state.read_filter import ReadFilter
from tallystick.state.work import CLAIMED_BY
from tallystick.state.work.board import Board, Rank, Row, rank_of
from tallystick.state.work.claims import ClaimTime
from tallystick.state.work.graph import WorkGraph

Sort = Literal["readiness", "depth", "recent", "created"]
Key = tuple[float, ...]
"""Where a row stands in an order; page by page, the next one begins behind it."""
Properties = Callable[[str], dict[str, Any]]
"""What a node's document says of its properties."""

Numbers = BitMap
"""A set of rows by their numbers."""

_NUMBER_MAX = 2**32 - 1
_FEW = 4_096
"""So many are sorted when asked; of more, the order that is kept is walked along."""


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    resolved: bool | None = None
    properties: dict[str, Any] = {}
    text: str | None = None
    below: Row | None = None
    evidence: str | None = None
    leaf: bool | None = None
    actionable: bool | None = None
    blocked: bool | None = None
    claimed_by: str | msgspec.UnsetType | None = msgspec.UNSET


class Readiness(msgspec.Struct, frozen=True):
    """Which nodes of a project wait for nothing, and which do."""

    leaves: BitMap
    blocked: BitMap
    actionable: BitMap


def readiness(
    graph: WorkGraph, board: Board, read_filter: ReadFilter | None = None, among: BitMap | None = None
) -> Readiness:
    """As it is; or as it is among the nodes that may be read: what may not be read holds nobody up.

    Then only those are right that are `among` these.
    """
    if read_filter is None or not read_filter.narrows:
        return Readiness(board.leaves, board.blocked, board.actionable)
    rows, members = graph.by_number, board.members if among is None else among
    leaves = (board.leaves & members) | _not_held_up(
        graph, members - board.leaves, read_filter, lambda row: (each for each in row.children if each.open)
    )
    waiting = BitMap([number for number in members & board.blocked if not rows[number].held])
    free = _not_held_up(graph, waiting, read_filter, Row.blockers)
    blocked = (members & board.blocked) - free
    ready = [number for number in leaves - board.resolved - blocked if rows[number].open]
    return Readiness(leaves, blocked, BitMap(ready))


def _not_held_up(
    graph: WorkGraph, members: BitMap, read_filter: ReadFilter, others: Callable[[Row], Iterable[Row]]
) -> BitMap:
    rows = graph.by_number
    return BitMap(
        [number for number in members if not any(read_filter.allows(each.id) for each in others(rows[number]))]
    )


def matching(
    graph: WorkGraph, board: Board, wanted: Filter, moment: ClaimTime, properties: Properties, stands: Readiness
) -> BitMap:
    """The numbers of all that fit."""
    left = board.members.copy()
    for answer, members in (
        (wanted.resolved, board.resolved),
        (wanted.leaf, stands.leaves),
        (wanted.actionable, stands.actionable),
        (wanted.blocked, stands.blocked),
    ):
        if answer is not None:
            left = left & members if answer else left - members
    if wanted.below is not None:
        left &= board.below(wanted.below)
    if wanted.evidence is not None:
        left &= graph.kinds.get(wanted.evidence, BitMap())
    if wanted.claimed_by is not msgspec.UNSET:
        left = _claimed(graph, left, wanted.claimed_by, moment)
    left = with_properties(graph, left, wanted.properties, properties)
    if wanted.text is not None:
        left = _with_text(board, left, wanted.text.casefold())
    return left


def readable(graph: WorkGraph, hits: BitMap, read_filter: ReadFilter) -> BitMap:
    return BitMap([number for number in hits if read_filter.allows(graph.by_number[number].id)])


def _with_text(board: Board, left: BitMap, sought: str) -> BitMap:
    texts = board.texts
    if len(left) * 4 < len(texts):
        return BitMap([number for number in left if sought in texts[number]])
    return left & BitMap([number for number, text in texts.items() if sought in text])


def with_properties(graph: WorkGraph, left: BitMap, wanted: dict[str, Any], properties: Properties) -> BitMap:
    for key, value in wanted.items():
        left = _with_property(graph, left, key, value, properties)
    return left


def _with_property(graph: WorkGraph, left: BitMap, key: str, value: Any, properties: Properties) -> BitMap:
    postings = graph.properties.get(key)
    if value is None:
        return left - postings.present if postings is not None else left
    if postings is None:
        return BitMap()
    if not isinstance(value, dict | list) and not (isinstance(value, str) and len(value) > TEXT_MAX):
        return left & postings.members(scalar(value))
    perhaps = left & postings.long
    return BitMap([number for number in perhaps if is_same(properties(graph.by_number[number].id).get(key), value)])


def _claimed(graph: WorkGraph, left: BitMap, agent: str | None, moment: ClaimTime) -> BitMap:
    """By this one, or by nobody; a claim that has grown stale is none."""
    postings, rows = graph.properties.get(CLAIMED_BY), graph.by_number
    if postings is None:
        return left if agent is None else BitMap()
    marked = left & (postings.present if agent is None else postings.members(agent))
    live = BitMap([number for number in marked if moment.is_claimed(rows[number])])
    return left - live if agent is None else live


def claimed_elsewhere(graph: WorkGraph, board: Board, agent: str, session: str | None) -> Numbers:
    """Return the nodes of a project that an agent claimed in other sessions than this one, living or not."""
    postings, rows = graph.properties.get(CLAIMED_BY), graph.by_number
    claimed = postings.members(agent) & board.members if postings is not None else ()
    return BitMap([number for number in claimed if rows[number].session not in (None, session)])


# -- in order


def page(
    graph: WorkGraph, board: Board, hits: BitMap, sort: Sort, after: Key | None, limit: int, stands: Readiness
) -> list[tuple[Row, Key]]:
    """The first `limit` behind `after`, each with where it stands."""
    if sort == "readiness":
        return list(islice(_by_readiness(graph, board, hits, after, stands), limit))
    return list(islice(_ORDERS[sort](graph, board, hits, after), limit))


def ranked_among(graph: WorkGraph, board: Board, hits: BitMap | None, read_filter: ReadFilter) -> Iterator[Row]:
    """Nodes that are actionable among those that may be read, what comes next first. Asks about no more than it has
    come to."""
    rows, waiting = graph.by_number, board.members - board.resolved - board.actionable
    ready: Iterable[Rank] = board.ranked
    if hits is not None:
        ready, waiting = (rank for rank in ready if rank[-1] in hits), waiting & hits
    for *_, number in merge(ready, sorted(rank_of(rows[number]) for number in waiting)):
        row = rows[number]
        held_up = row.held or any(read_filter.allows(each.id) for each in row.waits_for())
        if row.rank is not None or not held_up:
            yield row


def ranked(
    graph: WorkGraph,
    board: Board,
    hits: BitMap | None = None,
    after: Key | None = None,
    stands: Readiness | None = None,
) -> Iterator[Row]:
    """Actionable nodes, what comes next first."""
    actionable = board.actionable if stands is None else stands.actionable
    ready = actionable if hits is None else hits & actionable
    rows = graph.by_number
    if actionable is not board.actionable or (hits is not None and len(ready) <= _FEW):
        ranks = sorted(rank_of(rows[number]) for number in ready)
        found: Iterable[Any] = ranks[bisect_right(ranks, after) if after is not None else 0 :]
    else:
        found = board.ranked.irange(minimum=after, inclusive=(False, True))
    return (rows[rank[-1]] for rank in found if rank[-1] in ready)


def _by_readiness(
    graph: WorkGraph, board: Board, hits: BitMap, after: Key | None, stands: Readiness
) -> Iterator[tuple[Row, Key]]:
    group, place = (after[0], after[1:]) if after is not None else (0, None)
    rows = graph.by_number
    parts: list[Iterator[tuple[Row, Key]]] = []
    if group == 0:
        parts.append((row, (0, *rank_of(row))) for row in ranked(graph, board, hits, place, stands))
    for number, members in ((1, hits - board.resolved - stands.actionable), (2, hits & board.resolved)):
        if group <= number:
            start = _behind(place) if place is not None and group == number else 0
            parts.append(_listed(rows, members, start, number))
    return chain.from_iterable(parts)


def _listed(rows: dict[int, Row], members: BitMap, start: int, group: int) -> Iterator[tuple[Row, Key]]:
    return ((rows[number], (group, number)) for number in members.iter_equal_or_larger(start))


def _by_depth(graph: WorkGraph, board: Board, hits: BitMap, after: Key | None) -> Iterator[tuple[Row, Key]]:
    rows = graph.by_number
    if len(hits) <= _FEW:
        keys = sorted((rows[number].depth, number) for number in hits)
        for depth, number in keys[bisect_right(keys, after) if after is not None else 0 :]:
            yield rows[number], (depth, number)
        return
    for depth in sorted(depth for depth in board.depths if after is None or depth >= after[0]):
        start = _behind(after) if after is not None and depth == after[0] else 0
        for number in (hits & board.depths[depth]).iter_equal_or_larger(start):
            yield rows[number], (depth, number)


def _by_recency(graph: WorkGraph, board: Board, hits: BitMap, after: Key | None) -> Iterator[tuple[Row, Key]]:
    latest = None if after is None else -after[0]
    if len(hits) <= _FEW:
        updates: Iterable[Any] = sorted((graph.by_number[number].updated for number in hits), reverse=True)
    else:
        updates = board.updates.irange(maximum=latest, reverse=True)
    for updated in updates:
        row = graph.by_update[updated]
        if row.created in hits and (latest is None or updated < latest):
            yield row, (-updated,)


def _by_creation(graph: WorkGraph, board: Board, hits: BitMap, after: Key | None) -> Iterator[tuple[Row, Key]]:
    start = 0 if after is None else _behind(after)
    return ((graph.by_number[number], (number,)) for number in hits.iter_equal_or_larger(start))


def _behind(after: Key) -> int:
    return min(max(int(after[-1]) + 1, 0), _NUMBER_MAX)


_ORDERS: dict[Sort, Callable[[WorkGraph, Board, BitMap, Key | None], Iterator[tuple[Row, Key]]]] = {
    "depth": _by_depth,
    "recent": _by_recency,
    "created": _by_creation,
}
KEY_LENGTHS: dict[Sort, tuple[int, ...]] = {"readiness": (2, 5), "depth": (2,), "recent": (1,), "created": (1,)}
"""How many numbers a place in each order has."""
