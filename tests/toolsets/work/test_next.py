"""graph_next: what is handed out, in which order, and to whom."""

from __future__ import annotations

from typing import Any

import pytest

from tests.promises import promise
from tests.toolsets.work.agents import MINUTE, Links, WorkAgent, working


def test_actionable_is_unresolved_without_open_children_and_with_every_dependency_resolved(agent: WorkAgent) -> None:
    ids = agent.plan(
        {"ref": "parent"},
        {"ref": "child", "parent_ref": "parent"},
        {"ref": "waiting", "depends_on": ["child"]},
        {"ref": "both", "depends_on": ["child", "waiting"]},
    )
    assert agent.next(count=9) == ["child"]
    agent.resolve(ids["child"])
    assert agent.next(count=9) == ["parent", "waiting"]
    agent.resolve(ids["waiting"])
    assert agent.next(count=9) == ["parent", "both"]


@promise("W5", "the root is work too")
def test_the_root_is_work_too_alone_at_first_and_again_at_the_end(agent: WorkAgent) -> None:
    assert agent.next() == ["Ship it"]
    only = agent.plan({"ref": "only"})["only"]
    assert agent.next(count=9) == ["only"]
    agent.resolve(only)
    assert agent.next(count=9) == ["Ship it"]
    agent.resolve(agent.open())
    assert agent.call("graph_next", project="p") == {"nodes": [], "hint": "everything is resolved"}


# -- ranking


@promise("graph_next, priority", "higher priority first")
def test_higher_priority_comes_first_and_what_is_no_number_counts_as_nothing(agent: WorkAgent) -> None:
    priorities: list[Any] = [None, "high", True, [9], 1, "2.5", 3, -1]
    agent.plan(*({"ref": repr(each), "properties": {"priority": each}} for each in priorities))
    assert agent.next(count=9) == ["3", "'2.5'", "1", "None", "'high'", "True", "[9]", "-1"]


@promise("graph_next, depth", "then the deeper")
def test_then_the_deeper_comes_first(agent: WorkAgent) -> None:
    agent.plan(
        {"ref": "shallow"},
        {"ref": "a"},
        {"ref": "deep", "parent_ref": "a"},
        {"ref": "b", "parent_ref": "a"},
        {"ref": "deepest", "parent_ref": "b"},
        {"ref": "important", "properties": {"priority": 1}},
    )
    assert agent.next(count=9) == ["important", "deepest", "deep", "shallow"]


@promise("graph_next, starvation", "then the least recently updated")
def test_then_the_least_recently_updated_and_then_the_oldest(agent: WorkAgent) -> None:
    ids = agent.plan(*({"ref": ref} for ref in "abc"))
    assert agent.next(count=9) == ["a", "b", "c"]
    agent.update(ids["a"], state="looked at")
    assert agent.next(count=9) == ["b", "c", "a"]


# -- which ones


@promise("W28", "count is brought between 1 and 50")
def test_count_is_brought_between_1_and_50(agent: WorkAgent) -> None:
    agent.plan(*({"ref": str(number)} for number in range(60)))
    for asked, given in ((-3, 1), (0, 1), (1, 1), (7, 7), (50, 50), (51, 50), (10**9, 50)):
        assert len(agent.next(count=asked)) == given


def test_a_scope_leaves_only_what_is_below_it(agent: WorkAgent) -> None:
    ids = agent.plan(
        {"ref": "a", "properties": {"priority": 9}},
        {"ref": "b"},
        {"ref": "c", "parent_ref": "b"},
        {"ref": "d", "parent_ref": "c"},
    )
    assert agent.next(count=9, scope=ids["b"]) == ["d"]
    assert agent.next(count=9, scope=ids["d"]) == []
    assert agent.refusal("graph_next", project="p", scope="nobody")["error"] == "node_not_found"
    assert agent.refusal("graph_next", project="p", scope=agent.open("q"))["error"] == "cross_project"


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


