"""The view of work: what one call may read of it, at the head or as a draft in the making leaves the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from tallystick.state import Node
from tallystick.state.attributes import text_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work.board import Row
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets import JsonObject

T = TypeVar("T")


class View(msgspec.Struct, frozen=True):
    state: State
    graph: WorkGraph
    read_filter: ReadFilter

    @property
    def narrows(self) -> bool:
        """Whether something may be withheld."""
        return self.read_filter.narrows

    def allows(self, node_id: str) -> bool:
        return self.read_filter.allows(node_id)

    def readable(self, items: Iterable[T], id_of: Callable[[T], str] = str) -> list[T]:
        return self.read_filter.readable(items, id_of)

    def reference(self, entity_id: Any) -> Any:
        return self.read_filter.reference(entity_id)

    def warned(self, entity_id: str, document: JsonObject) -> JsonObject:
        return self.read_filter.warned(entity_id, document)

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
