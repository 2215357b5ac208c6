"""The fast path over HTTP, in two parts: what the head of a request decides, and what its body does.

As the innermost middleware it serves whoever was admitted, their body read. `ShortCut` stands beside
the middleware, for a protocol that has a whole request in its hands: it asks the same guards in the
same order, and what any of them would not let pass it leaves to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Mapping
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import orjson
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tallystick.server import Client, Offer
from tallystick.server.answers import JSON, Header, Reply, send_json
from tallystick.server.dispatch import call
from tallystick.server.fast_path import HANDSHAKE, VERSION_KEY, Era, PlainCall, cancel_key, find_call, write_reply
from tallystick.server.guards import MESSAGE_KEY, Headers, Names, is_page, trimmed
from tallystick.server.jsonrpc import INTERNAL_ERROR, WireFault, error_reply, parse_message
from tallystick.server.oauth import SCOPE_KEY, Identity
from tallystick.telemetry import tracing
from tallystick.toolsets import Tool

if TYPE_CHECKING:
    from tallystick.server.oauth.guard import Admission

REQUEST_CANCELLED = -32800
SMALL_BYTES = 64 * 1024
"""Bodies past this one take the long way: what they cost is not in the way."""


class Sessions(Protocol):
    """What the SDK knows of the sessions of the handshake era."""

    def find(self, id: bytes, identity: Identity | None) -> Any | None:
        """One that is open, introduced and the caller's own; None is for the SDK to answer."""

    def is_open(self, id: bytes) -> bool: ...

    def client(self, session: Any) -> Client: ...

    def touch(self, session: Any) -> None:
        """It was used just now."""

    def hold(self, session: Any) -> None:
        """It does not expire until it is let go."""

    def release(self, session: Any) -> None: ...


class Protocols(msgspec.Struct, frozen=True):
    """What the fast path is told of the SDK."""

    handshake: frozenset[bytes]
    """The versions of the handshake era; no header means the oldest."""
    modern: Mapping[bytes, Era]
    envelope: Callable[[bytes], bool]
    """Whether the SDK would take these reserved members of `_meta`, as JSON, in the modern era."""
    sessions: Sessions


class Plan(msgspec.Struct, frozen=True):
    """What the head alone says of a call that the fast path may take."""

    era: Era
    version: bytes | None
    name: bytes | None
    """The tool's, in the modern era."""
    session: bytes | None
    """Its id, before that era."""

    @property
    def headers(self) -> tuple[Header, ...]:
        """Those of its answers."""
        return () if self.session is None else ((b"mcp-session-id", self.session),)


Call = Coroutine[Any, Any, Reply]


