"""Who works on what, in every project: for people who look on. Agents have graph_onboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick.clock import to_text
from tallystick.policy import Action, Principal
from tallystick.state.state import State
from tallystick.state.work import CLAIMED_BY
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.work.answers import Said, get_node, summary_of
from tallystick.toolsets.work.desk import Desk

if TYPE_CHECKING:
    from tallystick.store import Store

_CLAIMS_SHOWN = 50
_CHANGES_SHOWN = 10


async def watch(desk: Desk, store: Store, principal: Principal) -> Said:
    return await desk.read(store, principal, Action.SEARCH, lambda state, graph: _seen(desk, state, graph))


def _seen(desk: Desk, state: State, graph: WorkGraph) -> Said:
    projects = [{"project": board.name, "root": board.root, **board.counts()} for board in graph.projects()]
    return {
        "now": desk.stamp(),
        "projects": projects,
        "claims": _claims(desk, state, graph),
        "recent": _recent(state, graph),
    }


def _claims(desk: Desk, state: State, graph: WorkGraph) -> list[Said]:
    """Live ones on open nodes, the longest held first."""
    postings, moment = graph.properties.get(CLAIMED_BY), desk.moment()
    rows = [graph.by_number[number] for number in postings.present] if postings is not None else []
    held = [row for row in rows if row.open and row.is_held(None, moment.now, moment.ttl)]
    return [
        {
            "agent": row.owner,
            "node_id": row.id,
            "summary": summary_of(state, row),
            "project": row.board.name if row.board is not None else None,
            "since": to_text(row.claimed),
            "milliseconds": moment.now - row.claimed,
        }
        for row in sorted(held, key=lambda row: row.claimed)[:_CLAIMS_SHOWN]
    ]


def _recent(state: State, graph: WorkGraph) -> list[Said]:
    newest = sorted(update for board in graph.boards.values() for update in board.updates[-_CHANGES_SHOWN:])
    rows = [graph.by_update[update] for update in reversed(newest[-_CHANGES_SHOWN:])]
    nodes = [(row, get_node(state, row.id)) for row in rows]
    return [
        {
            "node_id": row.id,
            "summary": node.attrs.get("summary"),
            "agent": node.provenance.updated_by,
            "timestamp": node.provenance.timestamp,
            "resolved": row.resolved,
        }
        for row, node in nodes
    ]
