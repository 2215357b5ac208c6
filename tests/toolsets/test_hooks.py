"""What a server answers hooks: the same as the command, through the policy, by a tool that no agent is shown."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.hook.memories import Memory, make_repository, run_hook
from tests.mcp_client import TRANSPORTS, call, connect, serving_http
from tests.promises import promise

PATIENT = {"TALLYSTICK_HOOK_SECONDS": "60"}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    made = Memory(make_repository(tmp_path / "repository"))
    made.note("refunds", title="Refunds", text="A refund that times out is never retried.", cites=["src/cart.ts"])
    return made


def _asked(memory: Memory, **more: Any) -> dict[str, Any]:
    return {"session_id": "s", "cwd": str(memory.repository), **more}


@promise("hook, tool", "a client that calls a tool gets what the command would print")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_that_calls_a_tool_gets_what_the_command_would_print(memory: Memory, transport: str) -> None:
    arguments = _asked(memory, event="before-tool", file_path=str(memory.repository / "src" / "cart.ts"))
    async with connect(memory.settings.base, transport=transport, environ=PATIENT) as client:
        answer = await client.call_tool("hook_context", arguments)
        again = await call(client, "hook_context", **arguments)
    (part,) = answer.content
    told = json.loads(part.text)["hookSpecificOutput"]  # type: ignore[union-attr]  # it is text
    assert told["hookEventName"] == "PreToolUse"
    assert '- refunds "Refunds": "A refund that times out is never retried."' in told["additionalContext"]
    assert again == {}, "it was said"
    by_command = memory.read("src/cart.ts", session_id="another")
    assert by_command == told["additionalContext"]


@promise("hook, unlisted", "no agent is shown the tool")
@pytest.mark.parametrize("toolsets", ["memory,work,knowledge", "all"])
async def test_no_agent_is_shown_it(memory: Memory, toolsets: str) -> None:
    async with connect(memory.settings.base, "--toolsets", toolsets) as client:
        assert [tool.name for tool in (await client.list_tools()).tools if "hook" in tool.name] == []


async def test_who_chooses_tools_one_by_one_has_no_others(memory: Memory) -> None:
    async with connect(memory.settings.base, "--tools", "memory.read") as client:
        with pytest.raises(Exception, match="not on in this server"):
            await client.call_tool("hook_context", _asked(memory, event="stop"))


async def test_the_end_of_a_turn_is_held_up_once(memory: Memory) -> None:
    async with connect(memory.settings.base, agent="hal", environ=PATIENT) as client:
        await call(client, "graph_open", project="shop", goal="Checkout")
        await call(client, "graph_next", project="shop", claim=True)
        told = await call(client, "hook_context", **_asked(memory, event="stop"))
        assert (told["decision"], "you claimed" in told["reason"]) == ("block", True)
        assert await call(client, "hook_context", **_asked(memory, event="stop", stop_hook_active=True)) == {}


# -- asked by the command


def test_where_a_server_is_named_the_command_asks_it(memory: Memory, tmp_path: Path) -> None:
    said = json.dumps({"session_id": "s", "tool_input": {"file_path": "src/cart.ts"}}).encode()
    with serving_http(memory.settings.base, environ=PATIENT) as server:
        # Another work tree without a memory of its own, as on another machine.
        elsewhere = make_repository(tmp_path / "elsewhere")
        (elsewhere / ".git" / "tallystick").rmdir()
        done = run_hook("before-tool", stdin=said, cwd=elsewhere, TALLYSTICK_URL=server.url)
        stop = run_hook("stop", "--client", "codex", stdin=b"{}", cwd=elsewhere, TALLYSTICK_URL=server.url)
    assert "never retried" in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert (stop.stdout, stop.stderr) == (b"", b"")


@promise("hook, issuer", "a server that asks for tokens gets the one of the environment")
def test_a_server_that_asks_for_tokens_gets_the_one_of_the_environment(memory: Memory) -> None:
    answer = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "from the server"}}
    with _server(200, json.dumps(answer).encode()) as (url, asked):
        environ = {
            "TALLYSTICK_ISSUERS": "https://issuer.example",
            "TALLYSTICK_PUBLIC_URL": url,
            "TALLYSTICK_TOKEN": "t0ken",
        }
        done = run_hook("session-start", "--client", "cursor", stdin=b"{}", cwd=memory.repository, **environ)
    assert json.loads(done.stdout) == {"additional_context": "from the server"}
    ((path, token, body),) = asked
    assert (path, token) == ("/v1/tools/hook.context", "Bearer t0ken")
    assert (body["event"], body["client"]) == ("session-start", "cursor")


def test_an_address_that_came_with_the_repository_gets_neither_token_nor_prompt(memory: Memory) -> None:
    with _server(200, b"{}") as (url, asked):
        (memory.settings.base / "tallystick.toml").write_text(f'public_url = "{url}"\nhttp = "{url[7:]}"\n')
        environ = {"TALLYSTICK_ISSUERS": "https://issuer.example", "TALLYSTICK_TOKEN": "t0ken"}
        said = json.dumps({"prompt": "a secret plan"}).encode()
        done = run_hook("prompt", stdin=said, cwd=memory.repository, **environ)
    assert (done.returncode, done.stdout, asked) == (0, b"", [])


REFUSALS: tuple[tuple[int, bytes], ...] = (
    (401, b'{"error": "MISSING_TOKEN"}'), (403, b"{}"), (500, b""), (200, b"<html>"), (200, b"[]"),
    (200, b'{"reason": 7}'), (200, b'{"reason": "' + b"x" * 100_000),
)  # fmt: skip


@pytest.mark.parametrize(("status", "body"), REFUSALS, ids=range(len(REFUSALS)))
def test_a_server_that_refuses_or_talks_nonsense_is_as_good_as_none(memory: Memory, status: int, body: bytes) -> None:
    with _server(status, body) as (url, _):
        done = run_hook("session-start", stdin=b"{}", cwd=memory.repository, TALLYSTICK_URL=url)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "file:///etc/passwd", "nonsense", "http://[::1", "https://"])
def test_a_server_that_is_away_is_as_good_as_none(memory: Memory, url: str) -> None:
    done = run_hook("session-start", stdin=b"{}", cwd=memory.repository, TALLYSTICK_URL=url)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


Asked = tuple[str, str | None, dict[str, Any]]


@contextmanager
def _server(status: int, body: bytes) -> Iterator[tuple[str, list[Asked]]]:
    """One that always says the same."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, self.headers.get("authorization"), said))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
