"""Taken in tasks is taken in work, and the other way round: one claim, one time to live (X22)."""

from __future__ import annotations

from typing import Any

from tallystick.extensions.tasks.cards import Pipelines
from tests.extensions.tasks.agents import Said, TasksAgent, gathered
from tests.promises import promise

HOUR = 3_600_000


def made(agent: TasksAgent, count: int = 1) -> list[Said]:
    project = agent.project()
    return [agent.task(str(number), projectId=project["id"]) for number in range(count)]


def offered(agent: TasksAgent, **arguments: Any) -> str | None:
    data = agent.data("get_next_task", **arguments)
    return None if data is None else data["task"]["id"]


def handed_out(agent: TasksAgent, **arguments: Any) -> list[str]:
    told = agent.beside("graph_next", project="Shop", count=9, **arguments)
    return [each["node"]["id"] for each in told["nodes"]]


def claimed_by(agent: TasksAgent, task: Said) -> str | None:
    found: str | None = agent.node(task["id"])["properties"].get("_claimed_by")
    return found


@promise("X22", "what is begun in tasks is handed out to nobody else by work")
def test_a_task_that_somebody_began_is_handed_out_to_nobody_else(agent: TasksAgent) -> None:
    (task,) = made(agent)
    version = agent.step("advance", task)["data"]["task"]["version"]
    assert (claimed_by(agent, task), version) == ("ann", 2)
    assert handed_out(agent) == [task["id"]], "its owner may go on"
    with agent.as_("bob"):
        assert handed_out(agent) == []


@promise("X22, the other way", "what work handed out is offered to nobody else by tasks")
def test_a_node_that_work_handed_out_is_offered_to_nobody_else_by_tasks(agent: TasksAgent) -> None:
    one, two = made(agent, 2)
    with agent.as_("bob"):
        agent.beside("graph_next", project="Shop", claim=True)
        assert offered(agent) == one["id"]
    assert offered(agent) == two["id"]
    refusal = agent.refusal("advance", containerType="task", id=one["id"], version=2)
    assert (refusal["code"], refusal["details"]["claimedBy"]) == ("CLAIMED", "bob")


def test_a_claim_that_tasks_took_grows_stale_as_any_other(agent: TasksAgent) -> None:
    (task,) = made(agent)
    agent.step("advance", task)
    agent.now += HOUR
    with agent.as_("bob"):
        (given,) = agent.beside("graph_next", project="Shop", claim=True)["nodes"]
    assert given["taken_over"]["claimed_by"] == "ann"


def test_sessions_of_one_name_are_two_agents_here_too(agent: TasksAgent) -> None:
    one, two = made(agent, 2)
    first, second = agent.claims.sessions.begin(), agent.claims.sessions.begin()
    with agent.as_("mcp", first):
        agent.step("advance", one)
    with agent.as_("mcp", second):
        assert handed_out(agent) == [two["id"]]
        assert offered(agent) == two["id"]


@promise("X22, cleared", "revert, block and terminal states clear the claim")
def test_giving_it_back_blocking_it_or_ending_it_clears_the_claim(agent: TasksAgent) -> None:
    reverted, blocked, outside, depending, given_up, closed, other = made(agent, 7)
    for task in (reverted, blocked, outside, depending, given_up, closed):
        agent.step("advance", task)
        assert claimed_by(agent, task) == "ann"
    agent.step("revert", reverted)
    agent.step("block", blocked, blockedBy=[other["id"]])
    agent.step("block", outside, blockedBy=["NO_OP"], blockedReason="strike")
    agent.data("manage_dependency", operation="create", fromId=other["id"], toId=depending["id"], type="BLOCKS")
    agent.step("terminate", given_up)
    agent.step("advance", closed)
    for task in (reverted, blocked, outside, depending, given_up, closed):
        assert agent.node(task["id"])["properties"] == {"priority": 0}


def test_a_block_that_changes_nothing_leaves_the_claim(agent: TasksAgent) -> None:
    task, other = made(agent, 2)
    agent.step("block", task, blockedBy=[other["id"]])
    agent.beside("graph_update", updates=[{"node_id": task["id"], "properties": {"_claimed_by": "bob"}}])
    agent.step("block", task, blockedBy=[other["id"]], blockedReason="still")
    assert claimed_by(agent, task) == "bob"


def test_later_steps_are_anybodys(agent: TasksAgent) -> None:
    with gathered(pipelines=Pipelines(task=("NEW", "ACTIVE", "TO_BE_TESTED", "CLOSED"))) as agent:
        (task,) = made(agent)
        agent.step("advance", task)
        agent.step("advance", task)
        with agent.as_("tester"):
            assert agent.step("advance", task)["data"]["transition"]["to"] == "CLOSED"


def test_a_feature_is_claimed_by_whoever_begins_it_and_not_by_whoever_begins_its_task(agent: TasksAgent) -> None:
    project = agent.project()
    feature, own = agent.feature(projectId=project["id"]), agent.feature("Search", projectId=project["id"])
    task = agent.task(featureId=feature["id"])
    agent.step("advance", task)
    agent.step("advance", own)
    assert (claimed_by(agent, feature), claimed_by(agent, own)) == (None, "ann")
    with agent.as_("bob"):
        assert agent.data("get_next_feature")["feature"]["id"] == feature["id"]
        assert agent.data("get_next_task") is None


