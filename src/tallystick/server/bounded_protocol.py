"""What a connection may cost before anybody knows who is behind it: bytes of a head, time, requests at once.

Stands between the socket and uvicorn's protocol and speaks asyncio's own interfaces to both: it is the
protocol of the real transport, and hands uvicorn a transport whose reading it decides on. A parser
(the one that uvicorn uses) tells where in a request the bytes are. uvicorn has no such bounds of its
own: with httptools a head may have any length and take any time, and of requests that come one behind
the other it reads on and on while nobody takes the answers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, cast

import httptools
import msgspec
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

STATE_KEY = "tallystick.connection"
SLICE_BYTES = 4 * 1024
"""So much is parsed at a time: what is in it of further requests waits there, small."""
_TURNS_PER_DEADLINE = 10


class Bounds(msgspec.Struct, frozen=True):
    head_bytes: int = 64 * 1024
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    """For a body to arrive, and for a client to take what it is answered."""
    connections: int = 512


class Connections:
    """All of one server. A connection too many takes the place of another that waits for its client."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._open: dict[BoundedProtocol, None] = {}
        """The longest unused first."""

    def protocol(self, **given: Any) -> BoundedProtocol:
        """A factory as uvicorn wants it: `given` is for its own protocol."""
        return BoundedProtocol(self, given)

    def add(self, connection: BoundedProtocol) -> None:
        if len(self._open) >= self.bounds.connections:
            self._choose(connection).abort()
        self._open[connection] = None

    def _choose(self, last: BoundedProtocol) -> BoundedProtocol:
        """Who goes: of those that never asked anything, that rest, that are slow to say what they want, the oldest."""
        for waits in (BoundedProtocol.is_before_head, BoundedProtocol.is_resting, BoundedProtocol.is_before_body):
            found = next((each for each in self._open if waits(each)), None)
            if found is not None:
                return found
        return last

    def use(self, connection: BoundedProtocol) -> None:
        if self._open.pop(connection, self) is None:
            self._open[connection] = None

    def remove(self, connection: BoundedProtocol) -> None:
        self._open.pop(connection, None)

    async def watch(self) -> None:
        """One task for all, since a timer for each request costs more than the bounds."""
        seconds = min(self.bounds.head_seconds, self.bounds.body_seconds) / _TURNS_PER_DEADLINE
        while True:
            await asyncio.sleep(seconds)
            now = asyncio.get_running_loop().time()
            for connection in list(self._open):
                connection.check(now)


