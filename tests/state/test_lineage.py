from __future__ import annotations

from typing import Any

import pytest

from tallystick.state import Lineage, Summary
from tallystick.state.lineage import difference
from tests.state.book import HOUR, Book


def lineage(book: Book, entity_id: str, depth: Any = "direct", offset: int = 0, limit: int = 100) -> Lineage:
    found = book.state.lineage(entity_id, depth, offset, limit)
    assert found is not None
    return found


def told(found: Lineage) -> list[tuple[int, str, Any]]:
    return [(step.commit.lamport, step.action, step.changes) for step in found.steps]


@pytest.fixture
def book() -> Book:
    book = Book()
    book.node("a", "task", x=1, y={"z": 2})  # 1
    book.node("b")  # 2
    book.node("a", "plan", x=1, y={"z": 3})  # 3
    book.edge("a", "r", "b", w=1)  # 4
    book.node("a", "plan", x=1, y={"z": 3})  # 5
    book.edge("a", "r", "b", w=2)  # 6
    book.delete("a")  # 7 (the edge), 8
    book.redact("a")  # 9
    book.node("a", "task", n=1)  # 10
    book.edge("b", "s", "a")  # 11
    return book


NODE_STEPS = [
    (1, "CREATE_NODE", None),
    (3, "UPDATE_NODE", {"type": "plan", "attrs.y.z": 3}),
    (5, "UPDATE_NODE", {}),
    (8, "DELETE_NODE", None),
    (9, "REDACT_NODE", None),
    (10, "CREATE_NODE", None),
]
EDGE_STEPS = [(4, "CREATE_EDGE", None), (6, "UPDATE_EDGE", {"attrs.w": 2}), (7, "DELETE_EDGE", None)]


def test_direct_lineage_is_what_was_done_to_the_entity_itself(book: Book) -> None:
    found = lineage(book, "a")
    assert told(found) == NODE_STEPS
    assert (found.type, found.total) == ("task", 6)
    assert found.current == book.state.node("a")


def test_full_lineage_has_the_edges_too_even_dead_ones(book: Book) -> None:
    expected = sorted([*NODE_STEPS, *EDGE_STEPS, (11, "CREATE_EDGE", None)], key=lambda step: step[0])
    assert told(lineage(book, "a", "full")) == expected


def test_an_edge_has_a_lineage_too(book: Book) -> None:
    found = lineage(book, "a|r|b", "full")
    assert told(found) == EDGE_STEPS
    assert (found.type, found.current, found.edge) == ("r", None, None)
    alive = lineage(book, "b|s|a")
    assert alive.edge == book.state.edge("b", "s", "a")


def test_a_page_of_lineage_knows_the_version_before_it(book: Book) -> None:
    pages = [lineage(book, "a", offset=offset, limit=2) for offset in (0, 2, 4, 6)]
    assert [step for page in pages for step in told(page)] == NODE_STEPS
    assert {page.total for page in pages} == {6}


def test_what_never_was_has_no_lineage(book: Book) -> None:
    for name in ("x", "a|r|x", "a|x|b", "b|r|a"):
        assert book.state.lineage(name, "direct", 0, 10) is None
        assert book.state.summary(name) is None


def test_what_is_written_after_a_redaction_is_an_update_of_what_was_left() -> None:
    book = Book()
    book.node("a", mail="somebody@example.org", n=1)
    book.scrub(book.redact("a", ["attrs.mail"]))
    book.node("a", mail="somebody.else@example.org", n=1)
    assert told(lineage(book, "a"))[-1] == (3, "UPDATE_NODE", {"attrs.mail": "somebody.else@example.org"})
    assert book.commits[0].payload not in book.lines[0]


def test_a_deleted_node_still_says_what_it_was(book: Book) -> None:
    book.delete("a")
    found = lineage(book, "a")
    assert (found.type, found.current, found.steps[-1].action) == ("task", None, "DELETE_NODE")


def test_a_summary_counts_commits_and_actors_of_nodes_and_edges() -> None:
    book = Book()
    first = book.node("a", actor="ann").timestamp
    book.node("b", actor="ann")
    assert book.state.summary("a") == Summary(first, first, 1, 1)
    for actor in ("ann", "bob", "bob", "cyd"):
        book.now += HOUR
        last = book.node("a", actor=actor).timestamp
    assert book.state.summary("a") == Summary(first, last, 5, 3)
    made = book.edge("a", "r", "b", actor="ann").timestamp
    book.now += HOUR
    gone = book.delete_edge("a", "r", "b", actor="bob").timestamp
    assert book.state.summary("a|r|b") == Summary(made, gone, 2, 2)


def test_a_summary_counts_the_actors_of_every_life() -> None:
    book = Book()
    book.node("a", actor="ann")
    book.delete("a", actor="bob")
    made_again = book.node("a", actor="cyd").timestamp
    assert book.state.summary("a") == Summary(made_again, made_again, 3, 3)


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
