"""Claude Code and Codex with `tallystick serve` in their plain configuration: what the model is offered and told.

Not part of `make test`, since it takes the published programs: `make agents`.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.agents.memory import DECISION, fill
from tests.agents.model import Call, Code, Model, Turn, serving
from tests.agents.workspace import CODEX_SEES_IT, FIRST_WORDS, Workspace
from tests.promises import promise

CLAUDE_TOOL = "mcp__tallystick__"
CODEX_TOOLS = "mcp__tallystick"
BAD = {"op": "UPSERT_NODE", "node": {"id": "plan"}}
GOOD = {"op": "UPSERT_NODE", "node": {"id": "plan", "type": "Plan", "attrs": {"goal": "ship"}}, "reason": "agreed"}
REQUIRED = ("-c", "mcp_servers.tallystick.required=true")
"""Codex waits for it, however long it takes; to code it does not say when a server comes late."""
RESOURCE = "tallystick://entity/refund_retries"
FAULT = "Invalid params: field 'node.type' is required; field 'node.attrs' is required"


@pytest.fixture
def claude_connected(workspace: Workspace) -> Workspace:
    server = {"type": "stdio", "command": "tallystick", "args": ["serve"]}
    workspace.write(".mcp.json", {"mcpServers": {"tallystick": server}})
    workspace.agree()
    return workspace


@pytest.fixture
def codex_connected(workspace: Workspace) -> Workspace:
    workspace.codex("mcp", "add", "tallystick", "--", "tallystick", "serve")
    return workspace


def is_written(workspace: Workspace) -> bool:
    return "ship" in workspace.run("tallystick", "show", "plan").stdout


# -- Claude Code


@promise("agents, Claude Code, connected", "Claude Code lists the server as connected")
def test_claude_lists_the_server_as_connected(claude_connected: Workspace) -> None:
    assert re.search(r"tallystick: tallystick serve - \S+ Connected", claude_connected.claude("mcp", "list").stdout)


@promise(
    "agents, Claude Code, offered", "its model is offered search, and told the other tools' names and how to use them"
)
def test_claude_offers_search_and_names_the_other_tools_with_the_instructions(claude_connected: Workspace) -> None:
    with serving(Model([])) as model:
        claude_connected.ask_claude(model, "hello")
    offered = [tool["name"] for tool in model.tools() if tool["name"].startswith(CLAUDE_TOOL)]
    told = "\n".join(model.told())
    assert offered == [f"{CLAUDE_TOOL}memory_search"]
    assert {f"{CLAUDE_TOOL}{name}" for name in ("memory_write", "graph_next", "query_graph")} <= set(told.split())
    assert told.count(FIRST_WORDS) == 1


@promise("agents, Claude Code, mistake", "its model is shown what is wrong with a call, and then writes")
def test_claude_shows_the_model_its_mistake_and_writes(claude_connected: Workspace) -> None:
    write = f"{CLAUDE_TOOL}memory_write"
    script = [Call("ToolSearch", {"query": f"select:{write}"}), Call(write, BAD), Call(write, GOOD)]
    with serving(Model(script)) as model:
        claude_connected.ask_claude(model, "note the plan")
    assert write in [tool["name"] for tool in model.tools()]
    assert FAULT in "\n".join(model.told(2))
    assert '"commit_id"' in "\n".join(model.told(3))
    assert is_written(claude_connected)


@promise("agents, Claude Code, prompts", "Claude Code makes a prompt a command, and its model reads a resource")
def test_claude_makes_a_prompt_a_command_and_reads_a_resource(claude_connected: Workspace) -> None:
    fill(claude_connected)
    script = [
        Call("ToolSearch", {"query": "select:ReadMcpResourceTool"}),
        Call("ReadMcpResourceTool", {"server": "tallystick", "uri": RESOURCE}),
    ]
    with serving(Model(script)) as model:
        claude_connected.ask_claude(model, "/mcp__tallystick__discover shop", "--allowedTools", "ReadMcpResourceTool")
    assert "Do not begin to work." in "\n".join(model.told(0))
    assert DECISION in "\n".join(model.told())


# -- Codex


@promise("agents, Codex, connected", "Codex lists the server that its own command put in")
def test_codex_lists_the_server(codex_connected: Workspace) -> None:
    (listed,) = json.loads(codex_connected.codex("mcp", "list", "--json").stdout)
    assert (listed["name"], listed["enabled"]) == ("tallystick", True)
    assert (listed["transport"]["command"], listed["transport"]["args"]) == ("tallystick", ["serve"])


@promise("agents, Codex, mistake", "its model finds the tools by words, is shown its mistake, and then writes")
def test_codex_finds_the_tools_shows_the_model_its_mistake_and_writes(codex_connected: Workspace) -> None:
    script: list[Turn] = [
        CODEX_SEES_IT,
        Call("tool_search", {"query": "remember a decision"}),
        Call("memory_write", BAD, CODEX_TOOLS),
        Call("memory_write", GOOD, CODEX_TOOLS),
    ]
    with serving(Model(script)) as model:
        codex_connected.ask_codex(model, "note the plan")
    assert "memory_write" in _found(model.requests[-1])
    assert FAULT in "\n".join(model.told(-2))
    assert '"commit_id"' in "\n".join(model.told())
    assert is_written(codex_connected)


def _found(request: dict[str, Any]) -> set[str]:
    """By Codex's search, in its answer."""
    answers = [item for item in request["input"] if item["type"] == "tool_search_output"]
    return {tool["name"] for answer in answers for space in answer["tools"] for tool in space["tools"]}


