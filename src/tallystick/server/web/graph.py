"""The graph: which types and relations there are; the newest of one, or what is around an entity, listed and drawn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec

from tallystick.errors import NotFound
from tallystick.operations.graph_part import show_part
from tallystick.operations.titles import shortened, title_of
from tallystick.server.web.addresses import entity_address, with_query
from tallystick.server.web.visit import Visit

HOPS_MAX = 3
NODES_MAX = 100
DRAWN_MAX = 40
"""More could not be told apart; the table has all of them."""
PART = 20
"""Entities of a type, or edges of a relation, at a time."""
SKIPPED_MAX = 10_000
LABEL_CHARACTERS = 22
SHAPES = ("circle", "square", "diamond", "triangle", "hexagon", "page")
"""Which the script that draws knows too."""
_KNOWN_SHAPES = {"work/node": "circle", "knowledge/atom": "hexagon", "decision": "diamond", "incident": "triangle"}
_ROOM = 96
"""For a label beside a node."""
_RING = 150
_ARC = 58
"""Between neighbours on a ring, at least."""


class Count(msgspec.Struct, frozen=True):
    name: str
    count: int | None
    """None where something may be withheld."""
    example: str | None = None


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    type: str | None
    """None for what is only passed on the way to others."""
    hop: int
    shape: str
    """By its type, so that types are told apart by more than colour."""
    address: str


class GraphEdge(msgspec.Struct, frozen=True):
    source: str
    relation: str
    target: str


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Of a node in the drawing."""

    node: GraphNode
    x: int
    y: int
    label: str
    is_left: bool
    """On which side its label stands."""


class Line(msgspec.Struct, frozen=True):
    """Of an edge in the drawing."""

    edge: GraphEdge
    x1: int
    y1: int
    x2: int
    y2: int


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    width: int
    height: int
    places: list[Place]
    lines: list[Line]


class Neighbourhood(msgspec.Struct, frozen=True, kw_only=True):
    centre: GraphNode | None
    """None for the newest of a type or a relation."""
    hops: int
    nodes: list[GraphNode]
    """Without the centre; the nearest first."""
    edges: list[GraphEdge]
    types: list[Count]
    relations: list[Count]
    is_truncated: bool
    drawing: Drawing
    next: int | None = None
    """How many newer ones to skip for what comes behind these."""


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    around: str | None
    hops: int
    type: str | None
    relation: str | None
    types: list[Count]
    """Of the whole graph, where nothing is asked for."""
    relations: list[Count]
    neighbourhood: Neighbourhood | None
    as_of: str | int | None

    def address(self, **changed: str | int | None) -> str:
        """Of the same page with something changed."""
        asked = {"around": self.around, "hops": self.hops, "type": self.type, "relation": self.relation}
        return with_query("/graph", **{**asked, "as_of": self.as_of, **changed})


async def graph_page(visit: Visit) -> Graph:
    around, kind, relation = visit.said("around"), visit.said("type"), visit.said("relation")
    hops = visit.number("hops", 1, most=HOPS_MAX)
    is_part = around is None and (kind or relation)
    facets = (await visit.ask("memory.search", facets=True))["facets"] if around is None and not is_part else {}
    drawn: Neighbourhood | None = None
    if around is not None:
        drawn = await _neighbourhood(visit, around, hops, kind, relation)
    elif is_part:
        drawn = await _part(visit, kind, relation)
    return Graph(
        around=around,
        hops=hops,
        type=kind,
        relation=relation,
        types=_counts(facets.get("types", ())),
        relations=_counts(facets.get("relations", ())),
        neighbourhood=drawn,
        as_of=visit.as_of,
    )


async def _neighbourhood(visit: Visit, around: str, hops: int, kind: str | None, relation: str | None) -> Neighbourhood:
    """Raises NotFound."""
    entity = (await visit.ask("memory.read", entity_id=around, as_of=visit.as_of))["entity"]
    if entity is None or "type" not in entity:
        raise NotFound("there is no such entity")
    traversal = {"hops": hops, "min_hops": 1, "direction": "both", "edge_types": [relation] if relation else None}
    found = await visit.ask(
        "memory.search",
        entity_id=around,
        type=kind,
        traversal={name: value for name, value in traversal.items() if value is not None},
        limit=NODES_MAX,
        as_of=visit.as_of,
    )
    centre = _node(around, entity, 0, visit.as_of)
    nodes = _nodes(around, found, visit.as_of)
    edges = _edges(found["paths"])
    return Neighbourhood(
        centre=centre,
        hops=hops,
        nodes=nodes,
        edges=edges,
        types=_counted(node.type for node in nodes if node.type is not None),
        relations=_counted(edge.relation for edge in edges),
        is_truncated=found["truncated"] or found["pagination"]["next_offset"] is not None,
        drawing=draw_around(centre, nodes, edges),
    )


