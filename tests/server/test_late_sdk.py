"""The SDK late or from the start: nobody who speaks to us over stdio can tell, and few conversations need it at all."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import mcp_types
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from tallystick import app
from tallystick.app import toolsets
from tallystick.config import Settings, load
from tallystick.server import stdio
from tallystick.server.dispatch import Done, call, choose
from tallystick.server.fast_path import handshake
from tallystick.toolsets import Toolset
from tests.promises import promise
from tests.server import sample
from tests.server.fast_paths import ENVELOPE, INITIALIZED, LEGACY, MODERN, RESERVED, converse, rpc, talk

CLIENT = {"name": "raw", "version": "1"}


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows when a conversation needs the SDK."""
    seen: list[str] = []
    load = stdio._load_peer

    def watched() -> Any:
        seen.append("loaded")
        return load()

    monkeypatch.setattr(stdio, "_load_peer", watched)
    return seen


def greet(capabilities: Any = None, client: Any = None, version: Any = "2025-11-25", **more: Any) -> bytes:
    said = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": client or CLIENT, **more}
    return rpc(0, "initialize", said)


def note(method: str, params: Any = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}).encode()


def enveloped(id: Any, method: str, params: dict[str, Any] | None = None, **changes: Any) -> bytes:
    reserved = {RESERVED + name: value for name, value in changes.items()}
    return rpc(id, method, {**(params or {}), "_meta": {**ENVELOPE, **reserved}})


def echo(id: Any, text: str = "x") -> bytes:
    return rpc(id, "tools/call", {"name": "sample.echo", "arguments": {"text": text}})


def call_modern(id: Any) -> bytes:
    return enveloped(id, "tools/call", {"name": "sample.echo", "arguments": {"text": "x"}})


# -- what most clients say

