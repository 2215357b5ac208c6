"""Writing safely through real servers: conditions, merging and several operations, in several processes and killed."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
from mcp.client import Client

from tallystick.log.proof import prove
from tests.files_with import files_with
from tests.mcp_client import TRANSPORTS, ServerProcess, call, connect, refused, serving_http, start_http
from tests.promises import promise

ROUNDS = 12
NOTE: dict[str, Any] = {"id": "n", "type": "note", "attrs": {"kept": 1e21}}


def patch(node_id: str = "n", /, **attrs: Any) -> dict[str, Any]:
    return {"op": "PATCH_NODE", "node": {"id": node_id, "attrs": attrs}}


def upsert(node_id: str) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": node_id, "type": "note", "attrs": {}}}


def link(source: str, target: str) -> dict[str, Any]:
    return {"op": "UPSERT_EDGE", "edge": {"from": source, "rel": "to", "to": target}}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_an_agent_changes_a_part_tells_what_it_saw_and_writes_several_at_once(
    transport: str, tmp_path: Path
) -> None:
    async with connect(tmp_path, transport=transport) as client:
        seen = await call(client, "memory.write", op="UPSERT_NODE", node=NOTE)
        newer = await call(client, "memory.write", **patch(title="t"), if_commit=seen["commit_id"][:12], nonce="1")
        said = await refused(client, "memory.write", **patch(title="u"), if_commit=seen["commit_id"][:12])
        assert (said["error"], said["current_commit_id"]) == ("CONFLICT", newer["commit_id"])
        again = await call(client, "memory.write", **patch(title="t"), if_commit=seen["commit_id"][:12], nonce="1")
        assert again == newer | {"duplicate": True}
        answer = await call(client, "memory.write", ops=[upsert("a"), upsert("b"), link("a", "b")])
        assert len(answer["results"]) == answer["batch"]["commits"] == 3
        said = await refused(client, "memory.write", ops=[upsert("c"), link("c", "d")])
        assert (said["error"], said["at"]) == ("ENTITY_NOT_FOUND", "ops[1]")
        said = await refused(client, "memory.write", ops=[upsert("c"), {"op": "UPSERT_NODE", "node": {"id": "d"}}])
        assert said["validation_errors"] == [
            "field 'ops[1].node.type' is required",
            "field 'ops[1].node.attrs' is required",
        ]
        dropped = await call(client, "memory.write", op="UPSERT_NODE", node=NOTE)
        assert dropped["dropped"] == ["attrs.title"]
        assert (await call(client, "memory.read", entity_id="c"))["entity"] is None
        assert (await call(client, "memory.read", entity_id="n"))["entity"]["attrs"] == NOTE["attrs"]
        secret = {"op": "UPSERT_NODE", "node": {"id": "p", "type": "person", "attrs": {"mail": "ada@secret.example"}}}
        await call(client, "memory.write", ops=[secret, link("p", "n")])
        redaction = {"op": "REDACT_NODE", "node_id": "p", "reason": "asked"}
        answer = await call(client, "memory.write", ops=[upsert("q"), redaction, link("q", "n")])
        assert [each.get("redacted_commits") for each in answer["results"]] == [None, 1, None]
    assert prove(tmp_path / "_system").sound
    assert files_with(b"ada@secret.example", tmp_path) == []


def posted(server: ServerProcess, arguments: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    asked = urllib.request.Request(
        f"{server.url}/v1/tools/memory.write",
        json.dumps(arguments).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def test_the_same_is_said_over_rest(tmp_path: Path) -> None:
    with serving_http(tmp_path) as server:
        _, seen = posted(server, {"op": "UPSERT_NODE", "node": NOTE})
        _, newer = posted(server, {**patch(title="t"), "if_commit": seen["commit_id"]})
        status, said = posted(server, {**patch(title="u"), "if_commit": seen["commit_id"]})
        assert (status, said["error"], said["current_commit_id"]) == (409, "CONFLICT", newer["commit_id"])
        status, said = posted(server, {"ops": [upsert("a"), link("a", "nowhere")]})
        assert (status, said["error"], said["at"]) == (404, "ENTITY_NOT_FOUND", "ops[1]")
        status, answer = posted(server, {"ops": [upsert("a"), link("a", "n")]})
        assert (status, len(answer["results"])) == (200, 2)


Servers = tuple[ServerProcess, ServerProcess]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Two processes on one base."""
    base = tmp_path_factory.mktemp("base")
    with serving_http(base) as one, serving_http(base) as other:
        yield one, other


