"""Taken in tasks is taken in work, and the other way round: one claim, one time to live (X22)."""

from __future__ import annotations

from typing import Any

from tallystick.state.tasks import Pipelines
from tests.toolsets.tasks.agents import Crew, Said, gathered

HOUR = 3_600_000


def made(crew: Crew, count: int = 1) -> list[Said]:
    project = crew.project()
    return [crew.task(str(number), projectId=project["id"]) for number in range(count)]


def offered(crew: Crew, **arguments: Any) -> str | None:
    data = crew.data("get_next_task", **arguments)
    return None if data is None else data["task"]["id"]


def handed_out(crew: Crew, **arguments: Any) -> list[str]:
    told = crew.beside("graph_next", project="Shop", count=9, **arguments)
    return [each["node"]["id"] for each in told["nodes"]]


def claimed_by(crew: Crew, task: Said) -> str | None:
    found: str | None = crew.node(task["id"])["properties"].get("_claimed_by")
    return found


def test_a_task_that_somebody_began_is_handed_out_to_nobody_else(crew: Crew) -> None:
    (task,) = made(crew)
    version = crew.step("advance", task)["data"]["task"]["version"]
    assert (claimed_by(crew, task), version) == ("ann", 2)
    assert handed_out(crew) == [task["id"]], "its owner may go on"
    with crew.as_("bob"):
        assert handed_out(crew) == []


def test_a_node_that_work_handed_out_is_offered_to_nobody_else_by_tasks(crew: Crew) -> None:
    one, two = made(crew, 2)
    with crew.as_("bob"):
        crew.beside("graph_next", project="Shop", claim=True)
        assert offered(crew) == one["id"]
    assert offered(crew) == two["id"]
    refusal = crew.refusal("advance", containerType="task", id=one["id"], version=2)
    assert (refusal["code"], refusal["details"]["claimedBy"]) == ("CLAIMED", "bob")


def test_a_claim_that_tasks_took_grows_stale_as_any_other(crew: Crew) -> None:
    (task,) = made(crew)
    crew.step("advance", task)
    crew.now += HOUR
    with crew.as_("bob"):
        (given,) = crew.beside("graph_next", project="Shop", claim=True)["nodes"]
    assert given["taken_over"]["claimed_by"] == "ann"


def test_sessions_of_one_name_are_two_agents_here_too(crew: Crew) -> None:
    one, two = made(crew, 2)
    first, second = crew.claims.sessions.begin(), crew.claims.sessions.begin()
    with crew.as_("mcp", first):
        crew.step("advance", one)
    with crew.as_("mcp", second):
        assert handed_out(crew) == [two["id"]]
        assert offered(crew) == two["id"]


def test_giving_it_back_blocking_it_or_ending_it_clears_the_claim(crew: Crew) -> None:
    reverted, blocked, outside, depending, given_up, closed, other = made(crew, 7)
    for task in (reverted, blocked, outside, depending, given_up, closed):
        crew.step("advance", task)
        assert claimed_by(crew, task) == "ann"
    crew.step("revert", reverted)
    crew.step("block", blocked, blockedBy=[other["id"]])
    crew.step("block", outside, blockedBy=["NO_OP"], blockedReason="strike")
    crew.data("manage_dependency", operation="create", fromId=other["id"], toId=depending["id"], type="BLOCKS")
    crew.step("terminate", given_up)
    crew.step("advance", closed)
    for task in (reverted, blocked, outside, depending, given_up, closed):
        assert crew.node(task["id"])["properties"] == {"priority": 0}


def test_a_block_that_changes_nothing_leaves_the_claim(crew: Crew) -> None:
    task, other = made(crew, 2)
    crew.step("block", task, blockedBy=[other["id"]])
    crew.beside("graph_update", updates=[{"node_id": task["id"], "properties": {"_claimed_by": "bob"}}])
    crew.step("block", task, blockedBy=[other["id"]], blockedReason="still")
    assert claimed_by(crew, task) == "bob"


def test_later_steps_are_anybodys(crew: Crew) -> None:
    with gathered(pipelines=Pipelines(task=("NEW", "ACTIVE", "TO_BE_TESTED", "CLOSED"))) as crew:
        (task,) = made(crew)
        crew.step("advance", task)
        crew.step("advance", task)
        with crew.as_("tester"):
            assert crew.step("advance", task)["data"]["transition"]["to"] == "CLOSED"


