"""A real server and a real client: `tallystick serve` in a process of its own, over stdio or HTTP.

`connect` gives the SDK's client. `RawClient` writes and reads the bytes of stdio itself, for tests of those bytes.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mcp import StdioServerParameters
from mcp.client import Client

TRANSPORTS = ("stdio", "http")
NOTHING: Mapping[str, str] = MappingProxyType({})
_ADDRESS = re.compile(r"(http://[^\s\"]+)/mcp")


# -- the server


class ServerProcess:
    """A process whose stderr is read as it comes: a full pipe would stop it."""

    def __init__(self, command: list[str], *, environ: Mapping[str, str], cwd: Path | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            cwd=cwd,
        )
        self.lines: list[str] = []
        """What it wrote on stderr; all of it once the process has ended."""
        self._changed = threading.Condition()
        self._is_over = False
        self._reading = threading.Thread(target=self._read_stderr)
        self._reading.start()

    def wait_for(self, words: str) -> None:
        """Until it has said so on stderr."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or any(words in line for line in self.lines))
        assert any(words in line for line in self.lines), "".join(self.lines)

    @property
    def url(self) -> str:
        """Where it serves HTTP, as soon as it says so."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_over or self._address() is not None)
        address = self._address()
        assert address is not None, "the server never said where it listens: " + "".join(self.lines)
        return address

    @property
    def mcp_url(self) -> str:
        return f"{self.url}/mcp"

    def stderr(self) -> list[str]:
        """All of its lines, once it has ended by itself."""
        self._reading.join()
        return self.lines

    def events(self, name: str) -> list[dict[str, Any]]:
        """Of a log in JSON."""
        return [line for line in map(json.loads, self.lines) if line.get("event") == name]

    def stop(self) -> None:
        """Asks it to end, which it must do well."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait() == 0, "".join(self.lines)

    def kill(self) -> None:
        """Ends it, if it has not ended, as a power cut would."""
        self.process.kill()
        self.process.wait()
        self._reading.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def _address(self) -> str | None:
        return next((found[1] for line in self.lines if (found := _ADDRESS.search(line))), None)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.decode(errors="replace"))
                self._changed.notify_all()
        with self._changed:
            self._is_over = True
            self._changed.notify_all()


def start_server(
    base: Path,
    *arguments: str,
    agent: str | None = None,
    python: tuple[str, ...] = (),
    environ: Mapping[str, str] = NOTHING,
) -> ServerProcess:
    """Over stdio, unless the arguments say otherwise."""
    command = [sys.executable, *python, *_serve(base, agent, arguments)]
    return ServerProcess(command, environ={**clean_environ(), "NO_COLOR": "1", **environ})


def start_http(
    base: Path, *arguments: str, agent: str | None = "agent_alpha", port: int = 0, environ: Mapping[str, str] = NOTHING
) -> ServerProcess:
    server = start_server(base, "--http", f"127.0.0.1:{port}", *arguments, agent=agent, environ=environ)
    try:
        assert server.url
    except BaseException:
        server.kill()
        raise
    return server


@contextmanager
def serving_http(
    base: Path, *arguments: str, agent: str | None = "agent_alpha", port: int = 0, environ: Mapping[str, str] = NOTHING
) -> Iterator[ServerProcess]:
    """On leaving it is asked to end, and must do so well."""
    with stopping(start_http(base, *arguments, agent=agent, port=port, environ=environ)) as server:
        yield server


@contextmanager
def stopping(server: ServerProcess) -> Iterator[ServerProcess]:
    try:
        yield server
        server.stop()
    finally:
        server.kill()


def clean_environ() -> dict[str, str]:
    """Ours, without the variables that would configure the server."""
    settings = ("OTEL_", "TALLYSTICK_", "GRAPH_", "BASE_PATH")
    return {name: value for name, value in os.environ.items() if not name.startswith(settings)}


def _serve(base: Path, agent: str | None, arguments: tuple[str, ...]) -> list[str]:
    named = [] if agent is None else ["--agent", agent]
    return ["-m", "tallystick", "serve", "--base", str(base), *named, *arguments]


# -- the SDK's client


@asynccontextmanager
async def connect(
    base: Path,
    *arguments: str,
    transport: str = "stdio",
    agent: str | None = "agent_alpha",
    mode: str = "auto",
    cwd: Path | None = None,
    environ: Mapping[str, str] = NOTHING,
    **handlers: Any,
) -> AsyncIterator[Client]:
    """A client with a server of its own; `handlers` are the SDK's, for what the server says unasked."""
    if transport == "http":
        with serving_http(base, *arguments, agent=agent, environ=environ) as server:
            async with Client(server.mcp_url, mode=mode, **handlers) as client:
                yield client
    else:
        command = StdioServerParameters(
            command=sys.executable, args=_serve(base, agent, arguments), cwd=cwd, env=dict(environ)
        )
        async with Client(command, mode=mode, **handlers) as client:
            yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured content of a call that succeeds."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    return dict(answer.structured_content)


async def refused(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured content of a call that is refused."""
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    assert answer.structured_content is not None
    return dict(answer.structured_content)


def server_pids() -> list[int]:
    """Of the servers that clients of this very process started over stdio."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for path in tasks for pid in path.read_text().split()]


def kill_server(base: Path, agent: str) -> None:
    """The one that a client of this very process started over stdio."""
    (pid,) = [pid for pid in server_pids() if {str(base), agent} <= set(_command(pid))]
    os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


# -- bytes on stdio

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


def request(method: str, params: Any = None, id: Any = 1) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}).encode()


class RawClient:
    def __init__(self, server: ServerProcess) -> None:
        assert server.process.stdin is not None
        assert server.process.stdout is not None
        self._stdin, self._stdout = server.process.stdin, server.process.stdout
        self._process = server.process
        self._numbers = itertools.count()

    def request(self, method: str, params: Any) -> tuple[str, bytes]:
        """A new id, and a request under it."""
        id = f"proper {next(self._numbers)}"
        return id, request(method, params, id)

    def send(self, data: bytes) -> None:
        self._stdin.write(data)
        self._stdin.flush()

    def receive(self, *ids: str) -> dict[str, Any]:
        """The answers to these, whatever else comes in between."""
        found: dict[str, Any] = {}
        while len(found) < len(ids):
            line = self._stdout.readline()
            assert line.endswith(b"\n"), "the server is gone"
            answer = json.loads(line)
            check_message(answer)
            if answer.get("id") in ids:
                assert answer["id"] not in found
                found[answer["id"]] = answer
        return found

    def hear(self) -> dict[str, Any]:
        """The next message, whatever it is."""
        line = self._stdout.readline()
        assert line.endswith(b"\n"), "the server is gone"
        message: dict[str, Any] = json.loads(line)
        return message

    def ask(self, method: str, params: Any) -> Any:
        id, data = self.request(method, params)
        self.send(data + b"\n")
        return self.receive(id)[id]["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["structuredContent"]

    def end(self) -> list[bytes]:
        """Closes its stdin, at which it must end well; the lines that it still wrote."""
        self._stdin.close()
        rest = self._stdout.readlines()
        assert self._process.wait() == 0
        return rest


def check_message(answer: Any) -> None:
    assert answer["jsonrpc"] == "2.0"
    assert ("method" in answer) + ("result" in answer) + ("error" in answer) == 1
    if "error" in answer:
        assert answer["error"]["code"] != -32603, answer
        assert answer["error"]["message"]
        assert "Traceback" not in json.dumps(answer)
