"""Sessions over HTTP: a signed id that every process of a base can check, and that only its owner can use."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest

from tallystick.engine.sessions import Sessions
from tallystick.errors import LimitExceeded
from tallystick.policy import Principal
from tallystick.server.http import http_app
from tallystick.server.http_sessions import HttpSessions
from tallystick.server.limits import SessionQuota
from tallystick.server.oauth import Identity
from tests.promises import promise
from tests.server import sample
from tests.server.fast_paths import ENVELOPE, JSON_HEADERS, LEGACY, Application, HttpRequest, hello, rpc

HOST = "memory.example"
WITH_AND_WITHOUT = (True, False)


def known_as(actor: str, tenant: str = "acme", issuer: str = "https://id.example", client: str = "") -> Identity:
    return Identity(principal=Principal(actor, tenant), issuer=issuer, client=client, expires_at=0)


class Base:
    """Two processes of one base, as far as sessions are concerned, under one clock."""

    def __init__(self, directory: Path) -> None:
        self.now = 1_000.0
        self.one, self.other = (HttpSessions(Sessions(directory), seconds=100.0, now=self._now) for _ in range(2))

    def _now(self) -> float:
        return self.now


def test_any_process_of_the_base_knows_a_session(tmp_path: Path) -> None:
    base = Base(tmp_path)
    token = base.one.begin(known_as("ada"), "cursor", "2025-11-25")
    assert all(0x21 <= byte <= 0x7E for byte in token)
    mine, theirs = (each.find(token, known_as("ada")) for each in (base.one, base.other))
    assert mine == theirs
    assert theirs is not None
    assert (theirs.client, theirs.version, theirs.expires) == ("cursor", "2025-11-25", 1_100.0)
    assert b"ada" not in urlsafe_b64decode(token.partition(b".")[0] + b"==")


def test_what_one_process_ends_has_ended_for_all(tmp_path: Path) -> None:
    base = Base(tmp_path)
    token = base.one.begin(known_as("ada"), None, "2025-11-25")
    session = base.other.find(token, known_as("ada"))
    assert session is not None
    base.other.end(session, known_as("ada"))
    assert base.one.find(token, known_as("ada")) is base.other.find(token, known_as("ada")) is None


def test_a_session_ends_when_its_time_is_over(tmp_path: Path) -> None:
    base = Base(tmp_path)
    token = base.one.begin(None, "x", "2025-11-25")
    base.now = 1_099.9
    assert base.other.find(token, None) is not None
    base.now = 1_100.0
    assert base.other.find(token, None) is None


@pytest.mark.parametrize(
    "other",
    [None, known_as("bob"), known_as("ada", "globex"), known_as("ada", issuer="x"), known_as("ada", client="x")],
)
def test_a_session_is_its_owners(tmp_path: Path, other: Identity | None) -> None:
    base = Base(tmp_path)
    token = base.one.begin(known_as("ada"), None, "2025-11-25")
    assert base.one.find(token, other) is None
    assert base.one.find(base.one.begin(other, None, "2025-11-25"), known_as("ada")) is None


def test_what_was_not_signed_by_this_base_is_no_session(tmp_path: Path) -> None:
    base, foreign = Base(tmp_path / "one"), Base(tmp_path / "two")
    token = base.one.begin(None, None, "2025-11-25")
    body, _, signature = token.partition(b".")
    claims = json.loads(urlsafe_b64decode(body + b"=="))
    claims[-1] += 1_000_000
    forged = urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=")
    made_up = (
        b"", b".", body, body + b".", b"." + signature, forged + b"." + signature, token + b"x", token[:-1],
        token * 100, b"\xff" * 50, foreign.one.begin(None, None, "2025-11-25"),
    )  # fmt: skip
    assert [base.one.find(each, None) for each in made_up] == [None] * len(made_up)
    assert base.one.find(token, None) is not None


def test_a_name_that_is_none_is_not_carried_about(tmp_path: Path) -> None:
    base = Base(tmp_path)
    for name in ("x" * 256, " ", "a\nb"):
        token = base.one.begin(None, name, "2025-11-25")
        assert len(token) < 300
        found = base.one.find(token, None)
        assert found is not None
        assert found.client is None


def test_one_too_many_ends_the_callers_longest_idle_one_and_nobody_elses(tmp_path: Path) -> None:
    sessions = HttpSessions(Sessions(tmp_path), quota=SessionQuota(2, 3))
    others = sessions.begin(known_as("bob"), None, "2025-11-25")
    tokens = [sessions.begin(known_as("ada"), None, "2025-11-25") for _ in range(5)]
    assert [sessions.find(each, known_as("ada")) is not None for each in tokens] == [False, False, False, True, True]
    assert sessions.find(others, known_as("bob")) is not None
    with pytest.raises(LimitExceeded):
        sessions.begin(known_as("ada"), None, "2025-11-25")


# -- over the wire


def application(fast_path: bool, **changes: Any) -> Application:
    return Application(http_app(sample.offer(**changes), hosts=[HOST], fast_path=fast_path))


def listing(session: str) -> HttpRequest:
    return HttpRequest(rpc(2, "tools/list", {}), (*JSON_HEADERS, ("mcp-session-id", session)))


@promise("sessions, processes", "a session goes on in every process of a base, and ends for all of them")
@pytest.mark.anyio
@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
async def test_a_session_goes_on_in_another_server_and_ends_there_for_both(fast_path: bool, tmp_path: Path) -> None:
    one, other = (application(fast_path, sessions=Sessions(tmp_path), names_clients=True) for _ in range(2))
    async with one.run(), other.run():
        await one.open_session("shared", "2025-06-18")
        other.sessions.update(one.sessions)
        call = HttpRequest(
            rpc(1, "tools/call", {"name": "sample.session", "arguments": {}}),
            (*JSON_HEADERS, ("mcp-session-id", "session:shared")),
        )
        assert (await one.tell(call)) == (await other.tell(call))
        ended = await other.tell(HttpRequest(b"", (("mcp-session-id", "session:shared"),), method="DELETE"))
        assert ended.status == 200
        assert [(await each.tell(listing("session:shared"))).status for each in (one, other)] == [404, 404]


@pytest.mark.anyio
@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
async def test_a_call_that_waits_ends_when_another_server_ends_its_session(fast_path: bool, tmp_path: Path) -> None:
    one, other = (application(fast_path, sessions=Sessions(tmp_path)) for _ in range(2))
    async with one.run(), other.run():
        await one.open_session("shared", "2025-06-18")
        other.sessions.update(one.sessions)
        door = f"elsewhere {fast_path}"
        call = HttpRequest(
            rpc(1, "tools/call", {"name": "sample.wait", "arguments": {"name": door}}),
            (*JSON_HEADERS, ("mcp-session-id", "session:shared")),
        )
        waiting = asyncio.create_task(one.tell(call))
        await sample.arrival(door)
        await other.tell(HttpRequest(b"", (("mcp-session-id", "session:shared"),), method="DELETE"))
        assert "Session terminated" in str((await waiting).body)


@pytest.mark.anyio
@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
async def test_who_has_no_session_is_told_to_begin_one(fast_path: bool) -> None:
    app = application(fast_path)
    async with app.run():
        for method in ("POST", "DELETE"):
            body = rpc(2, "tools/list", {}) if method == "POST" else b""
            missing = await app.tell(HttpRequest(body, method=method))
            unknown = await app.tell(HttpRequest(body, (*JSON_HEADERS, ("mcp-session-id", "x")), method=method))
            assert (missing.status, unknown.status) == (400, 404)
        assert (await app.tell(HttpRequest(b"", (("accept", "text/event-stream"),), method="GET"))).status == 405


@pytest.mark.anyio
async def test_every_hello_has_one_answer() -> None:
    info = {"name": "raw", "version": "1"}
    said = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    bodies = [
        *(hello(version) for version in (*LEGACY, "1999-01-01", "2026-07-28")),
        *(rpc(1, "initialize", params) for params in (
            said, {}, None, {**said, "more": 1}, {**said, "clientInfo": {**info, "odd": 1}}, {**said, "clientInfo": 1},
            {**said, "capabilities": {"experimental": {"x": {}}}}, {**said, "capabilities": {"tasks": {}}},
            {**said, "_meta": ENVELOPE}, {**said, "protocolVersion": 7},
        )),
        rpc("a", "initialize", said),
        json.dumps({"jsonrpc": "2.0", "method": "initialize", "params": said}).encode(),
        rpc(1, "initialize", {**said, "capabilities": {"experimental": {"x": {"y": "z" * 70_000}}}}),
    ]  # fmt: skip
    fast, slow = application(True), application(False)
    statuses = []
    async with fast.run(), slow.run():
        for body in bodies:
            for headers in (JSON_HEADERS, (("content-type", "text/plain"), ("accept", "application/json"))):
                one, two = [await each.tell(HttpRequest(body, headers)) for each in (fast, slow)]
                assert one == two, body[:300]
                statuses.append(one.status)
    assert statuses[0] == 200
    assert statuses[-1] == 413


@pytest.mark.anyio
@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
async def test_who_has_too_many_sessions_in_use_waits(fast_path: bool) -> None:
    app = application(fast_path, session_quota=SessionQuota(1, 1))
    async with app.run():
        await app.open_session("only", "2025-11-25")
        refused = await app.tell(HttpRequest(hello("2025-11-25")))
        assert (refused.status, refused.body["id"]) == (429, 0)
        assert ("retry-after", "60") in refused.headers
        assert (await app.tell(listing("session:only"))).status == 200
