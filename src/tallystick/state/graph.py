"""The graph in columns: a row for each node and each edge that ever was.

Rows are numbered by handles and are never freed: what was deleted keeps its row and its
history, and what is made again takes it up. Only `undo` of a first creation drops the last row.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import compress

from pyroaring import BitMap

Adjacent = list["array[int] | int | None"]
"""By node: its edges, oldest first, dead ones included. A bare handle until the second: most nodes have few."""


class Names:
    """Texts that recur, numbered in the order they were first seen."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = list(texts)
        self._numbers = {text: number for number, text in enumerate(self.texts)}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return found

    def find(self, text: str) -> int | None:
        return self._numbers.get(text)


class Nodes:
    def __init__(self) -> None:
        self.ids: list[str] = []
        self.handles: dict[str, int] = {}
        self.types = Names()
        self.actors = Names()
        self.type = array("I")
        self.owner = array("I")
        self.created = array("I")
        """Sequence number of the creation; of the newest one when it was made more than once."""
        self.last = array("I")
        self.doc = array("I")
        """Its newest UPSERT_NODE, which holds the document."""
        self.commits = array("I")
        self.alive = BitMap()
        self.by_type: dict[str, BitMap] = {}
        self.extra_actors: dict[int, dict[int, int]] = {}
        """Actor → its first commit, for nodes that more than one actor wrote; 0 for the very first one."""

    def columns(self) -> tuple[array[int], ...]:
        return self.type, self.owner, self.created, self.last, self.doc, self.commits

    def add(self, node_id: str) -> int:
        handle = len(self.ids)
        self.ids.append(node_id)
        self.handles[node_id] = handle
        for column in self.columns():
            column.append(0)
        return handle

    def pop(self) -> None:
        handle = len(self.ids) - 1
        self.mark_deleted(handle)
        for column in self.columns():
            column.pop()
        del self.handles[self.ids.pop()]

    def type_of(self, handle: int) -> str:
        return self.types.texts[self.type[handle]]

    def owner_of(self, handle: int) -> str:
        return self.actors.texts[self.owner[handle]]

    def revive(self, handle: int, node_type: str) -> None:
        """Alive from now on, and of this type."""
        if handle in self.alive:
            if self.type_of(handle) == node_type:
                return
            self._leave_type(handle)
        self.alive.add(handle)
        self.type[handle] = self.types.number(node_type)
        members = self.by_type.get(node_type)
        if members is None:
            members = self.by_type[node_type] = BitMap()
        members.add(handle)

    def mark_deleted(self, handle: int) -> None:
        self._leave_type(handle)
        self.alive.discard(handle)

    def _leave_type(self, handle: int) -> None:
        name = self.type_of(handle)
        members = self.by_type[name]
        members.discard(handle)
        if not members:
            del self.by_type[name]

    def note_actor(self, handle: int, actor: int, seq: int) -> None:
        """Note who writes; before the commit is counted and before `owner` changes."""
        met = self.extra_actors.get(handle)
        if met is None:
            if self.commits[handle] == 0 or self.owner[handle] == actor:
                return
            met = self.extra_actors[handle] = {self.owner[handle]: 0}
        met.setdefault(actor, seq)

    def forget(self, handle: int, actor: int, seq: int) -> None:
        """The inverse of `note_actor`."""
        met = self.extra_actors.get(handle)
        if met is not None and met.get(actor) == seq:
            del met[actor]
            if len(met) == 1:
                del self.extra_actors[handle]

    def was_written_by(self, handle: int, actor: int, at: int) -> bool:
        """Whether the actor is among the authors of the node's first `at` commits of the log."""
        met = self.extra_actors.get(handle)
        return self.owner[handle] == actor if met is None else met.get(actor, at + 1) <= at

    def actors_of(self, handle: int) -> int:
        return len(self.extra_actors.get(handle, (0,)))


