"""The graph: which types and relations there are; the newest of one, or what is around an entity, listed and drawn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from tallystick.errors import NotFound
from tallystick.extensions.web.addresses import entity_address, with_query
from tallystick.extensions.web.reports.graph_part import show_part
from tallystick.extensions.web.reports.marks import NO_MARKS, MarkedPart, Marks, mark_part, origin_of
from tallystick.extensions.web.reports.titles import shortened, title_of
from tallystick.extensions.web.shapes import shape_of
from tallystick.extensions.web.visit import Download, Redirect, Visit
from tallystick.toolsets.memory.lineage import csv_cell, csv_line

HOPS_MAX = 3
NODES_MAX = 100
DRAWN_MAX = 40
"""More could not be told apart; the table has all of them."""
PART = 20
"""Entities of a type, or edges of a relation, at a time."""
SKIPPED_MAX = 10_000
LABEL_CHARACTERS = 20
_CROWD = 8
"""On a ring: with more, labels are cut shorter."""
_SIDE = 72
"""For half of a label, which stands below its node."""
_TOP, _BOTTOM = 24, 48
_WIDTH_LEAST = 540
_RING = 104
_ARC = 84
"""Between neighbours on a ring, at least."""
_TALLER = 1.25
"""Rings are higher than wide: labels stand below each other more easily than side by side."""


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
    marks: Marks = NO_MARKS
    state: str | None = None
    """The gravest of its marks."""
    note: str = ""
    """What stands below its name: that mark in words, else its type."""


class GraphEdge(msgspec.Struct, frozen=True):
    source: str
    relation: str
    target: str
    since: int | None = None
    """The position at which it was written as it is."""
    marks: Marks = NO_MARKS
    is_derived: bool = False
    """Whether it tells where something comes from."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Of a node in the drawing."""

    node: GraphNode
    x: int
    y: int
    label: str
    note: str


class Line(msgspec.Struct, frozen=True):
    """Of an edge in the drawing."""

    edge: GraphEdge
    x1: int
    y1: int
    x2: int
    y2: int
    label_x: int
    label_y: int
    """Nearer to the outer end, where there is more room."""


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
    """What is linked to the centre first."""
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


async def graph_page(visit: Visit) -> Graph | Download | Redirect:
    around, kind, relation = visit.said("around"), visit.said("type"), visit.said("relation")
    hops = visit.number("hops", 1, most=HOPS_MAX)
    is_part = around is None and (kind or relation)
    if around is None and visit.as_of is not None:
        # Only what is around an entity is known of any moment: nothing else is shown as if it were.
        return Redirect(with_query("/graph", type=kind, relation=relation))
    facets = (await visit.ask("memory.search", facets=True))["facets"] if around is None and not is_part else {}
    drawn: Neighbourhood | None = None
    if around is not None:
        drawn = await _neighbourhood(visit, around, hops, kind, relation)
    elif is_part:
        drawn = await _part(visit, kind, relation)
    if drawn is not None and visit.said("export") == "csv":
        return _as_csv(drawn)
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
    nodes = _nodes(around, found, visit.as_of)
    edges = sorted(_edges(found["paths"]), key=lambda edge: around not in _ends(edge))
    (centre, *nodes), edges = await _marked(visit, [_node(around, entity, 0, visit.as_of), *nodes], edges)
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
    nodes, edges = await _marked(
        visit,
        [_node(each.id, {"type": each.type, "attrs": {"title": each.title}}, 1, None) for each in found.nodes],
        [GraphEdge(*each) for each in found.edges],
    )
    following = skip + PART
    return Neighbourhood(
        centre=None,
        hops=1,
        nodes=nodes,
        edges=edges,
        types=_counted(node.type for node in nodes if node.type is not None),
        relations=_counted(edge.relation for edge in edges),
        is_truncated=found.is_cut or (found.has_more and following > SKIPPED_MAX),
        drawing=draw_around(None, nodes, edges),
        next=following if found.has_more and following <= SKIPPED_MAX else None,
    )


async def _marked(
    visit: Visit, nodes: list[GraphNode], edges: list[GraphEdge]
) -> tuple[list[GraphNode], list[GraphEdge]]:
    context = visit.context
    ids, triples = [node.id for node in nodes], [_triple(edge) for edge in edges]
    found = await mark_part(context.offer.store, visit.principal, context.claims, ids, triples, visit.as_of)
    return [_with_marks(node, found) for node in nodes], [_dated(edge, found) for edge in edges]


def _with_marks(node: GraphNode, found: MarkedPart) -> GraphNode:
    marks = found.nodes.get(node.id, NO_MARKS)
    state, words = _gravest(marks)
    return msgspec.structs.replace(node, marks=marks, state=state, note=words or node.type or "")


