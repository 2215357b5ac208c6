"""The plugin's manifests: one for each host, and all say the same."""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from tallystick import __version__, config
from tallystick.app import toolsets
from tallystick.extensions.hooks.clients import KINDS, Client, Event, hears
from tests.plugins.skills import PLUGIN
from tests.promises import promise

PORTABLE = PLUGIN.parent / "agent-plugins/tallystick"
MARKETPLACE = PLUGIN.parents[1] / ".claude-plugin/marketplace.json"


def read(path: Path) -> dict[str, Any]:
    loaded = json.loads(path.read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@promise("plugin, one", "every host is told the same name, version and description")
def test_every_host_is_told_the_same_name_version_and_description() -> None:
    portable, ours = read(PORTABLE / "plugin.json"), read(PLUGIN / ".claude-plugin/plugin.json")
    assert {key: value for key, value in portable.items() if key != "$schema"} == {
        key: value for key, value in ours.items() if key != "icon"
    }
    codex = read(PLUGIN / ".codex-plugin/plugin.json")
    assert {key: codex[key] for key in portable if key != "$schema"}.items() <= ours.items()
    (listed,) = read(MARKETPLACE)["plugins"]
    assert all(listed[key] == ours[key] for key in ("name", "version", "license", "keywords"))
    assert (MARKETPLACE.parents[1] / listed["source"]).samefile(PLUGIN)


def test_the_plugin_has_the_version_of_the_program_since_updates_go_by_it() -> None:
    assert read(PLUGIN / ".claude-plugin/plugin.json")["version"] == __version__


def test_every_host_starts_the_same_server_by_the_name_of_an_installed_program() -> None:
    servers = read(PLUGIN / ".mcp.json")["mcpServers"]
    assert read(PORTABLE / "mcp.json")["mcpServers"] == servers
    assert servers == {"tallystick": {"type": "stdio", "command": "tallystick", "args": ["serve"]}}
    assert Path(sys.executable).with_name("tallystick").exists()


HOOKS = {"claude": PLUGIN / "hooks/hooks.json", "codex": PLUGIN / "hooks/codex.json"}


def handlers(client: Client) -> list[dict[str, Any]]:
    return [each for group in read(HOOKS[client])["hooks"].values() for entry in group for each in entry["hooks"]]


def kind(handler: dict[str, Any], client: Client) -> str:
    """Of the event for which it asks, in whichever way."""
    if handler["type"] == "mcp_tool":
        assert handler["input"]["client"] == client
        return str(handler["input"]["event"])
    found = re.fullmatch(rf"tallystick-hook (\S+) --client {client}", handler["command"])
    assert found, handler
    return found[1]


@promise("plugin, hooks", "each host asks for itself at every event that it listens to")
@pytest.mark.parametrize("client", HOOKS)
def test_each_host_asks_for_itself_at_every_event_that_it_listens_to(client: Client) -> None:
    listening = [kind for kind in KINDS if hears(Event(kind, client, "", Path()))]
    assert [kind(handler, client) for handler in handlers(client)] == listening
    assert all(handler["timeout"] == 5 for handler in handlers(client))
    assert Path(sys.executable).with_name("tallystick-hook").exists()


def test_claude_asks_the_server_of_the_plugin_by_a_tool_and_arguments_that_there_are() -> None:
    tools = {tool.name: tool for toolset in toolsets(config.load(environ={})) for tool in toolset.tools}
    asking = [handler for handler in handlers("claude") if handler["type"] == "mcp_tool"]
    assert [kind(handler, "claude") for handler in asking] == ["prompt", "before-tool"]
    for handler in asking:
        assert (handler["server"], handler["tool"]) == ("plugin:tallystick:tallystick", "hook_context")
        assert set(handler["input"]) <= set(tools["hook.context"].input.model_json_schema()["properties"])


def test_the_portable_form_lies_apart_since_its_hosts_start_servers_in_the_directory_of_the_plugin() -> None:
    """Codex takes a plugin for portable as soon as it has a plugin.json, and then the repository's memory is not
    found; so that file is not where Codex installs from."""
    assert not (PLUGIN / "plugin.json").exists()
    assert not (PLUGIN / "mcp.json").exists()


def test_the_portable_form_has_the_same_skills() -> None:
    ours, theirs = (
        {path.parent.name: path.read_text() for path in root.glob("skills/*/*")} for root in (PLUGIN, PORTABLE)
    )
    assert theirs == ours, "cp -r plugins/tallystick/skills plugins/agent-plugins/tallystick/"


def test_the_icon_is_square_and_large_enough_for_the_directory() -> None:
    kind, width, height = struct.unpack(">12x4sII", (PLUGIN / "icon.png").read_bytes()[:24])
    assert (kind, width, height) == (b"IHDR", 512, 512)
