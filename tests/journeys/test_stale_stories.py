"""Facts that stop being true: one agent writes them, others are told, and somebody sees to them."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.command_line import CommandLine
from tests.journeys.knowledge_client import Developer, developer
from tests.promises import promise
from tests.toolsets.knowledge.agents import Checkout

ON = {"TALLYSTICK_STALE_MAKES_WORK": "true"}


async def read(who: Developer, entity_id: str) -> dict[str, object]:
    entity: dict[str, object] = (await who.call("memory.read", entity_id=entity_id))["entity"]
    return entity


async def write(who: Developer, op: str, node_id: str, **attrs: object) -> None:
    node: dict[str, object] = {"id": node_id, "attrs": attrs}
    await who.call("memory.write", op=op, node=node | ({"type": "fact"} if op == "UPSERT_NODE" else {}))


@promise("X24, journey", "a fact is told to be stale, becomes work, and is refreshed by one call")
async def test_a_fact_is_told_to_be_stale_becomes_work_and_is_refreshed_by_one_call(tmp_path: Path) -> None:
    base, checkout = tmp_path / "memory", Checkout(tmp_path / "shop")
    async with (
        developer(base, "ann", repo=checkout.root, **ON) as ann,
        developer(base, "ben", repo=checkout.root / "src", **ON) as ben,
    ):
        await write(ann, "UPSERT_NODE", "retries", says="three times", cites=["src/checkout/page.ts"])
        await write(ann, "UPSERT_NODE", "port", says="5432", stale_after="2020-01-01")
        await write(ann, "UPSERT_NODE", "port2", says="5433", supersedes=["port"])
        assert "stale" not in await read(ben, "retries")
        stale = (await read(ben, "port"))["stale"]
        assert isinstance(stale, dict)
        assert stale["superseded_by"] == "port2"

        checkout.write("src/checkout/page.ts", "two")
        told = (await read(ben, "retries"))["stale"]
        assert isinstance(told, dict)
        assert (told["why"], told["files"]) == ("cited files changed", ["src/checkout/page.ts"])
        await read(ann, "retries")
        work = await ben.next("maintenance")
        assert work["node"]["properties"]["verifies"] == "retries"
        listed = (await asyncio.to_thread(CommandLine(base).run, "stale", "--repo", checkout.root, "--json")).json
        assert {each["id"] for each in listed["stale"]} == {"port", "retries"}

        asked = await ben.call("memory.search", query="how often, three times?", stale=True)
        assert asked["entities"][0]["id"] == "retries"
        assert all("stale" in each for each in asked["entities"])

        await ben.resolve(work["node"]["id"], "read it: still three times")
        entity = await read(ann, "retries")
        assert "stale" not in entity
        attrs = entity["attrs"]
        assert isinstance(attrs, dict)
        assert attrs["verified"]["by"] == "ben"

        checkout.write("src/checkout/page.ts", "three")
        assert "stale" in await read(ann, "retries")
        await write(ann, "PATCH_NODE", "retries", verified=True)
        assert "stale" not in await read(ben, "retries")
        open_ = await ben.call("graph_query", project="maintenance", filter={"text": "Re-verify", "resolved": False})
        assert open_["nodes"] == []