class Edges:
    def __init__(self) -> None:
        self.rels = Names()
        self.source = array("I")
        self.rel = array("I")
        self.target = array("I")
        self.last = array("I")
        """Its newest commit, which holds the document while it is alive and was not redacted since."""
        self.owner = array("I")
        """Who made it, by the nodes' numbers of actors; the last time when it was made more than once."""
        self.alive = bytearray()
        self.out: Adjacent = []
        self.into: Adjacent = []
        self.chosen: dict[int, str] = {}
        """The ids that authors chose; any other edge is known by its ends and its relation."""
        self.by_chosen: dict[str, int] = {}
        self.by_rel: dict[int, BitMap] = {}
        """The living among the first `related` edges. Begun when it is first asked for: a start pays nothing for it."""
        self.related = 0

    def columns(self) -> tuple[array[int], ...]:
        return self.source, self.rel, self.target, self.last, self.owner

    def add(self, source: int, rel: str, target: int, chosen: str | None = None) -> int:
        handle = len(self.source)
        if chosen is not None:
            self.chosen[handle] = chosen
            self.by_chosen[chosen] = handle
        self.source.append(source)
        self.rel.append(self.rels.number(rel))
        self.target.append(target)
        self.last.append(0)
        self.owner.append(0)
        self.alive.append(0)
        _link(self.out, source, handle)
        _link(self.into, target, handle)
        return handle

    def pop(self) -> None:
        handle = len(self.source) - 1
        if handle in self.chosen:
            del self.by_chosen[self.chosen.pop(handle)]
        _unlink(self.out, self.source[handle])
        _unlink(self.into, self.target[handle])
        self.set_alive(handle, False)
        self.related = min(self.related, handle)
        for column in self.columns():
            column.pop()
        self.alive.pop()

    def set_alive(self, handle: int, is_alive: bool) -> None:
        self.alive[handle] = is_alive
        if handle < self.related:
            found = self.by_rel.setdefault(self.rel[handle], BitMap())
            (found.add if is_alive else found.discard)(handle)
            if not found:
                del self.by_rel[self.rel[handle]]

    def relate(self, most: int) -> bool:
        """Take up to so many more into `by_rel`. Whether all are in it now."""
        start, end = self.related, min(len(self.rel), self.related + most)
        living: dict[int, list[int]] = defaultdict(list)
        for edge in compress(range(start, end), self.alive[start:end]):
            living[self.rel[edge]].append(edge)
        for number, edges in living.items():
            self.by_rel.setdefault(number, BitMap()).update(edges)
        self.related = end
        return end == len(self.rel)

    def find(self, source: int, rel: str, target: int) -> int | None:
        """The one without a chosen id, dead or alive. Costs a walk along the shorter of the two adjacency lists."""
        number = self.rels.find(rel)
        if number is None:
            return None
        leaving, entering = linked(self.out, source), linked(self.into, target)
        for edge in leaving if len(leaving) <= len(entering) else entering:
            joins = self.rel[edge] == number and self.source[edge] == source and self.target[edge] == target
            if joins and edge not in self.chosen:
                return edge
        return None

    def around(self, node: int) -> list[int]:
        """All edges of a node, dead or alive, oldest first, loops once."""
        leaving, entering = linked(self.out, node), linked(self.into, node)
        if not leaving or not entering:
            return list(leaving or entering)
        return sorted({*leaving, *entering})

    def rel_of(self, handle: int) -> str:
        return self.rels.texts[self.rel[handle]]


def linked(adjacent: Adjacent, node: int) -> Sequence[int]:
    found = adjacent[node] if node < len(adjacent) else None
    if found is None:
        return ()
    return (found,) if isinstance(found, int) else found


def link_all(ends: array[int], nodes: int) -> Adjacent:
    """What adding the edges one by one would have built: `ends` has the node at one end of each."""
    adjacent: Adjacent = [None] * nodes
    for edge, node in enumerate(ends):
        found = adjacent[node]
        if found is None:
            adjacent[node] = edge
        elif isinstance(found, int):
            adjacent[node] = array("I", (found, edge))
        else:
            found.append(edge)
    return adjacent


def _link(adjacent: Adjacent, node: int, edge: int) -> None:
    while len(adjacent) <= node:
        adjacent.append(None)
    found = adjacent[node]
    if found is None:
        adjacent[node] = edge
    elif isinstance(found, int):
        adjacent[node] = array("I", (found, edge))
    else:
        found.append(edge)


def _unlink(adjacent: Adjacent, node: int) -> None:
    """Take away the newest edge of a node."""
    found = adjacent[node]
    if isinstance(found, array):
        found.pop()
        if len(found) == 1:
            adjacent[node] = found[0]
    else:
        adjacent[node] = None
