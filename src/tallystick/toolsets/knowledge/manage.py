"""manage_graph: atoms and molecules are created, updated and deleted here.

Everything is judged at the head, inside the draft: existence first, then the version, then
what the new values refer to. Of two who change the same version one gets CONFLICT.
"""

from __future__ import annotations

import uuid

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.policy import Action
from tallystick.state.attributes import integer_of, list_of, text_of
from tallystick.state.conditions import is_same
from tallystick.state.knowledge import ATOM
from tallystick.state.knowledge.catalogue import Parent
from tallystick.state.knowledge.globs import normalised
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.drafts import check_unused
from tallystick.toolsets.envelope import check, check_version, succeeded, violated
from tallystick.toolsets.knowledge.answers import entity_of
from tallystick.toolsets.knowledge.arguments import ManageArguments, check_manage, knowledge_problems, related
from tallystick.toolsets.knowledge.context import Call, Operations, ToolContext, deletion, put
from tallystick.toolsets.knowledge.freshness import Pin, read_pin
from tallystick.toolsets.knowledge.lookup import TYPES, find_entity, get_entity, get_project
from tallystick.toolsets.knowledge.task_reference import get_task, task_of_creation
from tallystick.toolsets.knowledge.view import View


async def manage_graph(call: Call, asked: ManageArguments) -> Answer:
    if asked.paths is not None:
        asked = asked.model_copy(update={"paths": [call.context.repository.relative(each) for each in asked.paths]})
    check_manage(asked, call.context.which_project)
    return await _OPERATIONS[asked.operation](call, asked)


# -- create


async def _create(call: Call, asked: ManageArguments) -> Answer:
    entity_id = uuid.uuid4().hex
    patterns = _patterns(asked) or []
    pin = await _pin(call.context, asked, patterns) if asked.entityType == "atom" else None
    task = asked.createdByTaskId

    def draw(view: View, operations: Operations) -> JsonObject:
        nonlocal task
        check_unused(view.state, [entity_id])
        now = call.context.now(view.state)
        project = get_project(call.context, view, asked.projectId or "")
        task = task_of_creation(call.context, view, call.principal, project, asked.createdByTaskId)
        attrs: JsonObject = {
            "projectId": project,
            "name": (asked.name or "").strip(),
            "knowledge": (asked.knowledge or "").strip(),
            "createdByTaskId": task,
            "lastTaskId": task,
            "version": 1,
            "createdAt": now,
            "updatedAt": now,
        }
        if asked.entityType == "atom":
            _check_molecule(view, asked.moleculeId, project)
            attrs["moleculeId"] = asked.moleculeId
            attrs["paths"] = patterns
            attrs["relatedAtoms"] = related(asked.relatedAtoms or [], "atomId")
            attrs |= _pinned(pin, now)
        else:
            attrs["relatedMolecules"] = related(asked.relatedMolecules or [], "moleculeId")
        return _put(view, operations, asked, entity_id, attrs)

    entity = await call.write(draw, resource=entity_id, task=lambda: task)
    return succeeded({asked.entityType: entity}, f"{asked.entityType.capitalize()} created", exempt=True)


def _patterns(asked: ManageArguments) -> list[str] | None:
    return None if asked.paths is None else [normalised(pattern) for pattern in asked.paths]


def _check_molecule(view: View, molecule_id: str | None, project_id: str) -> None:
    if molecule_id is None:
        return
    if get_entity(view, "molecule", molecule_id).attrs.get("projectId") != project_id:
        raise violated(f"molecule '{molecule_id}' belongs to another project", moleculeId=molecule_id)


def _put(view: View, operations: Operations, asked: ManageArguments, entity_id: str, attrs: JsonObject) -> JsonObject:
    operations.append(put(entity_id, TYPES[asked.entityType], attrs))
    return entity_of(view, asked.entityType, entity_id, attrs)


# -- pins


async def _pin(
    tool_context: ToolContext, asked: ManageArguments, patterns: list[str], instead_of: Pin | None = None
) -> Pin | None:
    """None where none is wanted. Raises InvalidArgument where one was asked for and git does not know.

    Who asks for it means this repository, whatever it was pinned in before.
    """
    if asked.pin and tool_context.repository.is_missing:
        raise InvalidArgument(
            "pin needs a repository, and the server's settings name none",
            hint="where tokens are asked for, the setting 'repo' must name the work tree; or leave out 'pin'",
        )
    wanted = tool_context.pin_knowledge if asked.pin is None else asked.pin
    pin = await tool_context.pin(patterns, instead_of=None if asked.pin else instead_of) if wanted else None
    if asked.pin and pin is None:
        raise InvalidArgument(
            "pin needs a git work tree that can be read in time",
            hint="start the server in the repository, or set 'repo'; or leave out 'pin'",
        )
    return pin


def _pinned(pin: Pin | None, now: str) -> JsonObject:
    """At `now`, which is not before the head: the clock that git was asked by may be."""
    return {} if pin is None else {"pin": msgspec.to_builtins(msgspec.structs.replace(pin, at=now))}


# -- update


