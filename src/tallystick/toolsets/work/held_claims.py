"""What an agent holds: the open nodes of a project on which its claim counts."""

from __future__ import annotations

from collections.abc import Iterator

from tallystick.policy import Principal
from tallystick.state.work import CLAIMED_BY
from tallystick.state.work.board import Board, Row
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.work.context import ToolContext


def held_by(tool_context: ToolContext, graph: WorkGraph, board: Board, principal: Principal) -> Iterator[Row]:
    postings, claimant = graph.properties.get(CLAIMED_BY), tool_context.claimant(principal)
    numbers = postings.members(principal.actor) if postings is not None else ()
    rows = (graph.by_number[number] for number in numbers if number in board.members)
    return (row for row in rows if row.open and claimant.has(row))
