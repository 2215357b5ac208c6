"""The way from one node to another along dependencies: what a new dependency must not close.

Looked for from both ends at once, an edge here and an edge there, so it costs twice the
smaller side. Levels make most questions cost nothing: a node stands above everything it
depends on, so what is not above cannot lead there. They are only ever raised, and only while
that is cheap; when they cannot be trusted any more, the first long search puts them right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tallystick.state.work.board import Row

if TYPE_CHECKING:
    from tallystick.state.work.graph import WorkGraph

_LIFTS_MAX = 1_024
_PATIENCE = 2_000

Way = list[Row]
_Next = Callable[[Row], Sequence[Row]]


def find_way(graph: WorkGraph, start: Row, goal: Row) -> Way | None:
    """From `start` to `goal`, both included, each depending on the next; None when there is none."""
    if start is goal:
        return [start]
    if not graph.leveled:
        found, finished = _search(start, goal, _dependencies, _dependents, _PATIENCE)
        if finished:
            return found
        graph.leveled = _put_levels_right(graph)
        if not graph.leveled:
            return _search(start, goal, _dependencies, _dependents, None)[0]
    if start.level <= goal.level:
        return None
    low, high = goal.level, start.level
    return _search(
        start,
        goal,
        lambda row: [each for each in row.depends_on if each.level > low or each is goal],
        lambda row: [each for each in row.dependents if each.level < high or each is start],
        None,
    )[0]


def find_line(start: Row, goal: Row) -> Way | None:
    """From `start` up to `goal` along parents, both included; None when it does not lead there."""
    line: dict[Row, None] = {}
    row: Row | None = start
    while row is not None and row not in line:
        line[row] = None
        if row is goal:
            return list(line)
        row = row.parent
    return None


def lift(source: Row, target: Row) -> bool:
    """Raise the source of a new dependency above its target, and what depends on it. False when that is too much."""
    waiting = [(source, target.level + 1)]
    lifts = 0
    while waiting:
        row, level = waiting.pop()
        if row.level >= level:
            continue
        lifts += 1
        if lifts > _LIFTS_MAX:
            return False
        row.level = level
        waiting += [(dependent, level + 1) for dependent in row.dependents]
    return True


def _search(start: Row, goal: Row, ahead: _Next, back: _Next, patience: int | None) -> tuple[Way | None, bool]:
    """The way, if there is one, and whether the search came to its end."""
    came_from: dict[Row, Row | None] = {start: None}
    goes_to: dict[Row, Row | None] = {goal: None}
    sides = ((_spread(came_from, ahead), goes_to), (_spread(goes_to, back), came_from))
    steps = 0
    while patience is None or steps < patience:
        steps += 1
        for side, other in sides:
            reached = next(side, None)
            if reached is None:
                return None, True
            if reached in other:
                return _joined(reached, came_from, goes_to), True
    return None, False


def _spread(seen: dict[Row, Row | None], neighbours: _Next) -> Iterator[Row]:
    waiting = deque(seen)
    while waiting:
        row = waiting.popleft()
        for other in neighbours(row):
            if other not in seen:
                seen[other] = row
                waiting.append(other)
                yield other


def _joined(middle: Row, came_from: dict[Row, Row | None], goes_to: dict[Row, Row | None]) -> Way:
    way = [middle]
    while (before := came_from[way[-1]]) is not None:
        way.append(before)
    way.reverse()
    while (after := goes_to[way[-1]]) is not None:
        way.append(after)
    return way


def _dependencies(row: Row) -> Sequence[Row]:
    return row.depends_on


def _dependents(row: Row) -> Sequence[Row]:
    return row.dependents


def _put_levels_right(graph: WorkGraph) -> bool:
    """From the nodes that depend on nothing upwards. False when a foreign hand made a cycle."""
    left = {row: len(row.depends_on) for row in graph.rows.values()}
    ready = [row for row, waits in left.items() if waits == 0]
    for row in ready:
        row.level = 0
    done = 0
    while ready:
        row = ready.pop()
        done += 1
        for dependent in row.dependents:
            if left[dependent] == len(dependent.depends_on):
                dependent.level = 0
            dependent.level = max(dependent.level, row.level + 1)
            left[dependent] -= 1
            if left[dependent] == 0:
                ready.append(dependent)
    return done == len(left)
