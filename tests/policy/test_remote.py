"""A policy server that is dead, slow or lying: whatever it does, the answer is no, and soon."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tallystick.errors import InvalidArgument
from tallystick.policy import Action, Principal, Request
from tallystick.policy.breaker import Breaker
from tallystick.policy.remote import ANSWER_BYTES_MAX, Remote
from tests.promises import promise

ASK = Request(Principal(actor="ada", roles=("admin",)), Action.READ, "plan")
YES = b'{"result":{"result":true,"reason":"yes","policy_version":"v1"}}'

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    return head + await reader.readexactly(length)


def answering(body: bytes, status: str = "200 OK", headers: str = "") -> Behave:
    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                await read_request(reader)
                writer.write(f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()

    return behave


@asynccontextmanager
async def server(behave: Behave) -> AsyncIterator[str]:
    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.CancelledError):
            await behave(reader, writer)
        writer.close()

    running = await asyncio.start_server(handled, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{running.sockets[0].getsockname()[1]}"
    finally:
        running.close()


async def test_the_question_is_put_as_opa_wants_it() -> None:
    asked: list[bytes] = []

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(YES), YES))
        await writer.drain()

    async with (
        server(behave) as url,
        Remote(f"{url}/", path="/acme/authz/decision/", token="secret", timeout_ms=600_000) as remote,
    ):
        assert (await remote.ask(ASK)).allowed
    head, body = asked[0].split(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/data/acme/authz/decision HTTP/1.1\r\n")
    assert b"authorization: bearer secret" in head.lower()
    assert body == (
        b'{"input":{"actor":"ada","actor_roles":["admin"],"action":"READ",'
        b'"context":{"tenant_id":"default"},"resource":"plan"}}'
    )


@promise("L29", "a yes in any of its forms is a yes")
@pytest.mark.parametrize(
    "body",
    [
        YES,
        b'{"result":true}',
        b'{"result":{"allow":true}}',
        b'{"result":true,"reason":"yes","policy_version":"v1.2.0"}',
        b'{"decision_id":"1","result":{"result":true},"warning":{"code":"api_usage_warning"}}',
    ],
)
async def test_a_yes_in_any_of_its_forms_is_a_yes(body: bytes) -> None:
    async with server(answering(body)) as url, Remote(url, timeout_ms=600_000) as remote:
        assert (await remote.ask(ASK)).allowed


LIES = {
    "nothing": (b"", "malformed"),
    "no result": (b"{}", "undefined"),
    "null": (b'{"result":null}', "undefined"),
    "no verdict": (b'{"result":{"reason":"yes"}}', "undefined"),
    "another word": (b'{"allow":true}', "undefined"),
    "text": (b'{"result":"true"}', "malformed"),
    "a text inside": (b'{"result":{"result":"true"}}', "malformed"),
    "one": (b'{"result":1}', "malformed"),
    "both": (b'{"result":{"result":true,"allow":false}}', "malformed"),
    "a list": (b"[true]", "malformed"),
    "true": (b"true", "malformed"),
    "half": (YES[:-2], "malformed"),
    "twice": (b'{"result":false,"result":true}', "malformed"),
    "twice inside": (b'{"result":{"allow":false,"allow":true}}', "malformed"),
    "twice in a word": (b'{"result":{"allow":true,"reason":"a","reason":"b"}}', "malformed"),
    "html": (b"<html>true</html>", "malformed"),
    "not utf-8": (b'{"result":"\xff"}', "malformed"),
    "deep": (b'{"result":' + b"[" * 600_000 + b"]" * 600_000 + b"}", "malformed"),
    "long": (b'{"result":true,"reason":"' + b"x" * ANSWER_BYTES_MAX + b'"}', "malformed"),
}


@promise("OWASP API10, policy servers", "an answer that is no answer is a no")
@promise("L29, twice", "an answer of the policy server that says a thing twice is a no")
@pytest.mark.parametrize("name", LIES)
async def test_an_answer_that_is_no_answer_is_a_no(name: str) -> None:
    body, fault = LIES[name]
    async with server(answering(body)) as url, Remote(url, timeout_ms=600_000) as remote:
        found = await remote.ask(ASK)
    assert (found.allowed, found.fault, found.cacheable) == (False, fault, False)


@promise("attack: a lying OPA", "a yes under another status is a no")
@pytest.mark.parametrize("status", ["201 Created", "302 Found", "400 Bad Request", "401 Unauthorized", "500 Oops"])
async def test_a_yes_under_another_status_is_a_no(status: str) -> None:
    async with server(answering(YES, status, "Location: /yes\r\n")) as url, Remote(url, timeout_ms=600_000) as remote:
        found = await remote.ask(ASK)
    assert (found.allowed, found.fault) == (False, "error")


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer that is always about to end."""
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1\r\n \r\n")
        await writer.drain()
        await asyncio.sleep(0.005)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1000\r\n" + b" " * 0x1000 + b"\r\n")
        await writer.drain()


