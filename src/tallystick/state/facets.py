"""The facets: which types, attribute keys and relations there are, how often, and an example of each.

Counted by what the indexes hold already; the one of edges by relation is made at the first question, in slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from heapq import nlargest
from typing import TYPE_CHECKING, Any

import msgspec
from pyroaring import BitMap

from tallystick.state import Breathing
from tallystick.state.asof import name_of, version
from tallystick.state.attributes import at_path
from tallystick.state.columns import Columns
from tallystick.state.graph import Edges
from tallystick.state.lineage import may_read_edge

if TYPE_CHECKING:
    from tallystick.state.read_filter import ReadFilter

_ROWS = 50_000
_NAMES = 2_000


class Facet(msgspec.Struct, frozen=True):
    name: str
    count: int | None
    """None where something may be withheld: a count would tell of it."""
    example: Any
    """The id of the newest entity; of an attribute its value there."""


class Facets(msgspec.Struct, frozen=True):
    types: list[Facet]
    attributes: list[Facet]
    relations: list[Facet]
    omitted: int
    """How many rarer ones are not among them."""


def count(columns: Columns, read_filter: ReadFilter, node_type: str | None, most: int) -> Breathing[Facets]:
    """Of each kind the `most` frequent, with counts; where something may be withheld, all by name, without."""
    members = None if node_type is None else columns.nodes.by_type.get(node_type, BitMap())
    types = {name: found for name, found in columns.nodes.by_type.items() if node_type in (None, name)}
    keys = yield from _holders(columns, members)
    edges = yield from _edges_by_relation(columns, members)
    omitted = 0
    found: list[list[Facet]] = []
    for named, sample in ((types, _node_id), (keys, _value), (edges, _edge_id)):
        allows = partial(_allows_edge if sample is _edge_id else _allows_node, columns, read_filter)
        show = partial(sample, columns)
        if read_filter.narrows:
            found.append((yield from _readable(named, show, allows, read_filter)))
            continue
        chosen = nlargest(most, named.items(), key=lambda item: len(item[1]))
        omitted += len(named) - len(chosen)
        found.append([Facet(name, len(handles), show(name, handles.max())) for name, handles in chosen if handles])
        yield
    return Facets(types=found[0], attributes=found[1], relations=found[2], omitted=omitted)


_Show = Callable[[str, int], Any]
_Allows = Callable[[int], bool]


def _readable(
    named: dict[str, BitMap], show: _Show, allows: _Allows, read_filter: ReadFilter
) -> Breathing[list[Facet]]:
    """Those that something has which may be read. Nothing of it depends on the others, not even the order."""
    found: list[Facet] = []
    for name in sorted(named):
        newest = read_filter.first(backwards(named[name]), allows, 1)
        found += [Facet(name, None, show(name, handle)) for handle in newest]
        yield
    return found


def backwards(handles: BitMap) -> Iterator[int]:
    return reversed(handles.to_array())


def _holders(columns: Columns, members: BitMap | None) -> Breathing[dict[str, BitMap]]:
    """By key; what only holds other keys is none."""
    found: dict[str, BitMap] = {}
    for number, (key, postings) in enumerate(list(columns.attributes.keys.items()), 1):
        if postings.values or postings.long:
            handles = postings.present if members is None else postings.present & members
            if handles:
                found[key] = handles
        if number % _NAMES == 0:
            yield
    return found


def _edges_by_relation(columns: Columns, sources: BitMap | None) -> Breathing[dict[str, BitMap]]:
    yield from related(columns)
    edges = columns.edges
    found: dict[str, BitMap] = {}
    for number, handles in list(edges.by_rel.items()):
        ours = handles if sources is None else (yield from _leaving(edges, handles, sources))
        if ours:
            found[edges.rels.texts[number]] = ours
    return found


def related(columns: Columns) -> Breathing[None]:
    """Until all edges are known by their relations."""
    while not columns.edges.relate(_ROWS):
        yield


def _leaving(edges: Edges, handles: BitMap, sources: BitMap) -> Breathing[BitMap]:
    found = BitMap()
    every = handles.to_array()
    for start in range(0, len(every), _ROWS):
        # A row may go while others run: it was taken back.
        there = (each for each in every[start : start + _ROWS] if each < len(edges.source))
        found.update([each for each in there if edges.source[each] in sources])
        yield
    return found


def _node_id(columns: Columns, name: str, handle: int) -> str | None:
    ids = columns.nodes.ids
    return ids[handle] if handle < len(ids) else None  # A row may go while others run: it was taken back.


def _value(columns: Columns, key: str, handle: int) -> Any:
    """The first scalar that the node has there."""
    found = version(columns, handle, columns.history.count) if handle < len(columns.nodes.ids) else None
    for value in at_path(found.attrs, key) if found is not None else ():
        for each in value if isinstance(value, list) else (value,):
            if not isinstance(each, dict | list):
                return each
    return None


def _edge_id(columns: Columns, name: str, handle: int) -> str | None:
    return name_of(columns, handle) if handle < len(columns.edges.rel) else None


def _allows_node(columns: Columns, read_filter: ReadFilter, handle: int) -> bool:
    return handle < len(columns.nodes.ids) and read_filter.allows(columns.nodes.ids[handle])


def _allows_edge(columns: Columns, read_filter: ReadFilter, handle: int) -> bool:
    return handle < len(columns.edges.rel) and may_read_edge(columns, handle, read_filter)
