"""The one ASGI callable before everything over HTTP: names, token, body, message, session, and whose part it is.

In this order, in one function a request: of a caller who is not known nothing is read, and nothing is
parsed that is too large. Plain calls to `/mcp` and `/v1/tools/` are answered from here; what is left
goes on to the SDK, or to the routes of Starlette.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import orjson
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallystick.errors import LimitExceeded, TallystickError, exhaustion
from tallystick.server import Offer
from tallystick.server.answers import AT_ONCE, Header, Reply, retry_after, send_json
from tallystick.server.dispatch import broken
from tallystick.server.fast_path.http import FastPath, Hello, Protocols, RunningRequests
from tallystick.server.guards import BODY_KEY, HEADERS_KEY, Names
from tallystick.server.http_sessions import SCOPE_SESSION, HttpSessions, Session
from tallystick.server.jsonrpc import INVALID_REQUEST, Starved, WireFault, error_reply, parse_message
from tallystick.server.oauth import COOKIES_KEY, SCOPE_KEY
from tallystick.server.progress import Begun, Tell, begin, find_token, notification, telling
from tallystick.server.request_id import Bounded

if TYPE_CHECKING:
    from tallystick.server.oauth.guard import Admission
    from tallystick.server.pages import Pages

logger = logging.getLogger(__name__)

MCP_PATH, SSE_PATH, MESSAGES_PATH = "/mcp", "/sse", "/messages/"
HELLO_BYTES_MAX = 64 * 1024
"""Of an `initialize`: what a client says of itself is no place to store anything."""
SEEK_SECONDS = 1.0
"""How long a body that is refused for its size is waited for, only to name its id."""
TEND_SECONDS = 60.0
LOOK_SECONDS = 1.0
"""Between two looks whether sessions were ended through another process."""

_VARY = (b"vary", b"Origin")
_FETCHED = b"sec-fetch-site"
_SESSION_ID = b"mcp-session-id"
_VERSION = b"mcp-protocol-version"
_RPC_PATHS = frozenset({MCP_PATH, MESSAGES_PATH})


class Direct(Protocol):
    """What answers every body at its path."""

    def answer(self, scope: Scope, body: bytes) -> Awaitable[Reply]: ...


class HttpFront:
    def __init__(
        self,
        offer: Offer,
        app: ASGIApp,
        *,
        run: Callable[[], AbstractAsyncContextManager[None]],
        sdk: ASGIApp,
        protocols: Protocols,
        sessions: HttpSessions,
        names: Names,
        origins: Sequence[str],
        admission: Admission | None,
        direct: Mapping[str, Direct],
        fast_path: bool,
        pages: Pages | None = None,
    ) -> None:
        """`app` has the routes, `direct` those whose POST needs no routing. `run` is for whoever has no ASGI server:
        entered while we serve. Without `fast_path` all calls take the long way."""
        self.run = run
        self._app = app
        self._sdk = sdk
        self._handshake = protocols.handshake
        self.sessions = sessions
        self._names = names
        self._admission = admission
        self._web = pages
        self._bytes_max = offer.body_bytes_max
        self._direct = direct if fast_path else {}
        self._fast = FastPath(offer, protocols) if fast_path else None
        self._hello = Hello(offer) if fast_path else None
        self._running = RunningRequests()
        self._pages = CORSMiddleware(
            self._serve_page,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        scope["app"] = self  # for Starlette: a path that is not there raises, and has an answer of ours
        headers = scope["headers"]
        given = scope[HEADERS_KEY] = dict(reversed(headers))
        is_page = b"origin" in given
        if (
            is_page
            or _FETCHED in given
            or len(given) != len(headers)
            or not self._names.is_ours(given.get(b"host", b""))
        ):
            fault = self._names.fault(headers)
            if fault is not None:
                status, code, words = fault
                return await send_json(send, (status, _refusal(scope["path"], code, words), ()))
        try:
            if is_page:
                return await self._pages(scope, receive, send)
            reply = await self._serve(scope, receive, send, (_VARY,))
            if reply is not None:
                await send_json(send, reply, (_VARY,), at_once=AT_ONCE in scope.get("extensions", ()))
        except Exception as error:
            reply = _failure(scope["path"], error)
            if _STARTED in scope:
                raise
            await send_json(send, reply)

    async def _serve_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = await self._serve(scope, receive, send, ())
        if reply is not None:
            await send_json(send, reply)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, more: tuple[Header, ...]) -> Reply | None:
        """What is to be answered; None where another application did, with these headers besides its own."""
        path = scope["path"]
        admission = self._admission
        if admission is not None and path not in admission.open_paths:
            try:
                scope[SCOPE_KEY] = await admission.admit(scope["headers"])
            except TallystickError as error:
                refusal = await self._refuse(admission, scope, error)
                if refusal is not None:
                    await refusal(scope, receive, _adding(scope, send, more))
                    return None
                more = (*more, *scope.get(COOKIES_KEY, ()))
        if scope["method"] != "POST":
            if path == MCP_PATH and scope["method"] == "DELETE":
                return self._end_session(scope)
            await self._app(scope, receive, _adding(scope, send, more))
            return None
        body = await _read_body(scope, receive, self._bytes_max)
        if isinstance(body, Bounded):
            id = await _seek_id(receive, body, self._bytes_max) if path in _RPC_PATHS else None
            words = f"a body may have at most {self._bytes_max} bytes"
            return 413, _refusal(path, "BODY_TOO_LARGE", words, id), ()
        direct = self._direct.get(path)
        if direct is not None:
            return await direct.answer(scope, body)
        if path in _RPC_PATHS:
            try:
                message = parse_message(body)
            except WireFault as fault:
                return 503 if isinstance(fault, Starved) else 400, orjson.dumps(fault.reply()), ()
            if path == MCP_PATH:
                return await self._serve_mcp(scope, body, message, receive, send, more)
        scope[BODY_KEY] = body
        await self._app(scope, _replay(body, receive), _adding(scope, send, more))
        return None

    async def _refuse(self, admission: Admission, scope: Scope, error: TallystickError) -> ASGIApp | None:
        """The answer to who has no token that holds; None for what is open, and for visitors who logged in."""
        path = scope["path"]
        if path.startswith(admission.open_prefixes):
            return None
        if self._web is not None and error.code == "MISSING_TOKEN":
            try:
                return await self._web.admit(scope, error)
            except TallystickError as refused:
                error = refused
        return admission.refusal(path, error)

    async def _serve_mcp(
        self,
        scope: Scope,
        body: bytes,
        message: dict[str, Any],
        receive: Receive,
        send: Send,
        more: tuple[Header, ...],
    ) -> Reply | None:
        given = scope[HEADERS_KEY]
        version = given.get(_VERSION)
        if version is not None and version not in self._handshake:
            call = None if self._fast is None else self._fast.without_session(message, scope)
            if call is not None:
                reply = begin(call)
                if not isinstance(reply, Begun):
                    return reply
                # In this era a client cancels by leaving.
                stream = _Progress(message, scope, send, more)
                return await stream.finish(await telling(reply, stream.tell, partial(_until_left, receive)))
            await self._sdk(scope, _replay(body, receive), _adding(scope, send, more))
            return None
        if message.get("method") == "initialize":
            return await self._begin_session(scope, body, message, receive, send, more)
        session = self._find_session(scope, message)
        if not isinstance(session, Session):
            return session
        named = (_SESSION_ID, given[_SESSION_ID])
        call = None if self._fast is None else self._fast.in_session(session, message, scope)
        if call is not None:
            reply = begin(call)
            if not isinstance(reply, Begun):
                return *reply[:2], (named,)
            stream = _Progress(message, scope, send, (named, *more))
            work = reply if stream.tell is None else telling(reply, stream.tell)
            reply = await self._running.run(session.id, message["id"], work)
            return await stream.finish((*reply[:2], (named,)))
        if message.get("method") == "notifications/cancelled":
            self._running.cancel(session.id, message.get("params"))
        scope[SCOPE_SESSION] = session
        if version is None:
            scope["headers"].append((_VERSION, session.version.encode()))
        passed = self._sdk(scope, _replay(body, receive), _adding(scope, send, (named, *more)))
        if "id" not in message or "method" not in message:
            await passed
            return None
        instead = await self._running.run(session.id, message["id"], passed)
        return None if instead is None else (*instead[:2], (named,))

    def _find_session(self, scope: Scope, message: dict[str, Any]) -> Session | Reply:
        token = scope[HEADERS_KEY].get(_SESSION_ID)
        session = self.sessions.find(token, scope.get(SCOPE_KEY)) if token else None
        if session is not None:
            return session
        id = message.get("id") if "method" in message else None
        if not token:
            return _rpc_refusal(400, "Bad Request: Missing session ID", id)
        return _rpc_refusal(404, "Session not found", id)

    async def _begin_session(
        self,
        scope: Scope,
        body: bytes,
        message: dict[str, Any],
        receive: Receive,
        send: Send,
        more: tuple[Header, ...],
    ) -> Reply | None:
        if len(body) > HELLO_BYTES_MAX:
            words = f"an initialize may have at most {HELLO_BYTES_MAX} bytes"
            return 413, _refusal(MCP_PATH, "BODY_TOO_LARGE", words, message.get("id")), ()
        result = None if self._hello is None else self._hello.result(scope, message)
        if result is None:
            parts = await _collect(self._sdk, scope, _replay(body, receive))
            result = orjson.loads(parts[1]["body"]).get("result") if parts[0]["status"] == 200 else None
            if result is None:
                for part in parts:
                    await _adding(scope, send, more)(part)
                return None
        name = message["params"]["clientInfo"]["name"]
        try:
            token = self.sessions.begin(scope.get(SCOPE_KEY), name, result["protocolVersion"])
        except LimitExceeded as error:
            reply = error_reply(message["id"], INVALID_REQUEST, f"Invalid Request: {error.message}", error.details)
            return 429, orjson.dumps(reply), retry_after(error.details)
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return 200, orjson.dumps(answer), ((_SESSION_ID, token),)

    def _end_session(self, scope: Scope) -> Reply:
        session = self._find_session(scope, {})
        if not isinstance(session, Session):
            return session
        self.sessions.end(session, scope.get(SCOPE_KEY))
        self._running.end(session.id)
        return 200, b"", ()

    async def watch(self) -> None:
        """End what waits for sessions that another process has ended, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for session in self._running.sessions:
                if self.sessions.has_ended(session):
                    self._running.end(session)


