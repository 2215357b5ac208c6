"""A part of the graph by what it is: the newest entities of a type with their newest edges, or the newest edges of a
relation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from tallystick.engine.store import Store
from tallystick.extensions.web.reports.titles import title_of
from tallystick.policy import Action, Principal
from tallystick.state import Breathing, Triple
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

EDGES_EACH = 3
"""Of one of the entities that are asked for."""
_PASSED_MAX = 50_000
"""Edges of other types that are passed on the way to those that are wanted."""


class PartNode(msgspec.Struct, frozen=True):
    id: str
    type: str
    title: str


class GraphPart(msgspec.Struct, frozen=True):
    nodes: list[PartNode]
    """What is asked for, and what is at the other ends of its edges."""
    edges: list[Triple]
    has_more: bool
    """Older ones, after these."""
    is_cut: bool = False
    """Whether edges were not looked at, because too many of other types lie before them."""


async def show_part(
    store: Store, principal: Principal, *, type: str | None, relation: str | None, skip: int, limit: int
) -> GraphPart:
    """With a type and a relation: the edges of which an end is of the type."""

    def look(state: State, read_filter: ReadFilter) -> Breathing[GraphPart]:
        if relation is None:
            return _of_type(state, read_filter, type or "", skip, limit)
        found = yield from state.edges_of_relation(relation)
        candidates = iter(found)
        looked_at = islice(candidates, _PASSED_MAX)
        wanted = (each for each in looked_at if type is None or type in _types(state, each))
        edges = read_filter.first(wanted, lambda each: read_filter.allows_all((each[0], each[2])), skip + limit + 1)
        has_more = len(edges) > skip + limit
        is_cut = not has_more and next(candidates, None) is not None
        return _part(state, (), edges[skip : skip + limit], has_more, is_cut)

    return await store.read(principal, Action.SEARCH, look)


def _of_type(state: State, read_filter: ReadFilter, type: str, skip: int, limit: int) -> GraphPart:
    found = read_filter.first(state.nodes_of_type(type), read_filter.allows, skip + limit + 1)
    shown = found[skip : skip + limit]
    edges: list[Triple] = []
    for each in shown:
        newest = state.newest_edges(each)
        edges += read_filter.first(newest, lambda edge: read_filter.allows_all((edge[0], edge[2])), EDGES_EACH)
    return _part(state, shown, list(dict.fromkeys(edges)), len(found) > skip + limit)


def _part(state: State, ids: Iterable[str], edges: list[Triple], has_more: bool, is_cut: bool = False) -> GraphPart:
    names = dict.fromkeys([*ids, *(end for source, _, target in edges for end in (source, target))])
    nodes = [node for name in names if (node := state.node(name)) is not None]
    shown = [PartNode(node.id, node.type, title_of(node.id, node.attrs)) for node in nodes]
    return GraphPart(shown, edges, has_more, is_cut)


def _types(state: State, edge: Triple) -> list[str]:
    found = (state.owner(each) for each in (edge[0], edge[2]))
    return [each[0] for each in found if each is not None]