class FastPath:
    """The calls that run in it, whichever way they came."""

    def __init__(self, offer: Offer, protocols: Protocols):
        self._offer = offer
        self._protocols = protocols
        self._sessions = protocols.sessions
        self._running: dict[bytes, dict[str | int, _Running]] = {}
        """The calls of each session, by the id they can be cancelled by."""
        self._repeats: dict[str, bool] = {}
        """Whether headers have to repeat some argument of a tool, which is for the SDK to compare."""

    def plan(self, headers: Headers) -> Plan | None:
        """None is for the SDK."""
        given = dict(headers)
        # A header given twice means one thing to one reader and another to the next.
        if len(given) != len(headers) or not _is_plain_json(given):
            return None
        version = given.get(b"mcp-protocol-version")
        if version is None or version in self._protocols.handshake:
            session = given.get(b"mcp-session-id")
            return None if session is None else Plan(HANDSHAKE, version, None, session)
        era, name = self._protocols.modern.get(version), given.get(b"mcp-name")
        if era is None or name is None or given.get(b"mcp-method") != b"tools/call":
            return None
        return None if any(header[:10] == b"mcp-param-" for header in given) else Plan(era, version, name, None)

    def begin(self, plan: Plan, message: dict[str, Any], scope: Scope) -> Call | None:
        """The call, to be awaited at once; None is for the SDK. The caller was admitted: `scope` says who it is."""
        if plan.session is None:
            call = find_call(message, self._offer.tools, self._protocols.envelope)
            if call is None or not _mirrors(plan, message) or self._is_repeated(call.entry.tool):
                return None
            return self._run(call, scope, plan.era, Client(call.client))
        session = self._sessions.find(plan.session, scope.get(SCOPE_KEY))
        call = None if session is None else find_call(message, self._offer.tools, None)
        if call is None:
            return None
        running = self._run(call, scope, HANDSHAKE, self._sessions.client(session))
        return self._run_in_session(plan.session, session, call.id, running)

    def _is_repeated(self, tool: Tool) -> bool:
        known = self._repeats.get(tool.name)
        if known is None:
            known = self._repeats[tool.name] = b'"x-mcp-header"' in orjson.dumps(tool.input.model_json_schema())
        return known

    async def _run(self, plain: PlainCall, scope: Scope, era: Era, client: Client) -> Reply:
        offer, entry = self._offer, plain.entry
        writes = not entry.tool.reads_only
        if tracing.tracer is not None:
            tracing.arrive(scope["headers"])
        outcome = await call(
            entry, plain.arguments, offer.store, lambda: offer.caller(Request(scope), client, writes=writes)
        )
        return *write_reply(offer, plain, outcome, era), ()

    async def _run_in_session(self, id: bytes, session: Any, call_id: str | int, running: Call) -> Reply:
        try:
            waits_for = running.send(None)
        except StopIteration as done:
            # Most reads: they were never there for anybody to cancel.
            self._sessions.touch(session)
            reply: Reply = done.value
            return reply
        self._sessions.hold(session)
        try:
            return await self._run_cancellable(id, call_id, _Begun(running, waits_for))
        finally:
            self._sessions.release(session)

    async def _run_cancellable(self, session: bytes, id: str | int, begun: _Begun) -> Reply:
        task = asyncio.current_task()
        assert task is not None
        running, key = _Running(task, id), cancel_key(id)
        calls = self._running.setdefault(session, {})
        calls[key] = running
        try:
            return await begun
        except asyncio.CancelledError:
            # Ours only if the client asked for it, and nobody else asked at the same time.
            if running.instead is None or task.uncancel() > 0:
                raise
            return running.instead
        finally:
            if calls.get(key) is running:
                del calls[key]
            if not calls and self._running.get(session) is calls:
                del self._running[session]

    def see_cancel(self, scope: Scope, params: Any) -> None:
        """The SDK acknowledges it; the call, if it is in this lane, ends here."""
        id, named = _session_id(scope), (params or {}).get("requestId")
        if id not in self._running or not isinstance(named, str | int) or isinstance(named, bool):
            return
        running = self._running[id].get(cancel_key(named))
        if running is not None and self._sessions.find(id, scope.get(SCOPE_KEY)) is not None:
            running.end((200, orjson.dumps(error_reply(running.id, REQUEST_CANCELLED, "Request cancelled")), ()))

    def see_end(self, scope: Scope) -> None:
        id = _session_id(scope)
        if id in self._running and not self._sessions.is_open(id):
            words = "Session terminated before the request completed"
            for running in self._running[id].values():
                running.end((500, orjson.dumps(error_reply(None, INTERNAL_ERROR, words)), ()))


