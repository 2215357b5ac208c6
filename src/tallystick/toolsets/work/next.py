"""graph_next: what to work on now, with everything needed to begin; claimed, if the agent wants it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tallystick.policy import Action
from tallystick.state import Node
from tallystick.state.attributes import list_of, object_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work.board import Board, Row
from tallystick.state.work.claims import ClaimTime
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.state.work.graph import WorkGraph
from tallystick.state.work.queries import ranked, ranked_among, with_properties
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.claims import Claimant
from tallystick.toolsets.truncation import listing, size_of, within_budget
from tallystick.toolsets.work.answers import (
    ANSWER_BYTES_MAX,
    PART_BYTES_MAX,
    ancestors_of,
    first,
    get_node,
    newest_fitting,
    node_of,
    summary_of,
)
from tallystick.toolsets.work.arguments import COUNT_MAX, NextArguments
from tallystick.toolsets.work.context import Call, FileKnowledge
from tallystick.toolsets.work.errors import cross_project, get_project, get_row
from tallystick.toolsets.work.task_texts import sections_of, task_of

_DEPENDENCIES_SHOWN = 20


class Seen(msgspec.Struct):
    answer: JsonObject
    known: Sequence[FileKnowledge] = ()
    """Knowledge in it whose freshness is added outside the look: that asks git."""


async def graph_next(call: Call, asked: NextArguments) -> Answer:
    if not asked.claim:
        seen = await call.read(
            Action.READ,
            lambda state, graph, read_filter: _seen(call, state, graph, call.claimant(), asked, read_filter),
        )
        return await freshened(call, seen)

    def draw(builder: DraftBuilder, read_filter: ReadFilter) -> Seen:
        claimant = call.claimant()
        seen = _seen(call, builder.state, builder.graph, claimant, asked, read_filter)
        for entry in seen.answer["nodes"]:
            node = entry["node"]
            entry |= _claim(builder, node["id"], claimant)
            attrs = builder.attrs(node["id"])
            node["rev"], node["properties"] = attrs["rev"], attrs["properties"]
        return seen

    seen, receipt = await call.write(draw)
    for entry in seen.answer["nodes"] if receipt is not None else ():
        entry["node"]["updated_at"] = receipt.commits[0].timestamp  # type: ignore[union-attr]  # it is not None here
    return await freshened(call, seen)


async def freshened(call: Call, seen: Seen) -> Answer:
    if call.context.knowledge is not None and seen.known:
        await call.context.knowledge.add_freshness(seen.known)
    return Answer(seen.answer)


def _claim(builder: DraftBuilder, node_id: str, claimant: Claimant) -> JsonObject:
    """What there is to say of it."""
    row = builder.graph.find(node_id)
    over = claimant.takes_over(row) if row is not None else None
    builder.revise(node_id, properties=claimant.take(object_of(builder.attrs(node_id), "properties")))
    return {} if over is None else {"taken_over": over}


def _seen(
    call: Call,
    state: State,
    graph: WorkGraph,
    claimant: Claimant,
    asked: NextArguments,
    read_filter: ReadFilter,
) -> Seen:
    board = get_project(graph, read_filter, asked.project)
    free = (row for row in _candidates(state, graph, board, asked, read_filter) if not claimant.is_kept_from(row))
    rows = first(read_filter, free, min(max(asked.count, 1), COUNT_MAX))
    known: dict[str, FileKnowledge] = {}
    nodes = within_budget((_entry(call, state, board, row, read_filter, known) for row in rows), ANSWER_BYTES_MAX)
    if not nodes:
        return Seen({"nodes": [], "hint": _why_nothing(graph, board, asked, read_filter, claimant.moment)})
    ids = [entry["node"]["id"] for entry in nodes]
    omitted = {"nodes_omitted": len(rows) - len(nodes)} if len(nodes) < len(rows) else {}
    return Seen({"nodes": nodes, **omitted}, [known[each] for each in ids if each in known])


def _candidates(
    state: State, graph: WorkGraph, board: Board, asked: NextArguments, read_filter: ReadFilter
) -> Iterator[Row]:
    hits = None
    if asked.scope is not None:
        scope = get_row(state, graph, read_filter, asked.scope, "scope")
        if scope.board is not board:
            raise cross_project(f"the scope '{scope.id}' and '{board.name}'")
        hits = board.members & board.below(scope)
    if asked.filter:
        hits = with_properties(
            graph,
            board.members if hits is None else hits,
            asked.filter,
            lambda node_id: object_of(get_node(state, node_id).attrs, "properties"),
        )
    return ranked_among(graph, board, hits, read_filter) if read_filter.narrows else ranked(graph, board, hits)


def _why_nothing(
    graph: WorkGraph, board: Board, asked: NextArguments, read_filter: ReadFilter, moment: ClaimTime
) -> str:
    if read_filter.narrows:
        return "nothing to hand out among the nodes that you may read"
    counts = board.counts()
    if not counts["unresolved"]:
        return "everything is resolved"
    held = sum(moment.is_claimed(graph.by_number[number]) for number in board.actionable)
    narrowed = " in this scope or with these properties" if asked.scope is not None or asked.filter else ""
    return (
        f"nothing to hand out{narrowed}: of {counts['unresolved']} unresolved nodes {counts['blocked']} are blocked,"
        f" {counts['actionable']} actionable, {held} of these claimed"
    )


def _entry(
    call: Call,
    state: State,
    board: Board,
    row: Row,
    read_filter: ReadFilter,
    known: dict[str, FileKnowledge],
) -> JsonObject:
    """What is known of its files is noted in `known` too."""
    node, sections = get_node(state, row.id), sections_of(state, row.id, read_filter)
    line, omitted = ancestors_of(row, read_filter)
    answer: JsonObject = {
        "node": node_of(state, node, read_filter),
        **task_of(node, sections, read_filter),
        "ancestors": [
            read_filter.warned(each.id, {"id": each.id, "summary": summary_of(state, each)}) for each in line
        ],
        "context_links": links_of(row, read_filter),
        **_dependencies(state, row, read_filter),
    }
    if omitted:
        answer["ancestors_omitted"] = omitted
    found = known_of(call, state, board, row, sections, read_filter)
    if found is not None:
        known[row.id] = found
        answer["knowledge"] = found.data
    return answer


def links_of(row: Row, read_filter: ReadFilter) -> JsonObject:
    """Its own, and what it inherits from above: root first, the nearest kept when they are too many."""
    inherited = [{"node_id": each.id, "links": list(each.links)} for each in _linked(row, read_filter)]
    answer = listing("inherited", inherited, len(inherited), PART_BYTES_MAX, note="inherited_omitted")
    answer["inherited"].reverse()
    return {"self": list(row.links), **answer}


def _linked(row: Row, read_filter: ReadFilter) -> list[Row]:
    """Those above it that have links."""
    return [each for each in row.above() if each.links and read_filter.allows(each.id)]


def _dependencies(state: State, row: Row, read_filter: ReadFilter) -> JsonObject:
    unique = list(dict.fromkeys(each for each in row.depends_on if each.board is not None))
    if read_filter.narrows:
        unique = first(read_filter, unique, _DEPENDENCIES_SHOWN + 1)
    entries = (read_filter.warned(each.id, _dependency(state, each)) for each in unique[:_DEPENDENCIES_SHOWN])
    return listing("resolved_deps", entries, len(unique), 2 * PART_BYTES_MAX, note="resolved_deps_omitted")


def _dependency(state: State, row: Row) -> JsonObject:
    attrs = get_node(state, row.id).attrs
    evidence, omitted = newest_fitting(list_of(attrs, "evidence"), PART_BYTES_MAX // 4)
    answer: JsonObject = {"id": row.id, "summary": attrs.get("summary"), **({"dropped": True} if row.dropped else {})}
    answer["evidence"] = evidence
    return answer | ({"evidence_omitted": omitted} if omitted else {})


def known_of(
    call: Call,
    state: State,
    board: Board,
    row: Row,
    sections: Sequence[Node],
    read_filter: ReadFilter,
) -> FileKnowledge | None:
    """What is known of the things that the node's links point to, and of its context files; None for nothing."""
    links = list(row.links) + [link for each in _linked(row, read_filter) for link in each.links]
    if call.context.knowledge is None or not (links or sections):
        return None
    texts = [(str(section.attrs.get("title")), str(section.attrs.get("content"))) for section in sections]
    known = call.context.knowledge.find(state, board.id, list(dict.fromkeys(links)), texts, read_filter=read_filter)
    if size_of(known.data) > 2 * PART_BYTES_MAX:
        known.data.clear()
        known.data["truncated"] = True
    return known if known.data else None
