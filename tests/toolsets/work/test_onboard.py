"""graph_onboard: one call for an agent that joins."""

from __future__ import annotations

import pytest

from tests.toolsets.work.team import Team, summaries, working


@pytest.fixture
def ids(team: Team) -> dict[str, str]:
    ids = team.plan(
        {"ref": "a", "context_links": ["z.md", "a.md"]},
        {"ref": "b", "parent_ref": "a", "context_links": ["a.md"]},
        {"ref": "c", "parent_ref": "b"},
        {"ref": "d", "parent_ref": "a", "properties": {"priority": 3}},
        {"ref": "e"},
    )
    team.resolve(ids["c"], add_evidence=[{"type": "git", "ref": "first"}, {"type": "test", "ref": "second"}])
    return ids


def test_it_tells_everything_at_a_glance(team: Team, ids: dict[str, str]) -> None:
    told = team.call("graph_onboard", project="p")
    assert (told["project"], told["goal"]) == ("p", "Ship it")
    assert told["summary"] == team.counts()
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


def test_evidence_is_that_of_resolved_nodes_newest_first(team: Team, ids: dict[str, str]) -> None:
    team.update(ids["e"], add_evidence=[{"type": "note", "ref": "of open work"}])
    team.resolve(ids["d"], add_evidence=[{"type": "git", "ref": "third"}])
    team.update(ids["c"], state="touched again")
    told = team.call("graph_onboard", project="p")["recent_evidence"]
    assert [(each["node_id"], each["node_summary"], each["type"], each["ref"]) for each in told] == [
        (ids["d"], "d", "git", "third"),
        (ids["c"], "c", "test", "second"),
        (ids["c"], "c", "git", "first"),
    ]
    assert told[0]["agent"] == "ann"
    assert told[0]["timestamp"] > told[1]["timestamp"]
    limited = team.call("graph_onboard", project="p", evidence_limit=2)["recent_evidence"]
    assert limited == told[:2]


def test_twenty_entries_of_evidence_unless_asked_otherwise(team: Team) -> None:
    ids = team.plan(*({"ref": str(number)} for number in range(60)))
    for node_id in ids.values():
        team.resolve(node_id)
    assert len(team.call("graph_onboard", project="p")["recent_evidence"]) == 20
    assert len(team.call("graph_onboard", project="p", evidence_limit=50)["recent_evidence"]) == 50
    for limit in (0, 51):
        assert team.refusal("graph_onboard", project="p", evidence_limit=limit)["error"] == "validation_error"


def test_nothing_is_claimed_by_it_and_nothing_claimed_is_offered(team: Team, ids: dict[str, str]) -> None:
    before = team.log.head()
    team.call("graph_onboard", project="p")
    assert team.log.head() == before
    team.next(claim=True)
    mine = team.call("graph_onboard", project="p")
    assert mine["your_claims"] == [ids["d"]]
    assert summaries(mine["actionable"]) == ["b", "e"]
    with team.as_("bob"):
        assert "your_claims" not in team.call("graph_onboard", project="p")


def test_at_most_ten_actionable_nodes_are_offered(team: Team) -> None:
    team.plan(*({"ref": str(number)} for number in range(15)))
    assert summaries(team.call("graph_onboard", project="p")["actionable"]) == team.next(count=10)


def test_the_only_project_need_not_be_named(team: Team) -> None:
    assert team.call("graph_onboard")["project"] == "p"
    team.open("q")
    told = team.refusal("graph_onboard")
    assert (told["error"], told["projects"]) == ("project_not_found", ["p", "q"])


def test_without_a_project_it_says_how_to_begin() -> None:
    with working() as team:
        told = team.refusal("graph_onboard")
        assert (told["error"], told["hint"]) == ("project_not_found", "graph_open makes one")


def test_an_agent_that_joined_plans_into_that_project(team: Team) -> None:
    root = team.open("p")
    team.open("q")
    with team.as_("bob"):
        team.call("graph_onboard", project="p")
        assert team.node(team.plan({"ref": "a"})["a"])["parent"] == root


def test_long_links_and_refs_are_cut(team: Team) -> None:
    node_id = team.plan({"ref": "a", "context_links": ["l" * 900]})["a"]
    team.resolve(node_id, add_evidence=[{"type": "note", "ref": "r" * 3_000}])
    told = team.call("graph_onboard", project="p")
    assert len(told["context_links"][0]) == 120
    assert len(told["recent_evidence"][0]["ref"]) == 80
