"""The whole program behind a real MCP client: `tallystick serve` over stdio or HTTP on a base of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client import Client

DOORS = ("stdio", "http")


@asynccontextmanager
async def client_at(door: str, base: Path, *, agent: str = "agent_alpha") -> AsyncIterator[Client]:
    if door == "stdio":
        async with Client(StdioServerParameters(command=sys.executable, args=_arguments(base, agent))) as client:
            yield client
    else:
        with serving_http(base, agent=agent) as address:
            async with Client(f"{address}/mcp") as client:
                yield client


@contextmanager
def serving_http(base: Path, *more: str, agent: str | None = "agent_alpha", port: int = 0) -> Iterator[str]:
    """Its address. On leaving it is asked to end, and must do so well."""
    process, address = start_http(base, *more, agent=agent, port=port)
    try:
        yield address
        process.send_signal(signal.SIGTERM)
        process.communicate()
        assert process.returncode == 0
    finally:
        kill(process)


def start_http(
    base: Path, *more: str, agent: str | None = "agent_alpha", port: int = 0
) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, *_arguments(base, agent), *more, "--http", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"NO_COLOR": "1"})
    assert process.stderr is not None
    try:
        return process, _address(iter(process.stderr))
    except BaseException:
        kill(process)
        raise


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """What the client is told by a call that succeeds."""
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    return dict(answer.structured_content)


async def refused(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    assert answer.structured_content is not None
    return dict(answer.structured_content)


def _arguments(base: Path, agent: str | None) -> list[str]:
    named = [] if agent is None else ["--agent", agent]
    return ["-m", "tallystick", "serve", "--base", str(base), *named]


def _address(lines: Iterator[str]) -> str:
    said = []
    for line in lines:
        said.append(line)
        if found := re.search(r"address\s+(http://\S+)/mcp", line):
            return found[1]
    raise AssertionError("the server never said where it listens: " + "".join(said))
