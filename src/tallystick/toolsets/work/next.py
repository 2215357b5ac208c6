"""graph_next: what to work on now, with everything needed to begin; claimed, if the agent wants it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec

from tallystick.errors import Conflict
from tallystick.policy import Action
from tallystick.state import Node
from tallystick.state.attributes import list_of, object_of
from tallystick.state.work.board import Board, Row
from tallystick.state.work.claims import ClaimTime
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.state.work.queries import Numbers, claimed_elsewhere, ranked, ranked_among, with_properties
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.claims import Claimant, holder, released
from tallystick.toolsets.drafts import after_commit
from tallystick.toolsets.truncation import listing, size_of, within_budget
from tallystick.toolsets.work.answers import ANSWER_BYTES_MAX, PART_BYTES_MAX, ancestors_of, newest_fitting, node_of
from tallystick.toolsets.work.arguments import COUNT_MAX, NextArguments
from tallystick.toolsets.work.context import Call, FileKnowledge
from tallystick.toolsets.work.errors import cross_project, get_project, get_row, invalid
from tallystick.toolsets.work.task_texts import sections_of, task_of
from tallystick.toolsets.work.view import View

_DEPENDENCIES_SHOWN = 20


class Seen(msgspec.Struct):
    answer: JsonObject
    known: Sequence[FileKnowledge] = ()
    """Knowledge in it whose freshness is added outside the look: that asks git."""


async def graph_next(call: Call, asked: NextArguments) -> Answer:
    _check_alone(asked)
    if asked.release is not None:
        return await _release(call, asked.release)
    if not asked.claim:
        seen = await call.read(Action.READ, lambda view: _seen(call, view, call.claimant(view.state), asked))
        return await freshened(call, seen)

    def draw(builder: DraftBuilder, view: View) -> Seen:
        claimant = call.claimant(view.state)
        seen = _seen(call, view, claimant, asked)
        for entry in seen.answer["nodes"]:
            node = entry["node"]
            entry |= _claim(builder, node["id"], claimant)
            attrs = builder.attrs(node["id"])
            node["rev"], node["properties"] = attrs["rev"], attrs["properties"]
        return seen

    seen, receipt = await call.write(draw, resource=asked.node_id)
    for entry in seen.answer["nodes"] if receipt is not None else ():
        entry["node"]["updated_at"] = receipt.commits[0].timestamp  # type: ignore[union-attr]  # it is not None here
    await after_commit(_add_freshness(call, seen))
    return Answer(seen.answer)


async def claim_node(call: Call, node_id: str) -> None:
    """Claim the node that a person chose. Raises NotFound, and Conflict if it is not ready or another holds it."""

    def draw(builder: DraftBuilder, view: View) -> None:
        claimant = call.claimant(view.state)
        _claim(builder, _named(view, node_id, claimant).id, claimant)

    await call.write(draw, resource=node_id)


def _check_alone(asked: NextArguments) -> None:
    """Raises InvalidArgument for arguments that would have no effect."""
    given = asked.model_fields_set
    if asked.release is not None:
        useless = given - {"release", "project"}
        other = "release"
    else:
        useless = given & {"scope", "filter", "count"} if asked.node_id is not None else set()
        other = "node_id"
    if useless:
        raise invalid(*(f"field '{name}' does not go with '{other}'" for name in sorted(useless)))


async def _release(call: Call, node_id: str) -> Answer:
    """Give a claim back, so that others may take the node. Raises Conflict if another session holds it."""

    def draw(builder: DraftBuilder, view: View) -> JsonObject:
        row, claimant = get_row(view, node_id), call.claimant(view.state)
        if row.owner is None:
            return {"nodes": [], "hint": f"'{node_id}' is not claimed"}
        if row.owner != call.principal.actor or claimant.is_kept_from(row):
            raise _held(row, "only its holder can release it")
        builder.revise(node_id, properties=released(object_of(builder.attrs(node_id), "properties")) or None)
        return {"nodes": [], "released": node_id}

    answer, _ = await call.write(draw, resource=node_id)
    return Answer(answer)


def _named(view: View, node_id: str, claimant: Claimant) -> Row:
    """Return the row of a node that can be worked on now. Raises NotFound or Conflict."""
    row = get_row(view, node_id)
    waits = row.held or any(view.allows(each.id) for each in row.waits_for())
    if waits or not row.open:
        problem = f"'{node_id}' is not ready: it is over, blocked, or waits for others"
        raise Conflict(problem, hint="claim one that is ready")
    if claimant.is_kept_from(row):
        raise _held(row, "claim another one, or ask them")
    return row


def _held(row: Row, hint: str) -> Conflict:
    return Conflict(f"'{row.id}' is claimed by {holder(row)}", code="claimed", hint=hint)


async def freshened(call: Call, seen: Seen) -> Answer:
    await _add_freshness(call, seen)
    return Answer(seen.answer)


async def _add_freshness(call: Call, seen: Seen) -> None:
    if call.context.knowledge is not None and seen.known:
        await call.context.knowledge.add_freshness(seen.known)


def _claim(builder: DraftBuilder, node_id: str, claimant: Claimant) -> JsonObject:
    """What there is to say of it."""
    row = builder.graph.find(node_id)
    over = claimant.takes_over(row) if row is not None else None
    builder.revise(node_id, properties=claimant.take(object_of(builder.attrs(node_id), "properties")))
    return {} if over is None else {"taken_over": over}


def _seen(call: Call, view: View, claimant: Claimant, asked: NextArguments) -> Seen:
    if asked.node_id is not None:
        row = _named(view, asked.node_id, claimant)
        board = row.board or get_project(view, asked.project)
        rows = [row]
    else:
        board = get_project(view, asked.project)
        free = (row for row in _ranked(call, view, board, asked) if not claimant.is_kept_from(row))
        rows = view.first(free, min(max(asked.count, 1), COUNT_MAX))
    known: dict[str, FileKnowledge] = {}
    nodes = within_budget((_entry(call, view, board, row, known) for row in rows), ANSWER_BYTES_MAX)
    if not nodes:
        return Seen({"nodes": [], "hint": _why_nothing(view, board, asked, claimant.moment)})
    ids = [entry["node"]["id"] for entry in nodes]
    omitted = {"nodes_omitted": len(rows) - len(nodes)} if len(nodes) < len(rows) else {}
    return Seen({"nodes": nodes, **omitted}, [known[each] for each in ids if each in known])


def _ranked(call: Call, view: View, board: Board, asked: NextArguments) -> Iterator[Row]:
    """Yield what earlier sessions of the same agent left unfinished, then the other candidates, best first."""
    hits = _hits(view, board, asked)
    unfinished = claimed_elsewhere(view.graph, board, call.principal.actor, call.principal.session)
    if not unfinished:
        return _in_order(view, board, hits)
    first = _in_order(view, board, unfinished if hits is None else unfinished & hits)
    return chain(first, (row for row in _in_order(view, board, hits) if row.created not in unfinished))


def _hits(view: View, board: Board, asked: NextArguments) -> Numbers | None:
    """Return the numbers of the nodes that `scope` and `filter` leave; None for all of the project."""
    hits = None
    if asked.scope is not None:
        scope = get_row(view, asked.scope, "scope")
        if scope.board is not board:
            raise cross_project(f"the scope '{scope.id}' and '{board.name}'")
        hits = board.members & board.below(scope)
    if asked.filter:
        hits = with_properties(
            view.graph,
            board.members if hits is None else hits,
            asked.filter,
            lambda node_id: object_of(view.node(node_id).attrs, "properties"),
        )
    return hits


def _in_order(view: View, board: Board, hits: Numbers | None) -> Iterator[Row]:
    return ranked_among(view.graph, board, hits, view.read_filter) if view.narrows else ranked(view.graph, board, hits)


def _why_nothing(view: View, board: Board, asked: NextArguments, moment: ClaimTime) -> str:
    if view.narrows:
        return "nothing to hand out among the nodes that you may read"
    counts = board.counts()
    if not counts["unresolved"]:
        return "everything is resolved"
    held = sum(moment.is_claimed(view.graph.by_number[number]) for number in board.actionable)
    narrowed = " in this scope or with these properties" if asked.scope is not None or asked.filter else ""
    return (
        f"nothing to hand out{narrowed}: of {counts['unresolved']} unresolved nodes {counts['blocked']} are blocked,"
        f" {counts['actionable']} actionable, {held} of these claimed"
    )


def _entry(call: Call, view: View, board: Board, row: Row, known: dict[str, FileKnowledge]) -> JsonObject:
    """What is known of its files is noted in `known` too."""
    node, sections = view.node(row.id), sections_of(view, row.id)
    line, omitted = ancestors_of(view, row)
    answer: JsonObject = {
        "node": node_of(view, node),
        **task_of(view, node, sections),
        "ancestors": [view.warned(each.id, {"id": each.id, "summary": view.summary(each)}) for each in line],
        "context_links": links_of(view, row),
        **_dependencies(view, row),
    }
    if omitted:
        answer["ancestors_omitted"] = omitted
    found = known_of(call, view, board, row, sections)
    if found is not None:
        known[row.id] = found
        answer["knowledge"] = found.data
    return answer


def links_of(view: View, row: Row) -> JsonObject:
    """Its own, and what it inherits from above: root first, the nearest kept when they are too many."""
    inherited = [{"node_id": each.id, "links": list(each.links)} for each in _linked(view, row)]
    answer = listing("inherited", inherited, len(inherited), PART_BYTES_MAX, note="inherited_omitted")
    answer["inherited"].reverse()
    return {"self": list(row.links), **answer}


def _linked(view: View, row: Row) -> list[Row]:
    """Those above it that have links."""
    return [each for each in row.above() if each.links and view.allows(each.id)]


def _dependencies(view: View, row: Row) -> JsonObject:
    unique = list(dict.fromkeys(each for each in row.depends_on if each.board is not None))
    if view.narrows:
        unique = view.first(unique, _DEPENDENCIES_SHOWN + 1)
    entries = (view.warned(each.id, _dependency(view, each)) for each in unique[:_DEPENDENCIES_SHOWN])
    return listing("resolved_deps", entries, len(unique), 2 * PART_BYTES_MAX, note="resolved_deps_omitted")


def _dependency(view: View, row: Row) -> JsonObject:
    attrs = view.attrs(row)
    evidence, omitted = newest_fitting(list_of(attrs, "evidence"), PART_BYTES_MAX // 4)
    answer: JsonObject = {"id": row.id, "summary": attrs.get("summary"), **({"dropped": True} if row.dropped else {})}
    answer["evidence"] = evidence
    return answer | ({"evidence_omitted": omitted} if omitted else {})


def known_of(call: Call, view: View, board: Board, row: Row, sections: Sequence[Node]) -> FileKnowledge | None:
    """What is known of the things that the node's links point to, and of its context files; None for nothing."""
    links = list(row.links) + [link for each in _linked(view, row) for link in each.links]
    if call.context.knowledge is None or not (links or sections):
        return None
    texts = [(str(section.attrs.get("title")), str(section.attrs.get("content"))) for section in sections]
    known = call.context.knowledge.find(
        view.state, board.id, list(dict.fromkeys(links)), texts, read_filter=view.read_filter
    )
    if size_of(known.data) > 2 * PART_BYTES_MAX:
        known.data.clear()
        known.data["truncated"] = True
    return known if known.data else None
