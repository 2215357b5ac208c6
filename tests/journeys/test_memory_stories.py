"""Whole stories told through a real MCP client, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.files_with import files_with
from tests.mcp_client import TRANSPORTS, call, connect, refused, serving_http
from tests.promises import promise

over_each_transport = pytest.mark.parametrize("transport", TRANSPORTS)

PLAN: dict[str, Any] = {
    "id": "task_001",
    "type": "research_plan",
    "attrs": {"topic": "quantum computing trends", "subtasks": ["search_papers", "draft_report"]},
}


@promise("scenario 1, for real", "a plan outlives the process that wrote it and is explained to another agent")
@over_each_transport
async def test_a_plan_is_remembered_recalled_explained_and_survives_a_restart(transport: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport, agent="planner_agent") as planner:
        tools = {tool.name for tool in (await planner.list_tools()).tools}
        assert {"memory_write", "memory_read", "memory_search", "memory_lineage"} <= tools
        written = await call(planner, "memory.write", op="UPSERT_NODE", node=PLAN, nonce="abc123")
        again = await call(planner, "memory.write", op="UPSERT_NODE", node=PLAN, nonce="abc123")
        assert again == written | {"duplicate": True}

    async with connect(tmp_path, transport=transport, agent="searcher_agent") as searcher:
        found = await call(searcher, "memory.read", filters={"type": "research_plan", "id": "task_001"})
        assert found["entity"]["attrs"] == PLAN["attrs"]
        assert found["provenance"]["commit_id"] == written["commit_id"]
        assert found["provenance"]["created_by"] == "planner_agent"
        done = PLAN | {"attrs": PLAN["attrs"] | {"done": True}}
        await call(searcher, "memory_write", op="UPSERT_NODE", node=done, reason="papers found")
        story = await call(searcher, "memory.lineage", entity_id="task_001")
        assert [(step["actor"], step["operation"]) for step in story["lineage"]] == [
            ("planner_agent", "CREATE_NODE"),
            ("searcher_agent", "UPDATE_NODE"),
        ]
        assert story["lineage"][1]["changes"] == {"attrs.done": True}


@promise("TC-001-02, for real", "a client is told -32602 and the field, and the server goes on")
@over_each_transport
async def test_a_mistaken_call_is_told_every_fault_and_the_server_goes_on(transport: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport) as client:
        said = await refused(client, "memory.write", op="UPSERT_NODE")
        assert said == {
            "error": "INVALID_PARAMS",
            "code": -32602,
            "message": "Invalid params: field 'node' is required",
            "validation_errors": ["field 'node' is required"],
        }
        nowhere = {"from": "a", "rel": "knows", "to": "b"}
        said = await refused(client, "memory.write", op="UPSERT_EDGE", edge=nowhere)
        assert (said["error"], said["missing"]) == ("ENTITY_NOT_FOUND", ["a", "b"])
        large = PLAN | {"attrs": {"text": "x" * 2_000_000}}
        said = await refused(client, "memory.write", op="UPSERT_NODE", node=large)
        assert said["error"] == "PAYLOAD_TOO_LARGE"
        assert (await call(client, "memory.write", op="UPSERT_NODE", node=PLAN))["lamport"] == 1


@promise("scenario 4, for real", "a walk through a real client finds the paths of the acceptance criterion")
@over_each_transport
async def test_coauthors_are_found_by_walking_two_edges(transport: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport) as client:
        for name in ("user_001", "user_002", "user_003", "doc_A", "doc_B"):
            kind = name.partition("_")[0]
            await call(client, "memory.write", op="UPSERT_NODE", node={"id": name, "type": kind, "attrs": {}})
        for source, target in (
            ("user_001", "doc_A"),
            ("user_001", "doc_B"),
            ("doc_A", "user_002"),
            ("doc_A", "user_003"),
        ):
            edge = {"from": source, "rel": "authored", "to": target}
            await call(client, "memory.write", op="UPSERT_EDGE", edge=edge)
        walk = {"hops": 2, "edge_types": ["authored"]}
        found = await call(client, "memory.search", entity_id="user_001", traversal=walk)
        assert [path["path"] for path in found["paths"]] == [
            ["user_001", "doc_A", "user_002"],
            ["user_001", "doc_A", "user_003"],
        ]


@promise("6.1, erasure for real", "what is redacted is in no answer and in no file")
@over_each_transport
async def test_what_is_redacted_is_gone_from_answers_history_and_disk(transport: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport) as client:
        for email in ("alice@old.example", "alice@new.example"):
            node = {"id": "entity_456", "type": "user_profile", "attrs": {"email": email, "name": "Alice"}}
            await call(client, "memory.write", op="UPSERT_NODE", node=node)
        erased = await call(
            client,
            "memory.write",
            op="REDACT_NODE",
            node_id="entity_456",
            reason="GDPR_RIGHT_TO_ERASURE",
            redacted_fields=["attrs.email"],
        )
        assert erased["redacted_commits"] == 2
        seen = await call(client, "memory.read", entity_id="entity_456")
        assert seen["entity"]["attrs"] == {"email": "[REDACTED]", "name": "Alice"}
        story = await call(client, "memory.lineage", entity_id="entity_456", depth="full")
        assert ".example" not in str(story)
        assert [step["operation"] for step in story["lineage"]][-1] == "REDACT_NODE"
    assert files_with(b".example", tmp_path) == []


@promise("M23", "agents in five processes share one memory")
async def test_agents_in_five_processes_share_one_memory(tmp_path: Path) -> None:
    async def work(number: int) -> None:
        async with connect(tmp_path, agent=f"agent_{number}") as client:
            for step in range(10):
                node = {"id": f"n_{number}_{step}", "type": "note", "attrs": {"by": number}}
                await call(client, "memory.write", op="UPSERT_NODE", node=node)

    await asyncio.gather(*(work(number) for number in range(5)))
    async with connect(tmp_path) as client:
        found = await call(client, "memory.search", type="note", limit=1, fields=["type"])
        assert found["pagination"]["total"] == 50
        assert found["position"] == 50


@promise("L62", "a reader in another process sees what was acknowledged")
async def test_a_reader_asks_for_what_is_new_and_is_told_when_nothing_is(tmp_path: Path) -> None:
    async with connect(tmp_path) as writer, connect(tmp_path, transport="http") as reader:
        written = await call(writer, "memory.write", op="UPSERT_NODE", node=PLAN)
        first = await call(reader, "memory.read", entity_id="task_001", min_lamport=written["lamport"])
        again = await call(reader, "memory.read", entity_id="task_001", if_position=first["position"])
        assert again == {"unchanged": True, "position": first["position"]}
        await call(writer, "memory.write", op="DELETE_NODE", node_id="task_001")
        gone = await call(reader, "memory.read", entity_id="task_001", if_position=first["position"])
        assert gone["entity"] is None
        back_then = await call(reader, "memory.read", entity_id="task_001", as_of=written["commit_id"])
        assert back_then["entity"]["attrs"] == PLAN["attrs"]


def test_a_served_base_ends_well_when_asked_to(tmp_path: Path) -> None:
    with serving_http(tmp_path) as server:
        assert server.url.startswith("http://127.0.0.1:")
