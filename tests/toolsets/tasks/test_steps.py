"""advance, revert, terminate and query_workflow_state: one step at a time, and what follows."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.state.tasks import Pipelines
from tests.toolsets.tasks.agents import Crew, gathered


def test_a_task_goes_to_its_end_step_by_step(crew: Crew) -> None:
    task = crew.task()
    told = crew.step("advance", task)
    assert told["message"] == "task advanced: NEW → ACTIVE (position: 2 of 3)"
    assert told["data"]["transition"] == {"from": "NEW", "to": "ACTIVE"}
    assert told["data"]["pipelinePosition"] == "2 of 3"
    assert "graphHints" not in told["data"]
    data = crew.step("advance", task)["data"]
    assert (data["task"]["status"], data["task"]["version"]) == ("CLOSED", 3)
    assert data["graphHints"]["suggestedActions"][0].startswith("Update atom knowledge")
    assert "unblockedEntities" not in data
    refusal = crew.refusal("advance", containerType="task", id=task["id"], version=3)
    assert (refusal["code"], refusal["message"]) == (
        "INVALID_OPERATION",
        "Cannot advance: task is in terminal state CLOSED",
    )


def test_what_is_not_there_comes_before_a_stale_version_that_before_the_state_and_that_before_blockers(
    crew: Crew,
) -> None:
    task, blocker = crew.task(), crew.task("b")
    crew.step("block", task, blockedBy=[blocker["id"]])
    refused = {"containerType": "task", "id": task["id"]}
    assert crew.refusal("advance", containerType="task", id="f" * 32, version=99)["code"] == "NOT_FOUND"
    refusal = crew.refusal("advance", **refused, version=99)
    assert (refusal["code"], refusal["message"]) == ("CONFLICT", "Version conflict: expected 99, found 2")
    refusal = crew.refusal("advance", **refused, version=2)
    assert (refusal["code"], refusal["message"]) == (
        "BLOCKED",
        f"Cannot advance: task is blocked by {blocker['id']}",
    )
    crew.step("terminate", task)
    assert crew.refusal("advance", **refused, version=99)["code"] == "CONFLICT"
    assert crew.refusal("advance", **refused, version=3)["code"] == "INVALID_OPERATION"


def test_a_feature_is_not_a_task(crew: Crew) -> None:
    feature = crew.feature()
    refusal = crew.refusal("advance", containerType="task", id=feature["id"], version=1)
    assert (refusal["code"], refusal["details"]["hint"]) == ("NOT_FOUND", "it is a feature")


def test_closing_sets_free_what_waited_for_nothing_else(crew: Crew) -> None:
    done, other = crew.task("done"), crew.task("other")
    free, waiting, feature = crew.task("free"), crew.task("waiting"), crew.feature()
    for each in (free, feature):
        crew.step("block", each, blockedBy=[done["id"]], blockedReason="it comes first")
    crew.step("block", waiting, blockedBy=[done["id"], other["id"]])
    data = crew.close(done)
    assert data["unblockedEntities"] == [
        {"id": free["id"], "type": "task"},
        {"id": feature["id"], "type": "feature"},
    ]
    assert (crew.get(free)["blockedBy"], crew.get(free)["blockedReason"]) == ([], None)
    assert crew.get(waiting)["blockedBy"] == [other["id"]]


def test_what_waits_for_something_outside_too_stays_blocked_and_keeps_its_reason(crew: Crew) -> None:
    done, task = crew.task("done"), crew.task()
    crew.step("block", task, blockedBy=[done["id"], "NO_OP"], blockedReason="the vendor")
    assert "unblockedEntities" not in crew.close(done)
    assert (crew.get(task)["blockedBy"], crew.get(task)["blockedReason"]) == (["NO_OP"], "the vendor")


def test_the_first_task_activates_its_feature_and_the_last_closes_it(crew: Crew) -> None:
    feature, after = crew.feature(), crew.task("after")
    one, two = crew.task("1", featureId=feature["id"]), crew.task("2", featureId=feature["id"])
    crew.step("block", after, blockedBy=feature["id"])
    data = crew.step("advance", one)["data"]
    assert data["featureTransition"] == {"featureId": feature["id"], "from": "NEW", "to": "ACTIVE"}
    assert "featureTransition" not in crew.close(one)
    data = crew.close(two)
    assert data["featureTransition"] == {"featureId": feature["id"], "from": "ACTIVE", "to": "CLOSED"}
    assert data["featureUnblockedEntities"] == [{"id": after["id"], "type": "task"}]
    assert crew.get(feature)["status"] == "CLOSED"


@pytest.mark.parametrize(("ends", "expected"), [("tt", "WILL_NOT_IMPLEMENT"), ("ct", "CLOSED"), ("tc", "CLOSED")])
def test_a_feature_ends_as_its_tasks_do(crew: Crew, ends: str, expected: str) -> None:
    feature = crew.feature()
    tasks = [crew.task(str(number), featureId=feature["id"]) for number in range(2)]
    for task, end in zip(tasks, ends, strict=True):
        _ = crew.close(task) if end == "c" else crew.step("terminate", task)
    assert crew.get(feature)["status"] == expected


def test_a_step_back_is_taken_once_at_a_time_and_not_before_the_first(crew: Crew) -> None:
    task = crew.task()
    crew.step("advance", task)
    assert crew.step("revert", task)["data"]["transition"] == {"from": "ACTIVE", "to": "NEW"}
    refusal = crew.refusal("revert", containerType="task", id=task["id"], version=3)
    assert refusal["code"] == "INVALID_OPERATION"
    assert "already at the first pipeline state (NEW)" in refusal["message"]
    crew.close(task)
    assert crew.refusal("revert", containerType="task", id=task["id"], version=5)["code"] == "INVALID_OPERATION"


def test_what_is_given_up_sets_nothing_free_and_says_so(crew: Crew) -> None:
    task, after = crew.task(), crew.task("after")
    crew.step("block", after, blockedBy=[task["id"]])
    crew.step("block", task, blockedBy="NO_OP", blockedReason="stuck")
    told = crew.step("terminate", task, reason="not worth it")
    assert told["data"]["affectedDependents"] == [{"id": after["id"], "type": "task"}]
    assert "WARNING" in told["message"]
    assert told["data"]["task"]["status"] == "WILL_NOT_IMPLEMENT"
    assert crew.get(after)["blockedBy"] == [task["id"]]
    assert crew.refusal("terminate", containerType="task", id=task["id"], version=3)["code"] == "INVALID_OPERATION"


# -- pipelines

LONG = Pipelines(
    feature=("NEW", "ACTIVE", "READY_TO_PROD", "CLOSED"),
    task=("NEW", "ACTIVE", "TO_BE_TESTED", "READY_TO_PROD", "CLOSED"),
)


def workflow(crew: Crew, entity: dict[str, Any], kind: str = "task") -> dict[str, Any]:
    found: dict[str, Any] = crew.data("query_workflow_state", containerType=kind, id=entity["id"])
    return found


def test_where_something_stands_in_its_pipeline() -> None:
    with gathered(pipelines=LONG) as crew:
        task, other = crew.task(), crew.task("other")
        crew.update(task, relatedTo=other["id"])
        crew.step("advance", task)
        assert workflow(crew, task) == {
            "currentStatus": "ACTIVE", "nextStatus": "TO_BE_TESTED", "prevStatus": "NEW", "isTerminal": False,
            "isBlocked": False, "blockedBy": [], "blockedReason": None, "pipelinePosition": "2 of 5",
            "relatedEntities": [{"id": other["id"], "type": "task", "title": "other", "status": "NEW"}],
        }  # fmt: skip
        crew.close(task)
        found = workflow(crew, task)
        assert (found["nextStatus"], found["prevStatus"], found["isTerminal"]) == (None, None, True)
        crew.step("terminate", other)
        assert workflow(crew, other)["pipelinePosition"] is None


def test_projects_have_no_workflow(crew: Crew) -> None:
    refusal = crew.refusal("query_workflow_state", containerType="project", id=crew.project()["id"])
    assert refusal["code"] == "VALIDATION_ERROR"


def test_pipelines_are_settled_with_the_first_task(crew: Crew) -> None:
    crew.project()
    crew.use(LONG)
    task = crew.task()
    crew.use(None)
    crew.step("advance", task)
    assert workflow(crew, task)["nextStatus"] == "TO_BE_TESTED"
    assert crew.step("advance", task)["data"]["pipelinePosition"] == "3 of 5"
