"""Redacting a successor leaves the superseded fact superseded, and the answer says that it was redacted (X24)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tallystick.log import Head
from tallystick.state.state import State
from tests.toolsets.agent import Agent, working


@pytest.fixture
def agent() -> Iterator[Agent]:
    with working() as agent:
        yield agent


@pytest.mark.parametrize("fields", [None, ["attrs"], ["attrs.supersedes", "attrs.text"]])
def test_a_superseded_fact_stays_so_when_its_successor_is_redacted(agent: Agent, fields: list[str] | None) -> None:
    agent.node("old", text="the port is 80")
    agent.node("new", text="the port is 8080", supersedes=["old"])
    before = agent.read("old")["entity"]["stale"]
    redaction: dict[str, Any] = {"op": "REDACT_NODE", "node_id": "new", "reason": "asked", "nonce": "1"}
    redaction |= {} if fields is None else {"redacted_fields": fields}
    agent.write(**redaction)
    assert agent.write(**redaction)["duplicate"] is True
    stale = agent.read("old")["entity"]["stale"]
    assert (stale["why"], stale["superseded_by"]) == (before["why"], "new")
    assert stale.get("successor_redacted", False) is (fields is None or "attrs" in fields)
    (found,) = (each for each in agent.search(type="note")["entities"] if each["id"] == "old")
    assert found["stale"]["superseded_by"] == "new"
    assert "8080" not in str(agent.read("new"))
    # A process that reads the log anew, after it was masked.
    state = State(agent.log.line)
    for entry in agent.log.read(Head()):
        state.apply(entry.commit, entry.offset, entry.end)
    assert state.dated("old") == agent.run(agent.partition.look(lambda known: known.dated("old")))
    assert not agent.read("old", as_of=1)["entity"].get("stale")


def test_a_second_redaction_and_a_new_version_of_the_successor(agent: Agent) -> None:
    agent.node("old")
    agent.node("new", text="t", supersedes=["old"])
    for _ in range(2):
        agent.write(op="REDACT_NODE", node_id="new", reason="asked")
        assert agent.read("old")["entity"]["stale"]["superseded_by"] == "new"
    agent.node("new", text="another")
    assert "stale" not in agent.read("old")["entity"]