@promise("agents, Codex, resources", "Codex's model lists resources and reads one")
def test_codex_lists_and_reads_resources(codex_connected: Workspace) -> None:
    fill(codex_connected)
    server = {"server": "tallystick"}
    script: list[Turn] = [
        CODEX_SEES_IT,
        Call("list_mcp_resources", server),
        Call("read_mcp_resource", {**server, "uri": RESOURCE}),
    ]
    with serving(Model(script)) as model:
        codex_connected.ask_codex(model, "hello")
    assert RESOURCE in "\n".join(model.told(-2))
    assert DECISION in "\n".join(model.told())


@promise("agents, Codex, code", "a model that writes code instead calls the tools by their names")
def test_codex_lets_a_model_that_writes_code_call_the_tools(codex_connected: Workspace) -> None:
    names = "text(ALL_TOOLS.map((tool) => tool.name).join(' '))"
    calls = [f"text(await tools.mcp__tallystick__memory_write({json.dumps(each)}))" for each in (BAD, GOOD)]
    with serving(Model([Code(script) for script in (names, *calls)])) as model:
        codex_connected.ask_codex(model, "note the plan", *REQUIRED, name="gpt-6.1-sol")
    assert "mcp__tallystick__memory_write" in "\n".join(model.told(1)).split()
    assert FAULT in "\n".join(model.told(2))
    assert "commit_id" in "\n".join(model.told(3))
    assert is_written(codex_connected)


# -- both


@promise("agents, init", "what init wrote connects both agents and instructs their models until init takes it out")
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_what_init_wrote_connects_and_instructs_until_init_takes_it_out(agent: str, workspace: Workspace) -> None:
    workspace.run("tallystick", "init", "--yes", "--client", agent)
    workspace.agree()
    run = workspace.claude if agent == "claude" else workspace.codex
    assert re.search(r"^tallystick:? +tallystick +serve .*(Connected|enabled)", run("mcp", "list").stdout, re.MULTILINE)
    with serving(Model([])) as model:
        if agent == "claude":
            workspace.ask_claude(model, "hello")
        else:
            workspace.ask_codex(model, "hello")
    assert "\n".join(model.told()).count("Look before you write") == 1
    workspace.run("tallystick", "init", "--yes", "--remove")
    assert workspace.run("git", "status", "--short").stdout == ""
    assert "tallystick" not in run("mcp", "list").stdout


_ADDRESS = re.compile(r"sin6?_(?:addr|port).*?inet_(?:addr\(|pton\(AF_INET6, )\"([^\"]+)\"")


@promise("agents, loopback", "while agents are tested nothing leaves the machine")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace sees the connections: apt-get install strace")
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_nothing_leaves_the_machine(agent: str, workspace: Workspace, tmp_path: Path) -> None:
    seen = tmp_path / "connections"
    under = ["strace", "-f", "-qq", "-e", "trace=connect", "-o", str(seen)]
    with serving(Model([])) as model:
        if agent == "claude":
            workspace.ask_claude(model, "hello", under=under)
        else:
            workspace.ask_codex(model, "hello", under=under)
    addresses = set(_ADDRESS.findall(seen.read_text()))
    assert addresses == {"127.0.0.1"}
