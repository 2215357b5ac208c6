"""Bytes that were meant to be a message and no longer quite are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.mcp_client import HELLO, INITIALIZED, request

LIMIT = 65_536
"""What the servers of these tests take at most over HTTP, and on stdio a little more; lines near it are tried."""

NODE = {"op": "UPSERT_NODE", "node": {"id": "a", "type": "note", "attrs": {"k": [1, "x", None]}}}


def call(tool: str, arguments: Any, id: Any = 1) -> bytes:
    return request("tools/call", {"name": tool, "arguments": arguments}, id)


MESSAGES = (
    request("initialize", HELLO),
    request("ping"),
    request("tools/list", id="1"),
    request("resources/list"),
    request("logging/setLevel", {"level": "debug"}),
    request(
        "completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}
    ),
    call("memory.write", NODE),
    call("memory.write", {"op": "DELETE_NODE", "node_id": "a"}),
    call("memory.read", {"entity_id": "a"}),
    call("memory.search", {"attrs": {"k": {"regex": "(x+x+)+y"}}, "limit": 3}),
    call("memory.lineage", {"entity_id": "a", "format": "csv"}),
    INITIALIZED,
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"x"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
)
TOKENS = (
    b"\0", b"\r", b"\r\n", b"\n", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf4\x90\x80\x80", b"\x1b[2J",
    b'"', b"\\", b"\\u0000", b"\\ud800", b"\\udc00\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"-",
    b"NaN", b"-Infinity", b"1e999", b"-0", b"1E400", b"9" * 30, b"9" * 500, b"0.1" + b"0" * 400, b"1" * 5_000, b"//",
    b"[" * 99, b"[" * 120, b'{"a":' * 300, b"[" * 20_000, b'"jsonrpc":"2.0",', b'"id":2,', b'"id":{}',
    b'"__proto__":1,', b"x" * 3_000, b"x" * (LIMIT - 100), b"x" * LIMIT, b"x" * (LIMIT + 8_000), b"\xe2\x80\xae",
)  # fmt: skip


@st.composite
def mangled(draw: st.DrawFn, whole: Sequence[bytes] = MESSAGES) -> bytes:
    data = draw(st.sampled_from(whole))
    for way in draw(st.lists(st.sampled_from(_WAYS), min_size=1, max_size=3)):
        data = way(data, draw)
    return data


NOISE = st.binary(max_size=200) | st.sampled_from(TOKENS) | st.text(max_size=50).map(str.encode)


# -- ways to mangle


def _flip(data: bytes, draw: st.DrawFn) -> bytes:
    at = _place(data, draw)
    return data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :] if data else data


def _cut(data: bytes, draw: st.DrawFn) -> bytes:
    return data[: _place(data, draw)]


def _drop(data: bytes, draw: st.DrawFn) -> bytes:
    at = _place(data, draw)
    return data[:at] + data[at + draw(st.integers(1, 20)) :]


def _repeat(data: bytes, draw: st.DrawFn) -> bytes:
    at, length = _place(data, draw), draw(st.integers(1, 60))
    return data[:at] + data[at : at + length] * draw(st.integers(2, 4)) + data[at + length :]


def _insert(data: bytes, draw: st.DrawFn) -> bytes:
    at = _place(data, draw)
    return data[:at] + draw(st.sampled_from(TOKENS)) + data[at:]


def _overwrite(data: bytes, draw: st.DrawFn) -> bytes:
    at = _place(data, draw)
    return data[:at] + draw(st.sampled_from(TOKENS)) + data[at + draw(st.integers(1, 8)) :]


def _place(data: bytes, draw: st.DrawFn) -> int:
    return draw(st.integers(0, max(0, len(data) - 1)))


_WAYS: tuple[Callable[[bytes, st.DrawFn], bytes], ...] = (
    _flip,
    _flip,
    _cut,
    _drop,
    _repeat,
    _insert,
    _insert,
    _overwrite,
)
