"""Prompts, resources, completions and subscriptions through the SDK's clients, over stdio and HTTP, in both eras."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated

from tests.mcp_client import (
    HELLO,
    TRANSPORTS,
    RawClient,
    call,
    connect,
    serving_http,
    start_server,
    stopping,
)  # fmt: skip
from tests.promises import promise

ERAS = ("legacy", "auto")
"""The handshake, and the era in which each request speaks for itself."""


async def fill(client: Client) -> None:
    for name, said in (("never retry refunds", "billing"), ("a/b c?#%ü", "odd")):
        node = {"id": name, "type": "note", "attrs": {"said": said}}
        await call(client, "memory.write", op="UPSERT_NODE", node=node, reason="told")
    root = (await call(client, "graph_open", project="Shop & Co", goal="sell"))["root"]["id"]
    known = {
        "projectId": "Shop & Co",
        "createdByTaskId": root,
        "knowledge": "refunds are final",
        "paths": ["src/billing/**", "docs/a,b.md"],
    }
    await call(client, "manage_graph", operation="create", entityType="atom", name="billing", **known)


def text_of(read: types.ReadResourceResult) -> dict[str, Any]:
    (content,) = read.contents
    assert isinstance(content, types.TextResourceContents)
    assert content.mime_type == "application/json"
    return json.loads(content.text)  # type: ignore[no-any-return]


@promise("prompts, resources, completions", "SDK clients list, get, read and complete over stdio and HTTP in both eras")
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_client_lists_reads_and_completes(transport: str, mode: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport, mode=mode) as client:
        await fill(client)
        pushes = mode == "auto" or transport == "stdio"
        assert client.server_capabilities == types.ServerCapabilities(
            tools=types.ToolsCapability(list_changed=False),
            prompts=types.PromptsCapability(list_changed=False),
            resources=types.ResourcesCapability(subscribe=pushes, list_changed=pushes),
            completions=types.CompletionsCapability(),
        )

        prompts = (await client.list_prompts()).prompts
        assert [each.name for each in prompts] == ["discover", "plan", "wrap-up"]
        plan = await client.get_prompt("plan", {"goal": "sell tea"})
        (message,) = plan.messages
        assert isinstance(message.content, types.TextContent)
        assert "Goal: sell tea" in message.content.text
        assert "`graph_plan`" in message.content.text
        with pytest.raises(MCPError, match=r"'arguments.goal' is required"):
            await client.get_prompt("plan", {"project": "Shop"})

        templates = (await client.list_resource_templates()).resource_templates
        assert [each.uri_template for each in templates] == [
            "tallystick://entity/{id}", "tallystick://work/{project}", "tallystick://knowledge/{path}",
        ]  # fmt: skip
        by_name = {each.name: each.uri for each in (await client.list_resources()).resources}
        assert by_name["Shop & Co"] == "tallystick://work/Shop%20%26%20Co"
        assert by_name["a/b c?#%ü"] == "tallystick://entity/a%2Fb%20c%3F%23%25%C3%BC"
        for name, uri in by_name.items():
            assert text_of(await client.read_resource(uri)), name

        odd = text_of(await client.read_resource(by_name["a/b c?#%ü"]))
        assert odd["entity"]["attrs"] == {"said": "odd"}
        work = text_of(await client.read_resource("tallystick://work/shop%20%26%20co"))
        assert [node["summary"] for node in work["nodes"]] == ["sell"]
        for path in ("src/billing/a.py", "src%2Fbilling%2Fa.py", "docs/a,b.md", "src/"):
            (project,) = text_of(await client.read_resource(f"tallystick://knowledge/{path}"))["projects"]
            assert [atom["knowledge"] for atom in project["orphanAtoms"]] == ["refunds are final"]
        assert text_of(await client.read_resource("tallystick://knowledge/lib/x.py"))["projects"] == []

        async def completed(ref: Any, name: str, value: str) -> list[str]:
            return (await client.complete(ref, {"name": name, "value": value})).completion.values

        entity, work_ref, path_ref = (types.ResourceTemplateReference(uri=each.uri_template) for each in templates)
        assert await completed(entity, "id", "never r") == ["never retry refunds"]
        assert {"a/b c?#%ü", "never retry refunds"} <= set(await completed(entity, "id", ""))
        assert await completed(work_ref, "project", "sh") == ["Shop & Co"]
        assert await completed(path_ref, "path", "") == ["docs/a,b.md", "src/billing/"]
        discover = types.PromptReference(name="discover")
        assert (await completed(discover, "type", "no"))[0] == "note"
        assert await completed(discover, "topic", "no") == []


HOSTILE = (
    "", "file:///etc/passwd", "tallystick://nothing/x", "TALLYSTICK://entity/x", "tallystick://work/absent",
    "tallystick://work/%20",
    *(f"tallystick://entity/{name}" for name in ("", "absent", "%", "%zz", "%ff", "a%00b", "x?y", "x#y", "\n")),
    *("tallystick://entity/" + "a" * length for length in (257, 20_000)),
)  # fmt: skip


@promise("resources, hostile", "hostile addresses name nothing")
@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_hostile_addresses_name_nothing(transport: str, mode: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport, mode=mode) as client:
        await fill(client)
        for uri in [*HOSTILE, *(["tallystick://entity/" + "a" * 1_000_000] if transport == "stdio" else [])]:
            with pytest.raises(MCPError, match="Resource not found") as refused:
                await client.read_resource(uri)
            assert refused.value.error.code == (-32602 if client.protocol_version >= "2026" else -32002)
        for cursor in ("x", "e.1", "p.-1.0", "e.9" * 50):
            with pytest.raises(MCPError, match="cursor"):
                await client.list_resources(cursor=cursor)
        assert text_of(await client.read_resource("tallystick://knowledge/%2E%2E/%2E%2E/etc/passwd"))["projects"] == []


@pytest.mark.parametrize("mode", ERAS)
async def test_what_was_redacted_stays_so_and_what_was_deleted_is_gone(mode: str, tmp_path: Path) -> None:
    async with connect(tmp_path, mode=mode) as client:
        await fill(client)
        await call(client, "memory.write", op="REDACT_NODE", node_id="never retry refunds", reason="asked to")
        read = await client.read_resource("tallystick://entity/never%20retry%20refunds")
        assert text_of(read)["entity"]["attrs"] == {"said": "[REDACTED]"}
        await call(client, "memory.write", op="DELETE_NODE", node_id="never retry refunds")
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("tallystick://entity/never%20retry%20refunds")
        found = await client.complete(
            types.ResourceTemplateReference(uri="tallystick://entity/{id}"), {"name": "id", "value": "never"}
        )
        assert found.completion.values == []


@asynccontextmanager
async def told(client: Client, *uris: str, lists: bool = False) -> AsyncIterator[asyncio.Queue[str]]:
    """What a client that listens is told, in the newer era."""
    heard: asyncio.Queue[str] = asyncio.Queue()

    async with client.listen(resource_subscriptions=list(uris), resources_list_changed=lists) as subscription:

        async def hear() -> None:
            async for event in subscription:
                if isinstance(event, ResourceUpdated):
                    heard.put_nowait(event.uri)
                elif isinstance(event, ResourcesListChanged):
                    heard.put_nowait("list")

        hearing = asyncio.create_task(hear())
        try:
            yield heard
        finally:
            hearing.cancel()


async def write(client: Client, name: str, **attrs: Any) -> None:
    await call(client, "memory.write", op="UPSERT_NODE", node={"id": name, "type": "note", "attrs": attrs})


@promise("resources, updated", "a change by another process is told, over stdio and HTTP")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_who_listens_is_told_of_changes_by_another_process(transport: str, tmp_path: Path) -> None:
    uris = ["tallystick://entity/a%20b", "tallystick://work/shop", "tallystick://knowledge/src/a.py"]
    async with connect(tmp_path) as other, connect(tmp_path, transport=transport) as client:
        await fill(other)
        async with told(client, *uris, "nonsense://x") as heard:
            await write(other, "elsewhere")
            await write(other, "a b", said=1)
            assert await heard.get() == uris[0]
            await write(client, "a b", said=2)
            assert await heard.get() == uris[0]
            edge = {"from": "elsewhere", "rel": "about", "to": "a b"}
            await call(other, "memory.write", op="UPSERT_EDGE", edge=edge)
            assert await heard.get() == uris[0]
            root = (await call(other, "graph_open", project="shop", goal="sell"))["root"]["id"]
            assert await heard.get() == uris[1]
            known = {"projectId": "shop", "createdByTaskId": root, "knowledge": "x", "paths": ["src/**"]}
            await call(other, "manage_graph", operation="create", entityType="atom", name="n", **known)
            assert await heard.get() == uris[2]
            await call(other, "memory.write", op="REDACT_NODE", node_id="a b", reason="asked to")
            assert await heard.get() == uris[0]
            assert heard.empty()


@promise("resources, list changed", "who listens to the list is told when it is another")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_who_listens_to_the_list_is_told_when_it_is_another(transport: str, tmp_path: Path) -> None:
    async with connect(tmp_path) as other, connect(tmp_path, transport=transport) as client:
        await call(other, "graph_open", project="shop", goal="sell")
        async with told(client, "tallystick://entity/a", lists=True) as heard:
            await write(other, "a")
            assert {await heard.get(), await heard.get()} == {"tallystick://entity/a", "list"}
            await write(other, "a", said="the list is the same")
            assert await heard.get() == "tallystick://entity/a"
            await call(other, "memory.write", op="DELETE_NODE", node_id="a")
            assert {await heard.get(), await heard.get()} == {"tallystick://entity/a", "list"}
            assert heard.empty()


async def subscribe(client: Client, uri: str) -> None:
    # The SDK warns of its own method, since only the older era has it.
    request = types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri))
    await client.session.send_request(request, types.EmptyResult)


@promise("resources, handshake", "in the handshake era a client on stdio subscribes and is told")
async def test_in_the_handshake_era_a_client_on_stdio_subscribes_and_is_told(tmp_path: Path) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.put_nowait(message.params.uri)
        elif isinstance(message, types.ResourceListChangedNotification):
            heard.put_nowait("list")

    async with connect(tmp_path) as other, connect(tmp_path, mode="legacy", message_handler=hear) as client:
        for name in "abc":
            await write(other, name)
        for uri in ("tallystick://entity/a", "tallystick://work/mill"):
            await subscribe(client, uri)
        await write(other, "a", said=1)
        assert await heard.get() == "tallystick://entity/a"
        await call(other, "graph_open", project="mill", goal="grind")
        assert {await heard.get(), await heard.get()} == {"tallystick://work/mill", "list"}
        await client.session.send_request(
            types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri="tallystick://entity/a")),
            types.EmptyResult,
        )
        await write(other, "a", said="again")
        await subscribe(client, "tallystick://entity/b")
        await write(other, "b", said=1)
        assert await heard.get() == "tallystick://entity/b"
        with pytest.raises(MCPError, match="Resource not found"):
            await subscribe(client, "file:///etc/passwd")


@promise("resources, truthful", "where there is no stream none is promised")
async def test_in_the_handshake_era_over_http_there_is_no_stream_and_nothing_is_promised(tmp_path: Path) -> None:
    async with connect(tmp_path, mode="legacy", transport="http") as client:
        assert client.server_capabilities.resources == types.ResourcesCapability(subscribe=False, list_changed=False)
        with pytest.raises(MCPError, match="Method not found"):
            await subscribe(client, "tallystick://entity/a")


@promise("resources, killed writer", "a change by a process that was killed is told")
async def test_a_writer_that_is_killed_and_one_that_comes_after_it_are_both_heard(tmp_path: Path) -> None:
    uri = "tallystick://entity/a"
    async with connect(tmp_path) as client, told(client, uri) as heard:
        doomed = start_server(tmp_path)
        raw = RawClient(doomed)
        raw.ask("initialize", HELLO)
        raw.call("memory.write", op="UPSERT_NODE", node={"id": "a", "type": "note", "attrs": {}})
        doomed.kill()
        assert await heard.get() == uri
        async with connect(tmp_path) as writer:
            await write(writer, "a", said=3)
            assert await heard.get() == uri
        assert heard.empty()


async def test_a_listener_that_is_killed_leaves_the_others_and_its_server_alone(tmp_path: Path) -> None:
    with serving_http(tmp_path) as server:
        listener = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _LISTENER, server.mcp_url, stdout=asyncio.subprocess.PIPE
        )
        assert listener.stdout is not None
        await listener.stdout.readline()
        listener.kill()
        await listener.wait()
        async with Client(server.mcp_url) as client, told(client, "tallystick://entity/a") as heard:
            await write(client, "a")
            assert await heard.get() == "tallystick://entity/a"


_LISTENER = """
import asyncio, sys
from mcp.client import Client
async def main():
    async with Client(sys.argv[1]) as client, client.listen(resource_subscriptions=["tallystick://entity/a"]):
        print("listening", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@promise("resources, bounded", "nobody subscribes to more than is allowed")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_nobody_subscribes_to_more_than_is_allowed(transport: str, tmp_path: Path) -> None:
    async with connect(tmp_path, transport=transport) as client:
        many = [f"tallystick://entity/{number}" for number in range(100_000)]
        with pytest.raises(MCPError, match="at most 1000"):
            async with client.listen(resource_subscriptions=many):
                pass
        works = [f"tallystick://work/{number}" for number in range(51)]
        with pytest.raises(MCPError, match="at most 50"):
            async with client.listen(resource_subscriptions=works):
                pass
        async with AsyncExitStack() as left_open:
            for _ in range(32):
                await left_open.enter_async_context(client.listen(resource_subscriptions=many[:10]))
            with pytest.raises(MCPError, match="too many streams"):
                await left_open.enter_async_context(client.listen(resource_subscriptions=many[:10]))
        async with told(client, *many[:1_000]) as heard:
            await write(client, "999")
            assert await heard.get() == many[999]


def test_in_the_handshake_era_subscriptions_past_the_limit_are_refused_and_the_others_hold(tmp_path: Path) -> None:
    with stopping(start_server(tmp_path)) as server:
        client = RawClient(server)
        client.ask("initialize", HELLO)
        asked = [client.request("resources/subscribe", {"uri": f"tallystick://entity/{n}"}) for n in range(1_500)]
        ids = [id for id, _ in asked]
        threading.Thread(target=client.send, args=(b"".join(data + b"\n" for _, data in asked),)).start()
        answers = client.receive(*ids)
        assert sum("error" in answer for answer in answers.values()) == 500
        client.call("memory.write", op="UPSERT_NODE", node={"id": "999", "type": "note", "attrs": {}})
        assert client.hear() == {
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {"uri": "tallystick://entity/999"},
        }
