"""Who works on what, in every project: for people who look on. Agents have graph_onboard."""

from __future__ import annotations

from heapq import merge, nsmallest

from tallystick.clock import to_text
from tallystick.policy import Action
from tallystick.state.work import CLAIMED_BY
from tallystick.toolsets import JsonObject
from tallystick.toolsets.work.answers import counts_of
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.errors import projects_of
from tallystick.toolsets.work.view import View, standing

_CLAIMS_SHOWN = 50
_CHANGES_SHOWN = 10


async def watch(call: Call) -> JsonObject:
    return await call.read(Action.SEARCH, lambda view: _seen(call, view))


def _seen(call: Call, view: View) -> JsonObject:
    projects = [
        {"project": board.name, "root": view.reference(board.root), **counts_of(view, board)}
        for board in projects_of(view)
    ]
    now = call.context.stamp(view.state)
    return {"now": now, "projects": projects, **_claims(call, view), "recent": _recent(view)}


def _claims(call: Call, view: View) -> JsonObject:
    """Live ones on open nodes, the longest held first, and how many others there are."""
    postings, moment = view.graph.properties.get(CLAIMED_BY), call.context.moment(view.state)
    rows = [view.graph.by_number[number] for number in postings.present] if postings is not None else []
    held = view.readable((row for row in rows if row.open and moment.is_claimed(row)), lambda row: row.id)
    claims = [
        {
            "agent": row.owner,
            "session": row.session,
            "node_id": row.id,
            "summary": view.summary(row),
            "project": row.board.name if row.board is not None and view.allows(row.board.id) else None,
            "since": to_text(row.claimed),
            "milliseconds": moment.now - row.claimed,
        }
        for row in nsmallest(_CLAIMS_SHOWN, held, key=lambda row: row.claimed)
    ]
    return {"claims": claims, "claims_omitted": len(held) - len(claims)}


def _recent(view: View) -> list[JsonObject]:
    newest = merge(*(reversed(board.updates) for board in view.graph.boards.values()), reverse=True)
    rows = view.first((view.graph.by_update[update] for update in newest), _CHANGES_SHOWN)
    nodes = [(row, view.node(row.id)) for row in rows]
    return [
        {
            "node_id": row.id,
            "summary": node.attrs.get("summary"),
            "agent": node.provenance.updated_by,
            "timestamp": node.provenance.timestamp,
            **standing(row),
        }
        for row, node in nodes
    ]
