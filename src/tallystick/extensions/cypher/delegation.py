"""Delegation: a walk past the memory's limits, taken over by an engine that follows the log.

The engine names edges; the state says which of them there are and may be crossed by this caller, step by step, before
the walk goes on from them. So whatever an engine answers, it invents nothing and shows nothing that may not be read;
it can only leave something out. Where it is away, behind or wrong, the memory's own walk is the answer, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.errors import LimitExceeded
from tallystick.extensions.cypher.engine import EngineAway
from tallystick.policy import Action, Principal
from tallystick.state import Breathing, NamedEdge, Walk
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.walk import Verified
from tallystick.telemetry import metrics
from tallystick.toolsets.memory.arguments import Traversal
from tallystick.toolsets.memory.search import Degraded, Delegated
from tallystick.toolsets.memory.search_query import CLOSURE_MAX, SearchQuery, walk_of

if TYPE_CHECKING:
    from tallystick.engine.store import Store
    from tallystick.extensions.cypher.walks import GraphWalks

BEHIND_SECONDS = 0.5
"""How long a walk waits for the engine to get to the head."""


async def delegate(
    store: Store, principal: Principal, sought: SearchQuery, walks: GraphWalks, *, is_long: bool
) -> Delegated | Degraded:
    """`is_long`: longer than the memory walks, so that a cut answer would not be what was asked for. Raises
    LimitExceeded for such a one that is too dear."""
    estimate: tuple[int, int] = await store.read(
        principal, Action.SEARCH, partial(_estimate, sought), resource=sought.entity_id
    )
    nodes, position = estimate
    walk = _asked(sought, None)
    milliseconds = walks.estimate_ms(nodes, min(walk.hops, nodes))
    if nodes > walks.budget.nodes or milliseconds > walks.budget.milliseconds:
        told = f"it would come to about {nodes} entities in {milliseconds:g} ms"
        if is_long:
            raise _too_dear(walks, told, nodes, milliseconds)
        return _degraded("dear", f"{told}, and the budget is {_shown(walks)}")
    try:
        await walks.require_at(position, BEHIND_SECONDS)
        verify = partial(_verified, store, principal, sought)
        found = await _walk(walks, walk, verify)
        metrics.WALKS_DELEGATED.add((found.engine,))
        return found
    except EngineAway as error:
        return _degraded(_REASONS.get(error.code, "away"), f"the engine was not used: {error.message}")


_REASONS = {"CYPHER_BEHIND": "behind", "CYPHER_LATE": "late", "CYPHER_WRONG": "wrong"}

Verify = Callable[[Walk], Awaitable[Verified]]


async def _walk(walks: GraphWalks, walk: Walk, verify: Verify) -> Delegated:
    """Breadth first, like the memory's own."""
    engine = await walks.name()
    started = time.perf_counter()
    until = started + walks.budget.milliseconds / 1000
    reached = {walk.start}
    frontier, along, steps, is_cut = [walk.start], list[NamedEdge](), 0, False
    while frontier and steps < walk.hops and not is_cut:
        left = until - time.perf_counter()
        if left <= 0:
            is_cut = True
            break
        rows = await walks.neighbours(frontier, walk.direction, walk.edge_types, left)
        found = await verify(msgspec.structs.replace(walk, along=tuple(NamedEdge(*row) for row in rows)))
        if found.unheard_of:
            raise EngineAway(f"it named {found.unheard_of} edges that there never were", code="CYPHER_WRONG")
        along += found.edges
        frontier = [each for each in found.ends if each not in reached]
        is_cut = len(reached) + len(frontier) > walks.budget.nodes + 1
        reached.update(frontier)
        steps += 1
    walks.measured(len(reached), steps, (time.perf_counter() - started) * 1000)
    walk = msgspec.structs.replace(walk, along=tuple(along), entities_max=walks.budget.nodes, hops=max(steps, 1))
    return Delegated(engine, walk, is_cut)


async def _verified(store: Store, principal: Principal, sought: SearchQuery, walk: Walk) -> Verified:
    def look(state: State, read_filter: ReadFilter) -> Breathing[Verified]:
        return state.verify_edges(msgspec.structs.replace(walk, read_filter=read_filter))

    return await store.read(principal, Action.SEARCH, look, resource=sought.entity_id)


def _estimate(sought: SearchQuery, state: State, read_filter: ReadFilter) -> Breathing[tuple[int, int]]:
    nodes = yield from state.estimate(_asked(sought, read_filter))
    return nodes, state.position


def _asked(sought: SearchQuery, read_filter: ReadFilter | None) -> Walk:
    """As long as it was asked for."""
    traversal = sought.traversal or Traversal()
    hops = CLOSURE_MAX if traversal.closure else traversal.hops
    walk = walk_of(sought, traversal, 0, hops, None)
    return msgspec.structs.replace(walk, at=None, read_filter=read_filter)


def _degraded(reason: str, why: str) -> Degraded:
    metrics.WALKS_DEGRADED.add((reason,))
    return Degraded(why)


def _shown(walks: GraphWalks) -> str:
    return f"{walks.budget.nodes} entities in {walks.budget.milliseconds:g} ms"


def _too_dear(walks: GraphWalks, told: str, nodes: int, milliseconds: float) -> LimitExceeded:
    metrics.WALKS_DEGRADED.add(("dear",))
    details: dict[str, Any] = {
        "estimate": {"nodes": nodes, "milliseconds": milliseconds},
        "budget": {"nodes": walks.budget.nodes, "milliseconds": walks.budget.milliseconds},
    }
    return LimitExceeded(
        f"this walk is too dear: {told}, and the budget is {_shown(walks)}",
        code="WALK_TOO_DEAR",
        details=details,
        hint="walk fewer hops, or along fewer edge_types; walk_nodes_max and walk_ms_max are the operator's",
    )
