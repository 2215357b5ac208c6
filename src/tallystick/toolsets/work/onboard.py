"""graph_onboard: everything an agent needs to know of a project when it joins, in one call."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING

from tallystick.errors import NotFound
from tallystick.policy import Action, Principal
from tallystick.state import Node
from tallystick.state.state import State
from tallystick.state.work import CLAIMED_BY
from tallystick.state.work.board import Board, Row
from tallystick.state.work.graph import WorkGraph
from tallystick.state.work.questions import ranked
from tallystick.toolsets import Answer
from tallystick.toolsets.work.answers import (
    ANSWER_BYTES_MAX,
    PART_BYTES_MAX,
    Said,
    cut,
    entries,
    fitting,
    get_node,
    oldest,
    properties_of,
    summary_of,
)
from tallystick.toolsets.work.arguments import OnboardArguments
from tallystick.toolsets.work.desk import Desk
from tallystick.toolsets.work.faults import get_project

if TYPE_CHECKING:
    from tallystick.store import Store

_ACTIONABLE_SHOWN = 10
_LINKS_SHOWN = 100
_CHILDREN_SHOWN = 200
_DOCUMENTS_READ = 1_000
_REF_SHOWN = 80
_LINK_SHOWN = 120
_SUMMARY_SHOWN = 120
_TREE_BYTES_MAX = 2 * PART_BYTES_MAX


async def onboard(desk: Desk, store: Store, principal: Principal, asked: OnboardArguments) -> Answer:
    def look(state: State, graph: WorkGraph) -> tuple[str, Said]:
        board = _board(graph, asked.project)
        return board.id, _seen(desk, state, graph, board, principal, asked.evidence_limit)

    board_id, answer = await desk.read(store, principal, Action.READ, look)
    desk.remember(principal, board_id)
    return Answer(answer)


def _board(graph: WorkGraph, name: str | None) -> Board:
    if name is not None:
        return get_project(graph, name)
    boards = graph.projects()
    if len(boards) != 1:
        raise NotFound(
            "there is no project yet" if not boards else f"there are {len(boards)} projects: say which",
            code="project_not_found",
            hint="graph_open makes one" if not boards else None,
            details={"projects": [board.name for board in boards[:50]]},
        )
    return boards[0]


def _seen(desk: Desk, state: State, graph: WorkGraph, board: Board, principal: Principal, evidence_limit: int) -> Said:
    root = graph.find(board.root) if board.root is not None else None
    goal = summary_of(state, root) if root is not None else None
    answer: Said = {"project": board.name}
    if goal != board.name:
        answer["goal"] = goal
    answer |= {
        "summary": board.counts(),
        "tree": _tree(state, root) if root is not None else [],
        "recent_evidence": _evidence(state, graph, board, evidence_limit),
        "context_links": _links(board),
        "actionable": _actionable(desk, state, graph, board),
    }
    mine = _claims(desk, graph, board, principal.actor)
    return answer | ({"your_claims": mine} if mine else {})


def _tree(state: State, root: Row) -> list[Said]:
    """The root's children and theirs, oldest first."""
    branches = (_branch(state, child) for child in oldest(root.children, _CHILDREN_SHOWN))
    return fitting(branches, _TREE_BYTES_MAX)


def _branch(state: State, row: Row) -> Said:
    answer = _leaf(state, row)
    children = oldest(row.children, _CHILDREN_SHOWN // 4)
    if children:
        answer["children"] = [
            _leaf(state, child) | ({"child_count": len(child.children)} if child.children else {}) for child in children
        ]
    if len(children) < len(row.children):
        answer["child_count"] = len(row.children)
    return answer


def _leaf(state: State, row: Row) -> Said:
    return {"id": row.id, "summary": cut(summary_of(state, row), _SUMMARY_SHOWN), "resolved": row.resolved}


def _evidence(state: State, graph: WorkGraph, board: Board, limit: int) -> list[Said]:
    """Of resolved nodes, newest first. No entry is newer than its node, so the newest nodes are enough."""
    found: list[Said] = []
    looked = 0
    for updated in reversed(board.updates):
        row = graph.by_update[updated]
        if not row.resolved or not row.kinds:
            continue
        node = get_node(state, row.id)
        looked += 1
        if looked > _DOCUMENTS_READ or _is_enough(found, limit, node):
            break
        found = sorted([*found, *_told(node)], key=lambda entry: entry["timestamp"], reverse=True)[:limit]
    return fitting(found, ANSWER_BYTES_MAX // 4) if found else []


def _is_enough(found: list[Said], limit: int, node: Node) -> bool:
    return len(found) >= limit and bool(found[-1]["timestamp"] > node.provenance.timestamp)


def _told(node: Node) -> list[Said]:
    return [
        {
            "node_id": node.id,
            "node_summary": cut(node.attrs.get("summary"), _SUMMARY_SHOWN // 2),
            "type": entry.get("type"),
            "ref": cut(entry.get("ref"), _REF_SHOWN),
            "agent": entry.get("agent"),
            "timestamp": str(entry.get("timestamp")),
        }
        for entry in reversed(entries(node.attrs, "evidence"))
        if isinstance(entry, dict)
    ]


def _links(board: Board) -> list[str]:
    return [cut(link, _LINK_SHOWN) for link in nsmallest(_LINKS_SHOWN, board.links)]


def _actionable(desk: Desk, state: State, graph: WorkGraph, board: Board) -> list[Said]:
    """In graph_next's order, without what somebody works on."""
    found: list[Said] = []
    moment = desk.moment()
    for row in ranked(graph, board):
        if len(found) == _ACTIONABLE_SHOWN:
            break
        if row.is_held(None, moment.now, moment.ttl):
            continue
        attrs = get_node(state, row.id).attrs
        found.append(
            {
                "id": row.id,
                "summary": cut(attrs.get("summary"), _SUMMARY_SHOWN),
                "properties": properties_of(attrs),
            }
        )
    return fitting(found, PART_BYTES_MAX) if found else []


def _claims(desk: Desk, graph: WorkGraph, board: Board, agent: str) -> list[str]:
    postings, moment = graph.properties.get(CLAIMED_BY), desk.moment()
    if postings is None:
        return []
    rows = (graph.by_number[number] for number in postings.members(agent) if number in board.members)
    return [row.id for row in rows if row.open and row.is_held(None, moment.now, moment.ttl)][:50]
