"""graph_update: what changes, and what that sets free."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.work_settings import WorkSettings
from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent, summaries, working


@pytest.fixture
def a(agent: WorkAgent) -> str:
    return agent.plan({"ref": "a", "properties": {"priority": 1, "deep": {"x": 1, "y": 2}}})["a"]


@promise("graph_update", "properties are merged and null deletes")
def test_properties_are_merged_at_the_top_and_null_deletes(agent: WorkAgent, a: str) -> None:
    agent.update(a, properties={"priority": None, "deep": {"x": 3}, "new": [1]})
    assert agent.node(a)["properties"] == {"deep": {"x": 3}, "new": [1]}


@promise("W18", "state is kept when omitted, cleared by null")
def test_state_is_kept_when_omitted_and_cleared_by_null(agent: WorkAgent, a: str) -> None:
    agent.update(a, state={"phase": 2})
    agent.update(a, summary="b")
    assert agent.node(a)["state"] == {"phase": 2}
    agent.update(a, state=None)
    assert "state" not in agent.node(a)


@pytest.mark.parametrize("state", ["text", 5, 0, False, [], {}, [1, {"x": None}]])
def test_state_may_be_anything(agent: WorkAgent, a: str, state: Any) -> None:
    agent.update(a, state=state)
    assert agent.node(a)["state"] == state


def test_context_links_are_added_once_and_removed(agent: WorkAgent, a: str) -> None:
    agent.update(a, add_context_links=["x", "y", "x"])
    agent.update(a, add_context_links=["y", "z"], remove_context_links=["x", "unknown"])
    assert agent.node(a)["context_links"] == ["y", "z"]


@promise("graph_update, evidence", "agent and time of evidence are set by the server")
def test_evidence_is_appended_with_agent_and_time_and_never_changed(agent: WorkAgent, a: str) -> None:
    agent.update(a, add_evidence=[{"type": "git", "ref": "1"}, {"type": "my own", "ref": "2"}])
    with agent.as_("bob"):
        agent.update(a, add_evidence=[{"type": "hint", "ref": "3"}])
    evidence = agent.node(a)["evidence"]
    assert [(each["type"], each["ref"], each["agent"]) for each in evidence] == [
        ("git", "1", "ann"),
        ("my own", "2", "ann"),
        ("hint", "3", "bob"),
    ]
    assert evidence[0]["timestamp"] == evidence[1]["timestamp"] < evidence[2]["timestamp"]


@promise("W17", "every change is a revision, no change is none")
def test_every_change_is_a_revision_and_no_change_is_none(agent: WorkAgent, a: str) -> None:
    assert agent.update(a, summary="b")["updated"] == [{"node_id": a, "rev": 2}]
    before = agent.log.head()
    same = {"summary": "b", "resolved": False, "properties": {"priority": 1}, "state": None}
    assert agent.update(a, **same)["updated"] == [{"node_id": a, "rev": 2}]
    assert agent.update(a)["updated"] == [{"node_id": a, "rev": 2}]
    assert agent.log.head() == before


def test_updated_at_moves_and_created_at_and_created_by_stay(agent: WorkAgent, a: str) -> None:
    before = agent.node(a)
    with agent.as_("bob"):
        agent.update(a, summary="b")
    after = agent.node(a)
    assert after["updated_at"] > before["updated_at"]
    assert (after["created_at"], after["created_by"]) == (before["created_at"], "ann")


@promise("W20", "a node may be updated twice in a call")
def test_one_node_may_be_updated_twice_in_a_call_in_order(agent: WorkAgent, a: str) -> None:
    updates = [
        {"node_id": a, "properties": {"x": 1, "y": 1}},
        {"node_id": a, "properties": {"x": None, "y": 2}, "summary": "last"},
    ]
    assert agent.call("graph_update", updates=updates)["updated"] == [
        {"node_id": a, "rev": 2},
        {"node_id": a, "rev": 3},
    ]
    node = agent.node(a)
    assert (node["summary"], node["properties"]["y"], "x" in node["properties"]) == ("last", 2, False)


def test_a_call_is_all_or_nothing(agent: WorkAgent, a: str) -> None:
    updates = [{"node_id": a, "summary": "b"}, {"node_id": "nobody", "summary": "c"}]
    told = agent.refusal("graph_update", updates=updates)
    assert (told["error"], told["node_id"]) == ("node_not_found", "nobody")
    assert agent.node(a)["summary"] == "a"


# -- resolving


@promise("graph_update, unblocked", "what became actionable is told at once")
def test_resolving_tells_what_became_actionable_in_the_order_of_graph_next(agent: WorkAgent) -> None:
    ids = agent.plan(
        {"ref": "a"},
        {"ref": "low", "depends_on": ["a"]},
        {"ref": "high", "depends_on": ["a"], "properties": {"priority": 5}},
        {"ref": "more", "depends_on": ["a", "other"]},
        {"ref": "other"},
    )
    told = agent.resolve(ids["a"])
    assert told["newly_actionable"] == [
        {"id": ids["high"], "summary": "high"},
        {"id": ids["low"], "summary": "low"},
    ]


def test_the_last_child_makes_its_parent_actionable(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "parent"}, {"ref": "a", "parent_ref": "parent"}, {"ref": "b", "parent_ref": "parent"})
    assert agent.resolve(ids["a"])["newly_actionable"] == []
    assert summaries(agent.resolve(ids["b"])["newly_actionable"]) == ["parent"]


def test_the_key_is_there_only_when_something_was_resolved_or_set_free(agent: WorkAgent, a: str) -> None:
    assert "newly_actionable" not in agent.update(a, summary="b")
    assert agent.resolve(a)["newly_actionable"] == [{"id": agent.open(), "summary": "Ship it"}]
    assert "newly_actionable" not in agent.resolve(a)


@promise("W21", "what was actionable before is not new")
def test_what_was_actionable_before_is_not_new(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b"}, {"ref": "c", "depends_on": ["a", "b"]})
    updates = [{"node_id": ids[ref], "resolved": True} for ref in "ab"]
    assert summaries(agent.call("graph_update", updates=updates)["newly_actionable"]) == ["c"]


def test_what_is_set_free_and_resolved_in_the_same_call_is_not_told(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b", "depends_on": ["a"]}, {"ref": "c", "depends_on": ["b"]})
    updates = [{"node_id": ids[ref], "resolved": True} for ref in "ab"]
    assert summaries(agent.call("graph_update", updates=updates)["newly_actionable"]) == ["c"]


@promise("W8", "a parent may be resolved before its children")
def test_a_parent_may_be_resolved_before_its_children_which_stay_as_they_are(agent: WorkAgent) -> None:
    ids = agent.plan(
        {"ref": "parent"}, {"ref": "child", "parent_ref": "parent"}, {"ref": "w", "depends_on": ["parent"]}
    )
    assert summaries(agent.resolve(ids["parent"])["newly_actionable"]) == ["w"]
    assert agent.node(ids["child"])["resolved"] is False
    assert agent.next(count=9) == ["child", "w"]


def test_resolving_every_child_does_not_resolve_the_parent(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "parent"}, {"ref": "child", "parent_ref": "parent"})
    agent.resolve(ids["child"])
    assert agent.node(ids["parent"])["resolved"] is False


@promise("W9", "reopening blocks the dependents again")
def test_reopening_blocks_the_dependents_again(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b", "depends_on": ["a"]})
    agent.resolve(ids["a"])
    assert agent.next() == ["b"]
    assert summaries(agent.update(ids["a"], resolved=False)["newly_actionable"]) == ["a"]
    assert agent.next(count=9) == ["a"]
    assert agent.counts()["blocked"] == 1


@promise("W7", "resolving without evidence is told, or refused by setting")
def test_resolving_without_evidence_is_allowed_but_told(agent: WorkAgent, a: str) -> None:
    told = agent.update(a, resolved=True)
    assert told["warnings"] == [f"'{a}' was resolved without evidence"]
    agent.update(a, resolved=False, add_evidence=[{"type": "note", "ref": "x"}])
    assert "warnings" not in agent.update(a, resolved=True)


def test_evidence_can_be_required() -> None:
    with working(settings=WorkSettings(require_evidence=True)) as agent:
        root = agent.open()
        told = agent.refusal("graph_update", updates=[{"node_id": root, "resolved": True}])
        assert told["error"] == "validation_error"
        assert "cannot be resolved without evidence" in told["message"]
        agent.resolve(root)
        assert agent.counts()["resolved"] == 1


def test_setting_free_more_than_fits_is_told_by_number(agent: WorkAgent) -> None:
    first = agent.plan({"ref": "first"})["first"]
    agent.plan(*({"ref": str(n), "summary": "x" * 300, "depends_on": [first]} for n in range(300)))
    told = agent.resolve(first)
    assert len(told["newly_actionable"]) + told["newly_actionable_omitted"] == 300


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"updates": []}, "field 'updates' must have at least 1 item, not 0"),
    ({"updates": [{}]}, "field 'updates[0].node_id' is required"),
    ({"updates": [{"node_id": "x", "summary": ""}]}, "field 'updates[0].summary' must not be blank"),
    ({"updates": [{"node_id": "x", "resolved": "yes"}]}, "field 'updates[0].resolved' must be true or false"),
    ({"updates": [{"node_id": "x", "status": 1}]}, "field 'updates[0].status' is not allowed"),
    (
        {"updates": [{"node_id": "x", "add_evidence": [{"ref": "y"}]}]},
        "field 'updates[0].add_evidence[0].type' is required",
    ),
    (
        {"updates": [{"node_id": "x", "add_evidence": [{"type": "", "ref": "y"}]}]},
        "field 'updates[0].add_evidence[0].type' must have at least 1 character",
    ),
    (
        {"updates": [{"node_id": "x", "add_evidence": [{"type": "git", "ref": " "}]}]},
        "field 'updates[0].add_evidence[0].ref' must not be blank",
    ),
    (
        {"updates": [{"node_id": "x", "add_evidence": [{"type": "git", "ref": "y", "agent": "me"}]}]},
        "field 'updates[0].add_evidence[0].agent' is not allowed",
    ),
]


@pytest.mark.parametrize(("asked", "sentence"), MISTAKES)
def test_mistakes_are_named(agent: WorkAgent, asked: dict[str, Any], sentence: str) -> None:
    told = agent.refusal("graph_update", **asked)
    assert (told["error"], told["message"]) == ("validation_error", sentence)


def test_a_node_cannot_outgrow_an_answer(agent: WorkAgent, a: str) -> None:
    agent.update(a, properties={"one": "x" * 10_000})
    told = agent.refusal("graph_update", updates=[{"node_id": a, "properties": {"two": "y" * 10_000}}])
    assert told["error"] == "validation_error"
    assert "the limit is 16,384" in told["message"]