@promise("W25", "a filter asks for equal properties, null for absent ones")
@pytest.mark.parametrize(("wanted", "found"), FILTERS)
def test_a_filter_asks_for_equal_properties_and_null_for_absent_ones(
    agent: WorkAgent, wanted: dict[str, Any], found: list[str]
) -> None:
    agent.plan(
        {"ref": "a", "properties": {"area": "ui", "size": 1, "flag": True}},
        {"ref": "b", "properties": {"area": "ui", "size": 2, "flag": 1}},
        {"ref": "c", "properties": {"a.b": 1, "long": "l" * 200}},
        {"ref": "d", "properties": {"a": {"b": 1}, "list": ["x", "y"]}},
    )
    assert agent.next(count=9, filter=wanted) == found
    assert agent.found(properties=wanted, is_actionable=True) == found


@promise("W4", "an unknown project is answered with those there are")
def test_an_unknown_project_is_answered_with_those_there_are(agent: WorkAgent) -> None:
    for tool in ("graph_next", "graph_query", "graph_onboard"):
        told = agent.refusal(tool, project="nope")
        assert (told["error"], told["projects"]) == ("project_not_found", ["p"])


# -- what comes with a node


@promise("graph_next", "a node comes with ancestors, links and what unblocked it")
def test_a_node_comes_with_its_ancestors_links_and_what_unblocked_it(agent: WorkAgent) -> None:
    root = agent.open()
    agent.update(root, add_context_links=["README.md"])
    ids = agent.plan(
        {"ref": "part", "context_links": ["docs/part.md"]},
        {"ref": "bare", "parent_ref": "part"},
        {"ref": "first", "parent_ref": "bare"},
        {"ref": "second", "parent_ref": "bare", "depends_on": ["first"], "context_links": ["src/second.py"]},
    )
    agent.resolve(ids["first"], add_evidence=[{"type": "git", "ref": "abc123"}])
    (told,) = agent.call("graph_next", project="p")["nodes"]
    assert told["node"] == agent.node(ids["second"])
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


