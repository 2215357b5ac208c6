"""Knowledge of files as drafts: atoms, in the project that they are of, and the one task that they all come from."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
from pydantic import ValidationError

from tallystick.commits import Operation, Verb
from tallystick.errors import Conflict, InvalidArgument, TallystickError
from tallystick.extensions.importers import Atom, Evidence, Origin, Task
from tallystick.extensions.importers.importing import tasks
from tallystick.extensions.importers.importing.facts import problem_of
from tallystick.extensions.importers.importing.provenance import (
    ATTRIBUTE,
    content_hash,
    imported_hash,
    nonce,
    provenance,
)
from tallystick.extensions.importers.importing.report import Judged, Verdict, refusal
from tallystick.state.attributes import integer_of
from tallystick.state.knowledge import ATOM
from tallystick.state.knowledge.globs import normalised
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.toolsets.knowledge.arguments import ManageArguments, check_manage

_TASK = "the import itself"
"""What the task is called that imported knowledge comes from: no source has such an id."""


class Prepared(msgspec.Struct, frozen=True):
    item: Atom
    id: str
    hash: str


def prepare(source: str, atom: Atom) -> Prepared:
    """Raises InvalidArgument for what manage_graph would not take."""
    said = {
        "operation": "create",
        "entityType": "atom",
        "projectId": atom.project,
        "name": atom.name,
        "knowledge": atom.knowledge,
        "paths": list(atom.paths),
    }
    try:
        check_manage(ManageArguments.model_validate(said))
    except ValidationError as error:
        raise InvalidArgument(problem_of(error)) from None
    name = "\0".join((source, atom.project.casefold(), atom.origin.id))
    return Prepared(atom, sha256(name.encode()).hexdigest()[:32], content_hash(atom))


def draw(
    source: str, project: str, now: str, state: State, read_filter: ReadFilter, batch: Sequence[Prepared]
) -> tuple[list[Operation], list[Verdict]]:
    # Never before the head, so that times follow the order of the log.
    now = max(now, state.head.timestamp)
    verdicts: list[Verdict] = []
    atoms: list[Operation] = []
    with DraftBuilder(state, read_filter) as builder:
        project_id, root_id = tasks.ensure_project(source, builder, project)
        task_id = _ensure_task(source, builder, project, project_id, root_id)
        for each in batch:
            try:
                judged = judge(source, state, read_filter, each)
                if judged.outcome != "unchanged":
                    mark = nonce(source, each.id, each.hash, judged.replaces)
                    payload = {
                        "id": each.id,
                        "type": ATOM,
                        "attrs": _attributes(source, state, each, project_id, task_id, now),
                    }
                    atoms.append(Operation(Verb.UPSERT_NODE, payload, nonce=mark))
                verdicts.append(judged)
            except TallystickError as error:
                verdicts.append(refusal(each.item, error))
        operations = [*builder.operations, *atoms] if atoms else []
    return operations, verdicts


def judge(source: str, state: State, read_filter: ReadFilter, each: Prepared) -> Judged:
    before = state.node(each.id)
    if before is None:
        if state.knows(each.id):
            raise Conflict("it was deleted here, and stays so")
        return Judged("new")
    known = imported_hash(before.attrs, source, each.item.origin.id)
    if known is None or not read_filter.allows(each.id):
        raise Conflict(f"the id '{each.id}' is taken")
    return Judged("unchanged" if known == each.hash else "changed", known)


def _attributes(source: str, state: State, each: Prepared, project_id: str, task_id: str, now: str) -> dict[str, Any]:
    before = state.node(each.id)
    kept = {} if before is None else before.attrs
    return {
        "projectId": project_id,
        "createdByTaskId": task_id,
        "createdAt": now,
        "moleculeId": None,
        "relatedAtoms": [],
        **{name: value for name, value in kept.items() if name != "pin"},
        "name": each.item.name.strip(),
        "knowledge": each.item.knowledge.strip(),
        "paths": [normalised(path) for path in each.item.paths],
        "lastTaskId": task_id,
        "version": integer_of(kept, "version", 0) + 1,
        "updatedAt": now,
        ATTRIBUTE: provenance(source, each.item, each.hash),
    }


def _ensure_task(source: str, builder: DraftBuilder, project: str, project_id: str, root_id: str) -> str:
    """Resolved from the beginning: it says where the knowledge comes from, and there is nothing to do."""
    task_id = tasks.node_id(source, project, _TASK)
    if builder.graph.find(task_id) is not None:
        return task_id
    if builder.state.knows(task_id):
        raise Conflict("the task that the import was noted in was deleted here")
    task = Task(
        where="",
        project=project,
        summary=f"Import knowledge from {source}",
        status="done",
        resolved=True,
        evidence=(Evidence(type="imported", ref=f"read by 'tallystick import --from {source}'"),),
        origin=Origin(id=_TASK),
    )
    (planned,), _ = tasks.plan(source, project, [task])
    builder.put(task_id, tasks.attributes(source, project_id, root_id, planned))
    return task_id
