"""The short cut: whoever takes it cannot tell it from uvicorn's own way, and nobody takes it who may not."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette

from tallystick.server.http import http_app
from tallystick.server.oauth import principal_of
from tallystick.server.protocol import HEADS_MAX, Protocol, read_head
from tests.server import sample
from tests.server.connections import Connection, count_answers, running
from tests.server.fast_paths import ENVELOPE, INITIALIZED, MODERN, hello, rpc
from tests.server.issuing import Issuer
from tests.server.sample import offer


def app(**changes: Any) -> Starlette:
    return http_app(offer(**changes), hosts=["memory.example"])


def request(body: bytes, *lines: str, line: str = "POST /mcp HTTP/1.1", name: str = "sample.echo") -> bytes:
    """A call in the modern era; a line for a header that is given already replaces it, and `Name` alone removes it."""
    headers = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
        "Content-Length": str(len(body)),
    }
    more = []
    for said in lines:
        key, colon, value = said.partition(":")
        if key in headers and not colon:
            del headers[key]
        elif key in headers:
            headers[key] = value.removeprefix(" ")
        else:
            more.append(said)
    head = [line, *(f"{key}: {value}" for key, value in headers.items()), *more, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


def call(name: str = "sample.echo", arguments: Any = None, *, id: int = 1) -> bytes:
    given = {"text": "x"} if arguments is None else arguments
    return rpc(id, "tools/call", {"name": name, "arguments": given, "_meta": ENVELOPE})


def calling(name: str = "sample.echo", arguments: Any = None, *lines: str, id: int = 1) -> bytes:
    return request(call(name, arguments, id=id), *lines, name=name)


def waiting(door: str, *, id: int = 1) -> bytes:
    return calling("sample.wait", {"name": door}, id=id)


def posted(tool: str, body: bytes, *lines: str) -> bytes:
    return request(body, *lines, line=f"POST /v1/tools/{tool} HTTP/1.1")


PLAIN = calling()
REQUESTS: dict[str, bytes] = {
    "plain": PLAIN,
    "a longer body": calling(arguments={"text": "xy" * 700}),
    "a body past what is small": calling(arguments={"text": "x" * 70_000}),
    "refused arguments": calling(arguments={"text": 1}),
    "an error": calling("sample.fail", {"kind": "NotFound"}),
    "a bug": calling("sample.crash", {}),
    "a call that waits a turn": calling("sample.release", {"name": "x"}),
    "no such tool": calling("sample.none", {}),
    "another method": request(rpc(1, "tools/list", {"_meta": ENVELOPE}), "Mcp-Method: tools/list", "Mcp-Name"),
    "a notification": request(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'),
    "no JSON": request(b"{nonsense"),
    "a key twice": request(b'{"jsonrpc":"2.0","jsonrpc":"2.0"}'),
    "a batch": request(b"[]"),
    "no body": request(b""),
    "no length": request(b"", "Content-Length"),
    "names in other letters": PLAIN.replace(b"Content-Length", b"cOnTeNt-LeNgTh"),
    "blanks around values": PLAIN.replace(b"Host: 127.0.0.1", b"Host:   127.0.0.1 \t"),
    "blanks after the length": request(call(), f"Content-Length: {len(call())}  "),
    "a length with zeros": request(call(), f"Content-Length: 00{len(call())}"),
    "a foreign host": calling("sample.echo", None, "Host: elsewhere.example"),
    "another host of ours": calling("sample.echo", None, "Host: memory.example"),
    "no host": calling("sample.echo", None, "Host"),
    "a page": calling("sample.echo", None, "Origin: http://localhost:3000"),
    "a foreign page": calling("sample.echo", None, "Origin: http://elsewhere.example"),
    "a tenant": calling("sample.whoami", {}, "X-Tenant: acme"),
    "a tenant that may nothing": calling("sample.whoami", {}, "X-Tenant: denied"),
    "a header twice": calling("sample.echo", None, "X-One: 1", "X-One: 2"),
    "an unknown version": calling("sample.echo", None, "MCP-Protocol-Version: 1999-01-01"),
    "another name in the header": calling("sample.echo", None, "Mcp-Name: sample.whoami"),
    "no accept": calling("sample.echo", None, "Accept: text/html"),
    "forwarded": calling("sample.echo", None, "X-Forwarded-For: 10.0.0.1", "X-Forwarded-Proto: https"),
    "chunked": request(
        b"%x\r\n%b\r\n0\r\n\r\n" % (len(call()), call()), "Content-Length", "Transfer-Encoding: chunked"
    ),
    "trailers": request(
        b"%x\r\n%b\r\n0\r\nX-Tenant: acme\r\nMcp-Name: sample.whoami\r\n\r\n" % (len(call()), call()),
        "Content-Length",
        "Transfer-Encoding: chunked",
    ),
    "expecting to be told to go on": calling("sample.echo", None, "Expect: 100-continue"),
    "an upgrade that is not to be had": calling("sample.echo", None, "Connection: keep-alive, X", "Upgrade: x"),
    "kept alive": calling("sample.echo", None, "Connection: keep-alive"),
    "REST": posted("sample.echo", b'{"text":"x"}'),
    "REST by its other name": posted("plain_echo", b'{"text":"x"}'),
    "REST, refused arguments": posted("sample.echo", b'{"text":1}'),
    "REST, no object": posted("sample.echo", b"[]"),
    "REST, no JSON": posted("sample.echo", b"{"),
    "REST, another kind": posted("sample.echo", b"{}", "Content-Type: text/plain"),
    "REST, an error that says when to come again": posted("sample.fail", b'{"kind":"TooMuch","code":"RATE_LIMITED"}'),
    "REST, a bug": posted("sample.crash", b"{}"),
    "REST, a page": posted("sample.echo", b'{"text":"x"}', "Origin: http://localhost:3000"),
    "REST, a foreign host": posted("sample.echo", b'{"text":"x"}', "Host: elsewhere.example"),
    "REST, no such tool": posted("sample.none", b"{}"),
    "REST, a query": posted("sample.echo?x=1", b'{"text":"x"}'),
    "a query": request(call(), line="POST /mcp?x=1 HTTP/1.1"),
    "another path": request(call(), line="POST /mcp/ HTTP/1.1"),
    "an escaped path": request(call(), line="POST /%6dcp HTTP/1.1"),
    "health": b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a method that is not served": request(b"", line="PUT /mcp HTTP/1.1"),
}
LAST: dict[str, bytes] = {
    "closing": calling("sample.echo", None, "Connection: close"),
    "closing in other words": calling("sample.echo", None, "connection: Close"),
    "HTTP/1.0": request(call(), line="POST /mcp HTTP/1.0"),
    "no HTTP": b"nonsense\r\n\r\n",
    "a length twice": request(call(), "X-A: b\r\nContent-Length: 3"),
    "a length and chunks": request(call(), "Transfer-Encoding: chunked"),
    "no length at all": request(call(), "Content-Length: many"),
    "less than no length": request(call(), "Content-Length: -1"),
    "a length with a sign": request(call(), f"Content-Length: +{len(call())}"),
    "a length past all numbers": request(call(), f"Content-Length: {'9' * 30}"),
    "a blank before the colon": PLAIN.replace(b"Content-Length:", b"Content-Length :"),
    "a folded header": PLAIN.replace(b"Accept: ", b"Accept:\r\n "),
    "bare ends of lines": PLAIN.replace(b"\r\n", b"\n"),
    "a zero byte": PLAIN.replace(b"Host: ", b"Host: \0"),
    "more than its length": PLAIN + b"and more\r\n\r\n",
}
"""Those that the connection does not survive."""

_ERROR_ID = re.compile(rb'(error_id\\?":\\?")[0-9a-f]{16}')


async def answers(connection: Connection, packets: Sequence[bytes], expected: int) -> tuple[bytes, bool]:
    connection.say(*packets)
    heard = await connection.hear(expected)
    return _ERROR_ID.sub(rb"\g<1>0000000000000000", heard), connection.is_closed


async def both(packets: Sequence[bytes], expected: int) -> tuple[bytes, bool]:
    """What either way answers, when it is the same."""
    async with running(app()) as served:
        short, usual = [await answers(served.connect(short=short), packets, expected) for short in (True, False)]
    assert short == usual
    return short


async def test_the_short_cut_is_taken_by_plain_calls() -> None:
    async with running(app()) as served:
        connection = served.connect()
        for number in range(3):
            connection.say(calling(arguments={"text": "x" * number}, id=number))
            heard = await connection.hear(number + 1)
        assert served.short_cut.taken == 3
        assert heard.startswith(b"HTTP/1.1 200 OK\r\ndate: today\r\ncontent-length: ")
        assert served.state.total_requests == 3
        assert not served.state.tasks


async def test_the_short_cut_is_taken_by_rest() -> None:
    async with running(app()) as served:
        connection = served.connect()
        connection.say(posted("sample.echo", b'{"text":"x"}'))
        assert (await connection.hear(1)).endswith(b'\r\n\r\n{"said":"x"}')
        assert served.short_cut.taken == 1


async def test_the_heads_that_are_remembered_are_few() -> None:
    async with running(app()) as served:
        connection = served.connect()
        for number in range(HEADS_MAX * 3):
            connection.say(calling("sample.echo", None, f"X-Number: {number}"))
            await connection.hear(number + 1)
        assert served.short_cut.taken == HEADS_MAX * 3
        assert len(connection.protocol._heads) == HEADS_MAX


@pytest.mark.parametrize("name", REQUESTS)
async def test_every_request_has_one_answer_and_leaves_the_connection_alike(name: str) -> None:
    heard, is_closed = await both([PLAIN], 1)
    assert (count_answers(heard), is_closed) == (1, False)
    for packets in ([REQUESTS[name], PLAIN], [PLAIN, REQUESTS[name], PLAIN]):
        heard, is_closed = await both(packets, len(packets))
        assert (count_answers(heard), is_closed) == (len(packets), False)


@pytest.mark.parametrize("name", LAST)
async def test_every_last_request_has_one_answer(name: str) -> None:
    for before in ([], [PLAIN]):
        async with running(app()) as served:
            told = []
            for short in (True, False):
                connection = served.connect(short=short)
                connection.say(*before)
                await connection.hear(len(before))
                connection.say(LAST[name])
                told.append(_ERROR_ID.sub(rb"\g<1>0000000000000000", await connection.closed()))
            assert told[0] == told[1]


async def test_a_request_may_be_cut_anywhere() -> None:
    whole, _ = await both([PLAIN], 1)
    async with running(app()) as served:
        for at in range(1, len(PLAIN)):
            assert await answers(served.connect(), [PLAIN[:at], PLAIN[at:]], 1) == (whole, False), at
        bytewise = [PLAIN[at : at + 1] for at in range(len(PLAIN))]
        assert await answers(served.connect(), bytewise, 1) == (whole, False)


async def test_head_and_body_in_two_packets_take_the_short_cut() -> None:
    head = len(PLAIN) - len(call())
    async with running(app()) as served:
        connection = served.connect()
        connection.say(PLAIN[:head])
        connection.say(PLAIN[head:-5], PLAIN[-5:])
        await connection.hear(1)
        assert served.short_cut.taken == 1


@pytest.mark.parametrize("short", [True, False])
async def test_a_body_is_not_taken_for_a_request(short: bool) -> None:
    """Not even where the answer was given before it came."""
    refused = request(PLAIN, "Host: elsewhere.example")
    async with running(app()) as served:
        connection = served.connect(short=short)
        connection.say(PLAIN)
        await connection.hear(1)
        connection.say(refused[: -len(PLAIN)])
        await connection.hear(2)
        connection.say(PLAIN)
        connection.say(calling(id=7))
        heard = await connection.hear(3)
        assert (ids(heard), count_answers(heard)) == ([1, 7], 3)


async def test_a_body_past_the_limit_is_refused_alike() -> None:
    async with running(app(body_bytes_max=1_000)) as served:
        told = []
        for short in (True, False):
            connection = served.connect(short=short)
            connection.say(calling(arguments={"text": "x" * 1_000}))
            told.append(await connection.hear(1))
        assert told[0] == told[1]
        assert told[0].startswith(b"HTTP/1.1 413 ")
        assert served.short_cut.admitted == 0


@settings(max_examples=150, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(sorted(REQUESTS)), min_size=1, max_size=4), st.data())
def test_however_requests_follow_each_other_they_have_one_answer(names: list[str], data: st.DataObject) -> None:
    """In one packet, in several, with and without a wait for the answers before."""
    stream = b"".join(REQUESTS[name] for name in names)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    edges = [0, *sorted(cuts), len(stream)]
    packets = [stream[start:end] for start, end in pairwise(edges)]
    heard, is_closed = asyncio.run(both(packets, len(names)))
    assert (count_answers(heard), is_closed) == (len(names), False)


def ids(heard: bytes) -> list[int]:
    return [int(id) for id in re.findall(rb'{"jsonrpc":"2.0","id":(\d+)', heard)]


@pytest.mark.parametrize("short", [True, False])
async def test_answers_come_in_the_order_of_the_requests(short: bool) -> None:
    sample.close_doors()
    async with running(app()) as served:
        connection, other = served.connect(short=short), served.connect()
        connection.say(waiting("a", id=1))
        await sample.arrival("a")
        connection.say(calling(id=2), calling(id=3) + waiting("b", id=4), calling(id=5))
        other.say(calling("sample.release", {"name": "b"}), calling("sample.release", {"name": "a"}))
        assert ids(await connection.hear(5)) == [1, 2, 3, 4, 5]


async def test_a_client_that_leaves_half_way_has_asked_nothing() -> None:
    async with running(app()) as served:
        connection = served.connect()
        connection.say(PLAIN[:-1])
        assert served.short_cut.admitted == 1
        connection.drop()
        assert (served.short_cut.taken, connection.heard) == (0, b"")
        assert not served.state.connections


async def test_a_client_that_leaves_while_it_waits_harms_nobody() -> None:
    sample.close_doors()
    async with running(app()) as served:
        connection, other = served.connect(), served.connect()
        connection.say(waiting("door"))
        await sample.arrival("door")
        connection.say(PLAIN)
        (task,) = served.state.tasks
        connection.drop()
        other.say(calling("sample.release", {"name": "door"}))
        await task
        assert count_answers(await other.hear(1)) == 1
        assert (connection.heard, served.state.tasks) == (b"", set())


async def test_who_does_not_read_is_not_answered_until_they_do() -> None:
    async with running(app()) as served:
        connection = served.connect()
        connection.protocol.pause_writing()
        connection.say(PLAIN)
        assert served.short_cut.taken == 0
        connection.protocol.resume_writing()
        assert count_answers(await connection.hear(1)) == 1


# -- the end


async def test_a_server_that_ends_closes_what_rests() -> None:
    async with running(app()) as served:
        connection = served.connect()
        connection.say(PLAIN)
        await connection.hear(1)
        connection.protocol.shutdown()
        assert connection.is_closed


async def test_a_server_that_ends_answers_what_it_was_asked() -> None:
    sample.close_doors()
    async with running(app()) as served:
        connection, other = served.connect(), served.connect()
        connection.say(waiting("door"))
        await sample.arrival("door")
        connection.protocol.shutdown()
        assert not connection.is_closed
        other.say(calling("sample.release", {"name": "door"}))
        heard = await connection.closed()
        assert b"\r\nconnection: close\r\n" in heard
        assert count_answers(heard) == 1


@pytest.mark.parametrize("short", [True, False])
async def test_a_server_that_ends_waits_for_the_rest_of_a_body(short: bool) -> None:
    async with running(app()) as served:
        connection = served.connect(short=short)
        connection.say(PLAIN[:-3])
        connection.protocol.shutdown()
        connection.say(PLAIN[-3:])
        heard = await connection.closed()
        assert b"\r\nconnection: close\r\n" in heard
        assert count_answers(heard) == 1


async def test_a_call_that_is_given_up_at_the_end_closes_its_connection() -> None:
    sample.close_doors()
    async with running(app()) as served:
        connection = served.connect()
        connection.say(waiting("never"))
        await sample.arrival("never")
        (task,) = served.state.tasks
        task.cancel()
        assert await connection.closed() == b""
        assert not served.state.tasks
        connection.protocol.timeout_keep_alive_handler()
        assert connection.protocol.timeout_keep_alive_task is None


async def test_a_connection_that_rests_too_long_is_closed() -> None:
    async with running(app(), timeout_keep_alive=0.05) as served:
        connection = served.connect()
        connection.say(PLAIN)
        assert count_answers(await connection.closed()) == 1


async def test_a_connection_that_is_used_is_not_closed() -> None:
    sample.close_doors()
    async with running(app()) as served:
        connection = served.connect()
        connection.say(PLAIN)
        await connection.hear(1)
        ring(connection.protocol)
        connection.say(PLAIN[:-1])
        rest(connection.protocol)
        ring(connection.protocol)
        connection.say(PLAIN[-1:])
        await connection.hear(2)
        connection.say(waiting("door"))
        await sample.arrival("door")
        rest(connection.protocol)
        ring(connection.protocol)
        connection.drop()


def rest(protocol: Protocol) -> None:
    """As if it had been left alone for long."""
    protocol._rested_at = -1_000_000.0


def ring(protocol: Protocol) -> None:
    assert protocol.timeout_keep_alive_task is not None
    protocol.timeout_keep_alive_task.cancel()
    protocol.timeout_keep_alive_handler()
    assert not protocol.transport.is_closing()


# -- sessions


def in_session(session: str, body: bytes, *more: str) -> bytes:
    dropped = ("Mcp-Method", "Mcp-Name")
    return request(body, "MCP-Protocol-Version: 2025-11-25", *dropped, f"Mcp-Session-Id: {session}", *more)


async def opened(connection: Connection, *more: str) -> str:
    before = count_answers(connection.heard)
    connection.say(request(hello("2025-11-25"), "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", *more))
    heard = await connection.hear(before + 1)
    session: str = re.findall(rb"mcp-session-id: (\w+)", heard)[-1].decode()
    connection.say(in_session(session, INITIALIZED, *more))
    await connection.hear(before + 2)
    connection.say(in_session(session, rpc(9, "ping"), *more))
    await connection.hear(before + 3)
    return session


def in_era(name: str, arguments: Any, id: int = 1) -> bytes:
    return rpc(id, "tools/call", {"name": name, "arguments": arguments})


async def test_a_call_in_a_session_has_one_answer() -> None:
    async with running(app()) as served:
        short, usual = served.connect(), served.connect(short=False)
        session = await opened(short)
        asked = in_session(session, in_era("sample.echo", {"text": "x"}))
        taken, before = served.short_cut.taken, len(short.heard)
        short.say(asked)
        usual.say(asked)
        assert (await short.hear(4))[before:] == await usual.hear(1)
        assert served.short_cut.taken == taken + 1


async def test_a_call_that_took_the_short_cut_can_be_cancelled() -> None:
    sample.close_doors()
    async with running(app()) as served:
        connection, other = served.connect(), served.connect()
        session = await opened(connection)
        connection.say(in_session(session, in_era("sample.wait", {"name": "never"}, 7)))
        await sample.arrival("never")
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        other.say(in_session(session, json.dumps(note).encode()))
        assert b"Request cancelled" in await connection.hear(4)
        connection.say(in_session(session, in_era("sample.echo", {"text": "still here"})))
        assert b"still here" in await connection.hear(5)


# -- who may


async def test_nobody_takes_the_short_cut_without_a_token_that_was_verified() -> None:
    issuer = Issuer()
    guarded = http_app(offer(principal_of=principal_of), admission=issuer.admission())
    good = f"Authorization: Bearer {issuer.token()}"
    forged = f"{good[:-4]}AAAA"
    async with running(guarded) as served:

        async def ask(*lines: str) -> tuple[bytes, int]:
            told = []
            taken = served.short_cut.taken
            for short in (True, False):
                connection = served.connect(short=short)
                connection.say(calling("sample.whoami", {}, *lines))
                told.append(await connection.hear(1))
            assert told[0] == told[1]
            return told[0][9:12], served.short_cut.taken - taken

        assert await ask() == (b"401", 0)
        assert await ask(forged) == (b"401", 0)
        assert await ask(good) == (b"200", 0)
        assert await ask(good) == (b"200", 1)
        assert await ask(forged) == (b"401", 0)
        assert await ask(good, "authorization: Bearer x") == (b"401", 0)
        assert await ask(good.replace("Bearer", "Basic")) == (b"401", 0)
        assert await ask(good, "Host: elsewhere.example") == (b"421", 0)
        issuer.now += 1_000
        assert await ask(good) == (b"401", 0)
        assert served.short_cut.admitted == 1


async def test_a_token_is_judged_for_each_request_of_a_connection() -> None:
    issuer = Issuer()
    guarded = http_app(offer(principal_of=principal_of), admission=issuer.admission())
    asked = calling("sample.whoami", {}, f"Authorization: Bearer {issuer.token()}")
    async with running(guarded) as served:
        connection = served.connect()
        for number in range(3):
            connection.say(asked)
            heard = await connection.hear(number + 1)
        assert served.short_cut.taken == 2
        issuer.now += 1_000
        connection.say(asked)
        assert (await connection.hear(4))[len(heard) :].startswith(b"HTTP/1.1 401 ")
        assert served.short_cut.taken == 2


async def test_of_a_caller_who_is_not_known_no_body_is_waited_for() -> None:
    issuer = Issuer()
    guarded = http_app(offer(principal_of=principal_of), admission=issuer.admission())
    async with running(guarded) as served:
        connection = served.connect()
        connection.say(PLAIN[:-1])
        assert (await connection.hear(1)).startswith(b"HTTP/1.1 401 ")
        assert served.short_cut.admitted == 0


async def test_a_session_is_not_entered_with_the_token_of_another() -> None:
    issuer = Issuer()
    guarded = http_app(offer(principal_of=principal_of), admission=issuer.admission())
    alice, bob = (f"Authorization: Bearer {issuer.token(issuer.claims(sub=name))}" for name in ("alice", "bob"))
    async with running(guarded) as served:
        mine, theirs = served.connect(), served.connect()
        session = await opened(mine, alice)
        await opened(theirs, bob)
        taken = served.short_cut.taken
        theirs.say(in_session(session, in_era("sample.whoami", {}), bob))
        assert (await theirs.hear(4)).rpartition(b"HTTP/1.1 ")[2].startswith(b"404")
        mine.say(in_session(session, in_era("sample.whoami", {}), alice))
        assert b"alice" in await mine.hear(4)
        assert served.short_cut.taken == taken + 1


# -- heads


@pytest.mark.parametrize(
    "raw",
    [
        PLAIN,
        PLAIN[: -len(call()) - 1],
        b"",
        request(b""),
        request(b"x", "Transfer-Encoding: chunked")[:-1],
        request(b"x", "Expect: 100-continue")[:-1],
        request(b"x", "Connection: close")[:-1],
        request(b"x", "Connection: upgrade", "Upgrade: websocket")[:-1],
        request(b"x", line="POST /mcp HTTP/1.0")[:-1],
        request(b"x", line="GET /mcp HTTP/1.1")[:-1],
        request(b"x", "X-A: b\r\nContent-Length: 1")[:-1],
    ],
)
def test_what_is_no_plain_head_is_not_read(raw: bytes) -> None:
    assert read_head(raw) is None


def test_a_plain_head_is_read() -> None:
    read = read_head(request(b"x", "X-Letters: Ab")[:-1])
    assert read is not None
    assert read[0] == b"/mcp"
    assert (b"x-letters", b"Ab") in read[1]


async def test_trailers_are_no_headers() -> None:
    """Behind the body nothing can be said that a guard would have had to see."""
    chunks = b"2\r\n{}\r\n0\r\nX-Tenant: acme\r\nContent-Type: application/json\r\nHost: evil.example\r\n\r\n"
    chunked = ("Content-Length", "Transfer-Encoding: chunked")
    async with running(app()) as served:
        connection = served.connect(short=True)
        connection.say(posted("sample.whoami", chunks, *chunked))
        connection.say(posted("sample.whoami", chunks, *chunked, "Content-Type"))
        connection.say(posted("sample.whoami", b"{}", "X-Tenant: acme"))
        heard = await connection.hear(3)
    statuses = re.findall(rb"HTTP/1.1 (\d+) ", heard)
    assert statuses == [b"200", b"415", b"200"]
    assert heard.count(b"acme") == 1
