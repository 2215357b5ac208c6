"""Times in answers and documents follow the order of the log, also after the clock was set back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tallystick.clock import from_text, to_text
from tallystick.engine.partition import Partition
from tallystick.engine.store import Store
from tallystick.log import Head
from tallystick.log.memory import MemoryLog
from tests.commits_by_hand import START, draft, node
from tests.extensions.tasks.agents import TasksAgent, gathered
from tests.toolsets.agent import Agent, working

DAY = 86_400_000


@pytest.fixture
def agent() -> Iterator[Agent]:
    with working() as agent:
        yield agent


def test_a_time_that_the_server_answered_can_be_read_as_of_after_the_clock_went_back(agent: Agent) -> None:
    written = agent.node("n", version=1)
    agent.now -= DAY
    assert agent.read("n", as_of=written["timestamp"])["entity"]["attrs"] == {"version": 1}
    newer = agent.node("n", version=2)
    assert newer["timestamp"] == written["timestamp"]
    assert agent.read("n", as_of=newer["timestamp"])["entity"]["attrs"] == {"version": 2}
    # A process that starts with a clock behind the head of the log, and another one on the same log.
    agent.partition = Partition(agent.log, clock=lambda: agent.now - DAY)
    agent.store = Store(agent._open, agent.store._gate)
    assert agent.search(type="note", as_of=newer["timestamp"])["entities"][0]["attrs"] == {"version": 2}
    said = agent.refusal("memory.read", entity_id="n", as_of=to_text(from_text(newer["timestamp"]) + DAY))
    assert said["error"] == "UNKNOWN_AS_OF"


def test_no_moment_shows_half_of_a_draft(agent: Agent) -> None:
    agent.node("before")
    ops = [{"op": "UPSERT_NODE", "node": {"id": name, "type": "note", "attrs": {}}} for name in "abc"]
    answer = agent.write(ops=ops)
    agent.node("after")
    moments = [each[key] for each in answer["results"] for key in ("lamport", "commit_id")]
    for moment in [*moments, answer["timestamp"]]:
        there = [agent.read(name, as_of=moment)["entity"] is not None for name in ("before", *"abc")]
        assert there == [True] * 4, moment
    assert agent.ids(type="note", as_of=2) == ["before", "a", "b", "c"]
    assert agent.read("a", as_of=1)["entity"] is None
    assert len({entry.commit.timestamp for entry in agent.log.read(Head()) if entry.commit.lamport in (2, 3, 4)}) == 1


def test_what_the_vocabularies_stamp_is_never_before_the_head() -> None:
    with gathered() as agent:
        _check_stamps(agent)


def _check_stamps(agent: TasksAgent) -> None:
    project = agent.project()
    task = agent.task("Form", projectId=project["id"])
    head = agent.log.head().timestamp
    agent.now -= DAY
    claimed = agent.step("advance", task)
    assert claimed
    agent.beside(
        "graph_update",
        updates=[{"node_id": task["id"], "add_evidence": [{"type": "note", "ref": "seen"}]}],
    )
    atom = agent.beside(
        "manage_graph", operation="create", entityType="atom", projectId=project["id"], name="a", paths=["a"],
        knowledge="k", createdByTaskId=task["id"],
    )["data"]["atom"]  # fmt: skip
    entry = agent.beside(
        "manage_changelog", operation="append", parentType="atom", parentId=atom["id"], taskId=task["id"], summary="s"
    )["data"]["entry"]
    node = agent.node(task["id"])
    attrs = node.get("attrs", node)
    stamps = [
        attrs["evidence"][0]["timestamp"],
        attrs["properties"]["_claimed_at"],
        atom["createdAt"],
        entry["createdAt"],
        agent.log.head().timestamp,
    ]
    assert all(str(stamp) >= head for stamp in stamps), (head, stamps)


def test_two_processes_with_different_clocks_keep_one_order() -> None:
    async def story() -> list[str]:
        log = MemoryLog()
        ahead, behind = Partition(log, clock=lambda: START + DAY), Partition(log, clock=lambda: START)
        receipts = [await each.commit(lambda state: draft(node("n"))) for each in (ahead, behind, ahead, behind)]
        return [receipt.commits[0].timestamp for receipt in receipts]

    stamps = asyncio.run(story())
    assert stamps == sorted(stamps)
