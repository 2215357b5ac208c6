"""The official SDK's client, through every door and in both eras."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import jsonschema
import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, Implementation, TextContent, Tool

from tallystick.server.dispatch import choose
from tallystick.server.mcp import mcp_server
from tests.server.sample import SECRET, TOOLSETS, offer
from tests.server.serving import ROOT, serving

pytestmark = pytest.mark.anyio

COMMAND = StdioServerParameters(command=sys.executable, args=["-m", "tests.server.runner", "stdio"], cwd=ROOT)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as url:
        yield url


DOORS: dict[str, Callable[[str], Client]] = {
    "stdio, with a handshake": lambda url: Client(COMMAND, mode="legacy"),
    "stdio, each request for itself": lambda url: Client(COMMAND, mode="2026-07-28"),
    "HTTP, with a handshake": lambda url: Client(f"{url}/mcp", mode="legacy"),
    "HTTP, each request for itself": lambda url: Client(f"{url}/mcp", mode="2026-07-28"),
    "HTTP, as it comes": lambda url: Client(f"{url}/mcp"),
    "SSE": lambda url: Client(sse_client(f"{url}/sse"), mode="legacy"),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
async def test_every_door_lists_calls_refuses_and_keeps_its_secrets(
    door: Callable[[str], Client], address: str
) -> None:
    async with door(address) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {entry.underscored for entry in choose(TOOLSETS)}, "the SDK's own name is one without dots"

        answer = await client.call_tool("sample_echo", {"text": "hé"})
        assert (answer.structured_content, answer.is_error) == ({"said": "hé"}, False)
        assert texts(answer) == ['{"said":"hé"}']

        refused = await client.call_tool("sample.fail", {"kind": "NotFound"})
        assert refused.is_error
        assert refused.structured_content == {"error": "ENTITY_NOT_FOUND", "message": "NotFound on purpose"}

        faulty = await client.call_tool("plain_echo", {"text": 1})
        assert faulty.is_error
        assert faulty.structured_content["error"]["code"] == "INVALID_ARGUMENT"

        invalid = await client.call_tool("sample.echo", {})
        assert invalid.is_error
        assert texts(invalid) == ["Invalid params: field 'text' is required"]

        with pytest.raises(MCPError) as unknown:
            await client.call_tool("sample.nothing", {})
        assert unknown.value.code == -32602
        assert "sample.echo" in unknown.value.data["tools"]

        with pytest.raises(MCPError) as bug:
            await client.call_tool("sample.crash", {})
        assert (bug.value.code, set(bug.value.data)) == (-32603, {"error_id"})
        assert SECRET not in str(bug.value.error)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
async def test_calls_do_not_wait_for_each_other(door: Callable[[str], Client], address: str) -> None:
    async with door(address) as client:
        name = f"door {id(client)}"
        waiting = [asyncio.ensure_future(client.call_tool("sample.wait", {"name": name})) for _ in range(5)]
        assert (await client.call_tool("sample.echo", {"text": "first"})).structured_content == {"said": "first"}
        assert not any(task.done() for task in waiting)
        await client.call_tool("sample.release", {"name": name})
        assert [answer.structured_content for answer in await asyncio.gather(*waiting)] == [{"said": name}] * 5


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
async def test_large_contents_pass_both_ways(door: Callable[[str], Client], address: str) -> None:
    """As large as the SDK's own client takes over SSE: an event of one megabyte, which holds the text twice."""
    text = "wörter " * 60_000
    async with door(address) as client:
        answer = await client.call_tool("sample.blob", {"text": text})
    assert answer.structured_content == {"said": text}


async def test_the_door_tells_who_asks(address: str) -> None:
    async with Client(COMMAND) as client:
        assert (await client.call_tool("sample.whoami", {})).structured_content == {"said": "local in default"}
    async with Client(f"{address}/mcp") as client:
        assert (await client.call_tool("sample.whoami", {})).structured_content == {"said": "remote in default"}


async def test_a_sessions_clients_see_instructions_and_the_version(address: str) -> None:
    async with Client(f"{address}/mcp") as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("tallystick", "1.2.3")
        assert client.instructions is not None
        assert "sample: small tools that do one thing" in client.instructions
        assert len(client.instructions.splitlines()) <= 12


@asynccontextmanager
async def connected(client_name: str = "someone", *, mode: Any = "legacy", **settings: Any) -> AsyncIterator[Client]:
    server: Server[Any] = mcp_server(offer(**settings))
    info = Implementation(name=client_name, version="1")
    async with Client(server, client_info=info, mode=mode) as client:
        yield client


