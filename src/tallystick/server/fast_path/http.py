"""The fast path over HTTP: which calls it takes, and the calls that run and can be cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
import orjson
from starlette.types import Scope

from tallystick.server import Client, Offer
from tallystick.server.answers import Reply
from tallystick.server.dispatch import call
from tallystick.server.fast_path import (
    MESSAGE,
    VERSION_KEY,
    Era,
    PlainCall,
    cancel_key,
    find_call,
    handshake_era,
    write_reply,
)
from tallystick.server.fast_path.handshake import hello_result, server_info
from tallystick.server.guards import HEADERS_KEY
from tallystick.server.http_sessions import Session
from tallystick.server.jsonrpc import INTERNAL_ERROR, error_reply
from tallystick.server.listing import Listing
from tallystick.telemetry import tracing
from tallystick.toolsets import Tool

REQUEST_CANCELLED = -32800
T = TypeVar("T")
Call = Coroutine[Any, Any, Reply]


class Protocols(msgspec.Struct, frozen=True):
    """What the fast path is told of the SDK."""

    handshake: frozenset[bytes]
    """The versions of the handshake era; no header means the oldest."""
    modern: Mapping[bytes, Era]
    envelope: Callable[[bytes], bool]
    """Whether the SDK would take these reserved members of `_meta`, as JSON, in the modern era."""


class FastPath:
    """Each method gives the call, to be awaited at once; None is for the SDK. The caller was admitted before."""

    def __init__(self, offer: Offer, protocols: Protocols) -> None:
        self._offer = offer
        self._protocols = protocols
        self._repeats: dict[str, bool] = {}
        """Whether headers have to repeat some argument of a tool, which is for the SDK to compare."""

    def in_session(self, session: Session, message: dict[str, Any], scope: Scope) -> Call | None:
        if not _is_plain(scope):
            return None
        plain = find_call(message, self._offer.tools, None)
        return None if plain is None else self._run(plain, scope, handshake_era(session.version), session.said())

    def without_session(self, message: dict[str, Any], scope: Scope) -> Call | None:
        """In the modern era the headers repeat what the message says, for intermediaries that don't read bodies."""
        given = scope[HEADERS_KEY]
        version, name = given.get(b"mcp-protocol-version", b""), given.get(b"mcp-name")
        era = self._protocols.modern.get(version)
        if era is None or name is None or given.get(b"mcp-method") != b"tools/call":
            return None
        if not _is_plain(scope) or b"mcp-param-" in b" ".join(given):
            return None
        plain = find_call(message, self._offer.tools, self._protocols.envelope, asks=self._offer.confirms)
        if plain is None or self._is_repeated(plain.entry.tool):
            return None
        params = message["params"]
        if params["name"].encode() != name or params["_meta"][VERSION_KEY].encode() != version:
            return None
        return self._run(plain, scope, era, Client(plain.client))

    def _is_repeated(self, tool: Tool) -> bool:
        known = self._repeats.get(tool.name)
        if known is None:
            known = self._repeats[tool.name] = b'"x-mcp-header"' in orjson.dumps(tool.input.model_json_schema())
        return known

    async def _run(self, plain: PlainCall, scope: Scope, era: Era, client: Client) -> Reply:
        offer, entry = self._offer, plain.entry
        if tracing.tracer is not None:
            tracing.arrive(scope["headers"])
        outcome = await call(entry, plain.arguments, offer.store, lambda: offer.caller(scope, entry.tool, client))
        return *write_reply(offer, plain, outcome, era), ()


class Hello:
    """Answers an `initialize` that has nothing unusual; None is for the SDK."""

    def __init__(self, offer: Offer) -> None:
        self._listing = Listing(offer)
        self._server = server_info(offer)

    def result(self, scope: Scope, message: dict[str, Any]) -> dict[str, Any] | None:
        params = message.get("params")
        if not _is_plain(scope) or not params or message.keys() != MESSAGE:
            return None
        return hello_result(params, self._listing, self._server, pushes=False)


class RunningRequests:
    """The requests of each session that wait for something, by the id they can be cancelled by."""

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str | int, _Running]] = {}

    async def run(self, session: str, id: str | int, work: Awaitable[T]) -> T | Reply:
        """What the work returns, or what is to be answered because the client ended it."""
        task = asyncio.current_task()
        assert task is not None
        running, key = _Running(task, id), cancel_key(id)
        calls = self._sessions.setdefault(session, {})
        calls[key] = running
        try:
            return await work
        except asyncio.CancelledError:
            # Ours only if the client asked for it, and nobody else asked at the same time.
            if running.instead is None or task.uncancel() > 0:
                raise
            return running.instead
        finally:
            if calls.get(key) is running:
                del calls[key]
            if not calls and self._sessions.get(session) is calls:
                del self._sessions[session]

    def cancel(self, session: str, params: Any) -> None:
        named = (params or {}).get("requestId")
        if not isinstance(named, str | int) or isinstance(named, bool):
            return
        running = self._sessions.get(session, {}).get(cancel_key(named))
        if running is not None:
            running.end((200, orjson.dumps(error_reply(running.id, REQUEST_CANCELLED, "Request cancelled")), ()))

    @property
    def sessions(self) -> list[str]:
        """Those with requests that wait."""
        return list(self._sessions)

    def end(self, session: str) -> None:
        words = "Session terminated before the request completed"
        for running in self._sessions.get(session, {}).values():
            running.end((500, orjson.dumps(error_reply(running.id, INTERNAL_ERROR, words)), ()))


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


def _is_plain(scope: Scope) -> bool:
    """JSON for JSON, and no header given twice: that means one thing to one reader and another to the next."""
    given = scope[HEADERS_KEY]
    kind = given.get(b"content-type", b"")
    is_json = kind == b"application/json" or kind.startswith(b"application/json;")
    return is_json and len(given) == len(scope["headers"]) and _accepts_json(given.get(b"accept", b""))


@lru_cache(maxsize=256)
def _accepts_json(accept: bytes) -> bool:
    kinds = {kind.partition(b";")[0].strip().lower() for kind in accept.split(b",")}
    return not kinds.isdisjoint((b"application/json", b"application/*", b"*/*"))
