"""The members of each type: nodes and connections by type, ends and properties.

Nodes are found by the state's own index. Edges have none by relation or attribute: it is
made here, at the first question, and follows the history. Only questions use it, never
drafts, so it gets durable commits only and nothing in it is ever undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, ClassVar, Literal

import msgspec
from pyroaring import BitMap

from tallystick.commits import Verb
from tallystick.state import Breathing
from tallystick.state.asof import edge_document, edge_seq, name_of, version
from tallystick.state.attributes import TEXT_MAX, Attributes, Flat, Postings, scalar
from tallystick.state.changes import EDGE
from tallystick.state.columns import Columns
from tallystick.state.conditions import is_same
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.graph import linked
from tallystick.state.ontology import ConnectionType, Ontology, is_foreign
from tallystick.state.state import State

Properties = Mapping[str, Any]

_DOCUMENTS = 256
_ROWS = 20_000
_FEW = 256
"""So few edges are read one by one rather than from an index that may still have to be made."""


class IdPage(msgspec.Struct, frozen=True):
    """A page of ids, oldest first."""

    ids: list[str]
    total: int
    is_at_least: bool = False
    """Whether there may be more than `total`."""


def find_nodes(
    state: State, types: Iterable[str], properties: Properties, *, offset: int, limit: int
) -> Breathing[IdPage]:
    """Nodes of these types that have all these properties."""
    columns = state._columns
    nodes, at = columns.nodes, columns.history.count
    left = BitMap.union(BitMap(), *(nodes.by_type[name] for name in types if name in nodes.by_type))
    doubtful = False
    for key, value in properties.items():
        # A list from before its type was named is found by each of its members.
        left &= _holders(columns.attributes.find(key), value)
        doubtful |= _is_long(value) or "." in key
    if doubtful:
        left = yield from _judge_nodes(columns, left, properties, at)
    return IdPage([nodes.ids[handle] for handle in left[offset : offset + limit]], len(left))


def find_connections(
    state: State,
    kinds: Iterable[ConnectionType],
    properties: Properties,
    *,
    source: str | None = None,
    target: str | None = None,
    offset: int,
    limit: int,
) -> Breathing[IdPage]:
    """Connections of these types that join these ends and have all these properties."""
    columns, index = state._columns, state.derived(_Connections)
    yield from index.follow(columns, columns.history.count)
    around = _around(columns, source, target)
    found = BitMap()
    for kind in kinds:
        members = index.members(columns, kind.name)
        if around is not None:
            members = members & around
        members = _governed(columns, kind, members)
        if properties and members:
            members = yield from index.having(columns, kind.name, members, properties)
        found |= members
    return IdPage([name_of(columns, edge) for edge in found[offset : offset + limit]], len(found))


def may_have_members(state: State, types: Iterable[str], rels: Iterable[str]) -> bool:
    """Whether there are such nodes, or ever were such edges. Reads no line."""
    columns = state._columns
    return any(columns.nodes.by_type.get(name) for name in types) or any(
        columns.edges.rels.find(name) is not None for name in rels
    )


def find_neighbours(
    state: State, node_id: str, kinds: Iterable[ConnectionType], direction: Literal["out", "in", "both"]
) -> list[str]:
    """Where the connections of these types lead, oldest first and each once. Reads no line."""
    columns = state._columns
    edges, ids, handle = columns.edges, columns.nodes.ids, columns.nodes.handles.get(node_id)
    if handle is None:
        return []
    rels = {edges.rels.find(kind.name): kind for kind in kinds}
    chosen = [edge for edge in edges.around(handle) if edges.alive[edge] and edges.rel[edge] in rels]
    if foreign := _foreign_types(columns):
        chosen = [edge for edge in chosen if _is_governed(columns, rels[edges.rel[edge]], foreign, edge)]
    found: dict[int, None] = {}
    for edge in chosen:
        if direction != "in" and edges.source[edge] == handle:
            found[edges.target[edge]] = None
        if direction != "out" and edges.target[edge] == handle:
            found[edges.source[edge]] = None
    return [ids[each] for each in found]


class _Connections:
    """Living edges by relation and, for relations that were asked for so, by property.

    It has seen the first `_seen` commits. Every step between two yields leaves it whole, so
    several questions may push it forwards in turns.
    """

    types: ClassVar[frozenset[str]] = frozenset()

    def __init__(self) -> None:
        self._seen = 0
        self._members: dict[int, BitMap] = {}
        self._properties: dict[int, _EdgeProperties] = {}

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        """Kept up to date by `follow`: what arrives here may still be undone."""

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None:
        """Likewise."""

    def follow(self, columns: Columns, until: int) -> Breathing[None]:
        while self._seen < until:
            stop = min(self._seen + _ROWS, until)
            rows = enumerate(columns.history.entity[self._seen + 1 : stop + 1], self._seen + 1)
            touched = {seq: row >> 1 for seq, row in rows if row & EDGE}
            self._forget_redacted(columns, touched)
            for edge in set(touched.values()):
                self._place(columns, edge, until)
            self._seen = stop
            yield

    def members(self, columns: Columns, kind: str) -> BitMap:
        """Not a copy."""
        number = columns.edges.rels.find(kind)
        return BitMap() if number is None else self._members.get(number, BitMap())

    def having(self, columns: Columns, kind: str, among: BitMap, properties: Properties) -> Breathing[BitMap]:
        number = columns.edges.rels.number(kind)
        while True:
            if number not in self._properties:
                if len(among) <= _FEW:
                    return _judge_edges(columns, among, properties, self._seen)
                self._properties[number] = _EdgeProperties(self._members[number])
            index = self._properties[number]
            yield from index.read_all(columns, lambda: self._seen)
            # Another question may have come across a redaction meanwhile.
            if self._properties.get(number) is index:
                return index.find(columns, among, properties, self._seen)

    def _forget_redacted(self, columns: Columns, touched: Mapping[int, int]) -> None:
        """What was indexed of a redacted edge can be read nowhere, so all of its relation is read again when asked."""
        for seq, edge in touched.items():
            number = columns.edges.rel[edge]
            if number in self._properties and columns.edge_line(seq).operation is Verb.REDACT_EDGE:
                del self._properties[number]

    def _place(self, columns: Columns, edge: int, at: int) -> None:
        number, seq = columns.edges.rel[edge], edge_seq(columns, edge, at)
        members = self._members.setdefault(number, BitMap())
        if seq:
            members.add(edge)
        else:
            members.discard(edge)
        if number in self._properties:
            self._properties[number].put(columns, edge, seq)


class _EdgeProperties:
    """The properties of one relation's edges, from value to edge."""

    def __init__(self, members: BitMap) -> None:
        self._attributes = Attributes()
        self._documents: dict[int, int] = {}
        """Of each edge that was read: the commit after which it said what is in the index."""
        self._unread = members.copy()

    def read_all(self, columns: Columns, seen: Callable[[], int]) -> Breathing[None]:
        """What is left to read. Whoever gives up half-way leaves the rest to the next one."""
        while self._unread:
            for edge in list(islice(self._unread, _DOCUMENTS)):
                self._unread.discard(edge)
                self.put(columns, edge, edge_seq(columns, edge, seen()))
            yield

    def put(self, columns: Columns, edge: int, seq: int) -> None:
        """What the edge says since commit `seq`; 0 when it is gone."""
        if edge in self._unread:
            return
        old = self._documents.pop(edge, 0)
        before, after = (_flat(edge_document(columns, each).attrs) if each else {} for each in (old, seq))
        self._attributes.replace(edge, before, after)
        if seq:
            self._documents[edge] = seq

    def find(self, columns: Columns, among: BitMap, properties: Properties, at: int) -> BitMap:
        left = among
        for key, value in properties.items():
            left = left & _holders(self._attributes.find(key), value)
        return _judge_edges(columns, left, properties, at) if any(map(_is_long, properties.values())) else left