class _Progress:
    """The answer to a call: JSON, or a stream once there was something to tell before it."""

    def __init__(self, message: dict[str, Any], scope: Scope, send: Send, more: tuple[Header, ...]) -> None:
        """`more` are headers of the stream."""
        self._token = find_token(message)
        self._scope = scope
        self._send = send
        self._more = more
        self._is_begun = False
        is_heard = self._token is not None and b"text/event-stream" in scope[HEADERS_KEY].get(b"accept", b"")
        self.tell: Tell | None = self._tell if is_heard else None

    async def _tell(self, seconds: float, words: str) -> None:
        assert self._token is not None
        if not self._is_begun:
            self._is_begun = self._scope[_STARTED] = True
            headers = [*_STREAM_HEADERS, *self._more]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._event(notification(self._token, seconds, words), is_last=False)

    async def finish(self, reply: Reply) -> Reply | None:
        """What is still to be answered; None where the stream ended with it."""
        if not self._is_begun:
            return reply
        await self._event(reply[1], is_last=True)
        return None

    async def _event(self, data: bytes, *, is_last: bool) -> None:
        body = b"event: message\r\ndata: %b\r\n\r\n" % data
        await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})


_STREAM_HEADERS = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform"))


async def _until_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def tend(sessions: HttpSessions) -> None:
    """Those that expired told nobody."""
    while True:
        await asyncio.sleep(TEND_SECONDS)
        sessions.expire()


