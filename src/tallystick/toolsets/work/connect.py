"""graph_connect: edges between work nodes, each judged for itself."""

from __future__ import annotations

from tallystick.state.work import DEPENDS_ON
from tallystick.state.work.board import Row
from tallystick.state.work.cycles import find_way
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.truncation import size_of
from tallystick.toolsets.work.answers import ANSWER_BYTES_MAX, newly_actionable
from tallystick.toolsets.work.arguments import ConnectArguments, EdgeArgument
from tallystick.toolsets.work.context import AnswerBuilder, Call
from tallystick.toolsets.work.errors import get_row, shortened, unknown_node
from tallystick.toolsets.work.view import View

PARENTAL = frozenset({"parent", "child"})

Rejection = tuple[str, str]
"""The reason, and what stands behind it."""


async def graph_connect(call: Call, asked: ConnectArguments) -> Answer:
    def draw(builder: DraftBuilder, view: View) -> AnswerBuilder:
        rejected: list[JsonObject] = []
        answer = AnswerBuilder({"applied": 0})
        claimant = call.claimant(view.state)
        for edge in asked.edges:
            refusal = _apply(builder, view, edge, answer.warnings)
            if refusal is None:
                answer.data["applied"] += 1
                # An edge says what the node at its start depends on, so that node changes.
                answer.warn(claimant.warning(get_row(view, edge.source)))
            else:
                reason, detail = refusal
                rejected.append({"from": edge.source, "to": edge.to, "reason": reason, "detail": detail})
        if rejected:
            answer.data |= _shown(rejected)
        newly = newly_actionable(builder, view)
        return AnswerBuilder(answer.data | (newly if newly["newly_actionable"] else {}), answer.warnings)

    sources = {edge.source for edge in asked.edges}
    only = sources.pop() if len(sources) == 1 else None
    answer, _ = await call.write(draw, resource=only)
    return Answer(answer.complete())


def _apply(builder: DraftBuilder, view: View, asked: EdgeArgument, warnings: list[str]) -> Rejection | None:
    if asked.type in PARENTAL:
        return "parent_edges_not_allowed", "the tree is changed by graph_restructure, op move"
    source, target = builder.graph.find(asked.source), builder.graph.find(asked.to)
    if source is None or target is None or not all([view.allows(source.id), view.allows(target.id)]):
        missing = asked.source if source is None or not view.allows(source.id) else asked.to
        return "node_not_found", unknown_node(view, missing).message
    return _remove(builder, asked) if asked.remove else _add(builder, view, asked, source, target, warnings)


def _remove(builder: DraftBuilder, asked: EdgeArgument) -> Rejection | None:
    link = builder.find_link(asked.source, asked.type, asked.to)
    if link is None:
        return "edge_not_found", f"'{asked.source}' has no edge {asked.type} to '{asked.to}'"
    builder.unlink(link)
    return None


def _add(
    builder: DraftBuilder, view: View, asked: EdgeArgument, source: Row, target: Row, warnings: list[str]
) -> Rejection | None:
    if source.board is not target.board:
        return "cross_project", f"'{source.id}' and '{target.id}' are in different projects"
    if builder.find_link(source.id, asked.type, target.id) is not None:
        return "duplicate_edge", f"'{source.id}' has an edge {asked.type} to '{target.id}' already"
    if asked.type == DEPENDS_ON:
        way = find_way(builder.graph, target, source)
        if way is not None:
            path = shortened([source.id, *(row.id for row in way)], view.read_filter)
            return "cycle_detected", f"Dependency cycle detected: {' -> '.join(path)}"
        warnings += deadlocks(source, target)
    builder.link({"from": source.id, "rel": asked.type, "to": target.id})
    return None


def deadlocks(source: Row, target: Row) -> list[str]:
    if target in source.above():
        return [f"'{source.id}' depends on '{target.id}', which is above it: neither can come first"]
    if source in target.above():
        return [
            f"'{source.id}' depends on '{target.id}', which is below it: as its child it must be resolved first anyway"
        ]
    return []


def _shown(rejected: list[JsonObject]) -> JsonObject:
    """Without details when there are too many to read_filter."""
    if size_of(rejected) <= ANSWER_BYTES_MAX // 2:
        return {"rejected": rejected}
    brief = [{key: value for key, value in each.items() if key != "detail"} for each in rejected]
    return {"rejected": brief, "details_omitted": len(brief)}