def _holders(postings: Postings, value: Any) -> BitMap:
    """Who has this value, and, when it is too long for the index, who may have it."""
    return postings.long if _is_long(value) else postings.members(scalar(value))


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and len(value) > TEXT_MAX


def _flat(attrs: Mapping[str, Any]) -> Flat:
    return {key: [scalar(value)] for key, value in attrs.items() if not isinstance(value, list | dict)}


def _has(attrs: Mapping[str, Any], properties: Properties) -> bool:
    """True is not 1, and 1 is 1.0."""
    return all(key in attrs and is_same(attrs[key], value) for key, value in properties.items())


def _judge_nodes(columns: Columns, handles: BitMap, properties: Properties, at: int) -> Breathing[BitMap]:
    found = BitMap()
    for number, handle in enumerate(handles, 1):
        then = version(columns, handle, at)
        if then is not None and _has(then.attrs, properties):
            found.add(handle)
        if number % _DOCUMENTS == 0:
            yield
    return found


def _judge_edges(columns: Columns, edges: BitMap, properties: Properties, at: int) -> BitMap:
    seqs = ((edge, edge_seq(columns, edge, at)) for edge in edges)
    return BitMap([edge for edge, seq in seqs if seq and _has(edge_document(columns, seq).attrs, properties)])


def _governed(columns: Columns, kind: ConnectionType, edges: BitMap) -> BitMap:
    """Those that are connections: the rest, between nodes of other toolsets, only has the same name."""
    foreign = _foreign_types(columns)
    return BitMap([edge for edge in edges if _is_governed(columns, kind, foreign, edge)]) if foreign else edges


def _foreign_types(columns: Columns) -> set[int | None]:
    nodes = columns.nodes
    return {nodes.types.find(name) for name in nodes.by_type if is_foreign(name) and name not in Ontology.types}


def _is_governed(columns: Columns, kind: ConnectionType, foreign: set[int | None], edge: int) -> bool:
    nodes, source, target = columns.nodes, columns.edges.source[edge], columns.edges.target[edge]
    if nodes.type[source] not in foreign or nodes.type[target] not in foreign:
        return True
    return kind.governs(nodes.type_of(source), nodes.type_of(target))


def _around(columns: Columns, source: str | None, target: str | None) -> BitMap | None:
    """The edges that leave the one and reach the other, dead or alive; None when no end was named."""
    found: BitMap | None = None
    for name, adjacent in ((source, columns.edges.out), (target, columns.edges.into)):
        if name is not None:
            handle = columns.nodes.handles.get(name)
            edges = BitMap(linked(adjacent, handle) if handle is not None else ())
            found = edges if found is None else found & edges
    return found
