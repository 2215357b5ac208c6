"""The walk along edges from a node, at the head or at any commit before it.

Answers list what was reached, nearest first, without the start itself. Paths are simple:
none visits a node twice. Where there is a choice, the older edge goes first, so the same
question always has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick.state import Breathing, Direction, Node, Path, Walk, Walked
from tallystick.state.asof import clamped, edge_of, edge_seq, name_of, node_at, window
from tallystick.state.columns import Columns
from tallystick.state.graph import linked

_BREATH = 512
_PATHS = 64


class _Link(msgspec.Struct, frozen=True, gc=False):
    edge: int
    seq: int
    """The commit that holds the edge's document at the moment."""
    node: int
    """At the other end."""


Explored = dict[int, list[_Link]]


def walk(columns: Columns, asked: Walk) -> Breathing[Walked]:
    at = clamped(columns, asked.at)
    start = columns.nodes.handles.get(asked.start)
    if start is None or (asked.read_filter is not None and not asked.read_filter.allows(asked.start)):
        return Walked([], [], 0, False)
    explored, reached, cut = yield from _explore(columns, asked, start, at)
    paths: list[Path] = []
    for number, links in enumerate(_paths(explored, start, asked), 1):
        if links is not None:
            if len(paths) == asked.paths_max:
                cut = True
                break
            paths.append(_path(columns, start, links))
        if number % _PATHS == 0:
            yield
    nodes: list[Node] = []
    for number, handle in enumerate(reached, 1):
        node = node_at(columns, handle, at)
        if node is not None:
            nodes.append(node)
        if number % _BREATH == 0:
            yield
    crossed = {link.edge for links in explored.values() for link in links}
    return Walked(nodes, paths, len(crossed), cut)


class Reached(msgspec.Struct, frozen=True):
    nodes: list[str]
    """The start first, then nearest first."""
    edges: list[str]
    truncated: bool


def reach(columns: Columns, asked: Walk) -> Breathing[Reached]:
    """What a walk comes to and crosses, without reading a line."""
    start = columns.nodes.handles.get(asked.start)
    if start is None or (asked.read_filter is not None and not asked.read_filter.allows(asked.start)):
        return Reached([], [], False)
    explored, reached, cut = yield from _explore(columns, asked, start, clamped(columns, asked.at))
    ids, edges = columns.nodes.ids, columns.edges
    crossed = dict.fromkeys(link.edge for links in explored.values() for link in links if link.edge < len(edges.rel))
    return Reached(
        [ids[handle] for handle in (start, *reached) if handle < len(ids)],
        [name_of(columns, edge) for edge in crossed],
        cut,
    )


def _explore(columns: Columns, asked: Walk, start: int, at: int) -> Breathing[tuple[Explored, list[int], bool]]:
    """Breadth first. Only what it crossed is looked at when paths are listed, so hubs are not scanned twice."""
    sieve = _Sieve(columns, asked, at)
    read_filter = asked.read_filter if asked.read_filter is not None and asked.read_filter.narrows else None
    explored: Explored = {}
    reached: dict[int, None] = {start: None}
    frontier = [start]
    looked = 0
    for _ in range(asked.hops):
        following: list[int] = []
        for node in frontier:
            links = explored[node] = []
            for edge, other in _leaving(columns, node, asked.direction):
                looked += 1
                if looked % _BREATH == 0:
                    yield
                seq = sieve.passes(edge)
                if not seq or (read_filter is not None and not read_filter.allows(columns.nodes.ids[other])):
                    continue
                if other not in reached:
                    if len(reached) > asked.entities_max:
                        return explored, list(reached)[1:], True
                    reached[other] = None
                    following.append(other)
                links.append(_Link(edge, seq, other))
        frontier = following
    return explored, list(reached)[1:], False


class _Sieve:
    """Which edges may be crossed."""

    def __init__(self, columns: Columns, asked: Walk, at: int) -> None:
        self._columns = columns
        self._at = at
        numbers = (columns.edges.rels.find(rel) for rel in asked.edge_types)
        self._rels = {number for number in numbers if number is not None} if asked.edge_types else None
        timed = asked.since is not None or asked.until is not None
        self._window = window(columns, asked.since, asked.until, at) if timed else None

    def passes(self, edge: int) -> int:
        """Its newest commit then, or 0."""
        edges = self._columns.edges
        if edge >= len(edges.rel) or (self._rels is not None and edges.rel[edge] not in self._rels):
            return 0
        seq = edge_seq(self._columns, edge, self._at)
        return seq if self._window is None or seq in self._window else 0


def _leaving(columns: Columns, node: int, direction: Direction) -> Iterator[tuple[int, int]]:
    """Edges with the node at their other end, oldest first. Safe to pause: edges may come and go meanwhile."""
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


def _paths(explored: Explored, start: int, asked: Walk) -> Iterator[list[_Link] | None]:
    """Depth first. None after each step, so that a long search can pause."""
    shortest = asked.hops if asked.min_hops is None else max(asked.min_hops, 1)
    trail: list[_Link] = []
    visited = {start}
    rest = [iter(explored.get(start, ()))]
    while rest:
        link = next(rest[-1], None)
        if link is None:
            rest.pop()
            if trail:
                visited.discard(trail.pop().node)
        elif link.node not in visited:
            trail.append(link)
            if len(trail) >= shortest:
                yield list(trail)
            if len(trail) < asked.hops:
                visited.add(link.node)
                rest.append(iter(explored.get(link.node, ())))
            else:
                trail.pop()
        yield None


def _path(columns: Columns, start: int, links: list[_Link]) -> Path:
    ids = [columns.nodes.ids[handle] for handle in (start, *(link.node for link in links))]
    return Path(ids, [edge_of(columns, link.seq) for link in links])
