"""HTTP/1.1 as uvicorn speaks it, and a short cut for a small call that comes by itself.

The short cut reads no HTTP of its own making. A head is read by llhttp, as uvicorn has it done, and a
head of the same bytes but for the digits of its Content-Length says the same again. Whatever is odd in
any way (chunked, pipelined, `Expect`, HTTP/1.0, another path, a client that does not read) is
uvicorn's, from its first byte on; so are all requests that a guard or the fast path would not let pass.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

import httptools
import msgspec
import orjson
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tallystick.server.answers import Header
from tallystick.server.dispatch import broken
from tallystick.server.fast_path.http import Call, ShortCut, Way
from tallystick.server.guards import VARY, Headers, internal_error

HEADS_MAX = 4
"""Remembered for each connection: a client says much the same each time. With the connection they are forgotten."""
HEAD_BYTES_MAX = 16 * 1024
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,8})\r\n", re.IGNORECASE)
_HEAD_END = b"\r\n\r\n"


class Head(msgspec.Struct, frozen=True):
    """What stands before and behind the digits of the Content-Length, and where such requests go."""

    before: bytes
    behind: bytes
    way: Way | None
    """None for uvicorn's."""

    def sizes(self, data: bytes) -> tuple[int, int] | None:
        """If the data begins like this: the bytes of head and body."""
        if not data.startswith(self.before):
            return None
        start = len(self.before)
        end = data.find(b"\r", start, start + 9)
        if end < 0 or not data.startswith(self.behind, end):
            return None
        digits = data[start:end]
        return (end + len(self.behind), int(digits)) if digits.isdigit() else None


class _Arriving(msgspec.Struct):
    """A request whose caller is admitted, and whose body is on its way."""

    way: Way
    admitted: Scope
    head_bytes: int
    bytes: int
    data: bytearray


