"""Exports for server-memory, read by server-memory."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client import Client

from tests.command_line import CommandLine, edge, node
from tests.extensions.exporters.exports import exported, front_matter, losses
from tests.extensions.importers.fixtures.make import BIN
from tests.extensions.importers.imports import FIXTURES, facts, imported, links
from tests.promises import promise

PROGRAM = BIN / "mcp-server-memory"


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


def test_an_entity_says_its_observations_and_its_other_attributes(tmp_path: Path, shell: CommandLine) -> None:
    shell.write(
        node("billing", "service", name="billing", observations=["never retry"], tier=1, note="a\nb", both=[1, "x"]),
        node("Ada", "person"),
        edge("Ada", "owns", "billing", since=2020),
    )
    report = exported(shell, "server-memory", tmp_path / "memory.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "memory.jsonl").read_text().splitlines()]
    assert lines == [
        {
            "type": "entity",
            "name": "billing",
            "entityType": "service",
            "observations": ["never retry", 'both: [1,"x"]', "note: a\nb", "tier: 1"],
        },
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": []},
        {"type": "relation", "from": "Ada", "to": "billing", "relationType": "owns"},
    ]
    assert losses(report).keys() >= {"authors and times", "what an edge says", "attribute that is no text"}


def test_what_came_from_server_memory_goes_back_as_it_was(tmp_path: Path, shell: CommandLine) -> None:
    source = FIXTURES / "server-memory"
    imported(shell, "server-memory", source)
    exported(shell, "server-memory", tmp_path / "memory.jsonl")
    before, after = facts("server-memory", source), facts("server-memory", tmp_path)
    assert {each.id: (each.type, each.attrs) for each in after.values()} == {
        each.id: (each.type, each.attrs) for each in before.values()
    }
    assert links("server-memory", tmp_path) == links("server-memory", source)


@promise("export-server-memory", "server-memory reads what is exported for it")
@pytest.mark.skipif(not PROGRAM.exists(), reason="'make test' installs server-memory")
def test_server_memory_reads_it(tmp_path: Path, shell: CommandLine) -> None:
    hostile = ["../x", "line\u2028end", 'quote"', "ä 🏔", "{}"]
    shell.write(*(node(each, "thing", text=f"{each}\n\r\n") for each in hostile))
    shell.write(*(edge(each, "is near", hostile[0]) for each in hostile[1:]))
    exported(shell, "server-memory", tmp_path / "memory.jsonl")
    graph = asyncio.run(_read_graph(tmp_path / "memory.jsonl"))
    assert {each["name"]: each["observations"] for each in graph["entities"]} == {
        each: [f"text: {each}\n\r\n"] for each in hostile
    }
    assert [(each["from"], each["to"]) for each in graph["relations"]] == [(each, hostile[0]) for each in hostile[1:]]


async def _read_graph(file: Path) -> Any:
    started = StdioServerParameters(command=str(PROGRAM), env={**os.environ, "MEMORY_FILE_PATH": str(file)})
    async with Client(started) as client:
        answer = await client.call_tool("read_graph", {})
        return answer.structured_content or json.loads(answer.content[0].text)  # type: ignore[union-attr]


def test_edges_with_the_same_ends_are_one_relation_and_told(tmp_path: Path, shell: CommandLine) -> None:
    second = {"op": "UPSERT_EDGE", "edge": {"id": "second", "from": "a", "rel": "r", "to": "b", "attrs": {}}}
    shell.write(node("a"), node("b"), edge("a", "r", "b"), second)
    report = exported(shell, "server-memory", tmp_path / "memory.jsonl")
    assert links("server-memory", tmp_path) == [("a", "r", "b")]
    assert [each["examples"] for each in report["losses"] if each["what"] == "edge"] == [["second"]]
    exported(shell, "vault", tmp_path / "vault")
    (relation,) = front_matter(tmp_path / "vault" / "note" / "a.md")["relations"]
    assert relation == {"rel": "r", "to": "b", "id": "second"}
