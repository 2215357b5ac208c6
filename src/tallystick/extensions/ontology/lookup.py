"""The lookup: what a name stands for in this vocabulary, or the refusal in its own codes."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import msgspec

from tallystick.errors import NotFound
from tallystick.state import Edge, Node
from tallystick.state.ontology import ConnectionType, Ontology, listed
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State


def get_ontology(state: State, *types: str) -> Ontology:
    """`types` are those that the call names: only presets that define all of them are recommended."""
    ontology = state.derived(Ontology)
    if not ontology.exists:
        fitting = [name for name, preset in presets().items() if preset.type_names.issuperset(types)]
        named = " or ".join(f"tallystick ontology use {name}" for name in fitting)
        hint = "define one with create_ontology" + (f", or take a preset: {named}" if named else "")
        raise NotFound("there is no ontology yet", code="ONTOLOGY_NOT_FOUND", hint=hint)
    return ontology


class Preset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    about: str
    node_types: list[str]
    connection_types: list[ConnectionType]

    @property
    def type_names(self) -> frozenset[str]:
        """Of nodes and of connections."""
        return frozenset([*self.node_types, *(kind.name for kind in self.connection_types)])


def presets() -> dict[str, Preset]:
    """By name. They are data: each file of the package's `presets` folder is one."""
    found = (
        path for path in (files("tallystick.extensions.ontology") / "presets").iterdir() if path.name.endswith(".json")
    )
    read: Callable[[bytes], Preset] = msgspec.json.Decoder(Preset).decode
    return {path.name.removesuffix(".json"): read(path.read_bytes()) for path in sorted(found, key=lambda p: p.name)}


def check_node_type(ontology: Ontology, name: str) -> None:
    if not ontology.has_node_type(name):
        raise NotFound(
            f"Node type {name} is not in the ontology. Valid types: {listed(ontology.node_types)}",
            code="INVALID_NODE_TYPE",
            details={"type": name, "valid_types": ontology.node_types},
        )


def get_connection_type(ontology: Ontology, name: str) -> ConnectionType:
    found = ontology.find_connection_type(name)
    if found is None:
        valid = [kind.name for kind in ontology.connection_types]
        raise NotFound(
            f"Connection type {name} is not in the ontology. Valid types: {listed(valid)}",
            code="INVALID_CONNECTION_TYPE",
            details={"type": name, "valid_types": valid},
        )
    return found


def get_type(state: State, node_id: str) -> str:
    """Of any node: a connection may end at one of another toolset, if its type allows that."""
    known = state.owner(node_id)
    if known is None:
        raise no_node(node_id)
    return known[0]


def get_end(state: State, read_filter: ReadFilter, node_id: str) -> str:
    """The type of a node to connect, if it may be read."""
    if not read_filter.allows(node_id):
        raise no_node(node_id)
    return get_type(state, node_id)


def get_node(state: State, read_filter: ReadFilter, node_id: str) -> Node:
    """A typed memory that may be read. Nodes whose type is not in the ontology belong to other toolsets."""
    if not read_filter.allows(node_id):
        raise no_node(node_id)
    known = state.owner(node_id)
    if known is not None and not state.derived(Ontology).has_node_type(known[0]):
        raise no_node(node_id, f", only a ledger entity of type {known[0]}, which is not in the ontology")
    node = state.node(node_id)
    if node is None:
        raise no_node(node_id)
    return node


def get_connection(state: State, read_filter: ReadFilter, connection_id: str) -> Edge:
    """One both of whose ends may be read."""
    edge = state.edge_by_id(connection_id)
    if edge is None or not read_filter.allows_edge(connection_id) or not _is_connection(state, edge):
        raise no_connection(connection_id)
    return edge


def _is_connection(state: State, edge: Edge) -> bool:
    kind = state.derived(Ontology).find_connection_type(edge.rel)
    return kind is not None and kind.governs(get_type(state, edge.source), get_type(state, edge.target))


def no_node(node_id: str, instead: str = "") -> NotFound:
    return NotFound(
        f"there is no memory node '{node_id}'{instead}", code="NODE_NOT_FOUND", details={"node_id": node_id}
    )


def no_connection(connection_id: str) -> NotFound:
    return NotFound(
        f"there is no connection '{connection_id}'",
        code="CONNECTION_NOT_FOUND",
        details={"connection_id": connection_id},
    )