@promise("L18, racers", "of two processes that saw the same commit one writes and one gets CONFLICT")
async def test_of_two_processes_that_saw_the_same_commit_one_writes_and_one_is_told_by_which(servers: Servers) -> None:
    async with Client(servers[0].mcp_url) as first, Client(servers[1].mcp_url) as second:
        seen = (await call(first, "memory.write", op="UPSERT_NODE", node=NOTE))["commit_id"]
        for number in range(ROUNDS):
            asked = patch(count=number) | {"if_commit": seen[:12]}
            answers = await asyncio.gather(
                *(client.call_tool("memory.write", asked) for client in (first, second)),
            )
            won, lost = sorted(answers, key=lambda answer: bool(answer.is_error))
            assert (won.is_error, lost.is_error) == (False, True)
            assert won.structured_content is not None
            assert lost.structured_content is not None
            seen = won.structured_content["commit_id"]
            assert lost.structured_content["error"] == "CONFLICT"
            assert lost.structured_content["current_commit_id"] == seen
        story = await call(first, "memory.lineage", entity_id="n")
        assert len(story["lineage"]) == ROUNDS + 1


@promise("L18, nothing lost", "what two processes merge into one entity is all there")
async def test_what_two_processes_merge_into_one_entity_is_all_there(servers: Servers) -> None:
    async with Client(servers[0].mcp_url) as first, Client(servers[1].mcp_url) as second:
        await call(first, "memory.write", op="UPSERT_NODE", node=NOTE | {"id": "m"})

        async def work(client: Client, name: str) -> None:
            for number in range(ROUNDS):
                removed = {f"{name}{number - 1}": None} if number % 3 == 1 else {}
                await call(client, "memory.write", **patch("m", **{f"{name}{number}": number}, **removed))

        await asyncio.gather(work(first, "a"), work(second, "b"), work(first, "c"), work(second, "d"))
        attrs = (await call(second, "memory.read", entity_id="m"))["entity"]["attrs"]
    kept = [number for number in range(ROUNDS) if number % 3 != 0]
    assert attrs == NOTE["attrs"] | {f"{name}{number}": number for name in "abcd" for number in kept}


@promise("L18, several, kill", "several operations survive a kill whole or not at all")
async def test_several_operations_survive_a_kill_whole_or_not_at_all(tmp_path: Path) -> None:
    """And sent again with their nonces they are there, once each."""
    server = start_http(tmp_path)
    acknowledged: set[int] = set()
    sent: set[int] = set()
    enough = asyncio.Event()

    def triple(number: int) -> dict[str, Any]:
        ops = [upsert(f"{number}a"), upsert(f"{number}b"), link(f"{number}a", f"{number}b")]
        return {"ops": ops, "nonce": f"{number}"}

    async def work(agent: int) -> None:
        try:
            async with Client(server.mcp_url) as client:
                for number in range(agent, 100_000, 4):
                    sent.add(number)
                    await call(client, "memory.write", **triple(number))
                    acknowledged.add(number)
                    if len(acknowledged) >= 60:
                        enough.set()
        except Exception:
            return  # The server is gone: whatever was not acknowledged may or may not be there.

    workers = [asyncio.create_task(work(agent)) for agent in range(4)]
    await enough.wait()
    server.kill()
    for worker in workers:
        worker.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    async with connect(tmp_path) as client:
        for number in sorted(sent):
            ids = (f"{number}a", f"{number}b", f"{number}a|to|{number}b")
            there = [(await call(client, "memory.read", entity_id=each))["entity"] is not None for each in ids]
            assert there in ([[True] * 3] if number in acknowledged else [[True] * 3, [False] * 3])
            again = await call(client, "memory.write", **triple(number))
            assert again["duplicate"] is there[0]
            assert len(again["results"]) == 3
            assert len((await call(client, "memory.lineage", entity_id=f"{number}a"))["lineage"]) == 1
    assert prove(tmp_path / "_system").sound