async def _update(call: Call, asked: ManageArguments) -> Answer:
    entity_id = asked.id or ""
    pin = None
    if asked.entityType == "atom" and (asked.pin or (call.context.pin_knowledge and asked.pin is None)):
        pin = await _pin(call.context, asked, *await _pinned_at_head(call, asked))

    def draw(view: View, operations: Operations) -> JsonObject:
        before = _checked(view, asked)
        project = str(before.get("projectId"))
        _check_project(call.context, view, asked, project)
        task = get_task(call.context, view, asked.lastTaskId) if asked.lastTaskId is not None else None
        now = call.context.now(view.state)
        attrs = before | _changes(view, asked, before, project, now, task) | _pinned(pin, now)
        attrs |= {"lastTaskId": task} if task else {}
        if asked.pin is False:
            attrs.pop("pin", None)
        if is_same(attrs, before):
            return entity_of(view, asked.entityType, entity_id, before)
        attrs |= {"version": integer_of(attrs, "version", 1) + 1, "updatedAt": now}
        return _put(view, operations, asked, entity_id, attrs)

    entity = await call.write(draw, resource=entity_id, task=lambda: asked.lastTaskId)
    return succeeded({asked.entityType: entity}, f"{asked.entityType.capitalize()} updated", exempt=True)


async def _pinned_at_head(call: Call, asked: ManageArguments) -> tuple[list[str], Pin | None]:
    """Its patterns, and its pin. Who changes them meanwhile changes the version too, and this update is refused."""

    def look(view: View) -> JsonObject:
        node = find_entity(view, "atom", asked.id or "")
        return node.attrs if node is not None else {}

    given = _patterns(asked)
    if given is not None and asked.pin:
        return given, None
    attrs = await call.read(Action.READ, look, resource=asked.id)
    return list_of(attrs, "paths") if given is None else given, read_pin(attrs)


def _checked(view: View, asked: ManageArguments) -> JsonObject:
    """A copy of what it is now, if it is there and as old as the caller believes."""
    attrs = get_entity(view, asked.entityType, asked.id or "").attrs
    check_version(asked.version or 0, integer_of(attrs, "version", 1))
    return dict(attrs)


def _check_project(tool_context: ToolContext, view: View, asked: ManageArguments, project: str) -> None:
    if asked.projectId is not None and get_project(tool_context, view, asked.projectId) != project:
        raise violated(f"projectId cannot be changed: this {asked.entityType} belongs to project '{project}'")


def _changes(
    view: View, asked: ManageArguments, attrs: JsonObject, project: str, now: str, task: str | None
) -> JsonObject:
    changes: JsonObject = {}
    if asked.name is not None:
        changes["name"] = asked.name.strip()
    if asked.knowledge is not None:
        changes["knowledge"] = _knowledge(asked, text_of(attrs, "knowledge"), now, task)
    if asked.paths is not None:
        changes["paths"] = _patterns(asked)
    if asked.entityType == "atom" and asked.has("moleculeId"):
        _check_molecule(view, asked.moleculeId, project)
        changes["moleculeId"] = asked.moleculeId
    if asked.relatedAtoms is not None:
        changes["relatedAtoms"] = related(asked.relatedAtoms, "atomId")
    if asked.relatedMolecules is not None:
        changes["relatedMolecules"] = related(asked.relatedMolecules, "moleculeId")
    return changes


def _knowledge(asked: ManageArguments, before: str, now: str, task: str | None) -> str:
    said = (asked.knowledge or "").strip()
    if asked.knowledgeMode != "append":
        return said
    by = f" task:{task}" if task else ""
    said = f"{before}\n\n---[{now}{by}]---\n{said}"
    check(knowledge_problems(said))
    return said


# -- delete


async def _delete(call: Call, asked: ManageArguments) -> Answer:
    def draw(view: View, operations: Operations) -> JsonObject:
        attrs = _checked(view, asked)
        task = (
            get_task(call.context, view, asked.lastTaskId) if asked.lastTaskId is not None else attrs.get("lastTaskId")
        )
        members = _members(view, asked)
        gone: list[tuple[Parent, str]] = [(asked.entityType, asked.id or "")]
        data: JsonObject = {"deleted": True, "id": asked.id}
        if asked.entityType == "molecule" and asked.cascade:
            gone += [("atom", atom_id) for atom_id in members]
            data["deletedAtoms"] = len(view.readable(members))
        elif asked.entityType == "molecule":
            for atom_id in members:
                _orphan(view, operations, atom_id, call.context.now(view.state), task)
            data["orphanedAtoms"] = len(view.readable(members))
        operations += deletion(view.state, gone)
        return data

    data = await call.write(draw, action=Action.DELETE, resource=asked.id, task=lambda: asked.lastTaskId)
    return succeeded(data, f"{asked.entityType.capitalize()} deleted")


def _members(view: View, asked: ManageArguments) -> list[str]:
    if asked.entityType == "atom":
        return []
    return [atom.id for atom in view.knowledge.members(asked.id or "")]


def _orphan(view: View, operations: Operations, atom_id: str, now: str, task: str | None) -> None:
    """Its version stays: what it says has not changed."""
    node = find_entity(view, "atom", atom_id)
    attrs = node.attrs if node is not None else {}
    operations.append(put(atom_id, ATOM, attrs | {"moleculeId": None, "updatedAt": now, "lastTaskId": task}))


_OPERATIONS = {"create": _create, "update": _update, "delete": _delete}
