"""Bytes on stdin: every proper request is answered under its id, and nothing but messages comes out."""

from __future__ import annotations

import itertools
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.budget import SECONDS_MAX, tries
from tests.fuzz.mangling import HELLO, NODE, NOISE, call, mangled, message
from tests.fuzz.running import speaking

pytestmark = pytest.mark.timeout(SECONDS_MAX)

LINES = st.lists(mangled() | NOISE, min_size=1, max_size=8)
ENDINGS = st.sampled_from((b"\n", b"\n", b"\r\n", b"\n\n", b" \n"))


class Client:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._numbers = itertools.count()

    def request(self, method: str, params: Any) -> tuple[str, bytes]:
        id = f"proper {next(self._numbers)}"
        return id, message(method, params, id)

    def say(self, data: bytes) -> None:
        self._stdin.write(data)
        self._stdin.flush()

    def hear(self, *ids: str) -> dict[str, Any]:
        """The answers to these, whatever else is said in between."""
        found: dict[str, Any] = {}
        while len(found) < len(ids):
            line = self._stdout.readline()
            assert line.endswith(b"\n"), "the server is gone"
            answer = json.loads(line)
            check_message(answer)
            if answer.get("id") in ids:
                assert answer["id"] not in found
                found[answer["id"]] = answer
        return found

    def ask(self, method: str, params: Any) -> Any:
        id, data = self.request(method, params)
        self.say(data + b"\n")
        return self.hear(id)[id]["result"]

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["structuredContent"]


def check_message(answer: Any) -> None:
    assert answer["jsonrpc"] == "2.0"
    assert ("method" in answer) + ("result" in answer) + ("error" in answer) == 1
    if "error" in answer:
        assert answer["error"]["code"] != -32603, answer
        assert answer["error"]["message"]
        assert "Traceback" not in json.dumps(answer)


def test_whatever_comes_in_between_proper_requests_are_answered_under_their_ids(tmp_path: Path) -> None:
    with speaking(tmp_path / "base") as process:
        client = Client(process)
        assert client.ask("initialize", HELLO)["serverInfo"]["name"] == "tallystick"
        client.say(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

        @tries(150)
        @given(LINES, st.lists(ENDINGS, min_size=8, max_size=8), st.integers(0, 5_000))
        def interrupted(lines: list[bytes], endings: list[bytes], split: int) -> None:
            first, last = client.request("ping", {}), client.request("tools/call", READ)
            said = [first[1], *lines, last[1]]
            stream = b"".join(line + ending for line, ending in zip(said, itertools.cycle(endings), strict=False))
            client.say(stream[:split])
            client.say(stream[split:])
            answers = client.hear(first[0], last[0])
            assert answers[first[0]]["result"] == {}
            assert "result" in answers[last[0]], answers

        interrupted()
        assert client.call("memory.write", **NODE)["commit_id"]
        assert client.call("memory.read", entity_id="a")


READ = {"name": "memory.search", "arguments": {"limit": 1}}


@tries(2)
@given(st.lists(NOISE | mangled(), max_size=5).map(b"\n".join))
def test_noise_before_any_introduction_ends_cleanly(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    with speaking(tmp_path_factory.mktemp("noise") / "base") as process:
        client = Client(process)
        client.say(noise + b"\n")
        id, ping = client.request("ping", {})
        client.say(ping + b"\n")
        client.hear(id)
        client.say(call("memory.read", {"entity_id": "a"})[:40])
        assert process.stdin is not None
        process.stdin.close()
        assert process.stdout is not None
        for line in process.stdout:
            check_message(json.loads(line))
