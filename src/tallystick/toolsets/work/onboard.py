"""graph_onboard: everything an agent needs to know of a project when it joins, in one call."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING

from tallystick.errors import NotFound
from tallystick.policy import Action, Principal
from tallystick.state import Node
from tallystick.state.state import State
from tallystick.state.work.board import Board, Row
from tallystick.state.work.graph import WorkGraph
from tallystick.state.work.questions import ranked
from tallystick.toolsets import Answer
from tallystick.toolsets.discretion import Discretion
from tallystick.toolsets.fitting import fitting
from tallystick.toolsets.work.answers import (
    ANSWER_BYTES_MAX,
    PART_BYTES_MAX,
    Said,
    children_of,
    counts_of,
    cut,
    entries,
    first,
    get_node,
    properties_of,
    standing,
    summary_of,
)
from tallystick.toolsets.work.arguments import OnboardArguments
from tallystick.toolsets.work.desk import Desk
from tallystick.toolsets.work.faults import get_project, projects_of
from tallystick.toolsets.work.held import held_by

if TYPE_CHECKING:
    from tallystick.store import Sight, Store

_ACTIONABLE_SHOWN = 10
_CLAIMS_SHOWN = 50
_LINKS_SHOWN = 100
_CHILDREN_SHOWN = 200
_DOCUMENTS_READ = 1_000
_REF_SHOWN = 80
_LINK_SHOWN = 120
_SUMMARY_SHOWN = 120
_TREE_BYTES_MAX = 2 * PART_BYTES_MAX


async def onboard(desk: Desk, store: Store, principal: Principal, asked: OnboardArguments) -> Answer:
    def look(state: State, graph: WorkGraph, sight: Sight) -> tuple[str, Said]:
        tell = Discretion(state, sight)
        board = _board(graph, tell, asked.project)
        return board.id, _seen(desk, state, graph, board, tell, principal, asked.evidence_limit)

    board_id, answer = await desk.read(store, principal, Action.READ, look)
    desk.remember(principal, board_id)
    return Answer(answer)


def _board(graph: WorkGraph, tell: Discretion, name: str | None) -> Board:
    if name is not None:
        return get_project(graph, tell, name)
    boards = projects_of(graph, tell)
    if len(boards) != 1:
        raise NotFound(
            "there is no project yet" if not boards else f"there are {len(boards)} projects: say which",
            code="project_not_found",
            hint="graph_open makes one" if not boards else None,
            details={"projects": [board.name for board in boards[:50]]},
        )
    return boards[0]


def _seen(
    desk: Desk,
    state: State,
    graph: WorkGraph,
    board: Board,
    tell: Discretion,
    principal: Principal,
    evidence_limit: int,
) -> Said:
    root = graph.find(board.root) if board.root is not None else None
    goal = summary_of(state, root) if root is not None and tell.sees(root.id) else None
    answer: Said = {"project": board.name}
    if goal != board.name:
        answer["goal"] = goal
    answer |= {
        "summary": counts_of(graph, board, tell),
        "tree": _tree(state, root, tell) if root is not None else [],
        "recent_evidence": _evidence(state, graph, board, tell, evidence_limit),
        "context_links": _links(graph, board, tell),
        "actionable": _actionable(desk, state, graph, board, tell),
    }
    mine = [row.id for row in first(tell, held_by(desk, graph, board, principal), _CLAIMS_SHOWN)]
    return answer | ({"your_claims": mine} if mine else {})


def _tree(state: State, root: Row, tell: Discretion) -> list[Said]:
    """The root's children and theirs, oldest first."""
    rows, _ = children_of(root, tell, _CHILDREN_SHOWN)
    return fitting((_branch(state, child, tell) for child in rows), _TREE_BYTES_MAX)


def _branch(state: State, row: Row, tell: Discretion) -> Said:
    answer = _leaf(state, row, tell)
    children, count = children_of(row, tell, _CHILDREN_SHOWN // 4)
    if children:
        answer["children"] = [_twig(state, child, tell) for child in children]
    if len(children) < count:
        answer["child_count"] = count
    return answer


def _twig(state: State, row: Row, tell: Discretion) -> Said:
    _, count = children_of(row, tell, 0)
    return _leaf(state, row, tell) | ({"child_count": count} if count else {})


def _leaf(state: State, row: Row, tell: Discretion) -> Said:
    summary = cut(summary_of(state, row), _SUMMARY_SHOWN)
    return tell.warned(row.id, {"id": row.id, "summary": summary, **standing(row)})


def _evidence(state: State, graph: WorkGraph, board: Board, tell: Discretion, limit: int) -> list[Said]:
    """Of resolved nodes, newest first. No entry is newer than its node, so the newest nodes are enough."""
    found: list[Said] = []
    rows = (graph.by_update[updated] for updated in reversed(board.updates))
    evident: Iterable[Row] = (row for row in rows if row.resolved and row.kinds)
    if tell.narrows:
        evident = first(tell, evident, 2 * limit)
    for row in islice(evident, _DOCUMENTS_READ):
        node = get_node(state, row.id)
        if _is_enough(found, limit, node):
            break
        found = sorted([*found, *_told(node, tell)], key=lambda entry: entry["timestamp"], reverse=True)[:limit]
    return fitting(found, ANSWER_BYTES_MAX // 4) if found else []


def _is_enough(found: list[Said], limit: int, node: Node) -> bool:
    return len(found) >= limit and bool(found[-1]["timestamp"] > node.provenance.timestamp)


def _told(node: Node, tell: Discretion) -> list[Said]:
    return [
        tell.warned(
            node.id,
            {
                "node_id": node.id,
                "node_summary": cut(node.attrs.get("summary"), _SUMMARY_SHOWN // 2),
                "type": entry.get("type"),
                "ref": cut(entry.get("ref"), _REF_SHOWN),
                "agent": entry.get("agent"),
                "timestamp": str(entry.get("timestamp")),
            },
        )
        for entry in reversed(entries(node.attrs, "evidence"))
        if isinstance(entry, dict)
    ]


def _links(graph: WorkGraph, board: Board, tell: Discretion) -> list[str]:
    links = set(board.links)
    if tell.narrows:
        rows = map(graph.by_number.__getitem__, board.members)
        seen = first(tell, (row for row in rows if row.links), _LINKS_SHOWN)
        links = {link for row in seen for link in row.links}
    return [cut(link, _LINK_SHOWN) for link in nsmallest(_LINKS_SHOWN, links)]


def _actionable(desk: Desk, state: State, graph: WorkGraph, board: Board, tell: Discretion) -> list[Said]:
    """In graph_next's order, without what somebody works on."""
    moment = desk.moment()
    free = (row for row in ranked(graph, board) if not moment.is_claimed(row))
    found = [_open(state, row, tell) for row in first(tell, free, _ACTIONABLE_SHOWN)]
    return fitting(found, PART_BYTES_MAX) if found else []


def _open(state: State, row: Row, tell: Discretion) -> Said:
    attrs = get_node(state, row.id).attrs
    summary = cut(attrs.get("summary"), _SUMMARY_SHOWN)
    return tell.warned(row.id, {"id": row.id, "summary": summary, "properties": properties_of(attrs)})
