"""What a connection may cost, and that nothing else changes: every request is answered once, in order."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import weakref
from itertools import pairwise
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallystick.server.answers import AT_ONCE
from tallystick.server.connections import TURNED_AWAY_MAX, Bounds
from tallystick.server.front import HttpFront
from tallystick.server.http import http_app
from tallystick.server.http_protocol import SLICE_BYTES, HttpProtocol
from tests.promises import promise
from tests.server import sample
from tests.server.connections import Served, count_answers, running, statuses
from tests.timeouts import SECONDS

pytestmark = pytest.mark.anyio


def app(**changes: Any) -> HttpFront:
    return http_app(sample.offer(**changes), origins=["https://app.example"])


def post(tool: str, body: bytes, *more: bytes, host: bytes = b"localhost", length: int | None = None) -> bytes:
    lines = [b"POST /v1/tools/%b HTTP/1.1" % tool.encode(), b"Host: " + host, b"Content-Type: application/json"]
    if b"Transfer-Encoding: chunked" not in more:
        lines.append(b"Content-Length: %d" % (len(body) if length is None else length))
    return b"\r\n".join([*lines, *more]) + b"\r\n\r\n" + body


def echo(text: str) -> bytes:
    return post("sample.echo", json.dumps({"text": text}).encode())


def echoed(heard: bytes) -> list[str]:
    return [text.decode() for text in re.findall(rb'{"said":"(\w+)', heard)]


HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
REQUESTS = {
    "a call": echo("a"),
    "a long call": echo("b" * 10_000),
    "in chunks": post("sample.echo", b'c\r\n{"text":"d"}\r\n0\r\n\r\n', b"Transfer-Encoding: chunked"),
    "a foreign name": post("sample.echo", b"{}", host=b"elsewhere.example"),
    "a path that is none": HEALTH.replace(b"/health", b"/none"),
    "no body": HEALTH,
    "a question before the body": post("sample.echo", b'{"text":"e"}', b"Expect: 100-continue"),
}


@settings(max_examples=40, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(sorted(REQUESTS)), min_size=1, max_size=5), st.data())
def test_however_requests_follow_each_other_each_has_its_answer(names: list[str], data: st.DataObject) -> None:
    stream = b"".join(REQUESTS[name] for name in names)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    edges = [0, *sorted(cuts), len(stream)]

    async def ask() -> bytes:
        async with running(app()) as served:
            connection = served.connect()
            for start, end in pairwise(edges):
                connection.say(stream[start:end])
                await asyncio.sleep(0)
            return await connection.hear(len(names))

    expected = {"a foreign name": 421, "a path that is none": 404}
    assert statuses(asyncio.run(ask())) == [expected.get(name, 200) for name in names]


async def test_answers_come_in_the_order_of_the_requests() -> None:
    sample.close_doors()
    waiting = post("sample.wait", b'{"name":"door"}')
    async with running(app()) as served:
        connection, other = served.connect(), served.connect()
        connection.say(waiting)
        await sample.arrival("door")
        connection.say(echo("one"), echo("two") + echo("three"))
        other.say(post("sample.release", b'{"name":"door"}'))
        assert echoed(await connection.hear(4)) == ["door", "one", "two", "three"]


async def test_nothing_is_read_while_answers_wait() -> None:
    sample.close_doors()
    async with running(app()) as served:
        connection, other = served.connect(), served.connect()
        connection.say(post("sample.wait", b'{"name":"door"}'))
        await sample.arrival("door")
        connection.say(*([HEALTH * 20] * 10))
        assert len(connection.unread) == 9
        other.say(post("sample.release", b'{"name":"door"}'))
        assert count_answers(await connection.hear(201)) == 201


async def test_a_packet_of_requests_is_parsed_a_little_at_a_time() -> None:
    sample.close_doors()
    async with running(app()) as served:
        connection = served.connect()
        connection.say(HEALTH * 300)
        assert served.state.total_requests == 0
        assert connection.protocol.unanswered <= SLICE_BYTES // len(HEALTH) + 1
        assert count_answers(await connection.hear(300)) == 300


async def test_a_body_is_not_taken_for_a_request() -> None:
    """Not even where the answer was given before it came."""
    body = echo("smuggled")
    async with running(app()) as served:
        connection = served.connect()
        connection.say(post("sample.echo", b"", host=b"elsewhere.example", length=len(body)))
        await connection.hear(1)
        connection.say(body)
        connection.say(echo("behind"))
        heard = await connection.hear(2)
        assert (statuses(heard), echoed(heard)) == ([421, 200], ["behind"])


async def test_blanks_around_a_header_are_no_part_of_it() -> None:
    async with running(app()) as served:
        connection = served.connect()
        connection.say(echo("a").replace(b"Host: localhost", b"Host:  localhost \t").replace(b"/json", b"/json "))
        assert echoed(await connection.hear(1)) == ["a"]


@promise("trailers", "what comes behind a body is no header")
async def test_trailers_are_no_headers() -> None:
    """Behind the body nothing can be said that a guard would have had to see."""
    chunks = b"2\r\n{}\r\n0\r\nX-Tenant: acme\r\nContent-Type: application/json\r\nHost: evil.example\r\n\r\n"
    chunked = post("sample.whoami", chunks, b"Transfer-Encoding: chunked")
    async with running(app()) as served:
        connection = served.connect()
        connection.say(chunked + chunked.replace(b"Content-Type: application/json\r\n", b"", 1))
        connection.say(post("sample.whoami", b"{}", b"X-Tenant: acme"))
        heard = await connection.hear(3)
    assert statuses(heard) == [200, 415, 200]
    assert heard.count(b"acme") == 1


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 100_000,
        b"GET / HTTP/1.1\r\nX-A: " + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"X-A: a\r\n" * 15_000,
        b"GET / HTTP/1.1\r\n" + b"X-A: a\r\n" * 15_000 + b"\r\n",
    ],
)
@pytest.mark.parametrize("packet_bytes", [100, 50_000, 1_000_000])
async def test_a_head_has_a_limit(head: bytes, packet_bytes: int) -> None:
    async with running(app()) as served:
        connection = served.connect()
        connection.say(*(head[at : at + packet_bytes] for at in range(0, len(head), packet_bytes)))
        assert statuses(connection.heard) == [431]
        assert connection.is_closed


async def test_a_body_may_be_longer_than_a_head() -> None:
    async with running(app()) as served:
        connection = served.connect()
        connection.say(echo("x" * 70_000))
        assert statuses(await connection.hear(1)) == [200]


async def test_time_is_short_for_a_head_and_longer_for_a_body() -> None:
    sample.close_doors()
    bounds = Bounds(head_seconds=10.0, body_seconds=60.0, rest_seconds=30.0)
    async with running(app(), bounds) as served:
        silent, head, body, answered, resting, served_now = (served.connect() for _ in range(6))
        head.say(HEALTH[:20])
        body.say(echo("x")[:-1])
        answered.say(post("sample.wait", b'{"name":"door"}'))
        await sample.arrival("door")
        resting.say(HEALTH)
        await resting.hear(1)
        now = asyncio.get_running_loop().time()
        for each in served.opened:
            each.protocol.check(now + 9.0)
        assert not any(each.is_closed for each in served.opened)
        for each in served.opened:
            each.protocol.check(now + 11.0)
        assert [statuses(each.heard) for each in (silent, head)] == [[408], [408]]
        assert [each.is_closed for each in (silent, head, body, answered, resting)] == [True, True, False, False, False]
        assert served_now.is_closed
        for each in (body, answered, resting):
            each.protocol.check(now + 61.0)
        assert [each.is_closed for each in (body, answered, resting)] == [True, False, True]
        answered.protocol.pause_writing()
        answered.protocol.check(now + 61.0)
        assert answered.is_closed, "who does not take an answer is not waited for"


async def test_one_connection_too_many_takes_the_place_of_one_that_waits_for_its_client() -> None:
    sample.close_doors()
    async with running(app(), Bounds(connections=4)) as served:
        busy, resting, sending, silent = (served.connect() for _ in range(4))
        busy.say(post("sample.wait", b'{"name":"door"}'))
        await sample.arrival("door")
        resting.say(HEALTH)
        await resting.hear(1)
        sending.say(echo("x")[:-1])
        await asyncio.sleep(0)
        order = []
        for _ in range(4):
            newest = served.connect()
            newest.say(post("sample.wait", b'{"name":"door"}'))
            order.append([each.is_closed for each in (busy, resting, sending, silent)])
        assert order == [
            [False, False, False, True],
            [False, True, False, True],
            [False, True, True, True],
            [False, True, True, True],
        ]
        assert newest.is_closed
        assert statuses(newest.heard) == [503]
        assert b"TOO_MANY_CONNECTIONS" in newest.heard
        assert b"retry-after: 1" in newest.heard
        strangers = [served.connect() for _ in range(TURNED_AWAY_MAX + 1)]
        assert [each.is_closed for each in strangers] == [True] + [False] * TURNED_AWAY_MAX


# -- held against uvicorn's own protocol


async def mirror(scope: Any, receive: Any, send: Any) -> None:
    """Says what it was asked, in the manner that the path names."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    path = scope["path"]
    if path == "/fails":
        raise ValueError("as it was told")
    if path == "/silent":
        return
    told = ("method", "path", "raw_path", "query_string", "http_version", "scheme", "client", "server", "root_path")
    said = repr([{key: scope[key] for key in told}, sorted(scope["headers"]), body]).encode()
    length = [] if path == "/streams" else [(b"content-length", b"%d" % len(said))]
    if path == "/empty":
        said, length = b"", []
    more_headers = [(b"connection", b"close")] if path == "/closes" else []
    status = {"/empty": 204, "/fault": 503}.get(path, 200)
    await send({"type": "http.response.start", "status": status, "headers": [*length, *more_headers]})
    await send({"type": "http.response.body", "body": said[:10], "more_body": True})
    await send({"type": "http.response.body", "body": said[10:]})


