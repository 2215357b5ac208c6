"""The walk along edges from a node, at the head or at any commit before it.

Answers list what was reached, nearest first, without the start itself. Paths are simple:
none visits a node twice. Where there is a choice, the older edge goes first, so the same
question always has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tallystick.state import Breathing, Edge, NamedEdge, Node, Path, Walk, Walked
from tallystick.state.asof import clamped, edge_of, name_of, node_at
from tallystick.state.columns import Columns
from tallystick.state.links import Link, Links, find_named, simple_paths
from tallystick.state.paths_between import between

_BREATH = 512
_PATHS = 64
_PATH_STEPS_MAX = 200_000
"""Ways that lead nowhere may be more than anybody can wait for."""
_LOOKED_AHEAD_MAX = 2_000
"""Edges that an estimate looks at."""
_ESTIMATE_MAX = 1_000_000


Explored = dict[int, list[Link]]


def walk(columns: Columns, asked: Walk) -> Breathing[Walked]:
    at = clamped(columns, asked.at)
    start = columns.nodes.handles.get(asked.start)
    if start is None or (asked.read_filter is not None and not asked.read_filter.allows(asked.start)):
        return Walked([], [], 0, False)
    if asked.target is not None:
        return (yield from _walk_between(columns, asked, start, at))
    explored, reached, cut = yield from _explore(columns, asked, start, at)
    chosen: list[list[Link]] = []
    least = asked.hops if asked.min_hops is None else max(asked.min_hops, 1)
    found = simple_paths(lambda node, _: iter(explored.get(node, ())), start, least=least, most=asked.hops)
    for number, links in enumerate(found if asked.paths_max else (), 1):
        if links is not None:
            if len(chosen) == asked.paths_max:
                cut = True
                break
            chosen.append(links)
        if number == _PATH_STEPS_MAX:
            cut = True
            break
        if number % _PATHS == 0:
            yield
    columns.expect([link.seq for links in chosen for link in links])
    nodes = (yield from _nodes(columns, reached, at)) if asked.reads_nodes else []
    paths = yield from _paths(columns, asked, start, chosen)
    crossed = {link.edge for links in explored.values() for link in links}
    return Walked(nodes, paths, len(crossed), cut or len(paths) < len(chosen), _ids(columns, reached))


def _walk_between(columns: Columns, asked: Walk, start: int, at: int) -> Breathing[Walked]:
    """What lies on the paths to the target, the target included."""
    target = columns.nodes.handles.get(asked.target or "")
    if target is None:
        return Walked([], [], 0, False)
    found = yield from between(columns, asked, start, target, at)
    steps = sorted((step, link.node) for path in found.paths for step, link in enumerate(path))
    reached = dict.fromkeys(node for _, node in steps)
    nodes = (yield from _nodes(columns, reached, at)) if asked.reads_nodes else []
    crossed = {link.edge for path in found.paths for link in path}
    paths = yield from _paths(columns, asked, start, found.paths)
    cut = found.truncated or len(paths) < len(found.paths)
    return Walked(nodes, paths, len(crossed), cut, _ids(columns, reached))


def _nodes(columns: Columns, handles: Iterable[int], at: int) -> Breathing[list[Node]]:
    nodes: list[Node] = []
    handles = list(handles)
    columns.expect_documents(handles)
    for handle in handles:
        node = node_at(columns, handle, at)
        if node is not None:
            nodes.append(node)
        yield
    return nodes


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
    edges = columns.edges
    crossed = dict.fromkeys(link.edge for links in explored.values() for link in links if link.edge < len(edges.rel))
    return Reached(
        _ids(columns, (start, *reached)),
        [name_of(columns, edge) for edge in crossed],
        cut,
    )


class Verified(msgspec.Struct, frozen=True):
    """What is true of edges that somebody outside found."""

    edges: list[NamedEdge]
    """Those that may be crossed."""
    ends: list[str]
    """Their nodes, each once."""
    unheard_of: int
    """Those that there never were."""


def verify(columns: Columns, asked: Walk) -> Breathing[Verified]:
    """Of `asked.along`."""
    along = asked.along or ()
    links = Links(columns, asked, clamped(columns, asked.at))
    kept: list[NamedEdge] = []
    ends: dict[str, None] = {}
    unheard_of = 0
    for number, named in enumerate(along, 1):
        if find_named(columns, named) is None:
            unheard_of += 1
        elif links.crosses(named):
            kept.append(named)
            ends[named.source] = ends[named.target] = None
        if number % _BREATH == 0:
            yield
    return Verified(kept, list(ends), unheard_of)


def estimate(columns: Columns, asked: Walk) -> Breathing[int]:
    """About how many nodes a walk comes to: two steps are looked at, and further ones are taken to branch alike."""
    start, read_filter = columns.nodes.handles.get(asked.start), asked.read_filter
    if start is None:
        return 0
    # How many there are in all is not for who may not read them.
    is_open = read_filter is None or not read_filter.narrows
    most = len(columns.nodes.alive) if is_open else _ESTIMATE_MAX
    ahead = msgspec.structs.replace(asked, hops=min(asked.hops, 2), entities_max=_LOOKED_AHEAD_MAX)
    explored, reached, cut = yield from _explore(columns, ahead, start, clamped(columns, asked.at))
    first = len({link.node for link in explored.get(start, ())} - {start})
    second = len(reached) - first
    total, step = float(len(reached)), float(second)
    for _ in range(asked.hops - 2):
        step *= second / first if first else 0
        total += step
        if not step or total > most:
            break
    return most if cut and asked.hops > 2 else min(round(total), most)


def _explore(columns: Columns, asked: Walk, start: int, at: int) -> Breathing[tuple[Explored, list[int], bool]]:
    """Breadth first. Only what it crossed is looked at when paths are listed, so hubs are not scanned twice."""
    links = Links(columns, asked, at)
    explored: Explored = {}
    reached: dict[int, None] = {start: None}
    frontier = [start]
    looked = 0
    for _ in range(asked.hops):
        following: list[int] = []
        for node in frontier:
            crossed = explored[node] = []
            for link in links.leaving(node, asked.direction):
                looked += 1
                if looked % _BREATH == 0:
                    yield
                if link is None:
                    continue
                if link.node not in reached:
                    if len(reached) > asked.entities_max:
                        return explored, list(reached)[1:], True
                    reached[link.node] = None
                    following.append(link.node)
                crossed.append(link)
        frontier = following
    return explored, list(reached)[1:], False


def _ids(columns: Columns, handles: Iterable[int]) -> list[str]:
    ids = columns.nodes.ids
    return [ids[handle] for handle in handles if handle < len(ids)]


def _paths(columns: Columns, asked: Walk, start: int, chosen: list[list[Link]]) -> Breathing[list[Path]]:
    """Those of which all edges could be read within the bytes."""
    paths: list[Path] = []
    left = asked.paths_bytes_max
    for links in chosen:
        edges: list[Edge] = []
        for link in links:
            edges.append(edge_of(columns, link.seq))
            left -= len(msgspec.json.encode(edges[-1].attrs))
            yield
            if left < 0 and paths:
                return paths
        paths.append(Path([columns.nodes.ids[handle] for handle in (start, *(link.node for link in links))], edges))
    return paths
