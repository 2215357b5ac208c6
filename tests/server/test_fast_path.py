"""Fast path and SDK, one answer: whatever is asked, nothing but a stopwatch can distinguish them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from tallystick.server import mcp
from tallystick.server.http import http_app
from tallystick.server.oauth import principal_of
from tallystick.server.stdio_streams import StdoutWriter
from tests.server import sample
from tests.server.fast_paths import (
    ENVELOPE,
    INITIALIZED,
    JSON_HEADERS,
    LEGACY,
    MODERN,
    RESERVED,
    Application,
    BothPaths,
    Header,
    HttpRequest,
    Response,
    hello,
    rpc,
    talk,
)
from tests.server.issuing import Issuer, bearer
from tests.server.sample import offer

HOST = "memory.example"


@pytest.fixture(scope="module")
def paths() -> Iterator[BothPaths]:
    both = BothPaths(
        *(Application(http_app(offer(), hosts=[HOST], fast_path=fast_path)) for fast_path in (True, False))
    )

    async def prepare(application: Application) -> None:
        for version in LEGACY:
            await application.open_session(version, version)

    both.open(prepare)
    yield both
    both.close()


@pytest.fixture(scope="module")
def guarded_paths() -> Iterator[tuple[BothPaths, Issuer]]:
    issuer = Issuer()
    served = offer(principal_of=principal_of)
    both = BothPaths(
        *(
            Application(http_app(served, admission=issuer.admission(), fast_path=fast_path))
            for fast_path in (True, False)
        )
    )

    async def prepare(application: Application) -> None:
        for name in ("alice", "bob"):
            token = issuer.token(issuer.claims(sub=name))
            await application.open_session(name, "2025-11-25", *bearer(token).items())

    both.open(prepare)
    yield both, issuer
    both.close()


def check(paths: BothPaths, *requests: HttpRequest) -> None:
    for asked, (fast, slow) in zip(requests, paths.ask(requests), strict=True):
        assert fast == slow, asked


# -- tables

CALLS: list[tuple[Any, Any]] = [
    ("sample.echo", {"text": 'hé\u2028 \U0001f600 "quoted" \\ \x00', "times": 2}),
    ("sample_echo", {"text": "x"}),
    ("sample.echo", {"text": "x" * 80_000}),
    ("sample.blob", {"text": "x" * 80_000}),
    ("sample.echo", {}),
    ("sample.echo", {"text": 1, "times": "2", "more": None}),
    ("sample.echo", {"text": "x", "times": 2**70}),
    ("sample.echo", {"text": "x", "times": 1e3}),
    ("sample.write", {"op": "DELETE", "colour": "blue", "where": {"a": {"gt": 1}, "b": 2}}),
    ("sample.write", {"op": "UPSERT"}),
    ("sample.fail", {"kind": "Denied"}),
    ("sample.fail", {"kind": "LimitExceeded", "code": "RATE_LIMITED"}),
    ("sample.fail", {"kind": "InvalidArgument"}),
    ("sample.crash", {}),
    ("sample.mistyped", {}),
    ("sample.whoami", {}),
    ("plain_echo", {"text": 1}),
    ("plain.echo", {"text": "x"}),
    ("sample.none", {}),
    ("", {}),
    (None, {}),
    (7, {}),
    (["sample.echo"], {}),
    ("sample.echo", None),
    ("sample.echo", []),
    ("sample.echo", "text"),
]
METAS: list[Any] = [
    None,
    {},
    {"progressToken": 7},
    {"progressToken": "seven"},
    {"progressToken": True},
    {"progressToken": None},
    {"progressToken": 1.5},
    {"progress_token": []},
    {"example.com/note": {"any": [1, None]}},
    {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {RESERVED + "related-task": {"taskId": 1}},
    [],
    "meta",
    ENVELOPE,
    {**ENVELOPE, "progressToken": 1, "example.com/note": 1},
    {**ENVELOPE, RESERVED + "logLevel": "debug"},
    {**ENVELOPE, RESERVED + "logLevel": "shout"},
    {**ENVELOPE, RESERVED + "clientInfo": None},
    {**ENVELOPE, RESERVED + "clientInfo": {"name": 1}},
    {**ENVELOPE, RESERVED + "clientCapabilities": []},
    {**ENVELOPE, RESERVED + "protocolVersion": "2025-11-25"},
    {**ENVELOPE, RESERVED + "protocolVersion": 7},
    {RESERVED + "protocolVersion": MODERN},
]
ABSENT = object()
DOORS: list[tuple[Header, ...]] = [
    *((("mcp-session-id", f"session:{version}"), ("mcp-protocol-version", version)) for version in LEGACY),
    (("mcp-session-id", "session:2025-11-25"),),
    (("mcp-session-id", "session:2024-11-05"), ("mcp-protocol-version", "2025-11-25")),
    (("mcp-session-id", "unknown"), ("mcp-protocol-version", "2025-11-25")),
    (("mcp-session-id", ""),),
    (("mcp-session-id", "session:2025-11-25"), ("mcp-session-id", "unknown")),
    (("mcp-session-id", "session:2025-11-25"), ("mcp-protocol-version", "1999-01-01")),
    (("mcp-session-id", "session:2025-11-25"), ("mcp-protocol-version", MODERN)),
    (),
    (("mcp-protocol-version", "2025-11-25"),),
    (("mcp-protocol-version", MODERN),),
    (("mcp-protocol-version", MODERN), ("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/call")),
]
MIRRORED = (("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "sample.echo"))
KINDS = [
    "application/json",
    "application/json; charset=utf-8",
    "application/json;",
    "application/json ; q=1",
    "Application/JSON",
    "application/jsonx",
    "application/json, text/plain",
    "text/plain",
    "",
    None,
]
ACCEPTS = [
    "application/json, text/event-stream",
    "application/json;q=0.5",
    "APPLICATION/*",
    "*/*",
    "text/event-stream",
    "text/html, ;, application/xml",
    "",
    None,
]


def params(name: Any, arguments: Any, meta: Any = ABSENT) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, **({} if meta is ABSENT else {"_meta": meta})}


def mirrored(name: Any) -> tuple[Header, ...]:
    said = name if isinstance(name, str) else "x"
    return (*JSON_HEADERS, ("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", said))


def test_every_call_has_one_answer_in_every_era(paths: BothPaths) -> None:
    for number, (name, arguments) in enumerate(CALLS):
        plain, enveloped = params(name, arguments), params(name, arguments, ENVELOPE)
        check(
            paths,
            *(HttpRequest(rpc(number, "tools/call", plain), (*JSON_HEADERS, *door)) for door in DOORS),
            HttpRequest(rpc(number, "tools/call", enveloped), mirrored(name)),
            HttpRequest(rpc(str(number), "tools/call", enveloped), mirrored(name)),
        )


def test_every_meta_has_one_answer_at_every_door(paths: BothPaths) -> None:
    for meta, door in product(METAS, [*DOORS, MIRRORED]):
        said = params("sample.echo", {"text": "x"}, meta)
        check(paths, HttpRequest(rpc(1, "tools/call", said), (*JSON_HEADERS, *door)))


def test_every_pair_of_content_type_and_accept_has_one_answer(paths: BothPaths) -> None:
    for kind, accept in product(KINDS, ACCEPTS):
        given = [("content-type", kind), ("accept", accept)]
        headers = tuple((name, value) for name, value in given if value is not None)
        body = rpc(1, "tools/call", params("sample.echo", {"text": "x"}, ENVELOPE))
        in_session = rpc(1, "tools/call", params("sample.echo", {"text": "x"}))
        check(
            paths,
            HttpRequest(body, (*headers, *MIRRORED)),
            HttpRequest(in_session, (*headers, *DOORS[3])),
            HttpRequest(b'{"text":"x"}', headers, path="/v1/tools/sample.echo"),
        )


@pytest.mark.parametrize(
    "more",
    [
        (("mcp-param-text", "x"),),
        (("mcp-name", "sample.echo"),),
        (("mcp-name", "sample.write"),),
        (("accept", "text/html"),),
        (("origin", "http://localhost:3000"),),
        (("origin", "http://elsewhere.example"),),
        (("host", "elsewhere.example"),),
        (("content-type", "text/plain"),),
        (("x-tenant", "acme"),),
        (("x-tenant", "denied"),),
        (("last-event-id", "1"),),
    ],
)
def test_a_header_more_has_one_answer(paths: BothPaths, more: tuple[Header, ...]) -> None:
    for name in ("sample.whoami", "sample.echo"):
        said = params(name, {})
        check(
            paths,
            HttpRequest(rpc(1, "tools/call", said), (*JSON_HEADERS, *DOORS[3], *more)),
            HttpRequest(rpc(1, "tools/call", {**said, "_meta": ENVELOPE}), (*mirrored(name), *more)),
            HttpRequest(b"{}", (*JSON_HEADERS, *more), path=f"/v1/tools/{name}"),
        )


def test_the_name_in_the_header_may_be_wrapped(paths: BothPaths) -> None:
    said = params("sample.echo", {"text": "x"}, ENVELOPE)
    for name in ("=?base64?c2FtcGxlLmVjaG8=?=", "=?base64?c2FtcGxl?=", "sample_echo", "", "SAMPLE.ECHO"):
        headers = (*JSON_HEADERS, *MIRRORED[:2], ("mcp-name", name))
        check(paths, HttpRequest(rpc(1, "tools/call", said), headers))


# -- fuzz

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
names = st.sampled_from([name for name, _ in CALLS]) | st.text(max_size=5)
arguments = st.sampled_from([given for _, given in CALLS]) | st.dictionaries(
    st.sampled_from(["text", "times", "op", "node", "kind", "x"]), values, max_size=4
)
metas = st.sampled_from(METAS) | st.dictionaries(
    st.sampled_from(["progressToken", "a/b", "traceparent", *ENVELOPE]), values, max_size=4
)


def often(usual: Any, otherwise: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 9).flatmap(lambda roll: st.just(usual) if roll < 8 else otherwise)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    inner: dict[str, Any] = {"name": draw(names), "arguments": draw(arguments), "_meta": draw(metas)}
    for absent in draw(often((), st.sets(st.sampled_from(sorted(inner)), max_size=2))) or draw(
        st.sampled_from([(), ("_meta",)])
    ):
        inner.pop(absent, None)
    inner.update(draw(often({}, st.dictionaries(st.sampled_from(["task", "inputResponses", "x"]), values, max_size=1))))
    message: dict[str, Any] = {
        "jsonrpc": draw(often("2.0", values)),
        "id": draw(st.integers(-5, 5) | st.text(max_size=3) | often(1, values)),
        "method": draw(often("tools/call", st.sampled_from(["tools/list", "ping", "tools/cal", "x", 1]))),
        "params": draw(often(inner, values)),
    }
    for absent in draw(often((), st.sets(st.sampled_from(sorted(message)), max_size=2))):
        del message[absent]
    message.update(draw(often({}, st.dictionaries(st.sampled_from(["result", "error", "x"]), values, max_size=1))))
    text: bytes = json.dumps(message, ensure_ascii=draw(st.booleans())).encode("utf-8", "replace")
    cut = st.integers(0, len(text)).map(lambda size: text[:size])
    sent: bytes = draw(often(text, st.binary(max_size=20) | cut))
    return sent


@st.composite
def requests(draw: st.DrawFn) -> HttpRequest:
    headers = [
        ("content-type", draw(often("application/json", st.sampled_from(KINDS)))),
        ("accept", draw(often("application/json", st.sampled_from(ACCEPTS)))),
        *draw(st.sampled_from([*DOORS, *[MIRRORED] * 8, *DOORS[:5] * 2])),
        *draw(often((), st.lists(st.sampled_from([header for door in DOORS for header in door]), max_size=1))),
    ]
    return HttpRequest(draw(messages()), tuple((name, value) for name, value in headers if value is not None))


FUZZED = settings(max_examples=200, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@FUZZED
@given(st.lists(requests(), min_size=5, max_size=5))
def test_whatever_is_sent_has_one_answer(paths: BothPaths, asked: list[HttpRequest]) -> None:
    check(paths, *asked)


@settings(FUZZED, max_examples=60)
@given(
    st.sampled_from(["sample.echo", "plain_echo", "sample.write", "none"]), arguments | values, st.sampled_from(KINDS)
)
@example("sample.echo", {"text": "\u00e9"}, "application/json")
def test_whatever_is_posted_to_rest_has_one_answer(paths: BothPaths, name: str, given: Any, kind: str | None) -> None:
    headers = () if kind is None else (("content-type", kind),)
    body = json.dumps(given).encode()
    check(
        paths, *(HttpRequest(part, headers, path=f"/v1/tools/{name}") for part in (body, body[:-1], b" " + body, b""))
    )


# -- pipes

OPENINGS = {
    "handshake": [hello("2025-11-25"), INITIALIZED],
    "oldest": [hello("2024-11-05"), INITIALIZED],
    "unconfirmed": [hello("2025-06-18")],
    "refused": [rpc(0, "initialize", {})],
    "modern": [rpc(0, "tools/list", {"_meta": ENVELOPE})],
    "none": [],
}


def numbered(lines: Sequence[bytes]) -> list[bytes]:
    """Each request with an id of its own: answers come in any order."""
    return [_numbered(line, number) for number, line in enumerate(lines, start=100)]


def _numbered(line: bytes, number: int) -> bytes:
    try:
        message = json.loads(line)
    except ValueError:
        return line
    if not isinstance(message, dict) or type(message.get("id")) not in (int, str):
        return line
    return json.dumps({**message, "id": number if number % 2 else str(number)}).encode()


@pytest.mark.parametrize("handshake", OPENINGS)
def test_every_line_has_one_answer(handshake: str) -> None:
    lines = numbered(
        [
            *(rpc(1, "tools/call", params(name, given, meta)) for name, given in CALLS for meta in (ABSENT, ENVELOPE)),
            *(rpc(1, "tools/call", params("sample.echo", {"text": "x"}, meta)) for meta in METAS),
        ]
    )
    fast, slow = (talk(OPENINGS[handshake], lines, fast_path=fast_path) for fast_path in (True, False))
    assert fast == slow
    assert len(fast) >= len(lines)


@settings(FUZZED, max_examples=15)
@given(st.sampled_from(sorted(OPENINGS)), st.lists(messages(), min_size=20, max_size=20))
def test_whatever_is_written_has_one_answer(handshake: str, lines: list[bytes]) -> None:
    fast, slow = (talk(OPENINGS[handshake], numbered(lines), fast_path=fast_path) for fast_path in (True, False))
    assert fast == slow


def waiting(id: Any, name: str) -> bytes:
    return rpc(id, "tools/call", params("sample.wait", {"name": name}))


def cancelling(id: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).encode()


SCRIPTS: dict[str, list[bytes]] = {
    "cancelled": [waiting(1, "never"), cancelling(1), rpc(2, "tools/call", params("sample.whoami", {}))],
    "cancelled by its other spelling": [waiting(1, "never"), cancelling("1")],
    "another cancelled": [
        waiting(1, "a"),
        cancelling(2),
        rpc(3, "tools/call", params("sample.release", {"name": "a"})),
    ],
    "cancelled by no id": [
        waiting(1, "b"),
        cancelling(True),
        rpc(3, "tools/call", params("sample.release", {"name": "b"})),
    ],
    "slow before fast": [waiting(1, "c"), rpc(2, "tools/call", params("sample.release", {"name": "c"}))],
    "still waiting at the end": [waiting(1, "never"), rpc(2, "tools/call", params("sample.whoami", {}))],
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_waiting_cancelling_and_ending_are_the_same(script: str) -> None:
    for handshake in ("handshake", "modern"):
        lines = SCRIPTS[script] if handshake == "handshake" else [_enveloped(line) for line in SCRIPTS[script]]
        fast, slow = (
            talk(OPENINGS[handshake], lines, fast_path=fast_path, drain_seconds=0.3) for fast_path in (True, False)
        )
        assert fast == slow


def _enveloped(line: bytes) -> bytes:
    message = json.loads(line)
    return json.dumps({**message, "params": {**message["params"], "_meta": ENVELOPE}}).encode()


_post = StdoutWriter.post


def _known_late(writer: StdoutWriter, data: bytes) -> asyncio.Future[None]:
    posted = _post(writer, data)

    async def known() -> None:
        await posted
        await asyncio.sleep(0.05)

    return asyncio.ensure_future(known())


@pytest.mark.parametrize(("handshake", "meta"), [("handshake", ABSENT), ("modern", ENVELOPE)])
@pytest.mark.parametrize("is_late", [False, True])
def test_plain_lines_never_reach_the_sdk(
    handshake: str, meta: Any, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the client has an answer before the server knows that it was written."""
    if is_late:
        monkeypatch.setattr(StdoutWriter, "post", _known_late)
    passed_on: list[Any] = []
    hear = mcp.Peer.hear

    async def watched(self: mcp.Peer, message: dict[str, Any]) -> None:
        passed_on.append(message["method"])
        await hear(self, message)

    monkeypatch.setattr(mcp.Peer, "hear", watched)
    lines = numbered([rpc(1, "tools/call", params("sample.echo", {"text": "x"}, meta))] * 20)
    answers = talk(OPENINGS[handshake], lines, fast_path=True)
    assert sum(answer.get("result", {}).get("structuredContent") == {"said": "x"} for answer in answers) == 20
    assert "tools/call" not in passed_on


