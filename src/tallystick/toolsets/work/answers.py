"""The shapes of what is answered, and how much of it fits into an agent's context."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import Any, TypeVar

from tallystick.clock import to_text
from tallystick.state import Node
from tallystick.state.attributes import list_of, object_of
from tallystick.state.work.attributes import is_dropped
from tallystick.state.work.board import Board, Row
from tallystick.state.work.draft_builder import DraftBuilder, revision
from tallystick.state.work.queries import Numbers, readable, readiness
from tallystick.toolsets import JsonObject
from tallystick.toolsets.truncation import listing, within_budget
from tallystick.toolsets.work.view import View

T = TypeVar("T")

ANSWER_BYTES_MAX = 50_000
PART_BYTES_MAX = 8_000
ANCESTORS_SHOWN = 50
_MEMBERS_COUNTED = 1_000


def node_of(view: View, node: Node) -> JsonObject:
    """A work node as the spec draws it."""
    said = node.attrs
    lived = view.state.summary(node.id)
    answer: JsonObject = {
        "id": node.id,
        "rev": revision(said),
        "parent": view.reference(said.get("parent")),
        "summary": said.get("summary"),
        "resolved": said.get("resolved") is True,
    }
    if is_dropped(said):
        answer["dropped"] = True
    if said.get("state") is not None:
        answer["state"] = said["state"]
    evidence, omitted = newest_fitting(list_of(said, "evidence"), PART_BYTES_MAX)
    answer |= {
        "properties": object_of(said, "properties"),
        "context_links": list_of(said, "context_links"),
        "evidence": evidence,
    }
    if omitted:
        answer["evidence_omitted"] = omitted
    answer |= {
        "created_at": lived.created_at if lived else node.provenance.timestamp,
        "updated_at": node.provenance.timestamp,
        "created_by": node.provenance.created_by,
    }
    return view.warned(node.id, answer)


def ancestors_of(view: View, row: Row) -> tuple[list[Row], int]:
    """Root first, down to the parent; of a very long line the root and the nearest, and how many were left out."""
    line = [each for each in row.above() if view.allows(each.id)]
    line.reverse()
    if len(line) <= ANCESTORS_SHOWN:
        return line, 0
    return [line[0], *line[-ANCESTORS_SHOWN + 1 :]], len(line) - ANCESTORS_SHOWN


def children_of(view: View, row: Row, most: int) -> tuple[list[Row], int]:
    """Return the oldest that may be read, and how many there are in all."""
    children = view.readable(row.children, lambda each: each.id)
    return oldest(children, most), len(children)


def counts_of(view: View, board: Board) -> JsonObject:
    """Of the nodes that may be read. Of many only the first are asked about, and `partial` says so."""
    if not view.narrows:
        return dict(board.counts())
    members = counted_members(view, board)
    seen = readable(view.graph, members, view.read_filter)
    resolved, dropped = len(seen & board.resolved), len(seen & board.dropped)
    stands = readiness(view.graph, board, view.read_filter, seen)
    counts: JsonObject = {
        "total": len(seen),
        "resolved": resolved,
        **({"dropped": dropped} if dropped else {}),
        "unresolved": len(seen) - resolved,
        "blocked": len(stands.blocked),
        "actionable": len(stands.actionable),
    }
    return counts | ({"partial": True} if len(members) < len(board.members) else {})


def counted_members(view: View, board: Board) -> Numbers:
    """Return the nodes that `counts_of` looks at."""
    return board.members[:_MEMBERS_COUNTED] if view.narrows else board.members


def oldest(rows: Sequence[Row], count: int) -> list[Row]:
    return nsmallest(count, rows, key=lambda row: row.created)


def evidence_entry(kind: str, ref: str, agent: str, milliseconds: int) -> JsonObject:
    return {"type": kind, "ref": ref, "agent": agent, "timestamp": to_text(milliseconds)}


def newly_actionable(builder: DraftBuilder, view: View) -> JsonObject:
    """The key and, when there are too many, how many were left out."""
    rows = builder.newly_actionable()
    if view.narrows:
        rows = view.readable(rows, lambda row: row.id)
    summaries = (view.warned(row.id, {"id": row.id, "summary": builder.attrs(row.id).get("summary")}) for row in rows)
    return listing("newly_actionable", summaries, len(rows), 2 * PART_BYTES_MAX, note="newly_actionable_omitted")


# -- how much


def newest_fitting(items: list[T], bytes_max: int) -> tuple[list[T], int]:
    """The last ones that fit, in their order, and how many were left out."""
    found = within_budget(reversed(items), bytes_max)
    found.reverse()
    return found, len(items) - len(found)


def cut(text: Any, characters: int) -> str:
    said = text if isinstance(text, str) else ""
    return said if len(said) <= characters else said[: characters - 1] + "…"
