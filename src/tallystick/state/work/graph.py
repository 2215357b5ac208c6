"""The work graph: what is actionable, blocked or done in every project, ranked, at any moment.

Kept by counters, never searched for: a node knows how many of its children and of the nodes
it depends on are open. It follows from the nodes and edges as they stand, in whatever order
they arrive, so going back by one commit is just another change.
"""

from __future__ import annotations

from typing import Any, ClassVar
from unicodedata import normalize

from pyroaring import BitMap

from tallystick.state import Breathing
from tallystick.state.attributes import Postings
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.work import DEPENDS_ON, NODE, PROJECT, stored_board
from tallystick.state.work.attributes import WorkAttributes, read
from tallystick.state.work.board import Board, Rank, Row, put, rank_of, with_row, without_row
from tallystick.state.work.cycles import lift


class WorkGraph:
    types: ClassVar[frozenset[str]] = frozenset({PROJECT, NODE})
    stored_as: ClassVar[str] = "work-5"

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.by_number: dict[int, Row] = {}
        self.by_update: dict[int, Row] = {}
        self.boards: dict[str, Board] = {}
        self.properties: dict[str, Postings] = {}
        self.kinds: dict[str, BitMap] = {}
        self.leveled = True
        """Whether `Row.level` can be trusted."""
        self.was_actionable: dict[Row, bool] | None = None
        """While somebody tries something out: each row whose rank changed, and what it was before."""
        self._names: dict[str, list[Board]] = {}
        """By their names as people mean them: in any case, whatever spaces are around."""

    def __del__(self) -> None:
        # Rows know each other, and no garbage is looked for among what a server has loaded: let go of them here.
        for row in self.rows.values():
            row.board = row.parent = None
            row.children = row.depends_on = row.dependents = ()

    # -- who is there

    def find(self, node_id: str) -> Row | None:
        row = self.rows.get(node_id)
        return row if row is not None and row.board is not None else None

    def project(self, name: str) -> Board | None:
        """By its name, or by the id of its root. A name that only one project has in another spelling is that one's;
        of several, the one that is spelt so."""
        namesakes = self.namesakes(name)
        spelt = [board for board in namesakes if board.name == name]
        if spelt or len(namesakes) == 1:
            return (spelt or namesakes)[0]
        row = self.find(name)
        return row.board if row is not None and row.board is not None and row.board.root == name else None

    def namesakes(self, name: str) -> list[Board]:
        """The projects of this name, however it is spelt; oldest first."""
        return sorted(self._names.get(folded_name(name), ()), key=lambda board: board.created)

    def projects(self) -> list[Board]:
        """Oldest first."""
        return sorted((board for board in self.boards.values() if board.name is not None), key=lambda b: b.created)

    # -- what is stored

    def dump(self) -> bytes:
        return stored_board.dump(self)

    def load(self, content: memoryview) -> Breathing[None]:
        yield from stored_board.load(self, content)

    def add_board(self, board: Board) -> None:
        """One that has its name already."""
        self.boards[board.id] = board
        if board.name is not None:
            self._names.setdefault(folded_name(board.name), []).append(board)

    # -- what changes

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        if before is not None and (after is None or after.type != before.type):
            _GONE[before.type](self, before.id)
        if after is not None:
            _THERE[after.type](self, after)

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None:
        edge = before or after
        if edge is None or edge.rel != DEPENDS_ON or (before is None) == (after is None):
            return
        source, target = self._row(edge.source), self._row(edge.target)
        if after is not None:
            source.depends_on = with_row(source.depends_on, target)
            target.dependents = with_row(target.dependents, source)
            source.open_dependencies += target.blocks
            self.leveled = self.leveled and lift(source, target)
        elif target in source.depends_on:
            source.depends_on = without_row(source.depends_on, target)
            target.dependents = without_row(target.dependents, source)
            source.open_dependencies -= target.blocks
        self._settle(source)
        self._forget(source)
        self._forget(target)

    # -- projects

    def _project_there(self, version: NodeVersion) -> None:
        self._project_gone(version.id)
        board = self._board(version.id)
        name, root = version.attrs.get("name"), version.attrs.get("root")
        board.name = name if isinstance(name, str) else version.id
        board.root = root if isinstance(root, str) else None
        board.created = version.created
        self.add_board(board)

    def _project_gone(self, project_id: str) -> None:
        board = self.boards.get(project_id)
        if board is None or board.name is None:
            return
        name = folded_name(board.name)
        self._names[name].remove(board)
        if not self._names[name]:
            del self._names[name]
        board.name = board.root = None
        self._forget_board(board)

    def _board(self, project_id: str) -> Board:
        board = self.boards.get(project_id)
        if board is None:
            board = self.boards[project_id] = Board(project_id)
        return board

    def _forget_board(self, board: Board) -> None:
        if board.name is None and not board.members:
            self.boards.pop(board.id, None)

    # -- nodes

    def _node_there(self, version: NodeVersion) -> None:
        facts = read(version.attrs)
        if facts.project is None:
            self._node_gone(version.id)
            return
        row = self._row(version.id)
        if row.board is None or row.board.id != facts.project or row.created != version.created:
            self._leave(row)
            row.resolved = facts.resolved
            self._enter(row, self._board(facts.project), version)
        self._index(row, facts)
        self._attach(row, self._row(facts.parent) if facts.parent is not None else None)
        self._touch(row, version.updated)
        row.priority, row.owner, row.claimed, row.session = facts.priority, facts.owner, facts.claimed, facts.session
        row.dropped, row.held = facts.dropped, facts.held
        if row.board is not None:
            put(row.board.dropped, row.created, facts.dropped)
        self._resolve(row, facts)
        self._settle(row)

    def _node_gone(self, node_id: str) -> None:
        row = self.rows.get(node_id)
        if row is None or row.board is None:
            return
        self._index(row, _NOTHING)
        self._attach(row, None)
        self._leave(row)
        self._forget(row)

    def _enter(self, row: Row, board: Board, version: NodeVersion) -> None:
        row.board, row.created, row.updated = board, version.created, version.updated
        board.members.add(row.created)
        board.updates.add(row.updated)
        board.depths.setdefault(row.depth, BitMap()).add(row.created)
        board.reshaped()
        self.by_number[row.created] = row
        self.by_update[row.updated] = row
        self._deepen(row)
        for child in row.children:
            self._deepen(child)
        self._open(row, row.belongs and not row.resolved)

    def _leave(self, row: Row) -> None:
        board = row.board
        if board is None:
            return
        self._index(row, _NOTHING)
        self._open(row, False)
        self._block(row, False)
        row.board = None
        self._rank(row, board, None)
        for bits in (board.members, board.resolved, board.dropped, board.leaves, board.blocked, board.actionable):
            bits.discard(row.created)
        board.updates.remove(row.updated)
        board.texts.pop(row.created, None)
        _take(board.depths, row.depth, row.created)
        board.reshaped()
        del self.by_number[row.created]
        del self.by_update[row.updated]
        row.depth = 0
        row.resolved = row.dropped = row.held = False
        row.owner, row.claimed, row.session = None, 0, None
        for child in row.children:
            self._deepen(child)
        self._forget_board(board)

    def _touch(self, row: Row, updated: int) -> None:
        if row.updated == updated or row.board is None:
            return
        row.board.updates.remove(row.updated)
        del self.by_update[row.updated]
        row.updated = updated
        row.board.updates.add(updated)
        self.by_update[updated] = row

    def _resolve(self, row: Row, facts: WorkAttributes) -> None:
        row.resolved = facts.resolved
        if row.board is not None:
            put(row.board.resolved, row.created, facts.resolved)
        self._open(row, row.belongs and not facts.resolved)
        self._block(row, row.belongs and facts.blocks)

    def _open(self, row: Row, is_open: bool) -> None:
        if row.open == is_open:
            return
        row.open = is_open
        if row.parent is not None:
            row.parent.open_children += 1 if is_open else -1
            self._settle(row.parent)

    def _block(self, row: Row, blocks: bool) -> None:
        if row.blocks == blocks:
            return
        row.blocks = blocks
        for dependent in row.dependents:
            dependent.open_dependencies += 1 if blocks else -1
            self._settle(dependent)

    # -- the tree

    def _attach(self, row: Row, parent: Row | None) -> None:
        former = row.parent
        if former is parent:
            return
        row.parent = parent
        if former is not None:
            former.children = without_row(former.children, row)
            former.open_children -= row.open
            self._settle(former)
            self._forget(former)
        if parent is not None:
            parent.children = with_row(parent.children, row)
            parent.open_children += row.open
            self._settle(parent)
        self._deepen(row)
        if row.board is not None:
            row.board.reshaped()

    def _deepen(self, row: Row) -> None:
        """Put the depths of a subtree right, as far down as they change."""
        waiting = [row]
        while waiting:
            each = waiting.pop()
            if each.board is None:
                continue
            depth = each.parent.depth + 1 if each.parent is not None and each.parent.board is not None else 0
            if depth == each.depth:
                continue
            _take(each.board.depths, each.depth, each.created)
            each.board.depths.setdefault(depth, BitMap()).add(each.created)
            each.depth = depth
            self._settle(each)
            waiting += [child for child in each.children if child is not row]

    # -- what follows from the counters

    def _settle(self, row: Row) -> None:
        board = row.board
        if board is None:
            return
        put(board.leaves, row.created, row.open_children == 0)
        put(board.blocked, row.created, row.open and (row.held or row.open_dependencies > 0))
        ready = row.open and not row.held and row.open_children == 0 and row.open_dependencies == 0
        put(board.actionable, row.created, ready)
        self._rank(row, board, rank_of(row) if ready else None)

    def _rank(self, row: Row, board: Board, rank: Rank | None) -> None:
        if row.rank == rank:
            return
        if self.was_actionable is not None:
            self.was_actionable.setdefault(row, row.rank is not None)
        if row.rank is not None:
            board.ranked.remove(row.rank)
        if rank is not None:
            board.ranked.add(rank)
        row.rank = rank

    # -- what is searched by

    def _index(self, row: Row, facts: WorkAttributes) -> None:
        board, number = row.board, row.created
        if board is None:
            return
        board.texts[number] = facts.text
        if row.marks != facts.marks:
            for key, value, large in row.marks:
                self._unmark(number, key, value, large)
            for key, value, large in facts.marks:
                self._mark(number, key, value, large)
            row.marks = facts.marks
        for kind in row.kinds:
            if kind not in facts.kinds:
                _take(self.kinds, kind, number)
        for kind in facts.kinds:
            self.kinds.setdefault(kind, BitMap()).add(number)
        row.kinds = facts.kinds
        if row.links != facts.links:
            for link in row.links:
                _count(board.links, link, -1)
            for link in facts.links:
                _count(board.links, link, 1)
            row.links = facts.links

    def _mark(self, number: int, key: str, value: Any, large: bool) -> None:
        postings = self.properties.get(key)
        if postings is None:
            postings = self.properties[key] = Postings()
        postings.add(number, [] if large else [value])
        if large:
            postings.long.add(number)

    def _unmark(self, number: int, key: str, value: Any, large: bool) -> None:
        postings = self.properties[key]
        postings.remove(number, [] if large else [value])
        if not postings.present:
            del self.properties[key]

    # -- names that nothing stands behind any more

    def _row(self, node_id: str) -> Row:
        row = self.rows.get(node_id)
        if row is None:
            row = self.rows[node_id] = Row(node_id)
        return row

    def _forget(self, row: Row) -> None:
        if row.board is None and not (row.children or row.depends_on or row.dependents):
            self.rows.pop(row.id, None)


_NOTHING = read({})
_THERE = {PROJECT: WorkGraph._project_there, NODE: WorkGraph._node_there}
_GONE = {PROJECT: WorkGraph._project_gone, NODE: WorkGraph._node_gone}


def folded_name(name: str) -> str:
    return normalize("NFC", name.strip()).casefold()


def _take(sets: dict[Any, BitMap], name: Any, number: int) -> None:
    members = sets.get(name)
    if members is None:
        return
    members.discard(number)
    if not members:
        del sets[name]


def _count(counts: dict[str, int], name: str, step: int) -> None:
    left = counts.get(name, 0) + step
    if left:
        counts[name] = left
    else:
        counts.pop(name, None)
