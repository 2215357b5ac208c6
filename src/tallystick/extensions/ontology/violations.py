"""The violations: what stood in the memory before a rule and does not keep it.

Nothing is changed by a rule that comes later, and each violation stays until somebody mends it.
So the answer to a new rule lists those that may be read, a few by name and all in a count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from tallystick.commits import Operation
from tallystick.errors import Conflict, Denied, InvalidArgument, TallystickError
from tallystick.extensions.ontology.context import Call
from tallystick.extensions.ontology.members import find_connections, find_nodes, may_have_members
from tallystick.policy import Action
from tallystick.state import Breathing
from tallystick.state.ontology import (
    CONNECTION_TYPE,
    NODE_TYPE,
    ConnectionType,
    Ontology,
    check_connection,
    check_properties,
)
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import JsonObject

SHOWN_MAX = 20
LOOKED_AT_MAX = 100_000
"""Of nodes and of connections; what there is beyond is not looked at, and that is said."""
_AT_ONCE = 500

Members = tuple[list[str], list[str], bool]
"""Ids of nodes, ids of connections, and whether these are all."""
Judge = Callable[["State", "ReadFilter", str], JsonObject | None]


class Rules(msgspec.Struct, frozen=True):
    """What a draft adds to the ontology."""

    node_types: tuple[str, ...]
    connection_types: tuple[ConnectionType, ...]

    def have_members(self, state: State) -> bool:
        """Quickly, and perhaps once too often: whether it is worth to look."""
        return may_have_members(state, self.node_types, [kind.name for kind in self.connection_types])


def rules_of(operations: Sequence[Operation]) -> Rules:
    said = [(operation.payload["type"], operation.payload["attrs"]) for operation in operations]
    return Rules(
        tuple(attrs["name"] for kind, attrs in said if kind == NODE_TYPE),
        tuple(msgspec.convert(attrs, ConnectionType) for kind, attrs in said if kind == CONNECTION_TYPE),
    )


async def violations(call: Call, rules: Rules) -> JsonObject:
    """As in an answer; nothing when there are none. The rules are written: whatever is wrong with looking,
    they stand."""
    try:
        return await _told(call, rules)
    except Denied:
        return {}  # Who may not search learns of nothing that was not asked for by name.
    except TallystickError:
        return {"unchecked": True}


async def _told(call: Call, rules: Rules) -> JsonObject:
    found: list[JsonObject] = []
    total = 0

    def members(state: State, read_filter: ReadFilter) -> Breathing[Members]:
        return _members(state, rules)

    there: Members = await call.read(Action.SEARCH, members)
    nodes, connections, is_all = there
    for judge, ids in ((_judge_node, nodes), (_judge_connection, connections)):
        for start in range(0, len(ids), _AT_ONCE):
            wrong = await _violating(call, judge, ids[start : start + _AT_ONCE])
            found += wrong[: SHOWN_MAX - len(found)]
            total += len(wrong)
    answer: JsonObject = {"violations": found, "total": total} if total else {}
    return answer if is_all else {**answer, "unchecked": True}


async def _violating(call: Call, judge: Judge, ids: list[str]) -> list[JsonObject]:
    def look(state: State, read_filter: ReadFilter) -> Breathing[list[JsonObject]]:
        wrong = []
        for entity_id in ids:
            if (said := judge(state, read_filter, entity_id)) is not None:
                wrong.append(said)
            yield
        return wrong

    return await call.read(Action.SEARCH, look)


def _members(state: State, rules: Rules) -> Breathing[Members]:
    nodes = yield from find_nodes(state, rules.node_types, {}, offset=0, limit=LOOKED_AT_MAX)
    edges = yield from find_connections(state, rules.connection_types, {}, offset=0, limit=LOOKED_AT_MAX)
    return nodes.ids, edges.ids, max(nodes.total, edges.total) <= LOOKED_AT_MAX


def _judge_node(state: State, read_filter: ReadFilter, node_id: str) -> JsonObject | None:
    node = state.node(node_id)
    fault = None if node is None else _fault(partial(check_properties, node.attrs))
    if fault is None or not read_filter.allows(node_id):
        return None
    return {"node_id": node_id, "code": fault.code, "reason": fault.message}


def _judge_connection(state: State, read_filter: ReadFilter, edge_id: str) -> JsonObject | None:
    fault = _fault(partial(_check_edge, state, edge_id))
    if fault is None or not read_filter.allows_edge(edge_id):
        return None
    return {"connection_id": edge_id, "code": fault.code, "reason": fault.message}


def _check_edge(state: State, edge_id: str) -> None:
    edge = state.edge_by_id(edge_id)
    kind = None if edge is None else state.derived(Ontology).find_connection_type(edge.rel)
    if edge is not None and kind is not None:
        source, target = state.owner(edge.source), state.owner(edge.target)
        if source is not None and target is not None:
            check_connection(kind, source[0], target[0], edge.attrs)


def _fault(check: partial[None]) -> TallystickError | None:
    try:
        check()
    except (InvalidArgument, Conflict) as fault:
        return fault
    return None
