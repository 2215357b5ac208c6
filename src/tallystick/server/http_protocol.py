"""HTTP/1.1 on one connection: what it may cost before anybody knows who is behind it, and requests turned into calls.

llhttp parses; uvicorn's server listens, and makes one of these for each connection (its setting `http`). Its own
protocol has no bound on a head and no deadline for it, and of requests that come one behind the other it reads on and
on while nobody takes the answers. Here nothing of a next request is parsed before the last is answered, but for what
stands in the same few bytes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import unquote

import httptools
import orjson
import uvicorn
from starlette.types import ASGIApp, Message
from uvicorn.server import ServerState

from tallystick.server.answers import AT_ONCE, Header
from tallystick.server.connections import Connections, Doing

SLICE_BYTES = 4 * 1024
"""So much is parsed at a time: what is in it of further requests waits there, small."""
BODY_BYTES_WAITING = 64 * 1024
"""Of a body that the application has yet to take; past that nothing is read."""

logger = logging.getLogger(__name__)

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_CLOSING = b"connection: close\r\n"
_write_header = b"%b: %b\r\n".__mod__
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_EXPECTS, _EXPECTS_TOO = (b"expect", b"100-continue"), (b"expect", b"100-Continue")
_ASGI = {"version": "3.0", "spec_version": "2.3"}
_EXTENSIONS: dict[str, dict[str, Any]] = {AT_ONCE: {}}


class HttpProtocol(asyncio.Protocol):
    def __init__(
        self,
        connections: Connections,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """All but `connections` as uvicorn gives it."""
        self._connections = connections
        self._bounds = connections.bounds
        self._app = cast(ASGIApp, config.loaded_app)
        self.server_state = server_state
        self._app_state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._is_new, self._is_in_head = True, False
        self._arriving: _Exchange | None = None
        """The request whose body is not complete."""
        self._running: _Exchange | None = None
        self._waiting: deque[_Exchange] = deque()
        """Requests that came in the same few bytes as the one that runs."""
        self.unanswered = 0
        """Requests whose head is read and whose answer is not complete."""
        self._held = b""
        """What came behind a request that is not answered yet."""
        self._is_deaf = False
        """What came last is no HTTP: nothing is read behind that."""
        self._is_turned_away = False
        self._since = self._loop.time()
        """When this head, this body, or the waiting for the first of them or the next began."""
        self.stuck_since: float | None = None
        """Since when the client takes no more of what it is answered."""
        self.can_write = asyncio.Event()
        self.can_write.set()

    # -- of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._client = transport.get_extra_info("peername")
        self._server = transport.get_extra_info("sockname")
        self._scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
        self._connections.add(self)
        self.server_state.connections.add(self)  # type: ignore[arg-type]  # it lists its own protocols only

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.remove(self)
        self.server_state.connections.discard(self)
        self._held = b""
        self._waiting.clear()
        self.can_write.set()
        del self._parser  # It knows us as we know it: both would stay until the collector looks.
        for exchange in (self._running, self._arriving):
            if exchange is not None:
                exchange.leave()

    def data_received(self, data: bytes) -> None:
        if self._is_turned_away:
            self._answer_busy()
        elif self._held or (self.unanswered and self._arriving is None):
            self._hold(data)
        elif len(data) <= SLICE_BYTES:
            self._feed(data)
        else:
            self._feed_slices(data)

    def eof_received(self) -> None:
        """The transport closes itself."""

    def pause_writing(self) -> None:
        self.stuck_since = self._loop.time()
        self.can_write.clear()

    def resume_writing(self) -> None:
        self.stuck_since = None
        self.can_write.set()

    # -- of the parser

    def on_message_begin(self) -> None:
        self._url, self._headers, self._head_bytes = b"", [], 0
        self._is_in_head, self._is_new = True, False
        self._since = self._loop.time()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are told the same way, behind the body: what stands there no guard has seen.
        if self._is_in_head:
            # Blanks around a value are no part of it, but the parser leaves the trailing ones.
            self._headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._since = self._loop.time()
        version = self._parser.get_http_version()
        raw_path, query = _split(self._url)
        path = raw_path.decode("ascii")
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": self._parser.get_method().decode(),
            "scheme": self._scheme,
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "root_path": "",
            "headers": self._headers,
            "client": self._client,
            "server": self._server,
            "state": self._app_state.copy(),
            "extensions": _EXTENSIONS,
        }
        exchange = _Exchange(self, scope, keeps_alive=version != "1.0" and self._parser.should_keep_alive())
        self._arriving = exchange
        self.unanswered += 1
        if self._running is None:
            self._begin(exchange)
        else:
            self._waiting.append(exchange)

    def on_body(self, body: bytes) -> None:
        if self._arriving is not None and self._arriving.fills(body):
            self.transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._arriving is not None:
            self._arriving.complete()
            self._arriving = None

    # -- of the exchanges

    @property
    def takes_no_more(self) -> bool:
        """The server ends, and nothing else came behind what is answered now."""
        return self._connections.is_draining and not self._waiting and not self._held

    def read_on(self) -> None:
        """If nothing else is in the way."""
        is_full = self._arriving is not None and self._arriving.is_full
        if not (self._held or is_full or self.transport.is_closing()):
            self.transport.resume_reading()

    def answered(self, exchange: _Exchange) -> None:
        self.unanswered -= 1
        self._running = None
        self.server_state.tasks.discard(exchange.task)
        self._since = self._loop.time()
        if not exchange.keeps_alive:
            self.transport.close()
        elif self._waiting:
            self._begin(self._waiting.popleft())
        elif not self.transport.is_closing():
            self._connections.use(self)
            if self._held:
                held, self._held = self._held, b""
                self._feed_slices(held)
                self.read_on()

    # -- of the server and of all connections

    def shutdown(self) -> None:
        """By uvicorn: what runs is answered, nothing else."""
        self._waiting.clear()
        if self._running is None:
            self.transport.close()
        else:
            self._running.keeps_alive = False

    def doing(self) -> Doing:
        if self._is_new or (self._is_in_head and not self.unanswered):
            return Doing.NOTHING_YET
        if not self.unanswered:
            return Doing.RESTING
        return Doing.WORKING if self._arriving is None else Doing.SENDING

    def check(self, now: float) -> None:
        bounds = self._bounds
        if self._arriving is not None or self.stuck_since is not None:
            since = self._since if self.stuck_since is None else self.stuck_since
            if now - since >= bounds.body_seconds:
                self.abort()
        elif self._is_in_head or self._is_new:
            if now - self._since >= bounds.head_seconds:
                self._refuse(408)
        elif not self.unanswered and now - self._since >= bounds.rest_seconds:
            self.transport.close()

    def abort(self) -> None:
        self._connections.remove(self)
        self.transport.abort()

    def turn_away(self) -> None:
        self._is_turned_away = True

    # -- below

    def _begin(self, exchange: _Exchange) -> None:
        self._running = exchange
        exchange.task = self._loop.create_task(exchange.run(self._app))
        self.server_state.tasks.add(exchange.task)

    def _feed_slices(self, data: bytes) -> None:
        """Piece by piece, until there is a whole request in it: the rest is held until that is answered."""
        at = 0
        while at < len(data) and not self.transport.is_closing():
            if self.unanswered and self._arriving is None:
                self._hold(data[at:])
                return
            self._feed(data[at : at + SLICE_BYTES])
            at += SLICE_BYTES

    def _answer_busy(self) -> None:
        """To the first bytes of a request: an answer before them could be lost when the connection is reset."""
        if not self.transport.is_closing():
            self.transport.write(_BUSY)
            self.transport.close()

    def _hold(self, data: bytes) -> None:
        self._held += data
        self.transport.pause_reading()

    def _feed(self, data: bytes) -> None:
        if self._is_deaf:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Nobody has to take that up. But the parser takes what follows for another protocol, and leaves out the
            # body: so it is not taken for a request either.
            self._is_deaf = True
            self._end_after_answers()
            return
        except httptools.HttpParserError:
            self._is_deaf = True
            self._refuse(400)
            return
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > self._bounds.head_bytes:
                self._refuse(431)

    def _refuse(self, status: int) -> None:
        """What is no request has no answer of the application; what came before it is answered first."""
        arriving = self._arriving
        if arriving is not None and arriving is self._running and not arriving.is_begun:
            arriving.leave()
        elif self._running is not None:
            self._end_after_answers()
            return
        if not self.transport.is_closing():
            self.transport.write(_refusal(status))
            self.transport.close()

    def _end_after_answers(self) -> None:
        last = self._waiting[-1] if self._waiting else self._running
        if last is not None:
            last.keeps_alive = False


class _Exchange:
    """One request and its answer: `receive` and `send` of ASGI."""

    def __init__(self, protocol: HttpProtocol, scope: dict[str, Any], *, keeps_alive: bool) -> None:
        self._protocol = protocol
        self._scope = scope
        self.keeps_alive = keeps_alive
        self.task: asyncio.Task[None]
        self._parts: list[bytes] = []
        self._waiting_bytes = 0
        self._is_complete = self._is_taken = False
        """Whether the body is there, and whether the application knows."""
        self._expects = _EXPECTS in scope["headers"] or _EXPECTS_TOO in scope["headers"]
        """Whether the client waits for a word before it sends the body."""
        self._is_over = False
        """Answered, or its client left."""
        self.is_begun = False
        self._head = b""
        """Of the answer, until there is something of its body: they leave together."""
        self._left: int | None = None
        """How many bytes of the answer there must still be; None where it is sent in chunks."""
        self._change: asyncio.Event | None = None

    @property
    def is_full(self) -> bool:
        return self._waiting_bytes > BODY_BYTES_WAITING and not self._is_over

    async def run(self, app: ASGIApp) -> None:
        try:
            await app(self._scope, self.receive, self.send)
            if not self._is_over:
                logger.error("%s was not answered to its end", self._scope["path"])
        except Exception:
            logger.exception("%s could not be answered", self._scope["path"])
        finally:
            if not self._is_over:
                self._fail()
            self._protocol.answered(self)

    # -- what arrives

    def fills(self, body: bytes) -> bool:
        """Add to the body; whether more of it is to wait."""
        if self._is_over:
            return False
        self._parts.append(body)
        self._waiting_bytes += len(body)
        if self._change is not None:
            self._change.set()
        return self._waiting_bytes > BODY_BYTES_WAITING

    def complete(self) -> None:
        self._is_complete = True
        if self._change is not None:
            self._change.set()

    def leave(self) -> None:
        self._is_over = True
        self._wake()

    async def receive(self) -> Message:
        if self._expects and not self.is_begun and not self._is_over:
            self._expects = False
            self._protocol.transport.write(_CONTINUE)
        while not (self._parts or self._is_over or (self._is_complete and not self._is_taken)):
            self._change = self._change or asyncio.Event()
            self._change.clear()
            await self._change.wait()
        if self._is_over:
            return {"type": "http.disconnect"}
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        was_full = self._waiting_bytes > BODY_BYTES_WAITING
        self._parts, self._waiting_bytes, self._is_taken = [], 0, self._is_complete
        if was_full:
            self._protocol.read_on()
        return {"type": "http.request", "body": body, "more_body": not self._is_complete}

    # -- what is answered

    async def send(self, message: Message) -> None:
        if self._protocol.stuck_since is not None:
            await self._protocol.can_write.wait()
        if self._is_over:
            return
        if message["type"] == AT_ONCE:
            body = message["body"]
            headers = (*self._protocol.server_state.default_headers, *message["headers"])
            head = _written_before(message["status"], headers)
            closing = _CLOSING if self._is_last() else b""
            self.is_begun = True
            self._protocol.transport.write(b"%bcontent-length: %d\r\n%b\r\n%b" % (head, len(body), closing, body))
            self._finish()
        elif not self.is_begun:
            self._start(message)
        else:
            self._go_on(message.get("body", b""), more=message.get("more_body", False))

    def _start(self, message: Message) -> None:
        given = dict(message.get("headers", ()))
        length = given.get(b"content-length")
        has_body = self._scope["method"] != "HEAD" and message["status"] not in (204, 304)
        lines = []
        if b"close" in given.get(b"connection", b"").lower():
            self.keeps_alive = False
        elif self._is_last():
            lines.append(_CLOSING)
        if not has_body:
            self._left = 0
        elif length is not None:
            self._left = int(length)
        else:
            lines.append(b"transfer-encoding: chunked\r\n")
        self._head = self._write_head(message, lines)

    def _write_head(self, message: Message, more: Sequence[bytes]) -> bytes:
        """With these lines of ours behind the headers."""
        headers = (*self._protocol.server_state.default_headers, *message.get("headers", ()))
        head = _written(message["status"], headers)
        self.is_begun = True
        return b"".join((head, *more, b"\r\n"))

    def _go_on(self, body: bytes, *, more: bool) -> None:
        data = self._head + self._framed(body, more=more)
        if data:
            self._protocol.transport.write(data)
        self._head = b""
        if not more:
            if self._left:
                raise RuntimeError("the answer is shorter than its Content-Length")
            self._finish()

    def _is_last(self) -> bool:
        """Of its connection."""
        if self._protocol.takes_no_more:
            self.keeps_alive = False
        return not self.keeps_alive

    def _finish(self) -> None:
        # Who waited to be asked for a body may send it now or not: what comes next has no one meaning.
        self.keeps_alive = self.keeps_alive and not self._expects
        self._is_over = True
        self._wake()

    def _framed(self, body: bytes, *, more: bool) -> bytes:
        if self._left is None:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return chunk if more else chunk + b"0\r\n\r\n"
        if self._scope["method"] == "HEAD":
            return b""
        if len(body) > self._left:
            raise RuntimeError("the answer is longer than its Content-Length")
        self._left -= len(body)
        return body

    def _fail(self) -> None:
        self.keeps_alive = False
        if not self.is_begun:
            self._protocol.transport.write(_refusal(HTTPStatus.INTERNAL_SERVER_ERROR))
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._change is not None:
            self._change.set()


def _written(status: int, headers: Sequence[Header]) -> bytes:
    lines = (_STATUS_LINES[status], *map(_write_header, headers))
    head = b"".join(lines)
    if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
        raise RuntimeError("a header of the answer has more than one line")
    return head


_written_before = lru_cache(maxsize=256)(_written)
"""For answers of which one after the other has the same head: the calls of a session, until the clock moves on."""


def _refusal(status: int) -> bytes:
    return b"%b%bcontent-length: 0\r\n\r\n" % (_STATUS_LINES[status], _CLOSING)


_BUSY_BODY = orjson.dumps(
    {
        "error": "TOO_MANY_CONNECTIONS",
        "message": "this server has as many connections as it may have, and all of them are in use",
        "hint": "try again in a moment; http_connections_max, and the limit of open files, bound them",
    }
)
_BUSY = b"%b%bretry-after: 1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
    _STATUS_LINES[503],
    _CLOSING,
    len(_BUSY_BODY),
    _BUSY_BODY,
)


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query, of what clients send to proxies, too."""
    if not url.startswith(b"/"):
        found = httptools.parse_url(url)
        return found.path or b"/", found.query or b""
    path, _, query = url.partition(b"?")
    return path, query
