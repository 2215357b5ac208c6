"""The derived indexes: what each vocabulary keeps beside the graph.

A derived index is a function of the graph as it stands, not of how it came about. So it can be
built at any moment from the nodes and edges of its types, which happens at its first use,
and is kept up to date from then on, commit by commit, forwards and back. A large one may be
stored (`stored_index.py`), and is then loaded and brought up to date instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, TypeVar, cast, runtime_checkable

import msgspec
from pyroaring import BitMap

from tallystick.commits import Verb
from tallystick.commits.payloads import edge_name
from tallystick.errors import Corrupt
from tallystick.state import Breathing
from tallystick.state.asof import edge_seq, life, version
from tallystick.state.columns import Columns
from tallystick.state.graph import linked
from tallystick.state.stored_index import Stored, pack, unpack


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


@runtime_checkable
class StorableIndex(Protocol):
    """A derived index that costs less to load than to build."""

    stored_as: ClassVar[str]
    """Its name and format: another one for every change of what is stored, or of what is made of the graph."""

    def dump(self) -> bytes: ...

    def load(self, content: memoryview) -> Breathing[None]:
        """What `dump` wrote, into an empty index. Raises ValueError for anything else, and may leave some of it."""
        ...


A = TypeVar("A", bound=DerivedIndex)
_SLICE = 50

logger = logging.getLogger(__name__)


class DerivedIndexes:
    """The indexes that were asked for, kept in step with the columns."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._built: dict[type[DerivedIndex], tuple[DerivedIndex, BitMap]] = {}
        """Each with the handles of the nodes that it knows."""
        self._begun: dict[type[DerivedIndex], Breathing[None]] = {}
        """Those that are being built in slices."""
        self.find_stored: Callable[[str], bytes | None] = lambda name: None
        """Gives what was stored under a name."""
        self._asked: set[type[DerivedIndex]] = set()
        """Those for which it was asked: what was stored is good for the first use only."""
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

    def sizes(self) -> dict[str, int]:
        """How many nodes each index knows that is built and can be stored."""
        return {
            derived.stored_as: len(known)
            for derived, known in self._built.values()
            if isinstance(derived, StorableIndex)
        }

    def dump(self, record_hash: str) -> Iterator[tuple[str, bytes]]:
        """Those that can be stored, each at once when it is asked for. `record_hash` is that of the newest commit."""
        for derived, known in list(self._built.values()):
            if isinstance(derived, StorableIndex):
                stored = Stored(derived.stored_as, self._columns.history.count, record_hash, known.serialize())
                try:
                    yield derived.stored_as, pack(stored, derived.dump())
                except (RecursionError, ValueError) as error:
                    # Patterns of hundreds of segments nest too deeply. Then it is built at its first use.
                    logger.info("%s cannot be stored: %s", derived.stored_as, error)

    def applied(self) -> None:
        """The newest commit was applied."""
        if self._built:
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
        columns, rewritten = self._columns, self._rewritten
        try:
            found = yield from self._load(kind)
            if found is None:
                derived, known, count = kind(), self._members(kind), columns.history.count
                for number, _ in enumerate(self._tell_all(derived, known, count), 1):
                    if number % _SLICE == 0:
                        yield
                        if rewritten != self._rewritten:
                            return
            else:
                derived, known, count = found
            self._built[kind] = derived, known
            for seq in range(count + 1, columns.history.count + 1):
                if kind in self._built:
                    self._change(derived, known, seq, forwards=True)
        except Corrupt:
            self._built.pop(kind, None)
            raise
        finally:
            self._begun.pop(kind, None)

    def _members(self, kind: type[DerivedIndex]) -> BitMap:
        found = BitMap()
        for name in sorted(kind.types):
            found |= self._columns.nodes.by_type.get(name, BitMap())
        return found

    def _load(self, kind: type[DerivedIndex]) -> Breathing[tuple[DerivedIndex, BitMap, int] | None]:
        """What was stored of it, the nodes that it knows, and after how many commits. None to build it instead."""
        name = getattr(kind, "stored_as", None)
        if name is None or kind in self._asked:
            return None
        self._asked.add(kind)
        data = self.find_stored(name)
        derived = kind()
        if data is None or not isinstance(derived, StorableIndex):
            return None
        try:
            stored, content = unpack(data)
            known = BitMap.deserialize(stored.known)
            if stored.name != name or not self._is_worth(stored, len(known)):
                return None
            yield from derived.load(content)
            return derived, known, stored.count
        except (ValueError, Corrupt) as error:
            logger.warning("what was stored of %s is passed over: %s", name, error)
            return None

    def _is_worth(self, stored: Stored, known: int) -> bool:
        """Of this log, not so long ago that it takes less to build it than to bring it up to date, and nothing was
        redacted since: it would have to be told what was there before, and nobody knows that any more."""
        history = self._columns.history
        since = history.count - stored.count
        if stored.count < 1 or not 0 <= since <= max(known, _SLICE):
            return False
        if any(seq > stored.count for seq in history.redactions[-1:]):
            return False
        return self._columns.position(stored.count).record_hash == stored.record_hash

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
        if created > found.seq:  # It was deleted and made again since.
            created = life(columns, found.seq).created
        return NodeVersion(columns.nodes.ids[handle], found.type, found.attrs, created, found.seq, found.content)

    def _edge(self, handle: int, at: int) -> EdgeVersion | None:
        columns, edges, ids = self._columns, self._columns.edges, self._columns.nodes.ids
        seq = edge_seq(columns, handle, at)
        if not seq:
            return None
        source, rel, target = ids[edges.source[handle]], edges.rel_of(handle), ids[edges.target[handle]]
        return EdgeVersion(edges.chosen.get(handle) or edge_name(source, rel, target), source, rel, target, seq)
