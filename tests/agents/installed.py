"""The plugin, put in and taken out by the clients' own commands: its server, its skills, and where its memory lies."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.agents.model import Call, Model, Turn, serving
from tests.agents.workspace import CODEX_SEES_IT, ROOT, Workspace
from tests.plugins import skills
from tests.promises import promise

CLAUDE_TOOL = "mcp__plugin_tallystick_tallystick__"
NOTE = {"op": "UPSERT_NODE", "node": {"id": "limit", "type": "Fact", "attrs": {"says": "ten a second"}}}


@pytest.fixture
def marketplace(tmp_path: Path) -> Path:
    """What a clone of this repository has of it."""
    for name in (".claude-plugin", "plugins"):
        shutil.copytree(ROOT / name, tmp_path / "marketplace" / name)
    return tmp_path / "marketplace"


@pytest.fixture
def in_claude(workspace: Workspace, marketplace: Path) -> Workspace:
    workspace.memory.mkdir()
    workspace.claude("plugin", "marketplace", "add", str(marketplace))
    workspace.claude("plugin", "install", "tallystick@tallystick")
    return workspace


@pytest.fixture
def in_codex(workspace: Workspace, marketplace: Path) -> Workspace:
    workspace.memory.mkdir()
    workspace.codex("plugin", "marketplace", "add", str(marketplace))
    workspace.codex("plugin", "add", "tallystick@tallystick")
    return workspace


def is_noted(workspace: Workspace) -> bool:
    """In the memory of the repository."""
    shown = workspace.run("tallystick", "show", "limit", "--base", str(workspace.memory))
    return "ten a second" in shown.stdout


# -- what the programs that check plugins say


@promise("plugin, valid", "Claude Code's own check of plugins and marketplaces finds nothing wrong")
@pytest.mark.parametrize("what", [["."], ["--profile", "directory", "plugins/tallystick"]], ids=["market", "plugin"])
def test_claude_finds_nothing_wrong(what: list[str], workspace: Workspace) -> None:
    said = workspace.claude("plugin", "validate", "--strict", "--json", *what[:-1], str(ROOT / what[-1])).stdout
    assert json.loads(said)["success"] is True, said


@promise("plugin, lint", "skillsaw finds nothing wrong with plugin, marketplace, skills and the portable form")
@pytest.mark.parametrize("what", [".", "plugins/agent-plugins/tallystick"])
def test_skillsaw_finds_nothing_wrong(what: str, tmp_path: Path) -> None:
    # What is ours: beside it lie environments with other people's skills.
    for name in ("plugins", ".claude-plugin"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "server.json", tmp_path)
    command = [str(ROOT / ".skillsaw/bin/skillsaw"), "lint", "--strict", "--no-progress", str(tmp_path / what)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Rules run:" in done.stdout


# -- Claude Code


@promise("plugin, Claude Code, out", "the plugin's server is connected until Claude Code's own command takes it out")
def test_claude_connects_to_the_server_of_the_plugin_until_it_is_taken_out(in_claude: Workspace) -> None:
    assert "plugin:tallystick:tallystick: tallystick serve - ✔ Connected" in in_claude.claude("mcp", "list").stdout
    in_claude.claude("plugin", "uninstall", "tallystick@tallystick")
    in_claude.claude("plugin", "marketplace", "remove", "tallystick")
    assert "tallystick" not in in_claude.claude("mcp", "list").stdout


@promise(
    "plugin, Claude Code, skills", "its model reads of the skills, opens one, and writes into the repository's memory"
)
def test_claude_is_told_of_the_skills_reads_one_and_writes_into_the_memory_of_the_repository(
    in_claude: Workspace,
) -> None:
    write = f"{CLAUDE_TOOL}memory_write"
    script = [
        Call("Skill", {"skill": "tallystick:remember"}),
        Call("ToolSearch", {"query": f"select:{write}"}),
        Call(write, NOTE),
    ]
    with serving(Model(script)) as model:
        in_claude.ask_claude(model, "remember the limit")
    told = "\n".join(model.told())
    assert [name for name in skills.NAMES if f"- tallystick:{name}: " not in told] == []
    assert "Look whether it is there" not in "\n".join(model.told(0))
    assert told.count("Look whether it is there") == 1
    assert is_noted(in_claude)


# -- Codex


@promise("plugin, Codex, skills", "Codex's model is told of the skills and writes into the repository's memory")
def test_codex_is_told_of_the_skills_and_writes_into_the_memory_of_the_repository(in_codex: Workspace) -> None:
    script: list[Turn] = [
        CODEX_SEES_IT,
        Call("tool_search", {"query": "remember a decision"}),
        Call("memory_write", NOTE, "mcp__tallystick"),
    ]
    with serving(Model(script)) as model:
        in_codex.ask_codex(model, "remember the limit")
    told = "\n".join(model.told())
    assert [name for name in skills.NAMES if f"- tallystick:{name}: " not in told] == []
    assert is_noted(in_codex)


@promise("plugin, portable", "Codex takes the portable form, and starts its server in the directory of the plugin")
def test_codex_takes_the_portable_form_and_starts_its_server_in_the_plugin(
    workspace: Workspace, marketplace: Path
) -> None:
    """Where no repository's memory is found: the reason for which the form lies apart."""
    listed = marketplace / ".claude-plugin/marketplace.json"
    listed.write_text(listed.read_text().replace("./plugins/tallystick", "./plugins/agent-plugins/tallystick"))
    workspace.codex("plugin", "marketplace", "add", str(marketplace))
    workspace.codex("plugin", "add", "tallystick@tallystick")
    (server,) = json.loads(workspace.codex("mcp", "list", "--json").stdout)
    assert Path(server["transport"]["cwd"]).is_relative_to(workspace.home / ".codex/plugins")


@promise("plugin, Codex, out", "the plugin's server is listed until Codex's own command takes it out")
def test_codex_lists_the_server_of_the_plugin_until_it_is_taken_out(in_codex: Workspace) -> None:
    (listed,) = json.loads(in_codex.codex("mcp", "list", "--json").stdout)
    assert (listed["name"], listed["enabled"], listed["transport"]["cwd"]) == ("tallystick", True, None)
    in_codex.codex("plugin", "remove", "tallystick@tallystick")
    in_codex.codex("plugin", "marketplace", "remove", "tallystick")
    assert json.loads(in_codex.codex("mcp", "list", "--json").stdout) == []
