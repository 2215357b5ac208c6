"""What a start costs: a client's first answers need little of what is installed, and little is read before them."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tallystick.app import toolsets
from tallystick.app.serving import FILES_MAX
from tallystick.config import Settings
from tallystick.server.dispatch import choose
from tallystick.server.listing import Listing
from tests.mcp_client import start_http, stopping
from tests.promises import promise
from tests.server import sample
from tests.tokens import IS_INSTALLED, count_tokens

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
FIRST_WORDS: list[dict[str, Any]] = [
    {"id": 1, "method": "initialize", "params": HELLO},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list", "params": {}},
    {"id": 3, "method": "tools/call", "params": {"name": "memory.read", "arguments": {"entity_id": "nobody"}}},
]
UNNEEDED = {
    "anyio",
    "cryptography",
    "falkordb",
    "httpx",
    "httpx2",
    "jinja2",
    "joserfc",
    "markdown_it",
    "mcp",
    "mcp_types",
    "nats",
    "neo4j",
    "numpy",
    "obstore",
    "onnxruntime",
    "openlineage",
    "opentelemetry",
    "rich",
    "starlette",
    "tokenizers",
    "uvicorn",
    "uvloop",
    "yaml",
    "tallystick.policy.remote",
    "tallystick.extensions.files.toolset",
    "tallystick.extensions.hooks.toolset",
    "tallystick.extensions.ontology.toolset",
    "tallystick.extensions.cypher.engine",
    "tallystick.extensions.openlineage.lineage_emitter",
    "tallystick.extensions.tasks.toolset",
    "tallystick.server.http",
    "tallystick.server.mcp",
    "tallystick.server.rest",
    "tallystick.extensions.vectors.projection",
    "tallystick.telemetry.otlp",
}


UNNEEDED_OVER_HTTP = {
    "falkordb",
    "joserfc",
    "markdown_it",
    "nats",
    "neo4j",
    "numpy",
    "obstore",
    "onnxruntime",
    "openlineage",
    "rich",
    "tokenizers",
    "tallystick.policy.remote",
    "tallystick.extensions.openlineage.lineage_emitter",
    "tallystick.extensions.vectors.nearest",
    "tallystick.telemetry.otlp",
}


def converse(base: Path) -> tuple[list[dict[str, Any]], set[str]]:
    """The answers to the first words, and every module that the process loaded in its whole life."""
    said = b"".join(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n" for message in FIRST_WORDS)
    command = [sys.executable, "-X", "importtime", "-m", "tallystick", "serve", "--base", str(base)]
    done = subprocess.run(command, input=said, capture_output=True, check=True)
    told = [line for line in done.stderr.decode().splitlines() if line.startswith("import time:")]
    return [json.loads(line) for line in done.stdout.splitlines()], {line.rpartition("|")[2].strip() for line in told}


def test_the_first_answers_need_nothing_that_takes_long_to_load(tmp_path: Path) -> None:
    answers, loaded = converse(tmp_path)
    assert [answer["id"] for answer in answers if "result" in answer] == [1, 2, 3]
    assert "tallystick.server.stdio" in loaded
    assert sorted(loaded & UNNEEDED) == []


def test_a_server_over_http_listens_before_it_has_loaded_what_only_some_need(tmp_path: Path) -> None:
    """Keys of issuers, what draws pages, clients of other services."""
    watch = (
        "import sys; from tallystick import cli; from tallystick.cli import serving\n"
        "def announce(*_): print(*sys.modules); sys.stdout.flush(); raise KeyboardInterrupt\n"
        "serving._welcome = announce\n"
        f"sys.argv = ['tallystick', 'serve', '--http', '127.0.0.1:0', '--base', {str(tmp_path)!r}]; cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", watch], capture_output=True, text=True, check=False)
    loaded = set(done.stdout.split())
    assert "tallystick.server.http" in loaded, done.stderr
    assert sorted(loaded & UNNEEDED_OVER_HTTP) == []


def test_a_server_may_open_more_files_than_its_shell_allows(tmp_path: Path) -> None:
    """A thousand, as most have it, is less than its clients and a hundred open tenants need."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Enough for those that tests before this one have open here, and for what starting it takes.
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 64, most))
    try:
        server = start_http(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    with stopping(server):
        assert server.url
        wanted = FILES_MAX if most == resource.RLIM_INFINITY else min(FILES_MAX, most)
        assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[0] == wanted


# -- what an agent reads

TOOLS_TOKENS_MAX = 3_600
INSTRUCTIONS_TOKENS_MAX = 350

counted = pytest.mark.skipif(not IS_INSTALLED, reason="npm packages not installed: run make test")


def listing(names: Sequence[str], base: Path) -> Listing:
    return Listing(sample.offer(tools=choose(toolsets(Settings(base=base)), names=names)))


@promise("X11, tokens", "the tools that are on by default are shown in at most 3,600 tokens")
@counted
def test_the_tools_that_are_on_by_default_are_shown_in_few_tokens(tmp_path: Path) -> None:
    tools = listing(Settings(base=tmp_path).toolsets, tmp_path).tools(None)
    shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    assert len(tools) == 17
    assert sum(count_tokens([json.dumps(tool, separators=(",", ":"), ensure_ascii=False) for tool in shown])) <= (
        TOOLS_TOKENS_MAX
    )


@promise("X11, instructions", "whatever is on, the server's instructions have less than 350 tokens")
@counted
def test_whatever_is_on_the_instructions_are_read_in_few_tokens(tmp_path: Path) -> None:
    every = [toolset.name for toolset in toolsets(Settings(base=tmp_path))]
    chosen = [on for size in range(1, len(every) + 1) for on in combinations(every, size)]
    counts = count_tokens([listing(on, tmp_path).instructions for on in chosen])
    too_long = {on: count for on, count in zip(chosen, counts, strict=True) if count >= INSTRUCTIONS_TOKENS_MAX}
    assert too_long == {}
