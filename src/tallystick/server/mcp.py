"""MCP: the tools as an MCP server, over stdio, streamable HTTP and the older SSE.

The only file that knows the SDK. Both eras of the protocol are the SDK's: the handshake, and
the one where each request says who it is. What is ours: strict messages (`wire`), names by
client, and errors that tell the caller what to mend and an outsider nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import lru_cache
from typing import Any

import anyio
import mcp_types as types
import msgspec
import orjson
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from tallystick.errors import NotFound
from tallystick.server import Offer
from tallystick.server.dispatch import Broken, Done, Entry, Outcome, Refused, broken, call
from tallystick.server.faults import sentences
from tallystick.server.instructions import write_instructions
from tallystick.server.names import listed_name
from tallystick.server.oauth import SCOPE_KEY, Identity
from tallystick.server.schemas import input_schema, output_schema
from tallystick.server.stdio import Inlet, Outlet, claimed_stdio
from tallystick.server.wire import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Lines,
    Overlong,
    WireFault,
    parse_message,
)

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]

LIST_FRESH_MILLISECONDS = 300_000
DRAIN_SECONDS = 5.0


def mcp_server(offer: Offer) -> Server[Any]:
    schemas = {entry.underscored: input_schema(entry.tool) for entry in offer.tools}
    listed = [(entry, _listing(entry, schemas[entry.underscored])) for entry in offer.tools]

    async def on_list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise _invalid_params(["field 'cursor' is not allowed: the list has one page"])
        client = _client_name(context)
        tools = [_named(listing, listed_name(entry, offer.tool_names, client)) for entry, listing in listed]
        return types.ListToolsResult(tools=tools)

    async def on_call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        entry = _entry(offer, params.name)
        writes = not entry.tool.reads_only
        outcome = await call(
            entry, params.arguments or {}, offer.store, lambda: offer.caller(context.request, writes=writes)
        )
        return _result(offer, entry, outcome)

    server: Server[Any] = Server(
        offer.name,
        version=offer.version,
        title="Tallystick",
        instructions=offer.instructions or write_instructions(offer.tools, offer.tool_names),
        cache_hints={"tools/list": CacheHint(ttl_ms=LIST_FRESH_MILLISECONDS, scope="private")},
        get_tool_input_schema=lambda name: schemas.get(name.replace(".", "_")),
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )
    server.middleware.append(_PlainErrors())
    return server


async def serve_stdio(offer: Offer, *, drain_seconds: float = DRAIN_SECONDS) -> None:
    """Serve this process's stdin and stdout until stdin ends, the client is gone, or SIGINT or SIGTERM.

    What was asked before the end is still answered, for at most `drain_seconds`.
    """
    server = mcp_server(offer)
    with claimed_stdio() as (source, sink):
        inlet, outlet = Inlet(source), Outlet(sink)
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
        asked = _Asked()

        async def read() -> None:
            async with to_server:
                async for message in _messages(inlet, outlet, limit=offer.body_bytes_max):
                    asked.see_request(message)
                    await to_server.send(SessionMessage(message))
                with anyio.move_on_after(drain_seconds):
                    await asked.all_answered()

        async def write() -> None:
            async with from_server:
                async for message in from_server:
                    await _deliver(outlet, message.message)
                    asked.see_reply(message.message)

        async def serve() -> None:
            await server.run(from_client, to_client, server.create_initialization_options())

        with suppress(_ClientGone), _stopping(inlet.stop):
            await _together(read, write, serve)


class HttpDoors(msgspec.Struct, frozen=True):
    """ASGI applications, served while `run()` is entered. None of them checks Host or Origin: `guards` does."""

    run: Callable[[], AbstractAsyncContextManager[None]]
    streamable: ASGIApp
    sse: ASGIApp
    messages: ASGIApp


def http_doors(offer: Offer, *, messages_path: str) -> HttpDoors:
    server = mcp_server(offer)
    manager = StreamableHTTPSessionManager(server, json_response=True, max_request_body_size=offer.body_bytes_max)
    transport = SseServerTransport(messages_path, max_request_body_size=offer.body_bytes_max)

    async def sse(scope: Scope, receive: Receive, send: Send) -> None:
        async with transport.connect_sse(scope, receive, send) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    return HttpDoors(manager.run, _owned(manager.handle_request), _owned(sse), _owned(transport.handle_post_message))


def _owned(app: ASGIApp) -> ASGIApp:
    """Tell the SDK who calls: a session is then served to whoever began it, and to others does not exist."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        identity: Identity | None = scope.get(SCOPE_KEY)
        if identity is not None:
            principal = identity.principal
            scope["user"] = _owner(identity.issuer, identity.client, principal.tenant, principal.actor)
        await app(scope, receive, send)

    return serve