# -- who asks

TOKENS = ("good", "other", "none", "garbage", "expired", "foreign", "twice", "basic")


def credentials(issuer: Issuer, kind: str) -> tuple[Header, ...]:
    token = issuer.token(issuer.claims(sub="alice"))
    said: dict[str, list[str]] = {
        "good": [f"Bearer {token}"],
        "other": [f"Bearer {issuer.token(issuer.claims(sub='bob', tenant_id='acme'))}"],
        "none": [],
        "garbage": ["Bearer x.y.z"],
        "expired": [f"Bearer {issuer.token(issuer.claims(exp=int(issuer.now) - 60))}"],
        "foreign": [f"Bearer {issuer.token(issuer.claims(iss='https://elsewhere.example'))}"],
        "twice": [f"Bearer {token}"] * 2,
        "basic": ["Basic YTpi"],
    }
    return tuple(("authorization", value) for value in said[kind])


def test_neither_way_answers_whom_the_other_would_not(guarded_paths: tuple[BothPaths, Issuer]) -> None:
    paths, issuer = guarded_paths
    doors = [(("mcp-session-id", f"session:{name}"),) for name in ("alice", "bob")]
    for kind, name in product(TOKENS, ("sample.whoami", "sample.echo", "sample.none")):
        proof = credentials(issuer, kind)
        said = params(name, {})
        check(
            paths,
            *(HttpRequest(rpc(1, "tools/call", said), (*JSON_HEADERS, *door, *proof)) for door in doors),
            HttpRequest(rpc(1, "tools/call", {**said, "_meta": ENVELOPE}), (*mirrored(name), *proof)),
            HttpRequest(b"{}", (*JSON_HEADERS, *proof), path=f"/v1/tools/{name}"),
            HttpRequest(b"not json", (*JSON_HEADERS, *proof)),
        )