class BoundedProtocol(asyncio.Protocol):
    """One connection. Nothing of a next request is handed on before the last is answered."""

    def __init__(self, connections: Connections, given: dict[str, Any]) -> None:
        self._connections = connections
        self._bounds = connections.bounds
        self._loop = asyncio.get_running_loop()
        state = {**given.get("app_state", {}), STATE_KEY: self}
        self._inner = _uvicorns()(**{**given, "app_state": state})
        self._parser = httptools.HttpRequestParser(self)
        self._is_in_head = self._is_in_body = False
        self._head_bytes = self._headers = 0
        self._header_counts: deque[int] = deque()
        self.unanswered = 0
        """Requests whose head is read and whose answer is not complete."""
        self._held = b""
        """What came behind a request that is not answered yet."""
        self._since = self._loop.time()
        """When this head, this body, or the waiting for the first of them began."""
        self._is_new = True
        self._stuck_since: float | None = None
        """Since when the client takes no more of what it is answered."""

    # -- of the real transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._reading = _Transport(self._transport)
        self._connections.add(self)
        self._inner.connection_made(cast(asyncio.Transport, self._reading))

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self._held = b""
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._held or (self.unanswered and not self._is_in_body):
            self._hold(data)
        else:
            self._feed(data)

    def eof_received(self) -> None:
        self._inner.eof_received()

    def pause_writing(self) -> None:
        self._stuck_since = self._loop.time()
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._stuck_since = None
        self._inner.resume_writing()

    # -- of the parser

    def on_message_begin(self) -> None:
        self._is_in_head, self._is_new = True, False
        self._head_bytes = self._headers = 0
        self._since = self._loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are told the same way, behind the head.
        if self._is_in_head:
            self._headers += 1

    def on_headers_complete(self) -> None:
        self._is_in_head, self._is_in_body = False, True
        self._header_counts.append(self._headers)
        self.unanswered += 1
        self._since = self._loop.time()

    def on_message_complete(self) -> None:
        self._is_in_body = False

    # -- of the application, by `counted`

    def begin(self) -> int:
        """How many of the headers that uvicorn tells are of the head: it adds those of the trailers."""
        return self._header_counts.popleft()

    def end(self) -> None:
        self.unanswered -= 1
        if not self.unanswered:
            self._connections.use(self)
            if self._held:
                # uvicorn is not done with the answer yet.
                self._loop.call_soon(self._go_on)

    # -- of all connections

    def is_before_head(self) -> bool:
        return self._is_new or (self._is_in_head and not self.unanswered)

    def is_resting(self) -> bool:
        return not self.unanswered

    def is_before_body(self) -> bool:
        return self._is_in_body

    def check(self, now: float) -> None:
        bounds = self._bounds
        if self._is_in_body or self._stuck_since is not None:
            since = self._since if self._stuck_since is None else self._stuck_since
            if now - since >= bounds.body_seconds:
                self.abort()
        elif (self._is_in_head or self._is_new) and now - self._since >= bounds.head_seconds:
            self._refuse(408, b"Request Timeout")

    def abort(self) -> None:
        self._connections.remove(self)
        self._transport.abort()

    # -- below

    def _feed(self, data: bytes) -> None:
        """Piece by piece, until there is a whole request in it: the rest is held until that is answered."""
        while data and not self._transport.is_closing():
            if self.unanswered and not self._is_in_body:
                self._hold(data)
                return
            piece, data = data[:SLICE_BYTES], data[SLICE_BYTES:]
            # What is wrong with it uvicorn finds, too, and says so.
            with suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
                self._parser.feed_data(piece)
            self._inner.data_received(piece)
            if self._is_in_head:
                self._head_bytes += len(piece)
                if self._head_bytes > self._bounds.head_bytes:
                    self._refuse(431, b"Request Header Fields Too Large")

    def _hold(self, data: bytes) -> None:
        self._held += data
        self._reading.hold(True)

    def _go_on(self) -> None:
        if self.unanswered or not self._held:
            return
        held, self._held = self._held, b""
        self._feed(held)
        if not self._held:
            self._reading.hold(False)

    def _refuse(self, status: int, reason: bytes) -> None:
        """In the place of uvicorn, which has nothing to say as long as there is no whole head."""
        if not self.unanswered and not self._transport.is_closing():
            self._transport.write(
                b"HTTP/1.1 %d %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % (status, reason)
            )
        self._transport.close()


class _Transport:
    """The transport that uvicorn has: read while neither it nor we want a pause."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._is_held = self._is_paused = False
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = transport.close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def pause_reading(self) -> None:
        self._is_paused = True
        self._decide()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._decide()

    def hold(self, is_held: bool) -> None:
        self._is_held = is_held
        self._decide()

    def _decide(self) -> None:
        if self._transport.is_closing():
            return
        # Both may be said again and again.
        if self._is_held or self._is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


@cache
def _uvicorns() -> Callable[..., asyncio.Protocol]:
    """The protocol that uvicorn would use by itself, by its own configuration: where its module lies is its affair."""
    config = uvicorn.Config(_nothing, http="httptools", ws="none", log_config=None)
    config.load()
    return config.http_protocol_class


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """No application: `load` wants one."""


def counted(app: ASGIApp) -> ASGIApp:
    """The application as the connections see it: when a request begins and when it is answered."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        connection: BoundedProtocol | None = scope.get("state", {}).pop(STATE_KEY, None)
        if connection is None or scope["type"] != "http":
            return await app(scope, receive, send)
        scope["headers"] = scope["headers"][: connection.begin()]
        try:
            await app(scope, receive, send)
        finally:
            connection.end()

    return serve
