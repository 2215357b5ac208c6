"""A write that was committed is answered as a success, however large its receipt would be (X27)."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tallystick.log.proof import prove
from tallystick.server.dispatch import BYTES_PER_TOKEN, TOKENS_MAX
from tests.mcp_client import TRANSPORTS, call, connect, refused, serving_http

MOST = 1_000
ROOM = TOKENS_MAX * BYTES_PER_TOKEN


def size(answer: dict[str, Any]) -> int:
    return len(json.dumps(answer, separators=(",", ":")))


def upserts(count: int, name: str = "n") -> list[dict[str, Any]]:
    return [
        {"op": "UPSERT_NODE", "node": {"id": f"{name}{number}", "type": "note", "attrs": {}}} for number in range(count)
    ]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_largest_memory_write_is_answered_with_short_ids(transport: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport) as client:
        answer = await call(client, "memory.write", ops=upserts(MOST), nonce="1")
        assert answer["batch"] == {"commits": MOST, "first_lamport": 1}
        assert [each["id"] for each in answer["results"]] == [f"n{number}" for number in range(MOST)]
        assert [each["lamport"] for each in answer["results"]] == list(range(1, MOST + 1))
        assert {len(each["commit_id"]) for each in [answer, *answer["results"]]} == {12}
        assert not {"content_hash", "prev"} & answer.keys()
        again = await call(client, "memory.write", ops=upserts(MOST), nonce="1")
        assert again == answer | {"duplicate": True}
        said = await refused(client, "memory.write", ops=upserts(5 * MOST, "m"))
        assert said["error"] == "INVALID_PARAMS"
        assert (await call(client, "memory.read", entity_id="m0"))["entity"] is None
        newer = await call(
            client, "memory.write", **upserts(1)[0], if_commit=answer["results"][0]["commit_id"], reason="seen"
        )
        assert (len(newer["commit_id"]), newer["lamport"]) == (64, MOST + 1)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_receipt_that_is_too_large_is_cut_with_a_note(transport: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport) as client:
        answer = await call(client, "memory.write", ops=upserts(MOST), receipt=True, nonce="1")
        shown = len(answer["results"])
        assert 0 < shown < MOST
        assert answer["omitted"] == {"results": MOST - shown}
        assert answer["batch"]["commits"] == MOST
        assert {len(each["commit_id"]) for each in [answer, *answer["results"]]} == {64}
        assert len(answer["content_hash"]) == len(answer["prev"]) == 64
        short = await call(client, "memory.write", ops=upserts(MOST), nonce="1")
        assert (short["duplicate"], short["commit_id"]) == (True, answer["commit_id"][:12])
        long = await call(client, "memory.write", ops=upserts(MOST, "x" * 200))
        assert size(long) < ROOM
        assert len(long["results"]) + long["omitted"]["results"] == MOST
    assert prove(tmp_path / "_system").sound


def test_a_program_gets_the_whole_receipt_with_full_hashes(tmp_path: Path) -> None:
    with serving_http(tmp_path) as server:
        asked = urllib.request.Request(
            f"{server.url}/v1/tools/memory.write",
            json.dumps({"ops": upserts(MOST, "x" * 200)}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(asked) as response:
            answer = json.load(response)
    assert len(answer["results"]) == MOST
    assert {len(each["commit_id"]) for each in [answer, *answer["results"]]} == {64}
    assert len(answer["content_hash"]) == 64


async def test_the_largest_batches_of_work_are_answered(tmp_path: Path) -> None:
    """Each with as long names as its arguments allow."""
    async with connect(tmp_path) as client:
        await call(client, "graph_open", project="p")
        nodes = [{"ref": f"{number:064d}", "summary": "s"} for number in range(MOST)]
        made = await call(client, "graph_plan", nodes=nodes)
        assert len(made["created"]) + made["omitted"]["created"] == MOST
        assert size(made) < ROOM
        ids = [each["id"] for each in (await _all_nodes(client)) if each["summary"] == "s"]
        assert len(ids) == MOST
        updates = [{"node_id": each, "resolved": True} for each in ids]
        told = await call(client, "graph_update", updates=updates)
        assert len(told["updated"]) + told.get("omitted", {}).get("updated", 0) == MOST
        edges = [{"from": ids[number], "to": ids[number + 1], "type": "near"} for number in range(MOST // 2)]
        assert (await call(client, "graph_connect", edges=edges))["applied"] == MOST // 2


async def _all_nodes(client: Any) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await call(client, "graph_query", project="p", limit=100, **cursor)
        nodes += page["nodes"]
        if "next_cursor" not in page:
            return nodes
        cursor = {"cursor": page["next_cursor"]}
