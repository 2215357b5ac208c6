from __future__ import annotations

from typing import Any

import pytest

from tallystick.state import Lineage, Summary
from tallystick.state.lineage import difference
from tests.state.logged_state import HOUR, LoggedState


def lineage(logged: LoggedState, entity_id: str, depth: Any = "direct", offset: int = 0, limit: int = 100) -> Lineage:
    found = logged.state.lineage(entity_id, depth, offset, limit)
    assert found is not None
    return found


def told(found: Lineage) -> list[tuple[int, str, Any]]:
    return [(step.commit.lamport, step.action, step.changes) for step in found.steps]


@pytest.fixture
def logged() -> LoggedState:
    logged = LoggedState()
    logged.node("a", "task", x=1, y={"z": 2})  # 1
    logged.node("b")  # 2
    logged.node("a", "plan", x=1, y={"z": 3})  # 3
    logged.edge("a", "r", "b", w=1)  # 4
    logged.node("a", "plan", x=1, y={"z": 3})  # 5
    logged.edge("a", "r", "b", w=2)  # 6
    logged.delete("a")  # 7 (the edge), 8
    logged.redact("a")  # 9
    logged.node("a", "task", n=1)  # 10
    logged.edge("b", "s", "a")  # 11
    return logged


NODE_STEPS = [
    (1, "CREATE_NODE", None),
    (3, "UPDATE_NODE", {"type": "plan", "attrs.y.z": 3}),
    (5, "UPDATE_NODE", {}),
    (8, "DELETE_NODE", None),
    (9, "REDACT_NODE", None),
    (10, "CREATE_NODE", None),
]
EDGE_STEPS = [(4, "CREATE_EDGE", None), (6, "UPDATE_EDGE", {"attrs.w": 2}), (7, "DELETE_EDGE", None)]


def test_direct_lineage_is_what_was_done_to_the_entity_itself(logged: LoggedState) -> None:
    found = lineage(logged, "a")
    assert told(found) == NODE_STEPS
    assert (found.type, found.total) == ("task", 6)
    assert found.current == logged.state.node("a")


def test_full_lineage_has_the_edges_too_even_dead_ones(logged: LoggedState) -> None:
    expected = sorted([*NODE_STEPS, *EDGE_STEPS, (11, "CREATE_EDGE", None)], key=lambda step: step[0])
    assert told(lineage(logged, "a", "full")) == expected


def test_an_edge_has_a_lineage_too(logged: LoggedState) -> None:
    found = lineage(logged, "a|r|b", "full")
    assert told(found) == EDGE_STEPS
    assert (found.type, found.current, found.edge) == ("r", None, None)
    alive = lineage(logged, "b|s|a")
    assert alive.edge == logged.state.edge("b", "s", "a")


def test_a_page_of_lineage_knows_the_version_before_it(logged: LoggedState) -> None:
    pages = [lineage(logged, "a", offset=offset, limit=2) for offset in (0, 2, 4, 6)]
    assert [step for page in pages for step in told(page)] == NODE_STEPS
    assert {page.total for page in pages} == {6}


def test_what_never_was_has_no_lineage(logged: LoggedState) -> None:
    for name in ("x", "a|r|x", "a|x|b", "b|r|a"):
        assert logged.state.lineage(name, "direct", 0, 10) is None
        assert logged.state.summary(name) is None


def test_what_is_written_after_a_redaction_is_an_update_of_what_was_left() -> None:
    logged = LoggedState()
    logged.node("a", mail="somebody@example.org", n=1)
    logged.scrub(logged.redact("a", ["attrs.mail"]))
    logged.node("a", mail="somebody.else@example.org", n=1)
    assert told(lineage(logged, "a"))[-1] == (3, "UPDATE_NODE", {"attrs.mail": "somebody.else@example.org"})
    assert logged.commits[0].payload not in logged.lines[0]


def test_a_deleted_node_still_says_what_it_was(logged: LoggedState) -> None:
    logged.delete("a")
    found = lineage(logged, "a")
    assert (found.type, found.current, found.steps[-1].action) == ("task", None, "DELETE_NODE")


def test_a_summary_counts_commits_and_actors_of_nodes_and_edges() -> None:
    logged = LoggedState()
    first = logged.node("a", actor="ann").timestamp
    logged.node("b", actor="ann")
    assert logged.state.summary("a") == Summary(first, first, 1, 1)
    for actor in ("ann", "bob", "bob", "cyd"):
        logged.now += HOUR
        last = logged.node("a", actor=actor).timestamp
    assert logged.state.summary("a") == Summary(first, last, 5, 3)
    made = logged.edge("a", "r", "b", actor="ann").timestamp
    logged.now += HOUR
    gone = logged.delete_edge("a", "r", "b", actor="bob").timestamp
    assert logged.state.summary("a|r|b") == Summary(made, gone, 2, 2)


def test_a_summary_counts_the_actors_of_every_life() -> None:
    logged = LoggedState()
    logged.node("a", actor="ann")
    logged.delete("a", actor="bob")
    made_again = logged.node("a", actor="cyd").timestamp
    assert logged.state.summary("a") == Summary(made_again, made_again, 3, 3)


DIFFERENCES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({}, {}, {}),
    ({"attrs": {"a": 1}}, {"attrs": {"a": 1.0}}, {}),
    ({"attrs": {"a": 1}}, {"attrs": {"a": True}}, {"attrs.a": True}),
    ({"attrs": {"a": [1, 2]}}, {"attrs": {"a": [2, 1]}}, {"attrs.a": [2, 1]}),
    ({"attrs": {"a": {"b": 1, "c": 2}}}, {"attrs": {"a": {"c": 3}}}, {"attrs.a.b": None, "attrs.a.c": 3}),
    ({"attrs": {"a": {"b": 1}}}, {"attrs": {"a": 5}}, {"attrs.a.b": None, "attrs.a": 5}),
    ({"attrs": {}}, {"attrs": {"a": {}}}, {"attrs.a": {}}),
    ({"attrs": {"a": 1}}, {"attrs": {}}, {"attrs.a": None}),
    ({"id": "x", "type": "t", "attrs": {}}, {"id": "x", "type": "u", "attrs": {}}, {"type": "u"}),
]


@pytest.mark.parametrize(("old", "new", "changes"), DIFFERENCES)
def test_differences_are_flat(old: dict[str, Any], new: dict[str, Any], changes: dict[str, Any]) -> None:
    assert difference(old, new) == changes
