"""Lookup of what a call names: projects, tasks, atoms, molecules. Raises NotFound, also for what may not be read."""

from __future__ import annotations

from tallystick.state import Node
from tallystick.state.knowledge import ATOM, MOLECULE
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work import NODE, PROJECT
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.envelope import find_uuid, not_found

TYPES = {"atom": ATOM, "molecule": MOLECULE}


def get_project(state: State, read_filter: ReadFilter, reference: str) -> str:
    """By its id; or, as agents know it who opened it with graph_open, by its name or its root."""
    found = _find(state, read_filter, reference, PROJECT)
    if found is None:
        board = state.derived(WorkGraph).project(reference)
        found = board.id if board is not None and read_filter.allows(board.id) else None
    if found is None:
        raise not_found("project", reference, "graph_open and manage_container make projects")
    return found


def find_task(state: State, read_filter: ReadFilter, reference: str) -> str | None:
    return _find(state, read_filter, reference, NODE)


def get_entity(state: State, read_filter: ReadFilter, kind: str, entity_id: str) -> Node:
    """An atom or a molecule."""
    node = find_entity(state, kind, entity_id)
    allows = read_filter.allows(entity_id)
    if node is not None and allows:
        return node
    known = state.owner(entity_id) if allows else None
    other = next((name for name, node_type in TYPES.items() if known and known[0] == node_type), None)
    raise not_found(kind, entity_id, f"it is an entity of type {other}" if other else None)


def find_entity(state: State, kind: str, entity_id: str) -> Node | None:
    node = state.node(entity_id)
    return node if node is not None and node.type == TYPES[kind] else None


def _find(state: State, read_filter: ReadFilter, reference: str, node_type: str) -> str | None:
    """By its id as it was made, or by a UUID in any spelling."""
    for entity_id in (reference, find_uuid(reference)):
        known = state.owner(entity_id) if entity_id is not None else None
        if entity_id is not None and known is not None and known[0] == node_type and read_filter.allows(entity_id):
            return entity_id
    return None
