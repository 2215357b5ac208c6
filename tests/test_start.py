"""What a start costs: a client's first answers need little of what is installed, and little is read before them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tallystick.app import toolsets
from tallystick.config import Settings
from tallystick.server.dispatch import choose
from tallystick.server.listing import Listing
from tests.server import sample

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
FIRST_WORDS: list[dict[str, Any]] = [
    {"id": 1, "method": "initialize", "params": HELLO},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/list", "params": {}},
    {"id": 3, "method": "tools/call", "params": {"name": "memory.read", "arguments": {"entity_id": "nobody"}}},
]
UNNEEDED = {
    "anyio",
    "httpx",
    "httpx2",
    "joserfc",
    "mcp",
    "mcp_types",
    "openlineage",
    "opentelemetry",
    "rich",
    "starlette",
    "uvicorn",
    "uvloop",
    "yaml",
    "tallystick.policy.remote",
    "tallystick.projections.lineage_emitter",
    "tallystick.server.http",
    "tallystick.server.mcp",
    "tallystick.server.rest",
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


# -- what an agent reads

TOKENS_MAX = 3_800
BYTES_PER_TOKEN = 4.17
"""Of this list, by o200k_base: `bench/start.py` counts it."""


def test_the_tools_that_are_on_by_default_are_shown_in_few_tokens(tmp_path: Path) -> None:
    settings = Settings(base=tmp_path)
    offer = sample.offer(tools=choose(toolsets(settings), names=settings.toolsets))
    tools = Listing(offer).tools(None)
    shown = [{key: tool[key] for key in ("name", "description", "inputSchema")} for tool in tools]
    assert len(tools) == 17
    assert len(json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode()) / BYTES_PER_TOKEN < TOKENS_MAX
