"""A disk that alters a line of the log while a server runs, and one that did so before it was started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.mcp_client import start_http
from tests.promises import promise


def alter(base: Path, old: bytes, new: bytes) -> None:
    """In place."""
    (segment,) = (base / "_system" / "log").glob("*.jsonl")
    data = segment.read_bytes()
    assert data.count(old) == 1
    with segment.open("r+b") as file:
        file.seek(data.index(old))
        file.write(new)


class Server:
    def __init__(self, base: Path) -> None:
        self._server = start_http(base)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = httpx2.post(f"{self._server.url}/v1/tools/{tool}", json=arguments).json()
        return found

    def metrics(self) -> str:
        return httpx2.get(f"{self._server.url}/metrics").text

    def stop(self) -> str:
        """What it said on stderr."""
        self._server.stop()
        self._server.kill()
        return "".join(self._server.lines)

    def kill(self) -> None:
        self._server.kill()


def node(node_id: str, **attrs: Any) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": node_id, "type": "person", "attrs": attrs}}


@promise("L4, read", "what the disk altered is served to nobody, by a running server or one begun from a snapshot")
@pytest.mark.parametrize("began", ["it was running", "it was started from a snapshot"])
def test_what_the_disk_altered_is_served_to_nobody_and_all_else_is(began: str, tmp_path: Path) -> None:
    base = tmp_path / "base"
    server = Server(base)
    try:
        server.call("memory.write", **node("ada", town="Turin"))
        server.call("memory.write", **node("bob", town="Milan"))
        server.call("memory.write", **node("ada", town="Siena"))
        server.call("memory.write", **node("dan", town="Lucca"))
        if began == "it was started from a snapshot":
            server.stop()
            subprocess.run([sys.executable, "-m", "tallystick", "snapshot", "--base", str(base)], check=True)
            alter(base, b"Siena", b"Berne")
            server = Server(base)
        else:
            assert server.call("memory.read", entity_id="ada")["entity"]["attrs"] == {"town": "Siena"}
            alter(base, b"Siena", b"Berne")
        for asked in (
            ("memory.read", {"entity_id": "ada"}),
            ("memory.search", {"type": "person"}),
            ("memory.lineage", {"entity_id": "ada"}),
        ):
            told = server.call(asked[0], **asked[1])
            assert told["error"] == "LOG_CORRUPT"
            assert "line 3" in told["message"]
            assert "Berne" not in str(told)
            assert str(base) not in str(told)
        # The rest is served, and grows.
        assert server.call("memory.read", entity_id="ada", as_of=2)["entity"]["attrs"] == {"town": "Turin"}
        assert server.call("memory.read", entity_id="bob")["entity"]["attrs"] == {"town": "Milan"}
        server.call("memory.write", **node("cyd", town="Malta"))
        assert server.call("memory.read", entity_id="cyd")["entity"]["attrs"] == {"town": "Malta"}
        assert "tallystick_log_damage_total 3" in server.metrics()
        said = server.stop()
        assert said.count("is damaged") == 3
        assert "Berne" not in said
    finally:
        server.kill()