HELLOS: list[bytes] = [
    *(greet(version=version) for version in LEGACY),
    greet({"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}),
    greet({"roots": {}, "sampling": {"context": {}, "tools": {"a": 1}}, "elicitation": {"form": {}, "url": {}}}),
    greet({"experimental": {"x": {"y": 1}}, "extensions": {"example.com/x": {}}, "roots": None}),
    greet(client={**CLIENT, "title": "A client", "description": "d", "websiteUrl": "no url"}),
    greet(client={**CLIENT, "icons": [{"src": "s", "mimeType": "m", "sizes": ["any"]}], "title": None}),
    *(greet(client={"name": name, "version": ""}) for name in ("cursor-vscode", "Claude-AI", "", "é")),
]
OPENED = [greet(), INITIALIZED]
PLAIN: dict[str, list[bytes]] = {
    **{
        f"handshake {number}": [said, INITIALIZED, rpc(1, "tools/list", {}), echo(2), rpc(3, "ping")]
        for number, said in enumerate(HELLOS)
    },
    "bare requests": [*OPENED, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', rpc("2", "ping", {})],
    "with tokens for progress": [
        *OPENED,
        *(rpc(id, "tools/list", {"_meta": {"progressToken": id}}) for id in (1, "two")),
        rpc(3, "ping", {"_meta": {}}),
    ],
    "never confirmed": [greet(), rpc(1, "tools/list"), echo(2)],
    "notified of this and that": [
        *OPENED,
        note("notifications/roots/list_changed"),
        note("notifications/cancelled", {"requestId": 99}),
        note("notifications/cancelled", {"requestId": None}),
        note("notifications/progress", {"progressToken": 1, "progress": 0.5}),
        note("no/such/notification", {"a": 1}),
        b'{"jsonrpc":"2.0","id":5,"result":{}}',
        b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}',
        echo(1),
    ],
    "malformed lines between": [b"{nonsense", greet(), b"[]", INITIALIZED, b'{"id":7}', echo(1)],
    "modern, discovered": [enveloped(0, "server/discover"), enveloped(1, "tools/list"), call_modern(2)],
    "modern, listed first": [enveloped(0, "tools/list"), enveloped("1", "server/discover")],
    "modern, called first": [call_modern(1), enveloped(2, "tools/list", clientInfo={**CLIENT, "name": "cursor"})],
    "modern, by nobody": [rpc(1, "tools/list", {"_meta": {k: v for k, v in ENVELOPE.items() if "Info" not in k}})],
    "modern, with capabilities": [
        enveloped(0, "tools/list", clientCapabilities={"elicitation": {"form": {}}, "sampling": {}, "roots": {}})
    ],
    "modern, notified": [enveloped(0, "tools/list"), INITIALIZED, note("notifications/cancelled", {"requestId": 1})],
}


@pytest.mark.parametrize("script", PLAIN)
def test_a_plain_conversation_is_answered_as_by_the_sdk_and_without_it(script: str, loads: list[str]) -> None:
    fast = talk([], PLAIN[script], fast_path=True)
    assert loads == []
    assert fast == talk([], PLAIN[script], fast_path=False)
    assert any("result" in answer for answer in fast)


LISTS = ("prompts/list", "resources/list", "resources/templates/list")
LISTING: dict[str, list[bytes]] = {
    **{
        version: [greet(version=version), INITIALIZED, *(rpc(id, method) for id, method in enumerate(LISTS, 1))]
        for version in LEGACY
    },
    "modern": [enveloped(0, "server/discover"), *(enveloped(id, method) for id, method in enumerate(LISTS, 1))],
    **{f"modern, {method} first": [enveloped(0, method), enveloped(1, "server/discover")] for method in LISTS},
}


@promise("resources, late SDK", "what clients list as they begin is answered without the SDK, and as by it")
@pytest.mark.parametrize("script", LISTING)
async def test_what_clients_list_as_they_begin_is_answered_as_by_the_sdk_and_without_it(
    script: str, loads: list[str], tmp_path: Path
) -> None:
    async with app.served(load({"base": tmp_path}, environ={})) as offer:
        write = offer.tools.get("memory.write")
        for id in ("a", "b/ü"):
            asked = {"op": "UPSERT_NODE", "node": {"id": id, "type": "note", "attrs": {}}}
            assert isinstance(await call(write, asked, offer.store, lambda: offer.principal_of(None)), Done)
        fast = await converse(offer, LISTING[script], fast_path=True)
        assert loads == []
        assert fast == await converse(offer, LISTING[script], fast_path=False)
    assert all("result" in answer for answer in fast)


PROBES = {
    "once": [enveloped(7, "server/discover")],
    "twice": [enveloped(7, "server/discover"), enveloped(8, "server/discover")],
}


@pytest.mark.parametrize("probe", PROBES)
def test_a_client_that_gave_up_on_its_probe_may_shake_hands(probe: str, loads: list[str]) -> None:
    lines = [greet(), INITIALIZED, rpc(1, "tools/list", {}), echo(2)]
    told = talk([], [*PROBES[probe], *lines], fast_path=True)
    assert loads == []
    assert [answer for answer in told if answer["id"] in (0, 1, 2)] == talk([], lines, fast_path=False)


def test_an_odd_hello_after_a_probe_is_the_sdks_to_answer() -> None:
    lines = [greet({"unheard-of": {}}), INITIALIZED, rpc(1, "tools/list", {}), echo(2), rpc(3, "resources/list")]
    told = talk([], [*PROBES["once"], *lines], fast_path=True)
    assert [answer for answer in told if answer["id"] != 7] == talk([], lines, fast_path=False)


# -- what only the SDK can answer

_ODD_CAPABILITIES: list[Any] = [
    [1],
    "all",
    {"roots": []},
    {"roots": {"listChanged": "yes"}},
    {"unheard-of": {}},
    {"sampling": 1},
    {"experimental": {"x": 1}},
    {"tasks": {}},
    {"tasks": {"list": {}}},
    {"tasks": {"list": 1}},
]
_ODD_MEMBERS: list[dict[str, Any]] = [{"title": 1}, {"icons": [{}]}, {"icons": [{"src": 1}]}, {"a": 1}]
_ODD_METAS: list[Any] = [{}, {"progressToken": 1}, ENVELOPE, []]
_ODD_PARAMS: list[Any] = [{"cursor": "2"}, {"cursor": None}, {"a": 1}, {"_meta": 1}]
_ODD_CALLS: list[Any] = [{}, {"name": "none"}, {"name": "sample.echo", "arguments": 1}]
_ODD_PINGS: list[Any] = [{"a": 1}, {"_meta": []}, {"_meta": {"progressToken": 1.5}}]
ODD_HELLOS: list[bytes] = [
    *(greet(version=version) for version in ("1999-01-01", MODERN, "", 7, None, ["2025-11-25"])),
    *(greet(capabilities) for capabilities in _ODD_CAPABILITIES),
    *(greet(client=client) for client in ({"name": "x"}, {"version": "1"}, {**CLIENT, "name": 1}, "raw")),
    *(greet(client={**CLIENT, **more}) for more in _ODD_MEMBERS),
    *(greet(_meta=meta) for meta in _ODD_METAS),
    rpc(0, "initialize"),
    rpc(0, "initialize", {}),
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{},"more":1}',
]
ODD: list[bytes] = [
    *(rpc(10, method) for method in ("resources/list", "prompts/list", "logging/setLevel", "no/such", "")),
    *(rpc(11, "tools/list", params) for params in _ODD_PARAMS),
    *(rpc(12, "tools/list", {"_meta": meta}) for meta in ({"progressToken": True}, {"a/b": 1}, {"traceparent": 1})),
    *(rpc(13, "ping", params) for params in _ODD_PINGS),
    *(rpc(14, "tools/call", params) for params in _ODD_CALLS),
    *(enveloped(15, method) for method in ("ping", "tools/list", "server/discover", "initialize", "resources/list")),
    enveloped(16, "tools/list", protocolVersion="1999-01-01"),
    enveloped(16, "tools/list", clientCapabilities=[]),
    enveloped(16, "tools/list", {"cursor": "2"}),
    enveloped(16, "server/discover", logLevel="debug"),
    rpc(17, "server/discover", {}),
    greet(),
    b'{"jsonrpc":"2.0","id":18,"method":"ping","more":1}',
    b'{"jsonrpc":"2.0","id":19,"method":"tools/list","params":null}',
]
OPENINGS: dict[str, list[bytes]] = {
    "handshake": OPENED,
    "unconfirmed": [greet()],
    "modern": [enveloped(0, "tools/list")],
    "modern by a call": [call_modern(0)],
    "confirmed only": [INITIALIZED],
    "none": [],
}


@pytest.mark.parametrize("number", range(len(ODD_HELLOS)))
def test_an_odd_hello_is_the_sdks_to_answer(number: int) -> None:
    lines = [ODD_HELLOS[number], INITIALIZED, rpc(1, "ping"), rpc(2, "tools/list", {}), echo(3)]
    assert talk([], lines, fast_path=True) == talk([], lines, fast_path=False)


@pytest.mark.parametrize(("handshake", "number"), [*product(OPENINGS, range(len(ODD)))])
def test_whatever_interrupts_a_plain_conversation_is_answered_as_by_the_sdk(handshake: str, number: int) -> None:
    lines = [*OPENINGS[handshake], ODD[number], rpc(30, "ping"), rpc(31, "tools/list", {}), echo(32), call_modern(33)]
    assert talk([], lines, fast_path=True) == talk([], lines, fast_path=False)


FUZZED = settings(max_examples=150, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@FUZZED
@given(
    st.sampled_from([*HELLOS, *ODD_HELLOS, *(line for lines in OPENINGS.values() for line in lines)]),
    st.lists(st.sampled_from([*ODD, *(line for lines in PLAIN.values() for line in lines)]), max_size=6),
)
def test_whatever_is_said_after_whichever_hello_has_one_answer(first: bytes, lines: list[bytes]) -> None:
    said = [first, *(renumbered(line, number) for number, line in enumerate(lines, start=100))]
    assume(not has_probed_before_it_greets(said))
    assert talk([], said, fast_path=True) == talk([], said, fast_path=False)


def has_probed_before_it_greets(said: list[bytes]) -> bool:
    """The one thing that the SDK refuses and we do not."""
    methods = [message.get("method") for message in map(loaded, said) if type(message) is dict and "id" in message]
    asked = methods[: methods.index("initialize")] if "initialize" in methods else []
    return bool(asked) and set(asked) == {"server/discover"}


def loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def renumbered(line: bytes, number: int) -> bytes:
    """With an id of its own: of two answers to one id nobody can say which is which."""
    message = loaded(line)
    return json.dumps({**message, "id": number}).encode() if type(message) is dict and "id" in message else line


# -- the words of the protocol


def test_the_versions_are_those_of_the_sdk() -> None:
    """One that it learns is declined, so only slower; one that it forgets would be promised in vain."""
    assert set(HANDSHAKE_PROTOCOL_VERSIONS) == handshake.HANDSHAKE_VERSIONS
    assert handshake.MODERN_VERSIONS == MODERN_PROTOCOL_VERSIONS
    assert handshake.SERVER_KEY == mcp_types.SERVER_INFO_META_KEY


@pytest.mark.parametrize("client", ["raw", "cursor"])
def test_every_tool_that_we_have_is_listed_as_by_the_sdk(client: str, tmp_path: Path, monkeypatch: Any) -> None:
    everything = sample.offer(tools=choose(toolsets(Settings(base=tmp_path))))
    monkeypatch.setattr(sample, "offer", lambda: everything)
    lines = [greet(client={**CLIENT, "name": client}), INITIALIZED, rpc(1, "tools/list", {})]
    fast, slow = (talk([], lines, fast_path=fast_path) for fast_path in (True, False))
    assert fast == slow
    assert sum(len(answer["result"].get("tools", [])) for answer in fast) > 40


# -- the change of hands


def test_what_waits_when_the_sdk_comes_is_still_answered(loads: list[str]) -> None:
    waiting = rpc(1, "tools/call", {"name": "sample.wait", "arguments": {"name": "a"}})
    release = rpc(3, "tools/call", {"name": "sample.release", "arguments": {"name": "a"}})
    lines = [*OPENED, waiting, rpc(2, "resources/list"), release]
    fast = talk([], lines, fast_path=True)
    assert loads == ["loaded"]
    assert {answer["id"] for answer in fast} == {0, 1, 2, 3}
    assert fast == talk([], lines, fast_path=False)


def test_no_call_is_made_again_for_the_sdk(monkeypatch: pytest.MonkeyPatch, loads: list[str]) -> None:
    said: list[str] = []

    async def remembered(store: Any, principal: Any, given: sample.EchoInput) -> Any:
        said.append(given.text)
        return await sample.echo(store, principal, given)

    remembering = Toolset(
        name="sample",
        summary="",
        tools=(sample._tool("sample.echo", sample.EchoInput, remembered),),
        error_shape=sample.SAMPLE.error_shape,
    )
    offered = sample.offer(tools=choose([remembering]))
    monkeypatch.setattr(sample, "offer", lambda: offered)
    answers = talk([], [call_modern(0), enveloped(1, "resources/list"), call_modern(2)], fast_path=True)
    assert loads == ["loaded"]
    assert said == ["x", "x"]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2]
