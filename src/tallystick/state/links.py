"""The links that may be crossed at a moment: edges of the relations and times asked for, to what the reader may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from tallystick.state import Direction, NamedEdge, Walk
from tallystick.state.asof import edge_seq, window
from tallystick.state.columns import Columns
from tallystick.state.graph import linked


class Link(msgspec.Struct, frozen=True, gc=False):
    edge: int
    seq: int
    """The commit that holds the edge's document at the moment."""
    node: int
    """At the other end."""


class Links:
    def __init__(self, columns: Columns, asked: Walk, at: int) -> None:
        self._columns = columns
        self._at = at
        numbers = (columns.edges.rels.find(rel) for rel in asked.edge_types)
        self._rels = {number for number in numbers if number is not None} if asked.edge_types else None
        timed = asked.since is not None or asked.until is not None
        self._window = window(columns, asked.since, asked.until, at) if timed else None
        narrows = asked.read_filter is not None and asked.read_filter.narrows
        self._read_filter = asked.read_filter if narrows else None
        self._along = None if asked.along is None else _ends_along(columns, asked.along, asked.direction)

    def leaving(self, node: int, direction: Direction) -> Iterator[Link | None]:
        """Of each edge of the node, oldest first: the link, or None when it may not be crossed.

        Safe to pause: edges may come and go meanwhile.
        """
        ids, read_filter = self._columns.nodes.ids, self._read_filter
        along = self._along
        for edge, other in _ends(self._columns, node, direction) if along is None else along.get(node, ()):
            seq = self._passes(edge)
            readable = seq and (read_filter is None or read_filter.allows(ids[other]))
            yield Link(edge, seq, other) if readable else None

    def crosses(self, named: NamedEdge) -> bool:
        """Whether the edge is there and may be crossed, with both its ends."""
        edge = find_named(self._columns, named)
        if edge is None or not self._passes(edge):
            return False
        return self._read_filter is None or self._read_filter.allows_all((named.source, named.target))

    def _passes(self, edge: int) -> int:
        """Its newest commit then, or 0."""
        edges = self._columns.edges
        if edge >= len(edges.rel) or (self._rels is not None and edges.rel[edge] not in self._rels):
            return 0
        seq = edge_seq(self._columns, edge, self._at)
        return seq if self._window is None or seq in self._window else 0


def _ends(columns: Columns, node: int, direction: Direction) -> Iterator[tuple[int, int]]:
    """Edges with the node at their other end."""
    edges = columns.edges
    if direction == "out":
        yield from ((edge, edges.target[edge]) for edge in linked(edges.out, node))
    elif direction == "in":
        yield from ((edge, edges.source[edge]) for edge in linked(edges.into, node))
    else:
        for edge in edges.around(node):
            if edge < len(edges.source):
                source = edges.source[edge]
                yield edge, edges.target[edge] if source == node else source


def find_named(columns: Columns, named: NamedEdge) -> int | None:
    """Dead or alive; None where there never was such an edge."""
    edges, handles = columns.edges, columns.nodes.handles
    start, end = handles.get(named.source), handles.get(named.target)
    if start is None or end is None:
        return None
    if named.id is None:
        return edges.find(start, named.rel, end)
    found = edges.by_chosen.get(named.id)
    if found is None or (edges.source[found], edges.rel_of(found), edges.target[found]) != (start, named.rel, end):
        return None
    return found


def _ends_along(columns: Columns, along: Sequence[NamedEdge], direction: Direction) -> dict[int, list[tuple[int, int]]]:
    """By node, as `_ends` has them."""
    edges = columns.edges
    ends: dict[int, list[tuple[int, int]]] = {}
    for edge in sorted({found for each in along if (found := find_named(columns, each)) is not None}):
        source, target = edges.source[edge], edges.target[edge]
        if direction != "in":
            ends.setdefault(source, []).append((edge, target))
        if direction != "out" and not (direction == "both" and source == target):
            ends.setdefault(target, []).append((edge, source))
    return ends


def simple_paths(
    onward: Callable[[int, int], Iterator[Link]], start: int, *, least: int, most: int
) -> Iterator[list[Link] | None]:
    """Every path from the start of `least` to `most` links that visits no node twice, depth first.

    `onward`: the links of a node, and how many may still be taken. None after each step, so that a long search can
    pause.
    """
    trail: list[Link] = []
    visited = {start}
    rest = [onward(start, most)]
    while rest:
        link = next(rest[-1], None)
        if link is None:
            rest.pop()
            if trail:
                visited.discard(trail.pop().node)
        elif link.node not in visited:
            trail.append(link)
            if len(trail) >= least:
                yield list(trail)
            if len(trail) < most:
                visited.add(link.node)
                rest.append(onward(link.node, most - len(trail)))
            else:
                trail.pop()
        yield None
