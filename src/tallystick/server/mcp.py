"""MCP: the tools as an MCP server, over stdio, streamable HTTP and the older SSE.

The only file that knows the SDK. Both eras of the protocol are the SDK's: the handshake, and
the one where each request says who it is. What is ours: strict messages (`wire`), names by
client, and errors that tell the caller what to mend and an outsider nothing.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import Any

import anyio
import mcp_types as types
import msgspec
import orjson
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, AuthorizationContext, authorization_context
from mcp.server.auth.provider import AccessToken
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.message import SessionMessage
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallystick.errors import NotFound
from tallystick.server import Client, Offer
from tallystick.server.dispatch import Done, OfferedTool, Outcome, Refused, broken, call
from tallystick.server.fast_path import HANDSHAKE, Era, rpc_error
from tallystick.server.fast_path.http import Protocols
from tallystick.server.fast_path.stdio import StdioFastPath
from tallystick.server.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from tallystick.server.listing import FRESH_MILLISECONDS, TITLE, Listing
from tallystick.server.oauth import SCOPE_KEY, Identity
from tallystick.server.validation_messages import sentences
from tallystick.telemetry import tracing

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]

TEND_SECONDS = 60.0
TOUCH_SECONDS = 1.0
"""A session may be forgotten that much earlier than promised."""

_NO_HEADERS = Headers()


def mcp_server(
    offer: Offer,
    *,
    client_of: Callable[[Context], Client] | None = None,
    begun: Callable[[Context], None] | None = None,
    listing: Listing | None = None,
) -> Server[Any]:
    """`begun` is told of every message that is about to be served, `client_of` says in which session it was sent."""
    listing = listing or Listing(offer)
    client_of = client_of or _sessionless

    async def on_list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise _invalid_params(["field 'cursor' is not allowed: the list has one page"])
        tools = listing.tools(_client_name(context))
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in tools])

    async def on_call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        entry = _entry(offer, params.name)
        if tracing.tracer is not None:
            tracing.arrive(getattr(context.request, "headers", _NO_HEADERS).raw, context.meta)
        writes = not entry.tool.reads_only
        outcome = await call(
            entry,
            params.arguments or {},
            offer.store,
            lambda: offer.caller(context.request, client_of(context), writes=writes),
        )
        return _result(offer, entry, outcome)

    server: Server[Any] = Server(
        offer.name,
        version=offer.version,
        title=TITLE,
        instructions=listing.instructions,
        cache_hints={"tools/list": CacheHint(ttl_ms=FRESH_MILLISECONDS, scope="private")},
        get_tool_input_schema=listing.find_input_schema,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )
    server.middleware.append(_PlainErrors(begun))
    return server


class Peer:
    """The SDK's side of one conversation over stdio, for what the fast path declines. `deliver` writes one message."""

    def __init__(
        self,
        offer: Offer,
        *,
        deliver: Callable[[bytes], Awaitable[None]],
        answered: Callable[[str | int], None],
        fast_path: StdioFastPath,
    ) -> None:
        self._server = mcp_server(
            offer,
            begun=self._begin,
            client_of=lambda context: Client(_client_name(context), fast_path.client.session),
        )
        self._modern = _modern_era(self._server)
        self._deliver = deliver
        self._answered = answered
        self._fast_path = fast_path
        fast_path.envelope = _is_envelope
        self._to_server, self._from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._to_client, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)
        self._repeated: asyncio.Event | None = None
        """Set when the answer to what is being repeated came; the client has had that answer."""

    async def serve(self) -> None:
        """Until `end`. Beside it, `write` must run."""
        await self._server.run(self._from_client, self._to_client, self._server.create_initialization_options())

    async def write(self) -> None:
        """Until everything is answered."""
        async with self._from_server:
            async for sent in self._from_server:
                if self._repeated is not None:
                    self._repeated.set()
                else:
                    await self._pass_back(sent.message)

    async def hear(self, message: dict[str, Any]) -> None:
        try:
            typed = _typed(message)
        except ValidationError:
            logger.warning("dropped a reply to a request that was never made")
        else:
            await self._to_server.send(SessionMessage(typed))

    async def catch_up(self, said: Iterable[dict[str, Any]]) -> None:
        """Hear what the client said to others, answering nobody."""
        for message in said:
            repeated = self._repeated = asyncio.Event()
            await self.hear(message)
            if "id" in message:
                await repeated.wait()
            self._repeated = None

    def end(self) -> None:
        self._to_server.close()

    async def _pass_back(self, message: types.JSONRPCMessage) -> None:
        await self._deliver(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self._answered(message.id)
            self._fast_path.begun(message.id)

    def _begin(self, context: Context) -> None:
        self._fast_path.begun(context.request_id)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._fast_path.introduced(self._modern, _client_name(context))
        elif context.session.client_params is not None:
            self._fast_path.introduced(HANDSHAKE, _client_name(context))


class HttpTransports(msgspec.Struct, frozen=True):
    """ASGI applications, served while `run()` is entered. None of them checks Host or Origin: `guards` does."""

    run: Callable[[], AbstractAsyncContextManager[None]]
    streamable: ASGIApp
    sse: ASGIApp
    messages: ASGIApp
    protocols: Protocols


def http_transports(offer: Offer, *, messages_path: str) -> HttpTransports:
    sessions, listing = _Sessions(offer), Listing(offer)
    server = mcp_server(offer, begun=sessions.see, client_of=sessions.client_of, listing=listing)
    manager = StreamableHTTPSessionManager(server, json_response=True, max_request_body_size=offer.body_bytes_max)
    sessions.follow(manager)
    transport = SseServerTransport(messages_path, max_request_body_size=offer.body_bytes_max)

    async def sse(scope: Scope, receive: Receive, send: Send) -> None:
        session = offer.sessions.begin()
        own = mcp_server(offer, client_of=lambda context: Client(_client_name(context), session), listing=listing)
        try:
            async with transport.connect_sse(scope, receive, send) as (incoming, outgoing):
                await own.run(incoming, outgoing, own.create_initialization_options())
        finally:
            # A connection that broke says nothing of its client.
            offer.sessions.forget(session)

    @asynccontextmanager
    async def run() -> AsyncIterator[None]:
        async with manager.run():
            tending = asyncio.create_task(sessions.tend())
            try:
                yield
            finally:
                tending.cancel()

    return HttpTransports(
        run,
        _owned(sessions.ending(manager.handle_request)),
        _owned(sse),
        _owned(transport.handle_post_message),
        Protocols(
            handshake=frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS),
            modern={version.encode(): _modern_era(server) for version in MODERN_PROTOCOL_VERSIONS},
            envelope=_is_envelope,
            sessions=sessions,
        ),
    )


