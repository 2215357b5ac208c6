"""block, unblock and dependencies: who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest

from tests.toolsets.tasks.agents import Crew


def test_blockers_are_added_once(crew: Crew) -> None:
    task, one, two = crew.task(), crew.task("1"), crew.feature("2")
    data = crew.step("block", task, blockedBy=f'["{one["id"]}"]', blockedReason="first things")["data"]
    assert (data["addedBlockers"], data["totalBlockers"]) == ([one["id"]], 1)
    data = crew.step("block", task, blockedBy=[one["id"], two["id"]])["data"]
    assert (data["addedBlockers"], data["totalBlockers"], data["task"]["version"]) == ([two["id"]], 2, 3)
    assert data["task"]["blockedReason"] == "first things"
    again = crew.step("block", task, blockedBy=[one["id"]])["data"]
    assert (again["addedBlockers"], again["task"]["version"]) == ([], 3)


def test_waiting_for_something_outside_needs_a_reason(crew: Crew) -> None:
    task = crew.task()
    call = {"containerType": "task", "id": task["id"], "version": 1, "blockedBy": "NO_OP"}
    refusal = crew.refusal("block", **call)
    assert refusal["message"] == "blockedReason is required when blockedBy is NO_OP"
    data = crew.data("block", **call, blockedReason="no key")
    assert (data["task"]["blockedBy"], data["task"]["blockedReason"]) == (["NO_OP"], "no key")
    refusal = crew.refusal("advance", containerType="task", id=task["id"], version=2)
    assert refusal["message"] == "Cannot advance: task is blocked by NO_OP (no key)"
    data = crew.step("unblock", task, blockedBy="no_op")["data"]
    assert (data["removedBlockers"], data["isFullyUnblocked"], data["task"]["blockedReason"]) == (["NO_OP"], True, None)


def test_who_cannot_block(crew: Crew) -> None:
    task, done, project = crew.task(), crew.task("done"), crew.project()
    crew.close(done)
    call = {"containerType": "task", "id": task["id"], "version": 1}
    for blocker, message in (
        ("e" * 32, f"Blocker entity not found: {'e' * 32}"),
        (project["id"], f"Blocker entity not found: {project['id']}"),
        (done["id"], f"Blocker is in terminal state CLOSED: {done['id']}"),
        (task["id"], "a task cannot block itself"),
    ):
        refusal = crew.refusal("block", **call, blockedBy=[blocker])
        assert (refusal["code"], refusal["message"]) == ("VALIDATION_ERROR", message)
    refusal = crew.refusal("block", containerType="task", id=done["id"], version=3, blockedBy=[task["id"]])
    assert refusal["code"] == "INVALID_OPERATION"


def test_unblocking_what_does_not_block_is_fine(crew: Crew) -> None:
    task, one, two = crew.task(), crew.task("1"), crew.task("2")
    crew.step("block", task, blockedBy=[one["id"], two["id"]])
    data = crew.step("unblock", task, blockedBy=[one["id"], "d" * 32])["data"]
    assert (data["removedBlockers"], data["remainingBlockers"]) == ([one["id"]], [two["id"]])
    assert data["isFullyUnblocked"] is False
    again = crew.step("unblock", task, blockedBy=[one["id"]])["data"]
    assert (again["removedBlockers"], again["task"]["version"]) == ([], data["task"]["version"])


def test_a_reason_goes_with_the_blocker_unless_something_outside_remains(crew: Crew) -> None:
    task, one = crew.task(), crew.task("1")
    crew.step("block", task, blockedBy=[one["id"], "NO_OP"], blockedReason="both")
    assert crew.step("unblock", task, blockedBy=[one["id"]])["data"]["task"]["blockedReason"] == "both"
    assert crew.step("unblock", task, blockedBy="NO_OP")["data"]["task"]["blockedReason"] is None


# -- dependencies


def depend(source: dict[str, Any], target: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return {"operation": "create", "fromId": source["id"], "toId": target["id"], "type": "BLOCKS", **arguments}


def test_a_dependency_is_a_block_and_is_made_once(crew: Crew) -> None:
    feature, task = crew.feature(), crew.task()
    assert crew.data("manage_dependency", **depend(feature, task))["changed"] is True
    assert (crew.get(task)["blockedBy"], crew.get(task)["version"]) == ([feature["id"]], 2)
    assert crew.get(feature)["version"] == 1
    assert crew.data("manage_dependency", **depend(feature, task))["changed"] is False
    assert crew.data("manage_dependency", **depend(feature, task, operation="delete"))["changed"] is True
    assert (crew.get(task)["blockedBy"], crew.get(task)["version"]) == ([], 3)
    assert crew.data("manage_dependency", **depend(feature, task, operation="delete"))["changed"] is False


def test_related_is_related_both_ways(crew: Crew) -> None:
    one, two = crew.task("1"), crew.task("2")
    crew.data("manage_dependency", **depend(one, two, type="relates_to"))
    assert (crew.get(one)["relatedTo"], crew.get(two)["relatedTo"]) == ([two["id"]], [one["id"]])
    assert (crew.get(one)["version"], crew.get(two)["version"]) == (2, 2)
    assert crew.data("manage_dependency", **depend(two, one, type="RELATES_TO"))["changed"] is False
    crew.data("manage_dependency", **depend(two, one, type="RELATES_TO", operation="delete"))
    assert crew.get(one)["relatedTo"] == []


def test_what_would_close_a_circle_is_refused_with_the_way(crew: Crew) -> None:
    one, two, three = crew.task("1"), crew.task("2"), crew.feature("3")
    crew.data("manage_dependency", **depend(one, two))
    crew.data("manage_dependency", **depend(two, three))
    refusal = crew.refusal("manage_dependency", **depend(three, one))
    assert refusal["code"] == "CIRCULAR_DEPENDENCY"
    assert refusal["details"]["path"] == [one["id"], three["id"], two["id"], one["id"]]
    refusal = crew.refusal("block", containerType="task", id=one["id"], version=1, blockedBy=[three["id"]])
    assert refusal["code"] == "CIRCULAR_DEPENDENCY"


def test_of_two_who_close_a_circle_together_one_is_refused(crew: Crew) -> None:
    one, two = crew.task("1"), crew.task("2")
    answers = crew.together([("manage_dependency", depend(one, two)), ("manage_dependency", depend(two, one))])
    assert sorted(answer["success"] for answer in answers) == [False, True]


@pytest.mark.parametrize("swapped", [False, True])
def test_neither_end_may_be_itself_unknown_or_terminal(crew: Crew, swapped: bool) -> None:
    task, done = crew.task(), crew.task("done")
    crew.step("terminate", done)
    ends = (done, task) if swapped else (task, done)
    assert crew.refusal("manage_dependency", **depend(*ends))["code"] == "VALIDATION_ERROR"
    assert crew.refusal("manage_dependency", **depend(task, task))["code"] == "VALIDATION_ERROR"
    gone = {"id": "c" * 32}
    ends = (gone, task) if swapped else (task, gone)
    assert crew.refusal("manage_dependency", **depend(*ends))["code"] == "NOT_FOUND"


def test_dependencies_are_listed_by_direction(crew: Crew) -> None:
    before, task, after, friend = crew.feature(), crew.task(), crew.task("after"), crew.task("friend")
    crew.data("manage_dependency", **depend(before, task))
    crew.data("manage_dependency", **depend(task, after))
    crew.data("manage_dependency", **depend(task, friend, type="RELATES_TO"))

    def listed(**asked: Any) -> list[tuple[str, str, str]]:
        found = crew.data("query_dependencies", id=task["id"], containerType="task", **asked)["dependencies"]
        return [(each["type"], each["fromId"], each["toId"]) for each in found]

    waits, holds = ("BLOCKS", before["id"], task["id"]), ("BLOCKS", task["id"], after["id"])
    related = ("RELATES_TO", task["id"], friend["id"])
    assert listed() == listed(direction="both") == [waits, holds, related]
    assert listed(direction="dependencies") == [waits, related]
    assert listed(direction="dependents") == [holds, related]
    found = crew.data("query_dependencies", id=task["id"], containerType="task")["dependencies"]
    assert (found[0]["fromEntityType"], found[0]["toEntityType"]) == ("feature", "task")
