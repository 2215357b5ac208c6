"""Everything a work graph holds, as plain values: two graphs that look alike answer alike."""

from __future__ import annotations

from typing import Any

from pyroaring import BitMap

from tallystick.state.work.board import Board, Row
from tallystick.state.work.graph import WorkGraph


def dump_state(graph: WorkGraph) -> dict[str, Any]:
    """Levels are left out: they are a help for searches, and may be any that are high enough."""
    return {
        "rows": {node_id: _row(row) for node_id, row in graph.rows.items()},
        "boards": {board_id: _board(board) for board_id, board in graph.boards.items()},
        "numbers": {number: row.id for number, row in graph.by_number.items()},
        "updates": {number: row.id for number, row in graph.by_update.items()},
        "names": {name: sorted(board.id for board in boards) for name, boards in graph._names.items()},
        "kinds": {kind: list(members) for kind, members in graph.kinds.items()},
        "properties": {
            key: (
                list(postings.present),
                list(postings.long),
                sorted((repr(value), list(BitMap(postings.members(value)))) for value in postings.values),
            )
            for key, postings in graph.properties.items()
        },
    }


def _row(row: Row) -> dict[str, Any]:
    plain = (
        "created updated depth resolved dropped open open_children open_dependencies priority owner claimed session"
        " links kinds marks rank"
    )
    return {name: getattr(row, name) for name in plain.split()} | {
        "board": row.board.id if row.board else None,
        "parent": row.parent.id if row.parent else None,
        "children": sorted(child.id for child in row.children),
        "depends_on": sorted(each.id for each in row.depends_on),
        "dependents": sorted(each.id for each in row.dependents),
    }


def _board(board: Board) -> dict[str, Any]:
    sets = ("members", "resolved", "dropped", "leaves", "blocked", "actionable")
    return {name: list(getattr(board, name)) for name in sets} | {
        "name": board.name,
        "root": board.root,
        "ranked": list(board.ranked),
        "updates": list(board.updates),
        "depths": {depth: list(members) for depth, members in board.depths.items()},
        "links": dict(board.links),
        "texts": dict(board.texts),
    }