NAMES: list[tuple[str, str, str]] = [
    ("claude-code", "auto", "sample.echo"),
    ("mcp-inspector", "auto", "sample.echo"),
    ("mcp-client", "auto", "sample.echo"),
    ("claude-ai", "auto", "sample_echo"),
    ("mcp", "auto", "sample_echo"),
    ("MCP", "auto", "sample_echo"),
    ("ai-sdk-mcp-client", "auto", "sample_echo"),
    ("langchain-mcp-adapter", "auto", "sample_echo"),
    ("mcp", "dotted", "sample.echo"),
    ("cursor-vscode", "auto", "sample_echo"),
    ("Visual Studio Code", "auto", "sample_echo"),
    ("Visual Studio Code - Insiders", "auto", "sample_echo"),
    ("codex-mcp-client", "auto", "sample_echo"),
    ("openai-mcp", "auto", "sample_echo"),
    ("github-copilot-developer", "auto", "sample_echo"),
    ("cursor-vscode", "dotted", "sample.echo"),
    ("claude-code", "underscore", "sample_echo"),
]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize(("client_name", "tool_names", "expected"), NAMES)
async def test_names_are_listed_as_the_client_can_bear_them(
    client_name: str, tool_names: str, expected: str, mode: str
) -> None:
    async with connected(client_name, mode=mode, tool_names=tool_names) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed[0] == expected
        if expected == "sample_echo":
            assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in listed)
        for name in ("sample.echo", "sample_echo"):
            assert not (await client.call_tool(name, {"text": "x"})).is_error


async def test_a_tool_is_shown_with_all_that_is_known_of_it() -> None:
    async with connected() as client:
        [echo, _, write, *_] = (await client.list_tools()).tools
    assert (echo.title, echo.description) == ("Sample.Echo", "Use it to sample.echo.")
    # What is left out is what the protocol assumes: destructive, not idempotent; neither matters for what only reads.
    assert hints(echo) == (True, None, None, False)
    assert hints(write) == (None, None, None, False)
    assert echo.input_schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "times": {"type": "integer", "minimum": 1, "maximum": 100_000, "default": 1},
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    assert "title" in write.input_schema["properties"]["node"]["anyOf"][0]["properties"]


async def test_schemas_are_schemas_and_accept_what_the_tools_do() -> None:
    async with connected() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    for tool in tools.values():
        assert tool.output_schema is not None
        for schema in (tool.input_schema, tool.output_schema):
            assert schema["type"] == "object"
            jsonschema.Draft202012Validator.check_schema(schema)
    accepts = jsonschema.Draft202012Validator(tools["sample.write"].input_schema).is_valid
    assert accepts({"op": "UPSERT", "node": {"id": "a", "title": "b"}, "where": {"age": {"gt": 1}}})
    assert not accepts({"op": "UPSERT", "node": {"title": "b"}})


async def test_output_schemas_admit_errors_and_nothing_else() -> None:
    """TypeScript clients check structured content against the schema even beside isError."""
    async with connected(validation_errors="result") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        for name, arguments in (
            ("sample.echo", {"text": "a"}),
            ("sample.echo", {}),
            ("sample.echo", {"text": "x" * 76, "times": 1000}),
            ("sample.fail", {"kind": "Denied"}),
            ("plain_echo", {"text": 5}),
        ):
            answer = await client.call_tool(name, arguments)
            jsonschema.validate(answer.structured_content, tools[name].output_schema or {})
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"neither": "answer nor error"}, tools["sample.echo"].output_schema or {})


@pytest.mark.parametrize("tool", ["sample.echo", "plain_echo"])
async def test_where_argument_faults_are_answered_can_be_set(tool: str) -> None:
    async with connected(validation_errors="result") as client:
        assert (await client.call_tool(tool, {})).is_error
    async with connected(validation_errors="rpc") as client:
        with pytest.raises(MCPError) as caught:
            await client.call_tool(tool, {})
        assert caught.value.message == "Invalid params: field 'text' is required"
        assert caught.value.data == {"validation_errors": ["field 'text' is required"]}


async def test_a_tool_that_is_off_is_neither_listed_nor_called() -> None:
    async with connected(tools=choose(TOOLSETS, read_only=True)) as client:
        assert "sample.write" not in {tool.name for tool in (await client.list_tools()).tools}
        with pytest.raises(MCPError, match=r"'sample\.write' of toolset 'sample' is not on"):
            await client.call_tool("sample.write", {"op": "DELETE"})


async def test_instructions_name_the_toolsets_that_are_off() -> None:
    async with connected(tools=choose(TOOLSETS, names=["sample"])) as client:
        assert client.instructions is not None
        assert "Off until the server is started with --toolsets NAMES or all: plain (one tool" in client.instructions
    async with connected(instructions="do as you like") as client:
        assert client.instructions == "do as you like"


def texts(answer: CallToolResult) -> list[str]:
    return [block.text for block in answer.content if isinstance(block, TextContent)]


def hints(tool: Tool) -> tuple[bool | None, ...]:
    given = tool.annotations
    assert given is not None
    return given.read_only_hint, given.destructive_hint, given.idempotent_hint, given.open_world_hint
