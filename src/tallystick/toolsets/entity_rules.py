"""The rules of all vocabularies, for a write that sets one entity to a whole document: a restoration.

A tool judges the change that it makes. Whoever sets a document that another moment knew judges the result: what it
refers to is there, it closes no circle, its name is free, and its version goes up. The ontology is judged in every
draft, by the store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from tallystick.commits import Operation, Verb
from tallystick.commits.mask import REDACTED
from tallystick.errors import Conflict, NotFound
from tallystick.extension import installed
from tallystick.state import Node
from tallystick.state.attributes import find_text, integer_of, object_of, text_of
from tallystick.state.knowledge import ATOM, CHANGELOG, MOLECULE
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import RESERVED as TRUST
from tallystick.state.work import CLAIM, DEPENDS_ON, LOOSE, NODE, PROJECT
from tallystick.state.work.attributes import is_dropped
from tallystick.state.work.graph import WorkGraph
from tallystick.state.work.required_evidence import REQUIRE_EVIDENCE, missing, required
from tallystick.toolsets.memory.draft_graph import DraftGraph
from tallystick.toolsets.memory.write_draft import RESERVED, check_edge_id, check_ends, check_node_id
from tallystick.toolsets.work.errors import (
    check_dependency,
    check_parent,
    check_project_name,
    cross_project,
    evidence_missing,
)

Attrs = dict[str, Any]


class Reference(msgspec.Struct, frozen=True):
    """An attribute that names another entity, which has to be there and of one of these types."""

    attribute: str
    types: frozenset[str]


class EntityRule(msgspec.Struct, frozen=True):
    """The rules of one type."""

    references: tuple[Reference, ...] = ()
    version: tuple[str, ...] = ()
    """The path of the attribute with the version that an update names; empty for a type without versions."""
    check: Callable[[State, ReadFilter, str, Attrs], None] | None = None
    """Takes the id and the attributes to be written. Raises Conflict."""


_NO_RULE = EntityRule()
_STAMP = "updatedAt"
"""When knowledge was changed last."""


@cache
def _rules() -> Mapping[str, EntityRule]:
    """Return the rules by type: those of the core, then those that extensions contribute."""
    return {**{kind: rule for rules in installed().load("entity_rules") for kind, rule in rules.items()}, **_RULES}


def rule_of(node_type: str) -> EntityRule:
    return _rules().get(node_type, _NO_RULE)


def references(node_type: str, attrs: Mapping[str, Any]) -> Iterator[tuple[Reference, str]]:
    for reference in rule_of(node_type).references:
        named = attrs.get(reference.attribute)
        if isinstance(named, str) and named not in (REDACTED, LOOSE):
            yield reference, named


def version_of(node_type: str, attrs: Mapping[str, Any]) -> int | None:
    """None for a type without versions."""
    path = rule_of(node_type).version
    return integer_of(object_of(attrs, path[0]) if path[1:] else attrs, path[-1], 1) if path else None


def judge(state: State, read_filter: ReadFilter, operation: Operation, now: str) -> Operation | None:
    """Return the upsert as it may be written at this state, with a version past all earlier ones; None if the entity
    is so already. Raises Conflict or NotFound for what a rule forbids. Reads a line for each commit on the entity."""
    graph = DraftGraph(state, read_filter)
    if operation.verb is Verb.UPSERT_EDGE:
        return _judge_edge(state, read_filter, graph, operation)
    wanted = dict(operation.payload)
    node_id, current = wanted["id"], state.node(wanted["id"])
    check_node_id(graph, node_id)
    _check_type(wanted["type"], current)
    wanted["attrs"] = _with_claim(wanted, current)
    if current is not None and _is_current(state, current, wanted):
        return None
    _check_references(state, read_filter, wanted)
    check = rule_of(wanted["type"]).check
    if check is not None:
        check(state, read_filter, node_id, wanted["attrs"])
    return Operation(operation.verb, {**wanted, "attrs": _raised(state, wanted, now)})


# -- edges


def _judge_edge(state: State, read_filter: ReadFilter, graph: DraftGraph, operation: Operation) -> Operation | None:
    payload = operation.payload
    check_ends(graph, payload["from"], payload["to"])
    check_edge_id(graph, dict(payload))
    edge = state.edge_by_id(payload["id"]) if "id" in payload else state.edge(*_triple(payload))
    if edge is not None and (edge.attrs, edge.content) == (payload["attrs"], payload.get("content")):
        return None
    work = state.derived(WorkGraph)
    source, target = work.find(payload["from"]), work.find(payload["to"])
    if edge is None and payload["rel"] == DEPENDS_ON and source is not None and target is not None:
        check_dependency(work, source, target, read_filter)
    return operation


def _triple(payload: Mapping[str, Any]) -> tuple[str, str, str]:
    return payload["from"], payload["rel"], payload["to"]


# -- nodes


def _check_type(node_type: str, current: Node | None) -> None:
    if node_type.startswith(TRUST):
        raise Conflict(
            f"'{node_type}' belongs to a recall",
            code="RESERVED_TYPE",
            hint="'tallystick recall --undo' takes one back, 'tallystick recall' makes another",
        )
    if current is not None and current.type != node_type:
        reserved = [each for each in (current.type, node_type) if each.startswith(RESERVED)]
        if reserved:
            raise Conflict(
                f"it is of type '{current.type}', and the version is of type '{node_type}'",
                code="TYPE_DIFFERS",
                hint=f"'{reserved[0]}' is written by its own toolset",
            )


def _with_claim(wanted: Mapping[str, Any], current: Node | None) -> Attrs:
    """Who works on a node is not what it said at another moment: the claim of now stays."""
    attrs: Attrs = wanted["attrs"]
    if wanted["type"] != NODE:
        return attrs
    claim = object_of(current.attrs, "properties") if current is not None and attrs.get("resolved") is not True else {}
    properties = {name: value for name, value in object_of(attrs, "properties").items() if name not in CLAIM}
    properties |= {name: value for name, value in claim.items() if name in CLAIM}
    others = {name: value for name, value in attrs.items() if name != "properties"}
    return {**others, "properties": properties} if properties else others


def _is_current(state: State, current: Node, wanted: Mapping[str, Any]) -> bool:
    """Whether nothing but its version would change, and that has never been higher."""
    if (current.type, current.content) != (wanted["type"], wanted.get("content")):
        return False
    if _unversioned(current.type, current.attrs) != _unversioned(current.type, wanted["attrs"]):
        return False
    return version_of(current.type, current.attrs) == highest_version(state, current.id, current.type)


def _unversioned(node_type: str, attrs: Attrs) -> Attrs:
    path = rule_of(node_type).version
    if not path:
        return attrs
    if path[1:]:
        return {**attrs, path[0]: {**object_of(attrs, path[0]), path[1]: None}}
    return {**attrs, path[0]: None, _STAMP: None}


def highest_version(state: State, node_id: str, node_type: str) -> int | None:
    """Of all versions that were ever written; None for a type without versions."""
    lineage = state.lineage(node_id, "direct", 0, state.count) if rule_of(node_type).version else None
    documents = [] if lineage is None else [step.commit.document() for step in lineage.steps]
    versions = (version_of(node_type, object_of(each, "attrs")) for each in documents if each.get("type") == node_type)
    return max((each for each in versions if each is not None), default=None)


def _raised(state: State, wanted: Mapping[str, Any], now: str) -> Attrs:
    attrs: Attrs = wanted["attrs"]
    highest = highest_version(state, wanted["id"], wanted["type"])
    if highest is None:
        return attrs
    stamp = {_STAMP: max(now, state.head.timestamp)} if _STAMP in attrs else {}
    path = rule_of(wanted["type"]).version
    version: Attrs = {path[-1]: highest + 1}
    return {**attrs, **stamp, **({path[0]: {**object_of(attrs, path[0]), **version}} if path[1:] else version)}


def _check_references(state: State, read_filter: ReadFilter, wanted: Mapping[str, Any]) -> None:
    """What may not be read is missing, too."""
    for reference, named in references(wanted["type"], wanted["attrs"]):
        owner = state.owner(named)
        if owner is None or owner[0] not in reference.types or not read_filter.allows(named):
            raise NotFound(
                f"its {reference.attribute} '{named}' is not there",
                hint=f"restore that first: tallystick lineage {named}",
                details={"attribute": reference.attribute, "missing": named},
            )


def _check_project(state: State, read_filter: ReadFilter, node_id: str, attrs: Attrs) -> None:
    check_project_name(state.derived(WorkGraph), read_filter, text_of(attrs, "name"), node_id)


def _check_node(state: State, read_filter: ReadFilter, node_id: str, attrs: Attrs) -> None:
    graph = state.derived(WorkGraph)
    row, parent = graph.rows.get(node_id), graph.find(text_of(attrs, "parent"))
    project = find_text(attrs, "project")
    relatives = [*([parent] if parent is not None else []), *(row.children if row is not None else ())]
    for each in relatives:
        if each.board is not None and each.board.id != project:
            raise cross_project(f"'{node_id}' and '{read_filter.reference(each.id)}', which is next to it in the tree,")
    if row is not None and parent is not None:
        check_parent(row, parent, read_filter)
    _check_evidence(state, graph, node_id, attrs)


def _check_evidence(state: State, graph: WorkGraph, node_id: str, attrs: Attrs) -> None:
    """As when it is resolved: also by nodes that may not be read."""
    row, parent = graph.find(node_id), graph.find(text_of(attrs, "parent"))
    becomes_done = attrs.get("resolved") is True and not is_dropped(attrs) and (row is None or row.open)
    if not becomes_done or REQUIRE_EVIDENCE not in graph.properties:
        return
    above = [] if parent is None else [parent, *parent.above()]
    nodes = [node.attrs for node in (state.node(each.id) for each in above) if node is not None]
    lacking = missing(attrs, required([attrs, *nodes]))
    if lacking:
        raise evidence_missing(node_id, lacking)


def _check_knowledge(state: State, read_filter: ReadFilter, node_id: str, attrs: Attrs) -> None:
    project, current = attrs.get("projectId"), state.node(node_id)
    others = [current, state.node(text_of(attrs, "moleculeId"))]
    for other in others:
        if other is not None and other.attrs.get("projectId") != project:
            raise cross_project(f"'{node_id}' of then and '{other.id}' of now")


_OF_PROJECT = Reference("projectId", frozenset({PROJECT}))
_RULES: dict[str, EntityRule] = {
    PROJECT: EntityRule((), ("task", "rev"), _check_project),
    NODE: EntityRule(
        (Reference("project", frozenset({PROJECT})), Reference("parent", frozenset({NODE}))), ("rev",), _check_node
    ),
    MOLECULE: EntityRule((_OF_PROJECT,), ("version",), _check_knowledge),
    ATOM: EntityRule((_OF_PROJECT, Reference("moleculeId", frozenset({MOLECULE}))), ("version",), _check_knowledge),
    CHANGELOG: EntityRule((Reference("parentId", frozenset({ATOM, MOLECULE})),)),
}
