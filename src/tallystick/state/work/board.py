"""The board of a project: its work nodes as rows, sorted into everything that is asked for often.

A row's number is that of the commit that made it, so sets of rows are bitmaps in the order
of creation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

import msgspec
from pyroaring import BitMap
from sortedcontainers import SortedList

from tallystick.commits.mask import REDACTED
from tallystick.state.work.attributes import PropertyKey

Rank = tuple[float, int, int, int]
"""What comes first: higher priority, deeper, less recently updated, made earlier."""

_BELOW_KEPT = 8


class Row(msgspec.Struct, eq=False, array_like=True, gc=False):
    """A work node; or only a name, where something points to a node that is not there."""

    id: str
    created: int = 0
    updated: int = 0
    depth: int = 0
    resolved: bool = False
    dropped: bool = False
    open: bool = False
    """There, of a project and not resolved: a parent waits for it."""
    blocks: bool = False
    """Its dependents wait for it: open, or terminated by the tasks toolset."""
    open_children: int = 0
    open_dependencies: int = 0
    held: bool = False
    """Blocked by something that is not a node."""
    priority: float = 0.0
    owner: str | None = None
    claimed: int = 0
    session: str | None = None
    links: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    rank: Rank | None = None
    """Its place among the actionable ones; None when it is none of them."""
    level: int = 0
    """Above that of every node it depends on, as long as the graph's `leveled` says so."""

    # -- from here on stored apart: what many have alike, and whom it knows

    marks: tuple[PropertyKey, ...] = ()
    board: Board | None = None
    """None while the node is not there."""
    parent: Row | None = None
    children: Sequence[Row] = ()
    depends_on: Sequence[Row] = ()
    """Once for each edge."""
    dependents: Sequence[Row] = ()

    @property
    def belongs(self) -> bool:
        """Whether it is there and of a project. Of one whose project was redacted nobody can say any more what has
        to happen before it is done, so it holds nobody up."""
        return self.board is not None and self.board.id != REDACTED

    def blockers(self) -> Iterator[Row]:
        """Yield the dependencies that it waits for, once for each edge. Readiness and `advance` both follow from it."""
        return (each for each in self.depends_on if each.blocks)

    def waits_for(self) -> Iterator[Row]:
        """Yield the open children and the blocking dependencies."""
        yield from (each for each in self.children if each.open)
        yield from self.blockers()

    def above(self) -> Iterator[Row]:
        """From the parent up to the root."""
        row = self.parent
        # By its depth: a foreign hand could have closed the chain into a ring.
        for _ in range(self.depth):
            if row is None or row.board is None:
                return
            yield row
            row = row.parent

    def below(self) -> Iterator[Row]:
        """All descendants, each parent before its children; oldest first among siblings is not promised."""
        waiting = list(self.children)
        while waiting:
            row = waiting.pop()
            if row is self:
                continue
            yield row
            waiting.extend(row.children)


def with_row(rows: Sequence[Row], row: Row) -> Sequence[Row]:
    """A list is made for the first: most rows know nobody, and an empty one each would take more room than they do."""
    if isinstance(rows, list):
        rows.append(row)
        return rows
    return [row]


def without_row(rows: Sequence[Row], row: Row) -> Sequence[Row]:
    if isinstance(rows, list):
        rows.remove(row)
    return rows or ()


def rank_of(row: Row) -> Rank:
    """Its place among the actionable ones, if it is one of them."""
    return (-row.priority, -row.depth, row.updated, row.created)


class Board:
    def __init__(self, project_id: str) -> None:
        self.id = project_id
        self.name: str | None = None
        """None while nodes speak of a project that is not there."""
        self.root: str | None = None
        self.created = 0
        self.members = BitMap()
        self.resolved = BitMap()
        self.dropped = BitMap()
        self.leaves = BitMap()
        """No unresolved children."""
        self.blocked = BitMap()
        self.actionable = BitMap()
        self.ranked: SortedList = SortedList()
        """Ranks of the actionable ones; the last part of a rank is the row's number."""
        self.updates: SortedList = SortedList()
        self.depths: dict[int, BitMap] = {}
        self.texts: dict[int, str] = {}
        """The casefolded summaries."""
        self.links: dict[str, int] = {}
        """Each context link, and how many nodes have it."""
        self._below: OrderedDict[Row, BitMap] = OrderedDict()

    def counts(self) -> dict[str, int]:
        total, resolved = len(self.members), len(self.resolved)
        dropped = {"dropped": len(self.dropped)} if self.dropped else {}
        return {
            "total": total,
            "resolved": resolved,
            **dropped,
            "unresolved": total - resolved,
            "blocked": len(self.blocked),
            "actionable": len(self.actionable),
        }

    def below(self, row: Row) -> BitMap:
        """The numbers of all descendants. Found once, and kept until the tree changes."""
        found = self._below.get(row)
        if found is None:
            found = self._below[row] = BitMap([each.created for each in row.below()])
            if len(self._below) > _BELOW_KEPT:
                self._below.popitem(last=False)
        return found

    def reshaped(self) -> None:
        self._below.clear()


def put(bits: BitMap, number: int, wanted: bool) -> None:
    if wanted:
        bits.add(number)
    else:
        bits.discard(number)