class FastPathEndpoint:
    """The innermost middleware: which lane a request takes is chosen when all guards are behind it."""

    def __init__(self, app: ASGIApp, *, fast_path: FastPath, path: str, direct: Mapping[str, ASGIApp]):
        """`direct` are paths whose POST needs no routing."""
        self._app = app
        self._fast_path = fast_path
        self._path = path
        self._direct = direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            path = scope["path"]
            if path == self._path:
                return await self._rpc(scope, receive, send)
            return await self._direct.get(path, self._app)(scope, receive, send)
        await self._app(scope, receive, send)
        if scope["type"] == "http" and scope["method"] == "DELETE" and scope["path"] == self._path:
            self._fast_path.see_end(scope)

    async def _rpc(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = scope[MESSAGE_KEY]
        if message.get("method") == "tools/call":
            plan = self._fast_path.plan(scope["headers"])
            answer = None if plan is None else self._fast_path.begin(plan, message, scope)
            if plan is not None and answer is not None:
                status, body, more = await answer
                return await send_json(send, status, body, *plan.headers, *more)
        elif message.get("method") == "notifications/cancelled":
            self._fast_path.see_cancel(scope, message.get("params"))
        await self._app(scope, receive, send)


class Way(msgspec.Struct, frozen=True):
    """What the head of a request decides, once for all requests that have the same."""

    scope: Scope
    token: bytes | None
    """What the caller's token is known by."""
    begin: Callable[[Scope, bytes], Call | None]
    headers: bytes
    """Of every answer, each with its end of line."""


class Direct(Protocol):
    """What stands at a path and answers every body."""

    def answer(self, scope: Scope, body: bytes) -> Call: ...


class ShortCut:
    """Past the middleware, for a request that came whole. None, everywhere, is for the middleware to judge."""

    def __init__(
        self,
        fast_path: FastPath,
        *,
        path: str,
        direct: Mapping[str, Direct],
        names: Names,
        admission: Admission | None,
        body_bytes_max: int,
    ) -> None:
        self._fast_path = fast_path
        self._path = path
        self._direct = direct
        self._names = names
        self._admission = admission
        self.body_bytes_max = min(body_bytes_max, SMALL_BYTES)

    def way(self, scope: Scope) -> Way | None:
        """The guards of names and of pages, which need but the head; and where it leads."""
        headers: Headers = trimmed(scope["headers"])
        if self._names.fault(headers) is not None or is_page(headers):
            return None
        token = None if self._admission is None else self._admission.digest(headers)
        if token is None and self._admission is not None:
            return None
        begin, told = self._led(scope["path"], headers)
        lines = b"".join(b"%b: %b\r\n" % header for header in (JSON, *told))
        return None if begin is None else Way({**scope, "headers": headers}, token, begin, lines)

    def admit(self, way: Way) -> Scope | None:
        """The guard of tokens, for each request anew; nothing of a body is looked at before."""
        if self._admission is None:
            return way.scope
        identity = None if way.token is None else self._admission.find(way.token)
        return None if identity is None else {**way.scope, SCOPE_KEY: identity}

    def _led(
        self, path: str, headers: Headers
    ) -> tuple[Callable[[Scope, bytes], Call | None] | None, tuple[Header, ...]]:
        if path != self._path:
            direct = self._direct.get(path)
            return (None if direct is None else direct.answer), ()
        plan = self._fast_path.plan(headers)
        return (None, ()) if plan is None else (partial(self._rpc, plan), plan.headers)

    def _rpc(self, plan: Plan, admitted: Scope, body: bytes) -> Call | None:
        """The guard of bodies, and the fast path."""
        try:
            message = parse_message(body)
        except WireFault:
            return None
        return self._fast_path.begin(plan, message, admitted)


class _Begun:
    """The rest of a coroutine, by the same task, after its first step led to something that it waits for."""

    def __init__(self, running: Call, waits_for: Any) -> None:
        self._running = running
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, Reply]:
        while True:
            try:
                yield self._waits_for
            except BaseException as error:
                try:
                    self._waits_for = self._running.throw(error)
                except StopIteration as done:
                    reply: Reply = done.value
                    return reply
            else:
                return (yield from self._running.__await__())


class _Running:
    def __init__(self, task: asyncio.Task[Any], id: str | int) -> None:
        self._task = task
        self.id = id
        self.instead: Reply | None = None
        """What is answered once it was cancelled."""

    def end(self, instead: Reply) -> None:
        if self.instead is None:
            self.instead = instead
            self._task.cancel()


def _session_id(scope: Scope) -> bytes:
    return next((value for name, value in scope["headers"] if name == b"mcp-session-id"), b"")


def _is_plain_json(headers: dict[bytes, bytes]) -> bool:
    kind = headers.get(b"content-type", b"")
    return (kind == b"application/json" or kind.startswith(b"application/json;")) and _accepts_json(
        headers.get(b"accept", b"")
    )


@lru_cache(maxsize=256)
def _accepts_json(accept: bytes) -> bool:
    kinds = {kind.partition(b";")[0].strip().lower() for kind in accept.split(b",")}
    return not kinds.isdisjoint((b"application/json", b"application/*", b"*/*"))


def _mirrors(plan: Plan, message: dict[str, Any]) -> bool:
    """In the modern era the headers repeat what the message says, for intermediaries that don't read bodies."""
    name: str = message["params"]["name"]
    version: str = message["params"]["_meta"][VERSION_KEY]
    return name.encode() == plan.name and version.encode() == plan.version