@lru_cache(maxsize=10_000)
def _owner(issuer: str, client: str, tenant: str, actor: str) -> AuthenticatedUser:
    # The tenant too: the same person, logged in to another one, is another principal.
    subject = f"{tenant}/{actor}"
    return AuthenticatedUser(
        AccessToken(token="", client_id=client, scopes=[], subject=subject, claims={"iss": issuer})
    )


def _listing(entry: Entry, schema: dict[str, Any]) -> types.Tool:
    tool = entry.tool
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema,
        output_schema=output_schema(entry),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.reads_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent or tool.reads_only,
            open_world_hint=False,
        ),
    )


def _named(listing: types.Tool, name: str) -> types.Tool:
    return listing.model_copy(update={"name": name})


def _client_name(context: Context) -> str | None:
    client = context.session.client_params
    return client.client_info.name if client is not None else None


def _entry(offer: Offer, name: str) -> Entry:
    try:
        return offer.tools.get(name)
    except NotFound as error:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {error.message}", error.details) from None


def _result(offer: Offer, entry: Entry, outcome: Outcome) -> types.CallToolResult:
    match outcome:
        case Done(data, text):
            return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=data)
        case Refused() if outcome.problems and _faults_as_rpc(offer, entry):
            raise _invalid_params(outcome.problems)
        case Refused(_, shape):
            content = types.TextContent(text=orjson.dumps(shape).decode())
            return types.CallToolResult(content=[content], structured_content=shape, is_error=True)
        case Broken(error_id):
            raise MCPError(INTERNAL_ERROR, "Internal error", {"error_id": error_id})


def _faults_as_rpc(offer: Offer, entry: Entry) -> bool:
    where = entry.toolset.faults if offer.validation_errors == "auto" else offer.validation_errors
    return where == "rpc"


def _invalid_params(problems: list[str]) -> MCPError:
    return MCPError(INVALID_PARAMS, "Invalid params", {"validation_errors": problems})


class _PlainErrors:
    """The SDK puts an unexpected exception's text on the wire, and says nothing of what is wrong with params."""

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        try:
            _check_introduced(ctx)
            return await call_next(ctx)
        except MCPError:
            raise
        except ValidationError as error:
            raise _invalid_params(sentences(error, ctx.params)) from None
        except Exception:
            raise MCPError(INTERNAL_ERROR, "Internal error", {"error_id": broken(ctx.method).error_id}) from None


def _check_introduced(context: Context) -> None:
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    if context.method.startswith("tools/") and not is_modern and context.session.client_params is None:
        raise MCPError(INVALID_REQUEST, "Invalid Request: send 'initialize' first")


async def _messages(inlet: Inlet, outlet: Outlet, *, limit: int) -> AsyncIterator[types.JSONRPCMessage]:
    """The good messages; the bad ones are answered here and now."""
    lines = Lines(limit)
    async for chunk in inlet:
        for message in _understood(lines.feed(chunk), outlet):
            yield message
    for message in _understood(lines.close(), outlet):
        yield message


def _understood(lines: list[bytes | Overlong], outlet: Outlet) -> Iterator[types.JSONRPCMessage]:
    for line in lines:
        try:
            if isinstance(line, Overlong):
                raise line.fault()
            yield _typed(parse_message(line))
        except WireFault as fault:
            # Not awaited: a client that reads nothing until it has written everything must not stop us reading.
            outlet.post(orjson.dumps(fault.reply()) + b"\n")
        except ValidationError:
            logger.warning("dropped a reply to a request that was never made")


def _typed(message: dict[str, Any]) -> types.JSONRPCMessage:
    if "method" not in message:
        kind: type[types.JSONRPCResponse | types.JSONRPCError] = (
            types.JSONRPCResponse if "result" in message else types.JSONRPCError
        )
        return kind.model_validate(message)
    if "id" in message:
        return types.JSONRPCRequest.model_validate(message)
    return types.JSONRPCNotification.model_validate(message)


class _ClientGone(Exception):
    """Nobody reads our stdout any more."""


async def _deliver(outlet: Outlet, message: types.JSONRPCMessage) -> None:
    try:
        await outlet.post(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
    except OSError:
        raise _ClientGone from None


class _Asked:
    """The requests that are still to be answered."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def see_request(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
            self._none_left.clear()
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            self._forget((message.params or {}).get("requestId"))

    def see_reply(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._forget(message.id)

    async def all_answered(self) -> None:
        await self._none_left.wait()

    def _forget(self, id: Any) -> None:
        if isinstance(id, str | int):
            self._ids.discard(id)
        if not self._ids:
            self._none_left.set()


async def _together(*jobs: Callable[[], Any]) -> None:
    """All of them, until all are done; the first failure ends the rest and is raised as itself."""
    tasks = [asyncio.ensure_future(job()) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    """While inside, the signals that ask a process to end call `stop`, where the platform allows."""
    loop = asyncio.get_running_loop()
    caught: list[signal.Signals] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop)
            caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
