"""Evidence that a node, or a project, demands before something is done."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.state.work.required_evidence import missing, required
from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent

GIT = {"type": "git", "ref": "4f2c1aa"}
TEST = {"type": "test", "ref": "make test"}


def resolving(node: str, *evidence: dict[str, str]) -> dict[str, Any]:
    return {"node_id": node, "resolved": True, "add_evidence": list(evidence)}


@promise("evidence, demanded", "a node is done only with the evidence that it, or what stands above it, demands")
def test_a_node_is_done_only_with_the_evidence_that_it_demands(agent: WorkAgent) -> None:
    a = agent.plan({"ref": "a", "properties": {"require_evidence": ["git", "test"]}})["a"]
    told = agent.refusal("graph_update", updates=[resolving(a, GIT)])
    assert (told["error"], told["missing"]) == ("evidence_missing", ["test"])
    assert agent.node(a)["evidence"] == [], "nothing was written"
    agent.update(a, add_evidence=[TEST])
    agent.call("graph_update", updates=[resolving(a, GIT)])
    assert agent.node(a)["resolved"] is True


@promise("evidence, demanded above", "what stands above a node demands evidence of it, too")
def test_what_stands_above_it_demands_it_too(agent: WorkAgent) -> None:
    ids = agent.plan(
        {"ref": "a", "properties": {"require_evidence": "git"}}, {"ref": "b", "parent_ref": "a"}, {"ref": "c"}
    )
    assert agent.refusal("graph_update", updates=[resolving(ids["b"], TEST)])["missing"] == ["git"]
    agent.call("graph_update", updates=[resolving(ids["c"], TEST)])
    agent.update(ids["a"], properties={"require_evidence": None})
    agent.call("graph_update", updates=[resolving(ids["b"], TEST)])


def test_a_demand_made_in_the_same_call_counts(agent: WorkAgent) -> None:
    a = agent.plan({"ref": "a"})["a"]
    asked = {**resolving(a, TEST), "properties": {"require_evidence": ["git"]}}
    assert agent.refusal("graph_update", updates=[asked])["missing"] == ["git"]


def test_what_is_given_up_needs_none(agent: WorkAgent) -> None:
    a = agent.plan({"ref": "a", "properties": {"require_evidence": ["git"]}})["a"]
    agent.call("graph_update", updates=[resolving(a, {"type": "dropped", "ref": "not wanted"})])
    assert agent.node(a)["dropped"] is True


@promise("evidence, not stated", "nobody states that a check passed")
def test_nobody_states_that_a_check_passed(agent: WorkAgent) -> None:
    a = agent.plan({"ref": "a", "properties": {"require_evidence": ["check:test"]}})["a"]
    for stated in ("check", "check:test"):
        evidence = {"type": stated, "ref": "test: PASSED"}
        assert agent.refusal("graph_update", updates=[resolving(a, evidence)])["missing"] == ["check:test"]
    forged = {"type": "check", "ref": "x", "name": "test", "result": "PASSED"}
    told = agent.refusal("graph_update", updates=[resolving(a, forged)])
    assert "is not allowed" in told["message"]


@pytest.mark.parametrize("said", [None, 7, True, {}, [], [7, None, {}], "", " ", {"git": True}])
def test_a_demand_that_makes_no_sense_counts_as_not_made(said: Any) -> None:
    assert required([{"properties": {"require_evidence": said}}, {"properties": said}, {}]) == []


def test_of_a_check_the_newest_result_counts() -> None:
    def entry(result: str, name: str = "test") -> dict[str, str]:
        return {"type": "check", "ref": name, "name": name, "result": result}

    wanted = ["check:test"]
    assert missing({"evidence": [entry("FAILED"), entry("PASSED")]}, wanted) == []
    assert missing({"evidence": [entry("PASSED"), entry("FAILED")]}, wanted) == wanted
    assert missing({"evidence": [entry("PASSED", "lint")]}, wanted) == wanted
    assert (
        missing({"evidence": [{"type": "note", "name": "test", "result": "PASSED"}, "PASSED", None]}, wanted) == wanted
    )