def _failure(path: str, error: Exception) -> Reply:
    """For what no route answered: a limit of this process, or a bug."""
    exhausted = exhaustion(error)
    if exhausted is None:
        return 500, orjson.dumps(internal_error(broken(path).error_id)), ()
    logger.error("%s was refused: %s (%s)", path, exhausted.message, error)
    told = {"error": exhausted.code, "message": exhausted.message, "hint": exhausted.hint}
    return 503, orjson.dumps(told), ((b"retry-after", b"1"),)


def internal_error(error_id: str) -> dict[str, str]:
    return {"error": "INTERNAL_ERROR", "message": "a bug of ours", "error_id": error_id}


_STARTED = "tallystick.started"


def _adding(scope: Scope, send: Send, more: tuple[Header, ...]) -> Send:
    """For applications that answer themselves: their answers get the headers, too, and are known to have begun."""

    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *more]
            scope[_STARTED] = True
        await send(message)

    return add


async def _collect(app: Callable[..., Awaitable[None]], scope: Scope, receive: Receive) -> tuple[Message, Message]:
    """The head and the whole body of an application's answer."""
    sent: list[Message] = []

    async def keep(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, keep)
    body = b"".join(part.get("body", b"") for part in sent[1:])
    return sent[0], {"type": "http.response.body", "body": body}


def _refusal(path: str, code: str, words: str, id: str | int | None = None) -> bytes:
    if path in _RPC_PATHS:
        return orjson.dumps(error_reply(id, INVALID_REQUEST, f"Invalid Request: {words}", {"error": code}))
    return orjson.dumps({"error": code, "message": words})


def _rpc_refusal(status: int, words: str, id: str | int | None) -> Reply:
    return status, orjson.dumps(error_reply(id, INVALID_REQUEST, words)), ()


async def _read_body(scope: Scope, receive: Receive, bytes_max: int) -> bytes | Bounded:
    """To its end, or until it is known to be too large; a client that leaves early has sent what it has sent."""
    length = scope[HEADERS_KEY].get(b"content-length", b"")
    if length.isdigit() and int(length) > bytes_max:
        return Bounded(bytes_max, is_overlong=True)
    message = await receive()
    first, more = message.get("body", b""), message.get("more_body", False)
    if not more and len(first) <= bytes_max:
        return first  # type: ignore[no-any-return]  # messages are dictionaries of anything
    body = Bounded(bytes_max)
    body.add(first)
    while more and not body.is_overlong:
        more = await _read_part(receive, body)
    return body if body.is_overlong else body.whole()


async def _seek_id(receive: Receive, body: Bounded, bytes_max: int) -> str | int | None:
    """Of a request too large. Some clients write the id last: so it is read on, within bounds, and not kept."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SEEK_SECONDS):
            while body.size <= 2 * bytes_max and await _read_part(receive, body):
                pass
    return body.find_id()


async def _read_part(receive: Receive, body: Bounded) -> bool:
    """Whether there is more."""
    message = await receive()
    body.add(message.get("body", b""))
    return message["type"] == "http.request" and bool(message.get("more_body", False))


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
