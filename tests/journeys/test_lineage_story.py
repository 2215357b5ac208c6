"""A server that hands lineage on by itself: killed and started again, with nobody at the other end, for all tenants."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tallystick.config import load
from tallystick.operations.doctor import Finding, examine
from tests.command_line import CommandLine
from tests.extensions.openlineage.test_openlineage import Endpoint, endpoint
from tests.journeys.test_team_story import AUDIENCE, Team, free_port, issuing
from tests.mcp_client import serving_http, start_http
from tests.promises import promise


@pytest.fixture
def base(tmp_path: Path) -> Path:
    made = tmp_path / "memory"
    made.mkdir()
    return made


def settle(base: Path, **settings: Any) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    base.joinpath("tallystick.toml").write_text("\n".join(lines))


async def write(address: str, *ids: str) -> None:
    async with httpx2.AsyncClient(base_url=address, timeout=None) as http:
        for id in ids:
            node = {"id": id, "type": "note", "attrs": {}}
            answer = await http.post("/v1/tools/memory.write", json={"op": "UPSERT_NODE", "node": node})
            assert answer.status_code == 200


async def expected(base: Path, to: Path) -> list[dict[str, Any]]:
    """What the command makes of the same log."""
    await asyncio.to_thread(CommandLine(base).run, "emit", "--to", to)
    return lines(to)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def doctor_on_lineage(base: Path) -> Finding:
    [finding] = [found for found in examine(load({"base": base})) if found.what == "lineage"]
    return finding


def once(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same to the letter counts once."""
    return list({json.dumps(event, sort_keys=True): event for event in events}.values())


def wait_for_all(there: Endpoint, wanted: list[dict[str, Any]]) -> None:
    with there.came:
        there.came.wait_for(lambda: len(once(there.bodies)) >= len(wanted))


@promise("TC-005-02, consumer", "a consumer that checks every event by the official schemas takes all that are sent")
@promise("FR-005, feed", "a server hands lineage on by itself; killed in between it loses no event")
async def test_a_server_that_is_killed_loses_no_event_and_none_changes(base: Path, tmp_path: Path) -> None:
    with endpoint() as there:
        settle(base, lineage_to=there.address)
        server = start_http(base)
        try:
            await write(server.url, *(f"n{number}" for number in range(60)))
            there.wait_for(1)
            await write(server.url, *(f"m{number}" for number in range(60)))
        finally:
            server.kill()
        with serving_http(base) as server:
            await write(server.url, "last")
            async with httpx2.AsyncClient(base_url=server.url, timeout=None) as http:
                gone = {"op": "DELETE_NODE", "node_id": "last"}
                assert (await http.post("/v1/tools/memory.write", json=gone)).status_code == 200
            wanted = await expected(base, tmp_path / "wanted.jsonl")
            wait_for_all(there, wanted)
        assert len(wanted) == 2 * 122
        assert once(there.bodies) == wanted
        told = {(event["run"]["runId"], event["eventType"], event["eventTime"]) for event in there.bodies}
        assert len(told) == len(wanted)


@promise("FR-005, feed, endpoint away", "nobody waits for an endpoint that is away, and doctor tells")
async def test_nobody_waits_for_an_endpoint_that_is_away_and_doctor_tells(base: Path, tmp_path: Path) -> None:
    with endpoint() as gone:
        port = int(gone.address.split(":")[2].split("/")[0])
    settle(base, lineage_to=gone.address)
    server = start_http(base)
    try:
        await write(server.url, "a", "b")
        server.wait_for("does not take events")
        told = doctor_on_lineage(base)
        assert told.status == "odd"
        assert told.found.startswith("position 0 of 2, to http://127.0.0.1")

        with endpoint(port=port) as back:
            wait_for_all(back, await expected(base, tmp_path / "wanted.jsonl"))
            server.wait_for("moves on again")
            told = doctor_on_lineage(base)
            assert (told.status, told.found[:15]) == ("good", "position 2 of 2")
    finally:
        server.kill()


async def test_every_tenants_lineage_is_in_the_file_under_its_own_name(base: Path, tmp_path: Path) -> None:
    feed = tmp_path / "lineage.jsonl"
    with issuing() as issuer:
        settle(base, issuers=[issuer], audience=[AUDIENCE], policy="rbac", lineage_to=str(feed))
        with serving_http(base, port=free_port()) as server:
            async with httpx2.AsyncClient(base_url=server.url, timeout=None) as http:
                team = Team(http, issuer)
                for tenant in ("acme", "globex"):
                    node = {"id": f"of-{tenant}", "type": "note", "attrs": {}}
                    status, _ = await team.call(f"ada/writer@{tenant}", "memory.write", op="UPSERT_NODE", node=node)
                    assert status == 200
    # A server that ends well has handed on what was committed.
    told = {
        (event["job"]["namespace"], event["outputs"][0]["facets"]["tallystick_entity"]["entity"]["id"])
        for event in lines(feed)
        if event["eventType"] == "COMPLETE"
    }
    assert told == {("tallystick/acme", "of-acme"), ("tallystick/globex", "of-globex")}
