"""What an operation does not use is refused, in every tool that has operations (X21)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from tallystick import app
from tallystick.config import Settings
from tallystick.errors import InvalidArgument
from tallystick.extensions.tasks import toolset as tasks
from tallystick.server.dispatch import prepare
from tallystick.toolsets import Tool, knowledge, memory, work
from tallystick.toolsets.operation_arguments import OperationArguments, operation_faults
from tests.promises import promise

HEX = "a" * 32
TOOLS = {
    tool.name: tool
    for toolset in (memory.TOOLSET, knowledge.TOOLSET, tasks.toolset(), work.TOOLSET)
    for tool in toolset.tools
}

# tool → operation (and kind of entity) → every parameter that it uses, besides those that choose it.
USES: dict[str, dict[str, str]] = {
    "query_graph": {
        "get atom": "id includeChangelog changelogLimit",
        "get molecule": "id includeChangelog changelogLimit",
        "search atom": "projectId query moleculeId orphansOnly includeChangelog changelogLimit limit offset",
        "search molecule": "projectId query includeChangelog changelogLimit limit offset",
        "context": "projectId paths includeChangelog changelogLimit entityType",
    },
    "manage_graph": {
        "create atom": "projectId name paths knowledge moleculeId relatedAtoms createdByTaskId pin",
        "create molecule": "projectId name knowledge relatedMolecules createdByTaskId",
        "update atom": "id version projectId name paths knowledge knowledgeMode moleculeId relatedAtoms lastTaskId pin",
        "update molecule": "id version projectId name knowledge knowledgeMode relatedMolecules lastTaskId",
        "delete atom": "id version lastTaskId cascade",
        "delete molecule": "id version lastTaskId cascade",
    },
    "manage_changelog": {"append": "parentType parentId taskId summary", "search": "parentType parentId limit offset"},
    "manage_container": {
        "create project": "name title summary description tags",
        "create feature": "name title summary description priority projectId tags relatedTo",
        "create task": "name title summary description priority projectId featureId complexity tags relatedTo",
        "update project": "id version name title summary description tags",
        "update feature": "id version name title summary description priority projectId tags relatedTo",
        "update task": "id version name title summary description priority projectId featureId complexity tags"
        " relatedTo",
        "delete project": "id version cascade",
        "delete feature": "id version cascade",
        "delete task": "id version cascade",
    },
    "query_container": {
        "get project": "id includeSections includeGraphContext",
        "get task": "id includeSections includeGraphContext",
        "search project": "query tags limit offset includeGraphContext",
        "search feature": "query status priority tags projectId limit offset includeGraphContext",
        "search task": "query status priority tags projectId featureId limit offset includeGraphContext",
        "overview task": "query status priority tags projectId featureId limit offset includeGraphContext id",
    },
    "manage_sections": {
        "add": "entityType entityId title usageDescription content contentFormat tags ordinal",
        "update": "sectionId version title usageDescription content contentFormat tags ordinal",
        "updateText": "sectionId version content",
        "delete": "sectionId version",
        "reorder": "entityType entityId orderedIds",
        "bulkCreate": "entityType entityId sections",
        "bulkDelete": "sectionIds",
    },
    "manage_dependency": {"create": "fromId toId type", "delete": "fromId toId type"},
    "query_templates": {"get": "id", "list": "targetEntityType isEnabled isBuiltIn tags"},
    "manage_template": {
        "create": "name description targetEntityType isProtected createdBy tags",
        "update": "id name description targetEntityType createdBy tags",
        "delete": "id",
        "enable": "id",
        "disable": "id",
        "addSection": "id title usageDescription contentSample contentFormat ordinal isRequired tags",
    },
    "memory.write": {
        "UPSERT_NODE": "node if_commit reason nonce actor run_context receipt",
        "UPSERT_EDGE": "edge if_commit reason nonce actor run_context receipt",
        "PATCH_NODE": "node if_commit reason nonce actor run_context receipt",
        "PATCH_EDGE": "edge if_commit reason nonce actor run_context receipt",
        "DELETE_NODE": "node_id if_commit reason nonce actor run_context receipt",
        "DELETE_EDGE": "edge edge_id if_commit reason nonce actor run_context receipt",
        "REDACT_NODE": "node_id redacted_fields original_commit_id reason nonce actor run_context receipt",
        "REDACT_EDGE": "edge edge_id redacted_fields original_commit_id reason nonce actor run_context receipt",
    },
    "graph_restructure": {"move": "node_id new_parent", "merge": "source target", "drop": "node_id reason"},
}
VALUES: dict[str, Any] = {
    "id": HEX, "moleculeId": HEX, "parentId": HEX, "entityType": "TASK", "targetEntityType": "TASK",
    "parentType": "atom", "orphansOnly": True, "includeChangelog": True, "includeSections": True,
    "includeGraphContext": True, "cascade": True, "pin": True, "isEnabled": True, "isBuiltIn": True,
    "isProtected": True, "isRequired": True, "changelogLimit": 1, "limit": 1, "offset": 1, "version": 1,
    "complexity": 1, "ordinal": 1, "priority": "LOW", "paths": ["a"], "relatedAtoms": [], "relatedMolecules": [],
    "sections": [], "knowledgeMode": "overwrite", "contentFormat": "JSON", "type": "BLOCKS",
    "node": {"id": "n", "type": "T", "attrs": {}}, "edge": {"from": "a", "rel": "r", "to": "b"},
    "redacted_fields": ["attrs"], "original_commit_id": "0" * 64, "if_commit": "0" * 12,
    "ops": [{"op": "DELETE_NODE", "node_id": "n"}], "run_context": {"run_id": "r"}, "receipt": True,
}  # fmt: skip
NEEDED = {
    "manage_changelog": {"parentType": "atom", "parentId": HEX},
    "manage_dependency": {"fromId": "a", "toId": "b"},
}


def arguments_of(tool: str, case: str, **said: Any) -> dict[str, Any]:
    operation, _, kind = case.partition(" ")
    if tool == "graph_restructure":
        return {"operations": [{"op": operation, **said}]}
    named = {"op" if tool == "memory.write" else "operation": operation}
    if kind:
        named["entityType" if tool.endswith("graph") else "containerType"] = kind
    return NEEDED.get(tool, {}) | said | named


def model_of(tool: str) -> type[OperationArguments]:
    found = models_of(TOOLS[tool].input)
    return next(model for model in found if issubclass(model, OperationArguments))


def parameters_of(tool: str, case: str) -> list[str]:
    chosen = arguments_of(tool, case).keys() - NEEDED.get(tool, {}).keys() | {"op"}
    if tool == "manage_container":
        chosen |= {"status"}  # which other tools change, as it says itself
    return [name for name in model_of(tool).model_fields if name not in chosen]


def value_of(tool: str, name: str) -> Any:
    return "atom" if (tool, name) == ("query_graph", "entityType") else VALUES.get(name, "words")


CASES = [(tool, case) for tool, cases in USES.items() for case in cases]


@promise("X21", "what an operation does not use is refused, in every tool that has operations")
@pytest.mark.parametrize(("tool", "case"), CASES)
def test_what_an_operation_uses_is_taken_and_all_else_refused_by_name(tool: str, case: str) -> None:
    used = USES[tool][case].split()
    assert set(used) <= set(parameters_of(tool, case))
    for name in parameters_of(tool, case):
        said = arguments_of(tool, case, **{name: value_of(tool, name)})
        if name in used:
            prepare(TOOLS[tool], said)
        else:
            with pytest.raises(InvalidArgument) as refused:
                prepare(TOOLS[tool], said)
            place = f"operations[0].{name}" if tool == "graph_restructure" else name
            operation = " of ".join(case.split())
            assert refused.value.problems[0] == f"field '{place}' does not belong to {operation}"
            takes = refused.value.problems[1].removeprefix("field 'operations[0]': ")
            assert takes.startswith(f"{operation} takes ")
            not_told = {model_of(tool).kind_field} | ({"id"} if operation == "overview of task" else set())
            assert set(takes.removeprefix(f"{operation} takes ").split(", ")) == set(used) - not_told


@pytest.mark.parametrize(("tool", "case"), CASES)
def test_faults_of_form_and_of_the_operation_are_named_together(tool: str, case: str) -> None:
    within = "operations[0]." if tool == "graph_restructure" else ""
    unused = [name for name in parameters_of(tool, case) if name not in USES[tool][case].split()]
    said = arguments_of(tool, case, **{name: value_of(tool, name) for name in unused}, no_such_field=1)
    with pytest.raises(InvalidArgument) as refused:
        prepare(TOOLS[tool], said)
    problems = refused.value.problems
    assert f"field '{within}no_such_field' is not allowed" in problems
    named = {f"field '{within}{name}' does not belong to {' of '.join(case.split())}" for name in unused}
    assert named <= set(problems)


def test_faults_of_form_and_of_each_of_several_operations_are_named_together() -> None:
    said = {"ops": [{"op": "DELETE_NODE", "node_id": 7, "edge_id": "e"}, {"op": "NO_SUCH", "node_id": "n"}], "nonce": 1}
    with pytest.raises(InvalidArgument) as refused:
        prepare(TOOLS["memory.write"], said)
    problems = refused.value.problems
    assert "field 'ops[0].edge_id' does not belong to DELETE_NODE" in problems
    assert "field 'ops[0].node_id' must be a string" in problems
    assert "field 'nonce' must be a string" in problems
    assert any(problem.startswith("field 'ops[1].op' must be") for problem in problems)


@pytest.mark.parametrize(
    ("operation", "missing"),
    [
        ({"op": "UPSERT_NODE"}, ["node"]),
        ({"op": "UPSERT_NODE", "node": {"id": 7}}, ["node.type", "node.attrs"]),
        ({"op": "UPSERT_NODE", "node": 7}, []),
        ({"op": "UPSERT_EDGE"}, ["edge"]),
        ({"op": "UPSERT_EDGE", "edge": {"from": "a", "rel": "knows"}}, ["edge.to"]),
        ({"op": "PATCH_EDGE", "edge": {"from": "a", "rel": 7}}, ["edge.to", "edge.attrs"]),
        ({"op": "DELETE_NODE", "node_id": None}, ["node_id"]),
        ({"op": "DELETE_EDGE"}, ["edge' or '{}edge_id"]),
        ({"op": "REDACT_NODE", "redacted_fields": ["attrs", 7]}, ["node_id", "reason"]),
        ({"op": "REDACT_EDGE", "edge": []}, ["reason"]),
        ({"node": {"id": 7}}, ["op"]),
    ],
)
@pytest.mark.parametrize("within", ["", "ops[1]."])
def test_missing_fields_are_named_together_with_faults_of_form(
    operation: dict[str, Any], missing: list[str], within: str
) -> None:
    several = {"ops": [{"op": "DELETE_NODE", "node_id": "n"}, operation | {"no_such_field": 1}]}
    with pytest.raises(InvalidArgument) as refused:
        prepare(TOOLS["memory.write"], several if within else operation | {"no_such_field": 1})
    problems = refused.value.problems
    assert f"field '{within}no_such_field' is not allowed" in problems
    named = [problem for problem in problems if problem.endswith("is required")]
    assert sorted(named) == sorted(f"field '{within}{name.format(within)}' is required" for name in missing)


def test_a_reason_for_the_whole_call_is_one_for_each_operation_with_faults_of_form() -> None:
    said = {"ops": [{"op": "REDACT_NODE", "no_such_field": 1}], "reason": "asked"}
    with pytest.raises(InvalidArgument) as refused:
        prepare(TOOLS["memory.write"], said)
    assert refused.value.problems == [
        "field 'ops[0].no_such_field' is not allowed",
        "field 'ops[0].node_id' is required",
    ]


def test_other_faults_of_an_operation_are_named_together_with_faults_of_form() -> None:
    edge = {"from": "a", "rel": "r", "to": "b", "id": "a|b"}
    said = {
        "ops": [{"op": "UPSERT_EDGE", "edge": edge}, {"op": "DELETE_EDGE", "edge": edge, "edge_id": "e"}],
        "nonce": 1,
    }
    with pytest.raises(InvalidArgument) as refused:
        prepare(TOOLS["memory.write"], said)
    assert refused.value.problems == [
        "field 'nonce' must be a string",
        "field 'ops[0].edge.id' must not contain '|', which the ids made from from|rel|to do",
        "fields 'ops[1].edge' and 'ops[1].edge_id' cannot both name the edge",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        {"ops": 1},
        {"ops": [1, []]},
        {"op": ["UPSERT_NODE"]},
        {"op": {}, "node": 1},
    ],
)
def test_arguments_of_any_shape_are_refused_and_nothing_else(arguments: Any) -> None:
    assert list(operation_faults(TOOLS["memory.write"].input, arguments)) == []


@pytest.mark.parametrize("tool", sorted(USES.keys() - {"memory.write"}))
def test_without_an_operation_only_that_is_told(tool: str) -> None:
    with pytest.raises(InvalidArgument, match=r"is required|operations"):
        prepare(TOOLS[tool], {name: value_of(tool, name) for name in parameters_of(tool, next(iter(USES[tool])))})


@pytest.mark.parametrize(("tool", "case"), CASES)
def test_null_and_a_blank_say_nothing(tool: str, case: str) -> None:
    unused = set(parameters_of(tool, case)) - set(USES[tool][case].split())
    prepare(TOOLS[tool], arguments_of(tool, case, **dict.fromkeys(unused)))


def test_an_overview_of_one_is_no_search() -> None:
    said = arguments_of("query_container", "overview task", id=HEX, query="x")
    with pytest.raises(InvalidArgument, match=r"field 'query' does not belong to overview of task; .* takes id, "):
        prepare(TOOLS["query_container"], said)


@promise("X21, every tool", "no tool with operations is left out of the rule")
def test_every_tool_with_operations_goes_by_this_rule() -> None:
    """And every one of their operations stands in the table above."""
    with_operations = {tool.name for tool in all_tools() if any(map(has_operations, models_of(tool.input)))}
    assert with_operations == USES.keys()
    for tool, cases in USES.items():
        model = model_of(tool)
        operations = operations_of(model)
        assert set(operations) == {case.split()[0] for case in cases}


def operations_of(model: type[OperationArguments]) -> tuple[str, ...]:
    found = get_args(model.model_fields[model.operation_field].annotation)
    return get_args(found[0]) or found


SINGLE = [(tool, case) for tool, case in CASES if tool == "memory.write"]


@pytest.mark.parametrize(("tool", "case"), SINGLE)
def test_each_of_several_operations_is_held_to_the_same(tool: str, case: str) -> None:
    used = USES[tool][case].split()
    for name in memory.arguments.WriteArguments.model_fields:
        if name == "op":
            continue
        said = {"ops": [{"op": "DELETE_NODE", "node_id": "n"}, {"op": case, name: value_of(tool, name)}]}
        if name in used and name not in ("nonce", "actor", "run_context", "receipt"):
            prepare(TOOLS[tool], said)
            continue
        with pytest.raises(InvalidArgument) as refused:
            prepare(TOOLS[tool], said)
        assert refused.value.problems[0].startswith(f"field 'ops[1].{name}' ")
        assert refused.value.problems[0].endswith((f"does not belong to {case}", "is not allowed"))


def test_several_operations_take_nothing_that_belongs_to_one() -> None:
    several = {"ops": VALUES["ops"]}
    for name in ("node", "edge", "node_id", "edge_id", "if_commit", "redacted_fields", "original_commit_id"):
        with pytest.raises(InvalidArgument) as refused:
            prepare(TOOLS["memory.write"], several | {name: value_of("memory.write", name)})
        assert refused.value.problems == [
            f"field '{name}' does not belong to ops",
            "ops takes reason, ops, nonce, actor, run_context, receipt",
        ]


def all_tools() -> Iterator[Tool]:
    for toolset in app.toolsets(Settings(base=Path("nowhere"))):
        yield from toolset.tools


def has_operations(model: type[BaseModel]) -> bool:
    found = bool({"operation", "op"} & model.model_fields.keys())
    assert found == issubclass(model, OperationArguments)
    return found


def models_of(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for inner in types_within(field.annotation):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from models_of(inner)


def types_within(annotation: Any) -> Iterator[Any]:
    yield annotation
    for inner in get_args(annotation):
        yield from types_within(inner)
