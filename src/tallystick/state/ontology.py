"""The ontology: the schema of the graph, and the rules that follow from it.

A definition is a node of a reserved type, so it has lineage like everything else, and it is
never altered: types are added, not changed. `check` holds for every writer: a type that is
named here is checked in every draft, a type that is not costs a lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, ClassVar

import msgspec

from tallystick.commits import Draft, Operation, Verb, reserved_attributes
from tallystick.commits.canonical import INTEGER_MAX
from tallystick.errors import Conflict, InvalidArgument, TallystickError
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

RESERVED = "ontology/"
"""Types and ids that begin so belong to the ontology."""
ROOT = "ontology/ontology"
NODE_TYPE = "ontology/node_type"
CONNECTION_TYPE = "ontology/connection_type"

NAMES_SHOWN = 50


class ConnectionType(msgspec.Struct, frozen=True):
    name: str
    from_types: tuple[str, ...]
    to_types: tuple[str, ...]
    required_properties: tuple[str, ...] = ()

    def governs(self, from_type: str, to_type: str) -> bool:
        """Whether an edge of this name between such nodes is a connection.

        Between two nodes of other toolsets it is theirs, unless this type names both.
        """
        if is_foreign(from_type) and is_foreign(to_type):
            return from_type in self.from_types and to_type in self.to_types
        return True

    def attrs(self) -> dict[str, Any]:
        """As it is written and shown: without what it does not require."""
        required = {"required_properties": list(self.required_properties)} if self.required_properties else {}
        return {"name": self.name, "from_types": list(self.from_types), "to_types": list(self.to_types), **required}


def is_foreign(node_type: str) -> bool:
    """The types of other toolsets have a slash; the ontology's own have none."""
    return "/" in node_type


class Ontology:
    """What is defined, in the order in which it was."""

    types: ClassVar[frozenset[str]] = frozenset({ROOT, NODE_TYPE, CONNECTION_TYPE})

    def __init__(self) -> None:
        self.exists = False
        self._node_types: dict[str, tuple[int, str]] = {}
        self._connection_types: dict[str, tuple[int, ConnectionType]] = {}

    @property
    def node_types(self) -> list[str]:
        return [name for _, name in sorted(self._node_types.values())]

    @property
    def connection_types(self) -> list[ConnectionType]:
        return [defined for _, defined in sorted(self._connection_types.values(), key=lambda pair: pair[0])]

    def has_node_type(self, name: str) -> bool:
        return name in self._node_types

    def find_connection_type(self, name: str) -> ConnectionType | None:
        found = self._connection_types.get(name)
        return found[1] if found else None

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        for version in (before, after):
            if version is not None and version.type == ROOT:
                self.exists = after is not None
        if before is not None and (defined := _read(before)):
            self._kept_in(defined).pop(_name(defined), None)
        if after is not None and (defined := _read(after)):
            self._kept_in(defined)[_name(defined)] = (after.created, defined)

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None:
        """Definitions have no edges of their own."""

    def _kept_in(self, defined: str | ConnectionType) -> dict[str, Any]:
        return self._node_types if isinstance(defined, str) else self._connection_types


def _read(version: NodeVersion) -> str | ConnectionType | None:
    """A node type's name, or a connection type. None for what is neither, which `check` lets nobody write."""
    try:
        if version.type == NODE_TYPE:
            return msgspec.convert(version.attrs.get("name"), str)
        return msgspec.convert(version.attrs, ConnectionType) if version.type == CONNECTION_TYPE else None
    except msgspec.ValidationError:
        return None


def _name(defined: str | ConnectionType) -> str:
    return defined if isinstance(defined, str) else defined.name


# -- what a definition is written as


def define_ontology() -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": ROOT, "type": ROOT, "attrs": {}})


def define_node_type(name: str) -> Operation:
    return Operation(
        Verb.UPSERT_NODE, {"id": definition_id(NODE_TYPE, name), "type": NODE_TYPE, "attrs": {"name": name}}
    )


def define_connection_type(defined: ConnectionType) -> Operation:
    payload = {"id": definition_id(CONNECTION_TYPE, defined.name), "type": CONNECTION_TYPE, "attrs": defined.attrs()}
    return Operation(Verb.UPSERT_NODE, payload)