class _Sessions:
    """The manager's sessions, for the fast path. It has no public word for them, so this reads its private ones;
    where they are missing the fast path finds no session, and the SDK answers."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._open: Mapping[str, StreamableHTTPServerTransport] = {}
        self._owners: Mapping[str, AuthorizationContext] = {}
        self._clients: dict[StreamableHTTPServerTransport, Client] = {}
        """Of those that are introduced."""

    def follow(self, manager: StreamableHTTPSessionManager) -> None:
        self._open = getattr(manager, "_server_instances", {})
        self._owners = getattr(manager, "_session_owners", {})

    def see(self, context: Context) -> None:
        """A session is introduced once its server knows the client: `initialize` can fail and leave it open."""
        if context.request is None or context.session.client_params is None:
            return
        transport = self._open.get(context.request.headers.get(MCP_SESSION_ID_HEADER, ""))
        if transport is not None and transport not in self._clients:
            self._clients[transport] = Client(_client_name(context), self._offer.sessions.begin())

    def client_of(self, context: Context) -> Client:
        """In the modern era a client has a name and no session."""
        id = context.request.headers.get(MCP_SESSION_ID_HEADER, "") if context.request is not None else ""
        transport = self._open.get(id) if context.protocol_version not in MODERN_PROTOCOL_VERSIONS else None
        known = self._clients.get(transport) if transport is not None else None
        return known or _sessionless(context)

    def client(self, session: StreamableHTTPServerTransport) -> Client:
        return self._clients[session]

    def ending(self, app: ASGIApp) -> ASGIApp:
        """A client that deletes its session has ended it by the time that it is told so."""

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            transport = self._open.get(_session_id(scope)) if scope["method"] == "DELETE" else None

            async def tell(message: Message) -> None:
                if transport is not None and transport.is_terminated:
                    self._leave(transport, self._offer.sessions.end)
                await send(message)

            await app(scope, receive, tell if transport is not None else send)

        return serve

    async def tend(self) -> None:
        """Those that expired, or broke, told nobody."""
        while True:
            await asyncio.sleep(TEND_SECONDS)
            for transport in [each for each in self._clients if each.is_terminated]:
                self._leave(transport, self._offer.sessions.forget)

    def _leave(self, transport: StreamableHTTPServerTransport, leave: Callable[[str], None]) -> None:
        client = self._clients.pop(transport, None)
        if client is not None and client.session is not None:
            leave(client.session)

    def find(self, id: bytes, identity: Identity | None) -> StreamableHTTPServerTransport | None:
        name = id.decode("latin-1")
        transport = self._open.get(name)
        if transport is None or transport not in self._clients or transport.is_terminated:
            return None
        if transport.idle_scope is None or transport.idle_scope.cancel_called:
            return None
        return transport if _context_of(identity) == self._owners.get(name) else None

    def is_open(self, id: bytes) -> bool:
        return id.decode("latin-1") in self._open

    def touch(self, session: StreamableHTTPServerTransport) -> None:
        """Held and let go at once. Seldom told to the session: each time a timer is made anew."""
        if session.idle_scope is not None and session._idle_timeout is not None:
            deadline = asyncio.get_running_loop().time() + session._idle_timeout
            if session.idle_scope.deadline < deadline - TOUCH_SECONDS:
                session.idle_scope.deadline = deadline

    def hold(self, session: StreamableHTTPServerTransport) -> None:
        """As its own `handle_request` does."""
        assert session.idle_scope is not None
        session._requests_in_flight += 1
        session.idle_scope.deadline = math.inf

    def release(self, session: StreamableHTTPServerTransport) -> None:
        session._requests_in_flight -= 1
        if not session._requests_in_flight and session.idle_scope is not None and session._idle_timeout is not None:
            session.idle_scope.deadline = asyncio.get_running_loop().time() + session._idle_timeout


def _modern_era(server: Server[Any]) -> Era:
    stamp = orjson.dumps({types.SERVER_INFO_META_KEY: server.server_info_stamp})
    return Era(is_modern=True, tail=b',"resultType":"complete","_meta":' + stamp, statuses=ERROR_CODE_HTTP_STATUS)


@lru_cache(maxsize=1_000)
def _is_envelope(reserved: bytes) -> bool:
    """Clients send the same one with every request, so it is judged once."""
    meta = orjson.loads(reserved)
    version = meta.get(types.PROTOCOL_VERSION_META_KEY)
    if version not in MODERN_PROTOCOL_VERSIONS:
        return False
    params = {"name": "", "arguments": {}, "_meta": meta}
    try:
        validate_client_request("tools/call", version, params)
        types.CallToolRequestParams.model_validate(params, by_name=False)
    except ValidationError:
        return False
    return True


def _context_of(identity: Identity | None) -> AuthorizationContext | None:
    if identity is None:
        return None
    principal = identity.principal
    return _owner_context(identity.issuer, identity.client, principal.tenant, principal.actor)


@lru_cache(maxsize=10_000)
def _owner_context(issuer: str, client: str, tenant: str, actor: str) -> AuthorizationContext:
    return authorization_context(_owner(issuer, client, tenant, actor))


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


def _session_id(scope: Scope) -> str:
    return Headers(scope=scope).get(MCP_SESSION_ID_HEADER, "")


def _client_name(context: Context) -> str | None:
    client = context.session.client_params
    return client.client_info.name if client is not None else None


def _sessionless(context: Context) -> Client:
    return Client(_client_name(context))


def _entry(offer: Offer, name: str) -> OfferedTool:
    try:
        return offer.tools.get(name)
    except NotFound as error:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {error.message}", error.details) from None


def _result(offer: Offer, entry: OfferedTool, outcome: Outcome) -> types.CallToolResult:
    error = rpc_error(offer, entry, outcome)
    if error is not None:
        raise MCPError(error.code, error.message, error.data)
    if isinstance(outcome, Done):
        content = types.TextContent(text=outcome.text)
        return types.CallToolResult(content=[content], structured_content=outcome.data)
    assert isinstance(outcome, Refused)
    content = types.TextContent(text=orjson.dumps(outcome.shape).decode())
    return types.CallToolResult(content=[content], structured_content=outcome.shape, is_error=True)


def _invalid_params(problems: list[str]) -> MCPError:
    return MCPError(INVALID_PARAMS, "Invalid params", {"validation_errors": problems})


class _PlainErrors:
    """The SDK puts an unexpected exception's text on the wire, and says nothing of what is wrong with params."""

    def __init__(self, begun: Callable[[Context], None] | None) -> None:
        self._begun = begun

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        try:
            if self._begun is not None:
                self._begun(ctx)
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


def _typed(message: dict[str, Any]) -> types.JSONRPCMessage:
    if "method" not in message:
        kind: type[types.JSONRPCResponse | types.JSONRPCError] = (
            types.JSONRPCResponse if "result" in message else types.JSONRPCError
        )
        return kind.model_validate(message)
    if "id" in message:
        return types.JSONRPCRequest.model_validate(message)
    return types.JSONRPCNotification.model_validate(message)