def test_a_feature_is_claimed_by_whoever_begins_it_and_not_by_whoever_begins_its_task(crew: Crew) -> None:
    project = crew.project()
    feature, own = crew.feature(projectId=project["id"]), crew.feature("Search", projectId=project["id"])
    task = crew.task(featureId=feature["id"])
    crew.step("advance", task)
    crew.step("advance", own)
    assert (claimed_by(crew, feature), claimed_by(crew, own)) == (None, "ann")
    with crew.as_("bob"):
        assert crew.data("get_next_feature")["feature"]["id"] == feature["id"]
        assert crew.data("get_next_task") is None


# -- dropped and done


def standing(crew: Crew, task: Said) -> tuple[str, bool, bool]:
    node = crew.node(task["id"])
    return crew.get(task)["status"], node["resolved"], node.get("dropped", False)


def update(crew: Crew, task: Said, **changes: Any) -> None:
    crew.beside("graph_update", updates=[{"node_id": task["id"], **changes}])


def drop(crew: Crew, task: Said) -> None:
    crew.beside("graph_restructure", operations=[{"op": "drop", "node_id": task["id"], "reason": "no need"}])


def test_given_up_and_done_are_different_in_both(crew: Crew) -> None:
    dropped, terminated, closed, resolved = made(crew, 4)
    drop(crew, dropped)
    crew.step("terminate", terminated)
    crew.close(closed)
    update(crew, resolved, resolved=True, add_evidence=[{"type": "git", "ref": "abc"}])
    for task in (dropped, terminated):
        assert standing(crew, task) == ("WILL_NOT_IMPLEMENT", True, True)
    for task in (closed, resolved):
        assert standing(crew, task) == ("CLOSED", True, False)
    for task in (dropped, terminated):
        assert crew.beside("graph_history", node_id=task["id"])["events"][0]["action"] == "dropped"


def test_what_is_done_after_it_was_given_up_is_done(crew: Crew) -> None:
    for give_up in (drop, lambda crew, task: crew.step("terminate", task)):
        with gathered() as crew:
            (task,) = made(crew)
            give_up(crew, task)
            update(crew, task, resolved=False)
            assert standing(crew, task) == ("NEW", False, False)
            update(crew, task, resolved=True)
            assert standing(crew, task) == ("CLOSED", True, False)
            update(crew, task, resolved=False)
            give_up(crew, task)
            assert standing(crew, task) == ("WILL_NOT_IMPLEMENT", True, True)


def test_more_evidence_changes_nothing_of_what_is_over(crew: Crew) -> None:
    dropped, done = made(crew, 2)
    drop(crew, dropped)
    update(crew, dropped, add_evidence=[{"type": "note", "ref": "as was said"}])
    update(crew, done, resolved=True)
    update(crew, done, add_evidence=[{"type": "dropped", "ref": "its sibling was"}])
    assert (standing(crew, dropped)[2], standing(crew, done)[2]) == (True, False)


def test_a_node_that_took_in_a_dropped_one_stays_what_it_was(crew: Crew) -> None:
    dropped, done = made(crew, 2)
    drop(crew, dropped)
    update(crew, done, resolved=True)
    crew.beside("graph_restructure", operations=[{"op": "merge", "source": dropped["id"], "target": done["id"]}])
    assert standing(crew, done) == ("CLOSED", True, False)


def test_wherever_a_node_is_shown_it_says_that_it_was_dropped(crew: Crew) -> None:
    done, dropped, waiting = made(crew, 3)
    for each in (done, dropped):
        crew.beside("graph_connect", edges=[{"from": waiting["id"], "to": each["id"], "type": "depends_on"}])
    update(crew, done, resolved=True)
    drop(crew, dropped)
    root = crew.beside("graph_open", project="Shop")["root"]["id"]
    shown = {
        "query": crew.beside("graph_query", project="Shop", filter={"resolved": True})["nodes"],
        "tree": crew.beside("graph_context", node_id=root)["children"]["children"],
        "onboard": crew.beside("graph_onboard", project="Shop")["tree"],
        "waits for": [each["node"] for each in crew.beside("graph_context", node_id=waiting["id"])["depends_on"]],
        "next": crew.beside("graph_next", project="Shop")["nodes"][0]["resolved_deps"],
    }
    for place, nodes in shown.items():
        found = {node["id"]: node.get("dropped", False) for node in nodes}
        assert (found[done["id"]], found[dropped["id"]]) == (False, True), place
    for told in (crew.beside("graph_open", project="Shop")["summary"], crew.beside("graph_open")["projects"][0]):
        assert (told["resolved"], told["dropped"]) == (2, 1)