def _gravest(marks: Marks) -> tuple[str | None, str]:
    """And what it says in a few words."""
    if marks.is_untrusted:
        return "untrusted", "untrusted"
    if marks.stale_since is not None:
        return "stale", "stale"
    if marks.redacted:
        return "redacted", f"{marks.redacted} redacted"
    return ("claimed", f"claimed by {marks.claimed_by}") if marks.claimed_by is not None else (None, "")


def _dated(edge: GraphEdge, found: MarkedPart) -> GraphEdge:
    known = found.edges.get(_triple(edge))
    is_derived = origin_of(edge.relation, "out") is not None
    if known is None:
        return msgspec.structs.replace(edge, is_derived=is_derived)
    return msgspec.structs.replace(edge, since=known.since, marks=known.marks, is_derived=is_derived)


def _triple(edge: GraphEdge) -> tuple[str, str, str]:
    return edge.source, edge.relation, edge.target


_COLUMNS = ("from", "relation", "to", "since", "stale", "untrusted", "redacted", "claimed_by")
"""Of the edge since when; the marks are those of where it leads to."""


def _as_csv(drawn: Neighbourhood) -> Download:
    nodes = {node.id: node.marks for node in drawn.nodes}
    lines = [csv_line(list(_COLUMNS))]
    for edge in drawn.edges:
        marks = nodes.get(edge.target, NO_MARKS)
        flags = (marks.stale_since, marks.is_untrusted, marks.redacted, marks.claimed_by)
        lines.append(csv_line([csv_cell(value) for value in (*_triple(edge), edge.since, *flags)]))
    if drawn.is_truncated or drawn.next is not None:
        lines.append(csv_line(["incomplete: there is more than this page shows"]))
    headers = {"Content-Type": "text/csv; charset=utf-8", "Content-Disposition": 'attachment; filename="graph.csv"'}
    return Download("".join(lines).encode(), headers)


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
        if not ring:
            continue
        radius = max(radius + _RING, len(ring) * _ARC / (2 * math.pi))
        wanted = [_towards(node, edges, angles) for node in ring] if hop > 1 else []
        for node, angle in zip(ring, _spread(wanted, _ARC / radius) or _evenly(len(ring)), strict=True):
            angles[node.id] = angle
            at[node.id] = radius * math.cos(angle), _TALLER * radius * math.sin(angle)
    half = max(radius + _SIDE, _WIDTH_LEAST / 2)
    spots = {name: (round(half + x), round(_TALLER * radius + _TOP + y)) for name, (x, y) in at.items()}
    crowd = max(Counter(node.hop for node in drawn).values(), default=0) > _CROWD
    characters = LABEL_CHARACTERS * 2 // 3 if crowd else LABEL_CHARACTERS
    return Drawing(
        width=round(2 * half),
        height=round(2 * _TALLER * radius + _TOP + _BOTTOM),
        places=[
            Place(
                node=node,
                x=spots[node.id][0],
                y=spots[node.id][1],
                label=shortened(node.title, characters),
                note=shortened(node.note, characters),
            )
            for node in [*middle, *drawn]
        ],
        lines=[
            Line(edge, *spots[edge.source], *spots[edge.target], *_label_spot(edge, spots, at))
            for edge in edges
            if edge.source in spots and edge.target in spots and edge.source != edge.target
        ],
    )


def _label_spot(
    edge: GraphEdge, spots: dict[str, tuple[int, int]], at: dict[str, tuple[float, float]]
) -> tuple[int, int]:
    inner, outer = sorted(_ends(edge), key=lambda end: math.hypot(*at[end]))
    x, y = (round(0.42 * near + 0.58 * far) for near, far in zip(spots[inner], spots[outer], strict=True))
    return x, y


def _evenly(count: int) -> list[float]:
    return [2 * math.pi * number / count - math.pi / 2 for number in range(count)]


def _spread(wanted: list[float], gap: float) -> list[float]:
    """As near to the angles that are wanted, which are in order, as they can be `gap` apart; nothing where they would
    go round."""
    placed: list[float] = []
    for angle in wanted:
        behind = (wanted.count(angle) - 1) / 2 * gap
        placed.append(max(angle - behind, placed[-1] + gap) if placed else angle - behind)
    return placed if placed and placed[-1] - placed[0] <= 2 * math.pi - gap else []


def _towards(node: GraphNode, edges: list[GraphEdge], angles: dict[str, float]) -> float:
    ends = (edge.source if edge.target == node.id else edge.target for edge in edges if node.id in _ends(edge))
    return next((angles[end] for end in ends if end in angles), 0.0)


def _ends(edge: GraphEdge) -> tuple[str, str]:
    return edge.source, edge.target