def ask(path: bytes, *more: bytes, method: bytes = b"GET", version: bytes = b"1.1", body: bytes = b"") -> bytes:
    lines = [b"%b %b HTTP/%b" % (method, path, version), b"Host: localhost", *more]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


ODD = {
    "a query": ask(b"/a?b=c&d=%20"),
    "an escaped path": ask(b"/a%20b%2Fc%C3%A4"),
    "a whole address": ask(b"http://elsewhere.example/a/b?c"),
    "no address": ask(b"*", method=b"OPTIONS"),
    "a tunnel": ask(b"elsewhere.example:80", method=b"CONNECT"),
    "only the head": ask(b"/", method=b"HEAD"),
    "only the head of a stream": ask(b"/streams", method=b"HEAD"),
    "an old client": ask(b"/", version=b"1.0"),
    "an old client that would stay": ask(b"/", b"Connection: keep-alive", version=b"1.0"),
    "a version that is none": ask(b"/", version=b"9.9"),
    "the last request": ask(b"/", b"Connection: close"),
    "the last request, and one behind it": ask(b"/", b"Connection: close") + ask(b"/b"),
    "the last answer": ask(b"/closes"),
    "a stream": ask(b"/streams"),
    "nothing to say": ask(b"/empty"),
    "chunks": ask(b"/", b"Transfer-Encoding: chunked", method=b"POST", body=b"1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n"),
    "chunks that are none": ask(b"/", b"Transfer-Encoding: chunked", method=b"POST", body=b"zz\r\n"),
    "a length and chunks": ask(
        b"/", b"Transfer-Encoding: chunked", b"Content-Length: 3", method=b"POST", body=b"0\r\n\r\n"
    ),
    "two lengths": ask(b"/", b"Content-Length: 1", b"Content-Length: 2", method=b"POST", body=b"abc"),
    "a length that is none": ask(b"/", b"Content-Length: abc", method=b"POST"),
    "a folded header": ask(b"/", b"X-A: b\r\n c"),
    "a header without a name": ask(b"/", b": b"),
    "a header with a blank name": ask(b"/", b"X A: b"),
    "bytes in a header": ask(b"/", b"X-A: \xff\x80"),
    "bytes in a path": ask(b"/\xff"),
    "no HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an application that fails": ask(b"/fails"),
    "an application that says nothing": ask(b"/silent"),
    "a fault, and a call behind it": ask(b"/fault") + ask(b"/b"),
    "a question before the body": ask(b"/", b"Expect: 100-Continue", b"Content-Length: 1", method=b"POST", body=b"a"),
}


