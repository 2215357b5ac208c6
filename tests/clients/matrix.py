"""The clients that people use, each as it is published, with `tallystick serve` over stdio and over HTTP.

Each lists the tools under names that its provider accepts, shows the model what is wrong with a call, and then
writes. Not part of `make test`, since it takes environments of their own: `make clients`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.clients.model import NAMES, Model, serving
from tests.mcp_client import clean_environ, serving_http
from tests.promises import promise

HERE = Path(__file__).parent
NODE = HERE / "node_modules/.bin/node"
INSPECTOR = HERE / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"

BAD = {"op": "UPSERT_NODE", "node": {"id": "plan"}}
GOOD = {"op": "UPSERT_NODE", "node": {"id": "plan", "type": "Plan", "attrs": {"goal": "ship"}}, "reason": "agreed"}
FAULT = "Invalid params: field 'node.type' is required; field 'node.attrs' is required"

over_each_transport = pytest.mark.parametrize("transport", ["stdio", "http"])


@contextmanager
def reached(base: Path, transport: str) -> Iterator[dict[str, str]]:
    """The variables that tell a program how to reach a server."""
    if transport == "http":
        with serving_http(base) as server:
            yield {"SERVER_URL": server.mcp_url}
    else:
        yield {"SERVER_COMMAND": json.dumps([sys.executable, "-m", "tallystick", "serve", "--base", str(base)])}


def run(program: str, environ: Mapping[str, str]) -> Any:
    """What the program shows."""
    where, name = program.split("/")
    interpreter = NODE if where == "node" else HERE.parents[1] / f".clients/{where}/bin/python"
    calls = {"CALLS": json.dumps([BAD, GOOD]), "OPENAI_API_KEY": "none"}
    done = subprocess.run(
        [str(interpreter), str(HERE / "programs" / name)],
        env={**clean_environ(), **calls, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def is_written(base: Path) -> bool:
    command = [sys.executable, "-m", "tallystick", "show", "--base", str(base), "plan"]
    done = subprocess.run(command, env=clean_environ(), capture_output=True, text=True, check=False)
    return done.returncode == 0 and "ship" in done.stdout


# -- agents: with a model, which sees what a framework makes of the server

AGENTS = {
    "openai-agents": "sdk2/openai_agents.py",
    "pydantic-ai": "sdk2/pydantic_agent.py",
    "smolagents": "sdk1/smol_agent.py",
    "LangChain": "sdk1/langchain_agent.py",
    "llama-index": "llama/llama_agent.py",
    "AI SDK": "node/ai_sdk.mjs",
}


@promise("L58, for real", "frameworks offer a model every tool under names that providers take; it reads its mistakes")
@over_each_transport
@pytest.mark.parametrize("program", AGENTS.values(), ids=AGENTS)
def test_a_model_is_offered_the_tools_reads_its_mistake_and_mends_it(
    program: str, transport: str, tmp_path: Path
) -> None:
    script = [("memory_write", BAD), ("memory_write", GOOD)]
    with serving(Model(script)) as model, reached(tmp_path, transport) as environ:
        shown = run(program, {**environ, "OPENAI_BASE_URL": model.url})
    assert shown == {"answer": "done"}
    assert {"memory_search", "memory_write", "graph_next", "query_graph"} <= set(model.tools)
    assert all(NAMES.fullmatch(name) for name in model.tools)
    assert FAULT in model.read(turn=1)
    assert '"commit_id"' in model.read(turn=2)
    assert is_written(tmp_path)


# -- clients without a model

CLIENTS = {
    "Python SDK 2": ("sdk2/python_sdk.py", True),
    "Python SDK 1": ("sdk1/python_sdk_1.py", True),
    "fastmcp": ("llama/fastmcp_client.py", True),
    "TypeScript SDK 1": ("node/typescript_sdk_1.mjs", False),
    "TypeScript SDK 2": ("node/typescript_sdk_2.mjs", False),
}
"""The program, and whether the name that it gives itself is known as one for names without dots."""


@promise("L58, for real, SDKs", "clients list the tools, are told their mistakes, and write")
@over_each_transport
@pytest.mark.parametrize(("program", "without_dots"), CLIENTS.values(), ids=CLIENTS)
def test_a_client_lists_is_told_its_mistake_and_writes(
    program: str, without_dots: bool, transport: str, tmp_path: Path
) -> None:
    with reached(tmp_path, transport) as environ:
        shown = run(program, environ)
    assert ("memory_write" if without_dots else "memory.write") in shown["names"]
    assert (shown["is_error"], shown["bad"]) == (True, FAULT)
    assert "commit_id" in json.loads(shown["good"])
    assert is_written(tmp_path)


# -- the Inspector's command line, which makes one call and ends


def inspect(environ: Mapping[str, str], home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    target = [environ["SERVER_URL"]] if "SERVER_URL" in environ else json.loads(environ["SERVER_COMMAND"])
    return subprocess.run(
        [str(NODE), str(INSPECTOR), "--cli", *target, *arguments],
        env={**clean_environ(), "HOME": str(home), "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )


def tool_arguments(call: Mapping[str, Any]) -> list[str]:
    return [f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in call.items()]


@promise("L58, for real, Inspector", "so does the Inspector's command line, which finds no fault in the schemas")
@over_each_transport
def test_the_inspector_lists_is_told_its_mistake_and_writes(transport: str, tmp_path: Path) -> None:
    base, home = tmp_path / "base", tmp_path / "home"
    home.mkdir()
    calling = ("--method", "tools/call", "--tool-name", "memory.write", "--tool-arg")
    with reached(base, transport) as environ:
        listed = inspect(environ, home, "--method", "tools/list", "--strict")
        assert listed.returncode == 0, listed.stderr
        assert "memory.write" in {tool["name"] for tool in json.loads(listed.stdout)["tools"]}
        bad = inspect(environ, home, *calling, *tool_arguments(BAD))
        assert FAULT in bad.stdout + bad.stderr
        good = inspect(environ, home, *calling, *tool_arguments(GOOD))
        assert "commit_id" in good.stdout, good.stderr
    assert is_written(base)
