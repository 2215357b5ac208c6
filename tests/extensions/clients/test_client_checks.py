"""What the doctor says of the clients."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tallystick.extensions.clients.checks import examine_clients
from tallystick.extensions.clients.init import Request
from tallystick.operations.doctor import Finding
from tests.extensions.clients.test_init import World, make_world
from tests.promises import promise

CHOSEN = Request(clients=("claude", "codex", "cursor"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = make_world(tmp_path, monkeypatch)
    install(made, "tallystick", "tallystick-hook")
    return made


def install(world: World, *names: str) -> None:
    for name in names:
        command = world.top / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text("#!/bin/sh\n")
        command.chmod(0o755)


def examine(world: World, base: Path | None = None) -> dict[str, Finding]:
    return {each.what: each for each in examine_clients(base or world.system.parent, world.machine)}


def test_nothing_is_connected_and_the_next_step_is_said(world: World) -> None:
    [found] = examine(world).values()
    assert (found.status, found.found) == ("good", "none is connected here")
    assert "tallystick init" in (found.advice or "")


@promise("doctor, clients", "the doctor says that the clients are in place, and what is not")
def test_all_is_in_place(world: World) -> None:
    world.init(CHOSEN)
    found = examine(world)
    assert {each.status for each in found.values()} == {"good"}
    assert set(found) == {
        "Claude Code", "Claude Code, hooks", "Codex", "Codex, hooks", "Cursor", "Cursor, hooks"
    }  # fmt: skip
    assert found["Codex"].found == f"connected to this memory, in {world.root}/.codex/config.toml"


@promise("doctor, clients, command", "the doctor names a command that is not on PATH, and the next step")
@pytest.mark.parametrize(("missing", "what"), [("tallystick", "Cursor"), ("tallystick-hook", "Cursor, hooks")])
def test_a_command_that_is_not_on_path_is_named(world: World, missing: str, what: str) -> None:
    world.init(CHOSEN)
    (world.top / "bin" / missing).unlink()
    found = examine(world)[what]
    assert found.status == "odd"
    assert f"'{missing}' is not found" in found.found
    assert "pipx install" in (found.advice or "")


@promise("doctor, clients, memory", "the doctor names another memory that a client is connected to")
@pytest.mark.parametrize(
    "entry",
    [
        {"command": "tallystick", "args": ["serve", "--base", "/elsewhere"]},
        {"command": "tallystick", "args": ["serve", "--base=/elsewhere"]},
        {"command": "tallystick", "args": ["serve"], "env": {"BASE_PATH": "/elsewhere"}},
    ],
)
def test_another_memory_is_named(world: World, entry: dict[str, object]) -> None:
    world.write(".cursor/mcp.json", json.dumps({"mcpServers": {"tallystick": entry}}))
    found = examine(world)["Cursor"]
    assert found.status == "odd"
    assert "/elsewhere" in found.found
    assert examine(world, Path("/elsewhere"))["Cursor"].status == "good"


def test_a_server_over_http_is_told_with_its_address(world: World) -> None:
    world.init(Request(clients=("cursor",), url="http://127.0.0.1:8765/mcp"))
    assert "over HTTP to http://127.0.0.1:8765/mcp" in examine(world)["Cursor"].found


def test_hooks_that_are_not_all_there_are_counted(world: World) -> None:
    world.init(CHOSEN)
    path = world.root / ".claude/settings.json"
    said = json.loads(path.read_text())
    del said["hooks"]["Stop"], said["hooks"]["PreCompact"]
    path.write_text(json.dumps(said))
    found = examine(world)
    assert "2 of 5 are missing" in found["Claude Code, hooks"].found
    assert "not all there any more" in found["init"].found


def test_what_was_edited_since_is_told(world: World) -> None:
    world.init(CHOSEN)
    agents = world.root / "AGENTS.md"
    agents.write_text(agents.read_text().replace("Claim before", "Never claim before"))
    found = examine(world)["init"]
    assert found.found == f"somebody has changed what it put into {agents}"


@pytest.mark.parametrize(
    "said", ["{", "[]", '{"mcpServers": 1}', '{"mcpServers": {"tallystick": 1}}', '{"mcpServers": {"tallystick": {}}}',
             '{"mcpServers": {"tallystick": {"command": [1, {}], "args": "x", "env": [], "url": 3}}}', "\x00"]
)  # fmt: skip
def test_whatever_is_in_a_file_the_doctor_goes_on(world: World, said: str) -> None:
    world.write(".cursor/mcp.json", said)
    assert examine(world)["Cursor"].status == "odd"


def test_a_users_own_connection_is_seen_from_every_project(world: World) -> None:
    world.init(Request(scope="user", clients=("codex",)))
    assert examine(world)["Codex"].status == "odd", "a server started here would serve the data directory's"
    (world.root / ".git/tallystick").mkdir()
    assert examine(world)["Codex"].found.startswith("connected to this memory, in ")
