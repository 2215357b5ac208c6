"""The serving process: its address, its sessions, its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
import pytest
from starlette.applications import Starlette

from tallystick.server.http import http_app, run_http
from tests.server.sample import offer
from tests.server.serving import serving

pytestmark = pytest.mark.anyio


async def test_the_real_port_is_announced_once_it_answers() -> None:
    announced: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(
        run_http(
            http_app(offer()), host="127.0.0.1", port=0, announce=lambda host, port: announced.set_result((host, port))
        )
    )
    host, port = await announced
    async with httpx2.AsyncClient(timeout=None) as http:
        assert (await http.get(f"http://{host}:{port}/health")).status_code == 200
    os.kill(os.getpid(), signal.SIGTERM)
    await running
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(host, port)


async def test_an_address_in_use_is_an_error_not_an_exit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        await run_http(
            http_app(offer()), host="127.0.0.1", port=taken.getsockname()[1], announce=lambda host, port: None
        )


async def test_an_application_that_does_not_start_is_an_error() -> None:
    @asynccontextmanager
    async def failing(app: Starlette) -> AsyncIterator[None]:
        await asyncio.wait_for(asyncio.Event().wait(), timeout=0)
        yield

    with pytest.raises(RuntimeError, match="did not start"):
        await run_http(Starlette(lifespan=failing), host="127.0.0.1", port=0, announce=lambda host, port: None)


async def test_open_streams_do_not_hold_up_the_end() -> None:
    async with httpx2.AsyncClient(timeout=None) as http, AsyncExitStack() as left_open:
        with serving() as url:
            stream = await left_open.enter_async_context(http.stream("GET", f"{url}/sse"))
            assert await anext(stream.aiter_lines()) == "event: endpoint"


async def test_a_session_is_known_by_its_id_and_forgotten_when_it_ends() -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
    }
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    with serving() as url:
        async with httpx2.AsyncClient(headers={"accept": "application/json, text/event-stream"}, timeout=None) as http:
            session = (await http.post(f"{url}/mcp", json=hello)).headers["mcp-session-id"]
            headers = {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
            assert (await http.post(f"{url}/mcp", json=listing, headers=headers)).status_code == 200
            assert (await http.delete(f"{url}/mcp", headers=headers)).status_code == 200
            assert (await http.post(f"{url}/mcp", json=listing, headers=headers)).status_code == 404
