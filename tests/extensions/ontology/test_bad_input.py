"""Bad input: a clear code each time, and nothing half done."""

from __future__ import annotations

from typing import Any

import pytest

from tests.extensions.ontology.agents import OntologyAgent
from tests.promises import promise

NODE: dict[str, Any] = {"type": "Project", "content": "x", "format": "markdown"}
ARGUMENT, ENCODING = "INVALID_ARGUMENT", "INVALID_ENCODING"

CREATE_NODE: list[tuple[str, dict[str, Any]]] = [
    (ARGUMENT, {"properties": {"tags": ["a"]}}),
    (ARGUMENT, {"properties": {"meta": {"by": "x"}}}),
    (ARGUMENT, {"properties": {"none": None}}),
    (ARGUMENT, {"properties": {"n": float("nan")}}),
    (ARGUMENT, {"properties": {"n": float("inf")}}),
    (ARGUMENT, {"properties": {"n": 2**53}}),
    (ARGUMENT, {"properties": {"n": 10**400}}),
    (ARGUMENT, {"properties": []}),
    (ARGUMENT, {"properties": "{}"}),
    (ARGUMENT, {"properties": {"long": "x" * (1 << 20)}}),
    (ENCODING, {"encoding": "utf-16"}),
    (ENCODING, {"encoding": "UTF-8"}),
    (ENCODING, {"encoding": ""}),
    (ARGUMENT, {"encoding": 8}),
    (ENCODING, {"encoding": "base64", "content": "not base64!"}),
    (ENCODING, {"encoding": "base64", "content": "QUJD\n"}),
    (ENCODING, {"encoding": "base64", "content": "QUJ"}),
    (ENCODING, {"encoding": "base64", "content": "QQ=="[:3]}),
    (ENCODING, {"encoding": "base64", "content": "QR=="}),
    (ENCODING, {"encoding": "base64", "content": "====QUJD"}),
    (ENCODING, {"encoding": "base64", "content": "QÜ=="}),
    (ARGUMENT, {"content": None}),
    (ARGUMENT, {"content": 5}),
    (ARGUMENT, {"format": ""}),
    (ARGUMENT, {"format": "x" * 129}),
    (ARGUMENT, {"format": "a\nb"}),
    (ARGUMENT, {"type": ""}),
    (ARGUMENT, {"type": "x" * 10_000}),
    ("INVALID_NODE_TYPE", {"type": "project"}),
    ("INVALID_NODE_TYPE", {"type": "ontology/node_type"}),
    (ARGUMENT, {"colour": "red"}),
]


@promise("M1", "encoding is utf-8 unless said, and anything but the two is refused")
@promise("M4", "properties are strings, finite numbers or booleans")
@pytest.mark.parametrize(("code", "wrong"), CREATE_NODE, ids=lambda value: str(value)[:60])
def test_a_node_that_is_wrongly_described_is_refused(gtd: OntologyAgent, code: str, wrong: dict[str, Any]) -> None:
    said = gtd.refusal("create_node", **(NODE | wrong))
    assert said["code"] == code
    assert said["message"]
    assert gtd.nodes() == []


OTHERS: list[tuple[str, str, dict[str, Any]]] = [
    (ARGUMENT, "update_node", {}),
    (ENCODING, "update_node", {"content": "x"}),
    (ENCODING, "update_node", {"content": "x", "encoding": "latin-1"}),
    (ENCODING, "update_node", {"content": "x", "encoding": "base64"}),
    (ENCODING, "update_node", {"encoding": "utf-8"}),
    (ENCODING, "update_node", {"encoding": "utf-8", "properties": {"a": 1}}),
    (ARGUMENT, "update_node", {"properties": {"a": None}}),
    (ARGUMENT, "update_node", {"properties": {"a": "x" * (1 << 20)}}),
    (ARGUMENT, "update_node", {"type": "Action"}),
    (ARGUMENT, "get_connected_nodes", {}),
    (ARGUMENT, "get_connected_nodes", {"direction": "up"}),
    (ARGUMENT, "get_connected_nodes", {"direction": "out", "limit": 0}),
]


@promise("M2", "new content needs its encoding")
@promise("M3", "bad base64 and an encoding without content are refused")
@pytest.mark.parametrize(("code", "tool", "wrong"), OTHERS, ids=lambda value: str(value)[:60])
def test_a_wrong_call_about_a_node_leaves_it_as_it_was(
    gtd: OntologyAgent, code: str, tool: str, wrong: dict[str, Any]
) -> None:
    node = gtd.make("Project", "text", status="active")
    before = gtd.call("get_node", node_id=node)
    assert gtd.code(tool, node_id=node, **wrong) == code
    assert gtd.call("get_node", node_id=node) == before
    assert gtd.call("get_node_content", node_id=node)["content"] == "text"


CONNECTIONS: list[tuple[str, dict[str, Any]]] = [
    ("create_connection", {"properties": {"a": []}}),
    ("create_connection", {"properties": {"a": None}}),
    ("create_connection", {"properties": {"a": float("nan")}}),
    ("create_connection", {"format": "text"}),
    ("create_connection", {"content": 5}),
    ("create_connection", {"encoding": "utf-8"}),
    ("update_connection", {}),
    ("update_connection", {"format": "text"}),
    ("update_connection", {"properties": {"a": {}}}),
    ("get_connection", {"include_content": "yes"}),
]


