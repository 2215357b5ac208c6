"""The state at its head: what commits make true, what cannot follow, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.commits import Verb
from tallystick.errors import Corrupt
from tallystick.log import Head
from tests.state.book import Book
from tests.state.portrait import portrait


def test_a_node_is_what_was_written_last_and_says_who_made_it() -> None:
    book = Book()
    book.node("a", "task", actor="ann", title="old", gone=1)
    commit = book.node("a", "note", actor="bob", title="new")
    node = book.state.node("a")
    assert node is not None
    assert (node.id, node.type, node.attrs) == ("a", "note", {"title": "new"})
    assert node.provenance.commit_id == commit.commit_id
    assert node.provenance.content_hash == commit.content_hash
    assert (node.provenance.created_by, node.provenance.updated_by, node.provenance.lamport) == ("ann", "bob", 2)
    assert book.state.owner("a") == ("note", "ann")


def test_a_deleted_node_is_gone_and_one_made_again_belongs_to_its_new_maker() -> None:
    book = Book()
    book.node("a", actor="ann", x=1)
    book.delete("a", actor="bob")
    assert book.state.node("a") is None
    assert book.state.owner("a") is None
    book.node("a", actor="cyd")
    assert book.state.owner("a") == ("note", "cyd")


def test_writing_a_triple_again_updates_the_edge() -> None:
    book = Book()
    book.node("a")
    book.node("b")
    book.edge("a", "knows", "b", since=2001)
    book.edge("a", "knows", "b", since=2002)
    (edge,) = book.state.edges("a")
    assert (edge.id, edge.attrs, edge.lamport) == ("a|knows|b", {"since": 2002}, 4)
    assert book.state.edge("a", "knows", "b") == edge == book.state.edge_by_id("a|knows|b")
    assert book.state.edge("b", "knows", "a") is None


def test_edges_are_listed_by_direction_oldest_first_and_loops_once() -> None:
    book = Book()
    for name in "abc":
        book.node(name)
    book.edge("a", "r", "b")
    book.edge("c", "r", "a")
    book.edge("a", "r", "a")
    book.edge("a", "r", "c")
    book.delete_edge("a", "r", "b")

    def ends(direction: Any) -> list[str]:
        return [edge.source + edge.target for edge in book.state.edges("a", direction)]

    assert ends("out") == ["aa", "ac"]
    assert ends("in") == ["ca", "aa"]
    assert ends("both") == ["ca", "aa", "ac"]
    assert [edge.target for edge in book.state.edges("a", "out", limit=1)] == ["a"]
    assert [name["from"] + name["to"] for name in book.state.edge_names("a")] == ["ca", "aa", "ac"]
    assert not book.state.edges("nobody")
    assert not book.state.edge_names("nobody")


def test_edges_with_ids_of_their_own_may_join_the_same_nodes_by_the_same_relation() -> None:
    book = Book()
    book.node("a")
    book.node("b")
    book.edge("a", "r", "b", id="first", w=1)
    book.edge("a", "r", "b", id="second", w=2)
    book.edge("a", "r", "b", w=3)
    book.edge("a", "r", "b", id="first", w=4)
    assert [(edge.id, edge.attrs["w"]) for edge in book.state.edges("a")] == [
        ("first", 4),
        ("second", 2),
        ("a|r|b", 3),
    ]
    assert book.state.edge("a", "r", "b") == book.state.edge_by_id("a|r|b")
    assert book.state.edge_name("second") == {"from": "a", "rel": "r", "to": "b", "id": "second"}
    assert book.state.edge_name("a|r|b") == {"from": "a", "rel": "r", "to": "b"}
    assert book.state.edge_name("third") is None
    book.delete_edge("a", "r", "b", id="second")
    assert [edge.id for edge in book.state.edges("b")] == ["first", "a|r|b"]
    assert book.state.edge_by_id("second") is None


def test_an_edge_made_again_under_its_id_takes_up_its_history() -> None:
    book = Book()
    book.node("a")
    book.edge("a", "r", "a", id="mine")
    book.delete_edge("a", "r", "a", id="mine")
    before = portrait(book.state)
    book.edge("a", "r", "a", id="mine")
    lineage = book.state.lineage("mine", "direct", 0, 10)
    assert lineage is not None
    assert [step.action for step in lineage.steps] == ["CREATE_EDGE", "DELETE_EDGE", "CREATE_EDGE"]
    book.undo(1)
    assert portrait(book.state) == before


def _node(book: Book, **payload: Any) -> None:
    book.write(Verb.UPSERT_NODE, payload)


IMPOSSIBLE: dict[str, Callable[[Book], object]] = {
    "an edge from nowhere": lambda book: book.edge("x", "r", "a"),
    "an edge to nowhere": lambda book: book.edge("a", "r", "x"),
    "an edge to a deleted node": lambda book: book.edge("a", "r", "dead"),
    "deleting a node that never was": lambda book: book.write(Verb.DELETE_NODE, {"node_id": "x"}),
    "deleting a node twice": lambda book: book.write(Verb.DELETE_NODE, {"node_id": "dead"}),
    "deleting a node that has edges": lambda book: book.write(Verb.DELETE_NODE, {"node_id": "a"}),
    "deleting an edge that never was": lambda book: book.delete_edge("b", "r", "a"),
    "deleting an edge by its ends alone that has an id": lambda book: book.delete_edge("a", "r", "b"),
    "deleting an edge by an id with other ends": lambda book: book.delete_edge("b", "r", "a", id="e"),
    "an id that another edge has": lambda book: book.edge("b", "r", "a", id="e"),
    "redacting a node that never was": lambda book: book.write(Verb.REDACT_NODE, {"node_id": "x", "reason": ""}),
    "redacting an edge that never was": lambda book: book.write(
        Verb.REDACT_EDGE, {"from": "a", "rel": "never", "to": "a", "reason": ""}
    ),
    "redacting what is no attribute": lambda book: book.write(
        Verb.REDACT_NODE, {"node_id": "a", "reason": "", "redacted_fields": ["id"]}
    ),
    "a node without a type": lambda book: _node(book, id="n", attrs={}),
    "attributes that are a list": lambda book: _node(book, id="n", type="t", attrs=[]),
    "a lamport that was there before": lambda book: book.add(book.commits[0]),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_commit_that_cannot_follow_is_refused_and_changes_nothing(what: str) -> None:
    book = Book()
    for name in ("a", "b", "dead"):
        book.node(name, x=1)
    book.delete("dead")
    book.edge("a", "r", "b", id="e")
    before = portrait(book.state)
    with pytest.raises(Corrupt) as raised:
        IMPOSSIBLE[what](book)
    assert raised.value.details["lamport"] in (1, 6)
    assert portrait(book.state) == before


def test_the_head_is_enough_to_chain_the_next_commit_and_goes_back_with_undo() -> None:
    book = Book()
    assert book.state.head == Head()
    book.node("a")
    first = book.state.head
    commit = book.write(Verb.UPSERT_NODE, {"id": "b", "type": "t", "attrs": {}}, skip=5)
    assert book.state.head == Head(
        lamport=7,
        count=2,
        end=sum(len(line) + 1 for line in book.lines.values()),
        record_hash=commit.record_hash,
        commit_id=commit.commit_id,
        timestamp=commit.timestamp,
    )
    assert (book.state.position, book.state.count) == (7, 2)
    book.undo(1)
    assert book.state.head == first
    book.undo(1)
    assert book.state.head == Head()


def test_the_end_of_a_line_is_looked_up_when_it_is_not_said() -> None:
    book, told = Book(), Book()
    commit = told.node("a")
    book.lines = told.lines
    book.state.apply(commit, 0)
    assert book.state.head == told.state.head


def test_more_than_there_is_cannot_be_undone() -> None:
    book = Book()
    book.node("a")
    with pytest.raises(ValueError):
        book.state.undo(2)
    assert book.state.count == 1


def test_undoing_a_second_creation_gives_the_node_back_to_its_first_maker() -> None:
    book = Book()
    book.node("a", "task", actor="ann", x=1)
    book.node("a", "plan", actor="bob", x=2)
    book.delete("a", actor="bob")
    before = portrait(book.state)
    book.node("a", "note", actor="cyd")
    book.node("a", "note", actor="bob")
    book.undo(2)
    assert portrait(book.state) == before
    book.undo(1)
    assert book.state.owner("a") == ("plan", "ann")
