"""graph_context: a node and everything around it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tallystick.commits.payloads import edge_name
from tallystick.policy import Action, Principal
from tallystick.state.state import State
from tallystick.state.work import DEPENDS_ON
from tallystick.state.work.board import Row
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets import Answer
from tallystick.toolsets.read_filter import AnswerFilter
from tallystick.toolsets.truncation import size_of, that_fit
from tallystick.toolsets.work.answers import (
    PART_BYTES_MAX,
    Said,
    ancestors_of,
    children_of,
    first,
    get_node,
    node_of,
    standing,
    summary_of,
)
from tallystick.toolsets.work.arguments import DEPTH_MAX, ContextArguments
from tallystick.toolsets.work.context import ToolContext
from tallystick.toolsets.work.errors import get_row
from tallystick.toolsets.work.next import Seen, freshened, known_of
from tallystick.toolsets.work.task_texts import sections_of, task_of

if TYPE_CHECKING:
    from tallystick.store import ReadFilter, Store

TREE_BYTES_MAX = 2 * PART_BYTES_MAX
_NEIGHBOURS_SHOWN = 50
_EDGES_READ = 200


async def context(tool_context: ToolContext, store: Store, principal: Principal, asked: ContextArguments) -> Answer:
    seen = await tool_context.read(
        store,
        principal,
        Action.READ,
        lambda state, graph, read_filter: _seen(tool_context, state, graph, asked, read_filter),
        resource=asked.node_id,
    )
    return await freshened(tool_context, seen)


def _seen(
    tool_context: ToolContext, state: State, graph: WorkGraph, asked: ContextArguments, read_filter: ReadFilter
) -> Seen:
    tell = AnswerFilter(state, read_filter)
    row = get_row(state, graph, tell, asked.node_id)
    node, sections = get_node(state, row.id), sections_of(state, row.id, tell)
    line, omitted = ancestors_of(row, tell)
    answer: Said = {
        "node": node_of(state, node, tell),
        **task_of(node, sections, tell),
        "ancestors": [_ancestor(state, each, tell) for each in line],
        "children": tree_of(state, row, min(asked.depth, DEPTH_MAX), tell),
    }
    if omitted:
        answer["ancestors_omitted"] = omitted
    answer |= _neighbours(state, "depends_on", row.depends_on, None, tell)
    answer |= _neighbours(state, "depended_by", row.dependents, row.resolved, tell)
    answer |= _edges(state, row, tell)
    known = (
        known_of(tool_context, state, row.board, row, sections, tell, read_filter) if row.board is not None else None
    )
    return Seen(answer | {"knowledge": known.data}, [known]) if known is not None else Seen(answer)


def _ancestor(state: State, row: Row, tell: AnswerFilter) -> Said:
    return tell.warned(row.id, {"id": row.id, "summary": summary_of(state, row), **standing(row)})


def tree_of(state: State, row: Row, depth: int, tell: AnswerFilter, bytes_max: int = TREE_BYTES_MAX) -> Said:
    """Level by level, oldest first. What does not fit is counted: `child_count` says how many there are in all."""
    root = _leaf(state, row, tell)
    left = bytes_max - size_of(root)
    waiting = deque([(row, root, depth)])
    while waiting:
        parent, shown, levels = waiting.popleft()
        if not parent.children:
            continue
        children: list[Said] = []
        rows, count = children_of(parent, tell, bytes_max // 40 if levels > 0 and left > 0 else 0)
        for child in rows:
            leaf = _leaf(state, child, tell)
            left -= size_of(leaf) + 1
            if left < 0:
                break
            children.append(leaf)
            waiting.append((child, leaf, levels - 1))
        if children:
            shown["children"] = children
        if len(children) < count:
            shown["child_count"] = count
    return root


def _leaf(state: State, row: Row, tell: AnswerFilter) -> Said:
    attrs = get_node(state, row.id).attrs
    answer: Said = {"id": row.id, "summary": attrs.get("summary"), **standing(row)}
    return tell.warned(row.id, answer | ({"state": attrs["state"]} if attrs.get("state") is not None else {}))


def _neighbours(state: State, key: str, rows: list[Row], satisfied: bool | None, tell: AnswerFilter) -> Said:
    """`satisfied` None: each by itself. Edges to what is no work node are not dependencies of work."""
    unique = [each for each in dict.fromkeys(rows) if each.board is not None]
    if tell.narrows:
        unique = first(tell, unique, _NEIGHBOURS_SHOWN + 1)
    shown = that_fit(
        (
            {
                "node": node_of(state, get_node(state, each.id), tell),
                "satisfied": each.resolved if satisfied is None else satisfied,
            }
            for each in unique[:_NEIGHBOURS_SHOWN]
        ),
        PART_BYTES_MAX,
    )
    omitted = len(unique) - len(shown)
    return {key: shown} | ({f"{key}_omitted": omitted} if omitted else {})


def _edges(state: State, row: Row, tell: AnswerFilter) -> Said:
    """All but dependencies: relates_to, and what agents call their own."""
    triples = (triple for triple in state.triples(row.id) if triple[1] != DEPENDS_ON)
    others = [
        tell.warned(edge_name(*triple), {"from": triple[0], "to": triple[2], "type": triple[1]})
        for triple in tell.first(
            triples, lambda triple: all([tell.allows(triple[0]), tell.allows(triple[2])]), _EDGES_READ + 1
        )
    ]
    shown = that_fit(others[:_EDGES_READ], PART_BYTES_MAX) if others else []
    return ({"edges": shown} if shown else {}) | ({"edges_truncated": True} if len(shown) < len(others) else {})
