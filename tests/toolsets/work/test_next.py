"""graph_next: what is handed out, in which order, and to whom."""

from __future__ import annotations

from typing import Any

import pytest

from tests.toolsets.work.agents import MINUTE, Links, Team, working


def test_actionable_is_unresolved_without_open_children_and_with_every_dependency_resolved(team: Team) -> None:
    ids = team.plan(
        {"ref": "parent"},
        {"ref": "child", "parent_ref": "parent"},
        {"ref": "waiting", "depends_on": ["child"]},
        {"ref": "both", "depends_on": ["child", "waiting"]},
    )
    assert team.next(count=9) == ["child"]
    team.resolve(ids["child"])
    assert team.next(count=9) == ["parent", "waiting"]
    team.resolve(ids["waiting"])
    assert team.next(count=9) == ["parent", "both"]


def test_the_root_is_work_too_alone_at_first_and_again_at_the_end(team: Team) -> None:
    assert team.next() == ["Ship it"]
    only = team.plan({"ref": "only"})["only"]
    assert team.next(count=9) == ["only"]
    team.resolve(only)
    assert team.next(count=9) == ["Ship it"]
    team.resolve(team.open())
    assert team.call("graph_next", project="p") == {"nodes": [], "hint": "everything is resolved"}


# -- ranking


def test_higher_priority_comes_first_and_what_is_no_number_counts_as_nothing(team: Team) -> None:
    priorities: list[Any] = [None, "high", True, [9], 1, "2.5", 3, -1]
    team.plan(*({"ref": repr(each), "properties": {"priority": each}} for each in priorities))
    assert team.next(count=9) == ["3", "'2.5'", "1", "None", "'high'", "True", "[9]", "-1"]


def test_then_the_deeper_comes_first(team: Team) -> None:
    team.plan(
        {"ref": "shallow"},
        {"ref": "a"},
        {"ref": "deep", "parent_ref": "a"},
        {"ref": "b", "parent_ref": "a"},
        {"ref": "deepest", "parent_ref": "b"},
        {"ref": "important", "properties": {"priority": 1}},
    )
    assert team.next(count=9) == ["important", "deepest", "deep", "shallow"]


def test_then_the_least_recently_updated_and_then_the_oldest(team: Team) -> None:
    ids = team.plan(*({"ref": ref} for ref in "abc"))
    assert team.next(count=9) == ["a", "b", "c"]
    team.update(ids["a"], state="looked at")
    assert team.next(count=9) == ["b", "c", "a"]


# -- which ones


def test_count_is_brought_between_1_and_50(team: Team) -> None:
    team.plan(*({"ref": str(number)} for number in range(60)))
    for asked, given in ((-3, 1), (0, 1), (1, 1), (7, 7), (50, 50), (51, 50), (10**9, 50)):
        assert len(team.next(count=asked)) == given


def test_a_scope_leaves_only_what_is_below_it(team: Team) -> None:
    ids = team.plan(
        {"ref": "a", "properties": {"priority": 9}},
        {"ref": "b"},
        {"ref": "c", "parent_ref": "b"},
        {"ref": "d", "parent_ref": "c"},
    )
    assert team.next(count=9, scope=ids["b"]) == ["d"]
    assert team.next(count=9, scope=ids["d"]) == []
    assert team.refusal("graph_next", project="p", scope="nobody")["error"] == "node_not_found"
    assert team.refusal("graph_next", project="p", scope=team.open("q"))["error"] == "cross_project"


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"area": "ui"}, ["a", "b"]),
    ({"area": "ui", "size": 1}, ["a"]),
    ({"size": 1.0}, ["a"]),
    ({"size": "1"}, []),
    ({"flag": True}, ["a"]),
    ({"flag": 1}, ["b"]),
    ({"area": None}, ["c", "d"]),
    ({"a.b": 1}, ["c"]),
    ({"a": {"b": 1}}, ["d"]),
    ({"list": ["x", "y"]}, ["d"]),
    ({"list": "x"}, []),
    ({"long": "l" * 200}, ["c"]),
    ({}, ["a", "b", "c", "d"]),
]