def test_nothing_to_do_says_why(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"}, {"ref": "b", "depends_on": ["a"]})
    with agent.as_("bob"):
        agent.next(claim=True)
    told = agent.call("graph_next", project="p")
    assert told["nodes"] == []
    assert told["hint"].endswith("of 3 unresolved nodes 1 are blocked, 1 actionable, 1 of these claimed")
    told = agent.call("graph_next", project="p", scope=ids["a"])
    assert told["hint"].startswith("nothing to hand out in this scope")


@promise("graph_next, knowledge", "knowledge of the links comes along when there is any")
def test_knowledge_comes_with_a_node_when_there_is_any() -> None:
    with working(knowledge=Links()) as agent:
        agent.open()
        ids = agent.plan(
            {"ref": "a", "context_links": ["a.py"]}, {"ref": "b", "parent_ref": "a", "context_links": ["b.py", "x"]}
        )
        (told,) = agent.call("graph_next", project="p")["nodes"]
        assert told["knowledge"] == {"links": ["b.py", "x", "a.py"], "fresh": True}
        assert agent.call("graph_context", node_id=ids["a"])["knowledge"] == {"links": ["a.py"], "fresh": True}
        (told,) = agent.call("graph_next", project="p", claim=True)["nodes"]
        assert told["knowledge"]["fresh"] is True
        assert "knowledge" not in agent.call("graph_context", node_id=agent.open())


# -- claims


@promise("graph_next, claim", "a claim marks the node with agent and time")
def test_a_claim_marks_the_node_with_the_agent_and_the_time(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"})
    (told,) = agent.call("graph_next", project="p", claim=True)["nodes"]
    node = told["node"]
    assert node["properties"] == {"_claimed_by": "ann", "_claimed_at": node["updated_at"]}
    assert node["rev"] == 2
    assert agent.node(ids["a"]) == node


def test_without_claim_nothing_is_marked(agent: WorkAgent) -> None:
    agent.plan({"ref": "a"})
    before = agent.log.head()
    assert agent.next() == agent.next() == ["a"]
    assert agent.log.head() == before


@promise("graph_next, claimed", "others get the next one")
def test_others_get_the_next_one(agent: WorkAgent) -> None:
    agent.plan({"ref": "a", "properties": {"priority": 1}}, {"ref": "b"})
    assert agent.next(claim=True) == ["a"]
    with agent.as_("bob"):
        assert agent.next(claim=True) == ["b"]
    with agent.as_("cyd"):
        assert agent.next(claim=True) == []
        assert agent.next() == []


@promise("W29, renewal", "the owner's claim is renewed")
def test_the_owner_gets_it_again_and_its_claim_is_renewed(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"})
    agent.next(claim=True)
    first = agent.node(ids["a"])["properties"]["_claimed_at"]
    agent.now += 30 * MINUTE
    assert agent.next(claim=True) == ["a"]
    assert agent.node(ids["a"])["properties"]["_claimed_at"] > first
    agent.now += 45 * MINUTE
    with agent.as_("bob"):
        assert agent.next() == [], "an hour after the first claim, but not after the second"


@promise("W30", "a claim is stale from its sixtieth minute on")
def test_a_claim_is_stale_from_its_sixtieth_minute_on(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"})
    agent.next(claim=True)
    claimed = agent.now
    with agent.as_("bob"):
        agent.now = claimed + 60 * MINUTE - 2 * 1_000
        assert agent.next() == []
        assert agent.next(claim=True) == ["a"]
    assert agent.node(ids["a"])["properties"]["_claimed_by"] == "bob"


def test_the_time_to_live_is_a_setting() -> None:
    from tallystick.work_settings import WorkSettings

    with working(settings=WorkSettings(claim_ttl_minutes=1)) as agent:
        agent.open()
        agent.plan({"ref": "a"})
        agent.next(claim=True)
        with agent.as_("bob"):
            assert agent.next() == []
            agent.now += MINUTE
            assert agent.next() == ["a"]


@promise("W29, release", "a claim is released by clearing its properties")
def test_a_claim_is_released_by_clearing_its_properties(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"})
    agent.next(claim=True)
    agent.update(ids["a"], properties={"_claimed_by": None, "_claimed_at": None})
    with agent.as_("bob"):
        assert agent.next(claim=True) == ["a"]


def test_resolving_leaves_the_claim(agent: WorkAgent) -> None:
    ids = agent.plan({"ref": "a"})
    agent.next(claim=True)
    agent.resolve(ids["a"])
    assert agent.node(ids["a"])["properties"]["_claimed_by"] == "ann"


def test_a_claim_without_a_time_holds_nobody_up(agent: WorkAgent) -> None:
    agent.plan({"ref": "a", "properties": {"_claimed_by": "bob", "_claimed_at": "soon"}})
    assert agent.next() == ["a"]


@promise("W29", "claiming several is one draft")
def test_claiming_several_claims_them_all_at_once(agent: WorkAgent) -> None:
    agent.plan(*({"ref": str(number)} for number in range(5)))
    before = agent.log.head().count
    assert agent.next(count=3, claim=True) == ["0", "1", "2"]
    assert agent.log.head().count == before + 3
    with agent.as_("bob"):
        assert agent.next(count=9, claim=True) == ["3", "4"]


def test_agents_who_ask_at_once_never_get_the_same_node(agent: WorkAgent) -> None:
    agent.plan(*({"ref": str(number)} for number in range(20)))
    calls = [(f"agent {number}", "graph_next", {"project": "p", "claim": True, "count": 2}) for number in range(8)]
    given = [each["node"]["summary"] for told in agent.together(calls) for each in told["nodes"]]
    assert len(given) == 16
    assert len(set(given)) == 16


@promise("X15, claims", "what does not fit into an answer is not claimed")
def test_what_does_not_fit_into_an_answer_is_not_claimed(agent: WorkAgent) -> None:
    large = {"text": "x" * 9_000}
    agent.plan(*({"ref": str(number), "properties": large} for number in range(20)))
    given = agent.next(count=20, claim=True)
    assert 1 <= len(given) < 20
    assert agent.query(filter={"claimed_by": "ann"})["total"] == len(given)
