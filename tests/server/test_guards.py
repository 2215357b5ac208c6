"""Names, origins and bodies, before any route is reached."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tallystick.errors import InvalidArgument
from tallystick.server.guards import check_binding
from tallystick.server.http import http_app
from tests.promises import promise
from tests.server.sample import offer

pytestmark = pytest.mark.anyio

ROUTES = [
    ("GET", "/health"),
    ("GET", "/v1/tools"),
    ("GET", "/v1/openapi.json"),
    ("POST", "/v1/tools/sample.echo"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages/"),
    ("GET", "/no/such/path"),
]


@asynccontextmanager
async def client(**settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
    app = http_app(offer(**settings), hosts=["memory.example"], origins=["https://app.example"])
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://localhost") as http:
        yield http


@promise("OWASP API8, hosts and pages", "no route answers under a foreign name or to a foreign page")
@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_no_route_answers_under_a_foreign_name_or_to_a_foreign_page(method: str, path: str) -> None:
    async with client() as http:
        foreign_host = await http.request(method, path, headers={"host": "evil.example"})
        foreign_page = await http.request(method, path, headers={"origin": "http://evil.example"})
    assert (foreign_host.status_code, foreign_page.status_code) == (421, 403)
    for answer in (foreign_host, foreign_page):
        said = answer.json()
        assert answer.headers["content-type"] == "application/json"
        assert "access-control-allow-origin" not in answer.headers
        if path in ("/mcp", "/messages/"):
            assert (said["jsonrpc"], said["id"], said["error"]["code"]) == ("2.0", None, -32600)
        else:
            assert said["error"] in ("HOST_NOT_ALLOWED", "ORIGIN_NOT_ALLOWED")


HOSTS = {
    "localhost": 200,
    "localhost:8765": 200,
    "LOCALHOST:1": 200,
    "localhost.:80": 200,
    "127.0.0.1": 200,
    "127.0.0.1:9": 200,
    "127.9.9.9:9": 200,
    "[::1]": 200,
    "[::1]:8765": 200,
    "memory.example": 200,
    "Memory.Example:443": 200,
    "evil.example": 421,
    "localhost.evil.example": 421,
    "127.0.0.1.evil.example:80": 421,
    "localhost@evil.example": 421,
    "evil.example/localhost": 421,
    "localhost:port": 421,
    "10.0.0.1": 421,
    "0.0.0.0": 421,
    "[::2]:80": 421,
    "": 421,
    "[::1]evil": 421,
    "[::1]evil.example:80": 421,
    "evil.example[::1]": 421,
    "[::1]:80:80": 421,
    "[::1": 421,
    "::1": 421,
    "[127.0.0.1]": 421,
    "localhost:99999": 421,
    "localhost evil.example": 421,
    "localhost:": 200,
}


@pytest.mark.parametrize(("host", "status"), HOSTS.items())
async def test_only_our_own_names_are_answered(host: str, status: int) -> None:
    async with client() as http:
        assert (await http.get("/health", headers={"host": host})).status_code == status


async def test_two_hosts_are_no_host() -> None:
    async with client() as http:
        answer = await http.get("/health", headers=[("host", "localhost"), ("host", "evil.example")])
    assert answer.status_code == 421


ORIGINS = {
    "https://app.example": 200,
    "http://localhost:6274": 403,
    "https://127.0.0.1:1": 403,
    "http://[::1]:3000": 403,
    "https://app.example:444": 403,
    "http://app.example": 403,
    "https://sub.app.example": 403,
    "http://localhost.evil.example": 403,
    "http://localhost@evil.example": 403,
    "file://localhost": 403,
    "null": 403,
    "": 403,
}


@pytest.mark.parametrize(("origin", "status"), ORIGINS.items())
async def test_only_known_pages_may_call_and_they_may_read_the_answer(origin: str, status: int) -> None:
    async with client() as http:
        answer = await http.get("/health", headers={"origin": origin})
    assert answer.status_code == status
    assert answer.headers.get("access-control-allow-origin") == (origin if status == 200 else None)


PATHS = ["/mcp", "/sse", "/messages/", "/v1/tools", "/v1/tools/sample.echo", "/v1/openapi.json", "/health", "/nowhere"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_a_page_of_another_local_port_reaches_no_route(path: str, method: str) -> None:
    elsewhere = {"origin": "http://127.0.0.1:3000", "host": "127.0.0.1:8765"}
    async with client() as http:
        answer = await http.request(method, path, headers={**elsewhere, "access-control-request-method": "POST"})
    assert answer.status_code == 403
    assert "ORIGIN_NOT_ALLOWED" in answer.text
    assert "access-control-allow-origin" not in answer.headers


async def test_our_own_page_may_call_under_the_name_and_port_that_it_was_loaded_from() -> None:
    own = {"host": "127.0.0.1:8765", "origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}
    async with client() as http:
        assert (await http.get("/v1/tools", headers=own)).status_code == 200
        assert (await http.get("/v1/tools", headers={**own, "host": "localhost:8765"})).status_code == 403


@pytest.mark.parametrize(
    ("site", "mode", "status"),
    [
        ("same-site", "no-cors", 403),
        ("cross-site", "no-cors", 403),
        ("cross-site", "navigate", 200),
        ("same-origin", "cors", 200),
        ("none", "navigate", 200),
    ],
)
async def test_what_another_page_embeds_is_refused_without_an_origin(site: str, mode: str, status: int) -> None:
    async with client() as http:
        answer = await http.get("/v1/tools", headers={"sec-fetch-site": site, "sec-fetch-mode": mode})
    assert answer.status_code == status


async def test_a_known_page_may_ask_before_it_calls() -> None:
    headers = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, mcp-protocol-version",
    }
    async with client() as http:
        answer = await http.options("/mcp", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-headers"] == headers["access-control-request-headers"]


BODIES: dict[str, tuple[bytes, int, int]] = {
    "malformed": (b"{nonsense", 400, -32700),
    "empty": (b"", 400, -32700),
    "a key twice": (b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', 400, -32700),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', 400, -32700),
    "a lone surrogate": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\udc00"}}', 400, -32700),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', 400, -32700),
    "deep": (b"[" * 900, 400, -32700),
    "no version": (b'{"id":1,"method":"ping"}', 400, -32600),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
    "no method": (b'{"jsonrpc":"2.0","id":1}', 400, -32600),
    "too large": (b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 1000 + b'"}', 413, -32600),
}
JSON = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("path", ["/mcp", "/messages/"])
@pytest.mark.parametrize("version", [None, "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("body", "status", "code"), BODIES.values(), ids=BODIES)
async def test_a_bad_body_is_answered_before_the_sdk_sees_it(
    path: str, version: str | None, body: bytes, status: int, code: int
) -> None:
    headers = {**JSON, **({"mcp-protocol-version": version} if version else {})}
    async with client(body_bytes_max=1000) as http:
        answer = await http.post(path, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"


LONG = {"a": "x" * 1000, "id": 6}
REFUSED: dict[str, bytes] = {
    "NaN": b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":NaN}}',
    "a key twice": b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"id":1,"id":2}}',
    "too large": json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping", "params": LONG}).encode(),
    "too large, the id last": json.dumps({"method": "ping", "params": LONG, "jsonrpc": "2.0", "id": 7}).encode(),
}


@promise("L23, id, HTTP", "over HTTP too")
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
async def test_a_refusal_names_the_request(body: bytes, is_chunked: bool) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    async with client(body_bytes_max=1000) as http:
        answer = await http.post("/mcp", content=chunks() if is_chunked else body, headers=JSON)
    assert answer.status_code in (400, 413)
    assert answer.json()["id"] == 7


@promise("OWASP API4, bodies", "a body is bounded, also one without a length")
async def test_a_body_without_a_length_is_bounded_too() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * 100

    async with client(body_bytes_max=1000) as http:
        answer = await http.post("/mcp", content=endless(), headers=JSON)
    assert answer.status_code == 413


@promise("OWASP API8, errors", "a bug leaves only its id")
async def test_a_bug_outside_the_tools_leaves_only_its_id() -> None:
    def crash() -> int:
        raise RuntimeError("the inside of the house")

    async with client(position=crash) as http:
        answer = await http.get("/health")
    assert answer.status_code == 500
    assert set(answer.json()) == {"error", "message", "error_id"}
    assert "inside" not in json.dumps(answer.json())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.1.2.3"])
async def test_loopback_needs_no_issuer(host: str) -> None:
    check_binding(host, None)


@promise("OWASP API8, binding", "beyond this machine nothing is served without an issuer")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "memory.example", ""])
async def test_any_other_address_needs_one(host: str) -> None:
    check_binding(host, "https://issuer.example")
    with pytest.raises(InvalidArgument) as caught:
        check_binding(host, None)
    assert caught.value.code == "UNSAFE_BINDING"
    assert caught.value.hint is not None
    assert "issuer" in caught.value.hint