def test_without_a_token_nothing_is_answered_either_way(guarded_paths: tuple[BothPaths, Issuer]) -> None:
    paths, issuer = guarded_paths
    bad = [kind for kind in TOKENS if kind not in ("good", "other")]
    bodies = [rpc(1, "tools/call", params("sample.whoami", {}, ENVELOPE)), rpc(1, "tools/call", params("x", 1)), b"x"]
    requests = [
        HttpRequest(body, (*mirrored("sample.whoami"), *credentials(issuer, kind))) for kind in bad for body in bodies
    ]
    for pair in paths.ask(requests):
        assert [told.status for told in pair] == [pair[0].status] * 2
        assert pair[0].status in (401, 403)


# -- the fast path is used at all


def test_plain_calls_never_reach_the_sdk_and_all_others_do(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: list[str] = []
    handle = StreamableHTTPSessionManager.handle_request

    async def watched(self: Any, scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["path"])
        await handle(self, scope, receive, send)

    monkeypatch.setattr(StreamableHTTPSessionManager, "handle_request", watched)
    fast = BothPaths(*(Application(http_app(offer(), hosts=[HOST])) for _ in range(2)))
    fast.open(lambda application: application.open_session("one", "2025-11-25"))
    reached.clear()
    session = (("mcp-session-id", "session:one"), ("mcp-protocol-version", "2025-11-25"))
    plain = [
        HttpRequest(rpc(1, "tools/call", params("sample.echo", {"text": "x"})), (*JSON_HEADERS, *session)),
        HttpRequest(rpc(1, "tools/call", params("sample.write", {"op": "DELETE"})), (*JSON_HEADERS, *session)),
        HttpRequest(rpc(1, "tools/call", params("sample.echo", {}, {"progressToken": 1})), (*JSON_HEADERS, *session)),
        HttpRequest(rpc(1, "tools/call", params("sample.echo", {"text": "x"}, ENVELOPE)), (*JSON_HEADERS, *MIRRORED)),
        HttpRequest(b"{}", path="/v1/tools/sample.whoami"),
    ]
    assert all(told.status == 200 for pair in fast.ask(plain) for told in pair)
    assert reached == []
    fast.ask([HttpRequest(rpc(1, "tools/list", {}), (*JSON_HEADERS, *session))])
    assert reached == ["/mcp", "/mcp"]
    fast.close()


# -- while a call waits


def _waiting(name: str, id: Any = 1) -> HttpRequest:
    return HttpRequest(waiting(id, name), (*JSON_HEADERS, ("mcp-session-id", "session:one")))


def _note(body: bytes, session: str = "one", method: str = "POST") -> HttpRequest:
    return HttpRequest(body, (*JSON_HEADERS, ("mcp-session-id", f"session:{session}")), method=method)


async def _interrupted(application: Application, interruption: HttpRequest) -> tuple[Response, Response]:
    call = asyncio.create_task(application.tell(_waiting("door")))
    await sample.arrival("door")
    told = await application.tell(interruption)
    await application.tell(_note(rpc(9, "tools/call", params("sample.release", {"name": "door"})), "two"))
    return told, await call


INTERRUPTIONS = {
    "cancelled": (_note(cancelling(1)), 200),
    "cancelled by its other spelling": (_note(cancelling("1")), 200),
    "cancelled in another session": (_note(cancelling(1), "two"), 200),
    "another one cancelled": (_note(cancelling(2)), 200),
    "its session ended": (_note(b"", method="DELETE"), 500),
    "another session ended": (_note(b"", "three", method="DELETE"), 200),
    "a fast call beside it": (_note(rpc(2, "tools/call", params("sample.whoami", {}))), 200),
}


@pytest.mark.anyio
@pytest.mark.parametrize("interruption", INTERRUPTIONS)
async def test_a_waiting_call_ends_the_same_both_ways(interruption: str) -> None:
    asked, status = INTERRUPTIONS[interruption]
    outcomes = []
    for fast_path in (True, False):
        sample.close_doors()
        application = Application(http_app(offer(), hosts=[HOST], fast_path=fast_path))
        async with application.run():
            for name in ("one", "two", "three"):
                await application.open_session(name, "2025-11-25")
            outcomes.append(await _interrupted(application, asked))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][1].status == status


@pytest.mark.anyio
async def test_nobody_cancels_a_call_in_a_session_that_is_not_theirs() -> None:
    sample.close_doors()
    issuer = Issuer()
    application = Application(http_app(offer(principal_of=principal_of), admission=issuer.admission()))
    alice, bob = (tuple(bearer(issuer.token(issuer.claims(sub=name))).items()) for name in ("alice", "bob"))
    async with application.run():
        await application.open_session("one", "2025-11-25", *alice)
        in_session = (*JSON_HEADERS, ("mcp-session-id", "session:one"))
        call = asyncio.create_task(application.tell(HttpRequest(waiting(1, "door"), (*in_session, *alice))))
        await sample.arrival("door")
        assert (await application.tell(HttpRequest(cancelling(1), (*in_session, *bob)))).status == 404
        assert (await application.tell(HttpRequest(b"", (*in_session, *bob), method="DELETE"))).status == 404
        await application.tell(HttpRequest(b'{"name":"door"}', (*JSON_HEADERS, *bob), path="/v1/tools/sample.release"))
        assert (await call).body["result"]["structuredContent"] == {"said": "door"}
