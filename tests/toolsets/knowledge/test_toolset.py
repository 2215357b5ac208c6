"""The table of the three tools, their envelope, and who may use them."""

from __future__ import annotations

from typing import Any

import jsonschema
import msgspec
import pytest

from tallystick.errors import Conflict, Denied, InvalidArgument, LimitExceeded, LogClosed, NotFound
from tallystick.policy import Action, Decision, Request
from tallystick.server.schemas import error_schema, input_schema
from tallystick.toolsets import Tool
from tallystick.toolsets.envelope import error_shape, find_uuid
from tallystick.toolsets.knowledge import TOOLSET
from tallystick.toolsets.knowledge.context import project_deletion
from tests.promises import promise
from tests.toolsets.knowledge.agents import OTHER, SHOP, TASK, KnowledgeAgent, keeping

each_tool = pytest.mark.parametrize("tool", TOOLSET.tools, ids=lambda tool: tool.name)


def test_the_three_tools_are_offered_and_their_faults_are_results() -> None:
    assert [tool.name for tool in TOOLSET.tools] == ["query_graph", "manage_graph", "manage_changelog"]
    assert [tool.name for tool in TOOLSET.tools if tool.reads_only] == ["query_graph"]
    assert TOOLSET.faults == "result"


PARAMETERS = {
    "query_graph": "operation entityType id projectId paths query moleculeId orphansOnly includeChangelog"
    " changelogLimit limit offset",
    "manage_graph": "operation entityType id version projectId name paths knowledge knowledgeMode moleculeId"
    " relatedAtoms relatedMolecules createdByTaskId lastTaskId cascade pin",
    "manage_changelog": "operation parentType parentId taskId summary limit offset",
}


@promise("knowledge, tools", "three tools have every parameter of the spec")
@each_tool
def test_schemas_are_valid_closed_plain_and_have_every_parameter(tool: Tool) -> None:
    schema = input_schema(tool)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator.check_schema(tool.output)
    assert list(schema["properties"]) == PARAMETERS[tool.name].split()
    assert schema["additionalProperties"] is False
    assert not {"$ref", "anyOf", "$defs"} & set(msgspec.json.encode(schema).decode().split('"'))


def test_what_a_client_is_shown_is_short() -> None:
    shown = [
        {"name": tool.name, "description": tool.description, "in": input_schema(tool), "out": tool.output}
        for tool in TOOLSET.tools
    ]
    assert len(msgspec.json.encode(shown)) / 4 < 1_100


def test_calls_and_answers_fit_the_schemas(agent: KnowledgeAgent) -> None:
    atom = agent.atom()
    named = {"entityType": "atom", "id": atom["id"]}
    calls: list[tuple[str, dict[str, Any]]] = [
        ("query_graph", {"operation": "get", **named, "changelogLimit": 3}),
        ("query_graph", {"operation": "search", "entityType": "atom", "projectId": SHOP, "moleculeId": SHOP}),
        ("query_graph", {"operation": "context", "projectId": SHOP, "paths": "a,b"}),
        ("query_graph", {"operation": "context", "projectId": SHOP, "paths": ["a"]}),
        ("manage_graph", {"operation": "update", **named, "version": 1, "paths": '["a"]', "moleculeId": None}),
        ("manage_graph", {"operation": "update", **named, "version": 2, "paths": ["b"], "relatedAtoms": []}),
        (
            "manage_changelog",
            {"operation": "append", "parentType": "atom", "parentId": atom["id"], "taskId": TASK, "summary": "s"},
        ),
        ("manage_changelog", {"operation": "search", "parentType": "atom", "parentId": atom["id"]}),
        ("manage_graph", {"operation": "delete", **named, "version": 3}),
    ]
    for name, arguments in calls:
        jsonschema.validate(arguments, input_schema(agent.tools[name]), jsonschema.Draft202012Validator)
        answer = agent.told(name, **arguments)
        jsonschema.validate(answer, agent.tools[name].output, jsonschema.Draft202012Validator)
        assert set(answer) <= {"success", "message", "data"}


