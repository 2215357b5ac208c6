"""graph_onboard: one call for an agent that joins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.promises import promise
from tests.toolsets.work.agents import WorkAgent, summaries, working


@pytest.fixture
def ids(agent: WorkAgent) -> dict[str, str]:
    ids = agent.plan(
        {"ref": "a", "context_links": ["z.md", "a.md"]},
        {"ref": "b", "parent_ref": "a", "context_links": ["a.md"]},
        {"ref": "c", "parent_ref": "b"},
        {"ref": "d", "parent_ref": "a", "properties": {"priority": 3}},
        {"ref": "e"},
    )
    agent.resolve(ids["c"], add_evidence=[{"type": "git", "ref": "first"}, {"type": "test", "ref": "second"}])
    return ids


@promise("W2", "one call orients an agent that joins")
def test_it_tells_everything_at_a_glance(agent: WorkAgent, ids: dict[str, str]) -> None:
    told = agent.call("graph_onboard", project="p")
    assert (told["project"], told["goal"]) == ("p", "Ship it")
    assert told["summary"] == agent.counts()
    assert told["tree"] == [
        {
            "id": ids["a"],
            "summary": "a",
            "resolved": False,
            "children": [
                {"id": ids["b"], "summary": "b", "resolved": False, "child_count": 1},
                {"id": ids["d"], "summary": "d", "resolved": False},
            ],
        },
        {"id": ids["e"], "summary": "e", "resolved": False},
    ]
    assert told["context_links"] == ["a.md", "z.md"]
    assert told["actionable"] == [
        {"id": ids["d"], "summary": "d", "properties": {"priority": 3}},
        {"id": ids["b"], "summary": "b", "properties": {}},
        {"id": ids["e"], "summary": "e", "properties": {}},
    ]
    assert "your_claims" not in told


def test_evidence_is_that_of_resolved_nodes_newest_first(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.update(ids["e"], add_evidence=[{"type": "note", "ref": "of open work"}])
    agent.resolve(ids["d"], add_evidence=[{"type": "git", "ref": "third"}])
    agent.update(ids["c"], state="touched again")
    told = agent.call("graph_onboard", project="p")["recent_evidence"]
    assert [(each["node_id"], each["node_summary"], each["type"], each["ref"]) for each in told] == [
        (ids["d"], "d", "git", "third"),
        (ids["c"], "c", "test", "second"),
        (ids["c"], "c", "git", "first"),
    ]
    assert told[0]["agent"] == "ann"
    assert told[0]["timestamp"] > told[1]["timestamp"]
    limited = agent.call("graph_onboard", project="p", evidence_limit=2)["recent_evidence"]
    assert limited == told[:2]


def test_twenty_entries_of_evidence_unless_asked_otherwise(agent: WorkAgent) -> None:
    ids = agent.plan(*({"ref": str(number)} for number in range(60)))
    for node_id in ids.values():
        agent.resolve(node_id)
    for asked, limit in (({}, 20), ({"evidence_limit": 50}, 50), ({"evidence_limit": 3}, 3)):
        told = agent.call("graph_onboard", project="p", **asked)
        assert len(told["recent_evidence"]) + told["more"].get("recent_evidence", 0) == limit
        assert told["recent_evidence"][0]["node_summary"] == "59"
    for limit in (0, 51):
        assert agent.refusal("graph_onboard", project="p", evidence_limit=limit)["error"] == "validation_error"


def test_nothing_is_claimed_by_it_and_nothing_claimed_is_offered(agent: WorkAgent, ids: dict[str, str]) -> None:
    before = agent.log.head()
    agent.call("graph_onboard", project="p")
    assert agent.log.head() == before
    agent.next(claim=True)
    mine = agent.call("graph_onboard", project="p")
    assert mine["your_claims"] == [ids["d"]]
    assert summaries(mine["actionable"]) == ["b", "e"]
    with agent.as_("bob"):
        assert "your_claims" not in agent.call("graph_onboard", project="p")


def test_at_most_ten_actionable_nodes_are_offered(agent: WorkAgent) -> None:
    agent.plan(*({"ref": str(number)} for number in range(15)))
    assert summaries(agent.call("graph_onboard", project="p")["actionable"]) == agent.next(count=10)


@promise("W2, one project", "the only project need not be named")
def test_the_only_project_need_not_be_named(agent: WorkAgent) -> None:
    assert agent.call("graph_onboard")["project"] == "p"
    agent.open("q")
    told = agent.refusal("graph_onboard")
    assert (told["error"], told["projects"]) == ("project_not_found", ["p", "q"])


def test_without_a_project_it_says_how_to_begin() -> None:
    with working() as agent:
        told = agent.refusal("graph_onboard")
        assert (told["error"], told["hint"]) == ("project_not_found", "graph_open makes one")


def test_an_agent_that_joined_plans_into_that_project(agent: WorkAgent) -> None:
    root = agent.open("p")
    agent.open("q")
    with agent.as_("bob"):
        agent.call("graph_onboard", project="p")
        assert agent.node(agent.plan({"ref": "a"})["a"])["parent"] == root


def test_long_links_and_refs_are_cut(agent: WorkAgent) -> None:
    node_id = agent.plan({"ref": "a", "context_links": ["l" * 900]})["a"]
    agent.resolve(node_id, add_evidence=[{"type": "note", "ref": "r" * 3_000}])
    told = agent.call("graph_onboard", project="p")
    assert 100 < len(told["context_links"][0]) <= 120
    assert 100 < len(told["recent_evidence"][0]["ref"]) <= 120


def tokens(answer: dict[str, Any]) -> float:
    """However the JSON is written."""
    return max(len(json.dumps(answer, separators=(",", ":"), ensure_ascii=ascii)) for ascii in (True, False)) / 4


@promise("W2, more", "what is left out of thirty nodes with long texts is counted")
def test_thirty_nodes_of_long_texts_stay_within_the_budget_and_the_rest_is_counted(agent: WorkAgent) -> None:
    long = {"summary": "s" * 2_000, "context_links": ["l" * 900], "properties": {"note": "n" * 5_000}}
    ids = agent.plan(*({**long, "ref": str(number), "context_links": [f"{number}" * 400]} for number in range(29)))
    for node_id in list(ids.values())[:15]:
        agent.resolve(node_id, add_evidence=[{"type": "t" * 128, "ref": "r" * 4_000}] * 3)
    agent.next(claim=True, count=3)
    told = agent.call("graph_onboard", project="p")
    assert tokens(told) <= 600
    shown = {name: len(told[name]) for name in told["more"]}
    totals = {"tree": 29, "recent_evidence": 20, "context_links": 29, "actionable": 10}
    assert {name: shown[name] + told["more"][name] for name in totals} == totals
    assert min(shown[name] for name in totals) > 0
    assert told["actionable"][0]["properties_cut"] is True


HOSTILE = st.sampled_from(["🙂" * 400, '"' * 900, "x" * 900, "漢 " * 300]) | st.text(
    st.sampled_from('a "\\\n\x01é漢🙂'), min_size=1, max_size=30
).filter(str.strip)
NODES = st.fixed_dictionaries(
    {
        "summary": HOSTILE,
        "context_links": st.lists(HOSTILE, max_size=3),
        "properties": st.dictionaries(st.sampled_from(["priority", "k" * 300, "🙂"]), HOSTILE | st.integers(-9, 9)),
        "above": st.integers(0, 29),
    }
)
EVIDENCE = st.lists(st.fixed_dictionaries({"type": st.sampled_from(["git", "t" * 128]), "ref": HOSTILE}), max_size=5)


@promise("W2, budget", "whatever is in a project, joining it costs at most 600 tokens")
@settings(max_examples=30)
@given(
    st.lists(NODES, min_size=1, max_size=29),
    st.dictionaries(st.integers(0, 28), EVIDENCE),
    st.integers(0, 5),
    HOSTILE,
)
def test_whatever_is_in_a_project_joining_it_costs_at_most_the_budget(
    nodes: list[dict[str, Any]], resolved: dict[int, list[dict[str, str]]], claimed: int, goal: str
) -> None:
    with working() as agent:
        agent.call("graph_open", project="p", goal=goal)
        plan = []
        for number, node in enumerate(nodes):
            above = node.pop("above")
            parent = {"parent_ref": str(above)} if above < number else {}
            plan.append({**node, **parent, "ref": str(number)})
        ids = list(agent.plan(*plan).values())
        done = {ids[number % len(ids)]: evidence for number, evidence in resolved.items()}
        updates = [{"node_id": each, "resolved": True, "add_evidence": evidence} for each, evidence in done.items()]
        if updates:
            agent.call("graph_update", updates=updates)
        if claimed:
            agent.next(claim=True, count=claimed)
        told = agent.call("graph_onboard", project="p")
        assert tokens(told) <= 600
        assert told["summary"]["total"] == len(ids) + 1
        rows = len(told["tree"]) + sum(len(row.get("children", ())) for row in told["tree"])
        links = {link for node in nodes for link in node["context_links"]}
        evidence = min(sum(map(len, done.values())), 20)
        more = told.get("more", {})
        assert all(left_out > 0 for left_out in more.values())
        assert len(told["context_links"]) + more.get("context_links", 0) == len(links)
        assert len(told["recent_evidence"]) + more.get("recent_evidence", 0) == evidence
        tops = [ref for ref, each in enumerate(plan) if "parent_ref" not in each]
        below = [each for each in plan if int(each.get("parent_ref", -1)) in tops]
        assert rows + more.get("tree", 0) == len(tops) + len(below)