class Protocol(HttpToolsProtocol):
    """One connection. Either uvicorn is at work on it, or a call of the short cut, or nobody."""

    def __init__(self, *given: Any, short_cut: ShortCut | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        # Only uvicorn writes an access log.
        self._short_cut = None if self.access_log else short_cut
        self._heads: list[Head] = []
        self._is_between = True
        """Whether llhttp has seen the end of all that it has seen the beginning of."""
        self._is_in_head = False
        self._arriving: _Arriving | None = None
        self._is_answering = False
        self._behind: list[bytes] = []
        """What came while a call of the short cut is answered."""
        self._is_last = False
        self._rested_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's too
        self._joined = Joined(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._joined))

    def data_received(self, data: bytes) -> None:
        if self._is_answering:
            self._behind.append(data)
            self.flow.pause_reading()
        elif self._arriving is not None:
            self._arriving.data += data
            self._go_on(self._arriving)
        elif self._short_cut is None or not self._is_free() or not self._enter(self._short_cut, data):
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arriving = None
        self._behind.clear()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        self._is_last = True
        if self._arriving is not None:
            self._leave(self._arriving)
        if not self._is_answering:
            super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        """Armed once by the short cut, and armed again as long as the connection is used."""
        if self._joined.is_closing():
            return
        left = self._rested_at + self.timeout_keep_alive - self.loop.time()
        if self._is_answering or self._arriving is not None or left > 0.01:
            self.timeout_keep_alive_task = self.loop.call_later(
                left if left > 0.01 else self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        else:
            super().timeout_keep_alive_handler()

    def on_message_begin(self) -> None:
        self._is_between = False
        self._is_in_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # llhttp tells trailers the same way, and uvicorn would add them to the headers, behind every guard's back.
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_between = True
        super().on_message_complete()

    # -- the way in

    def _is_free(self) -> bool:
        return (
            self._is_between
            and getattr(self.cycle, "response_complete", True)
            and not self.pipeline
            and not self.flow.write_paused
        )

    def _enter(self, short_cut: ShortCut, data: bytes) -> bool:
        """False where nothing was begun, and all of the data is uvicorn's."""
        for head in self._heads:
            sizes = head.sizes(data)
            if sizes is not None:
                break
        else:
            known = self._learn(short_cut, data)
            if known is None:
                return False
            head, sizes = known
        head_bytes, body_bytes = sizes
        if head.way is None or not 0 < body_bytes <= short_cut.body_bytes_max:
            return False
        size = head_bytes + body_bytes
        if len(data) > size:
            return False
        admitted = short_cut.admit(head.way)
        if admitted is None:
            return False
        if len(data) < size:
            self._arriving = _Arriving(head.way, admitted, head_bytes, size, bytearray(data))
            return True
        return self._begin(head.way, admitted, data[head_bytes:])

    def _learn(self, short_cut: ShortCut, data: bytes) -> tuple[Head, tuple[int, int]] | None:
        end = data.find(_HEAD_END, 0, HEAD_BYTES_MAX)
        if end < 0 or not data.startswith(b"POST "):
            return None
        raw = data[: end + len(_HEAD_END)]
        length = _LENGTH.search(raw)
        if length is None:
            return None
        read = read_head(raw)
        way = None if read is None else short_cut.way(self._scope(*read))
        head = Head(raw[: length.start(1)], raw[length.end(1) :], way)
        self._heads = [head, *self._heads[: HEADS_MAX - 1]]
        return head, (len(raw), int(length[1]))

    def _scope(self, url: bytes, headers: Headers) -> Scope:
        """As uvicorn's, for a path without a query or escapes: no other is known to the short cut."""
        return {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": "1.1",
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "method": "POST",
            "path": url.decode("latin-1"),
            "raw_path": url,
            "query_string": b"",
            "headers": headers,
            "state": self.app_state,
        }

    def _go_on(self, arriving: _Arriving) -> None:
        if len(arriving.data) < arriving.bytes:
            return
        whole = bytes(arriving.data)
        self._arriving = None
        is_alone = len(whole) == arriving.bytes
        if not is_alone or not self._begin(arriving.way, arriving.admitted, whole[arriving.head_bytes :]):
            super().data_received(whole)

    def _leave(self, arriving: _Arriving) -> None:
        """Let uvicorn wait for the rest."""
        self._arriving = None
        super().data_received(bytes(arriving.data))

    def _begin(self, way: Way, admitted: Scope, body: bytes) -> bool:
        call = way.begin(admitted, body)
        if call is None:
            return False
        self._is_answering = True
        self._task = self.loop.create_task(self._answer(call, way))
        # The server waits for these when it is told to end.
        self.tasks.add(self._task)
        return True

    # -- the way out

    async def _answer(self, call: Call, way: Way) -> None:
        try:
            status, body, more = await call
        except Exception:
            status, body, more = 500, orjson.dumps(internal_error(broken(way.scope["path"]).error_id)), ()
        except asyncio.CancelledError:
            self._joined.close()
            raise
        finally:
            self.tasks.discard(self._task)
        self._is_answering = False
        if not self._joined.is_closing():
            self._write(status, body, way.headers + (_lines(*more, VARY) if more else _VARY))
            self._rest()

    def _write(self, status: int, body: bytes, headers: bytes) -> None:
        ours = _lines(*self.server_state.default_headers)
        close = b"connection: close\r\n" if self._is_last else b""
        self._joined.write_now(
            b"%b%bcontent-length: %d\r\n%b%b\r\n%b" % (STATUS_LINE[status], ours, len(body), headers, close, body)
        )

    def _rest(self) -> None:
        self.server_state.total_requests += 1
        if self._is_last:
            self._joined.close()
            return
        self._rested_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
        if self._behind:
            behind = b"".join(self._behind)
            self._behind.clear()
            self.flow.resume_reading()
            self.data_received(behind)


def _lines(*headers: Header) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


_VARY = _lines(VARY)


class Joined:
    """A transport that writes at the end of the turn. Everything else is the transport's.

    uvicorn hands over the head and the body of an answer apart; each would be a system call and wake the client.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def write_now(self, data: bytes) -> None:
        if self._parts:
            self._flush()
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))


class _Reading:
    """What llhttp tells."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: Headers = []
        self.is_head_complete = False
        self.is_past_head = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.is_head_complete = True

    def on_body(self, body: bytes) -> None:
        self.is_past_head = True

    def on_message_complete(self) -> None:
        self.is_past_head = True


_ODD = frozenset({b"expect", b"transfer-encoding", b"upgrade"})


def read_head(raw: bytes) -> tuple[bytes, Headers] | None:
    """The address and the headers of a plain POST, with a body of a length that is told once; None of anything else."""
    reading = _Reading()
    parser = httptools.HttpRequestParser(reading)
    try:
        parser.feed_data(raw)
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return None
    names = [name for name, _ in reading.headers]
    is_plain = (
        # Nothing of it was taken for a body: so these bytes are a head, no more and no less.
        reading.is_head_complete
        and not reading.is_past_head
        and parser.get_method() == b"POST"
        and parser.get_http_version() == "1.1"
        and parser.should_keep_alive()
        and names.count(b"content-length") == 1
        and _ODD.isdisjoint(names)
    )
    return (reading.url, reading.headers) if is_plain else None
