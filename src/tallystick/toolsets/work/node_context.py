"""graph_context: a node and everything around it."""

from __future__ import annotations

from collections import deque

from tallystick.commits.payloads import edge_name
from tallystick.policy import Action
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work import DEPENDS_ON
from tallystick.state.work.board import Row
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.truncation import listing, size_of, within_budget
from tallystick.toolsets.work.answers import (
    PART_BYTES_MAX,
    ancestors_of,
    children_of,
    first,
    get_node,
    line_of,
    node_of,
    standing,
)
from tallystick.toolsets.work.arguments import DEPTH_MAX, ContextArguments
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.errors import get_row
from tallystick.toolsets.work.next import Seen, freshened, known_of
from tallystick.toolsets.work.task_texts import sections_of, task_of

TREE_BYTES_MAX = 2 * PART_BYTES_MAX
_NEIGHBOURS_SHOWN = 50
_EDGES_READ = 200


async def graph_context(call: Call, asked: ContextArguments) -> Answer:
    seen = await call.read(
        Action.READ,
        lambda state, graph, read_filter: _seen(call, state, graph, asked, read_filter),
        resource=asked.node_id,
    )
    return await freshened(call, seen)


def _seen(call: Call, state: State, graph: WorkGraph, asked: ContextArguments, read_filter: ReadFilter) -> Seen:
    row = get_row(state, graph, read_filter, asked.node_id)
    node, sections = get_node(state, row.id), sections_of(state, row.id, read_filter)
    line, omitted = ancestors_of(row, read_filter)
    answer: JsonObject = {
        "node": node_of(state, node, read_filter),
        **task_of(node, sections, read_filter),
        "ancestors": [line_of(state, each, read_filter) for each in line],
        "children": tree_of(state, row, min(asked.depth, DEPTH_MAX), read_filter),
    }
    if omitted:
        answer["ancestors_omitted"] = omitted
    answer |= _neighbours(state, "depends_on", row.depends_on, None, read_filter)
    answer |= _neighbours(state, "depended_by", row.dependents, row.resolved, read_filter)
    answer |= _edges(state, row, read_filter)
    known = known_of(call, state, row.board, row, sections, read_filter) if row.board is not None else None
    return Seen(answer | {"knowledge": known.data}, [known]) if known is not None else Seen(answer)


def tree_of(state: State, row: Row, depth: int, read_filter: ReadFilter, bytes_max: int = TREE_BYTES_MAX) -> JsonObject:
    """Level by level, oldest first. What does not fit is counted: `child_count` says how many there are in all."""
    root = _leaf(state, row, read_filter)
    left = bytes_max - size_of(root)
    waiting = deque([(row, root, depth)])
    while waiting:
        parent, shown, levels = waiting.popleft()
        if not parent.children:
            continue
        children: list[JsonObject] = []
        rows, count = children_of(parent, read_filter, bytes_max // 40 if levels > 0 and left > 0 else 0)
        for child in rows:
            leaf = _leaf(state, child, read_filter)
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


def _leaf(state: State, row: Row, read_filter: ReadFilter) -> JsonObject:
    attrs = get_node(state, row.id).attrs
    answer: JsonObject = {"id": row.id, "summary": attrs.get("summary"), **standing(row)}
    return read_filter.warned(row.id, answer | ({"state": attrs["state"]} if attrs.get("state") is not None else {}))


def _neighbours(state: State, key: str, rows: list[Row], satisfied: bool | None, read_filter: ReadFilter) -> JsonObject:
    """`satisfied` None: each by itself. Edges to what is no work node are not dependencies of work."""
    unique = [each for each in dict.fromkeys(rows) if each.board is not None]
    if read_filter.narrows:
        unique = first(read_filter, unique, _NEIGHBOURS_SHOWN + 1)
    entries = (
        {
            "node": node_of(state, get_node(state, each.id), read_filter),
            "satisfied": each.resolved if satisfied is None else satisfied,
        }
        for each in unique[:_NEIGHBOURS_SHOWN]
    )
    return listing(key, entries, len(unique), PART_BYTES_MAX, note=f"{key}_omitted")


def _edges(state: State, row: Row, read_filter: ReadFilter) -> JsonObject:
    """All but dependencies: relates_to, and what agents call their own."""
    triples = (triple for triple in state.triples(row.id) if triple[1] != DEPENDS_ON)
    others = [
        read_filter.warned(edge_name(*triple), {"from": triple[0], "to": triple[2], "type": triple[1]})
        for triple in read_filter.first(
            triples, lambda triple: all([read_filter.allows(triple[0]), read_filter.allows(triple[2])]), _EDGES_READ + 1
        )
    ]
    shown = within_budget(others[:_EDGES_READ], PART_BYTES_MAX) if others else []
    return ({"edges": shown} if shown else {}) | ({"edges_truncated": True} if len(shown) < len(others) else {})
