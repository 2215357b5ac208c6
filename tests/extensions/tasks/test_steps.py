"""advance, revert, terminate and query_workflow_state: one step at a time, and what follows."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.extensions.tasks.cards import Pipelines
from tests.extensions.tasks.agents import TasksAgent, gathered
from tests.promises import promise


@promise("advance", "one step, with message, position and hints")
def test_a_task_goes_to_its_end_step_by_step(agent: TasksAgent) -> None:
    task = agent.task()
    told = agent.step("advance", task)
    assert told["message"] == "task advanced: NEW → ACTIVE (position: 2 of 3)"
    assert told["data"]["transition"] == {"from": "NEW", "to": "ACTIVE"}
    assert told["data"]["pipelinePosition"] == "2 of 3"
    assert "graphHints" not in told["data"]
    data = agent.step("advance", task)["data"]
    assert (data["task"]["status"], data["task"]["version"]) == ("CLOSED", 3)
    assert data["graphHints"]["suggestedActions"][0].startswith("Update atom knowledge")
    assert "unblockedEntities" not in data
    refusal = agent.refusal("advance", containerType="task", id=task["id"], version=3)
    assert (refusal["code"], refusal["message"]) == (
        "INVALID_OPERATION",
        "Cannot advance: task is in terminal state CLOSED",
    )


@promise("advance, order of checks", "NOT_FOUND, CONFLICT, state, blockers")
def test_what_is_not_there_comes_before_a_stale_version_that_before_the_state_and_that_before_blockers(
    agent: TasksAgent,
) -> None:
    task, blocker = agent.task(), agent.task("b")
    agent.step("block", task, blockedBy=[blocker["id"]])
    refused = {"containerType": "task", "id": task["id"]}
    assert agent.refusal("advance", containerType="task", id="f" * 32, version=99)["code"] == "NOT_FOUND"
    refusal = agent.refusal("advance", **refused, version=99)
    assert (refusal["code"], refusal["message"]) == ("CONFLICT", "Version conflict: expected 99, found 2")
    refusal = agent.refusal("advance", **refused, version=2)
    assert (refusal["code"], refusal["message"]) == (
        "BLOCKED",
        f"Cannot advance: task is blocked by {blocker['id']}",
    )
    agent.step("terminate", task)
    assert agent.refusal("advance", **refused, version=99)["code"] == "CONFLICT"
    assert agent.refusal("advance", **refused, version=3)["code"] == "INVALID_OPERATION"


def test_a_feature_is_not_a_task(agent: TasksAgent) -> None:
    feature = agent.feature()
    refusal = agent.refusal("advance", containerType="task", id=feature["id"], version=1)
    assert (refusal["code"], refusal["details"]["hint"]) == ("NOT_FOUND", "it is a feature")


@promise("advance, unblocks", "only what is fully unblocked is named")
def test_closing_sets_free_what_waited_for_nothing_else(agent: TasksAgent) -> None:
    done, other = agent.task("done"), agent.task("other")
    free, waiting, feature = agent.task("free"), agent.task("waiting"), agent.feature()
    for each in (free, feature):
        agent.step("block", each, blockedBy=[done["id"]], blockedReason="it comes first")
    agent.step("block", waiting, blockedBy=[done["id"], other["id"]])
    data = agent.close(done)
    assert data["unblockedEntities"] == [
        {"id": free["id"], "type": "task"},
        {"id": feature["id"], "type": "feature"},
    ]
    assert (agent.get(free)["blockedBy"], agent.get(free)["blockedReason"]) == ([], None)
    assert agent.get(waiting)["blockedBy"] == [other["id"]]


@promise("advance, NO_OP", "a NO_OP block and its reason remain")
def test_what_waits_for_something_outside_too_stays_blocked_and_keeps_its_reason(agent: TasksAgent) -> None:
    done, task = agent.task("done"), agent.task()
    agent.step("block", task, blockedBy=[done["id"], "NO_OP"], blockedReason="the vendor")
    assert "unblockedEntities" not in agent.close(done)
    assert (agent.get(task)["blockedBy"], agent.get(task)["blockedReason"]) == (["NO_OP"], "the vendor")


@promise("advance, feature", "the first task activates its feature, the last closes it")
def test_the_first_task_activates_its_feature_and_the_last_closes_it(agent: TasksAgent) -> None:
    feature, after = agent.feature(), agent.task("after")
    one, two = agent.task("1", featureId=feature["id"]), agent.task("2", featureId=feature["id"])
    agent.step("block", after, blockedBy=feature["id"])
    data = agent.step("advance", one)["data"]
    assert data["featureTransition"] == {"featureId": feature["id"], "from": "NEW", "to": "ACTIVE"}
    assert "featureTransition" not in agent.close(one)
    data = agent.close(two)
    assert data["featureTransition"] == {"featureId": feature["id"], "from": "ACTIVE", "to": "CLOSED"}
    assert data["featureUnblockedEntities"] == [{"id": after["id"], "type": "task"}]
    assert agent.get(feature)["status"] == "CLOSED"


@promise("advance, roll-up", "a feature ends as its tasks do")
@pytest.mark.parametrize(("ends", "expected"), [("tt", "WILL_NOT_IMPLEMENT"), ("ct", "CLOSED"), ("tc", "CLOSED")])
def test_a_feature_ends_as_its_tasks_do(agent: TasksAgent, ends: str, expected: str) -> None:
    feature = agent.feature()
    tasks = [agent.task(str(number), featureId=feature["id"]) for number in range(2)]
    for task, end in zip(tasks, ends, strict=True):
        _ = agent.close(task) if end == "c" else agent.step("terminate", task)
    assert agent.get(feature)["status"] == expected


@promise("revert", "one step back, not before the first")
def test_a_step_back_is_taken_once_at_a_time_and_not_before_the_first(agent: TasksAgent) -> None:
    task = agent.task()
    agent.step("advance", task)
    assert agent.step("revert", task)["data"]["transition"] == {"from": "ACTIVE", "to": "NEW"}
    refusal = agent.refusal("revert", containerType="task", id=task["id"], version=3)
    assert refusal["code"] == "INVALID_OPERATION"
    assert "already at the first pipeline state (NEW)" in refusal["message"]
    agent.close(task)
    assert agent.refusal("revert", containerType="task", id=task["id"], version=5)["code"] == "INVALID_OPERATION"


@promise("terminate", "sets nothing free and says so")
def test_what_is_given_up_sets_nothing_free_and_says_so(agent: TasksAgent) -> None:
    task, after = agent.task(), agent.task("after")
    agent.step("block", after, blockedBy=[task["id"]])
    agent.step("block", task, blockedBy="NO_OP", blockedReason="stuck")
    told = agent.step("terminate", task, reason="not worth it")
    assert told["data"]["affectedDependents"] == [{"id": after["id"], "type": "task"}]
    assert "WARNING" in told["message"]
    assert told["data"]["task"]["status"] == "WILL_NOT_IMPLEMENT"
    assert agent.get(after)["blockedBy"] == [task["id"]]
    assert agent.refusal("terminate", containerType="task", id=task["id"], version=3)["code"] == "INVALID_OPERATION"


# -- pipelines

LONG = Pipelines(
    feature=("NEW", "ACTIVE", "READY_TO_PROD", "CLOSED"),
    task=("NEW", "ACTIVE", "TO_BE_TESTED", "READY_TO_PROD", "CLOSED"),
)


def workflow(agent: TasksAgent, entity: dict[str, Any], kind: str = "task") -> dict[str, Any]:
    found: dict[str, Any] = agent.data("query_workflow_state", containerType=kind, id=entity["id"])
    return found


@promise("query_workflow_state", "where something stands")
def test_where_something_stands_in_its_pipeline() -> None:
    with gathered(pipelines=LONG) as agent:
        task, other = agent.task(), agent.task("other")
        agent.update(task, relatedTo=other["id"])
        agent.step("advance", task)
        assert workflow(agent, task) == {
            "currentStatus": "ACTIVE", "nextStatus": "TO_BE_TESTED", "prevStatus": "NEW", "isTerminal": False,
            "isBlocked": False, "blockedBy": [], "blockedReason": None, "pipelinePosition": "2 of 5",
            "relatedEntities": [{"id": other["id"], "type": "task", "title": "other", "status": "NEW"}],
        }  # fmt: skip
        agent.close(task)
        found = workflow(agent, task)
        assert (found["nextStatus"], found["prevStatus"], found["isTerminal"]) == (None, None, True)
        agent.step("terminate", other)
        assert workflow(agent, other)["pipelinePosition"] is None


def test_projects_have_no_workflow(agent: TasksAgent) -> None:
    refusal = agent.refusal("query_workflow_state", containerType="project", id=agent.project()["id"])
    assert refusal["code"] == "VALIDATION_ERROR"


@promise("tasks, locked", "pipelines are settled with the first task")
def test_pipelines_are_settled_with_the_first_task(agent: TasksAgent) -> None:
    agent.project()
    agent.use(LONG)
    task = agent.task()
    agent.use(None)
    agent.step("advance", task)
    assert workflow(agent, task)["nextStatus"] == "TO_BE_TESTED"
    assert agent.step("advance", task)["data"]["pipelinePosition"] == "3 of 5"
