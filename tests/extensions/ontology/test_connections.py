"""Typed connections: made, read, changed, deleted, and refused where the ontology does not allow them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.extensions.ontology.agents import OntologyAgent
from tests.promises import promise
from tests.toolsets.agent import NOON

SINCE = {"since": "2025-10-15", "follow_up_date": "2025-11-01"}


@promise("AC2", "a connection is made and read with its ends, type and properties")
def test_a_connection_is_kept_as_it_was_given(gtd: OntologyAgent) -> None:
    project, action = gtd.make("Project"), gtd.make("Action")
    ends = {"from_node_id": project, "to_node_id": action}
    made = gtd.call("create_connection", type="NextAction", **ends, properties={"priority": "high"})
    assert re.fullmatch(r"conn_[0-9a-z]{6}_[0-9a-z]{6}", made["connection_id"])
    assert gtd.call("get_connection", **made) == {
        "id": made["connection_id"],
        "type": "NextAction",
        **ends,
        "created": "2025-01-04T12:00:00.000Z",
        "modified": "2025-01-04T12:00:00.000Z",
        "properties": {"priority": "high"},
        "has_content": False,
    }


@promise("M11", "notes on a connection are read when asked for")
@promise("M12", "notes have a format, markdown unless said")
def test_notes_on_a_connection_are_read_when_asked_for(gtd: OntologyAgent) -> None:
    ends = {"from_node_id": gtd.make("Project"), "to_node_id": gtd.make("Action")}
    made = gtd.call("create_connection", type="NextAction", **ends, content="deadline is near")
    assert gtd.call("get_connection", **made)["has_content"] is True
    assert "content" not in gtd.call("get_connection", **made)
    found = gtd.call("get_connection", **made, include_content=True)
    assert (found["content"], found["content_format"]) == ("deadline is near", "markdown")
    gtd.call("update_connection", **made, content="it passed", format="text")
    found = gtd.call("get_connection", **made, include_content=True)
    assert (found["content"], found["content_format"]) == ("it passed", "text")
    gtd.call("update_connection", **made, format="markdown")
    found = gtd.call("get_connection", **made, include_content=True)
    assert (found["content"], found["content_format"]) == ("it passed", "markdown")


@promise("AC12, no notes", "a connection needs no content")
def test_a_connection_without_notes_says_so(gtd: OntologyAgent) -> None:
    conn = gtd.join(gtd.make("Project"), "NextAction", gtd.make("Action"))
    found = gtd.call("get_connection", connection_id=conn, include_content=True)
    assert (found["has_content"], found["content"], found["content_format"]) == (False, None, None)


def test_an_update_merges_properties_and_moves_the_time_of_change(gtd: OntologyAgent) -> None:
    conn = gtd.join(gtd.make("Project"), "NextAction", gtd.make("Action"), priority="high", added="2025")
    gtd.now = NOON + 5_000
    answer = gtd.answer("update_connection", {"connection_id": conn, "properties": {"priority": "medium"}})
    assert (answer.data, answer.text) == ({"ok": True}, "update_connection completed successfully")
    found = gtd.call("get_connection", connection_id=conn)
    assert found["properties"] == {"priority": "medium", "added": "2025"}
    assert (found["created"], found["modified"]) == ("2025-01-04T12:00:00.000Z", "2025-01-04T12:00:05.000Z")


@promise("AC14", "several connections of one node or pair live and die apart")
def test_one_of_several_connections_is_deleted_alone(gtd: OntologyAgent) -> None:
    project, action, other = gtd.make("Project"), gtd.make("Action"), gtd.make("Action")
    first, twin = gtd.join(project, "NextAction", action), gtd.join(project, "NextAction", action)
    third, different = gtd.join(project, "NextAction", other), gtd.join(project, "DependsOn", action)
    assert gtd.connections(from_node_id=project) == [first, twin, third, different]
    assert gtd.answer("delete_connection", {"connection_id": first}).text == "delete_connection completed successfully"
    assert gtd.connections(from_node_id=project) == [twin, third, different]
    assert gtd.code("delete_connection", connection_id=first) == "CONNECTION_NOT_FOUND"
    assert set(gtd.nodes()) == {project, action, other}


@promise("M21", "a node may be connected to itself, and is its own neighbour once")
def test_a_node_may_be_connected_to_itself(gtd: OntologyAgent) -> None:
    action = gtd.make("Action")
    gtd.join(action, "DependsOn", action)
    assert [gtd.neighbours(action, way) for way in ("out", "in", "both")] == [[action]] * 3


# -- what the ontology does not allow


@promise("AC4, topology", "a connection between the wrong types is refused")
@promise("AC8", "a violation is refused with the types that are allowed")
def test_a_wrong_target_is_refused_with_the_valid_ones(gtd: OntologyAgent) -> None:
    project, person = gtd.make("Project"), gtd.make("Person")
    said = gtd.refusal("create_connection", type="NextAction", from_node_id=project, to_node_id=person)
    assert said["code"] == "INVALID_TOPOLOGY"
    assert said["message"] == "Cannot connect Project to Person with NextAction. Valid targets: [Action]"
    assert said["details"]["valid_targets"] == ["Action"]
    assert gtd.connections(from_node_id=project) == []


@promise("M16", "wrong sources are named before wrong targets, in the exact words")
@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("Action", "Action", "Cannot connect Action to Action with NextAction. Valid sources: [Project]"),
        (
            "Action",
            "Project",
            "Cannot connect Action to Project with NextAction. Valid sources: [Project]. Valid targets: [Action]",
        ),
    ],
)
def test_a_wrong_source_is_named_before_a_wrong_target(
    gtd: OntologyAgent, source: str, target: str, message: str
) -> None:
    ends = {"from_node_id": gtd.make(source), "to_node_id": gtd.make(target)}
    assert gtd.refusal("create_connection", type="NextAction", **ends)["message"] == message


@promise("AC9", "required properties are enforced, and with all of them the connection is made")
def test_missing_properties_are_named(gtd: OntologyAgent) -> None:
    ends = {"from_node_id": gtd.make("Action"), "to_node_id": gtd.make("Person")}
    said = gtd.refusal("create_connection", type="WaitingFor", **ends, properties={"since": "2025-10-15"})
    assert said["code"] == "REQUIRED_PROPERTY_MISSING"
    assert said["message"] == (
        "Connection type WaitingFor requires properties: [since, follow_up_date]. Missing: [follow_up_date]"
    )
    assert gtd.connections(type="WaitingFor") == []
    made = gtd.call("create_connection", type="WaitingFor", **ends, properties=SINCE)
    assert gtd.connections(type="WaitingFor") == [made["connection_id"]]


@promise("M18", "a required property only has to be there")
def test_a_required_property_only_has_to_be_there(gtd: OntologyAgent) -> None:
    gtd.join(gtd.make("Action"), "WaitingFor", gtd.make("Person"), since="", follow_up_date=False)


ORDER: list[tuple[str, dict[str, Any]]] = [
    ("INVALID_CONNECTION_TYPE", {"type": "Nothing", "from_node_id": "no", "to_node_id": "no"}),
    ("NODE_NOT_FOUND", {"from_node_id": "from", "to_node_id": "to", "properties": {"since": []}}),
    ("INVALID_TOPOLOGY", {"from_node_id": "Person", "properties": {"since": []}}),
    ("INVALID_ARGUMENT", {"properties": {"since": []}}),
    ("REQUIRED_PROPERTY_MISSING", {"properties": {"since": "now"}}),
]


@promise("AC7", "what is wrong with a new connection is told in order, and which node or type it is")
@promise("M17", "faults are told in order")
@pytest.mark.parametrize(("code", "wrong"), ORDER, ids=[code for code, _ in ORDER])
def test_of_several_faults_the_first_in_order_is_told(gtd: OntologyAgent, code: str, wrong: dict[str, Any]) -> None:
    ids = {kind: gtd.make(kind) for kind in ("Action", "Person")}
    asked = {"type": "WaitingFor", "from_node_id": "Action", "to_node_id": "Person"} | wrong
    asked |= {end: ids.get(asked[end], asked[end]) for end in ("from_node_id", "to_node_id")}
    said = gtd.refusal("create_connection", **asked)
    assert said["code"] == code
    if code == "NODE_NOT_FOUND":
        assert "'from'" in said["message"], "the source is looked for first"


def test_without_an_ontology_its_absence_is_told_before_all_else(agent: OntologyAgent) -> None:
    asked = {"type": "Nothing", "from_node_id": "no", "to_node_id": "no", "properties": {"a": None}}
    assert agent.code("create_connection", **asked) == "ONTOLOGY_NOT_FOUND"


@promise("AC7, unknown id", "a connection that is not there is named")
@pytest.mark.parametrize(
    ("tool", "asked"),
    [("get_connection", {}), ("update_connection", {"properties": {"a": 1}}), ("delete_connection", {})],
)
def test_a_connection_that_is_not_there_is_named(gtd: OntologyAgent, tool: str, asked: dict[str, Any]) -> None:
    said = gtd.refusal(tool, connection_id="conn_nobody", **asked)
    assert said["code"] == "CONNECTION_NOT_FOUND"
    assert "conn_nobody" in said["message"]


# -- beside the other toolsets


def test_an_edge_that_memory_write_made_is_a_connection_and_one_without_a_type_is_not(gtd: OntologyAgent) -> None:
    project, action = gtd.make("Project"), gtd.make("Action")
    gtd.edge(project, "NextAction", action, priority="high")
    gtd.edge(project, "mentions", action)
    [conn] = gtd.connections()
    assert gtd.call("get_connection", connection_id=conn)["properties"] == {"priority": "high"}
    gtd.call("update_connection", connection_id=conn, properties={"seen": True})
    assert gtd.connections(properties={"seen": True}) == [conn]
    assert gtd.code("get_connection", connection_id=f"{project}|mentions|{action}") == "CONNECTION_NOT_FOUND"
    gtd.call("delete_connection", connection_id=conn)
    assert gtd.connections() == []


def test_a_connection_that_was_made_again_is_as_old_as_its_last_making(gtd: OntologyAgent) -> None:
    project, action = gtd.make("Project"), gtd.make("Action")
    gtd.edge(project, "NextAction", action)
    [conn] = gtd.connections()
    gtd.call("delete_connection", connection_id=conn)
    gtd.now = NOON + 1_000
    gtd.edge(project, "NextAction", action)
    gtd.now = NOON + 2_000
    gtd.call("update_connection", connection_id=conn, properties={"a": 1})
    found = gtd.call("get_connection", connection_id=conn)
    assert (found["created"], found["modified"]) == ("2025-01-04T12:00:01.000Z", "2025-01-04T12:00:02.000Z")
