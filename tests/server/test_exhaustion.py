"""Attacks on a real server by somebody without a token: its memory stays bounded, and a bystander is served.

Nothing here depends on how fast the machine is. The bystander's latency is reported, not judged:
`pytest -rA` shows it.
"""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.mcp_client import ServerProcess, serving_http
from tests.promises import promise

MIB = 1 << 20
CONNECTIONS_MAX = 100
SETTINGS = {
    "TALLYSTICK_HTTP_HEAD_SECONDS": "5",
    "TALLYSTICK_HTTP_BODY_SECONDS": "5",
    "TALLYSTICK_HTTP_CONNECTIONS_MAX": str(CONNECTIONS_MAX),
    "TALLYSTICK_SESSIONS_PER_SUBJECT": "50",
}
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
TOOLS = b"GET /v1/tools HTTP/1.1\r\nHost: localhost\r\n\r\n"
POSTED = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
INFO = {"name": "raw", "version": "1"}


class Attacked:
    def __init__(self, server: ServerProcess) -> None:
        parts = urlsplit(server.url)
        self._address = (parts.hostname or "", parts.port or 0)
        self._pid = server.process.pid
        self._latencies: list[float] = []

    def connect(self) -> socket.socket:
        return socket.create_connection(self._address)

    def answer(self, data: bytes) -> bytes:
        """All that is said until the server closes the connection."""
        heard = b""
        with self.connect() as connection:
            try:
                connection.sendall(data)
                while part := connection.recv(65_536):
                    heard += part
            except (ConnectionResetError, BrokenPipeError):
                pass
        return heard

    def ask(self, message: Any, session: str | None = None) -> tuple[int, str | None, Any]:
        """As a bystander, on a connection of its own."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        named = {} if session is None else {"Mcp-Session-Id": session}
        started = time.perf_counter()
        connection = http.client.HTTPConnection(*self._address)
        try:
            connection.request("POST", "/mcp", json.dumps(message), {**headers, **named})
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        self._latencies.append(time.perf_counter() - started)
        return answer.status, answer.getheader("mcp-session-id"), json.loads(body) if body else None

    def search(self, session: str) -> int:
        call = {"name": "memory.search", "arguments": {"filter": {"type": "note"}}}
        return self.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}, session)[0]

    def memory(self) -> int:
        status = Path(f"/proc/{self._pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) * 1024

    def sockets(self) -> int:
        found = 0
        for link in Path(f"/proc/{self._pid}/fd").iterdir():
            # One that was closed while we look is none.
            with suppress(FileNotFoundError):
                found += str(link.readlink()).startswith("socket:")
        return found

    def report(self, what: str, grown: int) -> None:
        taken, self._latencies = sorted(self._latencies), []
        middle, worst = taken[len(taken) // 2] * 1e3, taken[-1] * 1e3
        print(f"{what}: memory +{grown / MIB:.1f} MiB, bystander {middle:.1f} ms, at worst {worst:.1f} ms")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with serving_http(tmp_path_factory.mktemp("attacked") / "base", environ=SETTINGS) as server:
        yield Attacked(server)


@pytest.fixture
def session(attacked: Attacked) -> str:
    """A bystander's, which is in use."""
    id = begin(attacked)
    assert attacked.search(id) == 200
    return id


def hello(capabilities: Any) -> dict[str, Any]:
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": INFO}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def begin(attacked: Attacked) -> str:
    status, session, _ = attacked.ask(hello({}))
    assert status == 200
    assert session is not None
    return session


def test_a_head_without_end_is_refused(attacked: Attacked, session: str) -> None:
    before = attacked.memory()
    for head in (b"GET /" + b"a" * 10 * MIB, b"GET / HTTP/1.1\r\n" + b"X-A: a\r\n" * MIB):
        # What was said may be lost on the way, as the server closes while it is still being spoken to.
        told = attacked.answer(head)
        assert not told or told.startswith(b"HTTP/1.1 431 ")
    assert attacked.answer(b"GET / HTTP/1.1\r\nX-A: " + b"a" * 70_000).startswith(b"HTTP/1.1 431 ")
    assert attacked.search(session) == 200
    grown = attacked.memory() - before
    attacked.report("heads without end", grown)
    assert grown < 50 * MIB


