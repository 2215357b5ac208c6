"""The prompts name tools and arguments that exist, and only those that are on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tallystick.app import toolsets
from tallystick.config import load
from tallystick.errors import InvalidArgument
from tallystick.server.dispatch import Tools, choose
from tallystick.server.prompts import ARGUMENT_CHARACTERS_MAX, PROMPTS, Prompts, tools_of
from tests.promises import promise
from tests.server import sample
from tests.tokens import IS_INSTALLED, count_tokens

DEFAULT = ("memory", "work", "knowledge")


def offered(tmp_path: Path, *names: str, read_only: bool = False, tools: tuple[str, ...] | None = None) -> Tools:
    return choose(toolsets(load({"base": tmp_path}, environ={})), names=names, read_only=read_only, tools=tools)


def prompts(tools: Tools) -> Prompts:
    return Prompts(sample.offer(tools=tools))


def text_of(found: Prompts, name: str, client: str | None = None, **given: str) -> str:
    (message,) = found.get(name, given, client)["messages"]
    assert message["role"] == "user"
    return str(message["content"]["text"])


@promise("prompts, tools", "every tool and field that a prompt names exists")
def test_every_tool_and_field_that_a_prompt_names_exists(tmp_path: Path) -> None:
    tools = offered(tmp_path, *DEFAULT)
    for prompt in PROMPTS:
        assert set(prompt.needs) <= {name for step in prompt.steps for name in tools_of(step)}
        for step in prompt.steps:
            entries = [tools.get(name) for name in tools_of(step)]
            schemas = str([entry.tool.input.model_json_schema() for entry in entries]) + str(
                [entry.tool.output for entry in entries]
            )
            for field in re.findall(r"`([a-z_A-Z]+)(?:: \w+)?`", step):
                assert field in schemas or field in ANSWERED, (prompt.name, field)
            for operation in re.findall(r"`operation: (\w+)`", step):
                assert f"'{operation}'" in schemas


ANSWERED = {"stale", "untrusted", "unmatchedPaths", "_claimed_by", "_claimed_at", "state"}
"""What answers say, and properties that tools write."""


@pytest.mark.skipif(not IS_INSTALLED, reason="npm packages not installed: run make test")
def test_each_is_a_page_and_no_more(tmp_path: Path) -> None:
    found = prompts(offered(tmp_path, *DEFAULT))
    assert [each["name"] for each in found.listed] == ["discover", "plan", "wrap-up"]
    texts = [text_of(found, "discover"), text_of(found, "plan", goal="x"), text_of(found, "wrap-up")]
    assert [count for count in count_tokens(texts) if count > 500] == []


@promise("prompts, off", "steps and prompts whose tools are off are left out")
def test_steps_whose_tools_are_off_are_left_out_and_so_are_prompts_without_any(tmp_path: Path) -> None:
    words = text_of(prompts(offered(tmp_path, "memory")), "wrap-up")
    assert "memory.write" in words
    assert "graph_" not in words
    reading = prompts(offered(tmp_path, *DEFAULT, read_only=True))
    assert [each["name"] for each in reading.listed] == ["discover"]
    assert "graph_next" not in text_of(reading, "discover")
    assert not prompts(offered(tmp_path, "files"))


@pytest.mark.parametrize(("client", "name"), [("claude-code", "memory.search"), ("cursor-vscode", "memory_search")])
def test_tools_are_named_as_the_client_lists_them(client: str, name: str, tmp_path: Path) -> None:
    assert f"`{name}`" in text_of(prompts(offered(tmp_path, *DEFAULT)), "discover", client, topic="tea")


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("absent", {}, "there is no prompt"),
        ("plan", {}, "'arguments.goal' is required"),
        ("plan", {"goal": "  "}, "'arguments.goal' is required"),
        ("plan", {"goal": "x", "y": "z"}, "'arguments.y' is not allowed"),
        ("plan", {"goal": "x" * (ARGUMENT_CHARACTERS_MAX + 1)}, "at most"),
    ],
)
def test_a_bad_argument_is_named(name: str, given: dict[str, str], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        prompts(offered(tmp_path, *DEFAULT)).get(name, given, None)
