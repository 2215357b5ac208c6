"""What arrives while pages are open: commits that may be read, to whom they are told, and how many may listen."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
from collections.abc import AsyncIterator, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from tallystick.config import Settings
from tallystick.extensions.web import events
from tallystick.extensions.web.responses import WebPages
from tallystick.policy import Principal
from tallystick.server.front import HttpFront
from tallystick.server.http import http_app
from tests.mcp_client import serving_http
from tests.sample_memory import outcome_of
from tests.server.web.pages import SITE, Pages, pages_of, serving_pages

pytestmark = pytest.mark.anyio


class Server(msgspec.Struct):
    pages: Pages
    web: WebPages
    front: HttpFront

    @asynccontextmanager
    async def listening(self, query: str = "", **headers: str) -> AsyncIterator[Listener]:
        listener = Listener()
        scope = _scope(query, headers)
        task = asyncio.create_task(self.front(scope, listener.receive, listener.send))
        try:
            yield listener
        finally:
            listener.left.set()
            await task


class Listener:
    """A page that listens, without a socket."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        self._sent: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self._said: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self._sent.put_nowait(message)

    async def status(self) -> int:
        return int((await self._sent.get())["status"])

    async def body(self) -> bytes | None:
        """The next piece; None at the end."""
        message = await self._sent.get()
        return message["body"] if message["more_body"] else None

    async def event(self) -> dict[str, Any]:
        """The next one that is no heartbeat and no setting."""
        while not self._said:
            for block in (await self.body() or b"event: end\ndata: {}").decode().split("\n\n"):
                lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
                if "data" in lines:
                    self._said.append({**lines, "data": json.loads(lines["data"])})
        return self._said.pop(0)


def _scope(query: str, headers: dict[str, str]) -> dict[str, Any]:
    given = {"host": SITE.removeprefix("http://"), "accept": "text/event-stream", **headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/events",
        "raw_path": b"/events",
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 5000),
        "server": ("127.0.0.1", 8765),
    }


@asynccontextmanager
async def serving(base: Path, *, principal: Principal | None = None, **settings: Any) -> AsyncIterator[Server]:
    async with serving_pages(base, **settings) as pages:
        chosen = Settings(base=base, toolsets=("all",), **settings)
        offer = pages.offer
        if principal is not None:
            offer = msgspec.structs.replace(offer, principal_of=lambda scope: principal)
        web = pages_of(chosen, offer)
        assert web is not None
        yield Server(pages, web, http_app(offer, pages=web))


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path) as server:
        await server.pages.node("plan", attrs={"title": "The plan"})
        yield server


async def test_a_commit_is_told_as_it_arrives(server: Server) -> None:
    async with server.listening() as listener:
        assert await listener.status() == 200
        await server.pages.node("a/b.json", "decision", "grace", attrs={"title": "<b>"}, reason="since\n\nid: 9")
        event = await listener.event()
    assert (event["event"], event["id"]) == ("commit", "2")
    said, row = event["data"], event["data"]["commit"]
    assert (row["entity_id"], row["title"], row["actor"], row["sign"]) == ("a/b.json", "<b>", "grace", "created")
    assert (said["type"], said["initials"], row["reason"]) == ("decision", "gr", "since\n\nid: 9")
    assert said["address"] == "/entities/a%2Fb%2Ejson"
    assert said["moment"] == "/entities/a%2Fb%2Ejson?as_of=2"


async def test_an_arrival_says_whether_a_person_wrote_it(tmp_path: Path) -> None:
    async with serving(tmp_path, web_actor="nora") as server:
        who = msgspec.structs.replace(server.pages.offer.principal_of(None), actor="ada", tool="memory.write")
        await outcome_of(server.pages.offer, who, "memory.search", {"query": "plan"})
        for _ in range(2):
            await server.pages.json("/audit")  # which waits for what was decided before to be written down
        async with server.listening() as listener:
            await listener.status()
            for author in ("ada", "nora"):
                await server.pages.node("plan", "note", author)
            assert [(await listener.event())["data"]["kind"] for _ in range(2)] == ["agent", "person"]


async def test_of_a_relation_it_is_told_which(server: Server) -> None:
    await server.pages.node("other")
    async with server.listening() as listener:
        await listener.status()
        await server.pages.edge("plan", "needs", "other")
        assert (await listener.event())["data"]["type"] == "needs"


@pytest.mark.parametrize(("query", "headers"), [("after=1", {}), ("after=0", {"last_event_id": "1"})])
async def test_what_was_written_since_the_page_was_drawn_is_told_once(
    server: Server, query: str, headers: dict[str, str]
) -> None:
    for name in ("first", "second"):
        await server.pages.node(name)
    async with server.listening(query, **headers) as listener:
        await listener.status()
        told = [(await listener.event())["id"] for _ in range(2)]
        await server.pages.node("third")
        told.append((await listener.event())["id"])
    assert told == ["2", "3", "4"]


async def test_who_was_away_for_long_is_told_so_instead(server: Server) -> None:
    for number in range(events.WAITING_MAX + 1):
        await server.pages.node(f"n{number}")
    async with server.listening("after=1") as listener:
        await listener.status()
        assert (await listener.event())["event"] == "missed"
        await server.pages.node("new")
        assert (await listener.event())["data"]["commit"]["entity_id"] == "new"


