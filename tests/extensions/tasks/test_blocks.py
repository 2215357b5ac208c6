"""block, unblock and dependencies: who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest

from tests.extensions.tasks.agents import TasksAgent
from tests.promises import promise


@promise("block", "merged, idempotent")
def test_blockers_are_added_once(agent: TasksAgent) -> None:
    task, one, two = agent.task(), agent.task("1"), agent.feature("2")
    data = agent.step("block", task, blockedBy=f'["{one["id"]}"]', blockedReason="first things")["data"]
    assert (data["addedBlockers"], data["totalBlockers"]) == ([one["id"]], 1)
    data = agent.step("block", task, blockedBy=[one["id"], two["id"]])["data"]
    assert (data["addedBlockers"], data["totalBlockers"], data["task"]["version"]) == ([two["id"]], 2, 3)
    assert data["task"]["blockedReason"] == "first things"
    again = agent.step("block", task, blockedBy=[one["id"]])["data"]
    assert (again["addedBlockers"], again["task"]["version"]) == ([], 3)


@promise("block, NO_OP", "needs a reason")
def test_waiting_for_something_outside_needs_a_reason(agent: TasksAgent) -> None:
    task = agent.task()
    call = {"containerType": "task", "id": task["id"], "version": 1, "blockedBy": "NO_OP"}
    refusal = agent.refusal("block", **call)
    assert refusal["message"] == "blockedReason is required when blockedBy is NO_OP"
    data = agent.data("block", **call, blockedReason="no key")
    assert (data["task"]["blockedBy"], data["task"]["blockedReason"]) == (["NO_OP"], "no key")
    refusal = agent.refusal("advance", containerType="task", id=task["id"], version=2)
    assert refusal["message"] == "Cannot advance: task is blocked by NO_OP (no key)"
    data = agent.step("unblock", task, blockedBy="no_op")["data"]
    assert (data["removedBlockers"], data["isFullyUnblocked"], data["task"]["blockedReason"]) == (["NO_OP"], True, None)


@promise("block, blockers", "must exist and be open")
def test_who_cannot_block(agent: TasksAgent) -> None:
    task, done, project = agent.task(), agent.task("done"), agent.project()
    agent.close(done)
    call = {"containerType": "task", "id": task["id"], "version": 1}
    for blocker, message in (
        ("e" * 32, f"Blocker entity not found: {'e' * 32}"),
        (project["id"], f"Blocker entity not found: {project['id']}"),
        (done["id"], f"Blocker is in terminal state CLOSED: {done['id']}"),
        (task["id"], "a task cannot block itself"),
    ):
        refusal = agent.refusal("block", **call, blockedBy=[blocker])
        assert (refusal["code"], refusal["message"]) == ("VALIDATION_ERROR", message)
    refusal = agent.refusal("block", containerType="task", id=done["id"], version=3, blockedBy=[task["id"]])
    assert refusal["code"] == "INVALID_OPERATION"


@promise("unblock", "absent is fine")
def test_unblocking_what_does_not_block_is_fine(agent: TasksAgent) -> None:
    task, one, two = agent.task(), agent.task("1"), agent.task("2")
    agent.step("block", task, blockedBy=[one["id"], two["id"]])
    data = agent.step("unblock", task, blockedBy=[one["id"], "d" * 32])["data"]
    assert (data["removedBlockers"], data["remainingBlockers"]) == ([one["id"]], [two["id"]])
    assert data["isFullyUnblocked"] is False
    again = agent.step("unblock", task, blockedBy=[one["id"]])["data"]
    assert (again["removedBlockers"], again["task"]["version"]) == ([], data["task"]["version"])


def test_a_reason_goes_with_the_blocker_unless_something_outside_remains(agent: TasksAgent) -> None:
    task, one = agent.task(), agent.task("1")
    agent.step("block", task, blockedBy=[one["id"], "NO_OP"], blockedReason="both")
    assert agent.step("unblock", task, blockedBy=[one["id"]])["data"]["task"]["blockedReason"] == "both"
    assert agent.step("unblock", task, blockedBy="NO_OP")["data"]["task"]["blockedReason"] is None


# -- dependencies


def depend(source: dict[str, Any], target: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return {"operation": "create", "fromId": source["id"], "toId": target["id"], "type": "BLOCKS", **arguments}


@promise("manage_dependency", "a block, across kinds, made once")
def test_a_dependency_is_a_block_and_is_made_once(agent: TasksAgent) -> None:
    feature, task = agent.feature(), agent.task()
    assert agent.data("manage_dependency", **depend(feature, task))["changed"] is True
    assert (agent.get(task)["blockedBy"], agent.get(task)["version"]) == ([feature["id"]], 2)
    assert agent.get(feature)["version"] == 1
    assert agent.data("manage_dependency", **depend(feature, task))["changed"] is False
    assert agent.data("manage_dependency", **depend(feature, task, operation="delete"))["changed"] is True
    assert (agent.get(task)["blockedBy"], agent.get(task)["version"]) == ([], 3)
    assert agent.data("manage_dependency", **depend(feature, task, operation="delete"))["changed"] is False


@promise("manage_dependency, related", "both ways")
def test_related_is_related_both_ways(agent: TasksAgent) -> None:
    one, two = agent.task("1"), agent.task("2")
    agent.data("manage_dependency", **depend(one, two, type="relates_to"))
    assert (agent.get(one)["relatedTo"], agent.get(two)["relatedTo"]) == ([two["id"]], [one["id"]])
    assert (agent.get(one)["version"], agent.get(two)["version"]) == (2, 2)
    assert agent.data("manage_dependency", **depend(two, one, type="RELATES_TO"))["changed"] is False
    agent.data("manage_dependency", **depend(two, one, type="RELATES_TO", operation="delete"))
    assert agent.get(one)["relatedTo"] == []


@promise("manage_dependency, circle", "refused with the way")
def test_what_would_close_a_circle_is_refused_with_the_way(agent: TasksAgent) -> None:
    one, two, three = agent.task("1"), agent.task("2"), agent.feature("3")
    agent.data("manage_dependency", **depend(one, two))
    agent.data("manage_dependency", **depend(two, three))
    refusal = agent.refusal("manage_dependency", **depend(three, one))
    assert refusal["code"] == "CIRCULAR_DEPENDENCY"
    assert refusal["details"]["path"] == [one["id"], three["id"], two["id"], one["id"]]
    refusal = agent.refusal("block", containerType="task", id=one["id"], version=1, blockedBy=[three["id"]])
    assert refusal["code"] == "CIRCULAR_DEPENDENCY"


def test_of_two_who_close_a_circle_together_one_is_refused(agent: TasksAgent) -> None:
    one, two = agent.task("1"), agent.task("2")
    answers = agent.together([("manage_dependency", depend(one, two)), ("manage_dependency", depend(two, one))])
    assert sorted(answer["success"] for answer in answers) == [False, True]


@pytest.mark.parametrize("swapped", [False, True])
def test_neither_end_may_be_itself_unknown_or_terminal(agent: TasksAgent, swapped: bool) -> None:
    task, done = agent.task(), agent.task("done")
    agent.step("terminate", done)
    ends = (done, task) if swapped else (task, done)
    assert agent.refusal("manage_dependency", **depend(*ends))["code"] == "VALIDATION_ERROR"
    assert agent.refusal("manage_dependency", **depend(task, task))["code"] == "VALIDATION_ERROR"
    gone = {"id": "c" * 32}
    ends = (gone, task) if swapped else (task, gone)
    assert agent.refusal("manage_dependency", **depend(*ends))["code"] == "NOT_FOUND"


@promise("query_dependencies", "by direction")
def test_dependencies_are_listed_by_direction(agent: TasksAgent) -> None:
    before, task, after, friend = agent.feature(), agent.task(), agent.task("after"), agent.task("friend")
    agent.data("manage_dependency", **depend(before, task))
    agent.data("manage_dependency", **depend(task, after))
    agent.data("manage_dependency", **depend(task, friend, type="RELATES_TO"))

    def listed(**asked: Any) -> list[tuple[str, str, str]]:
        found = agent.data("query_dependencies", id=task["id"], containerType="task", **asked)["dependencies"]
        return [(each["type"], each["fromId"], each["toId"]) for each in found]

    waits, holds = ("BLOCKS", before["id"], task["id"]), ("BLOCKS", task["id"], after["id"])
    related = ("RELATES_TO", task["id"], friend["id"])
    assert listed() == listed(direction="both") == [waits, holds, related]
    assert listed(direction="dependencies") == [waits, related]
    assert listed(direction="dependents") == [holds, related]
    found = agent.data("query_dependencies", id=task["id"], containerType="task")["dependencies"]
    assert (found[0]["fromEntityType"], found[0]["toEntityType"]) == ("feature", "task")
