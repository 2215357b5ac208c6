"""Bytes on stdin: every proper request is answered under its id, and nothing but messages comes out."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import SECONDS_MAX, tries
from tests.fuzz.mutated_messages import NODE, NOISE, call, mangled
from tests.fuzz.servers import stdio_server
from tests.mcp_client import HELLO, INITIALIZED, RawClient, check_message
from tests.promises import promise

pytestmark = pytest.mark.timeout(SECONDS_MAX)

LINES = st.lists(mangled() | NOISE, min_size=1, max_size=8)
ENDINGS = st.sampled_from((b"\n", b"\n", b"\r\n", b"\n\n", b" \n"))


@promise("5.3, fuzzing of stdio", "between mangled lines every proper request is answered under its id")
def test_whatever_comes_in_between_proper_requests_are_answered_under_their_ids(tmp_path: Path) -> None:
    with stdio_server(tmp_path / "base") as server:
        client = RawClient(server)
        assert client.ask("initialize", HELLO)["serverInfo"]["name"] == "tallystick"
        client.send(INITIALIZED + b"\n")

        @tries(150)
        @given(LINES, st.lists(ENDINGS, min_size=8, max_size=8), st.integers(0, 5_000))
        def interrupted(lines: list[bytes], endings: list[bytes], split: int) -> None:
            first, last = client.request("ping", {}), client.request("tools/call", READ)
            said = [first[1], *lines, last[1]]
            stream = b"".join(line + ending for line, ending in zip(said, itertools.cycle(endings), strict=False))
            client.send(stream[:split])
            client.send(stream[split:])
            answers = client.receive(first[0], last[0])
            assert answers[first[0]]["result"] == {}
            assert "result" in answers[last[0]], answers

        interrupted()
        assert client.call("memory.write", **NODE)["commit_id"]
        assert client.call("memory.read", entity_id="a")


READ = {"name": "memory.search", "arguments": {"limit": 1}}


@tries(2)
@given(st.lists(NOISE | mangled(), max_size=5).map(b"\n".join))
def test_noise_before_any_introduction_ends_cleanly(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    with stdio_server(tmp_path_factory.mktemp("noise") / "base") as server:
        client = RawClient(server)
        client.send(noise + b"\n")
        id, ping = client.request("ping", {})
        client.send(ping + b"\n")
        client.receive(id)
        client.send(call("memory.read", {"entity_id": "a"})[:40])
        for line in client.end():
            check_message(json.loads(line))
