"""Who a client is at each door: the name it gives itself where nothing else names it, and its session (X7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp_types import Implementation

from tallystick.engine.sessions import Sessions
from tallystick.server.http import http_app
from tallystick.server.limits import SessionQuota
from tallystick.server.oauth import principal_of
from tests.promises import promise
from tests.server import sample
from tests.server.fast_paths import (
    ENVELOPE,
    INITIALIZED,
    JSON_HEADERS,
    MODERN,
    RESERVED,
    Application,
    HttpRequest,
    rpc,
    talk,
)
from tests.server.issuing import Issuer, bearer
from tests.server.serving import serving

WITH_AND_WITHOUT = (True, False)


def hello(name: str) -> bytes:
    said = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
    return rpc(0, "initialize", said)


def authorization(id: int, name: str | None = None) -> bytes:
    """`name` makes it a request of the modern era."""
    params: dict[str, Any] = {"name": "sample.session", "arguments": {}}
    if name is not None:
        params["_meta"] = {**ENVELOPE, RESERVED + "clientInfo": {"name": name, "version": "1"}}
    return rpc(id, "tools/call", params)


def answers(told: list[Any]) -> list[list[str]]:
    """Actor and session, in the order of the requests."""
    by_id = {each["id"]: each["result"] for each in told if isinstance(each["id"], int) and each["id"] > 0}
    return [by_id[id]["structuredContent"]["said"].split(" ") for id in sorted(by_id)]


# -- stdio


@promise("X7", "a client is called as it calls itself where nothing else names it")
@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
def test_over_stdio_a_client_is_called_as_it_calls_itself_and_the_process_is_its_session(fast_path: bool) -> None:
    served = sample.offer(names_clients=True)
    told = talk(
        [hello("claude-code"), INITIALIZED], [authorization(1), authorization(2)], fast_path=fast_path, served=served
    )
    (one, session), (other, again) = answers(told)
    assert (one, other) == ("claude-code", "claude-code")
    assert session == again != "None"


@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
def test_in_the_modern_era_each_request_says_whose_it_is(fast_path: bool) -> None:
    served = sample.offer(names_clients=True)
    told = talk([], [authorization(1, "ann"), authorization(2, "bob")], fast_path=fast_path, served=served)
    (one, session), (other, again) = answers(told)
    assert (one, other) == ("ann", "bob")
    assert session == again != "None"


@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
def test_a_name_that_is_configured_goes_first(fast_path: bool) -> None:
    told = talk([hello("claude-code"), INITIALIZED], [authorization(1)], fast_path=fast_path)
    assert answers(told)[0][0] == "local"


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[31mred", "x" * 256, "\u202eevil", "\0"])
@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
def test_what_is_no_name_counts_as_none(fast_path: bool, name: str) -> None:
    served = sample.offer(names_clients=True)
    told = talk([hello(name), INITIALIZED], [authorization(1)], fast_path=fast_path, served=served)
    assert answers(told)[0][0] == "local"


@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
def test_a_session_over_stdio_ends_with_its_input(fast_path: bool, tmp_path: Path) -> None:
    sessions = Sessions(tmp_path)
    served = sample.offer(sessions=sessions)
    begun: list[str] = []
    begin = sessions.begin

    def watched(**given: Any) -> str:
        begun.append(begin(**given))
        sessions.claims(begun[-1])
        return begun[-1]

    sessions.begin = watched  # type: ignore[method-assign]  # as if it claimed something at once
    talk([hello("x"), INITIALIZED], [authorization(1)], fast_path=fast_path, served=served)
    assert [Sessions(tmp_path).is_alive(each) for each in begun] == [False]


# -- HTTP


async def said(application: Application, asked: HttpRequest) -> tuple[str, str]:
    told = await application.tell(asked)
    assert told.status == 200, told
    actor, session = told.body["result"]["structuredContent"]["said"].split(" ")
    return actor, session


def in_session(name: str, *more: tuple[str, str]) -> HttpRequest:
    return HttpRequest(authorization(1), (*JSON_HEADERS, *more, ("mcp-session-id", f"session:{name}")))


@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
async def test_over_http_each_session_is_its_own_and_known_by_no_secret(fast_path: bool) -> None:
    application = Application(http_app(sample.offer(names_clients=True), hosts=["memory.example"], fast_path=fast_path))
    async with application.run():
        for name in ("one", "two"):
            await application.open_session(name, "2025-11-25")
        first, second = await said(application, in_session("one")), await said(application, in_session("two"))
        assert (first[0], second[0]) == ("raw", "raw")
        assert first == await said(application, in_session("one"))
        assert first[1] != second[1]
        assert {first[1], second[1]}.isdisjoint(application.sessions.values()), "who knows a claim could speak for it"


@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
async def test_in_the_modern_era_a_client_over_http_has_a_name_and_no_session(fast_path: bool) -> None:
    application = Application(http_app(sample.offer(names_clients=True), hosts=["memory.example"], fast_path=fast_path))
    headers = (("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "sample.session"))
    async with application.run():
        told = await said(application, HttpRequest(authorization(1, "cursor"), (*JSON_HEADERS, *headers)))
        assert told == ("cursor", "None")


async def test_rest_has_neither() -> None:
    application = Application(http_app(sample.offer(names_clients=True), hosts=["memory.example"]))
    async with application.run():
        told = await application.tell(HttpRequest(b"{}", path="/v1/tools/sample.session"))
        assert told.body == {"said": "remote None"}


@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
async def test_a_token_says_who_it_is_whatever_the_client_calls_itself(fast_path: bool) -> None:
    issuer = Issuer()
    served = sample.offer(principal_of=principal_of)
    application = Application(http_app(served, admission=issuer.admission(), fast_path=fast_path))
    async with application.run():
        token = tuple(bearer(issuer.token(issuer.claims(sub="alice"))).items())
        await application.open_session("hers", "2025-11-25", *token)
        actor, session = await said(application, in_session("hers", *token))
        assert (actor, session != "None") == ("alice", True)


@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
async def test_a_session_that_is_deleted_has_ended_when_that_is_answered(fast_path: bool, tmp_path: Path) -> None:
    sessions, elsewhere = Sessions(tmp_path), Sessions(tmp_path)
    application = Application(http_app(sample.offer(sessions=sessions), hosts=["memory.example"], fast_path=fast_path))
    async with application.run():
        await application.open_session("mine", "2025-11-25")
        _, session = await said(application, in_session("mine"))
        sessions.claims(session)
        assert elsewhere.is_alive(session) is True
        ended: list[bool | None] = []
        scope = application._scope(HttpRequest(b"", (("mcp-session-id", "session:mine"),), method="DELETE"))

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            ended.append(elsewhere.is_alive(session))

        await application._app(scope, receive, send)
        assert ended
        assert set(ended) == {False}
        sessions.claims(session)
        assert elsewhere.is_alive(session) is False, "what was still under way does not wake it"


@pytest.mark.parametrize("fast_path", WITH_AND_WITHOUT)
async def test_nobody_ends_the_session_of_another(fast_path: bool, tmp_path: Path) -> None:
    issuer = Issuer()
    sessions = Sessions(tmp_path)
    served = sample.offer(principal_of=principal_of, sessions=sessions)
    application = Application(http_app(served, admission=issuer.admission(), fast_path=fast_path))
    async with application.run():
        alice, bob = (tuple(bearer(issuer.token(issuer.claims(sub=name))).items()) for name in ("alice", "bob"))
        await application.open_session("hers", "2025-11-25", *alice)
        _, session = await said(application, in_session("hers", *alice))
        sessions.claims(session)
        told = await application.tell(HttpRequest(b"", (*bob, ("mcp-session-id", "session:hers")), method="DELETE"))
        assert (told.status, sessions.is_alive(session)) == (404, True)


async def test_of_a_session_that_expired_or_was_shut_down_with_the_server_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions, elsewhere = Sessions(tmp_path), Sessions(tmp_path)
    quota = SessionQuota(now=lambda: clock[0])
    clock = [0.0]
    front = http_app(sample.offer(sessions=sessions, session_quota=quota), hosts=["memory.example"])
    application = Application(front)
    async with application.run():
        await application.open_session("expired", "2025-11-25")
        _, expired = await said(application, in_session("expired"))
        clock[0] = 86_399.0
        await application.open_session("open", "2025-11-25")
        _, left = await said(application, in_session("open"))
        for each in (expired, left):
            sessions.claims(each)
        clock[0] = 86_400.0
        front.sessions.expire()
        assert (elsewhere.is_alive(expired), elsewhere.is_alive(left)) == (None, True)
    sessions.close()
    assert (elsewhere.is_alive(expired), elsewhere.is_alive(left)) == (None, None)


async def test_over_sse_a_connection_is_a_session(tmp_path: Path) -> None:
    with serving(names_clients=True) as address:
        info = Implementation(name="old", version="1")
        async with (
            Client(sse_client(f"{address}/sse"), client_info=info, mode="legacy") as one,
            Client(sse_client(f"{address}/sse"), client_info=info, mode="legacy") as two,
        ):
            told = [await client.call_tool("sample.session", {}) for client in (one, one, two)]
            assert all(each.structured_content is not None for each in told)
            first, again, second = (json.dumps(each.structured_content) for each in told)
            assert first == again != second
            assert '"old ' in first
            assert '"old ' in second
