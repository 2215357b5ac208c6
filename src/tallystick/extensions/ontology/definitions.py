"""The definitions of the ontology, its presets, and what violates them.

Everything is decided where it is written, at the head, so of two that define the same name at the same time one is
refused because it exists. A rule changes nothing that was there before it. What violates it stays until it is fixed, so
the answer to a new rule lists the violations that the caller may read, a few by name and all in a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.commits import Operation
from tallystick.errors import Conflict, Denied, InvalidArgument, NotFound, TallystickError
from tallystick.extensions.ontology import lookup
from tallystick.extensions.ontology.arguments import (
    AddConnectionType,
    AddNodeType,
    CreateOntology,
    GetOntology,
    ValidateConnection,
)
from tallystick.extensions.ontology.context import Call, ToolContext, Writing, done
from tallystick.extensions.ontology.lookup import Preset, presets
from tallystick.extensions.ontology.members import find_connections, find_nodes, may_have_members
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.ontology import (
    CONNECTION_TYPE,
    NODE_TYPE,
    ConnectionType,
    Ontology,
    check_connection,
    check_properties,
    check_topology,
    define_connection_type,
    define_node_type,
    define_ontology,
)
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.drafts import Drawn

if TYPE_CHECKING:
    from tallystick.engine.store import Store

Propose = Callable[[State], tuple[Operation, ...]]

ONTOLOGY = "ontology"
"""As policy knows it: what is written is the schema, whichever type it is."""
SHOWN_MAX = 20
LOOKED_AT_MAX = 100_000
"""Of nodes and of connections; what there is beyond is not looked at, and that is said."""
_AT_ONCE = 500

Members = tuple[list[str], list[str], bool]
"""Ids of nodes, ids of connections, and whether these are all."""
Judge = Callable[["State", "ReadFilter", str], JsonObject | None]


async def create_ontology(call: Call, asked: CreateOntology) -> Answer:
    kinds = [
        connection_type(each.name, each.from_types, each.to_types, each.required_properties)
        for each in asked.connection_types
    ]

    def propose(state: State) -> tuple[Operation, ...]:
        if state.derived(Ontology).exists:
            raise Conflict(
                "an ontology exists already",
                code="ONTOLOGY_ALREADY_EXISTS",
                hint="extend it with add_node_type and add_connection_type",
            )
        _check_distinct(kinds)
        names = map(define_node_type, dict.fromkeys(asked.node_types))
        return (define_ontology(), *names, *map(define_connection_type, kinds))

    return await _define(call, propose)


async def add_node_type(call: Call, asked: AddNodeType) -> Answer:
    def propose(state: State) -> tuple[Operation, ...]:
        if lookup.get_ontology(state).has_node_type(asked.type_name):
            raise _exists("Node", asked.type_name)
        return (define_node_type(asked.type_name),)

    return await _define(call, propose)


async def add_connection_type(call: Call, asked: AddConnectionType) -> Answer:
    kind = connection_type(asked.type_name, asked.from_types, asked.to_types, asked.required_properties)

    def propose(state: State) -> tuple[Operation, ...]:
        if lookup.get_ontology(state).find_connection_type(kind.name) is not None:
            raise _exists("Connection", kind.name)
        return (define_connection_type(kind),)

    return await _define(call, propose)


async def get_ontology(call: Call, asked: GetOntology) -> Answer:
    def look(state: State, read_filter: ReadFilter) -> dict[str, Any]:
        return described(lookup.get_ontology(state))

    return Answer(await call.read(Action.READ, look, resource=ONTOLOGY, is_entity=False), exempt=True)


async def validate_connection(call: Call, asked: ValidateConnection) -> Answer:
    def look(state: State, read_filter: ReadFilter) -> dict[str, Any]:
        ontology = lookup.get_ontology(state)
        try:
            kind = lookup.get_connection_type(ontology, asked.connection_type)
            check_topology(kind, asked.from_node_type, asked.to_node_type)
        except TallystickError as error:
            return {"valid": False, "reason": error.message}
        return {"valid": True}

    return Answer(await call.read(Action.READ, look, resource=ONTOLOGY, is_entity=False))


async def _define(call: Call, propose: Propose) -> Answer:
    found = await _commit(Writing(call), propose)
    return Answer({"ok": True, **found}) if found else done(call)


async def _commit(writing: Writing, propose: Propose) -> dict[str, Any]:
    """Write the definitions; the answer names what stood before and violates them."""

    def draw(state: State, read_filter: ReadFilter) -> Drawn[Rules | None]:
        operations = propose(state)
        rules = rules_of(operations)
        return Drawn(rules if rules.have_members(state) else None, operations)

    rules, _ = await writing.draw(draw, ONTOLOGY)
    return await violations(writing.call, rules) if rules is not None else {}


def described(ontology: Ontology) -> dict[str, Any]:
    return {"node_types": ontology.node_types, "connection_types": [kind.attrs() for kind in ontology.connection_types]}


def connection_type(
    name: str, from_types: Iterable[str], to_types: Iterable[str], required: Iterable[str] | None
) -> ConnectionType:
    """Names that were said twice are meant once."""
    return ConnectionType(name, *(tuple(dict.fromkeys(names)) for names in (from_types, to_types, required or ())))


def _check_distinct(kinds: list[ConnectionType]) -> None:
    seen: set[str] = set()
    for kind in kinds:
        if kind.name in seen:
            raise _exists("Connection", kind.name)
        seen.add(kind.name)


def _exists(what: str, name: str) -> Conflict:
    return Conflict(
        f"{what} type {name} is already defined in the ontology, which is append-only",
        code="TYPE_ALREADY_EXISTS",
        details={"type": name},
    )


# -- presets


async def use_preset(store: Store, principal: Principal, name: str) -> dict[str, Any]:
    """Define what the preset has and the ontology lacks, in one draft: `added`, the names of what was, and what stood
    before and violates it.

    Raises when a connection type of that name means something else here: types are never changed.
    """
    preset = presets().get(name)
    if preset is None:
        raise NotFound(f"there is no preset '{name}'; there are {', '.join(presets())}", code="PRESET_NOT_FOUND")

    def draw(state: State, read_filter: ReadFilter) -> Drawn[tuple[list[str], Rules | None]]:
        operations = _lacking(state.derived(Ontology), preset)
        added = [operation.payload["attrs"]["name"] for operation in operations if operation.payload["attrs"]]
        rules = rules_of(operations)
        return Drawn((added, rules if rules.have_members(state) else None), operations)

    writing = Writing(Call(ToolContext(None, None), store, principal, "ontology use"))
    (added, rules), _ = await writing.draw(draw, ONTOLOGY)
    return {"added": added, **(await violations(writing.call, rules) if rules is not None else {})}


def _lacking(ontology: Ontology, preset: Preset) -> list[Operation]:
    operations = [] if ontology.exists else [define_ontology()]
    operations += [define_node_type(name) for name in preset.node_types if not ontology.has_node_type(name)]
    for kind in preset.connection_types:
        there = ontology.find_connection_type(kind.name)
        if there is None:
            operations.append(define_connection_type(kind))
        elif there != kind:
            raise _exists("Connection", kind.name)
    return operations


# -- violations


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
