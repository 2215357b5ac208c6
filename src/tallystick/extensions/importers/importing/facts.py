"""Facts and links as drafts: each item is compared with what is there at the head, and then written, or left alone."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError

from tallystick.commits import Operation
from tallystick.commits.chain import encode_payload
from tallystick.commits.payloads import edge_name
from tallystick.errors import Conflict, InvalidArgument, NotFound, TallystickError
from tallystick.extensions.importers import Fact, Link
from tallystick.extensions.importers.importing.provenance import (
    ATTRIBUTE,
    content_hash,
    imported_hash,
    nonce,
    provenance,
)
from tallystick.extensions.importers.importing.report import Judged, Verdict, refusal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.system.turns import finished
from tallystick.toolsets.memory.arguments import WriteOperation
from tallystick.toolsets.memory.draft_graph import Document, DraftGraph
from tallystick.toolsets.memory.write_draft import draft_operation
from tallystick.toolsets.memory.write_request import payload_of


class Prepared(msgspec.Struct, frozen=True):
    """An item that could be said to memory.write, and how it is known again."""

    item: Fact | Link
    id: str
    """Of the node or the edge."""
    said: WriteOperation
    attrs: dict[str, Any]
    hash: str


def prepare(source: str, item: Fact | Link) -> Prepared:
    """Raises InvalidArgument for what memory.write would not take."""
    hash_ = content_hash(item)
    attrs = {**item.attrs, ATTRIBUTE: provenance(source, item, hash_)}
    return Prepared(item, _name_of(item), _asked(item, attrs), attrs, hash_)


def draw(
    source: str, state: State, read_filter: ReadFilter, batch: Sequence[Prepared]
) -> tuple[list[Operation], list[Verdict]]:
    """What to write at the head, and what becomes of each. What the memory's rules forbid is refused by itself; what
    the ontology or the policy forbids is found later, and refuses all of them."""
    graph = DraftGraph(state, read_filter)
    operations: list[Operation] = []
    verdicts: list[Verdict] = []
    for each in batch:
        try:
            check_ends(each.item, (), graph)
            before = _before(graph, each)
            verdict: Verdict = (judged := judge(source, graph, each, before))
            if judged.outcome != "unchanged":
                said = each.said if before is None else _asked(each.item, before.attrs | each.attrs)
                (drafted,) = finished(draft_operation(graph, said, payload_of(said), None)).operations
                encode_payload(drafted)  # what is only tried is never sealed
                graph.add([drafted])
                mark = nonce(source, each.id, each.hash, judged.replaces)
                operations.append(msgspec.structs.replace(drafted, nonce=mark))
        except TallystickError as error:
            verdict = refusal(each.item, error)
        verdicts.append(verdict)
    return operations, verdicts


def judge(source: str, graph: DraftGraph, each: Prepared, before: Document | None) -> Judged:
    """What becomes of it. Raises Conflict for what is left alone."""
    if before is None:
        if graph.state.knows(each.id):
            raise Conflict(f"'{each.id}' was deleted here, and stays so")
        return Judged("new")
    known = imported_hash(before.attrs, source, each.item.origin.id)
    if known is None and isinstance(each.item, Link):
        return Judged("unchanged")
    if known is None or not graph.allows(each.id):
        raise Conflict(f"there is a '{each.id}' already that does not come from there; it is left alone")
    return Judged("unchanged" if known == each.hash else "changed", known)


def look(
    source: str, coming: Container[str], state: State, read_filter: ReadFilter, batch: Sequence[Prepared]
) -> tuple[list[Operation], list[Verdict]]:
    """What becomes of links whose ends may still be `coming`."""
    graph = DraftGraph(state, read_filter)
    verdicts: list[Verdict] = []
    for each in batch:
        try:
            check_ends(each.item, coming, graph)
            verdicts.append(judge(source, graph, each, _before(graph, each)))
        except TallystickError as error:
            verdicts.append(refusal(each.item, error))
    return [], verdicts


def check_ends(item: Fact | Link, coming: Container[str], graph: DraftGraph) -> None:
    if isinstance(item, Fact):
        return
    ends = dict.fromkeys((item.source, item.target))
    missing = [each for each in ends if each not in coming and (graph.type_of(each) is None or not graph.allows(each))]
    if missing:
        raise NotFound("no node " + " and no node ".join(f"'{each}'" for each in missing))


def _before(graph: DraftGraph, each: Prepared) -> Document | None:
    return graph.node(each.id) if isinstance(each.item, Fact) else graph.edge(each.id)


def _name_of(item: Fact | Link) -> str:
    return item.id if isinstance(item, Fact) else edge_name(item.source, item.rel, item.target)


def _asked(item: Fact | Link, attrs: dict[str, Any]) -> WriteOperation:
    said = {name: value for name, value in attrs.items() if value is not None}
    try:
        if isinstance(item, Fact):
            node = {"id": item.id, "type": item.type, "attrs": said}
            return WriteOperation.model_validate({"op": "UPSERT_NODE", "node": node})
        edge = {"from": item.source, "rel": item.rel, "to": item.target, "attrs": said}
        return WriteOperation.model_validate({"op": "UPSERT_EDGE", "edge": edge})
    except ValidationError as error:
        raise InvalidArgument(problem_of(error)) from None


def problem_of(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