async def hanging_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + YES[:10])
    await writer.drain()


async def babbling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"+OK ready\r\n")
    await writer.drain()


@promise("attack: a slow OPA", "one that does not come to an end is left")
@pytest.mark.parametrize(
    ("behave", "timeout_ms", "fault"),
    [
        (silent, 50, "timeout"),
        (dripping, 50, "timeout"),
        (endless, 600_000, "malformed"),
        (hanging_up, 600_000, "unreachable"),
        (babbling, 600_000, "unreachable"),
    ],
)
async def test_a_server_that_does_not_come_to_an_end_is_left(behave: Behave, timeout_ms: float, fault: str) -> None:
    async with server(behave) as url, Remote(url, timeout_ms=timeout_ms) as remote:
        found = await remote.ask(ASK)
    assert (found.allowed, found.fault) == (False, fault)


@promise("L30, breaker", "a dead server is asked no more until the pause is over")
async def test_a_dead_server_is_asked_no_more_until_the_pause_is_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        now = 0.0
        breaker = Breaker(failures_max=3, pause_seconds=5, clock=lambda: now)
        async with Remote(url, timeout_ms=600_000, breaker=breaker) as remote:
            faults = [(await remote.ask(ASK)).fault for _ in range(5)]
            assert faults == ["unreachable"] * 3 + ["breaker"] * 2
            now = 5.0
            assert [(await remote.ask(ASK)).fault for _ in range(2)] == ["unreachable", "breaker"]


@promise("attack: an OPA that comes back", "one that answers again is trusted again")
async def test_a_server_that_comes_back_is_trusted_again() -> None:
    now = 0.0
    is_awake = False

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (answering(YES) if is_awake else hanging_up)(reader, writer)

    breaker = Breaker(failures_max=2, pause_seconds=5, clock=lambda: now)
    async with server(behave) as url, Remote(url, timeout_ms=600_000, breaker=breaker) as remote:
        assert [(await remote.ask(ASK)).fault for _ in range(3)] == ["unreachable", "unreachable", "breaker"]
        is_awake, now = True, 6.0
        assert [(await remote.ask(ASK)).allowed for _ in range(3)] == [True] * 3


async def test_one_callers_errors_do_not_shut_the_door_on_the_others() -> None:
    breaker = Breaker(failures_max=2)
    async with server(answering(b"{}", "500 Oops")) as url, Remote(url, timeout_ms=600_000, breaker=breaker) as remote:
        assert [(await remote.ask(ASK)).fault for _ in range(5)] == ["error"] * 5
    assert not breaker.is_open


async def test_a_question_that_cannot_be_put_says_nothing_of_the_server() -> None:
    breaker = Breaker(failures_max=1)
    async with Remote("http://127.0.0.1:1", timeout_ms=600_000, breaker=breaker) as remote:
        assert (await remote.ask(ASK)).fault == "unreachable"
        assert (await remote.ask(Request(Principal(actor="\ud800"), Action.READ))).fault == "error"
        assert breaker.is_open


async def test_the_environments_proxy_is_not_asked_who_may(monkeypatch: pytest.MonkeyPatch) -> None:
    async with server(answering(YES)) as proxy, Remote("http://127.0.0.1:1", timeout_ms=600_000) as direct:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy)
        async with Remote("http://127.0.0.1:1", timeout_ms=600_000) as remote:
            assert (await remote.ask(ASK)).fault == "unreachable"
        assert (await direct.ask(ASK)).fault == "unreachable"


async def test_a_server_behind_a_socket_file_is_reached(tmp_path: Path) -> None:
    path = tmp_path / "opa.sock"
    running = await asyncio.start_unix_server(answering(YES), path)
    async with Remote(f"unix:{path}", timeout_ms=600_000) as remote:
        assert (await remote.ask(ASK)).allowed
    running.close()


async def test_no_question_waits_for_the_answer_to_another() -> None:
    everybody = asyncio.Barrier(50)

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await everybody.wait()
        await answering(YES)(reader, writer)

    async with server(behave) as url, Remote(url, timeout_ms=600_000) as remote:
        found = await asyncio.gather(*(remote.ask(ASK) for _ in range(50)))
    assert [each.allowed for each in found] == [True] * 50


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not the address of a policy server"):
        Remote("localhost:8181")
