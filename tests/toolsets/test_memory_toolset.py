"""The table of the four tools: what a client is shown of them."""

from __future__ import annotations

from typing import Any

import jsonschema
import msgspec
import pytest

from tallystick.errors import InvalidArgument, NotFound
from tallystick.server.schemas import input_schema, references, shown_schema
from tallystick.toolsets import Tool
from tallystick.toolsets.memory import TOOLSET, error_shape
from tests.promises import promise
from tests.toolsets.agent import TOOLS, Agent

each_tool = pytest.mark.parametrize("tool", TOOLSET.tools, ids=lambda tool: tool.name)


@promise("TC-001-01", "memory.write, .read, .search and .lineage are listed")
def test_the_four_tools_are_offered_and_their_faults_are_answered_as_the_protocol_says() -> None:
    assert list(TOOLS) == ["memory.write", "memory.read", "memory.search", "memory.lineage"]
    assert TOOLSET.faults == "protocol"
    assert [tool.name for tool in TOOLSET.tools if not tool.reads_only] == ["memory.write"]


@promise("FR-001, discovery", "the four tools have complete, closed schemas")
@each_tool
def test_schemas_are_valid_closed_and_plain(tool: Tool) -> None:
    schema = input_schema(tool)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator.check_schema(tool.output)
    for part in _objects(schema):
        if "properties" in part:
            assert part["additionalProperties"] is False
        assert "anyOf" not in part
    # Some clients read no references: only what is long and said twice has one.
    assert set(references(shown_schema(tool))) <= {"#/$defs/Traversal"}


@pytest.mark.parametrize("tool", ["memory.read", "memory.search"])
def test_what_filters_take_is_named_where_their_schema_is_not_shown(tool: str) -> None:
    shown = shown_schema(TOOLS[tool])["properties"]["filters"]
    taken = input_schema(TOOLS[tool])["properties"]["filters"]["properties"]
    assert shown == {"type": "object", "description": "alias", "properties": {name: {} for name in taken}}


def test_what_a_client_is_shown_is_short() -> None:
    shown = [
        {"name": tool.name, "description": tool.description, "in": shown_schema(tool), "out": tool.output}
        for tool in TOOLSET.tools
    ]
    assert len(msgspec.json.encode(shown)) / 4 < 2_300


def _objects(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for part in schema for found in _objects(part)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(found for part in schema.values() for found in _objects(part))]


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("memory.write", {"op": "UPSERT_NODE", "node": {"id": "n", "type": "note", "attrs": {"x": 1}}, "nonce": "1"}),
    ("memory.write", {"op": "UPSERT_EDGE", "edge": {"from": "a", "rel": "knows", "to": "b", "attrs": {}}}),
    ("memory.write", {"op": "DELETE_EDGE", "edge_id": "a|knows|b"}),
    ("memory.write", {"op": "REDACT_NODE", "node_id": "a", "reason": "x", "redacted_fields": ["attrs.x"]}),
    ("memory.write", {"op": "DELETE_NODE", "node_id": "a", "run_context": {"run_id": "r"}}),
    ("memory.read", {"entity_id": "b", "include_edges": True, "as_of": 2}),
    ("memory.read", {"entity_id": "nobody", "as_of": "2025-01-01", "fields": ["attrs.x"]}),
    ("memory.read", {"filters": {"id": "b", "type": "note"}, "if_position": 2}),
    ("memory.search", {"type": "note", "attrs": {"x": {"gt": 1}}, "since": "2020-01-01", "limit": 5, "offset": 1}),
    ("memory.search", {"filters": {"entity_id": "a", "time_window": {}, "traversal": {"hops": 2, "edge_types": []}}}),
    ("memory.lineage", {"entity_id": "b", "depth": "full", "limit": 5, "export_format": "csv"}),
    ("memory.lineage", {"entity_id": "b", "depth": "summary"}),
    ("memory.lineage", {"entity_id": "b"}),
]


@promise("FR-001, outputs", "what tools answer fits the schemas they show")
@pytest.mark.parametrize(("name", "arguments"), CALLS, ids=[f"{name} {list(said)}" for name, said in CALLS])
def test_calls_and_answers_fit_the_schemas(agent: Agent, name: str, arguments: dict[str, Any]) -> None:
    agent.node("a")
    agent.node("b")
    agent.edge("a", "knows", "b")
    jsonschema.validate(arguments, input_schema(TOOLS[name]), jsonschema.Draft202012Validator)
    answer = agent.call(name, **arguments)
    jsonschema.validate(answer, TOOLS[name].output, jsonschema.Draft202012Validator)
    assert set(answer) <= set(TOOLS[name].output["properties"])


def test_an_error_says_its_code_what_is_wrong_and_what_to_do() -> None:
    error = NotFound("no node 'x'", hint="write it first", details={"missing": ["x"], "error": "no"})
    assert error_shape(error) == {
        "error": "ENTITY_NOT_FOUND",
        "message": "no node 'x'",
        "hint": "write it first",
        "missing": ["x"],
    }
    faults = InvalidArgument("a; b", problems=["a", "b"])
    assert error_shape(faults) == {"error": "INVALID_ARGUMENT", "message": "a; b", "validation_errors": ["a", "b"]}
