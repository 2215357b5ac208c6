"""The derived indexes: what each vocabulary keeps beside the graph.

A derived index is a function of the graph as it stands, not of how it came about. So it can be
built at any moment from the nodes and edges of its types, which happens at its first use,
and is kept up to date from then on, commit by commit, forwards and back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, TypeVar, cast

import msgspec
from pyroaring import BitMap

from tallystick.commits import Verb
from tallystick.commits.payloads import edge_name
from tallystick.errors import Corrupt
from tallystick.state import Breathing
from tallystick.state.asof import edge_seq, version
from tallystick.state.columns import Columns
from tallystick.state.graph import linked


class NodeVersion(msgspec.Struct, frozen=True):
    id: str
    type: str
    attrs: dict[str, Any]
    created: int
    """Sequence number of the commit that made it."""
    updated: int
    """Sequence number of its newest commit."""
    content: dict[str, Any] | None = None


class EdgeVersion(msgspec.Struct, frozen=True):
    id: str
    source: str
    rel: str
    target: str
    updated: int


class DerivedIndex(Protocol):
    types: ClassVar[frozenset[str]]
    """Types of the nodes it follows. An edge is followed when its source is of one of them."""

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        """None: it was not there, or is not there any more. Undoing swaps the two."""
        ...

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None: ...


A = TypeVar("A", bound=DerivedIndex)
_SLICE = 50


class DerivedIndexes:
    """The indexes that were asked for, kept in step with the columns."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._built: dict[type[DerivedIndex], tuple[DerivedIndex, BitMap]] = {}
        """Each with the handles of the nodes that it knows."""
        self._begun: dict[type[DerivedIndex], Breathing[None]] = {}
        """Those that are being built in slices."""
        self._rewritten = 0
        """How often commits were taken back: what was read before cannot be built upon."""

    def get(self, kind: type[A]) -> A:
        while kind not in self._built:
            for _ in self._begun.get(kind) or self.building(kind):
                pass
        return cast(A, self._built[kind][0])

    def building(self, kind: type[DerivedIndex]) -> Breathing[None]:
        """Built when it ends, unless commits were taken back or redacted meanwhile: then it is left to the next."""
        if kind not in self._built and kind not in self._begun:
            self._begun[kind] = self._build(kind)
        while (slices := self._begun.get(kind)) is not None:
            # One at a time, since somebody who cannot wait may have taken the others.
            if next(slices, self) is self:
                return
            yield

    def applied(self) -> None:
        """The newest commit was applied."""
        self._notify(forwards=True)

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """The newest commit is undone inside: what it did can be read only before."""
        self._rewritten += 1
        handle = self._columns.history.entity[self._columns.history.count] >> 1
        self._notify(forwards=False)
        yield
        nodes = self._columns.nodes
        for derived, known in list(self._built.values()):
            if handle not in known and handle in nodes.alive and nodes.type_of(handle) in derived.types:
                self._drop(derived)

    def _notify(self, *, forwards: bool) -> None:
        newest = self._columns.history.count
        for derived, known in list(self._built.values()):
            try:
                self._change(derived, known, newest, forwards=forwards)
            except Corrupt:
                # Not for the committer to fail on: raised to whoever asks for the index next.
                self._drop(derived)

    def _build(self, kind: type[DerivedIndex]) -> Breathing[None]:
        """As of the commit at which it began; then what came since."""
        columns, count, rewritten = self._columns, self._columns.history.count, self._rewritten
        derived, known = kind(), BitMap()
        for name in sorted(derived.types):
            known |= columns.nodes.by_type.get(name, BitMap())
        try:
            for number, _ in enumerate(self._tell_all(derived, known, count), 1):
                if number % _SLICE == 0:
                    yield
                    if rewritten != self._rewritten:
                        return
            self._built[kind] = derived, known
            for seq in range(count + 1, columns.history.count + 1):
                if kind in self._built:
                    self._change(derived, known, seq, forwards=True)
        except Corrupt:
            self._built.pop(kind, None)
            raise
        finally:
            self._begun.pop(kind, None)

    def _tell_all(self, derived: DerivedIndex, known: BitMap, count: int) -> Iterator[None]:
        for handle in known:
            derived.node_changed(None, self._node(handle, count))
            yield
        for handle in known:
            for edge in linked(self._columns.edges.out, handle):
                found = self._edge(edge, count)
                if found is not None:
                    derived.edge_changed(None, found)
                yield

    def _change(self, derived: DerivedIndex, known: BitMap, seq: int, *, forwards: bool) -> None:
        columns = self._columns
        entity = columns.history.entity[seq]
        handle = entity >> 1
        if entity & 1:
            if columns.edges.source[handle] in known:
                edges = self._edge(handle, seq - 1), self._edge(handle, seq)
                # A redaction of one that was deleted changes nothing.
                if edges != (None, None):
                    derived.edge_changed(*(edges if forwards else edges[::-1]))
            return
        if handle not in known and columns.nodes.type_of(handle) not in derived.types:
            return
        before, after = self._node(handle, seq - 1), self._node(handle, seq)
        retyped = not {each.type for each in (before, after) if each is not None} <= derived.types
        if retyped or columns.line(seq).operation is Verb.REDACT_NODE:
            self._drop(derived)
            return
        if not forwards:
            before, after = after, before
        if after is not None:
            known.add(handle)
        if before is not None or after is not None:
            derived.node_changed(before, after)
        if after is None:
            known.discard(handle)

    def _drop(self, derived: DerivedIndex) -> None:
        """Build it anew at its next use, after what is rare: a node came from or went to a type that is not
        followed, its edges with it; or was redacted, and the log has not been masked yet."""
        self._built.pop(type(derived), None)

    def _node(self, handle: int, at: int) -> NodeVersion | None:
        columns = self._columns
        found = version(columns, handle, at)
        if found is None:
            return None
        created = columns.nodes.created[handle]
        return NodeVersion(
            columns.nodes.ids[handle], found.type, found.attrs, min(created, found.seq), found.seq, found.content
        )

    def _edge(self, handle: int, at: int) -> EdgeVersion | None:
        columns, edges, ids = self._columns, self._columns.edges, self._columns.nodes.ids
        seq = edge_seq(columns, handle, at)
        if not seq:
            return None
        source, rel, target = ids[edges.source[handle]], edges.rel_of(handle), ids[edges.target[handle]]
        return EdgeVersion(edges.chosen.get(handle) or edge_name(source, rel, target), source, rel, target, seq)
