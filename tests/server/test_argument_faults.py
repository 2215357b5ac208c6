"""Where a call with bad arguments is told so: as the protocol that was agreed on says, on every way in (L23)."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick.server.http import http_app
from tests.promises import promise
from tests.server.fast_paths import (
    ENVELOPE,
    INITIALIZED,
    JSON_HEADERS,
    LEGACY,
    MODERN,
    Application,
    HttpRequest,
    hello,
    rpc,
    talk,
)
from tests.server.sample import offer

OLD = {"2024-11-05", "2025-03-26", "2025-06-18"}
VERSIONS = (*LEGACY, MODERN)
FAULTS = ["field 'text' is required", "field 'more' is not allowed"]
WORDS = "Invalid params: field 'text' is required; field 'more' is not allowed"
ERROR = {"code": -32602, "message": WORDS, "data": {"validation_errors": FAULTS}}
CONTENT = {"error": "INVALID_PARAMS", "code": -32602, "message": WORDS, "validation_errors": FAULTS}

pytestmark = pytest.mark.parametrize("fast_path", [True, False], ids=["fast path", "SDK"])


def bad_call(version: str, id: str | int = 7, *, tool: str = "sample.echo") -> bytes:
    meta = {"_meta": ENVELOPE} if version == MODERN else {}
    return rpc(id, "tools/call", {"name": tool, "arguments": {"more": 1}, **meta})


def over_stdio(version: str, *, fast_path: bool, tool: str = "sample.echo", **changes: Any) -> Any:
    handshake = [] if version == MODERN else [hello(version), INITIALIZED]
    told = talk(handshake, [bad_call(version, tool=tool)], fast_path=fast_path, served=offer(**changes))
    return next(each for each in told if each["id"] == 7)


async def over_http(version: str, *, fast_path: bool, tool: str = "sample.echo", **changes: Any) -> Any:
    application = Application(http_app(offer(**changes), hosts=["memory.example"], fast_path=fast_path))
    more = (("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", tool))
    async with application.run():
        if version != MODERN:
            await application.open_session("it", version)
            more = (("mcp-session-id", "session:it"), ("mcp-protocol-version", version))  # type: ignore[assignment]
        return (await application.tell(HttpRequest(bad_call(version, tool=tool), (*JSON_HEADERS, *more)))).body


def check(answer: Any, *, in_result: bool) -> None:
    assert answer["id"] == 7
    if not in_result:
        assert answer["error"] == ERROR
        return
    result = answer["result"]
    assert (result["isError"], result["structuredContent"]) == (True, CONTENT)
    assert result["content"] == [{"type": "text", "text": WORDS}]


@promise("L23, stdio", "bad arguments are a JSON-RPC error up to 2025-06-18, and then a result that the model reads")
@pytest.mark.parametrize("version", VERSIONS)
def test_over_stdio_the_version_says_whether_the_model_reads_of_it(version: str, fast_path: bool) -> None:
    check(over_stdio(version, fast_path=fast_path), in_result=version not in OLD)


@promise("L23, HTTP", "over HTTP too, on the fast path and through the SDK")
@pytest.mark.parametrize("version", VERSIONS)
async def test_over_http_the_version_says_whether_the_model_reads_of_it(version: str, fast_path: bool) -> None:
    check(await over_http(version, fast_path=fast_path), in_result=version not in OLD)


@promise("L23, setting", "validation_errors says otherwise for every version")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", MODERN])
@pytest.mark.parametrize("where", ["rpc", "result"])
async def test_the_setting_goes_first(version: str, where: str, fast_path: bool) -> None:
    answer = await over_http(version, fast_path=fast_path, validation_errors=where)
    check(answer, in_result=where == "result")


@promise("L23, others", "the other vocabularies answer in their own shape")
@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
async def test_other_vocabularies_keep_their_own_shape(version: str, fast_path: bool) -> None:
    result = (await over_http(version, fast_path=fast_path, tool="plain_echo"))["result"]
    assert result["isError"]
    assert result["structuredContent"]["error"]["code"] == "INVALID_ARGUMENT"


async def test_a_header_of_another_version_changes_nothing_of_what_was_agreed_on(fast_path: bool) -> None:
    application = Application(http_app(offer(), hosts=["memory.example"], fast_path=fast_path))
    async with application.run():
        await application.open_session("old", "2025-06-18")
        more = (("mcp-session-id", "session:old"), ("mcp-protocol-version", "2025-11-25"))
        answer = await application.tell(HttpRequest(bad_call("2025-11-25"), (*JSON_HEADERS, *more)))
    check(answer.body, in_result=False)


@promise("L23, id, session", "whoever has no session is told so under the request's id")
@pytest.mark.parametrize("named", [(), (("mcp-session-id", "of nobody"),)], ids=["no session", "an unknown session"])
async def test_whoever_has_no_session_is_told_so_under_the_requests_id(named: Any, fast_path: bool) -> None:
    application = Application(http_app(offer(), hosts=["memory.example"], fast_path=fast_path))
    async with application.run():
        told = await application.tell(HttpRequest(bad_call("2025-11-25", "mine"), (*JSON_HEADERS, *named)))
        reply = await application.tell(HttpRequest(b'{"jsonrpc":"2.0","id":1,"result":{}}', (*JSON_HEADERS, *named)))
    assert (told.status, told.body["id"]) == (404 if named else 400, "mine")
    assert reply.body["id"] is None, "it counts our requests"
