"""Who works on what, in every project: for people who look on. Agents have graph_onboard."""

from __future__ import annotations

from heapq import merge

from tallystick.clock import to_text
from tallystick.policy import Action
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work import CLAIMED_BY
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets import JsonObject
from tallystick.toolsets.work.answers import counts_of, first, get_node, standing, summary_of
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.errors import projects_of

_CLAIMS_SHOWN = 50
_CHANGES_SHOWN = 10


async def watch(call: Call) -> JsonObject:
    return await call.read(
        Action.SEARCH,
        lambda state, graph, read_filter: _seen(call, state, graph, read_filter),
    )


def _seen(call: Call, state: State, graph: WorkGraph, read_filter: ReadFilter) -> JsonObject:
    projects = [
        {"project": board.name, "root": read_filter.reference(board.root), **counts_of(graph, board, read_filter)}
        for board in projects_of(graph, read_filter)
    ]
    return {
        "now": call.context.stamp(),
        "projects": projects,
        "claims": _claims(call, state, graph, read_filter),
        "recent": _recent(state, graph, read_filter),
    }


def _claims(call: Call, state: State, graph: WorkGraph, read_filter: ReadFilter) -> list[JsonObject]:
    """Live ones on open nodes, the longest held first."""
    postings, moment = graph.properties.get(CLAIMED_BY), call.context.moment()
    rows = [graph.by_number[number] for number in postings.present] if postings is not None else []
    held = [row for row in rows if row.open and moment.is_claimed(row)]
    return [
        {
            "agent": row.owner,
            "session": row.session,
            "node_id": row.id,
            "summary": summary_of(state, row),
            "project": row.board.name if row.board is not None and read_filter.allows(row.board.id) else None,
            "since": to_text(row.claimed),
            "milliseconds": moment.now - row.claimed,
        }
        for row in first(read_filter, sorted(held, key=lambda row: row.claimed), _CLAIMS_SHOWN)
    ]


def _recent(state: State, graph: WorkGraph, read_filter: ReadFilter) -> list[JsonObject]:
    newest = merge(*(reversed(board.updates) for board in graph.boards.values()), reverse=True)
    rows = first(read_filter, (graph.by_update[update] for update in newest), _CHANGES_SHOWN)
    nodes = [(row, get_node(state, row.id)) for row in rows]
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