# -- dropped and done


def standing(agent: TasksAgent, task: Said) -> tuple[str, bool, bool]:
    node = agent.node(task["id"])
    return agent.get(task)["status"], node["resolved"], node.get("dropped", False)


def update(agent: TasksAgent, task: Said, **changes: Any) -> None:
    agent.beside("graph_update", updates=[{"node_id": task["id"], **changes}])


def drop(agent: TasksAgent, task: Said) -> None:
    agent.beside("graph_restructure", operations=[{"op": "drop", "node_id": task["id"], "reason": "no need"}])


@promise("X22, dropped", "given up and done are different in both")
def test_given_up_and_done_are_different_in_both(agent: TasksAgent) -> None:
    dropped, terminated, closed, resolved = made(agent, 4)
    drop(agent, dropped)
    agent.step("terminate", terminated)
    agent.close(closed)
    update(agent, resolved, resolved=True, add_evidence=[{"type": "git", "ref": "abc"}])
    for task in (dropped, terminated):
        assert standing(agent, task) == ("WILL_NOT_IMPLEMENT", True, True)
    for task in (closed, resolved):
        assert standing(agent, task) == ("CLOSED", True, False)
    for task in (dropped, terminated):
        assert agent.beside("graph_history", node_id=task["id"])["events"][0]["action"] == "dropped"


def test_what_is_done_after_it_was_given_up_is_done(agent: TasksAgent) -> None:
    for give_up in (drop, lambda agent, task: agent.step("terminate", task)):
        with gathered() as agent:
            (task,) = made(agent)
            give_up(agent, task)
            update(agent, task, resolved=False)
            assert standing(agent, task) == ("NEW", False, False)
            update(agent, task, resolved=True)
            assert standing(agent, task) == ("CLOSED", True, False)
            update(agent, task, resolved=False)
            give_up(agent, task)
            assert standing(agent, task) == ("WILL_NOT_IMPLEMENT", True, True)


def test_more_evidence_changes_nothing_of_what_is_over(agent: TasksAgent) -> None:
    dropped, done = made(agent, 2)
    drop(agent, dropped)
    update(agent, dropped, add_evidence=[{"type": "note", "ref": "as was said"}])
    update(agent, done, resolved=True)
    update(agent, done, add_evidence=[{"type": "dropped", "ref": "its sibling was"}])
    assert (standing(agent, dropped)[2], standing(agent, done)[2]) == (True, False)


def test_a_node_that_took_in_a_dropped_one_stays_what_it_was(agent: TasksAgent) -> None:
    dropped, done = made(agent, 2)
    drop(agent, dropped)
    update(agent, done, resolved=True)
    agent.beside("graph_restructure", operations=[{"op": "merge", "source": dropped["id"], "target": done["id"]}])
    assert standing(agent, done) == ("CLOSED", True, False)


def test_wherever_a_node_is_shown_it_says_that_it_was_dropped(agent: TasksAgent) -> None:
    done, dropped, waiting = made(agent, 3)
    for each in (done, dropped):
        agent.beside("graph_connect", edges=[{"from": waiting["id"], "to": each["id"], "type": "depends_on"}])
    update(agent, done, resolved=True)
    drop(agent, dropped)
    root = agent.beside("graph_open", project="Shop")["root"]["id"]
    shown = {
        "query": agent.beside("graph_query", project="Shop", filter={"resolved": True})["nodes"],
        "tree": agent.beside("graph_context", node_id=root)["children"]["children"],
        "onboard": agent.beside("graph_onboard", project="Shop")["tree"],
        "waits for": [each["node"] for each in agent.beside("graph_context", node_id=waiting["id"])["depends_on"]],
        "next": agent.beside("graph_next", project="Shop")["nodes"][0]["resolved_deps"],
    }
    for place, nodes in shown.items():
        found = {node["id"]: node.get("dropped", False) for node in nodes}
        assert (found[done["id"]], found[dropped["id"]]) == (False, True), place
    for told in (agent.beside("graph_open", project="Shop")["summary"], agent.beside("graph_open")["projects"][0]):
        assert (told["resolved"], told["dropped"]) == (2, 1)


def test_advance_takes_and_releases_a_task_without_a_step(agent: TasksAgent) -> None:
    (task,) = made(agent)
    taken = agent.step("advance", task, claim=True)["data"]["task"]
    assert (claimed_by(agent, task), taken["status"]) == ("ann", "NEW")
    with agent.as_("bob"):
        refusal = agent.refusal("advance", containerType="task", id=task["id"], version=taken["version"], release=True)
        assert refusal["code"] == "CLAIMED"
    released = agent.step("advance", taken, release=True)["data"]["task"]
    assert (claimed_by(agent, task), released["status"]) == (None, "NEW")


def test_advancing_what_another_agent_holds_warns(agent: TasksAgent) -> None:
    (task,) = made(agent)
    began = agent.step("advance", task)["data"]["task"]
    with agent.as_("bob"):
        data = agent.step("advance", began)["data"]
    assert "is claimed by 'ann'" in data["warnings"][0]


def test_advancing_what_one_holds_oneself_does_not_warn(agent: TasksAgent) -> None:
    (task,) = made(agent)
    began = agent.step("advance", task)["data"]["task"]
    assert "warnings" not in agent.step("advance", began)["data"]
