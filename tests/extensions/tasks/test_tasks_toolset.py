"""The toolset as a whole: its table, its settings, and anything at all as arguments."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extensions.tasks.cards import Pipelines
from tallystick.extensions.tasks.settings import read_pipelines
from tallystick.extensions.tasks.toolset import toolset
from tallystick.server.schemas import input_schema
from tests.extensions.tasks.agents import TasksAgent
from tests.promises import promise

TOOLSET = toolset()
TOOLS = {
    "manage_container", "query_container", "query_sections", "manage_sections", "get_next_task", "get_next_feature",
    "get_blocked_tasks", "get_blocked_features", "manage_dependency", "query_dependencies", "query_workflow_state",
    "advance", "revert", "terminate", "block", "unblock", "query_templates", "manage_template", "apply_template",
    "list_tags", "get_tag_usage", "rename_tag",
}  # fmt: skip


@promise("tasks, tools", "every tool of the contract is there")
def test_every_tool_of_the_contract_is_there() -> None:
    assert {tool.name for tool in TOOLSET.tools} == TOOLS


def test_reading_tools_are_the_ones_that_ask() -> None:
    authorization = {tool.name for tool in TOOLSET.tools if tool.reads_only}
    assert authorization == {name for name in TOOLS if re.match(r"query_|get_|list_", name)}


def test_what_is_needed_is_required_in_the_schema() -> None:
    schemas = {tool.name: input_schema(tool) for tool in TOOLSET.tools}
    assert schemas["advance"]["required"] == ["containerType", "id", "version"]
    assert schemas["advance"]["properties"]["containerType"]["enum"] == ["feature", "task"]
    assert schemas["manage_container"]["required"] == ["operation", "containerType"]


def test_what_is_left_out_and_what_is_unknown_is_refused(agent: TasksAgent) -> None:
    assert agent.refusal("advance", containerType="task", id="x", version=None)["code"] == "VALIDATION_ERROR"
    assert agent.refusal("advance", containerType="project", id="x", version=1)["code"] == "VALIDATION_ERROR"
    assert agent.refusal("list_tags", colour="red")["code"] == "VALIDATION_ERROR"
    assert agent.refusal("manage_container", operation="create", containerType=" ")["code"] == "VALIDATION_ERROR"


# -- settings


def read(tmp_path: Path, text: str) -> Pipelines:
    (tmp_path / "config.yaml").write_text(text, "utf-8")
    return read_pipelines({"TASK_ORCHESTRATOR_HOME": str(tmp_path)})


def test_pipelines_come_from_the_home_directory(tmp_path: Path) -> None:
    assert read_pipelines({}) == read_pipelines({"TASK_ORCHESTRATOR_HOME": str(tmp_path)}) == Pipelines()
    said = 'version: "3.0"\npipelines:\n  task: [NEW, ACTIVE, TO_BE_TESTED, CLOSED]\n'
    assert read(tmp_path, said) == Pipelines(task=("NEW", "ACTIVE", "TO_BE_TESTED", "CLOSED"))
    assert read(tmp_path, "") == Pipelines()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_a_directory_or_a_pipe_in_the_place_of_the_settings_is_told(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "config.yaml")
    with pytest.raises(InvalidArgument, match="not a regular file"):
        read_pipelines({"TASK_ORCHESTRATOR_HOME": str(tmp_path)})


@promise("tasks, pipelines", "a pipeline that makes no sense is refused")
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("task: [NEW, CLOSED]", "must start with NEW, contain ACTIVE and end with CLOSED"),
        ("task: [ACTIVE, NEW, CLOSED]", "in the order"),
        ("task: [NEW, ACTIVE, ACTIVE, CLOSED]", "each state once"),
        ("feature: [NEW, ACTIVE, TO_BE_TESTED, CLOSED]", "has no state TO_BE_TESTED"),
        ("task: [NEW, ACTIVE, WILL_NOT_IMPLEMENT]", "has no state WILL_NOT_IMPLEMENT"),
        ("task: NEW", "must be a list"),
        ("epic: [NEW, ACTIVE, CLOSED]", "there is no setting 'pipelines.epic'"),
    ],
)
def test_a_pipeline_that_makes_no_sense_is_refused(tmp_path: Path, said: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read(tmp_path, f"pipelines:\n  {said}\n")


@pytest.mark.parametrize("text", ["[]", "a: [", 'version: "2.0"'])
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        read(tmp_path, text)
    assert raised.value.code == "SETTING_INVALID"


@promise("settings, tasks", "a key of config.yaml that nobody knows is named")
@pytest.mark.parametrize(
    ("text", "name", "hint"),
    [
        ('version: "3.0"\npipeline: {}', "pipeline", "did you mean 'pipelines'?"),
        ("pipelines:\n  tasks: [NEW, ACTIVE, CLOSED]", "pipelines.tasks", "did you mean 'pipelines.task'"),
        ("colour: red", "colour", "the settings are version, pipelines"),
        ("colour:", "colour", "the settings are version, pipelines"),
    ],
)
def test_a_key_that_nobody_knows_is_named(tmp_path: Path, text: str, name: str, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=f"config.yaml: there is no setting '{name}'") as raised:
        read(tmp_path, text)
    assert raised.value.code == "SETTING_UNKNOWN"
    assert (raised.value.hint or "").startswith(hint)


# -- anything at all

FIELDS = sorted({name for tool in TOOLSET.tools for name in tool.input.model_fields})
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 12), st.text(max_size=4), st.lists(st.text(max_size=3), max_size=2),
    st.sampled_from(["NEW", "HIGH", "task", "feature", "project", "TASK", "create", "update", "get", "add", "NO_OP"]),
)  # fmt: skip


@promise("tasks, anything", "whatever is asked is answered or refused")
@settings(max_examples=150)
@given(name=st.sampled_from(sorted(TOOLS)), given_=st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8))
def test_whatever_is_asked_is_answered_or_refused(agent: TasksAgent, name: str, given_: dict[str, Any]) -> None:
    tool = next(tool for tool in TOOLSET.tools if tool.name == name)
    fields = {field: value for field, value in given_.items() if field in tool.input.model_fields}
    if "id" in tool.input.model_fields:
        fields["id"] = agent.task()["id"]
    # Anything else that is raised is a bug.
    with suppress(TallystickError):
        agent.told(name, **fields)
