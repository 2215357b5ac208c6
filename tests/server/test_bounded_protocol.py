"""What a connection may cost, and that nothing else changes: every request is answered once, in order."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallystick.server.bounded_protocol import SLICE_BYTES, Bounds
from tallystick.server.front import HttpFront
from tallystick.server.http import http_app
from tests.server import sample
from tests.server.connections import count_answers, running, statuses

pytestmark = pytest.mark.anyio


def app(**changes: Any) -> HttpFront:
    return http_app(sample.offer(**changes))


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
    bounds = Bounds(head_seconds=10.0, body_seconds=60.0)
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
        assert [each.is_closed for each in (body, answered, resting)] == [True, False, False]
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
