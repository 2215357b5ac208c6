"""MCP: the tools as an MCP server, over stdio, streamable HTTP and the older SSE.

The only file that knows the SDK. Both eras of the protocol are the SDK's: the handshake, and
the one where each request says who it is. What is ours: strict messages (`wire`), names by
client, and errors that tell the caller what to mend and an outsider nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

import anyio
import mcp_types as types
import msgspec
import orjson
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types.methods import validate_client_request
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tallystick.errors import Denied, NotFound, TallystickError
from tallystick.policy import Principal
from tallystick.server import BEHIND_KEY, Client, Offer
from tallystick.server.dispatch import Done, OfferedTool, Outcome, Refused, call, prepare
from tallystick.server.fast_path import Era, fault_of, handshake_era, has_faults_in_result, refused_result, rpc_error
from tallystick.server.fast_path.http import Protocols
from tallystick.server.fast_path.stdio import StdioFastPath
from tallystick.server.http_sessions import SCOPE_SESSION, Session
from tallystick.server.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, invalid_params
from tallystick.server.listing import FRESH_MILLISECONDS, TITLE, Listing
from tallystick.server.oauth import SCOPE_KEY, Identity
from tallystick.server.progress import telling
from tallystick.server.resources import TEMPLATES, URI_CHARACTERS_MAX, Caller, NoSuchResource, ResourceBroken
from tallystick.server.subscriptions import LIST_CHANGED, SUBSCRIPTIONS_MAX, UPDATED, Streams, Subscriber
from tallystick.server.validation_messages import sentences
from tallystick.telemetry import tracing
from tallystick.toolsets.browse import Choice, Choices

logger = logging.getLogger(__name__)

Context = ServerRequestContext[Any, Any]

_NO_HEADERS = Headers()


def mcp_server(
    offer: Offer,
    *,
    client_of: Callable[[Context], Client] | None = None,
    begun: Callable[[Context], None] | None = None,
    listing: Listing | None = None,
    subscriber: Subscriber | None = None,
    streams: Streams | None = None,
) -> Server[Any]:
    """`begun` is told of every message that is about to be served, `client_of` says in which session it was sent.
    `subscriber` is that of the one client on this connection, where there is a connection; `streams` are shared by all
    servers of a process."""
    listing = listing or Listing(offer)
    client_of = client_of or _sessionless
    catalogue = _Catalogue(offer, listing, client_of, subscriber, streams or Streams())

    async def on_list_tools(context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        _check_one_page(params)
        tools = listing.tools(_client_name(context))
        return types.ListToolsResult(tools=[types.Tool.model_validate(tool) for tool in tools])

    async def on_call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        entry = _entry(offer, params.name)
        if tracing.tracer is not None:
            tracing.arrive(getattr(context.request, "headers", _NO_HEADERS).raw, context.meta)
        scope = None if context.request is None else context.request.scope
        caller = lambda: offer.caller(scope, entry.tool, client_of(context))  # noqa: E731  # as `call` takes it
        asked = await _confirm(offer, entry, context, params, caller) if offer.confirms else None
        if isinstance(asked, types.InputRequiredResult):
            return asked
        outcome = asked or await _told(context, call(entry, params.arguments or {}, offer.store, caller))
        return _result(offer, entry, outcome, _version(context))

    server: Server[Any] = Server(
        offer.name,
        version=offer.version,
        title=TITLE,
        instructions=listing.instructions,
        cache_hints=dict.fromkeys(_FRESH_LISTS, CacheHint(ttl_ms=FRESH_MILLISECONDS, scope="private")),
        get_tool_input_schema=listing.find_input_schema,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
        **catalogue.handlers(),
    )

    async def on_discover(context: Context, params: types.RequestParams) -> types.DiscoverResult:
        capabilities = types.ServerCapabilities.model_validate(listing.capabilities(pushes=True))
        return types.DiscoverResult(
            supported_versions=list(MODERN_PROTOCOL_VERSIONS),
            capabilities=capabilities,
            instructions=listing.instructions,
        )

    # The SDK would announce that lists of tools and prompts change, wherever changes of any kind can be listened to.
    server.add_request_handler("server/discover", types.RequestParams, on_discover)
    server.middleware.append(_PlainErrors(begun))
    return server


def _told(context: Context, work: Coroutine[Any, Any, Outcome]) -> Coroutine[Any, Any, Outcome]:
    """Where the client wants to know how it goes on."""
    if not context.meta or context.meta.get("progress_token") is None:
        return work

    async def tell(seconds: float, words: str) -> None:
        await context.session.report_progress(seconds, message=words)

    return telling(work, tell)


# -- what a person is asked first

CONFIRM = "confirm"
CONFIRM_SECONDS = 600.0
_QUESTION = {
    "type": "object",
    "properties": {CONFIRM: {"type": "boolean", "title": "Yes, erase it for good"}},
    "required": [CONFIRM],
}


async def _confirm(
    offer: Offer,
    entry: OfferedTool,
    context: Context,
    params: types.CallToolRequestParams,
    caller: Callable[[], Principal],
) -> types.InputRequiredResult | Refused | None:
    """None where the call may go on: it was confirmed, there is nobody to ask, or it will be refused anyway."""
    confirmation, arguments = entry.tool.confirmation, params.arguments or {}
    if confirmation is None or not confirmation.concerns(arguments) or not _can_ask(context):
        return None
    try:
        words = await confirmation.describe(offer.store, caller(), prepare(entry.tool, arguments))
    except TallystickError:
        return None
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return None if await _is_accepted(context, words) else _not_confirmed(entry)
    # What was agreed to is what was shown: if that is another by now, it is shown again.
    state = sha256(orjson.dumps([words, arguments], option=orjson.OPT_SORT_KEYS)).hexdigest()
    answer = (params.input_responses or {}).get(CONFIRM)
    if params.request_state != state or not isinstance(answer, types.ElicitResult):
        question = types.ElicitRequest(params=types.ElicitRequestFormParams(message=words, requested_schema=_QUESTION))
        return types.InputRequiredResult(input_requests={CONFIRM: question}, request_state=state)
    return None if _is_yes(answer) else _not_confirmed(entry)


def _can_ask(context: Context) -> bool:
    capabilities = context.session.client_capabilities
    known = None if capabilities is None else capabilities.elicitation
    is_reachable = context.protocol_version in MODERN_PROTOCOL_VERSIONS or context.session.can_send_request
    # A client that names neither kind means forms: there was no other when it was written.
    return known is not None and (known.form is not None or known.url is None) and is_reachable


async def _is_accepted(context: Context, words: str) -> bool:
    try:
        async with asyncio.timeout(CONFIRM_SECONDS):
            return _is_yes(await context.session.elicit_form(words, _QUESTION, context.request_id))
    except (TimeoutError, MCPError, ValidationError):
        return False


def _is_yes(answer: types.ElicitResult) -> bool:
    return answer.action == "accept" and (answer.content or {}).get(CONFIRM) is True


def _not_confirmed(entry: OfferedTool) -> Refused:
    error = Denied(
        "the person at the client did not confirm this: nothing was written",
        code="NOT_CONFIRMED",
        hint="do not try again unless the person asks for it",
    )
    return Refused(error, entry.toolset.error_shape(error))


_FRESH_LISTS: tuple[Literal["tools/list", "prompts/list", "resources/templates/list"], ...] = (
    "tools/list",
    "prompts/list",
    "resources/templates/list",
)


class _Catalogue:
    """Prompts, resources, completions and subscriptions, as the SDK wants to hear them."""

    def __init__(
        self,
        offer: Offer,
        listing: Listing,
        client_of: Callable[[Context], Client],
        subscriber: Subscriber | None,
        streams: Streams,
    ) -> None:
        self._offer = offer
        self._prompts = listing.prompts
        self._resources = listing.resources
        self._client_of = client_of
        self._subscriber = subscriber
        self._streams = streams

    def handlers(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._prompts:
            found |= {"on_list_prompts": self.list_prompts, "on_get_prompt": self.get_prompt}
        if self._resources:
            found |= {
                "on_list_resources": self.list_resources,
                "on_list_resource_templates": self.list_templates,
                "on_read_resource": self.read_resource,
                "on_subscriptions_listen": self.listen,
            }
        if self._resources and self._subscriber is not None:
            found |= {"on_subscribe_resource": self.subscribe, "on_unsubscribe_resource": self.unsubscribe}
        if found:
            found["on_completion"] = self.complete
        return found

    async def list_prompts(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        _check_one_page(params)
        return types.ListPromptsResult.model_validate({"prompts": self._prompts.listed})

    async def get_prompt(self, context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        found = self._prompts.get(params.name, params.arguments or {}, _client_name(context))
        return types.GetPromptResult.model_validate(found)

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = None if params is None else params.cursor
        page = await self._resources.page(self._caller(context), cursor)
        if cursor is None and self._subscriber is not None and self._subscriber.watches_list:
            self._subscriber.relisted(page)
        return types.ListResourcesResult.model_validate(page)

    async def list_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        _check_one_page(params)
        return types.ListResourceTemplatesResult.model_validate({"resourceTemplates": self._resources.templates})

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with _resource_errors(context, params.uri):
            read = await self._resources.read(self._caller(context), params.uri)
        return types.ReadResourceResult.model_validate(read)

    async def complete(self, context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        choice = self._choice(params)
        begun = params.argument.value[:URI_CHARACTERS_MAX]
        found = Choices([])
        if choice is not None and self._resources:
            found = await self._resources.complete(self._caller(context), choice, begun)
        return types.CompleteResult(completion=types.Completion(values=found.values, has_more=found.has_more))

    def _choice(self, params: types.CompleteRequestParams) -> Choice | None:
        if isinstance(params.ref, types.PromptReference):
            return self._prompts.argument(params.ref.name, params.argument.name).choice
        for each in TEMPLATES.values():
            if self._resources.offers(each.kind) and each.uri_template == params.ref.uri:
                return each.choice if each.argument == params.argument.name else None
        raise _invalid_params(["field 'ref.uri' is none of the templates of resources"])

    async def subscribe(self, context: Context, params: types.SubscribeRequestParams) -> types.EmptyResult:
        subscriber, caller = self._subscriber, self._caller(context)
        assert subscriber is not None, "a handler that is not registered without"
        with _resource_errors(context, params.uri):
            await subscriber.subscribe(params.uri, caller)
        if not subscriber.watches_list:
            await subscriber.watch_list(caller, await self._resources.page(caller))
        return types.EmptyResult()

    async def unsubscribe(self, context: Context, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
        if self._subscriber is not None:
            self._subscriber.unsubscribe(params.uri)
        return types.EmptyResult()

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """One stream, until the client leaves it, its token expires, or we end."""
        meta = {SUBSCRIPTION_ID_META_KEY: context.request_id}
        asked, caller = params.notifications, self._caller(context)
        principal = caller(self._resources.first_tool())

        async def send(method: str, said: dict[str, Any]) -> None:
            await context.session.send_notification(_NOTIFICATIONS[method](said, meta), context.request_id)

        subscriber = Subscriber(self._offer, self._resources, send)
        with self._streams.listening(principal):
            try:
                honoured = await self._honoured(subscriber, asked, lambda entry: principal)
                acknowledged = types.SubscriptionsAcknowledgedNotificationParams.model_validate(
                    {"notifications": honoured, "_meta": meta}
                )
                await context.session.send_notification(
                    types.SubscriptionsAcknowledgedNotification(params=acknowledged), context.request_id
                )
                with suppress(TimeoutError):
                    async with asyncio.timeout(_seconds_left(context)):
                        await subscriber.wait()
            finally:
                subscriber.close()
        return types.SubscriptionsListenResult.model_validate({"_meta": meta})

    async def _honoured(
        self, subscriber: Subscriber, asked: types.SubscriptionFilter, caller: Caller
    ) -> dict[str, Any]:
        honoured: dict[str, Any] = {}
        wanted = list(dict.fromkeys(asked.resource_subscriptions or ()))
        if len(wanted) > SUBSCRIPTIONS_MAX:
            raise _invalid_params([f"field 'resourceSubscriptions' must have at most {SUBSCRIPTIONS_MAX} items"])
        told: list[str] = []
        for uri in wanted:
            with suppress(NoSuchResource):
                await subscriber.subscribe(uri, caller)
                told.append(uri)
        if told:
            honoured["resourceSubscriptions"] = told
        if asked.resources_list_changed:
            await subscriber.watch_list(caller, await self._resources.page(caller))
            honoured["resourcesListChanged"] = True
        await subscriber.begin(caller)
        return honoured

    def _caller(self, context: Context) -> Caller:
        scope = None if context.request is None else context.request.scope
        return self._resources.caller(scope, self._client_of(context))


def _updated(said: dict[str, Any], meta: dict[str, Any]) -> types.ResourceUpdatedNotification:
    return types.ResourceUpdatedNotification.model_validate(
        {"method": UPDATED, "params": {"uri": said["uri"], "_meta": meta}}
    )


def _list_changed(said: dict[str, Any], meta: dict[str, Any]) -> types.ResourceListChangedNotification:
    return types.ResourceListChangedNotification.model_validate({"method": LIST_CHANGED, "params": {"_meta": meta}})


_NOTIFICATIONS: dict[str, Callable[[dict[str, Any], dict[str, Any]], types.ServerNotification]] = {
    UPDATED: _updated,
    LIST_CHANGED: _list_changed,
}


def _seconds_left(context: Context) -> float | None:
    identity: Identity | None = None if context.request is None else context.request.scope.get(SCOPE_KEY)
    return None if identity is None else max(0.0, identity.expires_at - time.time())


def _check_one_page(params: types.PaginatedRequestParams | None) -> None:
    if params is not None and params.cursor is not None:
        raise _invalid_params(["field 'cursor' is not allowed: the list has one page"])


@contextmanager
def _resource_errors(context: Context, uri: str) -> Iterator[None]:
    """As the protocol says it: the newer one counts a resource that is not there among the bad params."""
    try:
        yield
    except NoSuchResource:
        code = INVALID_PARAMS if context.protocol_version in MODERN_PROTOCOL_VERSIONS else RESOURCE_NOT_FOUND
        raise MCPError(code, "Resource not found", {"uri": uri[:URI_CHARACTERS_MAX]}) from None
    except ResourceBroken as error:
        raise MCPError(INTERNAL_ERROR, "Internal error", {"error_id": error.error_id}) from None


RESOURCE_NOT_FOUND = -32002


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
        listing = Listing(offer)
        self._subscriber = Subscriber(offer, listing.resources, self._notify)
        self._server = mcp_server(
            offer,
            begun=self._begin,
            client_of=lambda context: Client(_client_name(context), fast_path.client.session),
            listing=listing,
            subscriber=self._subscriber,
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
        options = self._server.create_initialization_options(NotificationOptions(resources_changed=True))
        try:
            await self._server.run(self._from_client, self._to_client, options)
        finally:
            self._subscriber.close()

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
        self._subscriber.close()
        self._to_server.close()

    async def _notify(self, method: str, params: dict[str, Any]) -> None:
        await self._deliver(orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    async def _pass_back(self, message: types.JSONRPCMessage) -> None:
        replied = message.id if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) else None
        # Before it is written: what the client asks next may be here sooner than the news that it was.
        self._fast_path.begun(replied)
        await self._deliver(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        if replied is not None:
            self._answered(replied)

    def _begin(self, context: Context) -> None:
        self._fast_path.begun(context.request_id)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            self._fast_path.introduced(self._modern, _client_name(context))
        elif context.session.client_params is not None:
            self._fast_path.introduced(handshake_era(context.protocol_version), _client_name(context))


class HttpTransports(msgspec.Struct, frozen=True):
    """ASGI applications, served while `run()` is entered. Names, tokens and sessions are checked by `front`."""

    run: Callable[[], AbstractAsyncContextManager[None]]
    streamable: ASGIApp
    sse: ASGIApp
    messages: ASGIApp
    protocols: Protocols


def http_transports(offer: Offer, *, messages_path: str) -> HttpTransports:
    listing, streams = Listing(offer), Streams()
    server = mcp_server(offer, client_of=_client_over_http, listing=listing, streams=streams)
    # Stateless, since sessions are our own (`http_sessions`): any process may be asked next.
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=offer.body_bytes_max
    )
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

    return HttpTransports(
        manager.run,
        manager.handle_request,
        _owned(sse),
        _owned(transport.handle_post_message),
        Protocols(
            handshake=frozenset(version.encode() for version in HANDSHAKE_PROTOCOL_VERSIONS),
            modern={version.encode(): _modern_era(server) for version in MODERN_PROTOCOL_VERSIONS},
            envelope=_is_envelope,
        ),
    )


def _modern_era(server: Server[Any]) -> Era:
    stamp = orjson.dumps({types.SERVER_INFO_META_KEY: server.server_info_stamp})
    tail = b',"resultType":"complete","_meta":' + stamp
    return Era(is_modern=True, faults_in_result=True, tail=tail, statuses=ERROR_CODE_HTTP_STATUS)


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


def _client_name(context: Context) -> str | None:
    session = _session(context)
    if session is not None:
        return session.client
    client = context.session.client_params
    return client.client_info.name if client is not None else None


def _version(context: Context) -> str:
    """As it was agreed on: a header of a later request may say another one."""
    session = _session(context)
    return context.protocol_version if session is None else session.version


def _client_over_http(context: Context) -> Client:
    """In the modern era a client has a name and no session."""
    session = _session(context)
    return _sessionless(context) if session is None else session.said()


def _session(context: Context) -> Session | None:
    return None if context.request is None else context.request.scope.get(SCOPE_SESSION)


def _sessionless(context: Context) -> Client:
    return Client(_client_name(context))


def _entry(offer: Offer, name: str) -> OfferedTool:
    try:
        return offer.tools.get(name)
    except NotFound as error:
        raise MCPError(INVALID_PARAMS, f"Unknown tool: {error.message}", error.details) from None


def _result(offer: Offer, entry: OfferedTool, outcome: Outcome, version: str) -> types.CallToolResult:
    error = rpc_error(offer, entry, outcome, faults_in_result=has_faults_in_result(version))
    if error is not None:
        raise MCPError(error.code, error.message, error.data)
    if isinstance(outcome, Done):
        content = types.TextContent(text=outcome.text)
        behind = offer.behind_seconds()
        meta = {BEHIND_KEY: round(behind, 3)} if behind else None
        return types.CallToolResult(content=[content], structured_content=outcome.data, _meta=meta)
    assert isinstance(outcome, Refused)
    text, shape = refused_result(entry, outcome)
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=shape, is_error=True)


def _invalid_params(problems: list[str]) -> MCPError:
    return MCPError(INVALID_PARAMS, invalid_params(problems), {"validation_errors": problems})


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
        except Exception as error:
            fault = fault_of(error, ctx.method)
            raise MCPError(fault.code, fault.message, fault.data) from None


_AFTER_HELLO = ("tools/", "prompts/", "resources/", "completion/")


def _check_introduced(context: Context) -> None:
    is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
    is_known = context.session.client_params is not None or _session(context) is not None
    if context.method.startswith(_AFTER_HELLO) and not is_modern and not is_known:
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