@promise("K2", "every error has one envelope")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidArgument("wrong"), {"code": "VALIDATION_ERROR", "message": "wrong"}),
        (
            InvalidArgument("a; b", problems=["a", "b"]),
            {"code": "VALIDATION_ERROR", "message": "a; b", "details": {"problems": ["a", "b"]}},
        ),
        (
            NotFound("gone", hint="look", details={"id": "x"}),
            {"code": "NOT_FOUND", "message": "gone", "details": {"id": "x", "hint": "look"}},
        ),
        (
            Conflict("old", details={"currentVersion": 3}),
            {"code": "CONFLICT", "message": "old", "details": {"currentVersion": 3}},
        ),
        (Conflict("no", code="HAS_CHILDREN"), {"code": "HAS_CHILDREN", "message": "no"}),
        (Denied("no"), {"code": "AUTHORIZATION_DENIED", "message": "no"}),
        (LimitExceeded("no"), {"code": "TOO_MUCH", "message": "no"}),
        (LogClosed("no"), {"code": "LOG_CLOSED", "message": "no"}),
    ],
)
def test_every_error_has_the_same_envelope(error: Any, said: dict[str, Any]) -> None:
    shape = error_shape(error)
    assert shape == {"success": False, "message": error.message, "error": said}
    jsonschema.validate(shape, error_schema(TOOLSET), jsonschema.Draft202012Validator)


def test_a_uuid_is_known_in_any_spelling() -> None:
    plain = "0123456789abcdef0123456789abcdef"
    for spelling in (plain, plain.upper(), "01234567-89ab-cdef-0123-456789ABCDEF", f" {plain} "):
        assert find_uuid(spelling) == plain
    for other in ("", "x", plain[:-1], plain + "0", "0123-4567" * 4, "g" * 32, f"{{{plain}}}"):
        assert find_uuid(other) is None


@promise("X8, knowledge", "every call asks the policy")
def test_the_policy_is_asked_for_the_right_action_on_the_right_entity() -> None:
    asked: list[tuple[str, str | None]] = []

    class Recording:
        allowed = True

        def decide(self, request: Request) -> Decision:
            asked.append((str(request.action), request.resource))
            return Decision(self.allowed, "because", "1", narrows=False)

    policy = Recording()
    with keeping(policy) as agent:
        asked.clear()
        atom = agent.atom()
        agent.get(atom)
        agent.query("search", entityType="atom", projectId=SHOP)
        agent.context("a")
        agent.append(atom, "s")
        agent.history(atom)
        agent.delete(agent.update(atom, name="n"))
        expected = [
            ("WRITE", atom["id"]),
            ("READ", atom["id"]),
            ("SEARCH", None),
            ("READ", None),
            ("WRITE", atom["id"]),
            ("SEARCH", atom["id"]),
            ("WRITE", atom["id"]),
            ("DELETE", atom["id"]),
        ]
        assert asked == expected
        policy.allowed = False
        error = agent.refusal("query_graph", operation="context", projectId=SHOP, paths="a")
        assert (error["code"], error["details"]["policy_decision"]["reason"]) == ("AUTHORIZATION_DENIED", "because")


@promise("K37", "a project goes with all that is known of it")
def test_a_project_goes_with_all_that_is_known_of_it(agent: KnowledgeAgent) -> None:
    molecule = agent.molecule()
    atom = agent.atom(moleculeId=molecule["id"])
    agent.append(atom, "s")
    agent.append(molecule, "s")
    other = agent.atom(projectId=OTHER)
    operations = agent.run(
        agent.store.read(agent.principal, Action.READ, lambda state, read_filter: project_deletion(state, SHOP))
    )
    assert len(operations) == 4
    agent.put(*operations)
    assert agent.query("search", entityType="atom", projectId=SHOP)["total"] == 0
    assert agent.history(atom)["total"] == agent.history(molecule)["total"] == 0
    assert agent.get(other)["atom"] == other
