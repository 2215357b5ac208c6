"""Lookup of what a call names: projects, tasks, atoms, molecules. Raises NotFound, also for what may not be read."""

from __future__ import annotations

from tallystick.state import Node
from tallystick.state.knowledge import ATOM, MOLECULE
from tallystick.state.work import NODE, PROJECT
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.envelope import find_uuid, not_found
from tallystick.toolsets.knowledge.context import ToolContext
from tallystick.toolsets.knowledge.view import View

TYPES = {"atom": ATOM, "molecule": MOLECULE}


def get_project(tool_context: ToolContext, view: View, reference: str) -> str:
    """By its id; or, as agents know it who opened it with graph_open, by its name or its root."""
    found = _find(view, reference, PROJECT)
    if found is None:
        board = view.state.derived(WorkGraph).project(reference)
        found = board.id if board is not None and view.allows(board.id) else None
    if found is None:
        raise not_found("project", reference, tool_context.which_project)
    return found


def find_task(view: View, reference: str) -> str | None:
    return _find(view, reference, NODE)


def get_entity(view: View, kind: str, entity_id: str) -> Node:
    """An atom or a molecule."""
    node = find_entity(view, kind, entity_id)
    allows = view.allows(entity_id)
    if node is not None and allows:
        return node
    known = view.state.owner(entity_id) if allows else None
    other = next((name for name, node_type in TYPES.items() if known and known[0] == node_type), None)
    raise not_found(kind, entity_id, f"it is an entity of type {other}" if other else None)


def find_entity(view: View, kind: str, entity_id: str) -> Node | None:
    node = view.state.node(entity_id)
    return node if node is not None and node.type == TYPES[kind] else None


def _find(view: View, reference: str, node_type: str) -> str | None:
    """By its id as it was made, or by a UUID in any spelling."""
    for entity_id in (reference, find_uuid(reference)):
        known = view.state.owner(entity_id) if entity_id is not None else None
        if entity_id is not None and known is not None and known[0] == node_type and view.allows(entity_id):
            return entity_id
    return None
