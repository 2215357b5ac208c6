"""get_next_task, get_next_feature and what is blocked."""

from __future__ import annotations

from typing import Any

from tests.extensions.tasks.agents import TasksAgent
from tests.promises import promise


def next_task(agent: TasksAgent, **asked: Any) -> str | None:
    found = agent.data("get_next_task", **asked)
    return None if found is None else str(found["task"]["title"])


@promise("get_next_task", "urgent, then simple, then old")
def test_the_next_task_is_urgent_then_simple_then_old(agent: TasksAgent) -> None:
    tasks = [
        agent.task(title, priority=priority, complexity=complexity)
        for title, priority, complexity in (
            ("low", "LOW", 1), ("hard", "HIGH", 9), ("easy", "HIGH", 2), ("easy too", "HIGH", 2), ("mid", "MEDIUM", 1),
        )
    ]  # fmt: skip
    handed_out = []
    while (title := next_task(agent)) is not None:
        handed_out.append(title)
        agent.step("advance", next(task for task in tasks if task["title"] == title))
    assert handed_out == ["easy", "easy too", "hard", "mid", "low"]
    told = agent.told("get_next_task")
    assert told == {"success": True, "message": "No available tasks found matching the criteria", "data": None}


def test_a_blocked_task_is_not_next(agent: TasksAgent) -> None:
    one, two = agent.task("1", priority="HIGH"), agent.task("2", priority="LOW")
    agent.step("block", one, blockedBy=[two["id"]])
    assert next_task(agent) == "2"
    agent.step("block", two, blockedBy="NO_OP", blockedReason="r")
    assert next_task(agent) is None


def test_next_stays_within_a_project_feature_and_priority(agent: TasksAgent) -> None:
    project = agent.project()
    feature = agent.feature(projectId=project["id"])
    agent.task("in", featureId=feature["id"], priority="LOW")
    agent.task("beside", projectId=project["id"])
    agent.task("loose", priority="HIGH")
    assert next_task(agent) == "loose"
    assert next_task(agent, projectId=project["id"]) == "beside"
    assert next_task(agent, featureId=feature["id"]) == "in"
    assert next_task(agent, projectId=project["id"], priority="low") == "in"
    assert agent.refusal("get_next_task", projectId="x")["code"] == "NOT_FOUND"


@promise("get_next_feature", "active before new")
def test_an_active_feature_comes_before_a_new_one(agent: TasksAgent) -> None:
    urgent, begun, blocked = agent.feature("urgent", priority="HIGH"), agent.feature("begun"), agent.feature("blocked")
    agent.step("advance", begun)
    agent.step("advance", blocked)
    agent.step("block", blocked, blockedBy=[urgent["id"]])
    assert agent.data("get_next_feature")["feature"]["name"] == "begun"
    assert agent.data("get_next_feature", priority="HIGH")["feature"]["name"] == "urgent"
    agent.close(begun)
    assert agent.data("get_next_feature")["feature"]["name"] == "urgent"


@promise("get_blocked", "by priority")
def test_blocked_ones_are_listed_by_priority(agent: TasksAgent) -> None:
    gate, feature = agent.task("gate"), agent.feature()
    low, high = agent.task("low", priority="LOW"), agent.task("high", priority="HIGH", featureId=feature["id"])
    for each in (low, high, feature):
        agent.step("block", each, blockedBy=[gate["id"]])
    assert [each["title"] for each in agent.data("get_blocked_tasks")["tasks"]] == ["high", "low"]
    assert [each["title"] for each in agent.data("get_blocked_tasks", featureId=feature["id"])["tasks"]] == ["high"]
    assert [each["id"] for each in agent.data("get_blocked_features")["features"]] == [feature["id"]]
    agent.close(gate)
    assert agent.data("get_blocked_tasks") == {"tasks": [], "count": 0}
