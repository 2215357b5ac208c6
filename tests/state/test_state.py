"""The state at its head: what commits make true, what cannot follow, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tallystick.commits import Verb
from tallystick.errors import Corrupt
from tallystick.log import Head
from tests.state.logged_state import LoggedState
from tests.state.state_dump import dump_state


def test_a_node_is_what_was_written_last_and_says_who_made_it() -> None:
    logged = LoggedState()
    logged.node("a", "task", actor="ann", title="old", gone=1)
    commit = logged.node("a", "note", actor="bob", title="new")
    node = logged.state.node("a")
    assert node is not None
    assert (node.id, node.type, node.attrs) == ("a", "note", {"title": "new"})
    assert node.provenance.commit_id == commit.commit_id
    assert node.provenance.content_hash == commit.content_hash
    assert (node.provenance.created_by, node.provenance.updated_by, node.provenance.lamport) == ("ann", "bob", 2)
    assert logged.state.owner("a") == ("note", "ann")


def test_a_deleted_node_is_gone_and_one_made_again_belongs_to_its_new_maker() -> None:
    logged = LoggedState()
    logged.node("a", actor="ann", x=1)
    logged.delete("a", actor="bob")
    assert logged.state.node("a") is None
    assert logged.state.owner("a") is None
    logged.node("a", actor="cyd")
    assert logged.state.owner("a") == ("note", "cyd")


def test_writing_a_triple_again_updates_the_edge() -> None:
    logged = LoggedState()
    logged.node("a")
    logged.node("b")
    logged.edge("a", "knows", "b", since=2001)
    logged.edge("a", "knows", "b", since=2002)
    (edge,) = logged.state.edges("a")
    assert (edge.id, edge.attrs, edge.lamport) == ("a|knows|b", {"since": 2002}, 4)
    assert logged.state.edge("a", "knows", "b") == edge == logged.state.edge_by_id("a|knows|b")
    assert logged.state.edge("b", "knows", "a") is None


def test_edges_are_listed_by_direction_oldest_first_and_loops_once() -> None:
    logged = LoggedState()
    for name in "abc":
        logged.node(name)
    logged.edge("a", "r", "b")
    logged.edge("c", "r", "a")
    logged.edge("a", "r", "a")
    logged.edge("a", "r", "c")
    logged.delete_edge("a", "r", "b")

    def ends(direction: Any) -> list[str]:
        return [edge.source + edge.target for edge in logged.state.edges("a", direction)]

    assert ends("out") == ["aa", "ac"]
    assert ends("in") == ["ca", "aa"]
    assert ends("both") == ["ca", "aa", "ac"]
    assert [edge.target for edge in logged.state.edges("a", "out", limit=1)] == ["a"]
    assert [name["from"] + name["to"] for name in logged.state.edge_names("a")] == ["ca", "aa", "ac"]
    assert not logged.state.edges("nobody")
    assert not list(logged.state.edge_names("nobody"))


def test_edges_with_ids_of_their_own_may_join_the_same_nodes_by_the_same_relation() -> None:
    logged = LoggedState()
    logged.node("a")
    logged.node("b")
    logged.edge("a", "r", "b", id="first", w=1)
    logged.edge("a", "r", "b", id="second", w=2)
    logged.edge("a", "r", "b", w=3)
    logged.edge("a", "r", "b", id="first", w=4)
    assert [(edge.id, edge.attrs["w"]) for edge in logged.state.edges("a")] == [
        ("first", 4),
        ("second", 2),
        ("a|r|b", 3),
    ]
    assert logged.state.edge("a", "r", "b") == logged.state.edge_by_id("a|r|b")
    assert logged.state.edge_name("second") == {"from": "a", "rel": "r", "to": "b", "id": "second"}
    assert logged.state.edge_name("a|r|b") == {"from": "a", "rel": "r", "to": "b"}
    assert logged.state.edge_name("third") is None
    logged.delete_edge("a", "r", "b", id="second")
    assert [edge.id for edge in logged.state.edges("b")] == ["first", "a|r|b"]
    assert logged.state.edge_by_id("second") is None


def test_an_edge_made_again_under_its_id_takes_up_its_history() -> None:
    logged = LoggedState()
    logged.node("a")
    logged.edge("a", "r", "a", id="mine")
    logged.delete_edge("a", "r", "a", id="mine")
    before = dump_state(logged.state)
    logged.edge("a", "r", "a", id="mine")
    lineage = logged.state.lineage("mine", "direct", 0, 10)
    assert lineage is not None
    assert [step.action for step in lineage.steps] == ["CREATE_EDGE", "DELETE_EDGE", "CREATE_EDGE"]
    logged.undo(1)
    assert dump_state(logged.state) == before


def _node(logged: LoggedState, **payload: Any) -> None:
    logged.write(Verb.UPSERT_NODE, payload)


IMPOSSIBLE: dict[str, Callable[[LoggedState], object]] = {
    "an edge from nowhere": lambda logged: logged.edge("x", "r", "a"),
    "an edge to nowhere": lambda logged: logged.edge("a", "r", "x"),
    "an edge to a deleted node": lambda logged: logged.edge("a", "r", "dead"),
    "deleting a node that never was": lambda logged: logged.write(Verb.DELETE_NODE, {"node_id": "x"}),
    "deleting a node twice": lambda logged: logged.write(Verb.DELETE_NODE, {"node_id": "dead"}),
    "deleting a node that has edges": lambda logged: logged.write(Verb.DELETE_NODE, {"node_id": "a"}),
    "deleting an edge that never was": lambda logged: logged.delete_edge("b", "r", "a"),
    "deleting an edge by its ends alone that has an id": lambda logged: logged.delete_edge("a", "r", "b"),
    "deleting an edge by an id with other ends": lambda logged: logged.delete_edge("b", "r", "a", id="e"),
    "an id that another edge has": lambda logged: logged.edge("b", "r", "a", id="e"),
    "redacting a node that never was": lambda logged: logged.write(Verb.REDACT_NODE, {"node_id": "x", "reason": ""}),
    "redacting an edge that never was": lambda logged: logged.write(
        Verb.REDACT_EDGE, {"from": "a", "rel": "never", "to": "a", "reason": ""}
    ),
    "redacting what is no attribute": lambda logged: logged.write(
        Verb.REDACT_NODE, {"node_id": "a", "reason": "", "redacted_fields": ["id"]}
    ),
    "a node without a type": lambda logged: _node(logged, id="n", attrs={}),
    "attributes that are a list": lambda logged: _node(logged, id="n", type="t", attrs=[]),
    "a lamport that was there before": lambda logged: logged.add(logged.commits[0]),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_commit_that_cannot_follow_is_refused_and_changes_nothing(what: str) -> None:
    logged = LoggedState()
    for name in ("a", "b", "dead"):
        logged.node(name, x=1)
    logged.delete("dead")
    logged.edge("a", "r", "b", id="e")
    before = dump_state(logged.state)
    with pytest.raises(Corrupt) as raised:
        IMPOSSIBLE[what](logged)
    assert raised.value.details["lamport"] in (1, 6)
    assert "docs/runbooks/corrupt-log.md" in (raised.value.hint or "")
    assert dump_state(logged.state) == before


def test_the_head_is_enough_to_chain_the_next_commit_and_goes_back_with_undo() -> None:
    logged = LoggedState()
    assert logged.state.head == Head()
    logged.node("a")
    first = logged.state.head
    commit = logged.write(Verb.UPSERT_NODE, {"id": "b", "type": "t", "attrs": {}}, skip=5)
    assert logged.state.head == Head(
        lamport=7,
        count=2,
        end=sum(len(line) + 1 for line in logged.lines.values()),
        record_hash=commit.record_hash,
        commit_id=commit.commit_id,
        timestamp=commit.timestamp,
    )
    assert (logged.state.position, logged.state.count) == (7, 2)
    logged.undo(1)
    assert logged.state.head == first
    logged.undo(1)
    assert logged.state.head == Head()


def test_the_end_of_a_line_is_looked_up_when_it_is_not_said() -> None:
    logged, told = LoggedState(), LoggedState()
    commit = told.node("a")
    logged.lines = told.lines
    logged.state.apply(commit, 0)
    assert logged.state.head == told.state.head


def test_more_than_there_is_cannot_be_undone() -> None:
    logged = LoggedState()
    logged.node("a")
    with pytest.raises(ValueError):
        logged.state.undo(2)
    assert logged.state.count == 1


def test_undoing_a_second_creation_gives_the_node_back_to_its_first_maker() -> None:
    logged = LoggedState()
    logged.node("a", "task", actor="ann", x=1)
    logged.node("a", "plan", actor="bob", x=2)
    logged.delete("a", actor="bob")
    before = dump_state(logged.state)
    logged.node("a", "note", actor="cyd")
    logged.node("a", "note", actor="bob")
    logged.undo(2)
    assert dump_state(logged.state) == before
    logged.undo(1)
    assert logged.state.owner("a") == ("plan", "ann")
