"""tallystick knowledge: what a person is told of files, and of what is out of date."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app
from tallystick.commits import Draft, Operation, Verb
from tallystick.config import load
from tallystick.errors import InvalidArgument, NotFound
from tallystick.policy import Action, Principal
from tallystick.server.dispatch import prepare
from tallystick.state.state import State
from tallystick.toolsets.knowledge import make_tool_context, make_toolset
from tests.command_line import CommandLine
from tests.promises import promise
from tests.toolsets.knowledge.agents import OTHER, SHOP, TASK, Checkout

WHO = Principal(actor="tester")


class ToolContext(msgspec.Struct):
    """A base on disk that agents have written to, and the command line beside it."""

    base: Path
    checkout: Checkout

    def write(self, *calls: dict[str, Any], projects: tuple[tuple[str, str], ...] = ((SHOP, "shop"),)) -> None:
        asyncio.run(self._write(calls, projects))

    async def _write(self, calls: tuple[dict[str, Any], ...], projects: tuple[tuple[str, str], ...]) -> None:
        tool = make_toolset(make_tool_context(repo=self.checkout.root)).tools[1]
        nodes: list[tuple[str, str, dict[str, Any]]]
        nodes = [(project, "work/project", {"name": name, "root": "r", "summary": ""}) for project, name in projects]
        nodes.append((TASK, "work/node", {"project": SHOP, "parent": None, "summary": "", "resolved": False, "rev": 1}))
        made = tuple(Operation(Verb.UPSERT_NODE, {"id": i, "type": kind, "attrs": attrs}) for i, kind, attrs in nodes)

        def propose(state: State, read_filter: object) -> Draft:
            return Draft(made, actor="tester", tool="test")

        async with app.opened(load({"base": self.base}, environ={})) as store:
            await store.write(WHO, Action.WRITE, propose)
            for said in calls:
                values = {"operation": "create", "entityType": "atom", "projectId": SHOP, "createdByTaskId": TASK}
                await tool.call(store, WHO, prepare(tool, values | said))

    def run(self, *arguments: str) -> str:
        told = CommandLine(self.base).run("knowledge", *arguments)
        assert told.code == 0, told
        return told.out


@pytest.fixture
def tool_context(tmp_path: Path, checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> ToolContext:
    monkeypatch.chdir(checkout.root)
    return ToolContext(tmp_path / "base", checkout)


PAGE = {"name": "Checkout", "paths": ["src/checkout/**"], "knowledge": "locales come\nfrom the registry", "pin": True}


@promise("knowledge for", "a person is told what an agent would be")
def test_a_person_is_told_what_an_agent_would_be(tool_context: ToolContext) -> None:
    related = [{"atomId": "gone", "reason": "sends its events"}]
    tool_context.write(PAGE | {"relatedAtoms": related}, {"name": "Everything", "paths": ["**"]})
    said = tool_context.run("for", "src/checkout/page.ts", str(tool_context.checkout.root / "README.md"))
    assert said.splitlines() == [
        "Checkout: src/checkout/page.ts",
        "  locales come",
        "  from the registry",
        "  see gone: sends its events",
        "Everything: src/checkout/page.ts, README.md",
    ]
    assert tool_context.run("for", "src/checkout/page.ts", "--project", SHOP.upper()) != ""


def test_what_is_not_known_is_said(tool_context: ToolContext) -> None:
    tool_context.write(PAGE)
    assert tool_context.run("for", "new.ts", "/elsewhere/x") == "nothing is known of new.ts, /elsewhere/x\n"


def test_json_is_the_tools_own_answer(tool_context: ToolContext) -> None:
    tool_context.write(PAGE)
    found = json.loads(tool_context.run("for", "src/checkout/page.ts", "new.ts", "--json"))
    assert set(found) == {"molecules", "orphanAtoms", "unmatchedPaths"}
    assert (found["orphanAtoms"][0]["fresh"], found["unmatchedPaths"]) == (True, ["new.ts"])


@promise("knowledge stale", "stale knowledge is listed with the files that changed")
def test_stale_knowledge_is_listed_with_the_files_that_changed(tool_context: ToolContext) -> None:
    tool_context.write(PAGE, {"name": "Readme", "paths": ["README.md"], "pin": True})
    assert json.loads(tool_context.run("stale", "--json")) == {"atoms": []}
    tool_context.checkout.write("src/checkout/page.ts", "two")
    [atom] = json.loads(tool_context.run("stale", "--json", "--project", "shop"))["atoms"]
    assert (atom["name"], atom["project"], atom["changedFiles"]) == ("Checkout", "shop", ["src/checkout/page.ts"])
    [heading, row] = tool_context.run("stale").splitlines()
    assert heading.split() == ["atom", "id", "project", "pinned", "changed"]
    assert row.split()[0] == "Checkout"
    assert row.endswith("src/checkout/page.ts")
    assert "out of date: src/checkout/page.ts changed since" in tool_context.run("for", "src/checkout/cart.ts")


def test_another_directory_can_be_named(
    tool_context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool_context.write(PAGE)
    tool_context.checkout.write("src/checkout/page.ts", "two")
    monkeypatch.chdir(tmp_path)
    told = CommandLine(tool_context.base).run("knowledge", "stale", "--json")
    assert told.json["atoms"] == []
    assert f"there is no git work tree around {tmp_path}: paths are relative to it\n" in told.err
    assert len(json.loads(tool_context.run("stale", "--json", "--repo", str(tool_context.checkout.root)))["atoms"]) == 1


def test_every_directory_of_the_repository_is_as_good(
    tool_context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool_context.write(PAGE)
    link = tmp_path / "link"
    link.symlink_to(tool_context.checkout.root)
    for directory in ("", "src", "src/checkout"):
        monkeypatch.chdir(tool_context.checkout.root / directory)
        for path in (
            "src/checkout/page.ts",
            str(tool_context.checkout.root / "src/checkout/page.ts"),
            f"{link}/src/checkout/x",
        ):
            [atom] = json.loads(tool_context.run("for", path, "--json"))["orphanAtoms"]
            assert atom["fresh"] is True
    tool_context.checkout.write("src/checkout/page.ts", "two")
    for directory in ("", "src", "src/checkout"):
        monkeypatch.chdir(tool_context.checkout.root / directory)
        [atom] = json.loads(tool_context.run("stale", "--json"))["atoms"]
        assert atom["changedFiles"] == ["src/checkout/page.ts"]


def test_patterns_that_match_no_file_are_listed_too(tool_context: ToolContext) -> None:
    tool_context.write(PAGE | {"paths": ["src/chekout/**", "src/old.ts"]})
    [_, row] = tool_context.run("stale").splitlines()
    assert row.endswith("no file matches src/chekout/**, src/old.ts")
    said = tool_context.run("for", "src/chekout/a.ts").splitlines()
    assert said[1] == "  no file matches src/chekout/**, src/old.ts"


def test_a_project_must_be_named_where_there_are_several(tool_context: ToolContext) -> None:
    tool_context.write(PAGE, projects=((SHOP, "shop"), (OTHER, "blog")))
    with pytest.raises(InvalidArgument) as refusal:
        tool_context.run("for", "a")
    assert refusal.value.hint == "the projects are shop, blog"
    assert tool_context.run("for", "a", "--project", "blog") == "nothing is known of a\n"
    with pytest.raises(NotFound, match="there is no project 'shoe'"):
        tool_context.run("for", "a", "--project", "shoe")


def test_without_a_project_or_a_memory_the_reason_is_told(tool_context: ToolContext) -> None:
    with pytest.raises(NotFound, match="there is no memory"):
        tool_context.run("for", "a")
    tool_context.write(projects=())
    with pytest.raises(NotFound, match="there is no project yet"):
        tool_context.run("for", "a")


def test_what_agents_wrote_cannot_steer_the_terminal(tool_context: ToolContext) -> None:
    tool_context.write({"name": "a\x1b[2Jb", "paths": ["a"], "knowledge": "c\x1b]0;d"})
    assert "\x1b" not in tool_context.run("for", "a")
