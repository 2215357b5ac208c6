"""graph_query: filters, orders and pages."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from tests.promises import promise
from tests.toolsets.work.agents import MINUTE, WorkAgent, summaries


@pytest.fixture
def ids(agent: WorkAgent) -> dict[str, str]:
    """a(b(c) d) e; c waits for e, d is done and has evidence."""
    ids = agent.plan(
        {"ref": "a", "summary": "Build the Straße"},
        {"ref": "b", "parent_ref": "a", "summary": "b", "properties": {"area": "ui"}},
        {"ref": "c", "parent_ref": "b", "summary": "c", "depends_on": ["e"]},
        {"ref": "d", "parent_ref": "a", "summary": "d 100% (done)"},
        {"ref": "e", "summary": "e", "properties": {"priority": 2}},
    )
    agent.resolve(ids["d"], add_evidence=[{"type": "git", "ref": "1"}, {"type": "test", "ref": "ok"}])
    return ids


A, D = "Build the Straße", "d 100% (done)"
FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["Ship it", A, "b", "c", D, "e"]),
    ({"resolved": True}, [D]),
    ({"resolved": False}, ["Ship it", A, "b", "c", "e"]),
    ({"properties": {"area": "ui"}}, ["b"]),
    ({"properties": {"area": None}, "resolved": True}, [D]),
    ({"properties": {"nothing": 1}}, []),
    ({"text": "STRASSE"}, [A]),
    ({"text": "100%"}, [D]),
    ({"text": "(DONE"}, [D]),
    ({"text": ".*"}, []),
    ({"text": ""}, ["Ship it", A, "b", "c", D, "e"]),
    ({"has_evidence_type": "git"}, [D]),
    ({"has_evidence_type": "test"}, [D]),
    ({"has_evidence_type": "note"}, []),
    ({"is_leaf": True}, ["c", D, "e"]),
    ({"is_leaf": False}, ["Ship it", A, "b"]),
    ({"is_actionable": True}, ["e"]),
    ({"is_actionable": False}, ["Ship it", A, "b", "c", D]),
    ({"is_blocked": True}, ["c"]),
    ({"is_blocked": False, "is_leaf": True}, [D, "e"]),
    ({"claimed_by": None, "is_leaf": True}, ["c", D, "e"]),
    ({"claimed_by": "ann"}, []),
    ({"is_leaf": True, "resolved": False, "text": "E"}, ["e"]),
]


@promise("graph_query", "each filter finds exactly what it means")
@pytest.mark.parametrize(("wanted", "found"), FILTERS)
def test_each_filter_finds_exactly_what_it_means(
    agent: WorkAgent, ids: dict[str, str], wanted: dict[str, Any], found: list[str]
) -> None:
    assert agent.found(**wanted) == found


@promise("W37", "a leaf has no unresolved children")
def test_a_leaf_has_no_unresolved_children(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.resolve(ids["c"])
    assert "b" in agent.found(is_leaf=True)


@promise("W36", "an ancestor finds its descendants and not itself")
def test_an_ancestor_finds_its_descendants_and_not_itself(agent: WorkAgent, ids: dict[str, str]) -> None:
    assert agent.found(ancestor=ids["a"]) == ["b", "c", D]
    assert agent.found(ancestor=ids["c"]) == []
    agent.plan({"ref": "late", "parent_ref": ids["c"]})
    assert agent.found(ancestor=ids["a"]) == ["b", "c", D, "late"], "what was found before is not remembered too long"
    assert agent.refusal("graph_query", project="p", filter={"ancestor": "nobody"})["error"] == "node_not_found"
    other = agent.open("q")
    assert agent.refusal("graph_query", project="p", filter={"ancestor": other})["error"] == "cross_project"


@promise("W31", "claimed_by counts live claims only")
def test_claimed_by_counts_live_claims_only(agent: WorkAgent, ids: dict[str, str]) -> None:
    with agent.as_("bob"):
        agent.next(claim=True)
    assert agent.found(claimed_by="bob") == ["e"]
    assert agent.found(claimed_by="ann") == []
    assert "e" not in agent.found(claimed_by=None)
    agent.now += 60 * MINUTE
    assert agent.found(claimed_by="bob") == []
    assert "e" in agent.found(claimed_by=None)


def test_a_node_is_told_in_short(agent: WorkAgent, ids: dict[str, str]) -> None:
    agent.update(ids["b"], state={"phase": 1})
    (told,) = agent.query(filter={"text": "b", "properties": {"area": "ui"}})["nodes"]
    assert told == {
        "id": ids["b"],
        "summary": "b",
        "resolved": False,
        "state": {"phase": 1},
        "parent": ids["a"],
        "depth": 2,
        "properties": {"area": "ui"},
    }


# -- order


@promise("W34", "readiness is actionable, then waiting, then resolved")
def test_readiness_is_actionable_in_the_order_of_next_then_waiting_then_resolved(agent: WorkAgent) -> None:
    ids = agent.plan(
        {"ref": "blocked", "depends_on": ["low"]},
        {"ref": "low"},
        {"ref": "high", "properties": {"priority": 9}},
        {"ref": "done"},
        {"ref": "waiting"},
        {"ref": "deep", "parent_ref": "waiting"},
    )
    agent.resolve(ids["done"])
    expected = ["high", "deep", "low", "Ship it", "blocked", "waiting", "done"]
    assert summaries(agent.query()["nodes"]) == expected
    assert summaries(agent.query(sort="readiness")["nodes"]) == expected


def test_the_other_orders(agent: WorkAgent, ids: dict[str, str]) -> None:
    assert summaries(agent.query(sort="depth")["nodes"]) == ["Ship it", A, "e", "b", D, "c"]
    assert summaries(agent.query(sort="created")["nodes"]) == ["Ship it", A, "b", "c", D, "e"]
    agent.update(ids["b"], state=1)
    assert summaries(agent.query(sort="recent")["nodes"]) == ["b", D, "e", "c", A, "Ship it"]


@promise("graph_query, pages", "pages have no gap and no repetition")
@pytest.mark.parametrize("few", [4_096, 0])
@pytest.mark.parametrize("sort", ["readiness", "depth", "recent", "created"])
def test_pages_follow_each_other_without_gap_or_repetition(
    agent: WorkAgent, monkeypatch: pytest.MonkeyPatch, sort: str, few: int
) -> None:
    """Whether the few are sorted when asked, or the kept order is walked along."""
    monkeypatch.setattr("tallystick.state.work.queries._FEW", few)
    ids = agent.plan(
        *(
            {"ref": str(number), "properties": {"priority": number % 3}}
            | ({"parent_ref": str(number - 1)} if number % 4 else {})
            | ({"depends_on": [str(number - 3)]} if number % 5 == 0 and number else {})
            for number in range(40)
        )
    )
    agent.call("graph_update", updates=[{"node_id": ids[str(n)], "resolved": True} for n in range(0, 40, 3)])
    whole = agent.query(sort=sort, limit=100)
    assert (whole["total"], len(whole["nodes"]), "next_cursor" in whole) == (41, 41, False)
    pages: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        told = agent.query(sort=sort, limit=7, **cursor)
        assert told["total"] == 41
        pages += [node["id"] for node in told["nodes"]]
        if "next_cursor" not in told:
            break
        cursor = {"cursor": told["next_cursor"]}
    assert pages == [node["id"] for node in whole["nodes"]]
    wanted: dict[str, Any] = {"filter": {"resolved": False, "is_leaf": True}, "sort": sort}
    first = agent.query(limit=5, **wanted)
    rest = agent.query(limit=100, cursor=first["next_cursor"], **wanted)
    assert first["nodes"] + rest["nodes"] == agent.query(limit=100, **wanted)["nodes"]


@promise("W35", "limit is at most 100 and at least 1")
def test_limit_is_20_at_most_100_and_at_least_1(agent: WorkAgent) -> None:
    agent.plan(*({"ref": str(number)} for number in range(120)))
    assert len(agent.query()["nodes"]) == 20
    assert len(agent.query(limit=1_000)["nodes"]) == 100
    for limit in (0, -5):
        told = agent.refusal("graph_query", project="p", limit=limit)
        assert (told["error"], told["message"]) == (
            "validation_error",
            "field 'limit' must be greater than or equal to 1",
        )


def test_a_page_is_cut_where_an_agents_context_would_overflow(agent: WorkAgent) -> None:
    agent.plan(*({"ref": str(number), "properties": {"text": "x" * 9_000}} for number in range(20)))
    told = agent.query(limit=100, sort="created")
    assert len(told["nodes"]) < 20
    rest = agent.query(limit=100, sort="created", cursor=told["next_cursor"])
    assert rest["nodes"][0]["id"] not in {node["id"] for node in told["nodes"]}


@promise("W34, cursor", "a cursor is good for its own question only")
def test_a_cursor_is_good_for_its_own_question_only(agent: WorkAgent) -> None:
    agent.plan(*({"ref": str(number)} for number in range(5)))
    agent.open("q")
    cursor = agent.query(limit=2, sort="recent")["next_cursor"]
    garbage = base64.urlsafe_b64encode(b'["recent",1]').decode()
    strange = base64.urlsafe_b64encode(b'["created",0,"x"]').decode()
    for asked in (
        {"sort": "created", "cursor": cursor},
        {"cursor": cursor},
        {"sort": "recent", "cursor": cursor, "filter": {"resolved": False}},
        {"sort": "recent", "cursor": cursor, "project": "q"},
        {"sort": "recent", "cursor": "§§§"},
        {"sort": "recent", "cursor": ""},
        {"sort": "recent", "cursor": garbage},
        {"sort": "created", "cursor": strange},
    ):
        told = agent.refusal("graph_query", **{"project": "p", **asked})
        assert told["error"] == "validation_error"
        assert "field 'cursor'" in told["message"]


def test_a_forged_place_in_an_order_is_harmless(agent: WorkAgent) -> None:
    agent.plan(*({"ref": str(number)} for number in range(5)))
    genuine = agent.query(limit=2, sort="created")["next_cursor"]
    sort, question, _ = orjson.loads(base64.urlsafe_b64decode(genuine))
    for place in (-(10**15), 10**15, 1.5):
        forged = base64.urlsafe_b64encode(orjson.dumps([sort, question, place])).decode()
        assert agent.query(sort="created", cursor=forged)["total"] == 6


def test_mistakes_are_named(agent: WorkAgent) -> None:
    for asked, sentence in (
        ({}, "field 'project' is required"),
        ({"project": "p", "sort": "name"}, "field 'sort' must be 'readiness', 'depth', 'recent' or 'created'"),
        ({"project": "p", "filter": {"colour": 1}}, "field 'filter.colour' is not allowed"),
        ({"project": "p", "filter": {"resolved": "no"}}, "field 'filter.resolved' must be true or false"),
    ):
        told = agent.refusal("graph_query", **asked)
        assert (told["error"], told["message"]) == ("validation_error", sentence)
