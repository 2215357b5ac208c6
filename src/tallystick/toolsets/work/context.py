"""graph_context: a node and everything around it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tallystick.policy import Action, Principal
from tallystick.state.state import State
from tallystick.state.work import DEPENDS_ON
from tallystick.state.work.board import Row
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets import Answer
from tallystick.toolsets.work.answers import (
    PART_BYTES_MAX,
    Said,
    ancestors_of,
    fitting,
    get_node,
    node_of,
    oldest,
    size_of,
    summary_of,
)
from tallystick.toolsets.work.arguments import DEPTH_MAX, ContextArguments
from tallystick.toolsets.work.desk import Desk
from tallystick.toolsets.work.faults import get_row
from tallystick.toolsets.work.next import known_of

if TYPE_CHECKING:
    from tallystick.store import Store

TREE_BYTES_MAX = 2 * PART_BYTES_MAX
_NEIGHBOURS_SHOWN = 50
_EDGES_READ = 200


async def context(desk: Desk, store: Store, principal: Principal, asked: ContextArguments) -> Answer:
    return Answer(
        await desk.read(
            store,
            principal,
            Action.READ,
            lambda state, graph: _seen(desk, state, graph, asked),
            resource=asked.node_id,
        )
    )


def _seen(desk: Desk, state: State, graph: WorkGraph, asked: ContextArguments) -> Said:
    row = get_row(state, graph, asked.node_id)
    line, omitted = ancestors_of(row)
    answer: Said = {
        "node": node_of(state, get_node(state, row.id)),
        "ancestors": [{"id": each.id, "summary": summary_of(state, each), "resolved": each.resolved} for each in line],
        "children": tree_of(state, row, min(asked.depth, DEPTH_MAX)),
    }
    if omitted:
        answer["ancestors_omitted"] = omitted
    answer |= _neighbours(state, "depends_on", row.depends_on, None)
    answer |= _neighbours(state, "depended_by", row.dependents, row.resolved)
    answer |= _edges(state, row)
    return answer | (known_of(desk, state, row.board, row) if row.board is not None else {})


def tree_of(state: State, row: Row, depth: int, bytes_max: int = TREE_BYTES_MAX) -> Said:
    """Level by level, oldest first. What does not fit is counted: `child_count` says how many there are in all."""
    root = _leaf(state, row)
    left = bytes_max - size_of(root)
    waiting = deque([(row, root, depth)])
    while waiting:
        parent, shown, levels = waiting.popleft()
        if not parent.children:
            continue
        children: list[Said] = []
        for child in oldest(parent.children, bytes_max // 40) if levels > 0 and left > 0 else ():
            leaf = _leaf(state, child)
            left -= size_of(leaf) + 1
            if left < 0:
                break
            children.append(leaf)
            waiting.append((child, leaf, levels - 1))
        if children:
            shown["children"] = children
        if len(children) < len(parent.children):
            shown["child_count"] = len(parent.children)
    return root


def _leaf(state: State, row: Row) -> Said:
    attrs = get_node(state, row.id).attrs
    answer: Said = {"id": row.id, "summary": attrs.get("summary"), "resolved": row.resolved}
    return answer | ({"state": attrs["state"]} if attrs.get("state") is not None else {})


def _neighbours(state: State, key: str, rows: list[Row], satisfied: bool | None) -> Said:
    """`satisfied` None: each by itself. Edges to what is no work node are not dependencies of work."""
    unique = [each for each in dict.fromkeys(rows) if each.board is not None]
    shown = fitting(
        (
            {
                "node": node_of(state, get_node(state, each.id)),
                "satisfied": each.resolved if satisfied is None else satisfied,
            }
            for each in unique[:_NEIGHBOURS_SHOWN]
        ),
        PART_BYTES_MAX,
    )
    omitted = len(unique) - len(shown)
    return {key: shown} | ({f"{key}_omitted": omitted} if omitted else {})


def _edges(state: State, row: Row) -> Said:
    """All but dependencies: relates_to, and what agents call their own."""
    others = [
        {"from": source, "to": target, "type": rel}
        for source, rel, target in state.triples(row.id)
        if rel != DEPENDS_ON
    ][:_EDGES_READ]
    return {"edges": fitting(others, PART_BYTES_MAX)} if others else {}
