"""The stale atoms: whose files changed since they were pinned, or have none; and how they are pinned again.

`reverify` turns them into work, and pins them again when that is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tallystick.errors import Conflict
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.attributes import list_of, text_of
from tallystick.state.knowledge import ATOM
from tallystick.state.knowledge.catalogue import in_order
from tallystick.toolsets import JsonObject
from tallystick.toolsets.knowledge.context import Call, Operations, Pins, ToolContext, put
from tallystick.toolsets.knowledge.freshness import read_pin
from tallystick.toolsets.knowledge.lookup import get_entity
from tallystick.toolsets.knowledge.view import View

if TYPE_CHECKING:
    from tallystick.engine.store import Store

_BREATH = 50


async def find_stale(
    tool_context: ToolContext, store: Store, principal: Principal, project_id: str | None = None
) -> list[JsonObject]:
    """{id, name, projectId, lastTaskId, fresh: false, pinnedAt, changedFiles?, matchesNothing?} of each, by name; all
    projects' if none is named. Nothing where git does not know."""

    call = Call(tool_context, store, principal, "knowledge_stale")
    found: tuple[list[JsonObject], Pins] = await call.read(Action.SEARCH, lambda view: _pinned(view, project_id))
    atoms, pins = found
    fresh = await tool_context.compare(pins)
    checked = [atom | fresh.get(str(atom["id"]), {}) for atom in atoms]
    return [atom for atom in checked if atom.get("fresh") is False]


async def repin(tool_context: ToolContext, store: Store, principal: Principal, atom_id: str, *, tool: str) -> bool:
    """Note the files as they are now: somebody saw that the knowledge still holds. False where git does not know, or
    knows another repository than the one that it was pinned in.

    Its version stays, since what it says has not changed.
    """
    attrs = await store.read(
        principal,
        Action.READ,
        lambda state, read_filter: get_entity(View(state, read_filter), "atom", atom_id).attrs,
        resource=atom_id,
    )
    patterns = list_of(attrs, "paths")
    pin = await tool_context.pin(patterns, instead_of=read_pin(attrs))
    if pin is None:
        return False

    def draw(view: View, operations: Operations) -> None:
        attrs = get_entity(view, "atom", atom_id).attrs
        if list_of(attrs, "paths") != patterns:
            raise Conflict(f"the paths of atom '{atom_id}' were changed meanwhile", hint="try again")
        now = tool_context.now(view.state)
        pinned = msgspec.to_builtins(msgspec.structs.replace(pin, at=now))
        operations.append(put(atom_id, ATOM, attrs | {"pin": pinned, "updatedAt": now}))

    await Call(tool_context, store, principal, tool).write(draw, resource=atom_id)
    return True


def _pinned(view: View, project_id: str | None) -> Breathing[tuple[list[JsonObject], Pins]]:
    knowledge, at = view.knowledge, view.state.count
    rows = knowledge.atoms if project_id is None else knowledge.of_project(project_id).atoms
    atoms: list[JsonObject] = []
    pins: Pins = {}
    pinned = in_order(row for row in rows.values() if row.pinned)
    for number, row in enumerate(view.readable(pinned, lambda row: row.id)):
        node = view.state.node(row.id, at)
        attrs = node.attrs if node is not None else {}
        pin = read_pin(attrs)
        if pin is not None:
            pins[row.id] = (list_of(attrs, "paths"), pin)
            last, project = (view.reference(each) for each in (text_of(attrs, "lastTaskId"), row.project))
            atom = {"id": row.id, "name": row.name, "projectId": project, "lastTaskId": last}
            atoms.append(view.warned(row.id, atom))
        if number % _BREATH == 0:
            yield
    return atoms, pins
