"""Windows of one client: a hook speaks of the claims of its own window and of no other's."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hook.memories import Memory, run_hook
from tests.mcp_client import HELLO, INITIALIZED, RawClient, ServerProcess, clean_environ, start_server

LAUNCHER = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).wait(), file=sys.stderr)"
"""Stands for another window: a process between the test and the server, as a second client would be."""


class Window:
    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.client = RawClient(server)
        self.client.ask("initialize", {**HELLO, "clientInfo": {"name": "claude-code", "version": "1"}})
        self.client.send(INITIALIZED + b"\n")

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.client.call(tool, **arguments)

    def claim(self) -> str:
        (entry,) = self.call("graph_next", claim=True)["nodes"]
        node_id: str = entry["node"]["id"]
        return node_id


def _stop_window(window: Window) -> None:
    window.server.kill()


@pytest.fixture
def own(memory: Memory) -> Iterator[Window]:
    """The window of the hooks that `run_hook` starts: both are children of the test's process."""
    window = Window(start_server(memory.settings.base))
    yield window
    _stop_window(window)


@pytest.fixture
def other(memory: Memory) -> Iterator[Window]:
    serve = [sys.executable, "-m", "tallystick", "serve", "--base", str(memory.settings.base)]
    window = Window(ServerProcess([sys.executable, "-c", LAUNCHER, *serve], environ=clean_environ()))
    yield window
    for pid in _children(window.server.process.pid):
        os.kill(pid, signal.SIGKILL)
    _stop_window(window)


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in tasks for child in path.read_text().split()]


@pytest.fixture
def plan(memory: Memory) -> None:
    memory.call("graph_open", project="shop", goal="Checkout")
    memory.call("graph_plan", nodes=[{"ref": name, "summary": name} for name in ("one", "two", "three")])


def _hook(memory: Memory, event: str, session: str = "new") -> str:
    stdin = json.dumps({"session_id": session, "cwd": str(memory.repository)}).encode()
    return run_hook(event, "--client", "claude", stdin=stdin, cwd=memory.repository).stdout.decode()


@pytest.mark.usefixtures("plan")
def test_a_window_is_reminded_of_its_own_claims_alone(memory: Memory, own: Window, other: Window) -> None:
    theirs, mine = other.claim(), own.claim()
    told = _hook(memory, "session-start")
    assert f"You claimed: {mine}" in told
    assert theirs not in told
    reminder = _hook(memory, "stop")
    assert mine in reminder
    assert theirs not in reminder
    assert "release" in reminder


@pytest.mark.usefixtures("plan")
def test_a_window_without_a_claim_is_told_of_none(memory: Memory, other: Window) -> None:
    theirs = other.claim()
    assert theirs not in _hook(memory, "session-start")
    assert _hook(memory, "stop") == ""


@pytest.mark.usefixtures("plan")
def test_what_a_killed_window_left_is_shown_as_unfinished_and_handed_out_first(
    memory: Memory, own: Window, other: Window
) -> None:
    theirs = other.claim()
    for pid in _children(other.server.process.pid):
        os.kill(pid, signal.SIGKILL)
    other.server.wait_for("-9")
    told = _hook(memory, "session-start")
    assert f"Unfinished from an earlier session of yours (graph_next continues it): {theirs}" in told
    assert _hook(memory, "stop") == "", "it is not this window's to resolve"
    assert own.claim() == theirs
    assert theirs in _hook(memory, "stop")


@pytest.mark.usefixtures("plan")
def test_a_claim_that_was_released_is_not_brought_up(memory: Memory, own: Window) -> None:
    mine = own.claim()
    assert own.call("graph_next", release=mine) == {"nodes": [], "released": mine}
    assert _hook(memory, "stop") == ""


def test_what_changed_is_told_again(memory: Memory) -> None:
    memory.note("fees", title="Fees", text="are 2 %", cites=["src/cart.ts"])
    assert "are 2 %" in memory.read("src/cart.ts")
    assert memory.hook("before-tool", tool_input={"file_path": str(memory.repository / "src/cart.ts")}) == ""
    memory.note("fees", title="Fees", text="are 3 %", cites=["src/cart.ts"])
    assert "are 3 %" in memory.read("src/cart.ts")


def test_what_was_superseded_is_told_again(memory: Memory) -> None:
    memory.note("fees", title="Fees", text="are 2 %", cites=["src/cart.ts"])
    memory.read("src/cart.ts")
    memory.note("new-fees", title="New fees", text="are 3 %", supersedes=["fees"])
    assert "superseded by new-fees" in memory.read("src/cart.ts")


@pytest.mark.parametrize("is_followed", [True, False], ids=["mirror at the head", "no mirror yet"])
def test_a_fact_stays_superseded_when_its_successor_is_redacted(memory: Memory, is_followed: bool) -> None:
    memory.note("fees", title="Fees", text="are 2 %", cites=["src/cart.ts"])
    memory.note("new-fees", title="New fees", text="are 3 %", supersedes=["fees"])
    memory.call("memory.write", op="REDACT_NODE", node_id="new-fees", reason="asked")
    if is_followed:
        memory.follow()
    told = memory.read("src/cart.ts")
    assert "superseded by new-fees, which was redacted" in told
    assert "are 3 %" not in told
