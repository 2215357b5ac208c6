"""graph_onboard: everything an agent needs to know of a project when it joins, in one call."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from functools import cache
from heapq import nsmallest
from itertools import islice
from typing import Any

import msgspec

from tallystick.policy import Action, Principal
from tallystick.state import Node
from tallystick.state.attributes import list_of, object_of
from tallystick.state.work.board import Board, Row
from tallystick.state.work.queries import ranked, ranked_among
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.memory.arguments import NAME_CHARACTERS_MAX
from tallystick.toolsets.truncation import characters_of, cut_text, shortened
from tallystick.toolsets.work.answers import children_of, counts_of, cut
from tallystick.toolsets.work.arguments import OnboardArguments
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.errors import get_project
from tallystick.toolsets.work.view import View

TOKENS_MAX = 600
CHARACTERS_MAX = 4 * TOKENS_MAX
"""Of JSON, and what is not ASCII counted as it is escaped, in which form it costs a model the most."""
_WIDTHS = (120, 80, 50)
"""To which texts are cut, before entries are left out."""
_WHOLE = ("id", "node_id", "project", "root")
_ACTIONABLE_SHOWN = 10
_ROWS_READ = 50
"""More of a tree, of links or of claims do not fit, however short they are."""
_DOCUMENTS_READ = 1_000


async def graph_onboard(call: Call, asked: OnboardArguments) -> Answer:
    def look(view: View) -> tuple[str, JsonObject]:
        board = get_project(view, asked.project)
        return board.id, _seen(call, view, board, call.principal, asked.evidence_limit)

    board_id, answer = await call.read(Action.READ, look)
    call.context.remember(call.principal, board_id)
    return Answer(answer)


def _seen(call: Call, view: View, board: Board, principal: Principal, evidence_limit: int) -> JsonObject:
    root = view.graph.find(board.root) if board.root is not None else None
    goal = view.summary(root) if root is not None and view.allows(root.id) else None
    held = call.context.held_by(call.principal, view.state, view.graph, board)
    mine = [row.id for row in view.first(held, _ROWS_READ)]
    parts = [
        _tree(view, root),
        _listed("recent_evidence", 3, _evidence(view, board, evidence_limit)),
        _listed("context_links", 2, *_links(view, board)),
        _listed("actionable", 3, _actionable(call, view, board)),
        _listed("your_claims", 1, mine),
    ]
    return _fitted(_head(board, goal, counts_of(view, board)), parts)


def _head(board: Board, goal: str | None, counts: JsonObject) -> JsonObject:
    """A name too long for graph_open is cut: then the root's id says which project it is."""
    name = cut(board.name, NAME_CHARACTERS_MAX)
    answer: JsonObject = {"project": name} | ({} if name == board.name else {"root": board.root})
    return answer | ({} if goal == board.name else {"goal": goal}) | {"summary": counts}


# -- within the budget


class _Part(msgspec.Struct, frozen=True):
    name: str
    weight: int
    """What it may have of the budget, beside the others, where not all of them fit."""
    total: int
    count: int
    """How many of them could be shown."""
    shown: Callable[[int, int], list[Any]]
    """So many of them from the first, with texts cut to a width."""


def _fitted(head: JsonObject, parts: list[_Part]) -> JsonObject:
    for width in _WIDTHS:
        answer = _put_together(head, parts, [part.count for part in parts], width)
        if characters_of(answer) <= CHARACTERS_MAX:
            return answer
    return _put_together(head, parts, _counts(head, parts, width), width)


def _put_together(head: JsonObject, parts: list[_Part], counts: list[int], width: int) -> JsonObject:
    shown = {part.name: part.shown(count, width) for part, count in zip(parts, counts, strict=True)}
    if not shown["your_claims"]:
        del shown["your_claims"]
    more = {part.name: part.total - count for part, count in zip(parts, counts, strict=True) if count < part.total}
    return {**_cut(head, width), **shown} | ({"more": more} if more else {})


