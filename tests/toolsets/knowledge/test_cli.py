"""tallystick knowledge: what a person is told of files, and of what is out of date."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from tallystick import app
from tallystick.cli.knowledge import commands
from tallystick.commits import Draft, Operation, Verb
from tallystick.config import load
from tallystick.errors import InvalidArgument, NotFound
from tallystick.policy import Action, Principal
from tallystick.server.dispatch import prepare
from tallystick.state.state import State
from tallystick.toolsets.knowledge import make_desk, make_toolset
from tests.toolsets.knowledge.librarian import OTHER, SHOP, TASK, Checkout

WHO = Principal(actor="tester")


class Desk(msgspec.Struct):
    """A base on disk that agents have written to, and the command line beside it."""

    base: Path
    checkout: Checkout

    def write(self, *calls: dict[str, Any], projects: tuple[tuple[str, str], ...] = ((SHOP, "shop"),)) -> None:
        asyncio.run(self._write(calls, projects))

    async def _write(self, calls: tuple[dict[str, Any], ...], projects: tuple[tuple[str, str], ...]) -> None:
        tool = make_toolset(make_desk(repo=self.checkout.root)).tools[1]
        nodes: list[tuple[str, str, dict[str, Any]]]
        nodes = [(project, "work/project", {"name": name, "root": "r", "summary": ""}) for project, name in projects]
        nodes.append((TASK, "work/node", {"project": SHOP, "parent": None, "summary": "", "resolved": False, "rev": 1}))
        made = tuple(Operation(Verb.UPSERT_NODE, {"id": i, "type": kind, "attrs": attrs}) for i, kind, attrs in nodes)

        def propose(state: State) -> Draft:
            return Draft(made, actor="tester", tool="test")

        async with app.opened(load({"base": self.base}, environ={})) as store:
            await store.write(WHO, Action.WRITE, propose)
            for said in calls:
                values = {"operation": "create", "entityType": "atom", "projectId": SHOP, "createdByTaskId": TASK}
                await tool.call(store, WHO, prepare(tool, values | said))

    def run(self, *arguments: str) -> str:
        result = CliRunner().invoke(commands, [*arguments, "--base", str(self.base)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout


@pytest.fixture
def desk(tmp_path: Path, checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.chdir(checkout.root)
    return Desk(tmp_path / "base", checkout)


PAGE = {"name": "Checkout", "paths": ["src/checkout/**"], "knowledge": "locales come\nfrom the registry", "pin": True}


def test_a_person_is_told_what_an_agent_would_be(desk: Desk) -> None:
    related = [{"atomId": "gone", "reason": "sends its events"}]
    desk.write(PAGE | {"relatedAtoms": related}, {"name": "Everything", "paths": ["**"]})
    said = desk.run("for", "src/checkout/page.ts", str(desk.checkout.root / "README.md"))
    assert said.splitlines() == [
        "Checkout: src/checkout/page.ts",
        "  locales come",
        "  from the registry",
        "  see gone: sends its events",
        "Everything: src/checkout/page.ts, README.md",
    ]
    assert desk.run("for", "src/checkout/page.ts", "--project", SHOP.upper()) != ""


def test_what_is_not_known_is_said(desk: Desk) -> None:
    desk.write(PAGE)
    assert desk.run("for", "new.ts", "/elsewhere/x") == "nothing is known of new.ts, /elsewhere/x\n"


def test_json_is_the_tools_own_answer(desk: Desk) -> None:
    desk.write(PAGE)
    found = json.loads(desk.run("for", "src/checkout/page.ts", "new.ts", "--json"))
    assert set(found) == {"molecules", "orphanAtoms", "unmatchedPaths"}
    assert (found["orphanAtoms"][0]["fresh"], found["unmatchedPaths"]) == (True, ["new.ts"])


def test_stale_knowledge_is_listed_with_the_files_that_changed(desk: Desk) -> None:
    desk.write(PAGE, {"name": "Readme", "paths": ["README.md"], "pin": True})
    assert json.loads(desk.run("stale", "--json")) == {"atoms": []}
    desk.checkout.write("src/checkout/page.ts", "two")
    [atom] = json.loads(desk.run("stale", "--json", "--project", "shop"))["atoms"]
    assert (atom["name"], atom["project"], atom["changedFiles"]) == ("Checkout", "shop", ["src/checkout/page.ts"])
    [heading, row] = desk.run("stale").splitlines()
    assert heading.split() == ["atom", "id", "project", "pinned", "changed"]
    assert row.split()[0] == "Checkout"
    assert row.endswith("src/checkout/page.ts")
    assert "out of date: src/checkout/page.ts changed since" in desk.run("for", "src/checkout/cart.ts")


def test_another_directory_can_be_named(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write(PAGE)
    desk.checkout.write("src/checkout/page.ts", "two")
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(commands, ["stale", "--json", "--base", str(desk.base)], catch_exceptions=False)
    assert json.loads(result.stdout)["atoms"] == []
    assert result.stderr == f"there is no git work tree around {tmp_path}: paths are relative to it\n"
    assert len(json.loads(desk.run("stale", "--json", "--repo", str(desk.checkout.root)))["atoms"]) == 1


def test_every_directory_of_the_repository_is_as_good(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.write(PAGE)
    link = tmp_path / "link"
    link.symlink_to(desk.checkout.root)
    for directory in ("", "src", "src/checkout"):
        monkeypatch.chdir(desk.checkout.root / directory)
        for path in (
            "src/checkout/page.ts",
            str(desk.checkout.root / "src/checkout/page.ts"),
            f"{link}/src/checkout/x",
        ):
            [atom] = json.loads(desk.run("for", path, "--json"))["orphanAtoms"]
            assert atom["fresh"] is True
    desk.checkout.write("src/checkout/page.ts", "two")
    for directory in ("", "src", "src/checkout"):
        monkeypatch.chdir(desk.checkout.root / directory)
        [atom] = json.loads(desk.run("stale", "--json"))["atoms"]
        assert atom["changedFiles"] == ["src/checkout/page.ts"]


def test_patterns_that_match_no_file_are_listed_too(desk: Desk) -> None:
    desk.write(PAGE | {"paths": ["src/chekout/**", "src/old.ts"]})
    [_, row] = desk.run("stale").splitlines()
    assert row.endswith("no file matches src/chekout/**, src/old.ts")
    said = desk.run("for", "src/chekout/a.ts").splitlines()
    assert said[1] == "  no file matches src/chekout/**, src/old.ts"


def test_a_project_must_be_named_where_there_are_several(desk: Desk) -> None:
    desk.write(PAGE, projects=((SHOP, "shop"), (OTHER, "blog")))
    with pytest.raises(InvalidArgument) as refusal:
        desk.run("for", "a")
    assert refusal.value.hint == "the projects are shop, blog"
    assert desk.run("for", "a", "--project", "blog") == "nothing is known of a\n"
    with pytest.raises(NotFound, match="there is no project 'shoe'"):
        desk.run("for", "a", "--project", "shoe")


def test_without_a_project_or_a_memory_the_reason_is_told(desk: Desk) -> None:
    with pytest.raises(NotFound, match="there is no memory"):
        desk.run("for", "a")
    desk.write(projects=())
    with pytest.raises(NotFound, match="there is no project yet"):
        desk.run("for", "a")


def test_what_agents_wrote_cannot_steer_the_terminal(desk: Desk) -> None:
    desk.write({"name": "a\x1b[2Jb", "paths": ["a"], "knowledge": "c\x1b]0;d"})
    assert "\x1b" not in desk.run("for", "a")