UNFINISHED = {
    b"": b"HTTP/1.1 408 ",
    HEALTH[:-2]: b"HTTP/1.1 408 ",
    POSTED + b"{": b"",
    POSTED.replace(b"localhost", b"evil.example") + b"{": b"HTTP/1.1 421 ",
}
"""What is said, and what is heard until the server closes."""


@promise("OWASP API4, heads", "a head has a limit of bytes and of time, and a body of time")
def test_who_does_not_finish_is_not_waited_for(attacked: Attacked) -> None:
    with ThreadPoolExecutor(len(UNFINISHED)) as pool:
        told = pool.map(attacked.answer, UNFINISHED)
        assert [each[:13] for each in told] == list(UNFINISHED.values())


@promise("OWASP API4, connections", "silent connections make room for those who ask")
def test_silent_connections_make_room(attacked: Attacked, session: str) -> None:
    before = attacked.memory()
    with ExitStack() as left_open:
        for number in range(5 * CONNECTIONS_MAX):
            silent = left_open.enter_context(attacked.connect())
            silent.sendall(
                (b"", HEALTH[:20], b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")[number % 3]
            )
            if number % 50 == 49:
                assert attacked.search(session) == 200
        assert attacked.sockets() < CONNECTIONS_MAX + 20
        grown = attacked.memory() - before
    attacked.report(f"{5 * CONNECTIONS_MAX} silent connections", grown)
    assert grown < 50 * MIB


@promise("OWASP API4, pipelining", "who reads no answers is not read")
def test_who_asks_and_asks_and_reads_nothing_is_not_read(attacked: Attacked, session: str) -> None:
    before = attacked.memory()
    data = memoryview(TOOLS * (20 * MIB // len(TOOLS)))
    sent = stalled = 0
    with attacked.connect() as greedy:
        greedy.setblocking(False)
        # The server reads on as long as there is room for its answers on the way to us.
        while sent < len(data) and stalled < 50:
            try:
                sent += greedy.send(data[sent : sent + MIB])
                stalled = 0
            except BlockingIOError:
                stalled += 1
                assert attacked.search(session) == 200
            except (ConnectionResetError, BrokenPipeError):
                break  # it has been waited for long enough
        grown = attacked.memory() - before
    attacked.report(f"{sent / MIB:.1f} MiB of requests without reading", grown)
    assert sent < len(data)
    assert grown < 100 * MIB


@promise("OWASP API4, sessions", "sessions without number cost others nothing")
def test_sessions_without_number_cost_others_nothing(attacked: Attacked, session: str) -> None:
    before = attacked.memory()
    message = json.dumps(hello({"experimental": {"x": {"y": "z" * 1_000}}})).encode()
    head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n"
    opening = head + b"Content-Length: %d\r\n\r\n" % len(message) + message
    with attacked.connect() as greedy, greedy.makefile("rb") as heard:
        for number in range(10_000):
            greedy.sendall(opening)
            assert heard.readline().startswith(b"HTTP/1.1 200 ")
            length = 0
            while (line := heard.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            heard.read(length)
            if number % 100 == 99:
                assert attacked.search(session) == 200
    grown = attacked.memory() - before
    attacked.report("10,000 sessions", grown)
    assert grown < 50 * MIB
    assert attacked.search(begin(attacked)) == 200


def test_a_large_hello_is_refused_and_forgotten(attacked: Attacked, session: str) -> None:
    before = attacked.memory()
    large = hello({"experimental": {str(number): {"x": "y" * 100} for number in range(40_000)}})
    for _ in range(10):
        status, begun, answer = attacked.ask(large)
        assert (status, begun, answer["id"]) == (413, None, 1)
    assert attacked.search(session) == 200
    grown = attacked.memory() - before
    attacked.report("ten large hellos", grown)
    assert grown < 150 * MIB
