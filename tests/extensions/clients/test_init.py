"""Init: clients are found and connected, each file by one entry, and taken off again byte for byte."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.errors import Conflict, InvalidArgument, NotFound
from tallystick.extensions.clients import client_files, entries, instructions, json_splice
from tallystick.extensions.clients.init import (
    FileChange,
    Machine,
    Plan,
    Request,
    carry_out,
    carry_out_removal,
    prepare,
    prepare_removal,
)
from tallystick.extensions.clients.table import CLIENTS, NAMES
from tallystick.extensions.hooks import clients as hook_clients
from tests.clients import configurations
from tests.promises import promise

EVERY = Request(clients=tuple(client.name for client in CLIENTS if client.project is not None))
ALL_HERE = Request()
USERS = Request(scope="user", clients=NAMES)


class World(msgspec.Struct):
    """A person with a home and a repository, and no client installed."""

    top: Path
    machine: Machine

    @property
    def root(self) -> Path:
        return self.top / "shop"

    @property
    def system(self) -> Path:
        return self.root / ".git" / "tallystick" / "_system"

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def init(self, request: Request = EVERY) -> Plan:
        return carry_out(prepare(request, self.machine))

    def remove(self, request: Request = ALL_HERE, *forced: Path) -> Plan:
        return carry_out_removal(prepare_removal(request, self.machine, forced=frozenset(map(str, forced))))

    def all_files(self) -> dict[str, bytes | None]:
        """Every file and directory of home and repository, but for git's own."""
        kept = [self.root / ".git" / each for each in ("objects", "refs", "hooks", "info", "logs")]
        found = [path for path in self.top.rglob("*") if not any(path.is_relative_to(each) for each in kept)]
        return {str(path): path.read_bytes() if path.is_file() else None for path in found}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world(tmp_path, monkeypatch)


