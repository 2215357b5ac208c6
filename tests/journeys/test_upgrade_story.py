"""An upgrade while agents work: the next version is started beside this one, on the same base."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx2

from tests.command_line import CommandLine
from tests.mcp_client import ServerProcess, clean_environ, start_http
from tests.promises import promise

_ROUNDS = 5
_REPOSITORY = Path(__file__).parents[2]


@promise(
    "§9, upgrades", "the next version beside this one loses nothing, and they do not take the indexes from each other"
)
def test_the_next_version_beside_this_one_loses_nothing_and_neither_takes_the_indexes_from_the_other(
    tmp_path: Path,
) -> None:
    this = start_http(tmp_path)
    try:
        assert _search(this).json()["entities"] == []
        later = _start_next_version(tmp_path)
        try:
            for number in range(_ROUNDS):
                for server in (this, later):
                    _write(server, f"{number} at {server.url}")
                assert len(_search(later).json()["entities"]) == 2 * (number + 1)
            refused = _search(this)
            assert refused.json()["error"] == "PROJECTION_NEWER"
            assert "newer version" in refused.json()["message"]
            assert _call(this, "memory.search", type="Note").json()["pagination"]["total"] == 2 * _ROUNDS
            later.stop()
        finally:
            later.kill()
        built_again = [line for line in later.lines if "built again" in line]
        assert sorted(line.partition("database: ")[2].split()[0] for line in built_again) == ["text.db", "views.db"]
        assert not any("built again" in line for line in this.lines)
        this.stop()
    finally:
        this.kill()
    assert CommandLine(tmp_path).run("verify", "--json").json["commits"] == 2 * _ROUNDS


def _start_next_version(base: Path) -> ServerProcess:
    command = [sys.executable, "-m", "tests.next_version", "serve", "--base", str(base), "--http", "127.0.0.1:0"]
    return ServerProcess(command, environ={**clean_environ(), "NO_COLOR": "1"}, cwd=_REPOSITORY)


def _write(server: ServerProcess, id: str) -> None:
    node = {"id": id, "type": "Note", "attrs": {"title": "an apple"}}
    assert _call(server, "memory.write", op="UPSERT_NODE", node=node).status_code == 200


def _search(server: ServerProcess) -> httpx2.Response:
    return _call(server, "memory.search", query="apple", limit=100)


def _call(server: ServerProcess, tool: str, **arguments: Any) -> httpx2.Response:
    return httpx2.post(f"{server.url}/v1/tools/{tool}", json=arguments, timeout=None)