@promise("M39", "an update of a connection needs something to update")
@pytest.mark.parametrize(("tool", "wrong"), CONNECTIONS, ids=lambda value: str(value)[:60])
def test_a_wrong_call_about_a_connection_leaves_everything_as_it_was(
    gtd: OntologyAgent, tool: str, wrong: dict[str, Any]
) -> None:
    ends = {"from_node_id": gtd.make("Project"), "to_node_id": gtd.make("Action")}
    made = gtd.call("create_connection", type="NextAction", **ends, properties={"a": 1})
    about = {"type": "NextAction", **ends} if tool == "create_connection" else made
    assert gtd.code(tool, **about, **wrong) == ARGUMENT
    assert gtd.connections() == [made["connection_id"]]
    assert gtd.call("get_connection", **made)["properties"] == {"a": 1}


KIND: dict[str, Any] = {"name": "R", "from_types": ["A"], "to_types": ["A"]}
ONTOLOGIES: list[tuple[str, dict[str, Any]]] = [
    ("create_ontology", {"node_types": [""]}),
    ("create_ontology", {"node_types": ["A", " "]}),
    ("create_ontology", {"node_types": ["x" * 10_000]}),
    ("create_ontology", {"node_types": "Project"}),
    ("create_ontology", {"node_types": [1]}),
    ("create_ontology", {"node_types": None}),
    ("create_ontology", {"node_types": ["A", "work/node"]}),
    ("create_ontology", {"node_types": ["a\0b"]}),
    ("create_ontology", {"node_types": [f"T{number}" for number in range(1_001)]}),
    ("create_ontology", {"connection_types": [KIND | {"name": ""}]}),
    ("create_ontology", {"connection_types": [KIND | {"name": "\u3000"}]}),
    ("create_ontology", {"connection_types": [KIND | {"name": "ontology/x"}]}),
    ("create_ontology", {"connection_types": [KIND | {"from_types": [""]}]}),
    ("create_ontology", {"connection_types": [KIND | {"to_types": None}]}),
    ("create_ontology", {"connection_types": [KIND | {"required_properties": [5]}]}),
    ("create_ontology", {"connection_types": [KIND | {"colour": "red"}]}),
    ("create_ontology", {"connection_types": [{"name": "R"}]}),
    ("add_node_type", {"type_name": ""}),
    ("add_node_type", {"type_name": " "}),
    ("add_node_type", {"type_name": "x" * 10_000}),
    ("add_node_type", {"type_name": "knowledge/atom"}),
    ("add_connection_type", {"type_name": "", "from_types": [], "to_types": []}),
    ("add_connection_type", {"type_name": "R", "from_types": []}),
    ("validate_connection", {"connection_type": "", "from_node_type": "A", "to_node_type": "B"}),
    ("get_ontology", {"verbose": True}),
]


@promise("M19, empty", "an empty or endless type name is refused")
@pytest.mark.parametrize(("tool", "wrong"), ONTOLOGIES, ids=lambda value: str(value)[:60])
def test_a_wrong_definition_defines_nothing(agent: OntologyAgent, tool: str, wrong: dict[str, Any]) -> None:
    whole = {"node_types": ["A"], "connection_types": [KIND]} if tool == "create_ontology" else {}
    assert agent.code(tool, **(whole | wrong)) == ARGUMENT
    assert agent.code("get_ontology") == "ONTOLOGY_NOT_FOUND"


QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("search_content", {"query": ""}),
    ("search_content", {"query": "x" * 1_001}),
    ("search_content", {"query": "x", "limit": 0}),
    ("search_content", {"query": "x", "limit": -1}),
    ("search_content", {"query": "x", "limit": "5"}),
    ("search_content", {"query": "x", "mode": "fuzzy"}),
    ("query_nodes", {"properties": {"a": None}}),
    ("query_nodes", {"properties": {"a": ["x"]}}),
    ("query_nodes", {"properties": {"a": {"gt": 1}}}),
    ("query_nodes", {"limit": 0}),
    ("query_nodes", {"offset": -1}),
    ("query_nodes", {"type": 5}),
    ("query_connections", {"properties": {"a": []}}),
    ("query_connections", {"from_node_id": ""}),
    ("query_connections", {"colour": "red"}),
    ("get_node", {}),
    ("get_node", {"node_id": "x" * 10_000}),
    ("get_node_content", {"node_id": 5}),
    ("delete_node", {"node_id": ""}),
    ("delete_connection", {}),
]


@promise("M27", "an empty query or a limit below one is refused")
@pytest.mark.parametrize(("tool", "wrong"), QUESTIONS, ids=lambda value: str(value)[:60])
def test_a_question_that_makes_no_sense_is_refused(gtd: OntologyAgent, tool: str, wrong: dict[str, Any]) -> None:
    assert gtd.code(tool, **wrong) == ARGUMENT


def test_every_fault_of_a_call_is_named(gtd: OntologyAgent) -> None:
    said = gtd.refusal("create_connection", type=5, colour="red")
    assert said["details"]["problems"] == [
        "field 'type' must be a string",
        "field 'from_node_id' is required",
        "field 'to_node_id' is required",
        "field 'colour' is not allowed",
    ]


def test_null_is_the_same_as_not_given_where_a_field_may_be_left_out(gtd: OntologyAgent) -> None:
    made = gtd.call("create_node", **NODE, properties=None)
    assert gtd.call("get_node", **made)["properties"] == {}