async def test_nothing_is_left_of_streams_that_ended(server: Server) -> None:
    for _ in range(3):
        async with AsyncExitStack() as open_pages:
            for _ in range(20):
                listener = await open_pages.enter_async_context(server.listening())
                assert await listener.status() == 200
            assert server.web.events.listening == 20
        assert server.web.events.listening == 0
    del listener
    gc.collect()
    kinds = (events.Stream, events.Feed, events.EventStream)
    assert [found for found in gc.get_objects() if isinstance(found, kinds)] == []


async def test_what_waits_for_a_slow_page_is_bounded() -> None:
    stream = events.Stream()
    stream.begin(0, [])
    for position in range(1, 3 * events.WAITING_MAX):
        stream.put(events.Message(position, b"%d;" % position))
    taken = await stream.take()
    assert taken is not None
    assert taken.startswith(b"event: missed\n")
    assert taken.count(b";") == events.WAITING_MAX
    assert taken.endswith(b"%d;" % (3 * events.WAITING_MAX - 1))


async def test_nothing_more_is_told_after_a_logout_through_another_process() -> None:
    stream = events.Stream()
    stream.begin(0, [])
    stream.put(events.Message(1, b"1;"))
    assert await stream.take(lambda: False) == b"1;"
    stream.put(events.Message(2, b"2;"))
    assert await stream.take(lambda: True) is None


async def test_while_nothing_comes_both_sides_hear_that_the_other_is_there(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.01)
    async with server.listening() as listener:
        await listener.status()
        assert await listener.body() == b"retry: 5000\n\n"
        assert await listener.body() == b": still here\n\n"


async def test_a_stream_ends_in_time_so_that_the_caller_is_asked_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "STREAM_SECONDS", 0.01)
    async with server.listening() as listener:
        assert await listener.status() == 200
        assert (await listener.event())["event"] == "end"
    assert server.web.events.listening == 0


async def test_where_nobody_listens_nobody_follows(server: Server) -> None:
    before = asyncio.all_tasks()
    async with server.listening() as one, server.listening() as other:
        assert [await one.status(), await other.status()] == [200, 200]
        assert server.web.events.listening == 2
        assert [task.get_name() for task in asyncio.all_tasks()].count("web events") == 1
    assert server.web.events.listening == 0
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_streams_end_when_the_server_does(server: Server) -> None:
    async with server.listening() as listener:
        await listener.status()
        server.web.drain()
        assert (await listener.event())["event"] == "end"
    async with server.listening() as late:
        assert await late.status() == 429


async def test_only_so_many_pages_listen(tmp_path: Path) -> None:
    async with serving(tmp_path, http_connections_max=8) as server:
        async with server.listening() as one, server.listening() as two:
            assert [await one.status(), await two.status()] == [200, 200]
            async with server.listening() as three:
                assert await three.status() == 429
        async with server.listening() as again:
            assert await again.status() == 200


@pytest.mark.parametrize(
    ("query", "headers", "status"),
    [
        ("after=x", {}, 400),
        ("after=-1", {}, 400),
        ("", {"last_event_id": "1; drop"}, 400),
        ("", {"origin": "http://localhost:3000"}, 403),
        ("", {"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}, 403),
    ],
)
async def test_who_asks_wrongly_hears_nothing(server: Server, query: str, headers: dict[str, str], status: int) -> None:
    async with server.listening(query, **headers) as listener:
        assert await listener.status() == status
    assert server.web.events.listening == 0


async def test_a_position_that_is_not_there_yet_is_that_of_now(server: Server) -> None:
    async with server.listening("after=99999") as listener:
        await listener.status()
        await server.pages.node("new")
        assert (await listener.event())["id"] == "2"


SECRETS_ARE_ADAS = """package notes

import rego.v1

default decision := {"result": true, "reason": "for all", "policy_version": "1", "narrows": true}

decision := {"result": false, "reason": "ada's", "policy_version": "1"} if {
	input.resource_type == "secret"
	input.actor != "ada"
}
"""


async def test_what_may_not_be_read_is_not_told(tmp_path: Path) -> None:
    rules = tmp_path / "notes.rego"
    rules.write_text(SECRETS_ARE_ADAS)
    async with serving(tmp_path / "memory", principal=Principal("bob"), policy=str(rules)) as server:
        await server.pages.node("plan")
        async with server.listening("after=0") as listener:
            await listener.status()
            assert (await listener.event())["id"] == "1"
            await server.pages.node("hidden", "secret")
            await server.pages.node("open")
            assert (await listener.event())["data"]["commit"]["entity_id"] == "open"


async def test_a_server_that_is_asked_to_end_ends_its_streams_well(tmp_path: Path) -> None:
    with serving_http(tmp_path) as server:
        async with (
            httpx2.AsyncClient(base_url=server.url) as client,
            client.stream("GET", "/events", timeout=60) as answer,
        ):
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            pieces = answer.aiter_bytes()
            assert await anext(pieces) == b"retry: 5000\n\n"
            server.process.send_signal(signal.SIGTERM)
            assert b"".join([piece async for piece in pieces]) == b""
