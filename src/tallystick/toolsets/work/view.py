"""The view of work: what one call may read of it, at the head or as a draft in the making leaves the graph."""

from __future__ import annotations

from collections.abc import Iterable

from tallystick.state import Node
from tallystick.state.attributes import text_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work.board import Row
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets import JsonObject


class View:
    def __init__(self, state: State, graph: WorkGraph, read_filter: ReadFilter) -> None:
        self.state = state
        self.graph = graph
        self.read_filter = read_filter
        # Asked of every node that is shown, so not by way of another method.
        self.narrows, self.allows, self.readable = read_filter.narrows, read_filter.allows, read_filter.readable
        self.warned, self.reference = read_filter.warned, read_filter.reference

    def first(self, rows: Iterable[Row], count: int) -> list[Row]:
        """The first so many that may be read."""
        return self.read_filter.first(rows, lambda row: self.allows(row.id), count)

    def node(self, node_id: str) -> Node:
        """Of a row of the graph, which is always there."""
        node = self.state.node(node_id)
        if node is None:
            raise KeyError(node_id)
        return node

    def attrs(self, row: Row) -> JsonObject:
        return self.node(row.id).attrs

    def summary(self, row: Row) -> str:
        return text_of(self.attrs(row), "summary")

    def line(self, row: Row) -> JsonObject:
        return self.warned(row.id, {"id": row.id, "summary": self.summary(row), **standing(row)})


def standing(row: Row) -> JsonObject:
    """Whether it is done, or only over."""
    return {"resolved": row.resolved, "dropped": True} if row.dropped else {"resolved": row.resolved}
