"""The same requests both ways: two applications over one offer, one of them without the fast path."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from tallystick.server import Offer
from tallystick.server.front import HttpFront
from tallystick.server.stdio import serve_pipes
from tests.server import sample

Header = tuple[str, str]
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
RESERVED = "io.modelcontextprotocol/"
JSON_HEADERS: tuple[Header, ...] = (("content-type", "application/json"), ("accept", "application/json"))
ENVELOPE: dict[str, Any] = {
    RESERVED + "protocolVersion": MODERN,
    RESERVED + "clientCapabilities": {},
    RESERVED + "clientInfo": {"name": "raw", "version": "1"},
}


class HttpRequest(msgspec.Struct, frozen=True):
    """A header value `session:NAME` stands for the id that the application gave the session of that name."""

    body: bytes
    headers: tuple[Header, ...] = JSON_HEADERS
    method: str = "POST"
    path: str = "/mcp"


class Response(msgspec.Struct, frozen=True):
    status: int
    headers: frozenset[Header]
    body: Any


def rpc(id: Any, method: str, params: Any = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def hello(version: str, client: str = "raw") -> bytes:
    said = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": client, "version": "1"}}
    return rpc(0, "initialize", said)


INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


class Application:
    def __init__(self, app: HttpFront) -> None:
        self._app = app
        self.sessions: dict[str, str] = {}

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        async with self._app.run():
            yield

    async def open_session(self, name: str, version: str, *more: Header, client: str = "raw") -> None:
        _, headers, _ = await self._send(HttpRequest(hello(version, client), (*JSON_HEADERS, *more)))
        self.sessions[name] = dict(headers)["mcp-session-id"]
        await self._send(HttpRequest(INITIALIZED, (*JSON_HEADERS, *more, ("mcp-session-id", f"session:{name}"))))

    async def tell(self, asked: HttpRequest) -> Response:
        """The answer, without what differs from one time to the next."""
        status, headers, body = await self._send(asked)
        kept = frozenset((name, self._settled(name, value)) for name, value in headers if name != "content-length")
        if dict(headers).get("content-type") == "application/json":
            return Response(status, kept, _without_ids(json.loads(body)) if body else None)
        return Response(status, kept, body)

    async def _send(self, asked: HttpRequest) -> tuple[int, list[Header], bytes]:
        given = iter([{"type": "http.request", "body": asked.body, "more_body": False}, {"type": "http.disconnect"}])
        sent: list[Any] = []

        async def receive() -> Any:
            return next(given)

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(self._scope(asked), receive, send)
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in sent[0]["headers"]]
        return sent[0]["status"], headers, b"".join(part.get("body", b"") for part in sent[1:])

    def _scope(self, asked: HttpRequest) -> dict[str, Any]:
        named = [("host", "memory.example"), ("content-length", str(len(asked.body))), *asked.headers]
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": asked.method,
            "path": asked.path,
            "raw_path": asked.path.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(name.encode("latin-1"), self._filled(value).encode("latin-1")) for name, value in named],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1),
            "state": {},
        }

    def _filled(self, value: str) -> str:
        return self.sessions[value.removeprefix("session:")] if value.startswith("session:") else value

    def _settled(self, header: str, value: str) -> str:
        if header != "mcp-session-id":
            return value
        names = {id: name for name, id in self.sessions.items()}
        return f"session:{names[value]}" if value in names else "a new session"


class BothPaths:
    """Kept open by a task of its own, so that tests outside of it can ask, one after the other."""

    def __init__(self, fast: Application, slow: Application) -> None:
        self.fast, self.slow = fast, slow
        self._runner = asyncio.Runner()
        self._end = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None

    def open(self, prepare: Any) -> None:
        self._runner.run(self._open(prepare))

    def ask(self, requests: Sequence[HttpRequest]) -> list[tuple[Response, Response]]:
        async def both() -> list[tuple[Response, Response]]:
            return [(await self.fast.tell(asked), await self.slow.tell(asked)) for asked in requests]

        return self._runner.run(both())

    def close(self) -> None:
        async def end() -> None:
            self._end.set()
            assert self._holder is not None
            await self._holder

        self._runner.run(end())
        self._runner.close()

    async def _open(self, prepare: Any) -> None:
        ready = asyncio.Event()

        async def hold() -> None:
            async with AsyncExitStack() as stack:
                for application in (self.fast, self.slow):
                    await stack.enter_async_context(application.run())
                ready.set()
                await self._end.wait()

        self._holder = asyncio.create_task(hold())
        await ready.wait()
        for application in (self.fast, self.slow):
            await prepare(application)


def _without_ids(value: Any) -> Any:
    """The id of a bug is a new one each time."""
    if isinstance(value, dict):
        return {key: "…" if key == "error_id" else _without_ids(inner) for key, inner in value.items()}
    return [_without_ids(inner) for inner in value] if isinstance(value, list) else value


READY = "ready"


def talk(
    handshake: Sequence[bytes],
    lines: Sequence[bytes],
    *,
    fast_path: bool,
    drain_seconds: float = 5.0,
    served: Offer | None = None,
) -> list[Any]:
    """Everything that a server on two pipes answers until its input ends, in an order of no meaning.

    The lines are said when the opening was answered.
    """
    sample.close_doors()
    return asyncio.run(
        converse(served or sample.offer(), lines, handshake, fast_path=fast_path, drain_seconds=drain_seconds)
    )


async def converse(
    offer: Offer,
    lines: Sequence[bytes],
    handshake: Sequence[bytes] = (),
    *,
    fast_path: bool,
    drain_seconds: float = 5.0,
) -> list[Any]:
    """The same on a loop that runs already."""
    source, to_server = os.pipe()
    from_server, sink = os.pipe()
    heard: list[bytes] = []
    client = threading.Thread(target=lambda: heard.extend(_converse(handshake, lines, to_server, from_server)))
    client.start()
    try:
        await serve_pipes(offer, source, sink, drain_seconds=drain_seconds, fast_path=fast_path)
    finally:
        os.close(sink)
        client.join()
        os.close(source)
    answers = [_without_ids(json.loads(line)) for line in heard]
    return sorted(answers, key=lambda answer: json.dumps(answer, sort_keys=True))


def _converse(handshake: Sequence[bytes], lines: Sequence[bytes], to_server: int, from_server: int) -> list[bytes]:
    with open(from_server, "rb") as hears, open(to_server, "wb", buffering=0) as says:
        heard: list[bytes] = []
        if handshake:
            says.write(b"".join(line + b"\n" for line in (*handshake, rpc(READY, "ping"))))
            while not heard or json.loads(heard[-1]).get("id") != READY:
                heard.append(hears.readline())
        saying = threading.Thread(target=lambda: _say(says, b"".join(line + b"\n" for line in lines)))
        saying.start()
        heard.extend(hears)
        saying.join()
        return heard


def _say(pipe: Any, data: bytes) -> None:
    with pipe:
        rest = memoryview(data)
        while rest:
            rest = rest[pipe.write(rest) :]