async def _part(visit: Visit, kind: str | None, relation: str | None) -> Neighbourhood:
    skip = visit.number("skip", 0, most=SKIPPED_MAX)
    found = await show_part(
        visit.context.offer.store, visit.principal, type=kind, relation=relation, skip=skip, limit=PART
    )
    nodes = [_node(each.id, {"type": each.type, "attrs": {"title": each.title}}, 1, None) for each in found.nodes]
    edges = [GraphEdge(*each) for each in found.edges]
    behind = skip + PART
    return Neighbourhood(
        centre=None,
        hops=1,
        nodes=nodes,
        edges=edges,
        types=_counted(node.type for node in nodes if node.type is not None),
        relations=_counted(edge.relation for edge in edges),
        is_truncated=False,
        drawing=draw_around(None, nodes, edges),
        next=behind if found.has_more and behind <= SKIPPED_MAX else None,
    )


def _nodes(around: str, found: dict[str, Any], as_of: str | int | None) -> list[GraphNode]:
    hops: dict[str, int] = {}
    for path in found["paths"]:
        for hop, name in enumerate(path["path"]):
            hops[name] = min(hop, hops.get(name, hop))
    known = {each["id"]: each for each in found["entities"]}
    names = [name for name in dict.fromkeys([*hops, *known]) if name != around]
    nodes = [_node(name, known.get(name, {}), hops.get(name, 1), as_of) for name in names]
    return sorted(nodes, key=lambda node: node.hop)


def _node(name: str, entity: dict[str, Any], hop: int, as_of: str | int | None) -> GraphNode:
    kind = entity.get("type")
    return GraphNode(
        id=name,
        title=title_of(name, entity.get("attrs")),
        type=kind,
        hop=hop,
        shape=shape_of(kind),
        address=entity_address(name, as_of=as_of),
    )


def shape_of(kind: str | None) -> str:
    """The same for a type everywhere and always; several types may share one."""
    if kind is None:
        return SHAPES[0]
    found = _KNOWN_SHAPES.get(kind.lower())
    return found or SHAPES[crc32(kind.encode("utf-8", "replace")) % len(SHAPES)]


def _edges(paths: list[dict[str, Any]]) -> list[GraphEdge]:
    edges = (GraphEdge(each["from"], each["rel"], each["to"]) for path in paths for each in path["edges"])
    return list(dict.fromkeys(edges))


def _counts(facets: Iterable[dict[str, Any]]) -> list[Count]:
    return [Count(each["name"], each.get("count"), each.get("example")) for each in facets]


def _counted(names: Iterable[str]) -> list[Count]:
    return [Count(name, count) for name, count in Counter(names).most_common()]


# -- the drawing


def draw_around(centre: GraphNode | None, nodes: list[GraphNode], edges: list[GraphEdge]) -> Drawing:
    """On rings around the centre, one for each hop; everybody near whom it is reached by."""
    drawn = nodes[:DRAWN_MAX]
    middle = [] if centre is None else [centre]
    angles: dict[str, float] = {node.id: 0.0 for node in middle}
    at: dict[str, tuple[float, float]] = {node.id: (0.0, 0.0) for node in middle}
    radius = 0.0
    for hop in range(1, HOPS_MAX + 1):
        ring = sorted((node for node in drawn if node.hop == hop), key=lambda node: _towards(node, edges, angles))
        radius = max(radius + _RING, len(ring) * _ARC / (2 * math.pi)) if ring else radius
        first = _towards(ring[0], edges, angles) if hop > 1 and ring else -math.pi / 2
        for number, node in enumerate(ring):
            angle = angles[node.id] = first + 2 * math.pi * number / len(ring)
            at[node.id] = radius * math.cos(angle), radius * math.sin(angle)
    half_width, half_height = radius + 2 * _ROOM, radius + _ROOM / 2
    spots = {name: (round(half_width + x), round(half_height + y)) for name, (x, y) in at.items()}
    return Drawing(
        width=round(2 * half_width),
        height=round(2 * half_height),
        places=[
            Place(
                node=node,
                x=spots[node.id][0],
                y=spots[node.id][1],
                label=shortened(node.title, LABEL_CHARACTERS),
                is_left=at[node.id][0] < -1,
            )
            for node in [*middle, *drawn]
        ],
        lines=[
            Line(edge, *spots[edge.source], *spots[edge.target])
            for edge in edges
            if edge.source in spots and edge.target in spots and edge.source != edge.target
        ],
    )


def _towards(node: GraphNode, edges: list[GraphEdge], angles: dict[str, float]) -> float:
    ends = (edge.source if edge.target == node.id else edge.target for edge in edges if node.id in _ends(edge))
    return next((angles[end] for end in ends if end in angles), 0.0)


def _ends(edge: GraphEdge) -> tuple[str, str]:
    return edge.source, edge.target