def definition_id(kind: str, name: str) -> str:
    """One place for each name, so that a name cannot be defined twice."""
    return f"{kind}/{name}"


# -- the rules


def check_properties(properties: Mapping[str, Any]) -> None:
    """Of those that say whether a fact still holds, others see to the values: some of them are lists."""
    for key, value in properties.items():
        if key not in reserved_attributes.NAMES and not _is_property(value):
            raise InvalidArgument(
                f"property '{key[:100]}' must be a string, a finite number or a boolean, not {_kind_of(value)}",
                hint="leave a property out instead of null; keep lists and objects in the content",
                details={"property": key[:100]},
            )


def check_topology(kind: ConnectionType, from_type: str, to_type: str) -> None:
    wrong = []
    if from_type not in kind.from_types:
        wrong.append(f"Valid sources: {listed(kind.from_types)}")
    if to_type not in kind.to_types:
        wrong.append(f"Valid targets: {listed(kind.to_types)}")
    if wrong:
        raise Conflict(
            f"Cannot connect {from_type} to {to_type} with {kind.name}. {'. '.join(wrong)}",
            code="INVALID_TOPOLOGY",
            details={
                "connection_type": kind.name,
                "from_type": from_type,
                "to_type": to_type,
                "valid_sources": list(kind.from_types),
                "valid_targets": list(kind.to_types),
            },
        )


def check_required(kind: ConnectionType, properties: Mapping[str, Any]) -> None:
    missing = [name for name in kind.required_properties if name not in properties]
    if missing:
        raise Conflict(
            f"Connection type {kind.name} requires properties: {listed(kind.required_properties)}."
            f" Missing: {listed(missing)}",
            code="REQUIRED_PROPERTY_MISSING",
            details={
                "connection_type": kind.name,
                "required_properties": list(kind.required_properties),
                "missing": missing,
            },
        )


def check_connection(kind: ConnectionType, from_type: str, to_type: str, properties: Mapping[str, Any]) -> None:
    check_topology(kind, from_type, to_type)
    check_properties(properties)
    check_required(kind, properties)


def listed(names: Iterable[str]) -> str:
    shown = list(names)
    more = [f"and {len(shown) - NAMES_SHOWN} more"] if len(shown) > NAMES_SHOWN else []
    return f"[{', '.join(shown[:NAMES_SHOWN] + more)}]"


def _is_property(value: Any) -> bool:
    kind: type = type(value)
    if kind is float:
        return isfinite(value)
    if kind is int:
        return bool(abs(value) <= INTEGER_MAX)
    return kind is str or kind is bool


def _kind_of(value: Any) -> str:
    if isinstance(value, int):
        return "an integer beyond ±(2^53−1)"
    return _KINDS.get(type(value), "this")


_KINDS: dict[type, str] = {list: "an array", tuple: "an array", dict: "an object", type(None): "null", float: "NaN"}


# -- every draft, of every vocabulary


def check(state: State, draft: Draft, read_filter: ReadFilter | None = None) -> None:
    """Raises when the draft would leave something in the graph that the ontology forbids; of a connection to what the
    author may not read, no more than that there is one."""
    judged = _Judged(state, state.derived(Ontology), read_filter)
    for operation in draft.operations:
        try:
            _CHECKS[operation.verb](judged, operation.payload)
        except TallystickError as error:
            raise error.at(operation.place) from None
    judged.check_retyped()


