"""The marks that people look for on entities and edges: stale, untrusted, redacted, claimed; and which relations tell
where something comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from tallystick.clock import wall_clock
from tallystick.commits.mask import REDACTED
from tallystick.engine.store import Store
from tallystick.policy import Action, Principal
from tallystick.state import Breathing, Node, Triple
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.state.work import NODE
from tallystick.state.work.claims import ClaimTime
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.claims import Claims

_BREATH = 25
_FROM = re.compile(
    r"deriv\w*[ _-]?from|^derived$|cites|caused[ _-]?by|based[ _-]?on|supersedes|^sources?$", re.IGNORECASE
)
_TO = re.compile(r"derives|caused?s?$|superseded[ _-]?by|source[ _-]?of|led[ _-]?to", re.IGNORECASE)


class Marks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    stale_since: str | None = None
    is_untrusted: bool = False
    redacted: int = 0
    """How many of its attributes."""
    claimed_by: str | None = None
    """Of a task, now."""


NO_MARKS = Marks()


class MarkedEdge(msgspec.Struct, frozen=True):
    since: int
    """The position at which it was written as it is."""
    marks: Marks


class MarkedPart(msgspec.Struct, frozen=True):
    """Of what may be read and is there at the moment."""

    nodes: dict[str, Marks]
    edges: dict[Triple, MarkedEdge]


def origin_of(rel: str, direction: Literal["out", "in"]) -> Literal["from", "to"] | None:
    """`from` for an edge that leads to what its entity was derived from, `to` for one to what derives from it, as far
    as its relation's name tells; None for all others. `direction`: `out` or `in`, as the entity sees the edge."""
    if _FROM.search(rel):
        return "from" if direction == "out" else "to"
    if _TO.search(rel):
        return "to" if direction == "out" else "from"
    return None


async def mark_part(
    store: Store,
    principal: Principal,
    claims: Claims,
    ids: Iterable[str],
    edges: Iterable[Triple],
    as_of: str | int | None = None,
) -> MarkedPart:
    """Raises InvalidArgument for a moment that is none."""
    wanted, triples, now = list(ids), list(edges), claims.moment(wall_clock())

    def look(state: State, read_filter: ReadFilter) -> Breathing[MarkedPart]:
        at = None if as_of is None else read_filter.look_back(as_of)
        found = MarkedPart({}, {})
        for number, name in enumerate(wanted):
            node = state.node(name, at) if read_filter.allows(name) else None
            if node is not None:
                found.nodes[name] = mark_node(state, read_filter, node, now if at is None else None)
            if number % _BREATH == 0:
                yield
        for number, triple in enumerate(triples):
            edge = state.edge(*triple, at) if read_filter.allows_all((triple[0], triple[2])) else None
            if edge is not None:
                found.edges[triple] = MarkedEdge(edge.lamport, _marks(state, read_filter, edge.id, edge.attrs, True))
            if number % _BREATH == 0:
                yield
        return found

    return await store.read(principal, Action.SEARCH, look)


def mark_node(state: State, read_filter: ReadFilter, node: Node, now: ClaimTime | None) -> Marks:
    """Without a `now`, which claims are judged by, of none."""
    marks = _marks(state, read_filter, node.id, node.attrs, False)
    if now is None or node.type != NODE:
        return marks
    row = state.derived(WorkGraph).find(node.id)
    if row is None or not row.open or not now.is_claimed(row):
        return marks
    return msgspec.structs.replace(marks, claimed_by=row.owner)


def _marks(state: State, read_filter: ReadFilter, entity_id: str, attrs: Mapping[str, Any], is_edge: bool) -> Marks:
    stale = read_filter.stale(entity_id, dict(attrs) if is_edge else None)
    return Marks(
        stale_since=None if stale is None else stale.since,
        is_untrusted=state.derived(Trust).find(entity_id) is not None,
        redacted=sum(value == REDACTED for value in attrs.values()),
    )
