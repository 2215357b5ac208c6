"""The clients: as cheap as they can be, so that what is measured is the server, and the same for every server."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import uvloop

from bench.processes import Server

PROTOCOL = "2025-11-25"
MODERN = "2026-07-28"
_HELLO = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
_JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Refused(Exception):
    """A server answered with an error: then there is nothing to measure."""


# -- stdio: one line each way


class Lines:
    def __init__(self, server: Server) -> None:
        self._asks, self._tells = server.asks, server.tells
        self._id = 0

    def begin(self) -> None:
        self._ask("initialize", _HELLO)
        self._asks.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        self._asks.flush()

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """The structured content of the answer."""
        return self.result(tool, arguments)["structuredContent"]

    def text(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """What a model is given to read."""
        return "".join(each["text"] for each in self.result(tool, arguments)["content"])

    def result(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise Refused(f"{tool}: {str(result)[:500]}")
        return result

    def list_tools(self) -> list[dict[str, Any]]:
        tools: list[dict[str, Any]] = self._ask("tools/list", {})["tools"]
        return tools

    def time_calls(self, calls: Iterable[bytes], *, seconds: float, at_least: float = 1) -> list[float]:
        """Seconds of each, one after the other, for at most so long. Ready lines: making them is not measured."""
        taken: list[float] = []
        deadline = time.perf_counter() + seconds
        for line in calls:
            started = time.perf_counter()
            self._asks.write(line)
            self._asks.flush()
            answer = self._tells.readline()
            ended = time.perf_counter()
            taken.append(ended - started)
            if b'"result":' not in answer or b'"isError":true' in answer:
                raise Refused(answer[:500].decode())
            if ended > deadline and len(taken) >= at_least:
                break
        return taken

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self._id += 1
        self._asks.write(rpc(self._id, method, params) + b"\n")
        self._asks.flush()
        answer = json.loads(self._tells.readline())
        if "error" in answer:
            raise Refused(f"{method}: {answer['error']}")
        return answer["result"]


def rpc(id: int, method: str, params: Mapping[str, Any]) -> bytes:
    """Without blanks, as the SDKs write it."""
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return json.dumps(message, separators=(",", ":")).encode()


def call_line(id: int, tool: str, arguments: Mapping[str, Any]) -> bytes:
    return rpc(id, "tools/call", {"name": tool, "arguments": arguments}) + b"\n"


# -- HTTP: one connection for each client, the next question as soon as the last is answered


class Question(msgspec.Struct, frozen=True):
    kind: str
    data: bytes
    """The whole request."""


class Talked(msgspec.Struct, frozen=True):
    taken: dict[str, list[float]]
    """Seconds of each, by kind."""
    seconds: float

    @property
    def count(self) -> int:
        return sum(map(len, self.taken.values()))

    @property
    def rate(self) -> float:
        return self.count / self.seconds


class Speaker:
    """How one client writes its requests: in a session of MCP, without one, or to the REST face."""

    def __init__(self, port: int, path: str, headers: Mapping[str, str] | None = None) -> None:
        self._port = port
        self._path = path
        self._headers = {**_JSON, **(headers or {})}

    @classmethod
    def in_session(cls, port: int, token: str | None = None, *, path: str = "/mcp") -> Speaker:
        speaker = cls(port, path, {**_bearer(token), "MCP-Protocol-Version": PROTOCOL})
        _, headers = speaker.post(rpc(0, "initialize", _HELLO))
        if session := headers.get("mcp-session-id"):
            speaker._headers["Mcp-Session-Id"] = session
        speaker.post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return speaker

    @classmethod
    def of_rest(cls, port: int, tool: str, token: str | None = None) -> Speaker:
        return cls(port, f"/v1/tools/{tool}", _bearer(token))

    def call(self, kind: str, tool: str, arguments: Mapping[str, Any], id: int = 1) -> Question:
        return self.question(kind, rpc(id, "tools/call", {"name": tool, "arguments": arguments}))

    def question(self, kind: str, body: bytes) -> Question:
        lines = [f"POST {self._path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        return Question(kind, "\r\n".join([*lines, "", ""]).encode() + body)

    def post(self, body: bytes) -> tuple[bytes, dict[str, str]]:
        """Once, at leisure."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request("POST", self._path, body, self._headers)
            answer = connection.getresponse()
            told = answer.read()
            if answer.status >= 300:
                raise Refused(f"{answer.status} {told[:500].decode()}")
            return told, {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()


def _bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


Pause = Callable[[], float]


def talk(port: int, scripts: Sequence[Iterable[Question]], pause: Pause | None = None) -> Talked:
    """A client for each script, all at the same time. `pause` says for how many seconds one thinks before it asks;
    without it all are connected before the first one asks."""
    gc.collect()
    gc.freeze()
    return uvloop.run(_talk(port, scripts, pause))


def speak(clients: int, each: int, make: Callable[[], Callable[[int], Question]]) -> list[list[Question]]:
    """For every client a script of `each` questions; `make` begins a client and numbers are never used twice."""
    scripts = []
    for client in range(clients):
        ask = make()
        scripts.append([ask(client * each + number) for number in range(each)])
    return scripts


async def _talk(port: int, scripts: Sequence[Iterable[Question]], pause: Pause | None) -> Talked:
    loop = asyncio.get_running_loop()
    taken: dict[str, list[float]] = defaultdict(list)
    clients = [_Client(port, script, taken, loop.create_future(), pause) for script in scripts]
    for client in clients if pause is None else ():
        await client.connect()
    started = time.perf_counter()
    for client in clients:
        client.think()
    try:
        await asyncio.gather(*(client.done for client in clients))
    finally:
        for client in clients:
            client.leave()
    return Talked(dict(taken), time.perf_counter() - started)


class _Client(asyncio.Protocol):
    """Connects again, and asks again, where the server hung up on a client that thought for too long."""

    def __init__(
        self,
        port: int,
        script: Iterable[Question],
        taken: dict[str, list[float]],
        done: asyncio.Future[None],
        pause: Pause | None,
    ) -> None:
        self._port = port
        self._left = iter(script)
        self._pause = pause
        self._taken = taken
        self.done = done
        self._data = b""
        self._wanted = 0
        self._kind = ""
        self._asked = 0.0
        self._waiting = b""
        """The question that is not answered."""
        self._is_reused = False
        self._transport: Any = None
        self._connecting: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        try:
            await self.done.get_loop().create_connection(lambda: self, "127.0.0.1", self._port)
        except OSError as error:
            self._fail(Refused(f"the server takes no connection: {error}"))

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._is_reused, self._connecting = False, None
        if self._waiting:
            transport.write(self._waiting)

    def think(self) -> None:
        if self._pause is None:
            self.ask()
        else:
            self.done.get_loop().call_later(self._pause(), self.ask)

    def ask(self) -> None:
        question = None if self.done.done() else next(self._left, None)
        if question is None:
            if not self.done.done():
                self.done.set_result(None)
            return
        self._kind = question.kind
        self._asked = time.perf_counter()
        self._waiting = question.data
        if self._transport is None or self._transport.is_closing():
            self._connect_again()
        else:
            self._transport.write(question.data)

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        if not self._wanted:
            self._wanted = _length(self._data)
        if self._wanted and len(self._data) >= self._wanted:
            self._answered()

    def _answered(self) -> None:
        self._taken[self._kind].append(time.perf_counter() - self._asked)
        answer, self._data, self._wanted = self._data, b"", 0
        self._waiting, self._is_reused = b"", True
        if not answer.startswith(b"HTTP/1.1 200") or b'"isError":true' in answer or b'"error":{"code"' in answer:
            self._fail(Refused(answer[:800].decode()))
        else:
            self.think()

    def connection_lost(self, error: Exception | None) -> None:
        if self._data or (self._waiting and not self._is_reused):
            self._fail(Refused(f"the server hung up: {error}"))
        elif self._waiting and self._connecting is None:
            self._connect_again()

    def _connect_again(self) -> None:
        self._connecting = self.done.get_loop().create_task(self.connect())

    def leave(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _fail(self, error: Refused) -> None:
        if not self.done.done():
            self.done.set_exception(error)


def _length(data: bytes) -> int:
    """Of head and body together; 0 while the head is not complete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return 0
    head = data[:end].lower()
    at = head.find(b"content-length:")
    if at < 0:
        raise Refused(f"an answer without a length: {head[:300].decode()}")
    return end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])
