"""The paths between two nodes: the shortest ones, or those of a given length.

The search begins at both ends, so that a hub in the middle is not walked through in full. Like a walk, it is of one
moment, and crosses only what the reader may see.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec

from tallystick.state import Breathing, Direction, Walk
from tallystick.state.columns import Columns
from tallystick.state.links import Link, Links, simple_paths

LOOKED_MAX = 200_000
"""Edges: what nothing joins may lie in the middle of a million, and some tenths of a second are enough."""
_BREATH = 512
_OPPOSITE: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


class Between(msgspec.Struct, frozen=True):
    paths: list[list[Link]]
    truncated: bool
    """There may be more than these."""


def between(columns: Columns, asked: Walk, start: int, target: int, at: int) -> Breathing[Between]:
    links = Links(columns, asked, at)
    if start == target or (asked.read_filter is not None and not asked.read_filter.allows(columns.nodes.ids[target])):
        return Between([], False)
    return (yield from (_shortest if asked.shortest else _of_length)(links, asked, start, target))


class _Side:
    """What was found from one end, with every link by which a node is reached in the fewest steps."""

    def __init__(self, origin: int, direction: Direction) -> None:
        self.direction = direction
        self.depth = 0
        self.depths = {origin: 0}
        self.ways: dict[int, list[tuple[int, Link]]] = {origin: []}
        """By node: each node that is one step nearer to the origin, and the link from there."""
        self.frontier = [origin]

    def expand(self, links: Links, looked_max: int) -> Breathing[int]:
        """One step further; how many edges were looked at. Not complete when that is `looked_max`."""
        self.depth += 1
        following: dict[int, None] = {}
        looked = 0
        for node in self.frontier:
            for link in links.leaving(node, self.direction):
                looked += 1
                if looked == looked_max:
                    return looked
                if looked % _BREATH == 0:
                    yield
                if link is not None and self.depths.setdefault(link.node, self.depth) == self.depth:
                    self.ways.setdefault(link.node, []).append((node, link))
                    following[link.node] = None
        self.frontier = list(following)
        return looked


def _shortest(links: Links, asked: Walk, start: int, target: int) -> Breathing[Between]:
    """All of them: each crosses the newest frontier once, and where it does so the two sides have met."""
    sides = _Side(start, asked.direction), _Side(target, _OPPOSITE[asked.direction])
    looked = 0
    while sides[0].depth + sides[1].depth < asked.hops and all(side.frontier for side in sides):
        side, other = sorted(sides, key=lambda each: len(each.frontier))
        looked += yield from side.expand(links, LOOKED_MAX - looked)
        if looked == LOOKED_MAX:
            return Between([], True)
        met = [node for node in side.frontier if node in other.depths]
        if met:
            nearest = min(other.depths[node] for node in met)
            found = _joined(*sides, [node for node in met if other.depths[node] == nearest])
            paths = list(islice(found, asked.paths_max + 1))
            return Between(paths[: asked.paths_max], len(paths) > asked.paths_max)
    return Between([], all(side.frontier for side in sides))


def _joined(near: _Side, far: _Side, met: list[int]) -> Iterator[list[Link]]:
    for node in met:
        for before in _ways_from(near, node):
            for after in _ways_from(far, node):
                # A link of the far side leads away from the target; on the path it is taken the other way.
                onward = [Link(link.edge, link.seq, nearer) for nearer, link in after]
                yield [link for _, link in reversed(before)] + onward


def _ways_from(side: _Side, node: int) -> Iterator[list[tuple[int, Link]]]:
    """Back to the origin. Every step is nearer to it, so none is a dead end."""
    if side.depths[node] == 0:
        yield []
    for nearer, link in side.ways[node]:
        for rest in _ways_from(side, nearer):
            yield [(nearer, link), *rest]


def _of_length(links: Links, asked: Walk, start: int, target: int) -> Breathing[Between]:
    """How far the target is from its surroundings is found first; then only those nodes are entered from which it
    can still be reached."""
    side = _Side(target, _OPPOSITE[asked.direction])
    looked = 0
    while side.depth < asked.hops - 1 and side.frontier:
        looked += yield from side.expand(links, LOOKED_MAX - looked)
        if looked == LOOKED_MAX:
            return Between([], True)

    def onward(node: int, steps: int) -> Iterator[Link]:
        nonlocal looked
        if node == target:
            return
        for link in links.leaving(node, asked.direction):
            looked += 1
            if looked >= LOOKED_MAX:
                return
            if link is not None and side.depths.get(link.node, asked.hops) < steps:
                yield link

    paths: list[list[Link]] = []
    least = asked.hops if asked.min_hops is None else max(asked.min_hops, 1)
    for number, path in enumerate(simple_paths(onward, start, least=least, most=asked.hops), 1):
        if path is not None and path[-1].node == target:
            paths.append(path)
            if len(paths) > asked.paths_max:
                break
        if number % _BREATH == 0:
            yield
    truncated = looked >= LOOKED_MAX or len(paths) > asked.paths_max
    return Between(paths[: asked.paths_max], truncated)
