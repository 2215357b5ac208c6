"""A call that takes long is told of, and can be cancelled: then nothing of it is written, or all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client import Client

from tallystick import app
from tallystick.config import load
from tests import timeouts
from tests.mcp_client import TRANSPORTS, ServerProcess, call, connect, serving_http
from tests.promises import promise

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])
DOORS = pytest.mark.parametrize("transport", TRANSPORTS)


@asynccontextmanager
async def locked(base: Path) -> AsyncIterator[None]:
    """While inside, nobody else writes: whoever wants to waits."""
    log = app.open_log(load({"base": base}, environ={}))
    try:
        assert log.claim(timeout_seconds=timeouts.SECONDS)
        yield
        log.release()
    finally:
        log.close()


def node(name: str) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": name, "type": "note", "attrs": {}}}


@promise("progress", "a write that has to wait says so and is done, both doors, both eras")
@ERAS
@DOORS
async def test_a_write_that_has_to_wait_says_so_and_is_done(transport: str, mode: str, tmp_path: Path) -> None:
    told: list[tuple[float, str | None]] = []
    twice = asyncio.Event()

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message))
        if len(told) == 2:
            twice.set()

    async with connect(tmp_path, transport=transport, mode=mode) as client:
        await call(client, "memory.write", **node("a"))
        async with locked(tmp_path):
            writing = asyncio.create_task(client.call_tool("memory.write", node("b"), progress_callback=tell))
            await twice.wait()
        assert not (await writing).is_error
        seconds = [progress for progress, _ in told]
        assert seconds == sorted(set(seconds))
        assert seconds[0] >= 1
        assert (await call(client, "memory.read", entity_id="b"))["entity"] is not None


@ERAS
@DOORS
async def test_a_quick_call_says_nothing_before_its_answer(transport: str, mode: str, tmp_path: Path) -> None:
    told: list[float] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append(progress)

    async with connect(tmp_path, transport=transport, mode=mode) as client:
        answer = await client.call_tool("memory.write", node("a"), progress_callback=tell)
        assert not answer.is_error
        assert told == []


@promise("cancellation", "a write that is cancelled while it waits is not written")
@ERAS
@DOORS
async def test_a_write_that_is_cancelled_while_it_waits_is_not_written(
    transport: str, mode: str, tmp_path: Path
) -> None:
    waits = asyncio.Event()

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        waits.set()

    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(connect(tmp_path))
        server = stack.enter_context(serving_http(tmp_path)) if transport == "http" else None
        opening = connect(tmp_path, mode=mode) if server is None else Client(server.mcp_url, mode=mode)
        client = await stack.enter_async_context(opening)
        await call(client, "memory.write", **node("a"))
        async with locked(tmp_path):
            async with anyio.create_task_group() as group:
                many = {"ops": [node(f"b{number}") for number in range(1_000)]}

                async def write() -> None:
                    await client.call_tool("memory.write", many, progress_callback=tell)

                group.start_soon(write)
                await waits.wait()
                group.cancel_scope.cancel()
            await _heard(client, server)
        await call(other, "memory.write", **node("c"))
        # Behind what was written later: whatever was to be written before is there by now, or never.
        await call(client, "memory.write", **node("d"))
        for name in ("b0", "b999"):
            assert (await call(client, "memory.read", entity_id=name))["entity"] is None


async def _heard(client: Client, server: ServerProcess | None) -> None:
    """Until the server knows. On stdio it does before it reads anything else."""
    if server is None:
        await call(client, "memory.read", entity_id="a")
        return
    async with httpx2.AsyncClient() as http:
        while "CANCELLED" not in (await http.get(f"{server.url}/metrics")).text:
            pass


@promise("cancellation, whole", "whenever a write is cancelled it is written whole or not at all")
@ERAS
@DOORS
async def test_whenever_a_write_is_cancelled_it_is_written_whole_or_not_at_all(
    transport: str, mode: str, tmp_path: Path
) -> None:
    async with connect(tmp_path, transport=transport, mode=mode) as client:
        for turn in range(12):
            several = {"ops": [node(f"{turn}-{number}") for number in range(50)]}
            with anyio.move_on_after(0.002 * turn):
                await client.call_tool("memory.write", several)
        await call(client, "memory.write", **node("last"))
        for turn in range(12):
            there = [
                (await call(client, "memory.read", entity_id=f"{turn}-{number}"))["entity"] is not None
                for number in (0, 25, 49)
            ]
            assert len(set(there)) == 1
