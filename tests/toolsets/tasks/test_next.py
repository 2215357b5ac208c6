"""get_next_task, get_next_feature and what is blocked."""

from __future__ import annotations

from typing import Any

from tests.toolsets.tasks.agents import Crew


def next_task(crew: Crew, **asked: Any) -> str | None:
    found = crew.data("get_next_task", **asked)
    return None if found is None else str(found["task"]["title"])


def test_the_next_task_is_urgent_then_simple_then_old(crew: Crew) -> None:
    tasks = [
        crew.task(title, priority=priority, complexity=complexity)
        for title, priority, complexity in (
            ("low", "LOW", 1), ("hard", "HIGH", 9), ("easy", "HIGH", 2), ("easy too", "HIGH", 2), ("mid", "MEDIUM", 1),
        )
    ]  # fmt: skip
    handed_out = []
    while (title := next_task(crew)) is not None:
        handed_out.append(title)
        crew.step("advance", next(task for task in tasks if task["title"] == title))
    assert handed_out == ["easy", "easy too", "hard", "mid", "low"]
    told = crew.told("get_next_task")
    assert told == {"success": True, "message": "No available tasks found matching the criteria", "data": None}


def test_a_blocked_task_is_not_next(crew: Crew) -> None:
    one, two = crew.task("1", priority="HIGH"), crew.task("2", priority="LOW")
    crew.step("block", one, blockedBy=[two["id"]])
    assert next_task(crew) == "2"
    crew.step("block", two, blockedBy="NO_OP", blockedReason="r")
    assert next_task(crew) is None


def test_next_stays_within_a_project_feature_and_priority(crew: Crew) -> None:
    project = crew.project()
    feature = crew.feature(projectId=project["id"])
    crew.task("in", featureId=feature["id"], priority="LOW")
    crew.task("beside", projectId=project["id"])
    crew.task("loose", priority="HIGH")
    assert next_task(crew) == "loose"
    assert next_task(crew, projectId=project["id"]) == "beside"
    assert next_task(crew, featureId=feature["id"]) == "in"
    assert next_task(crew, projectId=project["id"], priority="low") == "in"
    assert crew.refusal("get_next_task", projectId="x")["code"] == "NOT_FOUND"


def test_an_active_feature_comes_before_a_new_one(crew: Crew) -> None:
    urgent, begun, blocked = crew.feature("urgent", priority="HIGH"), crew.feature("begun"), crew.feature("blocked")
    crew.step("advance", begun)
    crew.step("advance", blocked)
    crew.step("block", blocked, blockedBy=[urgent["id"]])
    assert crew.data("get_next_feature")["feature"]["name"] == "begun"
    assert crew.data("get_next_feature", priority="HIGH")["feature"]["name"] == "urgent"
    crew.close(begun)
    assert crew.data("get_next_feature")["feature"]["name"] == "urgent"


def test_blocked_ones_are_listed_by_priority(crew: Crew) -> None:
    gate, feature = crew.task("gate"), crew.feature()
    low, high = crew.task("low", priority="LOW"), crew.task("high", priority="HIGH", featureId=feature["id"])
    for each in (low, high, feature):
        crew.step("block", each, blockedBy=[gate["id"]])
    assert [each["title"] for each in crew.data("get_blocked_tasks")["tasks"]] == ["high", "low"]
    assert [each["title"] for each in crew.data("get_blocked_tasks", featureId=feature["id"])["tasks"]] == ["high"]
    assert [each["id"] for each in crew.data("get_blocked_features")["features"]] == [feature["id"]]
    crew.close(gate)
    assert crew.data("get_blocked_tasks") == {"tasks": [], "count": 0}
