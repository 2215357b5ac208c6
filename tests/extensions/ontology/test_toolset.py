"""The table of the eighteen tools: what a client is shown of them."""

from __future__ import annotations

from typing import Any

import jsonschema
import msgspec
import pytest

from tallystick.errors import Conflict, InvalidArgument
from tallystick.extensions.ontology.toolset import make_toolset
from tallystick.server.dispatch import choose
from tallystick.server.schemas import input_schema, output_schema
from tallystick.toolsets import Tool, error_shape
from tests.extensions.ontology.agents import OntologyAgent
from tests.promises import promise

TOOLSET = make_toolset(None, None)
each_tool = pytest.mark.parametrize("tool", TOOLSET.tools, ids=lambda tool: tool.name)

NAMES = [
    *("create_node", "get_node", "get_node_content", "update_node", "delete_node"),
    *("create_connection", "get_connection", "update_connection", "delete_connection"),
    *("query_nodes", "query_connections", "get_connected_nodes", "search_content", "validate_connection"),
    *("create_ontology", "add_node_type", "add_connection_type", "get_ontology"),
]


def test_the_eighteen_tools_are_offered_without_opening_anything() -> None:
    assert [tool.name for tool in TOOLSET.tools] == NAMES
    assert len(NAMES) == 18
    assert TOOLSET.faults == "result"
    reading = {name for name in NAMES if name.startswith(("get_", "query_", "search_", "validate_"))}
    assert {tool.name for tool in TOOLSET.tools if tool.reads_only} == reading


@each_tool
def test_schemas_are_valid_closed_and_plain(tool: Tool) -> None:
    schema = input_schema(tool)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator.check_schema(tool.output)
    assert schema["additionalProperties"] is False
    assert "$ref" not in msgspec.json.encode(schema).decode()


def test_what_a_client_is_shown_is_short() -> None:
    shown = [{"name": t.name, "description": t.description, "in": input_schema(t)} for t in TOOLSET.tools]
    assert len(msgspec.json.encode(shown)) / 4 < 2_600


@promise("M9", "questions are answered by an object with the ids")
def test_calls_answers_and_errors_fit_the_schemas(gtd: OntologyAgent) -> None:
    project, action = gtd.make("Project", "text"), gtd.make("Action", "more text")
    conn = gtd.join(project, "NextAction", action)
    node = {"node_id": project}
    calls: list[tuple[str, dict[str, Any]]] = [
        (
            "create_node",
            {"type": "Project", "content": "", "encoding": "utf-8", "format": "md", "properties": {"a": 1}},
        ),
        ("get_node", node),
        ("get_node_content", node),
        ("update_node", {**node, "properties": {"a": True}, "content": "", "encoding": "base64", "format": "png"}),
        ("create_connection", {"type": "NextAction", "from_node_id": project, "to_node_id": action, "content": "x"}),
        ("get_connection", {"connection_id": conn, "include_content": True}),
        ("update_connection", {"connection_id": conn, "content": "x", "format": "text"}),
        ("query_nodes", {"type": "Project", "properties": {"a": 1}, "limit": 1, "offset": 0}),
        ("query_connections", {"from_node_id": project, "to_node_id": action, "type": "NextAction", "limit": 1}),
        ("get_connected_nodes", {**node, "connection_type": "NextAction", "direction": "both", "limit": 1}),
        ("search_content", {"query": "text", "node_type": "Action", "limit": 1, "mode": "ranked"}),
        ("validate_connection", {"connection_type": "x", "from_node_type": "y", "to_node_type": "z"}),
        ("delete_connection", {"connection_id": conn}),
        ("delete_node", node),
        ("add_node_type", {"type_name": "New"}),
        ("add_connection_type", {"type_name": "New", "from_types": [], "to_types": [], "required_properties": ["a"]}),
        ("get_ontology", {}),
        ("create_ontology", {"node_types": [], "connection_types": [{"name": "x", "from_types": [], "to_types": []}]}),
    ]
    entries = {entry.tool.name: entry for entry in choose([TOOLSET])}
    assert {name for name, _ in calls} == set(NAMES)
    for name, arguments in calls:
        jsonschema.validate(arguments, input_schema(gtd.tool(name)), jsonschema.Draft202012Validator)
        output = output_schema(entries[name])
        if name == "create_ontology":
            jsonschema.validate(gtd.refusal(name, **arguments), output, jsonschema.Draft202012Validator)
            continue
        answer = gtd.call(name, **arguments)
        jsonschema.validate(answer, gtd.tool(name).output, jsonschema.Draft202012Validator)
        assert set(answer) <= set(gtd.tool(name).output["properties"])


def test_an_error_is_a_code_a_message_and_details_where_there_are_any() -> None:
    assert error_shape(Conflict("no", code="TYPE_ALREADY_EXISTS")) == {"code": "TYPE_ALREADY_EXISTS", "message": "no"}
    assert error_shape(InvalidArgument("a; b", problems=["a", "b"], hint="do", details={"x": 1})) == {
        "code": "INVALID_ARGUMENT",
        "message": "a; b",
        "details": {"x": 1, "hint": "do", "problems": ["a", "b"]},
    }
