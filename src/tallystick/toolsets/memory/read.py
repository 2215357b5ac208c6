"""memory.read: one entity by its id, now or at a moment of the past."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from tallystick.clock import elapsed_ms
from tallystick.policy import Action, Principal
from tallystick.state import Breathing, Edge
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.memory.answers import ANSWER_BYTES_MAX, edge_of, entity_of, only, provenance_of, slim
from tallystick.toolsets.memory.arguments import ReadArguments, agree, check_fields, refuse
from tallystick.toolsets.operation_arguments import required
from tallystick.toolsets.truncation import fitting, room_for

if TYPE_CHECKING:
    from tallystick.engine.store import Store

EDGES_MAX = 100


async def read(store: Store, principal: Principal, asked: ReadArguments) -> Answer:
    problems: list[str] = []
    entity_id, kind = asked.entity_id, asked.type
    if asked.filters is not None:
        nested = asked.filters
        entity_id = agree(problems, entity_id=entity_id, filters__id=nested.id, filters__entity_id=nested.entity_id)
        kind = agree(problems, type=kind, filters__type=nested.type)
    if entity_id is None:
        problems.append(required("entity_id"))
    check_fields(problems, asked.fields)
    refuse(problems)

    def look(state: State, read_filter: ReadFilter) -> dict[str, Any] | Breathing[dict[str, Any]]:
        if asked.if_position is not None and asked.if_position == state.position:
            return {"unchanged": True, "position": state.position}
        if asked.include_edges:
            return _with_edges(state, str(entity_id), kind, asked, read_filter, principal)
        return _looked(state, str(entity_id), kind, asked, read_filter)

    if asked.consistency == "latest":
        await store.confirm(principal)
    data: dict[str, Any] = await store.read(
        principal, Action.READ, look, resource=entity_id, min_position=asked.min_lamport
    )
    return Answer(data, exempt=True)


def _with_edges(
    state: State, entity_id: str, kind: str | None, asked: ReadArguments, read_filter: ReadFilter, reader: Principal
) -> Breathing[dict[str, Any]]:
    started, at = time.perf_counter_ns(), state.count
    answer = _looked(state, entity_id, kind, asked, read_filter)
    if asked.as_of is not None:
        at = read_filter.look_back(asked.as_of)
    # A node: an edge that is read by its id has none of its own.
    is_node = state.node(entity_id, at) is not None and answer["entity"] is not None
    edges = state.each_edge(entity_id, at=at, read_filter=read_filter) if is_node else iter(())
    shown = yield from _edges(edges, read_filter, room_for(reader, ANSWER_BYTES_MAX))
    return answer | shown | {"query_latency_ms": elapsed_ms(started)}


def _looked(
    state: State, entity_id: str, kind: str | None, asked: ReadArguments, read_filter: ReadFilter
) -> dict[str, Any]:
    started = time.perf_counter_ns()
    read_filter.judges_pins = True
    at = read_filter.look_back(asked.as_of) if asked.as_of is not None else None
    entity, provenance = _find(state, entity_id, kind, at, read_filter)
    answer: dict[str, Any] = {
        "entity": read_filter.warned(entity_id, only(asked.fields, entity)) if entity else None,
        "provenance": provenance,
        "position": state.position,
    }
    answer["query_latency_ms"] = elapsed_ms(started)
    answer["cache_hit"] = at is None
    return answer


Shown = tuple[dict[str, Any] | None, dict[str, Any] | None]
NOTHING: Shown = (None, None)


def _find(state: State, entity_id: str, kind: str | None, at: int | None, read_filter: ReadFilter) -> Shown:
    """A node, or an edge by its id, if both its ends may be read; where both have the id, the node."""
    node = state.node(entity_id, at)
    if node is not None:
        return (entity_of(node), provenance_of(node.provenance)) if kind in (None, node.type) else NOTHING
    edge = state.edge_by_id(entity_id, at)
    if edge is None or kind not in (None, edge.rel) or not read_filter.allows_all((edge.source, edge.target)):
        return NOTHING
    made = state.edge_provenance(entity_id, at)
    authors = {"created_by": made.created_by, "updated_by": made.updated_by} if made else {}
    return edge_of(edge) | authors, provenance_of(made) if made else None


def _edges(edges: Iterator[Edge], read_filter: ReadFilter, bytes_max: int) -> Breathing[dict[str, Any]]:
    """Those that fit, each read when there may be room for it."""
    count = 0

    def documents() -> Iterator[dict[str, Any]]:
        nonlocal count
        for edge in islice(edges, EDGES_MAX):
            count += 1
            yield read_filter.warned(edge.id, slim(edge_of(edge), "attrs", bytes_max))

    shown = yield from fitting(documents(), bytes_max)
    return {"edges": shown, "edges_truncated": len(shown) < count or next(edges, None) is not None}
