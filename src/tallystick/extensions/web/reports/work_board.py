"""The work of a project as people look at it: a board of what is ready, claimed, blocked and done, and the whole tree.

What `graph_query` tells an agent task by task, at once, and with whom and what each task waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from itertools import islice
from typing import Any, Literal, TypeVar

import msgspec

from tallystick.clock import Clock, to_text, wall_clock
from tallystick.engine.store import Store
from tallystick.policy import Action, Principal
from tallystick.state import Node
from tallystick.state.attributes import list_of, text_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.state.work import CLAIMED_BY
from tallystick.state.work.board import Board, Row, rank_of
from tallystick.state.work.claims import ClaimTime
from tallystick.state.work.graph import WorkGraph
from tallystick.state.work.queries import Readiness, readable, readiness
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.work.answers import counted_members, counts_of
from tallystick.toolsets.work.errors import get_project, get_row, projects_of
from tallystick.toolsets.work.view import View

PROJECTS_MAX = 200
CARDS_MAX = 12
"""In a column; the tree has the others."""
TREE_MAX = 100
"""Rows at a time."""
_WAITS_MAX = 5
_EVIDENCE_MAX = 3
_SUMMARY_MAX = 400
_WALKED_MAX = 20_000
"""Rows counted for one page of the tree, unless the page begins after them."""

T = TypeVar("T")

Standing = Literal["ready", "claimed", "blocked", "open", "done", "dropped"]
"""`open` is what has open tasks below it."""


class TaskName(msgspec.Struct, frozen=True):
    id: str
    summary: str


class Evidence(msgspec.Struct, frozen=True):
    type: str
    ref: str


class Task(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    summary: str
    standing: Standing
    priority: float
    updated_by: str
    updated_at: str
    position: int
    """Of the commit that made it what it is."""
    entry: int
    """Which of all commits in the log that is, from 1."""
    commit_id: str
    claimed_by: str | None = None
    claimed_at: str | None = None
    claim_ends: str | None = None
    """When somebody else may take it."""
    waits_for: tuple[TaskName, ...] = ()
    waits_for_more: int = 0
    evidence: tuple[Evidence, ...] = ()
    """The newest."""
    stale_since: str | None = None
    untrusted: str | None = None
    """Why it was recalled."""


class TreeRow(msgspec.Struct, frozen=True):
    depth: int
    task: Task
    below: int = 0
    """How many tasks are below it, and of these how many are done."""
    below_done: int = 0


class Column(msgspec.Struct, frozen=True):
    standing: Standing
    count: int
    tasks: list[Task]
    """What comes next first; of what is done, the newest."""


class ProjectLine(msgspec.Struct, frozen=True):
    name: str
    goal: str
    total: int
    done: int
    ready: int
    claimed: int
    blocked: int
    updated_at: str
    is_partial: bool
    """Whether the counts are lower bounds."""


class Projects(msgspec.Struct, frozen=True):
    position: int
    projects: list[ProjectLine]
    """Those that changed last first."""
    more: int


class ProjectBoard(msgspec.Struct, frozen=True):
    position: int
    name: str
    goal: str
    root: str | None
    total: int
    columns: list[Column]
    agents: list[str]
    """Who has claimed something."""
    tree: list[TreeRow]
    tree_before: int
    tree_more: int
    tree_is_cut: bool
    """Whether there are more rows than were counted."""
    newest: list[Task]
    """Those that changed last, if that was asked for."""


async def list_projects(store: Store, principal: Principal, claims: Claims, clock: Clock = wall_clock) -> Projects:
    def look(view: View) -> Projects:
        boards = sorted(projects_of(view), key=lambda board: _last_change(view, board), reverse=True)
        moment = claims.moment(view.state.time_after(clock()))
        lines = [_line(view, board, moment) for board in boards[:PROJECTS_MAX]]
        return Projects(view.state.position, lines, max(0, len(boards) - PROJECTS_MAX))

    return await _read(store, principal, look)


async def show_project(
    store: Store,
    principal: Principal,
    claims: Claims,
    name: str,
    clock: Clock = wall_clock,
    *,
    skip: int = 0,
    newest: int = 0,
) -> ProjectBoard:
    """By its name or the id of its root; of the tree what comes after the first `skip` rows. Raises NotFound, also for
    what may not be read."""

    def look(view: View) -> ProjectBoard:
        board = get_project(view, name)
        return _Drawn(view, board, claims.moment(view.state.time_after(clock()))).board(skip, newest)

    return await _read(store, principal, look)


async def newest_claims(store: Store, principal: Principal, most: int) -> list[Node]:
    """Return open tasks that carry a claim, also one that has ended, the newest claim first."""

    def look(view: View) -> list[Node]:
        postings = view.graph.properties.get(CLAIMED_BY)
        rows = [view.graph.by_number[number] for number in postings.present] if postings is not None else []
        held = sorted((row for row in rows if row.open and row.owner is not None), key=lambda row: -row.claimed)
        return [view.node(row.id) for row in view.first(held, most)]

    return await _read(store, principal, look)


class DroppedTasks(msgspec.Struct, frozen=True, kw_only=True):
    """What goes when a task is dropped."""

    task: TaskName
    project: str | None
    is_open: bool
    below: list[TaskName]
    """The open ones, which go with it."""


async def list_dropped(store: Store, principal: Principal, task: str) -> DroppedTasks:
    """Raises NotFound, also for what may not be read."""

    def look(view: View) -> DroppedTasks:
        row = get_row(view, task)
        below = view.readable((each for each in row.below() if each.open), lambda each: each.id)
        return DroppedTasks(
            task=TaskName(row.id, _cut(view.summary(row))),
            project=row.board.name if row.board is not None else None,
            is_open=row.open,
            below=[TaskName(each.id, _cut(view.summary(each))) for each in below],
        )

    return await _read(store, principal, look)


async def _read(store: Store, principal: Principal, look: Callable[[View], T]) -> T:
    def prepared(state: State, read_filter: ReadFilter) -> T:
        state.derived(Trust)
        return look(View(state, state.derived(WorkGraph), read_filter))

    return await store.read(principal, Action.SEARCH, prepared)


def _last_change(view: View, board: Board) -> int:
    """Return the position of the newest task that may be read, or else of the project."""
    newest = _newest_row(view, board)
    return view.node(newest.id if newest is not None else board.id).provenance.lamport


def _newest_row(view: View, board: Board) -> Row | None:
    return next(iter(view.first((view.graph.by_update[each] for each in reversed(board.updates)), 1)), None)


def _line(view: View, board: Board, moment: ClaimTime) -> ProjectLine:
    counts, members = counts_of(view, board), counted_members(view, board)
    claimed = view.first((row for row in _claimed(view, board, moment)), len(board.members))
    counted = [row for row in claimed if row.created in members]
    stands = readiness(view.graph, board, view.read_filter)
    newest = _newest_row(view, board)
    return ProjectLine(
        name=board.name or "",
        goal=_goal(view, board),
        total=counts["total"],
        done=counts["resolved"],
        ready=counts["actionable"] - sum(row.created in stands.actionable for row in counted),
        claimed=len(claimed),
        blocked=counts["blocked"] - sum(row.created in stands.blocked for row in counted),
        updated_at=view.node(newest.id if newest is not None else board.id).provenance.timestamp,
        is_partial="partial" in counts,
    )


def _goal(view: View, board: Board) -> str:
    row = view.graph.find(board.root) if board.root is not None else None
    return _cut(view.summary(row)) if row is not None and view.allows(row.id) else ""


def _claimed(view: View, board: Board, moment: ClaimTime) -> Iterator[Row]:
    postings = view.graph.properties.get(CLAIMED_BY)
    numbers = () if postings is None else postings.present & (board.members - board.resolved)
    rows = (view.graph.by_number[number] for number in numbers)
    return (row for row in rows if moment.is_claimed(row))


class _Drawn:
    """One project at one moment."""

    def __init__(self, view: View, board: Board, moment: ClaimTime) -> None:
        self._view = view
        self._board = board
        self._moment = moment
        self._stands: Readiness = readiness(view.graph, board, view.read_filter)
        claimed = view.first(_claimed(view, board, moment), len(board.members))
        self._claimed = {row.created: row for row in claimed}

    def board(self, skip: int, newest: int) -> ProjectBoard:
        view, board = self._view, self._board
        tree, more, is_cut = self._tree(skip)
        return ProjectBoard(
            position=view.state.position,
            name=board.name or "",
            goal=_goal(view, board),
            root=view.reference(board.root),
            total=len(readable(view.graph, board.members, view.read_filter)) if view.narrows else len(board.members),
            columns=list(self._columns()),
            agents=sorted({row.owner for row in self._claimed.values() if row.owner is not None}),
            tree=tree,
            tree_before=skip,
            tree_more=more,
            tree_is_cut=is_cut,
            newest=[self._task(row) for row in view.first(self._newest(), newest)] if newest else [],
        )

    def _newest(self) -> Iterator[Row]:
        return (self._view.graph.by_update[each] for each in reversed(self._board.updates))

    def _columns(self) -> Iterator[Column]:
        rows, stands = self._view.graph.by_number, self._stands
        yield self._column("ready", [rows[each] for each in stands.actionable if each not in self._claimed], rank_of)
        yield self._column("claimed", list(self._claimed.values()), rank_of)
        yield self._column("blocked", [rows[each] for each in stands.blocked if each not in self._claimed], rank_of)
        yield self._column("done", [rows[each] for each in self._board.resolved], lambda row: -row.updated)

    def _column(self, standing: Standing, rows: list[Row], order: Callable[[Row], Any]) -> Column:
        seen = self._view.readable(rows, lambda row: row.id)
        return Column(standing, len(seen), [self._task(row) for row in nsmallest(CARDS_MAX, seen, key=order)])

    # -- the tree

    def _tree(self, skip: int) -> tuple[list[TreeRow], int, bool]:
        """Return a page of rows, each parent before its children, oldest first; how many more were counted; and
        whether there are others that were not."""
        most = max(_WALKED_MAX, skip + TREE_MAX)
        walked = list(islice(self._walk(), most + 1))
        is_cut = len(walked) > most
        del walked[most:]
        below, done = dict.fromkeys(range(len(walked)), 0), dict.fromkeys(range(len(walked)), 0)
        for number in range(len(walked) - 1, -1, -1):
            _, row, parent = walked[number]
            if parent is not None:
                below[parent] += below[number] + 1
                done[parent] += done[number] + row.resolved
        rows = [
            TreeRow(depth, self._task(row), below[number], done[number])
            for number, (depth, row, _) in islice(enumerate(walked), skip, skip + TREE_MAX)
        ]
        return rows, max(0, len(walked) - skip - len(rows)), is_cut

    def _walk(self) -> Iterator[tuple[int, Row, int | None]]:
        """Depth, row, and which of those before it is above it. What may not be read has its children drawn in its
        place."""
        graph, board = self._view.graph, self._board
        members = (graph.by_number[number] for number in board.members)
        tops = [row for row in members if row.parent is None or row.parent.board is not board]
        waiting: list[tuple[int, Row, int | None]] = [(0, row, None) for row in reversed(tops)]
        number = 0
        while waiting:
            depth, row, parent = waiting.pop()
            children = sorted(row.children, key=lambda each: each.created, reverse=True)
            if self._view.allows(row.id):
                yield depth, row, parent
                depth, parent, number = depth + 1, number, number + 1
            waiting += [(depth, child, parent) for child in children if child.board is board]

    # -- a task

    def _task(self, row: Row) -> Task:
        node = self._view.node(row.id)
        standing = self._standing(row)
        is_claimed = standing == "claimed"
        waits, more = self._waits(row) if standing in ("blocked", "claimed") else ((), 0)
        stale = self._view.read_filter.stale(row.id)
        recall = self._view.state.derived(Trust).find(row.id)
        return Task(
            id=row.id,
            summary=_cut(text_of(node.attrs, "summary")),
            standing=standing,
            priority=row.priority,
            updated_by=node.provenance.updated_by,
            updated_at=node.provenance.timestamp,
            position=node.provenance.lamport,
            entry=self._view.state.resolve(node.provenance.lamport),
            commit_id=node.provenance.commit_id,
            claimed_by=row.owner if is_claimed else None,
            claimed_at=to_text(row.claimed) if is_claimed else None,
            claim_ends=to_text(row.claimed + self._moment.ttl) if is_claimed else None,
            waits_for=waits,
            waits_for_more=more,
            evidence=tuple(_evidence(node)),
            stale_since=None if stale is None else stale.since,
            untrusted=None if recall is None else recall.reason,
        )

    def _standing(self, row: Row) -> Standing:
        if row.dropped:
            return "dropped"
        if row.resolved:
            return "done"
        if row.created in self._claimed:
            return "claimed"
        if row.created in self._stands.blocked:
            return "blocked"
        return "ready" if row.created in self._stands.actionable else "open"

    def _waits(self, row: Row) -> tuple[tuple[TaskName, ...], int]:
        others: Iterable[Row] = dict.fromkeys(row.blockers())
        seen = self._view.readable(others, lambda each: each.id)
        names = tuple(TaskName(each.id, _cut(self._view.summary(each))) for each in seen[:_WAITS_MAX])
        return names, max(0, len(seen) - _WAITS_MAX)


def _evidence(node: Node) -> Iterator[Evidence]:
    for entry in reversed(list_of(node.attrs, "evidence")[-_EVIDENCE_MAX:]):
        if isinstance(entry, dict):
            yield Evidence(text_of(entry, "type"), _cut(text_of(entry, "ref")))


def _cut(text: str) -> str:
    return text if len(text) <= _SUMMARY_MAX else f"{text[: _SUMMARY_MAX - 1]}…"