def _counts(head: JsonObject, parts: list[_Part], width: int) -> list[int]:
    """How many of each: the parts that need little leave the rest to the others."""
    bare = _put_together(head, parts, [0] * len(parts), width)
    left = CHARACTERS_MAX - characters_of({**bare, "your_claims": []})
    needs = {part.name: characters_of(part.shown(part.count, width)) for part in parts}
    weights = sum(part.weight for part in parts)
    counts: dict[str, int] = {}
    for part in sorted(parts, key=lambda part: needs[part.name] / part.weight):
        counts[part.name], spent = _most(part, left * part.weight // weights, width)
        left, weights = left - spent, weights - part.weight
    return [counts[part.name] for part in parts]


def _most(part: _Part, characters: int, width: int) -> tuple[int, int]:
    def size(count: int) -> int:
        return characters_of(part.shown(count, width)) - len("[]")

    count = bisect_right(range(1, part.count + 1), characters, key=size)
    return count, size(count)


def _listed(name: str, weight: int, entries: list[Any], total: int | None = None) -> _Part:
    @cache
    def at(width: int) -> list[Any]:
        return [_cut(entry, width) for entry in entries]

    total = len(entries) if total is None else total
    return _Part(name, weight, total, len(entries), lambda count, width: at(width)[:count])


def _cut(said: Any, width: int) -> Any:
    """Every text but ids; of properties what fits in as much."""
    if isinstance(said, str):
        return cut_text(said, width, characters_of)
    if not isinstance(said, dict):
        return said
    answer = {name: value if name in _WHOLE else _cut(value, width) for name, value in said.items()}
    if "properties" in said:
        answer["properties"] = shortened(said["properties"], width)
        if answer["properties"] != said["properties"]:
            answer["properties_cut"] = True
    return answer


# -- what there is


def _tree(view: View, root: Row | None) -> _Part:
    """The root's children and theirs, oldest first; all children before the first of theirs."""
    children, count = children_of(view, root, _ROWS_READ) if root is not None else ([], 0)
    below = {child: children_of(view, child, _ROWS_READ) for child in children}
    rows = [*children, *(each for found, _ in below.values() for each in found)][:_ROWS_READ]
    leaves = {row: view.line(row) for row in rows}
    twigs = {row: {"child_count": n} for row in rows[len(children) :] if (n := children_of(view, row, 0)[1])}

    @cache
    def at(width: int) -> dict[Row, JsonObject]:
        return {row: _cut(leaf, width) for row, leaf in leaves.items()}

    def shown(count: int, width: int) -> list[JsonObject]:
        kept = {row: at(width)[row] for row in rows[:count]}
        return [kept[child] | branches(child, kept) for child in children if child in kept]

    def branches(child: Row, kept: dict[Row, JsonObject]) -> JsonObject:
        found, number = below[child]
        twigs_kept = [kept[row] | twigs.get(row, {}) for row in found if row in kept]
        answer: JsonObject = {"children": twigs_kept} if twigs_kept else {}
        return answer | ({"child_count": number} if len(twigs_kept) < number else {})

    total = count + sum(number for _, number in below.values())
    if root is not None and not view.narrows:
        total = count + sum(len(child.children) for child in root.children)
    return _Part("tree", 4, total, len(rows), shown)


def _evidence(view: View, board: Board, limit: int) -> list[JsonObject]:
    """Of resolved nodes, newest first. No entry is newer than its node, so the newest nodes are enough."""
    found: list[JsonObject] = []
    rows = (view.graph.by_update[updated] for updated in reversed(board.updates))
    evident: Iterable[Row] = (row for row in rows if row.resolved and row.kinds)
    if view.narrows:
        evident = view.first(evident, 2 * limit)
    for row in islice(evident, _DOCUMENTS_READ):
        node = view.node(row.id)
        if _is_enough(found, limit, node):
            break
        found = sorted([*found, *_told(view, node)], key=lambda entry: entry["timestamp"], reverse=True)[:limit]
    return found


def _is_enough(found: list[JsonObject], limit: int, node: Node) -> bool:
    return len(found) >= limit and bool(found[-1]["timestamp"] > node.provenance.timestamp)


def _told(view: View, node: Node) -> list[JsonObject]:
    return [
        view.warned(
            node.id,
            {
                "node_id": node.id,
                "node_summary": node.attrs.get("summary"),
                "type": entry.get("type"),
                "ref": entry.get("ref"),
                "agent": entry.get("agent"),
                "timestamp": str(entry.get("timestamp")),
            },
        )
        for entry in reversed(list_of(node.attrs, "evidence"))
        if isinstance(entry, dict)
    ]


def _links(view: View, board: Board) -> tuple[list[str], int]:
    """The first of them, sorted, and how many there are."""
    links = set(board.links)
    if view.narrows:
        rows = map(view.graph.by_number.__getitem__, board.members)
        seen = view.first((row for row in rows if row.links), 2 * _ROWS_READ)
        links = {link for row in seen for link in row.links}
    return nsmallest(_ROWS_READ, links), len(links)


def _actionable(call: Call, view: View, board: Board) -> list[JsonObject]:
    """In graph_next's order, without what somebody works on."""
    moment = call.context.moment(view.state)
    ready = ranked_among(view.graph, board, None, view.read_filter) if view.narrows else ranked(view.graph, board)
    free = (row for row in ready if not moment.is_claimed(row))
    return [_open(view, row) for row in view.first(free, _ACTIONABLE_SHOWN)]


def _open(view: View, row: Row) -> JsonObject:
    attrs = view.attrs(row)
    answer = {"id": row.id, "summary": attrs.get("summary"), "properties": object_of(attrs, "properties")}
    return view.warned(row.id, answer)
