"""memory.read: one entity by id, its versions, its edges, and how little is said when nothing changed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.promises import promise
from tests.toolsets.agent import NOON, Agent

HOUR = 3_600_000
NO_MOMENT = (
    "field 'as_of' must be a commit_id or its first 8 or more digits, a lamport (a number, not text)"
    " or an ISO 8601 time up to now"
)


@promise("L13", "what is not there is null")
def test_what_is_not_there_is_null_and_not_an_error(agent: Agent) -> None:
    found = agent.read("nobody")
    assert (found["entity"], found["provenance"], found["position"]) == (None, None, 0)
    assert found["cache_hit"] is True
    assert found["query_latency_ms"] >= 0


@promise("L13, type", "another type than asked for is null")
def test_another_type_than_asked_for_is_null(agent: Agent) -> None:
    agent.node("plan", "research_plan")
    assert agent.read("plan", type="research_plan")["entity"]["id"] == "plan"
    assert agent.read("plan", type="user")["entity"] is None
    assert agent.call("memory.read", filters={"id": "plan", "type": "user"})["provenance"] is None


@promise("L19", "the first actor stays the owner")
def test_provenance_tells_the_newest_commit_and_the_first_author(agent: Agent) -> None:
    agent.write(op="UPSERT_NODE", node={"id": "n", "type": "t", "attrs": {}}, actor="first")
    agent.now = NOON + HOUR
    second = agent.write(op="UPSERT_NODE", node={"id": "n", "type": "t", "attrs": {"x": 1}}, actor="second")
    assert agent.read("n")["provenance"] == {
        "commit_id": second["commit_id"],
        "created_by": "first",
        "updated_by": "second",
        "timestamp": "2025-01-04T13:00:00.000Z",
        "lamport": 2,
        "content_hash": second["content_hash"],
    }


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        ({}, ["field 'entity_id' is required"]),
        ({"filters": {"type": "note"}}, ["field 'entity_id' is required"]),
        ({"entity_id": "a", "filters": {"id": "b"}}, ["fields 'entity_id' and 'filters.id' differ"]),
        ({"entity_id": "a", "type": "x", "filters": {"type": "y"}}, ["fields 'type' and 'filters.type' differ"]),
        ({"entity_id": "a", "colour": "red"}, ["field 'colour' is not allowed"]),
        ({"entity_id": "a", "filters": {"attrs": {}}}, ["field 'filters.attrs' is not allowed"]),
        ({"entity_id": "a", "include_edges": "yes"}, ["field 'include_edges' must be true or false"]),
        ({"entity_id": "a", "min_lamport": "3"}, ["field 'min_lamport' must be an integer"]),
        ({"entity_id": "a", "as_of": True}, [NO_MOMENT]),
        ({"entity_id": "a", "as_of": -1}, [NO_MOMENT]),
        ({"entity_id": "a", "as_of": "1"}, [NO_MOMENT]),
        ({"entity_id": "a", "as_of": "yesterday"}, [NO_MOMENT]),
        (
            {"entity_id": "a", "fields": ["colour", "attrs."]},
            [
                "field 'fields': 'colour' is none of id, type, attrs, created_by, updated_by, from, to, rel,"
                " provenance, attrs.<key>",
                "field 'fields': 'attrs.' is none of id, type, attrs, created_by, updated_by, from, to, rel,"
                " provenance, attrs.<key>",
            ],
        ),
    ],
    ids=str,
)
def test_every_fault_of_a_call_is_named(agent: Agent, arguments: dict[str, Any], problems: list[str]) -> None:
    assert agent.refusal("memory.read", **arguments)["validation_errors"] == problems


def test_the_same_thing_said_twice_is_fine(agent: Agent) -> None:
    agent.node("a", "note")
    found = agent.read("a", type="note", filters={"id": "a", "entity_id": "a", "type": "note"})
    assert found["entity"]["id"] == "a"


# -- versions


@promise("L14", "reads as of a commit, a lamport or a time")
def test_a_node_is_read_as_of_a_commit_a_lamport_or_a_time(agent: Agent) -> None:
    first = agent.node("n", version=1)
    agent.now = NOON + HOUR
    agent.node("n", version=2)
    agent.now = NOON + 2 * HOUR
    agent.write(op="DELETE_NODE", node_id="n")
    for as_of in (first["commit_id"], first["commit_id"][:12], 1, "2025-01-04T12:30:00Z", "2025-01-04T13:30:00+01:00"):
        found = agent.read("n", as_of=as_of)
        assert found["entity"]["attrs"] == {"version": 1}, as_of
        assert found["provenance"]["commit_id"] == first["commit_id"]
        assert found["cache_hit"] is False
    assert agent.read("n", as_of=2)["entity"]["attrs"] == {"version": 2}
    assert agent.read("n", as_of=3)["entity"] is None
    assert agent.read("n", as_of="2025-01-01")["entity"] is None
    assert agent.read("n")["entity"] is None


@promise("L13, as_of", "a moment beyond the head is refused")
@pytest.mark.parametrize("as_of", [99, "f" * 64, "f" * 12, "2999-01-01"])
def test_a_moment_that_is_not_in_the_log_is_refused(agent: Agent, as_of: str | int) -> None:
    agent.node("n")
    for tool in ("memory.read", "memory.search"):
        said = agent.refusal(tool, entity_id="n", as_of=as_of)
        assert said["error"] == "UNKNOWN_AS_OF"
        assert str(as_of) in said["message"]


@promise("scenario 1, stale read", "what is not written yet is null, and a reader can wait for a write")
def test_a_read_that_must_see_a_later_write_says_when_it_cannot(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.engine.partition._POSITION_WAIT_SECONDS", 0.02)
    written = agent.node("n")
    assert agent.read("n", min_lamport=written["lamport"])["entity"]["id"] == "n"
    said = agent.refusal("memory.read", entity_id="n", min_lamport=7)
    assert (said["error"], said["position"]) == ("POSITION_NOT_REACHED", 1)


# -- less


def test_nothing_new_is_one_line(agent: Agent) -> None:
    agent.node("n")
    position = agent.read("n")["position"]
    unchanged = {"unchanged": True, "position": position}
    assert agent.read("n", if_position=position) == unchanged
    assert agent.search(type="note", if_position=position) == unchanged
    agent.node("other")
    assert agent.read("n", if_position=position)["entity"]["id"] == "n"
    assert len(agent.search(type="note", if_position=position)["entities"]) == 2


@promise("5.3, API3", "only the fields asked for are returned")
def test_only_the_fields_asked_for_are_returned(agent: Agent) -> None:
    agent.node("n", title="T", secret="S", deep={"a": {"b": 1, "c": 2}, "d": 3}, **{"dotted.key": 4})
    for fields, expected in (
        (["attrs.title"], {"attrs": {"title": "T"}}),
        (["type"], {"type": "note"}),
        (["attrs.deep.a.b", "attrs.deep.d"], {"attrs": {"deep": {"a": {"b": 1}, "d": 3}}}),
        (["attrs.deep", "attrs.deep.a.b"], {"attrs": {"deep": {"a": {"b": 1, "c": 2}, "d": 3}}}),
        (["attrs.deep.a.b", "attrs.deep"], {"attrs": {"deep": {"a": {"b": 1, "c": 2}, "d": 3}}}),
        (["attrs.dotted.key"], {"attrs": {"dotted.key": 4}}),
        (["attrs.nothing"], {}),
        (["created_by", "updated_by"], {"created_by": "agent_alpha", "updated_by": "agent_alpha"}),
    ):
        assert agent.read("n", fields=fields)["entity"] == {"id": "n"} | expected
        assert agent.search(id="n", fields=fields)["entities"] == [{"id": "n"} | expected]
    assert agent.read("n")["entity"]["attrs"]["deep"] == {"a": {"b": 1, "c": 2}, "d": 3}


@promise("X15, by id", "what is asked for by id is never cut")
def test_a_large_node_is_read_whole_by_its_id(agent: Agent) -> None:
    agent.node("big", text="x" * 900_000)
    answer = agent.answer("memory.read", {"entity_id": "big"})
    assert len(answer.data["entity"]["attrs"]["text"]) == 900_000
    assert answer.exempt


# -- edges


def test_edges_of_a_node_come_with_it_when_asked_for(agent: Agent) -> None:
    for name in ("a", "b", "c"):
        agent.node(name)
    agent.edge("a", "knows", "b", since=2024)
    agent.edge("c", "knows", "a")
    found = agent.read("a", include_edges=True)
    assert "edges" not in agent.read("a")
    assert found["edges"] == [
        {"id": "a|knows|b", "from": "a", "to": "b", "rel": "knows", "attrs": {"since": 2024}},
        {"id": "c|knows|a", "from": "c", "to": "a", "rel": "knows", "attrs": {}},
    ]
    assert found["edges_truncated"] is False
    assert agent.read("a", include_edges=True, as_of=4)["edges"] == found["edges"][:1]
    assert agent.read("nobody", include_edges=True)["edges"] == []


def test_a_hub_shows_its_first_edges_and_says_that_there_are_more(agent: Agent) -> None:
    agent.node("hub")
    for number in range(120):
        agent.node(f"n{number}")
        agent.edge("hub", "has", f"n{number}")
    found = agent.read("hub", include_edges=True)
    assert len(found["edges"]) == 100
    assert found["edges_truncated"] is True


def test_an_edge_is_read_by_its_id(agent: Agent) -> None:
    agent.node("a")
    agent.node("b")
    agent.write(op="UPSERT_EDGE", edge={"from": "a", "rel": "knows", "to": "b", "id": "e1"}, actor="first")
    written = agent.write(
        op="UPSERT_EDGE", edge={"from": "a", "rel": "knows", "to": "b", "id": "e1", "attrs": {"x": 1}}, actor="second"
    )
    found = agent.read("e1")
    assert found["entity"] == {
        "id": "e1",
        "from": "a",
        "to": "b",
        "rel": "knows",
        "attrs": {"x": 1},
        "created_by": "first",
        "updated_by": "second",
    }
    assert found["provenance"]["commit_id"] == written["commit_id"]
    assert agent.read("e1", as_of=3)["entity"]["attrs"] == {}
    assert agent.read("e1", type="knows")["entity"]["id"] == "e1"
    assert agent.read("e1", type="likes")["entity"] is None


def test_a_deleted_edge_is_read_as_of_a_time_when_it_was_there(agent: Agent) -> None:
    agent.node("a")
    agent.node("b")
    agent.edge("a", "knows", "b", x=1)
    agent.write(op="DELETE_EDGE", edge_id="a|knows|b")
    assert agent.read("a|knows|b")["entity"] is None
    assert agent.read("a|knows|b", as_of=3)["entity"]["attrs"] == {"x": 1}
