"""What waits for what, drawn."""

from __future__ import annotations

from tallystick.extensions.web.dependencies import DRAWN_MAX, draw_dependencies
from tallystick.extensions.web.reports.work_board import Task, TaskName


def task(name: str, *waits_for: str) -> Task:
    return Task(
        id=name,
        summary=f"Do {name}",
        standing="blocked" if waits_for else "ready",
        priority=0,
        position=1,
        entry=1,
        commit_id="0" * 64,
        updated_by="ada",
        updated_at="2026-01-01T00:00:00.000Z",
        waits_for=tuple(TaskName(each, each) for each in waits_for),
    )


def test_a_task_stands_behind_all_that_it_waits_for() -> None:
    drawn = draw_dependencies([task("c", "a", "b"), task("b", "a"), task("a"), task("alone")])
    assert drawn is not None
    left = {box.id: box.x for box in drawn.boxes}
    assert left.keys() == {"a", "b", "c"}
    assert left["a"] < left["b"] < left["c"]
    assert len(drawn.arrows) == 3
    assert all(arrow.x1 < arrow.x2 for arrow in drawn.arrows)


def test_no_two_tasks_are_drawn_on_one_another_and_what_is_too_much_is_counted() -> None:
    drawn = draw_dependencies([task("first"), *(task(f"t{number}", "first") for number in range(2 * DRAWN_MAX))])
    assert drawn is not None
    assert len({(box.x, box.y) for box in drawn.boxes}) == DRAWN_MAX
    assert drawn.more == DRAWN_MAX + 1


def test_a_circle_ends_and_what_is_not_known_is_left_out() -> None:
    assert draw_dependencies([task("a", "elsewhere")]) is None
    circle = draw_dependencies([task("a", "b"), task("b", "a")])
    assert circle is not None
    assert len(circle.boxes) == 2


def test_nothing_is_drawn_where_nothing_waits() -> None:
    assert draw_dependencies([task("a"), task("b")]) is None