class _Judged:
    """The graph as the draft leaves it, operation by operation."""

    def __init__(self, state: State, ontology: Ontology, read_filter: ReadFilter | None) -> None:
        self.ontology = ontology
        self._state = state
        self._read_filter = read_filter
        self._types: dict[str, str | None] = {}
        """Of the nodes that the draft wrote; None when it deleted them."""
        self._retyped: list[str] = []
        self._made: list[Mapping[str, Any]] = []
        self._gone: list[Mapping[str, Any]] = []

    def type_of(self, node_id: str) -> str | None:
        if node_id in self._types:
            return self._types[node_id]
        known = self._state.owner(node_id)
        return known[0] if known else None

    def write_node(self, node_id: str, node_type: str) -> None:
        if self.type_of(node_id) not in (None, node_type):
            self._retyped.append(node_id)
        self._types[node_id] = node_type

    def delete_node(self, node_id: str) -> None:
        self._types[node_id] = None

    def write_edge(self, edge: Mapping[str, Any]) -> None:
        self._made.append({key: edge[key] for key in ("from", "rel", "to", "id") if key in edge})

    def delete_edge(self, name: Mapping[str, Any]) -> None:
        self._gone.append(name)

    def check_retyped(self) -> None:
        """A node that is of another type now may not fit its connections any more."""
        for node_id in self._retyped:
            for name in (*self._state.edge_names(node_id), *self._made):
                kind = self.ontology.find_connection_type(name["rel"])
                if kind is not None and node_id in (name["from"], name["to"]) and name not in self._gone:
                    from_type, to_type = self.type_of(name["from"]), self.type_of(name["to"])
                    if from_type is not None and to_type is not None and kind.governs(from_type, to_type):
                        self._check_topology(kind, name, from_type, to_type)

    def _check_topology(self, kind: ConnectionType, name: Mapping[str, Any], from_type: str, to_type: str) -> None:
        try:
            check_topology(kind, from_type, to_type)
        except Conflict as error:
            if self._read_filter is None or self._read_filter.allows_all((name["from"], name["to"])):
                raise
            raise Conflict("a connection does not allow this type", code=error.code) from None


def _check_upsert_node(judged: _Judged, payload: Mapping[str, Any]) -> None:
    node_id, node_type = payload["id"], payload["type"]
    if node_id.startswith(RESERVED) or node_type.startswith(RESERVED):
        _check_definition(judged, payload)
    elif judged.ontology.has_node_type(node_type):
        check_properties(payload["attrs"])
    judged.write_node(node_id, node_type)


def _check_definition(judged: _Judged, payload: Mapping[str, Any]) -> None:
    if judged.type_of(payload["id"]) is not None:
        raise _append_only(payload["id"])
    try:
        expected = _DEFINITIONS[payload["type"]](payload["attrs"])
    except (KeyError, TypeError, msgspec.ValidationError):
        expected = None
    if expected is None or expected.payload != payload:
        raise InvalidArgument(
            f"node '{payload['id'][:100]}' is not a definition: ids and types that begin with {RESERVED} are reserved",
            hint="create_ontology, add_node_type and add_connection_type write definitions",
        )


def _check_node_stays(judged: _Judged, payload: Mapping[str, Any]) -> None:
    if payload["node_id"].startswith(RESERVED):
        raise _append_only(payload["node_id"])


def _check_delete_node(judged: _Judged, payload: Mapping[str, Any]) -> None:
    _check_node_stays(judged, payload)
    judged.delete_node(payload["node_id"])


def _check_upsert_edge(judged: _Judged, payload: Mapping[str, Any]) -> None:
    kind = judged.ontology.find_connection_type(payload["rel"])
    if kind is None:
        return
    from_type, to_type = judged.type_of(payload["from"]), judged.type_of(payload["to"])
    if from_type is None or to_type is None:
        return  # An end is missing, which others say better.
    if kind.governs(from_type, to_type):
        check_connection(kind, from_type, to_type, payload.get("attrs") or {})
    judged.write_edge(payload)


def _append_only(node_id: str) -> Conflict:
    return Conflict(
        f"the ontology is append-only: '{node_id[:100]}' cannot be changed, deleted or redacted",
        code="ONTOLOGY_APPEND_ONLY",
        hint="add another type",
    )


_DEFINITIONS: dict[str, Callable[[Any], Operation]] = {
    ROOT: lambda attrs: define_ontology(),
    NODE_TYPE: lambda attrs: define_node_type(msgspec.convert(attrs["name"], str)),
    CONNECTION_TYPE: lambda attrs: define_connection_type(msgspec.convert(attrs, ConnectionType)),
}
_CHECKS: dict[Verb, Callable[[_Judged, Mapping[str, Any]], None]] = {
    Verb.UPSERT_NODE: _check_upsert_node,
    Verb.UPSERT_EDGE: _check_upsert_edge,
    Verb.DELETE_NODE: _check_delete_node,
    Verb.DELETE_EDGE: _Judged.delete_edge,
    Verb.REDACT_NODE: _check_node_stays,
    Verb.REDACT_EDGE: lambda judged, payload: None,
}
