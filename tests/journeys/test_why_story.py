"""Why a line is there: one agent knows something, another reads it and writes the line, a third asks."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.command_line import CommandLine
from tests.journeys.knowledge_client import developer
from tests.mcp_client import connect, refused
from tests.promises import promise
from tests.toolsets.knowledge.agents import Checkout

PAGE = "src/checkout/page.ts"


@promise("why, agents", "through real clients a line leads back to what its author had read")
async def test_a_line_leads_back_to_what_its_author_had_read(tmp_path: Path) -> None:
    base, checkout = tmp_path / "memory", Checkout(tmp_path / "shop")
    async with developer(base, "ann", repo=checkout.root) as ann:
        node = {"id": "gateway_limits", "type": "fact", "attrs": {"says": "429 after three calls", "cites": [PAGE]}}
        await ann.call("memory.write", op="UPSERT_NODE", node=node, reason="measured")
        (task,) = await ann.plan("shop", {"summary": "Retry payments"})
    async with developer(base, "ben", repo=checkout.root) as ben:
        assert (await ben.next("shop"))["node"]["id"] == task
        await ben.call("memory.search", query="how often may the gateway be called?")
        await ben.call("memory.read", entity_id="gateway_limits")
        checkout.write(PAGE, "one\nretry(3)\n")
        checkout.commit()
        evidence = [{"type": "git", "ref": checkout.git("rev-parse", "--short", "HEAD")}]
        update = {"node_id": task, "resolved": True, "add_evidence": evidence}
        await ben.call("graph_update", updates=[update])
    # Servers that ended have written down what was read.
    async with developer(base, "cleo", repo=checkout.root) as cleo:
        found = await cleo.call("memory.why", file=PAGE, line=2)
        assert found["commit"]["id"] == checkout.git("rev-parse", "HEAD")
        (told,) = found["tasks"]
        assert (told["id"], told["claims"][0]["actor"]) == (task, "ben")
        (read,) = told["reads"]
        assert (read["by"], read["tool"]) == ("ben", "memory.read")
        assert (read["fact"]["id"], read["fact"]["by"], read["fact"]["reason"]) == ("gateway_limits", "ann", "measured")
        assert read["fact"]["sources"] == [{"how": "cites", "what": PAGE}]
        assert any("looked up by search" in gap for gap in told["gaps"])
        of_file = await cleo.call("memory.why", file=PAGE)
        assert [each["id"] for each in of_file["tasks"]] == [task]
        assert [each["id"] for each in of_file["knowledge"]] == ["gateway_limits"]
        assert (await refused(cleo.client, "memory.why", file=PAGE, line=9))["error"] == "LINE_NOT_FOUND"
        outside = await refused(cleo.client, "memory.why", file="../memory")
        assert "outside the repository" in outside["message"]
    drawn = await asyncio.to_thread(CommandLine(base).run, "why", f"{PAGE}:2", "--repo", checkout.root)
    assert "read fact gateway_limits" in drawn.out
    async with connect(base, agent="dan", cwd=checkout.root) as client:
        assert "memory.why" not in {tool.name.replace("_", ".") for tool in (await client.list_tools()).tools}
