"""Tasks as drafts of the work vocabulary: a plan stays a plan, whatever the source said.

What follows from the source alone is found first (`plan`): parents and dependencies that are not there, cycles, what
waits for what is above it. The rest is judged at the head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from pydantic import ValidationError

from tallystick.commits import Operation, Verb
from tallystick.commits.payloads import edge_name
from tallystick.errors import Conflict, InvalidArgument, TallystickError
from tallystick.extensions.importers import Evidence, Task, Unmapped
from tallystick.extensions.importers.importing.facts import problem_of
from tallystick.extensions.importers.importing.provenance import (
    ATTRIBUTE,
    content_hash,
    imported_hash,
    nonce,
    provenance,
)
from tallystick.extensions.importers.importing.report import Judged, Verdict, called, refusal
from tallystick.state.attributes import list_of, object_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work import DEPENDS_ON
from tallystick.state.work.attributes import said_over
from tallystick.state.work.board import Row
from tallystick.state.work.cycles import find_way
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.toolsets.truncation import size_of
from tallystick.toolsets.work.arguments import (
    NODE_BYTES_MAX,
    REF_CHARACTERS_MAX,
    SUMMARY_CHARACTERS_MAX,
    EvidenceArgument,
    PlannedNode,
)
from tallystick.toolsets.work.connect import deadlocks
from tallystick.toolsets.work.plan import check_node_size
from tallystick.toolsets.work.projects import found

_LETTERS = "abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"
_ID_CHARACTERS = 10
_TEXTS_BYTES_MAX = NODE_BYTES_MAX // 2
"""Of the longer properties together; what is more becomes evidence, of which answers show the newest."""
_PART_CHARACTERS = REF_CHARACTERS_MAX - 200

Edge = tuple[str, str]
"""Relation, and the id of a task in the source."""


class Planned(msgspec.Struct, frozen=True):
    item: Task
    id: str
    """Of the work node: it follows from where the task comes from, so that it is found again."""
    parent: str | None
    """The id of the work node above it; None for those right below the root."""
    edges: tuple[Edge, ...]
    hash: str


def node_id(source: str, project: str, task_id: str) -> str:
    """Looks like those that graph_plan makes. A project is the same however its name is spelt."""
    number = int.from_bytes(sha256("\0".join((source, project.casefold(), task_id)).encode()).digest())
    signs = []
    for _ in range(_ID_CHARACTERS):
        number, sign = divmod(number, len(_LETTERS))
        signs.append(_LETTERS[sign])
    return "".join(signs)


# -- what follows from the source alone


def plan(source: str, project: str, tasks: Sequence[Task]) -> tuple[list[Planned], list[Unmapped]]:
    """Parents first; and what could not be kept."""
    known = {task.origin.id: task for task in tasks}
    told: list[Unmapped] = []
    parents = _parents(known, told)
    edges = _edges(known, parents, told)
    ids = {task_id: node_id(source, project, task_id) for task_id in known}
    planned = [
        Planned(
            known[task_id],
            ids[task_id],
            None if (above := parents[task_id]) is None else ids[above],
            edges[task_id],
            content_hash(known[task_id]),
        )
        for task_id in _parents_first(parents)
    ]
    return planned, told


def _parents(known: dict[str, Task], told: list[Unmapped]) -> dict[str, str | None]:
    parents: dict[str, str | None] = {}
    for task_id, task in known.items():
        parents[task_id] = task.parent
        if task.parent is not None and task.parent not in known:
            told.append(
                Unmapped(task.where, called(task), f"its parent '{task.parent}' is not there: it is put on top")
            )
            parents[task_id] = None
    settled: set[str] = set()
    for first in known:
        line: list[str] = []
        each: str | None = first
        while each is not None and each not in settled:
            if each in line:
                told.append(Unmapped(known[each].where, called(known[each]), "it is above itself: it is put on top"))
                parents[each] = None
                break
            line.append(each)
            each = parents[each]
        settled.update(line)
    return parents


def _parents_first(parents: dict[str, str | None]) -> list[str]:
    order: dict[str, None] = {}
    for first in parents:
        line: list[str] = []
        each: str | None = first
        while each is not None and each not in order:
            line.append(each)
            each = parents[each]
        order.update(dict.fromkeys(reversed(line)))
    return list(order)


def _edges(known: dict[str, Task], parents: dict[str, str | None], told: list[Unmapped]) -> dict[str, tuple[Edge, ...]]:
    edges: dict[str, dict[Edge, None]] = {}
    for task_id, task in known.items():
        wanted = [*((DEPENDS_ON, each) for each in task.depends_on), *task.related]
        edges[task_id] = {}
        for rel, other in dict.fromkeys(wanted):
            fault = _fault(known, parents, task_id, rel, other)
            if fault is None:
                edges[task_id][rel, other] = None
            else:
                told.append(Unmapped(task.where, f"{called(task)} {rel} {other}", fault))
    for task_id, other in _closing_rings(edges):
        del edges[task_id][DEPENDS_ON, other]
        what = f"{called(known[task_id])} {DEPENDS_ON} {other}"
        told.append(Unmapped(known[task_id].where, what, "it would close a cycle of dependencies"))
    return {task_id: tuple(each) for task_id, each in edges.items()}


def _fault(known: dict[str, Task], parents: dict[str, str | None], task_id: str, rel: str, other: str) -> str | None:
    if other not in known:
        return f"there is no '{other}'"
    if other == task_id:
        return "it names itself"
    if rel == DEPENDS_ON and other in _above(parents, task_id):
        return "it would wait for what is above it"
    if rel == DEPENDS_ON and task_id in _above(parents, other):
        return "what is below it must be done first anyway"
    return None


def _above(parents: dict[str, str | None], task_id: str) -> Iterator[str]:
    each = parents[task_id]
    while each is not None:
        yield each
        each = parents[each]


def _closing_rings(edges: dict[str, dict[Edge, None]]) -> list[tuple[str, str]]:
    """Dependencies without which there is no cycle."""
    closing: list[tuple[str, str]] = []
    settled: set[str] = set()
    for first, others in edges.items():
        if first in settled:
            continue
        way = {first: None}
        branches = [iter(list(others))]
        while branches:
            rel, other = next(branches[-1], ("", ""))
            if not rel:
                branches.pop()
                settled.add(way.popitem()[0])
            elif rel == DEPENDS_ON and other in way:
                closing.append((next(reversed(way)), other))
            elif rel == DEPENDS_ON and other not in settled:
                way[other] = None
                branches.append(iter(list(edges[other])))
    return closing


# -- at the head


def ensure_project(source: str, builder: DraftBuilder, name: str) -> tuple[str, str]:
    """The project of this name and its root, made where there is none. Raises Conflict where it was deleted."""
    namesakes = builder.graph.namesakes(name)
    board = builder.graph.project(name) or (namesakes[0] if namesakes else None)
    if board is not None and board.root is not None:
        return board.id, board.root
    project_id = sha256(f"{source}\0{name.casefold()}".encode()).hexdigest()[:32]
    root_id = node_id(source, name, "")
    if builder.state.knows(project_id) or builder.state.knows(root_id):
        raise Conflict(f"the project '{name}' was deleted here, and stays so")
    found(builder, project_id=project_id, root_id=root_id, name=name, goal=None)
    return project_id, root_id


def draw(
    source: str, project: str, state: State, read_filter: ReadFilter, batch: Sequence[Planned]
) -> tuple[list[Operation], list[Verdict]]:
    verdicts: list[Verdict] = []
    nonces: dict[str, str] = {}
    with DraftBuilder(state, read_filter) as builder:
        place = ensure_project(source, builder, project)
        for each in batch:
            try:
                judged = judge(source, builder, read_filter, each)
                if judged.outcome != "unchanged":
                    _put(source, builder, place, each)
                    nonces[each.id] = nonce(source, each.id, each.hash, judged.replaces)
                verdicts.append(judged)
            except TallystickError as error:
                verdicts.append(refusal(each.item, error))
        operations = [_with_nonce(each, nonces) for each in builder.operations] if nonces else []
    return operations, verdicts


def judge(source: str, builder: DraftBuilder, read_filter: ReadFilter, each: Planned) -> Judged:
    before = builder.find(each.id)
    if before is None:
        if builder.state.knows(each.id):
            raise Conflict("it was deleted here, and stays so")
        return Judged("new")
    known = imported_hash(before, source, each.item.origin.id)
    if known is None or not read_filter.allows(each.id):
        raise Conflict(f"the id '{each.id}' is taken")
    return Judged("unchanged" if known == each.hash else "changed", known)


def _with_nonce(operation: Operation, nonces: dict[str, str]) -> Operation:
    mark = nonces.get(operation.payload.get("id", "")) if operation.verb is Verb.UPSERT_NODE else None
    return operation if mark is None else msgspec.structs.replace(operation, nonce=mark)


def _put(source: str, builder: DraftBuilder, place: tuple[str, str], each: Planned) -> None:
    project_id, root_id = place
    above = each.parent if each.parent is not None and builder.graph.find(each.parent) is not None else root_id
    attrs = attributes(source, project_id, above, each)
    before = builder.find(each.id)
    if before is None:
        builder.put(each.id, attrs)
    else:
        builder.revise(each.id, **_changes(source, builder, each, before, attrs))


def _changes(
    source: str, builder: DraftBuilder, each: Planned, before: dict[str, Any], attrs: dict[str, Any]
) -> dict[str, Any]:
    """What agents made of it here stays: its own properties, evidence and links, and its state unless the source's
    changed."""
    properties = {**object_of(before, "properties"), **_gone(before), **attrs["properties"]}
    kept = [entry for entry in list_of(before, "evidence") if not _is_ours(source, entry)]
    links = [*list_of(before, "context_links"), *attrs.get("context_links", ())]
    changes: dict[str, Any] = {
        "summary": attrs["summary"],
        "properties": {name: value for name, value in properties.items() if value is not None} or None,
        "evidence": [*attrs.get("evidence", ()), *kept] or None,
        "context_links": list(dict.fromkeys(links)) or None,
        ATTRIBUTE: attrs[ATTRIBUTE],
    }
    row, above = builder.graph.find(each.id), builder.graph.find(attrs["parent"])
    if row is not None and above is not None and above is not row and row not in above.above():
        changes["parent"] = attrs["parent"]
    if object_of(before, "properties").get("status") != each.item.status:
        changes["resolved"] = each.item.resolved
        changes |= _ending({**before, **changes}, each.item)
    return changes


def _gone(before: dict[str, Any]) -> dict[str, None]:
    """The properties that the last import brought: those that the source still has are said again."""
    return dict.fromkeys(name for name in list_of(object_of(before, ATTRIBUTE), "properties") if isinstance(name, str))


def _is_ours(source: str, entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get(ATTRIBUTE) == source


def _ending(attrs: dict[str, Any], task: Task) -> dict[str, Any]:
    return said_over(attrs, dropped=task.dropped) if task.resolved else {}


def attributes(source: str, project_id: str, parent: str, each: Planned) -> dict[str, Any]:
    """Of a new node. Raises InvalidArgument for what graph_plan would not take."""
    task = each.item
    properties, texts = _properties(task)
    evidence = [_entry(source, part) for part in [*texts, *task.evidence] for part in _parts(part)]
    if task.resolved and not task.evidence:
        evidence.append(_entry(source, Evidence(type="imported", ref=f"{task.status} in {source}")))
    _check(task, properties, evidence)
    attrs: dict[str, Any] = {
        "project": project_id,
        "parent": parent,
        "summary": _summary(task),
        "resolved": task.resolved,
        "rev": 1,
        "properties": properties,
        ATTRIBUTE: {**provenance(source, task, each.hash), "properties": sorted(properties)},
    }
    if task.context_links:
        attrs["context_links"] = list(dict.fromkeys(task.context_links))
    if evidence:
        attrs["evidence"] = evidence
    check_node_size(attrs, task.origin.id)
    return attrs | _ending(attrs, task)


def _summary(task: Task) -> str:
    said = task.summary.strip() or task.origin.id
    return said if len(said) <= SUMMARY_CHARACTERS_MAX else said[: SUMMARY_CHARACTERS_MAX - 1] + "…"


def _properties(task: Task) -> tuple[dict[str, Any], list[Evidence]]:
    """Those that fit, and the others as evidence."""
    said = {name: value for name, value in task.properties.items() if value is not None}
    properties: dict[str, Any] = {**said, "status": task.status, "source_id": task.origin.id}
    texts = {name: text for name, text in task.texts.items() if text.strip()}
    if len(task.summary) > SUMMARY_CHARACTERS_MAX:
        texts["whole summary"] = task.summary
    rest: list[Evidence] = []
    for name, text in texts.items():
        if size_of({**properties, name: text}) <= _TEXTS_BYTES_MAX:
            properties[name] = text
        else:
            rest.append(Evidence(type="note", ref=f"{name}: {text}", agent=task.origin.author))
    return properties, rest


def _parts(evidence: Evidence) -> list[Evidence]:
    text = evidence.ref
    if len(text) <= _PART_CHARACTERS:
        return [evidence]
    parts = [text[start : start + _PART_CHARACTERS] for start in range(0, len(text), _PART_CHARACTERS)]
    return [
        msgspec.structs.replace(evidence, ref=f"({number}/{len(parts)}) {part}") for number, part in enumerate(parts, 1)
    ]


def _entry(source: str, evidence: Evidence) -> dict[str, Any]:
    """The author and the time are the source's; `imported` says so."""
    return {**msgspec.to_builtins(evidence), ATTRIBUTE: source}


