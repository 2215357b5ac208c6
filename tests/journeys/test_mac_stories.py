"""What macOS does otherwise, as far as that can be had here: calls that it lacks, and a disk that knows no capitals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from mcp.client import Client

from tests.mcp_client import connect, serving_http

DOUBLE = Path(__file__).parent / "mac_double"


@pytest.fixture
def mac(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds itself on such a machine, and of all that it begins."""
    paths = (str(DOUBLE), *filter(None, [os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": os.pathsep.join(paths), "FULL_SYNCS": str(tmp_path / "full-syncs")}


def _command(environ: dict[str, str], *words: str) -> str:
    command = (sys.executable, "-m", "tallystick", *words)
    done = subprocess.run(command, env={**os.environ, **environ}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def _told(client: Client, tool: str, **arguments: Any) -> Any:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


def _node(node_id: str) -> dict[str, Any]:
    return {"op": "UPSERT_NODE", "node": {"id": node_id, "type": "Note", "attrs": {"of": node_id}}}


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_two_agents_work_where_calls_of_linux_are_missing(
    tmp_path: Path, mac: dict[str, str], transport: str
) -> None:
    base = tmp_path / "base"
    async with (
        connect(base, transport=transport, environ=mac) as one,
        connect(base, transport=transport, environ=mac) as other,
    ):
        await _told(one, "memory.write", **_node("a"))
        await _told(other, "memory.write", **_node("b"))
        planned = [{"ref": "first", "summary": "first"}, {"ref": "second", "summary": "second"}]
        root = (await _told(one, "graph_open", project="p", goal="g"))["root"]["id"]
        await _told(one, "graph_plan", nodes=[{**each, "parent_ref": root} for each in planned])
        claimed = [await _told(each, "graph_next", project="p", claim=True) for each in (one, other)]
        assert (await _told(other, "memory.read", entity_id="a"))["entity"]["attrs"] == {"of": "a"}
    assert len({each["nodes"][0]["node"]["id"] for each in claimed}) == 2
    assert (tmp_path / "full-syncs").stat().st_size > 0
    where = "--base", str(base)
    assert json.loads(_command(mac, "verify", "--views", "--json", *where))["sound"]
    for command in ("doctor", "snapshot", "catch-up", "status"):
        assert _command(mac, command, *where)
    _command(mac, "backup", "make", f"file://{tmp_path}/backups", *where)
    _command(mac, "restore", f"file://{tmp_path}/backups", "--base", str(tmp_path / "restored"))
    assert _command(mac, "show", "b", "--base", str(tmp_path / "restored"))


def test_workers_share_one_address_where_calls_of_linux_are_missing(tmp_path: Path, mac: dict[str, str]) -> None:
    with serving_http(tmp_path / "base", "--workers", "2", environ=mac) as server:
        for number in range(8):
            call = f"{server.url}/v1/tools/memory.write"
            asked = Request(call, json.dumps(_node(f"n{number}")).encode(), {"Content-Type": "application/json"})
            with urlopen(asked) as answer:
                assert json.load(answer)["lamport"] == number + 1


async def test_contents_whose_ids_differ_in_capitals_stay_apart_on_a_disk_that_knows_none(any_case_disk: Path) -> None:
    base = any_case_disk / "base"
    ids = ("Ada", "ada", "ADA")
    async with connect(base, "--toolsets", "all") as agent:
        await agent.call_tool("create_ontology", {"node_types": ["Note"], "connection_types": []})
        for each in ids:
            await _told(agent, "memory.write", **_node(each))
            content = {"content": f"text of {each}", "encoding": "utf-8", "format": "markdown"}
            await agent.call_tool("update_node", {"node_id": each, **content})
    # Whoever begins looks for what people edited meanwhile.
    async with connect(base, "--toolsets", "all") as agent:
        await _told(agent, "memory.write", **_node("later"))
        for each in ids:
            answer = await agent.call_tool("get_node_content", {"node_id": each})
            assert [getattr(part, "text", "") for part in answer.content] == [f"text of {each}"]
    assert "file-edit" not in _command({}, "log", "--base", str(base))
    assert _command({}, "verify", "--views", "--base", str(base))