@pytest.mark.parametrize(("wanted", "found"), FILTERS)
def test_a_filter_asks_for_equal_properties_and_null_for_absent_ones(
    team: Team, wanted: dict[str, Any], found: list[str]
) -> None:
    team.plan(
        {"ref": "a", "properties": {"area": "ui", "size": 1, "flag": True}},
        {"ref": "b", "properties": {"area": "ui", "size": 2, "flag": 1}},
        {"ref": "c", "properties": {"a.b": 1, "long": "l" * 200}},
        {"ref": "d", "properties": {"a": {"b": 1}, "list": ["x", "y"]}},
    )
    assert team.next(count=9, filter=wanted) == found
    assert team.found(properties=wanted, is_actionable=True) == found


def test_an_unknown_project_is_answered_with_those_there_are(team: Team) -> None:
    for tool in ("graph_next", "graph_query", "graph_onboard"):
        told = team.refusal(tool, project="nope")
        assert (told["error"], told["projects"]) == ("project_not_found", ["p"])


# -- what comes with a node


def test_a_node_comes_with_its_ancestors_links_and_what_unblocked_it(team: Team) -> None:
    root = team.open()
    team.update(root, add_context_links=["README.md"])
    ids = team.plan(
        {"ref": "part", "context_links": ["docs/part.md"]},
        {"ref": "bare", "parent_ref": "part"},
        {"ref": "first", "parent_ref": "bare"},
        {"ref": "second", "parent_ref": "bare", "depends_on": ["first"], "context_links": ["src/second.py"]},
    )
    team.resolve(ids["first"], add_evidence=[{"type": "git", "ref": "abc123"}])
    (told,) = team.call("graph_next", project="p")["nodes"]
    assert told["node"] == team.node(ids["second"])
    assert told["ancestors"] == [
        {"id": root, "summary": "Ship it"},
        {"id": ids["part"], "summary": "part"},
        {"id": ids["bare"], "summary": "bare"},
    ]
    assert told["context_links"] == {
        "self": ["src/second.py"],
        "inherited": [
            {"node_id": root, "links": ["README.md"]},
            {"node_id": ids["part"], "links": ["docs/part.md"]},
        ],
    }
    (done,) = told["resolved_deps"]
    assert (done["id"], done["summary"]) == (ids["first"], "first")
    assert [(each["type"], each["ref"], each["agent"]) for each in done["evidence"]] == [("git", "abc123", "ann")]


def test_nothing_to_do_says_why(team: Team) -> None:
    ids = team.plan({"ref": "a"}, {"ref": "b", "depends_on": ["a"]})
    with team.as_("bob"):
        team.next(claim=True)
    told = team.call("graph_next", project="p")
    assert told["nodes"] == []
    assert told["hint"].endswith("of 3 unresolved nodes 1 are blocked, 1 actionable, 1 of these claimed")
    told = team.call("graph_next", project="p", scope=ids["a"])
    assert told["hint"].startswith("nothing to hand out in this scope")


def test_knowledge_comes_with_a_node_when_there_is_any() -> None:
    with working(knowledge=Links()) as team:
        team.open()
        ids = team.plan(
            {"ref": "a", "context_links": ["a.py"]}, {"ref": "b", "parent_ref": "a", "context_links": ["b.py", "x"]}
        )
        (told,) = team.call("graph_next", project="p")["nodes"]
        assert told["knowledge"] == {"links": ["b.py", "x", "a.py"], "fresh": True}
        assert team.call("graph_context", node_id=ids["a"])["knowledge"] == {"links": ["a.py"], "fresh": True}
        (told,) = team.call("graph_next", project="p", claim=True)["nodes"]
        assert told["knowledge"]["fresh"] is True
        assert "knowledge" not in team.call("graph_context", node_id=team.open())


# -- claims


def test_a_claim_marks_the_node_with_the_agent_and_the_time(team: Team) -> None:
    ids = team.plan({"ref": "a"})
    (told,) = team.call("graph_next", project="p", claim=True)["nodes"]
    node = told["node"]
    assert node["properties"] == {"_claimed_by": "ann", "_claimed_at": node["updated_at"]}
    assert node["rev"] == 2
    assert team.node(ids["a"]) == node


