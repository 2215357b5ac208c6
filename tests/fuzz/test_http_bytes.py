"""Bytes on a socket: refused, or answered once; no 5xx, no traceback, and the next client is served."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import SECONDS_MAX, tries
from tests.fuzz.mutated_messages import LIMIT, MESSAGES, NODE, NOISE, mangled
from tests.fuzz.servers import http_server
from tests.mcp_client import HELLO, request
from tests.promises import promise

pytestmark = pytest.mark.timeout(SECONDS_MAX)

SMUGGLED = json.dumps({"op": "UPSERT_NODE", "node": {"id": "smuggled", "type": "note", "attrs": {}}}).encode()
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


class Port:
    def __init__(self, number: int) -> None:
        self._address = ("127.0.0.1", number)

    def statuses(self, data: bytes) -> list[int]:
        """Of all answers, until the server closes."""
        told = self.exchange(data)
        assert b"Traceback" not in told
        statuses = [int(status) for status in STATUS.findall(told)]
        assert all(status < 500 or status == 503 for status in statuses), told
        return statuses

    def exchange(self, data: bytes) -> bytes:
        """The server may close while it is still being spoken to: what it said before may then be lost on the way."""
        heard: list[bytes] = []
        with socket.create_connection(self._address) as connection:
            try:
                connection.sendall(data)
                while part := connection.recv(65_536):
                    heard.append(part)
            except (ConnectionResetError, BrokenPipeError):
                pass
        return b"".join(heard)

    def ask(self, path: str, arguments: Any) -> Any:
        head, _, body = self.exchange(post(path.encode(), json.dumps(arguments).encode())).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        return json.loads(body)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    with http_server(tmp_path_factory.mktemp("listening") / "base") as address:
        yield Port(int(address.rpartition(":")[2]))


def post(path: bytes, body: bytes, *headers: bytes, close: bool = True) -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", b"Accept: */*"]
    lines += [b"Content-Length: %d" % len(body), *headers, *([b"Connection: close"] if close else [])]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def with_head(*lines: bytes, body: bytes = b"", kind: bytes = b"Content-Type: application/json") -> bytes:
    return b"\r\n".join((b"POST /v1/tools/memory.search HTTP/1.1", *lines, kind)) + b"\r\n\r\n" + body


HOST, CLOSE, CHUNKED = b"Host: localhost", b"Connection: close", b"Transfer-Encoding: chunked"
SHORT = b"Content-Length: 5"
ENDED = b"0\r\n\r\n"
INNER = post(b"/v1/tools/memory.write", SMUGGLED)
LAST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

REQUESTS: dict[str, tuple[bytes, list[int]]] = {
    "nothing that is HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", [400]),
    "no version": (b"GET /health\r\n\r\n", [421]),
    "a version of tomorrow": (b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", [400]),
    "a method nobody knows": (b"BREW /health HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    "a method in small letters": (b"get /health HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    "a blank in the path": (b"GET /he alth HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    "a NUL in the path": (b"GET /he\0alth HTTP/1.1\r\nHost: localhost\r\n\r\n", [400]),
    "a way out of the path": (LAST.replace(b"/health", b"/v1/../../etc/passwd"), [404]),
    "no Host": (with_head(CLOSE), [421]),
    "two Hosts": (with_head(HOST, HOST, CLOSE), [421]),
    "another's Host": (with_head(b"Host: evil.example", CLOSE), [421]),
    "a header without a colon": (with_head(HOST, b"nonsense"), [400]),
    "a blank before the colon": (with_head(HOST, b"Content-Length : 2", body=b"{}"), [400]),
    "a NUL in a header": (with_head(HOST, b"X-A: a\0b"), [400]),
    "a bare carriage return in a header": (with_head(HOST, b"X-A: a\rX-B: b"), [400]),
    "a length that is no number": (with_head(HOST, b"Content-Length: two", body=b"{}"), [400]),
    "a negative length": (with_head(HOST, b"Content-Length: -2", body=b"{}"), [400]),
    "a length with a sign": (with_head(HOST, b"Content-Length: +2", body=b"{}"), [400]),
    "a length past all integers": (with_head(HOST, b"Content-Length: " + b"9" * 40, body=b"{}"), [400]),
    "two lengths": (with_head(HOST, b"Content-Length: 2", b"Content-Length: 3", body=b"{} "), [400]),
    "a length too many": (with_head(HOST, CLOSE, b"Content-Length: %d" % (LIMIT + 1)), [413]),
    "a chunk without a size": (with_head(HOST, CHUNKED, body=b"x\r\n{}\r\n0\r\n\r\n"), [400]),
    "a chunk of a negative size": (with_head(HOST, CHUNKED, body=b"-2\r\n{}\r\n0\r\n\r\n"), [400]),
    "a chunk past all integers": (with_head(HOST, CHUNKED, body=b"f" * 40 + b"\r\n{}\r\n0\r\n\r\n"), [400]),
    "a chunk that is longer than it says": (with_head(HOST, CHUNKED, body=b"1\r\n{}\r\n0\r\n\r\n"), [400]),
    "chunks": (with_head(HOST, CLOSE, CHUNKED, body=b"1\r\n{\r\n1;a=b\r\n}\r\n0\r\nX-A: b\r\n\r\n"), [200]),
    "chunks past the limit": (with_head(HOST, CLOSE, CHUNKED, body=(b"9000\r\n" + b" " * 0x9000 + b"\r\n") * 2), [413]),
    "two requests": (post(b"/v1/tools/memory.search", b"{}", close=False) + LAST, [200, 200]),
    "a body that is no JSON": (post(b"/v1/tools/memory.search", b"\xff\xfe"), [400]),
    "a message that is no JSON": (post(b"/mcp", b"\0"), [400]),
    "a body of another kind": (with_head(HOST, CLOSE, b"Content-Length: 0", kind=b"Content-Type: a/b"), [415]),
    "an upgrade": (with_head(HOST, b"Connection: Upgrade, close", b"Upgrade: websocket", b"Content-Length: 0"), [200]),
}  # fmt: skip
"""What is asked, and the answers until the server closes."""

SMUGGLING = {
    "length and chunks": with_head(HOST, CHUNKED, SHORT, body=ENDED + INNER),
    "chunks and length": with_head(HOST, SHORT, CHUNKED, body=ENDED + INNER),
    "two codings": with_head(HOST, SHORT, CHUNKED, b"Transfer-Encoding: identity", body=ENDED + INNER),
    "a coding nobody knows": with_head(HOST, SHORT, b"Transfer-Encoding: xchunked", body=ENDED + INNER),
    "a coding after chunks": with_head(HOST, b"Transfer-Encoding: chunked, identity", body=ENDED + INNER),
    "a coding behind a tab": with_head(HOST, b"Transfer-Encoding:\x0bchunked", SHORT, body=ENDED + INNER),
    "two lengths": with_head(HOST, b"Content-Length: 0", b"Content-Length: %d" % len(INNER), body=INNER),
    "lengths in a list": with_head(HOST, b"Content-Length: 0, %d" % len(INNER), body=INNER),
    "a length behind a blank": with_head(HOST, b"Content-Length : 0", b"Content-Length: %d" % len(INNER), body=INNER),
    "a folded length": with_head(HOST, b"X-A: b\r\n Content-Length: 0", b"Content-Length: %d" % len(INNER), body=INNER),
    "a request in a body": with_head(HOST, CLOSE, b"Content-Length: %d" % len(INNER), body=INNER),
    "a request in a chunk": with_head(HOST, CLOSE, CHUNKED, body=b"%x\r\n" % len(INNER) + INNER + b"\r\n0\r\n\r\n"),
    "a request in a trailer": with_head(HOST, CHUNKED, body=b"0\r\nX-A: b\r\n" + INNER),
    "a request in a header": with_head(HOST, b"X-A: b\n\n" + INNER),
    "behind a length of nothing": with_head(HOST, b"Content-Length:", body=INNER),
}  # fmt: skip
"""Two readers might find one request here, or two."""


def test_each_oddity_has_its_answer_and_then_the_next_client_is_served(port: Port) -> None:
    for name, (data, expected) in REQUESTS.items():
        told = port.statuses(data)
        assert told == expected or (not told and len(data) > LIMIT), name
        assert port.statuses(LAST) == [200], name


def test_no_request_is_smuggled_inside_another(port: Port) -> None:
    for name, data in SMUGGLING.items():
        assert len(port.statuses(data)) <= 1, name
        assert port.ask("/v1/tools/memory.read", {"entity_id": "smuggled"})["entity"] is None, name


def test_huge_heads_are_refused_or_read(port: Port) -> None:
    for data in (
        with_head(HOST, CLOSE, b"X-A: " + b"a" * 200_000),
        with_head(HOST, CLOSE, *(b"X-%d: a" % number for number in range(5_000))),
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ):
        assert all(status < 500 for status in port.statuses(data))
        assert port.statuses(LAST) == [200]


SEEDS = (
    post(b"/v1/tools/memory.write", json.dumps(NODE).encode(), close=False),
    post(b"/v1/tools/memory.read", b'{"entity_id":"a"}', close=False),
    post(b"/mcp", request("initialize", HELLO), b"MCP-Protocol-Version: 2025-11-25", close=False),
    post(b"/mcp", request("tools/list"), b"Mcp-Session-Id: 0", close=False),
    post(b"/messages/?session_id=0", request("ping"), close=False),
    with_head(HOST, CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n"),
    b"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: 0\r\n\r\n",
    b"OPTIONS /mcp HTTP/1.1\r\nHost: ::1\r\nOrigin: http://localhost\r\nAccess-Control-Request-Method: POST\r\n\r\n",
    b"GET /v1/tools HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\n\r\n",
)  # fmt: skip
PADDING = b"\r\n" * LIMIT
"""More than any body may have: whatever was cut short comes to an end, and between requests it means nothing."""
BODIES = mangled((*MESSAGES, json.dumps(NODE).encode(), b'{"entity_id":"a"}')) | NOISE
PATHS = st.sampled_from((b"/mcp", b"/messages/", b"/v1/tools/memory.write", b"/v1/tools/memory.search", b"/v1/tools/x"))


@promise("5.3, fuzzing of HTTP", "no bytes on a socket bring a server error or keep the next client from being served")
def test_whatever_is_sent_the_server_goes_on(port: Port) -> None:
    @tries(150)
    @given(mangled(SEEDS) | st.binary(max_size=100))
    def sent(data: bytes) -> None:
        port.statuses(data + PADDING + LAST)

    @tries(200)
    @given(PATHS, BODIES)
    def posted(path: bytes, body: bytes) -> None:
        [status] = port.statuses(post(path, body))
        assert status in (200, 202, 400, 404, 406, 409, 413)

    sent()
    posted()
    assert port.ask("/v1/tools/memory.write", NODE)["commit_id"]
    assert port.ask("/v1/tools/memory.read", {"entity_id": "a"})["entity"]["id"] == "a"