def make_world(top: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    home = top / "home"
    home.mkdir()
    (top / "shop" / "src").mkdir(parents=True)
    git(top / "shop", "init", "-q")
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASE_PATH"):
        monkeypatch.delenv(name, raising=False)
    return World(top, Machine(home, {"PATH": str(top / "bin")}, top / "shop", "linux"))


def git(directory: Path, *words: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    ran = subprocess.run(["git", *identity, *words], cwd=directory, env=environ, capture_output=True, check=True)
    return ran.stdout.decode().strip()


def at(plan: Plan, name: str) -> FileChange:
    return next(change for change in plan.changes if change.file.endswith(name))


def actions(plan: Plan) -> set[str]:
    return {change.action for change in plan.changes}


# -- finding


@promise("init, finds", "clients are found by their files, their directories and their commands")
def test_clients_are_found_by_their_files_their_directories_and_their_commands(world: World) -> None:
    world.write(".vscode/settings.json", "{}")
    (world.machine.home / ".cursor").mkdir()
    command = world.top / "bin" / "codex"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    plan = prepare(Request(), world.machine).plan
    assert {each.name: each.because for each in plan.found} == {
        "codex": str(command),
        "cursor": str(world.machine.home / ".cursor"),
        "vscode": ".vscode",
    }
    assert {name for change in plan.changes for name in change.clients} == {"codex", "cursor", "vscode", "instructions"}


def test_a_client_that_keeps_its_files_elsewhere_is_found_there(world: World) -> None:
    environ = {
        **world.machine.environ,
        "CODEX_HOME": str(world.top / "codex"),
        "CLAUDE_CONFIG_DIR": str(world.top / "c"),
    }
    (world.top / "codex").mkdir()
    machine = msgspec.structs.replace(world.machine, environ=environ)
    request = Request(scope="user", clients=("claude", "codex"))
    plan = prepare(request, machine).plan
    assert [each.name for each in plan.found] == ["codex"]
    assert {Path(change.file).relative_to(world.top).as_posix() for change in plan.changes} == {
        "c/.claude.json", "c/settings.json", "codex/config.toml", "codex/hooks.json"
    }  # fmt: skip


def test_without_a_client_or_a_repository_it_says_what_to_do(world: World) -> None:
    with pytest.raises(NotFound, match="no client was found") as refused:
        prepare(Request(), world.machine)
    assert "--client" in (refused.value.hint or "")
    outside = msgspec.structs.replace(world.machine, working=world.top)
    with pytest.raises(NotFound, match="no git repository") as refused:
        prepare(EVERY, outside)
    assert "--user" in (refused.value.hint or "")
    with pytest.raises(InvalidArgument, match="there is no client 'cursr'") as wrong:
        prepare(Request(clients=("cursr",)), world.machine)
    assert wrong.value.hint == "did you mean 'cursor'?"
    with pytest.raises(InvalidArgument, match="Windsurf has no configuration for a project"):
        prepare(Request(clients=("windsurf",)), world.machine)


# -- what is written

SERVERS: dict[str, Callable[[Any], Any]] = {
    ".mcp.json": lambda said: said["mcpServers"],
    ".cursor/mcp.json": lambda said: said["mcpServers"],
    ".vscode/mcp.json": lambda said: said["servers"],
    ".gemini/settings.json": lambda said: said["mcpServers"],
    ".agents/mcp_config.json": lambda said: said["mcpServers"],
    ".zed/settings.json": lambda said: said["context_servers"],
    "opencode.json": lambda said: said["mcp"],
}


@promise("init, entries", "every client gets its entry where it looks for it")
def test_every_client_gets_its_entry_where_it_looks_for_it(world: World) -> None:
    plan = world.init()
    assert actions(plan) == {"create"}
    for name, inner in SERVERS.items():
        entry = inner(json.loads((world.root / name).read_text()))["tallystick"]
        command = entry["command"] if isinstance(entry["command"], list) else [entry["command"], *entry["args"]]
        assert command == ["tallystick", "serve"], name
    codex = tomllib.loads((world.root / ".codex/config.toml").read_text())
    assert codex == {"mcp_servers": {"tallystick": {"command": "tallystick", "args": ["serve"]}}}
    assert (world.root / "AGENTS.md").read_text() == instructions.BLOCK
    assert not (world.root / "CLAUDE.md").exists()


@promise("init, names", "no path and no version is in what is written")
def test_no_path_and_no_version_is_in_what_is_written(world: World) -> None:
    world.init()
    for path in (each for each in world.root.rglob("*") if each.is_file() and ".git" not in each.parts):
        assert str(world.top) not in path.read_text()
        assert sys.prefix not in path.read_text()


@promise("init, memory", "the memory lies in what work trees share, outside of version control")
def test_the_memory_lies_in_what_work_trees_share_and_git_sees_nothing_of_it(world: World) -> None:
    git(world.root, "commit", "-q", "--allow-empty", "-m", "first")
    git(world.root, "worktree", "add", "-q", str(world.top / "other"))
    machine = msgspec.structs.replace(world.machine, working=world.top / "other")
    plan = carry_out(prepare(EVERY, machine))
    assert plan.memory == str(world.root / ".git" / "tallystick")
    assert (world.root / ".git" / "tallystick").stat().st_mode & 0o777 == 0o700
    assert git(world.root, "status", "--short") == ""
    assert (world.top / "other" / ".mcp.json").exists()
    assert not (world.root / ".mcp.json").exists()


def test_from_a_subdirectory_the_repositorys_own_files_are_meant(world: World) -> None:
    machine = msgspec.structs.replace(world.machine, working=world.root / "src")
    carry_out(prepare(EVERY, machine))
    assert (world.root / ".mcp.json").exists()
    assert list((world.root / "src").iterdir()) == []


@promise("init, shared", "with --shared no memory is made for the repository")
def test_with_shared_no_memory_is_made_and_an_own_one_is_not_passed_over(world: World) -> None:
    plan = world.init(msgspec.structs.replace(EVERY, shared=True))
    assert plan.memory == str(world.machine.home / ".local/share/tallystick")
    assert not (world.root / ".git" / "tallystick").exists()
    assert Path(plan.record).is_file()
    (world.root / ".git" / "tallystick").mkdir()
    with pytest.raises(Conflict, match="a memory of its own"):
        prepare(msgspec.structs.replace(EVERY, shared=True), world.machine)


def test_for_a_user_their_own_files_are_meant_and_theirs_alone(world: World) -> None:
    before = world.all_files()
    plan = world.init(USERS)
    assert not any(change.file.startswith(str(world.root)) for change in plan.changes)
    assert not (world.root / ".git" / "tallystick").exists()
    assert (world.machine.home / ".claude.json").stat().st_mode & 0o777 == 0o600
    assert {name for change in plan.changes for name in change.clients} == set(NAMES)
    world.remove(USERS)
    assert world.all_files() == {**before, **_left_of_home(world)}


def _left_of_home(world: World) -> dict[str, bytes | None]:
    """Directories above the data directory are of use to others."""
    share = world.machine.home / ".local" / "share"
    return {str(each): None for each in (share.parent, share) if each.exists()}


def test_over_http_each_client_is_told_the_address_in_its_own_way(world: World) -> None:
    url = "http://127.0.0.1:8765/mcp"
    plan = world.init(msgspec.structs.replace(EVERY, url=url))
    found = {name: inner(json.loads((world.root / name).read_text()))["tallystick"] for name, inner in SERVERS.items()}
    assert found[".mcp.json"] == {"type": "http", "url": url}
    assert found[".agents/mcp_config.json"] == {"serverUrl": url}
    assert found["opencode.json"] == {"type": "remote", "url": url, "enabled": True}
    assert tomllib.loads((world.root / ".codex/config.toml").read_text())["mcp_servers"]["tallystick"] == {"url": url}
    assert not any("hooks" in Path(change.file).name for change in plan.changes), "hooks look at a memory on this disk"
    desktop = prepare(Request(scope="user", clients=("claude-desktop",), url=url), world.machine).plan
    assert desktop.changes == ()
    assert "HTTP" in desktop.notes[0]


# -- hooks


def _hooks(world: World, name: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads((world.root / name).read_text())["hooks"]
    return found


@promise("init, hooks", "hooks call ours by name, in the form of each client")
def test_hooks_call_ours_by_name_in_the_form_of_each_client(world: World) -> None:
    world.init()
    assert list(_hooks(world, ".claude/settings.json")) == [
        "SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "PreCompact"
    ]  # fmt: skip
    [start] = _hooks(world, ".claude/settings.json")["SessionStart"]
    assert start == {
        "matcher": "startup|resume|clear|compact",
        "hooks": [{"type": "command", "command": "tallystick-hook session-start --client claude", "timeout": 5}],
    }
    assert list(_hooks(world, ".codex/hooks.json")) == ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop"]
    assert json.loads((world.root / ".cursor/hooks.json").read_text()) == {
        "version": 1,
        "hooks": {
            event: [{"command": f"tallystick-hook {ours} --client cursor", "timeout": 5}]
            for event, ours in (("sessionStart", "session-start"), ("beforeSubmitPrompt", "prompt"), ("stop", "stop"))
        },
    }
    assert _hooks(world, ".gemini/settings.json")["AfterTool"][0]["hooks"][0]["timeout"] == 5000
    [copilot] = _hooks(world, ".github/hooks/tallystick-copilot.json")["sessionStart"]
    assert copilot["bash"] == "tallystick-hook session-start --client copilot"


def test_vs_code_gets_hooks_of_its_own_only_where_it_finds_no_others(world: World) -> None:
    """It runs those of Claude Code too."""
    plan = world.init()
    assert not (world.root / ".github/hooks/tallystick.json").exists()
    assert any(".claude/settings.json" in note for note in plan.notes)
    world.remove()
    world.init(Request(clients=("vscode",)))
    assert list(_hooks(world, ".github/hooks/tallystick.json")) == ["SessionStart", "PreToolUse", "Stop"]


def test_hooks_can_be_left_out(world: World) -> None:
    world.init(msgspec.structs.replace(EVERY, hooks=False))
    assert not (world.root / ".claude").exists()
    assert "hooks" not in json.loads((world.root / ".gemini/settings.json").read_text())


def test_other_hooks_at_the_same_event_stay(world: World) -> None:
    own = {"hooks": [{"type": "command", "command": "make lint"}]}
    path = world.write(".claude/settings.json", json.dumps({"hooks": {"Stop": [own]}, "model": "x"}, indent=4))
    before = path.read_bytes()
    world.init()
    stop = _hooks(world, ".claude/settings.json")["Stop"]
    assert stop[0] == own
    assert len(stop) == 2
    world.remove()
    assert path.read_bytes() == before


def test_where_the_plugin_is_enabled_nothing_is_doubled(world: World) -> None:
    world.write(".claude/settings.local.json", '{"enabledPlugins": {"tallystick@tallystick": true}}')
    plan = world.init(Request(clients=("claude",)))
    assert {change.clients for change in plan.changes} == {("instructions",)}
    assert any("plugin" in note for note in plan.notes)


# -- instructions


@promise("init, instructions", "AGENTS.md and CLAUDE.md get the block, unless one takes in the other")
def test_both_instruction_files_get_the_block_unless_one_takes_in_the_other(world: World) -> None:
    claude = world.write("CLAUDE.md", "# Rules\n")
    world.init()
    assert instructions.BLOCK in claude.read_text()
    assert instructions.BLOCK in (world.root / "AGENTS.md").read_text()
    world.remove()
    assert claude.read_text() == "# Rules\n"
    assert not (world.root / "AGENTS.md").exists()
    world.write("CLAUDE.md", "@AGENTS.md\n")
    world.init()
    assert claude.read_text() == "@AGENTS.md\n"


@pytest.mark.parametrize(("link", "real"), [("CLAUDE.md", "AGENTS.md"), ("AGENTS.md", "CLAUDE.md")])
def test_a_link_between_them_is_followed_and_stays_one(world: World, link: str, real: str) -> None:
    path = world.write(real, "# Rules\n")
    (world.root / link).symlink_to(real)
    world.init()
    assert (world.root / link).is_symlink()
    assert path.read_text().count("tallystick:begin") == 1
    world.remove()
    assert path.read_text() == "# Rules\n"


def test_an_older_block_is_replaced_and_an_edited_one_is_not(world: World) -> None:
    older = "<!-- tallystick:begin v0 -->\nold words\n<!-- tallystick:end -->\n"
    path = world.write("AGENTS.md", f"# Mine\n\n{older}\n# More\n")
    assert at(world.init(), "AGENTS.md").action == "update"
    assert "old words" not in path.read_text()
    assert path.read_text().startswith("# Mine\n")
    assert "# More\n" in path.read_text()
    path.write_text(path.read_text().replace("Look before", "Do not look before"))
    edited = path.read_text()
    change = at(world.init(), "AGENTS.md")
    assert change.action == "differs"
    assert "+- Do not look before" in change.difference
    assert path.read_text() == edited


# -- once and again


@promise("init, idempotent", "a second run changes nothing")
def test_a_second_run_changes_nothing(world: World) -> None:
    world.init()
    before = world.all_files()
    again = world.init()
    assert actions(again) == {"present"}
    assert not again.writes
    assert world.all_files() == before


def test_taking_off_leaves_no_trace(world: World) -> None:
    before = world.all_files()
    world.init()
    assert actions(world.remove()) == {"delete"}
    assert world.all_files() == before
    assert actions(world.remove()) == set()


def test_a_memory_that_was_written_to_stays(world: World) -> None:
    world.init()
    (world.system / "log").mkdir()
    world.remove()
    assert (world.system / "log").is_dir()
    assert not (world.system / client_files.RECORD).exists()
    assert not (world.system / client_files.BACKUPS).exists()


def test_a_client_that_comes_later_is_added_and_all_is_taken_off(world: World) -> None:
    path = world.write(".gemini/settings.json", '{\n  "theme": "x" // mine\n}\n')
    before = world.all_files()
    world.init(msgspec.structs.replace(EVERY, hooks=False))
    world.init()
    assert "hooks" in json_splice.value_at(path.read_text(), ())
    world.remove()
    assert world.all_files() == before


def test_an_entry_that_somebody_else_wrote_is_left_alone(world: World) -> None:
    said = '{"mcpServers": {"tallystick": {"command": "/opt/tallystick", "args": ["serve", "--base", "/x"]}}}'
    path = world.write(".cursor/mcp.json", said)
    assert at(world.init(), ".cursor/mcp.json").action == "differs"
    assert path.read_text() == said
    assert at(world.remove(), ".cursor/mcp.json").action == "differs"
    assert path.read_text() == said


def test_an_entry_of_ours_is_brought_up_to_date_and_one_that_was_edited_is_not(world: World) -> None:
    world.init()
    url = "http://127.0.0.1:8765/mcp"
    plan = world.init(msgspec.structs.replace(EVERY, url=url))
    assert at(plan, ".cursor/mcp.json").action == "update"
    assert json.loads((world.root / ".cursor/mcp.json").read_text())["mcpServers"]["tallystick"] == {"url": url}
    assert url in (world.root / ".codex/config.toml").read_text()
    (world.root / ".cursor/mcp.json").write_text('{"mcpServers": {"tallystick": {"url": "http://other/mcp"}}}')
    assert at(world.init(), ".cursor/mcp.json").action == "differs"


def test_what_others_wrote_since_stays_when_ours_is_taken_out(world: World) -> None:
    world.init()
    path = world.root / ".cursor/mcp.json"
    said = json.loads(path.read_text())
    said["mcpServers"]["github"] = {"command": "npx"}
    path.write_text(json.dumps(said, indent=4))
    codex = world.root / ".codex/config.toml"
    codex.write_text('model = "x"\n\n' + codex.read_text() + "\n# mine\n[profiles.x]\n")
    agents = world.root / "AGENTS.md"
    agents.write_text("# Before\n\n" + agents.read_text() + "# After\n")
    plan = world.remove()
    assert json.loads(path.read_text()) == {"mcpServers": {"github": {"command": "npx"}}}
    assert codex.read_text() == 'model = "x"\n\n\n# mine\n[profiles.x]\n'
    assert agents.read_text() == "# Before\n\n# After\n"
    assert at(plan, ".cursor/mcp.json").action == "cut"


@promise("init, edited", "what was edited by hand is shown and goes only when told so")
def test_what_was_edited_by_hand_is_shown_and_goes_only_when_told_so(world: World) -> None:
    world.init()
    path = world.root / ".cursor/mcp.json"
    path.write_text(path.read_text().replace('"serve"', '"serve", "--read-only"'))
    edited = path.read_bytes()
    change = at(world.remove(), ".cursor/mcp.json")
    assert change.action == "differs"
    assert '+    "--read-only"' in change.difference
    assert path.read_bytes() == edited
    assert at(world.remove(Request(), path), ".cursor/mcp.json").action == "delete"
    assert not path.exists()
    assert not world.system.exists()


def test_what_came_with_a_clone_is_recognised_without_a_record(world: World) -> None:
    world.init()
    git(world.root, "add", "-A")
    git(world.root, "commit", "-q", "-m", "connected")
    git(world.top, "clone", "-q", str(world.root), "clone")
    machine = msgspec.structs.replace(world.machine, working=world.top / "clone")
    assert actions(carry_out(prepare(EVERY, machine))) == {"present"}
    assert (world.top / "clone/.git/tallystick").is_dir()
    carry_out_removal(prepare_removal(Request(), machine))
    assert {each.read_text() for each in (world.top / "clone").rglob("*.json")} == {"{}\n", '{\n  "version": 1\n}\n'}
    assert json.loads((world.top / "clone/.mcp.json").read_text()) == {}
    assert (world.top / "clone/AGENTS.md").read_text() == ""
    assert not (world.top / "clone/.git/tallystick").exists(), "nothing was ever in it"


def test_one_work_tree_does_not_take_from_another(world: World) -> None:
    git(world.root, "commit", "-q", "--allow-empty", "-m", "first")
    git(world.root, "worktree", "add", "-q", str(world.top / "other"))
    other = msgspec.structs.replace(world.machine, working=world.top / "other")
    world.init()
    carry_out(prepare(EVERY, other))
    carry_out_removal(prepare_removal(Request(), other))
    assert not (world.top / "other/.mcp.json").exists()
    assert (world.root / ".mcp.json").exists()
    assert actions(world.remove()) == {"delete"}


def test_one_client_can_be_taken_off(world: World) -> None:
    world.init()
    world.remove(Request(clients=("cursor",)))
    assert not (world.root / ".cursor").exists()
    assert (world.root / ".mcp.json").exists()
    assert (world.root / "AGENTS.md").exists()


def test_a_damaged_record_is_as_none(world: World) -> None:
    before = world.all_files()
    world.init()
    (world.system / client_files.RECORD).write_text("{")
    world.remove()
    assert json.loads((world.root / ".mcp.json").read_text()) == {}
    assert set(before) <= set(world.all_files())


# -- files that are not as one would wish


@promise("init, refuses", "a file that cannot be read is left alone, and the place is named")
@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (".mcp.json", "{\n  broken\n}", "line 2, column 3"),
        (".agents/mcp_config.json", '{\n  // mine\n  "mcpServers": {}\n}', "column 3: its reader takes no comments"),
        (".codex/config.toml", "model = x\n", "line 1, column 9"),
        (".cursor/mcp.json", "[]", "the whole is no object"),
        ("AGENTS.md", "<!-- tallystick:begin v1 -->\n", "followed by no"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_left_alone_and_the_place_is_named(
    world: World, name: str, text: str, told: str
) -> None:
    path = world.write(name, text)
    change = at(world.init(), name)
    assert change.action == "refused"
    assert told in change.reason
    assert path.read_text() == text
    assert (world.root / ".zed/settings.json").exists(), "the others are connected"
    world.remove()
    assert path.read_text() == text


def test_bytes_that_are_no_text_and_things_that_are_no_file_are_left_alone(world: World) -> None:
    world.write(".mcp.json", "").write_bytes(b'{"a": "\xff"}')
    (world.root / "opencode.json").mkdir()
    (world.root / ".cursor").mkdir()
    os.mkfifo(world.root / ".cursor/mcp.json")
    plan = world.init()
    assert "not UTF-8" in at(plan, ".mcp.json").reason
    assert {at(plan, name).action for name in (".mcp.json", "opencode.json", ".cursor/mcp.json")} == {"refused"}


@promise("init, links", "a link is followed within the project and not out of it")
def test_a_link_is_followed_within_the_project_and_not_out_of_it(world: World) -> None:
    outside = world.machine.home / "precious.json"
    outside.write_text("{}")
    real = world.write("config/cursor.json", "{}\n")
    (world.root / ".cursor").mkdir()
    (world.root / ".cursor/mcp.json").symlink_to("../config/cursor.json")
    (world.root / ".mcp.json").symlink_to(outside)
    (world.root / ".zed").symlink_to(world.machine.home)
    (world.root / "opencode.json").symlink_to("nowhere.json")
    (world.root / "AGENTS.md").symlink_to(".git/config")
    plan = world.init()
    assert (world.root / ".cursor/mcp.json").is_symlink()
    assert "tallystick" in real.read_text()
    refused = {change.file.removeprefix(f"{world.root}/") for change in plan.changes if change.action == "refused"}
    assert refused == {".mcp.json", ".zed/settings.json", "opencode.json", "AGENTS.md"}
    assert outside.read_text() == "{}"
    assert "tallystick" not in (world.root / ".git/config").read_text()
    world.remove()
    assert real.read_text() == "{}\n"


def test_a_users_own_link_leads_wherever_they_like(world: World) -> None:
    dotfiles = world.top / "dotfiles.json"
    dotfiles.write_text("{}")
    (world.machine.home / ".cursor").mkdir()
    (world.machine.home / ".cursor/mcp.json").symlink_to(dotfiles)
    world.init(Request(scope="user", clients=("cursor",)))
    assert (world.machine.home / ".cursor/mcp.json").is_symlink()
    assert "tallystick" in dotfiles.read_text()


def test_a_link_that_waits_where_we_would_write_is_not_followed(world: World) -> None:
    """Names beside a file of a repository are the repository's to choose."""
    outside = world.machine.home / "precious"
    outside.write_text("precious")
    for name in (".mcp.json.new", "..mcp.json.tallystick-0000000000000000"):
        (world.root / name).symlink_to(outside)
    world.init()
    assert outside.read_text() == "precious"
    assert (world.root / ".mcp.json").is_file()


@pytest.mark.parametrize("mode", [0o444, 0o400])
def test_a_read_only_file_stays_as_it_is(world: World, mode: int) -> None:
    path = world.write(".mcp.json", "{}")
    path.chmod(mode)
    assert at(world.init(), ".mcp.json").reason == "it is read-only"
    assert path.read_text() == "{}"


def test_a_file_keeps_its_mode_and_a_new_one_is_as_others(world: World) -> None:
    path = world.write(".mcp.json", "{}")
    path.chmod(0o640)
    world.init()
    assert path.stat().st_mode & 0o777 == 0o640
    mask = os.umask(0)
    os.umask(mask)
    assert (world.root / ".cursor/mcp.json").stat().st_mode & 0o777 == 0o644 & ~mask


def test_what_was_there_is_kept_for_its_owner_alone(world: World) -> None:
    path = world.write(".mcp.json", '{"mcpServers": {"x": {"env": {"TOKEN": "secret"}}}}')
    before = path.read_bytes()
    world.init()
    kept = client_files.backup_of(world.system, path)
    assert kept.read_bytes() == before
    assert kept.stat().st_mode & 0o077 == 0
    world.remove()
    assert not kept.exists()


def test_a_file_that_somebody_writes_meanwhile_is_left_to_them(world: World) -> None:
    path = world.write(".mcp.json", "{}")
    prepared = prepare(EVERY, world.machine)
    path.write_text('{"mine": 1}')
    assert at(carry_out(prepared), ".mcp.json").action == "changed"
    assert path.read_text() == '{"mine": 1}'
    assert at(world.init(), ".mcp.json").action == "add"
    removal = prepare_removal(Request(), world.machine)
    path.write_text(path.read_text() + "\n")
    assert at(carry_out_removal(removal), ".mcp.json").action == "changed"
    world.remove()
    assert path.read_text() == '{"mine": 1}\n'


def test_a_directory_that_is_read_only_is_said_to_be(world: World) -> None:
    (world.root / ".cursor").mkdir()
    (world.root / ".cursor").chmod(0o555)
    plan = world.init()
    (world.root / ".cursor").chmod(0o755)
    assert "is read-only" in at(plan, ".cursor/mcp.json").reason


# -- killed in between


@promise("init, killed", "killed in between, a second run finishes, and removal leaves nothing")
@pytest.mark.parametrize("writes", range(0, 14, 2))
def test_killed_in_between_a_second_run_finishes_and_removal_leaves_nothing(world: World, writes: int) -> None:
    path = world.write(".mcp.json", '{"mcpServers": {}}\n')
    agents = world.write("AGENTS.md", "# Mine")
    before = world.all_files()
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from tallystick.system import private_files\n"
        "from tallystick.extensions.clients import client_files, init\n"
        "rename, left = os.rename, [int(sys.argv[1])]\n"
        "def counted(*names):\n"
        "    if not left[0]: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    left[0] -= 1\n"
        "    rename(*names)\n"
        "private_files.os.rename = counted\n"
        "machine = init.Machine(Path(sys.argv[2]), {}, Path(sys.argv[3]), 'linux')\n"
        "init.carry_out(init.prepare(init.Request(clients=('claude', 'codex', 'cursor', 'gemini')), machine))\n"
    )
    words = [sys.executable, "-c", code, str(writes), str(world.machine.home), str(world.root)]
    ended = subprocess.run(words, capture_output=True, check=False)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    for each in (path, agents):
        assert each.read_bytes(), "whole, old or new"
    request = Request(clients=("claude", "codex", "cursor", "gemini"))
    if writes % 4:
        world.init(request)
        assert actions(world.init(request)) == {"present"}
    world.remove()
    assert world.all_files() == before


# -- any configuration


@st.composite
def _repository(draw: st.DrawFn) -> dict[str, str]:
    """Files as somebody could have them."""
    held = configurations.OBJECTS.filter(lambda said: not isinstance(said.get("hooks"), list | str | int | float))
    commented = {".vscode/mcp.json", ".cursor/mcp.json", ".gemini/settings.json", ".zed/settings.json", "opencode.json"}
    found = {}
    for name in (*SERVERS, ".claude/settings.json", ".codex/hooks.json"):
        if draw(st.booleans()):
            value = draw(held)
            form = (
                configurations.written(value, name in commented)
                if draw(st.booleans())
                else configurations.pretty(value)
            )
            found[name] = draw(form)
    texts = st.sampled_from(["", "# Rules", "# Rules\r\n\r\n- one\r\n", "\ufeffüber\n\n\n", "@AGENTS.md\n"])
    for name in ("AGENTS.md", "CLAUDE.md"):
        if draw(st.booleans()):
            found[name] = draw(texts)
    if draw(st.booleans()):
        found[".codex/config.toml"] = draw(st.sampled_from(["", "a = 1", "# x\r\n[b]\r\nc = [1,\r\n 2]\r\n", "\n\n"]))
    return found


@promise("init, byte for byte", "whatever the files are, they are the same after init and its removal")
@settings(max_examples=30)
@given(files=_repository())
def test_whatever_the_files_are_they_are_the_same_afterwards(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = _fake_world(tmp_path_factory.mktemp("any"), patch)
        for name, text in files.items():
            world.write(name, text)
        before = world.all_files()
        first = world.init()
        spliced = world.all_files()
        world.init()
        assert world.all_files() == spliced
        for change in first.changes:
            if change.action == "add":
                assert _without_ours(Path(change.file), first) == _meant(
                    files[change.file.removeprefix(f"{world.root}/")]
                )
        world.remove()
        assert world.all_files() == before


def _fake_world(top: Path, patch: pytest.MonkeyPatch) -> World:
    """A repository without running git: it is made a hundred times."""
    git_directory = top / "shop" / ".git"
    (git_directory / "objects").mkdir(parents=True)
    (git_directory / "HEAD").write_text("ref: refs/heads/main\n")
    (top / "home").mkdir()
    patch.setenv("HOME", str(top / "home"))
    return World(top, Machine(top / "home", {}, top / "shop", "linux"))


def _meant(text: str) -> Any:
    node = json_splice.parse(text) if text.strip("\ufeff \r\n\t")[:1] in ("{", "/") else None
    return node.value if node is not None else {}


def _without_ours(path: Path, plan: Plan) -> Any:
    """The meaning of a JSON file less what was put in."""
    text = path.read_text()
    if path.suffix != ".json":
        return _meant("")
    record = client_files.read_record(Path(plan.record).parent).files[str(path.resolve())]
    for splice in reversed(record.splices):
        text = entries.cut(text, splice.entry, entries.Format(comments=True), made=splice.made)
    return _meant(text)


def test_the_hooks_are_those_to_which_something_is_said() -> None:
    """A process for an event at which a client is never told anything is one too many."""
    put = {(client.name, hook.ours) for client in CLIENTS if client.hooks is not None for hook in client.hooks.hooks}
    events = [
        hook_clients.Event(kind, client, "s", Path()) for client in hook_clients.CLIENTS for kind in hook_clients.KINDS
    ]
    assert put == {(each.client, each.kind) for each in events if hook_clients.hears(each)}
