"""Three machines with one stream are one memory: real servers of NATS and of ours, real clients, real kills."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from tests import timeouts
from tests.command_line import CommandLine, edge, node
from tests.files_with import files_with
from tests.journeys.work_client import Worker, worker
from tests.mcp_client import HELLO, INITIALIZED, ServerProcess, call, start_http, stopping
from tests.nats_cluster import Cluster, running
from tests.promises import promise
from tests.timeouts import wait_until

STREAM = "tally-0"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("nats"), nodes=3) as servers:
        yield servers


def environ(cluster: Cluster, stream: str = STREAM) -> dict[str, str]:
    monitors = ",".join(f"http://{node.host}:{node.monitor_port}" for node in cluster.nodes)
    return {
        "TALLYSTICK_LOG_URL": cluster.url,
        "TALLYSTICK_LOG_MONITOR": monitors,
        "TALLYSTICK_LOG_STREAM": stream,
        "TALLYSTICK_SNAPSHOT_EVERY": "0",
    }


def log_bytes(base: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((base / "_system" / "log").glob("*.jsonl")))


def write(number: int, writer: str) -> dict[str, Any]:
    return {**node(f"{writer}/{number}", number=number), "nonce": f"{writer} {number}"}


async def keep_writing(client: Client, writer: str, is_over: asyncio.Event) -> list[str]:
    """The ids that were acknowledged; what was not is tried again with the same nonce."""
    acknowledged: list[str] = []
    while not is_over.is_set():
        answer = await client.call_tool("memory.write", write(len(acknowledged), writer))
        if not answer.is_error:
            acknowledged.append(f"{writer}/{len(acknowledged)}")
    return acknowledged


@promise("§5.2, several machines", "three machines with one stream are one memory, and killed leaders lose nothing")
async def test_nothing_that_was_acknowledged_is_lost_when_leaders_are_killed_under_three_machines(
    cluster: Cluster, tmp_path: Path
) -> None:
    bases = [tmp_path / f"machine{number}" for number in range(3)]
    servers: list[ServerProcess] = []
    async with AsyncExitStack() as stack:
        for base in bases:
            servers.append(stack.enter_context(stopping(start_http(base, environ=environ(cluster)))))
        clients = [await stack.enter_async_context(Client(server.mcp_url)) for server in servers]
        is_over = asyncio.Event()
        writing = [
            asyncio.create_task(keep_writing(client, f"writer{number}", is_over))
            for number, client in enumerate(clients)
        ]
        for _ in range(2):
            await reach(clients[0], await position(clients[0]) + 100)
            leader = cluster.leader(STREAM)
            assert leader is not None
            leader.kill()
            await reach(clients[0], await position(clients[0]) + 100)
            leader.start()
            await asyncio.to_thread(cluster.wait_until_healthy)
        is_over.set()
        acknowledged = [entity for each in await asyncio.gather(*writing) for entity in each]
        assert len(acknowledged) >= 400
        for client in clients:
            found = [
                await call(client, "memory.read", entity_id=entity, consistency="latest")
                for entity in acknowledged[::37]
            ]
            assert all(each["entity"] is not None for each in found)
    copies = [log_bytes(base) for base in bases]
    assert copies[0] == copies[1] == copies[2]
    assert all(f'"{entity}"'.encode() in copies[0] for entity in acknowledged)
    for base in bases:
        assert CommandLine(base).run("verify", "--json").json["sound"] is True


async def position(client: Client) -> int:
    return int((await call(client, "memory.search", limit=1))["position"])


async def reach(client: Client, wanted: int) -> None:
    while await position(client) < wanted:
        pass


@promise("§5.2, claims", "a task is handed out once, whatever machine is asked")
async def test_each_task_goes_to_one_agent_whatever_machine_it_asks(cluster: Cluster, tmp_path: Path) -> None:
    given: dict[str, Any] = {**environ(cluster, "tally-work")}
    async with (
        worker(tmp_path / "one", "ann", **given) as ann,
        worker(tmp_path / "two", "bob", **given) as bob,
    ):
        await ann.call("open", project="p")
        tasks = sorted((await ann.plan(*({"ref": f"task {number}"} for number in range(20)))).values())
        await hear_of_plan(bob)
        shares = await asyncio.gather(claim_all(ann), claim_all(bob))
        assert sorted(shares[0] + shares[1]) == tasks


async def hear_of_plan(agent: Worker) -> None:
    """Another machine does, all of it at once, a moment later."""
    while True:
        answer = await agent.client.call_tool("graph_next", {"project": "p"})
        if not answer.is_error and (answer.structured_content or {})["nodes"]:
            return


async def claim_all(agent: Worker) -> list[str]:
    """Until there is nothing for it but what it has."""
    mine: list[str] = []
    while True:
        found = (await agent.call("next", project="p", claim=True))["nodes"]
        if not found or found[0]["node"]["id"] in mine:
            return mine
        mine += [each["node"]["id"] for each in found]


@promise("§5.2, contents", "a large content is on every machine, and leaves each when it is redacted")
async def test_a_large_content_is_read_on_every_machine_and_gone_from_each_when_it_is_redacted(
    cluster: Cluster, tmp_path: Path
) -> None:
    given = environ(cluster, "tally-contents") | {"TALLYSTICK_TOOLSETS": "memory,ontology"}
    bases = [tmp_path / name for name in ("one", "two")]
    text = "A long text, by ada-needle. " * 20_000
    async with AsyncExitStack() as stack:
        servers = [stack.enter_context(stopping(start_http(base, environ=given))) for base in bases]
        one, two = [await stack.enter_async_context(Client(server.mcp_url)) for server in servers]
        await call(one, "create_ontology", node_types=["Note"], connection_types=[])
        made = await call(one, "create_node", type="Note", content=text, format="markdown", properties={})
        await call(two, "memory.read", entity_id=made["node_id"], consistency="latest")
        read = await call(two, "get_node_content", node_id=made["node_id"])
        assert read["content"] == text
        for base in bases:
            assert len(list((base / "_content" / "blobs").iterdir())) == 1
        await call(one, "memory.write", op="REDACT_NODE", node_id=made["node_id"], reason="asked")
        await asyncio.to_thread(wait_until, lambda: not files_with(b"ada-needle", *bases))
    for base in bases:
        assert CommandLine(base).run("verify", "--json").json["sound"] is True


@promise("§5.2, sessions", "a session never reads behind what it wrote, whatever machine answers")
def test_a_session_reads_what_it_wrote_on_whatever_machine_it_is_served_next(cluster: Cluster, tmp_path: Path) -> None:
    given = environ(cluster, "tally-sessions")
    with (
        stopping(start_http(tmp_path / "one", environ=given)) as one,
        stopping(start_http(tmp_path / "two", environ=given)) as two,
    ):
        session = begin_session(one)
        for number in range(20):
            here, there = (one, two) if number % 2 else (two, one)
            assert "error" not in written(here, f"n{number}", session)
            assert answered(there, "memory.read", {"entity_id": f"n{number}"}, session)[0]["entity"] is not None
            # It refers to what the other machine was told a moment ago.
            told, _ = answered(there, "memory.write", edge(f"n{number}", "is", f"n{number}"), session)
            assert "error" not in told


@promise("§5.2, sessions at home", "a session that goes back to a machine which missed what it wrote is told so")
def test_a_session_that_goes_back_to_a_machine_which_hears_nothing_is_told_how_old_its_answers_are(
    cluster: Cluster, tmp_path: Path
) -> None:
    given = environ(cluster, "tally-returns")
    with stopping(start_http(tmp_path / "two", environ=given)) as two:
        written(two, "first", begin_session(two))
        leader = cluster.leader("tally-returns")
        assert leader is not None
        deaf = next(each for each in cluster.nodes if each is not leader)
        with (
            stopping(start_http(tmp_path / "home", environ=given | {"TALLYSTICK_LOG_URL": deaf.url})) as home,
            stopping(start_http(tmp_path / "away", environ=given | {"TALLYSTICK_LOG_URL": leader.url})) as away,
        ):
            session = begin_session(home)
            written(away, "second", session)
            assert answered(home, "memory.read", {"entity_id": "second"}, session)[0]["entity"] is not None
            deaf.pause()
            try:
                written(away, "third", session)
                found, behind = answered(home, "memory.read", {"entity_id": "third"}, session)
                assert found.get("entity") or behind >= 3
            finally:
                deaf.go_on()
            wait_until(lambda: answered(home, "memory.read", {"entity_id": "third"}, session)[1] == 0)
            assert answered(home, "memory.read", {"entity_id": "third"}, session)[0]["entity"] is not None


def test_a_session_of_another_machine_goes_on_reading_while_the_servers_are_away(tmp_path: Path) -> None:
    with running(tmp_path / "nats") as servers:
        given = environ(servers) | {"TALLYSTICK_LOG_REPLICAS": "1"}
        with (
            stopping(start_http(tmp_path / "one", environ=given)) as one,
            stopping(start_http(tmp_path / "two", environ=given)) as two,
        ):
            session = begin_session(one)
            written(one, "a", session)
            assert answered(two, "memory.read", {"entity_id": "a"}, session)[0]["entity"]["id"] == "a"
            servers.nodes[0].kill()
            found, behind = answered(two, "memory.read", {"entity_id": "a"}, session)
            assert found["entity"]["id"] == "a"
            assert behind >= 3
            servers.start()
            wait_until(lambda: answered(two, "memory.read", {"entity_id": "a"}, session)[1] == 0)
            assert "error" not in written(two, "b", session)


def begin_session(server: ServerProcess) -> str:
    session, _ = ask(server.mcp_url, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
    assert session is not None
    ask(server.mcp_url, json.loads(INITIALIZED), session)
    return session


def written(server: ServerProcess, name: str, session: str) -> dict[str, Any]:
    return answered(server, "memory.write", node(name), session)[0]


def answered(server: ServerProcess, tool: str, arguments: dict[str, Any], session: str) -> tuple[dict[str, Any], float]:
    """With how old it may be."""
    _, told = ask(server.mcp_url, tool_call(tool, arguments), session)
    return told["result"]["structuredContent"], told["result"].get("_meta", {}).get("behind_seconds", 0.0)


def tool_call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def ask(url: str, message: dict[str, Any], session: str | None = None) -> tuple[str | None, Any]:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    headers |= {"MCP-Protocol-Version": str(HELLO["protocolVersion"]), "Mcp-Session-Id": session} if session else {}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=timeouts.SECONDS) as answer:
        said = answer.read()
        return answer.headers["mcp-session-id"], json.loads(said) if said else None


@promise("§5.4, cut off", "a machine that is cut off reads on and says how old it is")
async def test_what_is_read_while_the_servers_are_away_says_how_old_it_may_be(tmp_path: Path) -> None:
    with running(tmp_path / "nats") as servers:
        given = environ(servers) | {"TALLYSTICK_LOG_REPLICAS": "1"}
        with stopping(start_http(tmp_path / "base", environ=given)) as server:
            async with Client(server.mcp_url) as client:
                await call(client, "memory.write", **node("a"))
                assert "behind_seconds" not in ((await read(client)).meta or {})
                servers.nodes[0].kill()
                while not (behind := ((await read(client)).meta or {}).get("behind_seconds")):
                    pass
                assert behind >= 3
                servers.start()
                while "behind_seconds" in ((await read(client)).meta or {}):
                    pass
                await call(client, "memory.write", **node("b"))


async def read(client: Client) -> Any:
    answer = await client.call_tool("memory.read", {"entity_id": "a"})
    assert not answer.is_error
    assert answer.structured_content["entity"]["id"] == "a"
    return answer
