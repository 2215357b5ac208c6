"""Servers killed with SIGKILL while agents write: nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mcp.client import Client

from tallystick.log.proof import prove
from tests.mcp_client import call, connect, serving_http, start_http
from tests.promises import promise

LIVES = 4
AGENTS = 8


@promise("durability, kill", "what was acknowledged before a SIGKILL is found after it, by a client")
async def test_whatever_was_acknowledged_before_a_kill_is_found_after_it(tmp_path: Path) -> None:
    """One server is killed again and again under load; a second one on the same base lives on beside it."""
    kept: set[str] = set()
    with serving_http(tmp_path) as witness:
        for life in range(LIVES):
            kept |= await _killed_at_work(tmp_path, life)
            async with Client(witness.mcp_url) as client:
                assert [name for name in sorted(kept) if not await _remembers(client, name)] == []
    assert len(kept) > LIVES * 20
    async with connect(tmp_path) as client:
        assert [name for name in sorted(kept) if not await _remembers(client, name)] == []
    # Not before: whoever opens the store settles what the last kill left behind the kept position.
    assert prove(tmp_path / "_system").sound


async def _remembers(client: Client, name: str) -> bool:
    entity = (await call(client, "memory.read", entity_id=name))["entity"]
    return entity is not None and entity["attrs"] == {"name": name}


async def _killed_at_work(base: Path, life: int) -> set[str]:
    """The names whose writes were acknowledged before the server was killed."""
    server = start_http(base)
    acknowledged: set[str] = set()
    enough = asyncio.Event()

    async def work(agent: int) -> None:
        try:
            async with Client(server.mcp_url) as client:
                for number in range(100_000):
                    name = f"life{life}-{agent}-{number}"
                    node = {"id": name, "type": "note", "attrs": {"name": name}}
                    await call(client, "memory.write", op="UPSERT_NODE", node=node, nonce=name)
                    acknowledged.add(name)
                    if len(acknowledged) >= 30 + 20 * life:
                        enough.set()
        except Exception:
            return  # The server is gone: whatever was not acknowledged may or may not be there.

    workers = [asyncio.create_task(work(agent)) for agent in range(AGENTS)]
    await enough.wait()
    server.kill()
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return acknowledged