@pytest.mark.parametrize("stream", ODD.values(), ids=ODD)
async def test_what_is_odd_is_answered_as_uvicorn_answers_it(stream: bytes) -> None:
    answers = []
    for http in (None, "httptools"):
        connection = Served(mirror, Bounds(), http=http).connect()
        connection.say(stream)
        # Nothing waits for anything but its turn.
        for _ in range(30):
            await asyncio.sleep(0)
        answers.append((_told(connection.heard), connection.is_closed))
    assert answers[0] == answers[1]


def _told(heard: bytes) -> bytes:
    """Without what each may say in its own words: the date, and the bodies of its own refusals."""
    lines = [line for line in heard.split(b"\r\n") if not line.startswith((b"date:", b"content-type: text/plain"))]
    told = b"\r\n".join(lines).replace(b"Invalid HTTP request received.", b"").replace(b"Internal Server Error", b"")
    closing = rb"content-length: (21|30)\r\nconnection: close|connection: close\r\ncontent-length: 0"
    return re.sub(closing, b"", told)


UPGRADES = {
    "an upgrade": ask(b"/", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABkAAQ"),
    "an upgrade with a body": ask(
        b"/", b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 3", method=b"POST", body=b"abc"
    ),
    "a websocket": ask(b"/", b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x"),
}


@pytest.mark.parametrize("stream", UPGRADES.values(), ids=UPGRADES)
async def test_no_upgrade_is_taken_up_and_what_follows_it_is_no_request(stream: bytes) -> None:
    connection = Served(mirror, Bounds()).connect()
    connection.say(stream + ask(b"/smuggled"))
    assert statuses(await connection.hear(1)) == [200]
    connection.say(ask(b"/smuggled"))
    await connection.hear(2)
    assert connection.is_closed
    assert b"smuggled" not in connection.heard


async def test_an_answer_that_breaks_off_is_not_taken_for_a_whole_one() -> None:
    async def breaks(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        raise ValueError("as it was told")

    connection = Served(breaks, Bounds()).connect()
    connection.say(ask(b"/"))
    await connection.hear(1)
    assert connection.is_closed
    assert statuses(connection.heard) == []


async def test_an_answer_is_one_packet() -> None:
    async with running(app()) as served:
        connection = served.connect()
        connection.say(echo("a"))
        await connection.hear(1)
        assert len(connection.packets) == 1


@pytest.mark.parametrize("asked", [b"", b"Connection: close\r\n", b"Expect: 100-continue\r\nContent-Length: 1\r\n"])
async def test_head_and_body_may_be_one_message_and_mean_the_same(asked: bytes) -> None:
    headers = [(b"x-a", b"b")]

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/at-once":
            assert AT_ONCE in scope["extensions"]
            await send({"type": AT_ONCE, "status": 201, "headers": headers, "body": b"word"})
        else:
            whole = [*headers, (b"content-length", b"4")]
            await send({"type": "http.response.start", "status": 201, "headers": whole})
            await send({"type": "http.response.body", "body": b"word"})

    heard = []
    for path in (b"/at-once", b"/in-two"):
        served = Served(answer, Bounds())
        connection = served.connect()
        connection.say(b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + asked + b"\r\n")
        await asyncio.wait(served.state.tasks)
        heard.append((connection.packets, connection.is_closed))
    assert heard[0] == heard[1]


async def test_the_head_of_a_page_s_answer_is_seen_by_whoever_adds_to_it() -> None:
    async with running(app()) as served:
        connection = served.connect()
        connection.say(post("sample.echo", b'{"text":"a"}', b"Origin: https://app.example"))
        assert b"access-control-allow-origin: https://app.example" in await connection.hear(1)


@pytest.mark.parametrize("kind", ["http.response.start", AT_ONCE])
async def test_no_header_of_an_answer_begins_another(kind: str) -> None:
    async def splits(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": kind, "status": 200, "headers": [(b"x-a", b"b\r\nset-cookie: c")], "body": b""})

    connection = Served(splits, Bounds()).connect()
    connection.say(ask(b"/"))
    assert b"cookie" not in await connection.hear(1)
    assert statuses(connection.heard) == [500]


async def test_a_body_waits_until_it_is_taken() -> None:
    door, taken = asyncio.Event(), []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await door.wait()
        while (message := await receive())["more_body"]:
            taken.append(len(message["body"]))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    connection = Served(slow, Bounds()).connect()
    connection.say(ask(b"/", b"Content-Length: 1000000", method=b"POST"), *([b"x" * 10_000] * 100))
    assert len(connection.unread) == 93
    door.set()
    assert statuses(await connection.hear(1)) == [204]


async def test_whoever_leaves_is_missed() -> None:
    heard: list[str] = []

    async def listens(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            heard.append(message["type"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        heard.append("left")

    connection = Served(listens, Bounds()).connect()
    connection.say(ask(b"/"))
    await asyncio.sleep(0)
    connection.drop()
    for _ in range(5):
        await asyncio.sleep(0)
    assert heard == ["http.request", "left"]


async def test_at_the_end_what_runs_is_answered_and_who_rests_is_let_go() -> None:
    sample.close_doors()
    async with running(app()) as served:
        busy, resting, other = (served.connect() for _ in range(3))
        busy.say(post("sample.wait", b'{"name":"door"}') + HEALTH)
        await sample.arrival("door")
        resting.say(HEALTH)
        await resting.hear(1)
        for each in (busy, resting):
            each.protocol.shutdown()
        assert (busy.is_closed, resting.is_closed) == (False, True)
        other.say(post("sample.release", b'{"name":"door"}'))
        assert statuses(await busy.hear(2)) == [200]
        assert b"connection: close" in busy.heard


def test_a_connection_that_is_closed_leaves_nothing_for_the_collector() -> None:
    """What is frozen while it is open is never looked at again, and of many connections it would be much."""

    async def ask() -> None:
        gone = asyncio.Semaphore(0)
        watched: list[weakref.ref[HttpProtocol]] = []
        async with running(app()) as served:

            def accept() -> HttpProtocol:
                protocol = HttpProtocol(served.connections, served.config, served.state, {})
                watched.append(weakref.ref(protocol, lambda _: gone.release()))
                return protocol

            async with await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0) as server:
                for _ in range(3):
                    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                    writer.write(HEALTH)
                    await reader.readuntil(b"\r\n\r\n")
                    writer.close()
                    await writer.wait_closed()
                    await asyncio.wait_for(gone.acquire(), SECONDS)

    gc.collect()
    gc.disable()
    try:
        uvloop.run(ask())
    finally:
        gc.enable()
