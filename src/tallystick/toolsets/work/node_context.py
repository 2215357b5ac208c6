"""graph_context: a node and everything around it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tallystick.commits.payloads import edge_name
from tallystick.policy import Action
from tallystick.state.work import DEPENDS_ON
from tallystick.state.work.board import Row
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.truncation import listing, size_of, within_budget
from tallystick.toolsets.work.answers import PART_BYTES_MAX, ancestors_of, children_of, node_of
from tallystick.toolsets.work.arguments import DEPTH_MAX, ContextArguments
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.errors import get_row
from tallystick.toolsets.work.next import Seen, freshened, known_of
from tallystick.toolsets.work.task_texts import sections_of, task_of
from tallystick.toolsets.work.view import View, standing

TREE_BYTES_MAX = 2 * PART_BYTES_MAX
_NEIGHBOURS_SHOWN = 50
_EDGES_READ = 200


async def graph_context(call: Call, asked: ContextArguments) -> Answer:
    seen = await call.read(Action.READ, lambda view: _seen(call, view, asked), resource=asked.node_id)
    return await freshened(call, seen)


def _seen(call: Call, view: View, asked: ContextArguments) -> Seen:
    row = get_row(view, asked.node_id)
    node, sections = view.node(row.id), sections_of(view, row.id)
    line, omitted = ancestors_of(view, row)
    answer: JsonObject = {
        "node": node_of(view, node),
        **task_of(view, node, sections),
        "ancestors": [view.line(each) for each in line],
        "children": tree_of(view, row, min(asked.depth, DEPTH_MAX)),
    }
    if omitted:
        answer["ancestors_omitted"] = omitted
    answer |= _neighbours(view, "depends_on", row.depends_on, None)
    answer |= _neighbours(view, "depended_by", row.dependents, not row.open)
    answer |= _edges(view, row)
    known = known_of(call, view, row.board, row, sections) if row.board is not None else None
    return Seen(answer | {"knowledge": known.data}, [known]) if known is not None else Seen(answer)


def tree_of(view: View, row: Row, depth: int, bytes_max: int = TREE_BYTES_MAX) -> JsonObject:
    """Level by level, oldest first. What does not fit is counted: `child_count` says how many there are in all."""
    root = _leaf(view, row)
    left = bytes_max - size_of(root)
    waiting = deque([(row, root, depth)])
    while waiting:
        parent, shown, levels = waiting.popleft()
        if not parent.children:
            continue
        children: list[JsonObject] = []
        rows, count = children_of(view, parent, bytes_max // 40 if levels > 0 and left > 0 else 0)
        for child in rows:
            leaf = _leaf(view, child)
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


def _leaf(view: View, row: Row) -> JsonObject:
    attrs = view.attrs(row)
    answer: JsonObject = {"id": row.id, "summary": attrs.get("summary"), **standing(row)}
    return view.warned(row.id, answer | ({"state": attrs["state"]} if attrs.get("state") is not None else {}))


def _neighbours(view: View, key: str, rows: Sequence[Row], satisfied: bool | None) -> JsonObject:
    """`satisfied` None: each by itself. Edges to what is no work node are not dependencies of work."""
    unique = [each for each in dict.fromkeys(rows) if each.board is not None]
    if view.narrows:
        unique = view.first(unique, _NEIGHBOURS_SHOWN + 1)
    entries = (
        {"node": node_of(view, view.node(each.id)), "satisfied": not each.open if satisfied is None else satisfied}
        for each in unique[:_NEIGHBOURS_SHOWN]
    )
    return listing(key, entries, len(unique), PART_BYTES_MAX, note=f"{key}_omitted")


def _edges(view: View, row: Row) -> JsonObject:
    """All but dependencies: relates_to, and what agents call their own."""
    triples = (triple for triple in view.state.triples(row.id) if triple[1] != DEPENDS_ON)
    others = [
        view.warned(edge_name(*triple), {"from": triple[0], "to": triple[2], "type": triple[1]})
        for triple in view.read_filter.first(
            triples, lambda triple: all([view.allows(triple[0]), view.allows(triple[2])]), _EDGES_READ + 1
        )
    ]
    shown = within_budget(others[:_EDGES_READ], PART_BYTES_MAX) if others else []
    return ({"edges": shown} if shown else {}) | ({"edges_truncated": True} if len(shown) < len(others) else {})