def _check(task: Task, properties: dict[str, Any], evidence: Sequence[dict[str, Any]]) -> None:
    said = {
        "ref": "1",
        "summary": _summary(task),
        "properties": properties,
        "context_links": list(task.context_links) or None,
    }
    try:
        PlannedNode.model_validate(said)
        for each in evidence:
            EvidenceArgument.model_validate({"type": each["type"], "ref": each["ref"]})
    except ValidationError as error:
        raise InvalidArgument(problem_of(error)) from None


# -- what waits for what


def draw_edges(
    source: str, changed: frozenset[str], state: State, read_filter: ReadFilter, batch: Sequence[Planned]
) -> tuple[list[Operation], list[Unmapped]]:
    """Those that are missing; of tasks that changed, those that the source has no more are taken away."""
    told: list[Unmapped] = []
    with DraftBuilder(state, read_filter) as builder:
        for each in batch:
            row = builder.graph.find(each.id)
            if row is None or not read_filter.allows(row.id):
                continue
            wanted = {(rel, node_id(source, each.item.project, other)): other for rel, other in each.edges}
            if each.id in changed:
                _unlink(source, builder, each, set(wanted))
            for (rel, target), other in wanted.items():
                fault = _link(source, builder, read_filter, row, rel, target)
                if fault is not None:
                    told.append(Unmapped(each.item.where, f"{called(each.item)} {rel} {other}", fault))
        return list(builder.operations), told


def _unlink(source: str, builder: DraftBuilder, each: Planned, wanted: set[Edge]) -> None:
    for link in builder.links(each.id):
        is_ours = link["from"] == each.id and object_of(link["attrs"], ATTRIBUTE).get("from") == source
        if is_ours and (link["rel"], link["to"]) not in wanted:
            builder.unlink(link)


def _link(
    source: str, builder: DraftBuilder, read_filter: ReadFilter, row: Row, rel: str, target_id: str
) -> str | None:
    """What forbids it."""
    target = builder.graph.find(target_id)
    if target is None or not read_filter.allows(target_id):
        return "the other one is not imported"
    if builder.find_link(row.id, rel, target_id) is not None:
        return None
    if builder.state.knows(edge_name(row.id, rel, target_id)):
        return "it was taken away here, and stays so"
    if target.board is not row.board:
        return "the other one is in another project"
    if rel == DEPENDS_ON:
        if find_way(builder.graph, target, row) is not None:
            return "it would close a cycle of dependencies"
        if deadlocks(row, target):
            return "one of them is above the other"
    builder.link({"from": row.id, "rel": rel, "to": target_id, "attrs": {ATTRIBUTE: {"from": source}}})
    return None
