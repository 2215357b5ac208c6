"""What waits for what in a project, drawn from left to right: each task behind all that it waits for."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tallystick.extensions.web.reports.titles import shortened
from tallystick.extensions.web.reports.work_board import Task

DRAWN_MAX = 60
"""More could not be told apart; the tree has all of them."""
LABEL_CHARACTERS = 30
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 220, 28, 60, 12


class Box(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    label: str
    title: str
    standing: str
    x: int
    y: int


class Arrow(msgspec.Struct, frozen=True):
    """From what is waited for to what waits."""

    x1: int
    y1: int
    x2: int
    y2: int


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    width: int
    height: int
    box_width: int = _WIDTH
    box_height: int = _HEIGHT
    boxes: list[Box]
    arrows: list[Arrow]
    more: int
    """Tasks that are not drawn."""


def draw_dependencies(tasks: Iterable[Task]) -> Dependencies | None:
    """None where nothing waits."""
    known = {task.id: task for task in tasks}
    waits = {
        task.id: [each.id for each in task.waits_for if each.id in known] for task in known.values() if task.waits_for
    }
    linked = dict.fromkeys(each for waiting, others in waits.items() if others for each in (*others, waiting))
    if not linked:
        return None
    drawn = list(linked)[:DRAWN_MAX]
    columns = _columns(drawn, waits)
    at: dict[str, tuple[int, int]] = {}
    filled = [0] * len(drawn)
    for name in drawn:
        column = columns[name]
        at[name] = column * (_WIDTH + _GAP_X), filled[column] * (_HEIGHT + _GAP_Y)
        filled[column] += 1
    return Dependencies(
        width=max(x for x, _ in at.values()) + _WIDTH,
        height=max(y for _, y in at.values()) + _HEIGHT,
        boxes=[_box(known[name], *at[name]) for name in drawn],
        arrows=[
            Arrow(at[other][0] + _WIDTH, at[other][1] + _HEIGHT // 2, at[name][0], at[name][1] + _HEIGHT // 2)
            for name in drawn
            for other in waits.get(name, ())
            if other in at
        ],
        more=len(linked) - len(drawn),
    )


def _columns(names: list[str], waits: dict[str, list[str]]) -> dict[str, int]:
    """The longest way to each. As many rounds as there are tasks, so that a circle, which none should be, ends too."""
    found = dict.fromkeys(names, 0)
    for _ in names:
        behind = {
            name: min(
                len(names) - 1, max((found[other] + 1 for other in waits.get(name, ()) if other in found), default=0)
            )
            for name in names
        }
        if behind == found:
            break
        found = behind
    return found


def _box(task: Task, x: int, y: int) -> Box:
    title = task.summary or task.id
    return Box(id=task.id, label=shortened(title, LABEL_CHARACTERS), title=title, standing=task.standing, x=x, y=y)