def test_without_claim_nothing_is_marked(team: Team) -> None:
    team.plan({"ref": "a"})
    before = team.log.head()
    assert team.next() == team.next() == ["a"]
    assert team.log.head() == before


def test_others_get_the_next_one(team: Team) -> None:
    team.plan({"ref": "a", "properties": {"priority": 1}}, {"ref": "b"})
    assert team.next(claim=True) == ["a"]
    with team.as_("bob"):
        assert team.next(claim=True) == ["b"]
    with team.as_("cyd"):
        assert team.next(claim=True) == []
        assert team.next() == []


def test_the_owner_gets_it_again_and_its_claim_is_renewed(team: Team) -> None:
    ids = team.plan({"ref": "a"})
    team.next(claim=True)
    first = team.node(ids["a"])["properties"]["_claimed_at"]
    team.now += 30 * MINUTE
    assert team.next(claim=True) == ["a"]
    assert team.node(ids["a"])["properties"]["_claimed_at"] > first
    team.now += 45 * MINUTE
    with team.as_("bob"):
        assert team.next() == [], "an hour after the first claim, but not after the second"


def test_a_claim_is_stale_from_its_sixtieth_minute_on(team: Team) -> None:
    ids = team.plan({"ref": "a"})
    team.next(claim=True)
    claimed = team.now
    with team.as_("bob"):
        team.now = claimed + 60 * MINUTE - 2 * 1_000
        assert team.next() == []
        assert team.next(claim=True) == ["a"]
    assert team.node(ids["a"])["properties"]["_claimed_by"] == "bob"


def test_the_time_to_live_is_a_setting() -> None:
    from tallystick.toolsets.work.settings import WorkSettings

    with working(settings=WorkSettings(claim_ttl_minutes=1)) as team:
        team.open()
        team.plan({"ref": "a"})
        team.next(claim=True)
        with team.as_("bob"):
            assert team.next() == []
            team.now += MINUTE
            assert team.next() == ["a"]


def test_a_claim_is_released_by_clearing_its_properties(team: Team) -> None:
    ids = team.plan({"ref": "a"})
    team.next(claim=True)
    team.update(ids["a"], properties={"_claimed_by": None, "_claimed_at": None})
    with team.as_("bob"):
        assert team.next(claim=True) == ["a"]


def test_resolving_leaves_the_claim(team: Team) -> None:
    ids = team.plan({"ref": "a"})
    team.next(claim=True)
    team.resolve(ids["a"])
    assert team.node(ids["a"])["properties"]["_claimed_by"] == "ann"


def test_a_claim_without_a_time_holds_nobody_up(team: Team) -> None:
    team.plan({"ref": "a", "properties": {"_claimed_by": "bob", "_claimed_at": "soon"}})
    assert team.next() == ["a"]


def test_claiming_several_claims_them_all_at_once(team: Team) -> None:
    team.plan(*({"ref": str(number)} for number in range(5)))
    before = team.log.head().count
    assert team.next(count=3, claim=True) == ["0", "1", "2"]
    assert team.log.head().count == before + 3
    with team.as_("bob"):
        assert team.next(count=9, claim=True) == ["3", "4"]


def test_agents_who_ask_at_once_never_get_the_same_node(team: Team) -> None:
    team.plan(*({"ref": str(number)} for number in range(20)))
    calls = [(f"agent {number}", "graph_next", {"project": "p", "claim": True, "count": 2}) for number in range(8)]
    given = [each["node"]["summary"] for told in team.together(calls) for each in told["nodes"]]
    assert len(given) == 16
    assert len(set(given)) == 16


def test_what_does_not_fit_into_an_answer_is_not_claimed(team: Team) -> None:
    large = {"text": "x" * 9_000}
    team.plan(*({"ref": str(number), "properties": large} for number in range(20)))
    given = team.next(count=20, claim=True)
    assert 1 <= len(given) < 20
    assert team.query(filter={"claimed_by": "ann"})["total"] == len(given)
