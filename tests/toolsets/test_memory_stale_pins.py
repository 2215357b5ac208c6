"""Pinned knowledge whose files changed is marked where memories are read and searched."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallystick import app
from tallystick.config import Settings
from tests.server.web.repositories import make_repository


class Memory:
    def __init__(self, base: Path, repository: Path) -> None:
        self._context = app.operation_context(Settings(base=base, repo=str(repository)))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        async def answer() -> dict[str, Any]:
            async with self._context.open_store() as store:
                answer = await self._context.prepare(tool, arguments)(store)
                return dict(json.loads(msgspec.json.encode(answer.data)))

        return asyncio.run(answer())

    def atom(self, name: str, *paths: str) -> str:
        self.call("graph_open", project="p")
        task = self.call("graph_plan", nodes=[{"ref": "t", "summary": "t"}])["created"][0]["id"]
        said = {"projectId": "p", "name": name, "knowledge": f"how {name} works", "createdByTaskId": task}
        made = self.call("manage_graph", operation="create", entityType="atom", paths=list(paths), pin=True, **said)
        return str(made["data"]["atom"]["id"])

    def marked(self, **asked: Any) -> dict[str, Any]:
        found = self.call("memory.search", type="knowledge/atom", **asked)["entities"]
        return {each["id"]: each.get("stale") for each in found}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def test_an_atom_is_marked_once_its_files_changed_and_found_by_it(tmp_path: Path, repository: Path) -> None:
    memory = Memory(tmp_path / "memory", repository)
    queue, other = memory.atom("queue", "src/queue.py"), memory.atom("other", "README.md")
    assert memory.marked() == {queue: None, other: None}
    (repository / "src/queue.py").write_text("changed\n")
    read = memory.call("memory.read", entity_id=queue)["entity"]
    pinned = read["attrs"]["pin"]["at"]
    expected = {"why": "pinned files changed", "since": pinned, "files": ["src/queue.py"]}
    assert read["stale"] == expected
    assert "stale" not in memory.call("memory.read", entity_id=other)["entity"]
    assert memory.marked() == {queue: expected, other: None}
    assert memory.marked(query="queue")[queue] == expected
    assert memory.marked(stale=True) == memory.marked(stale=True, query="queue") == {queue: expected}


def test_a_new_file_that_matches_counts_and_so_does_a_second_reason(tmp_path: Path, repository: Path) -> None:
    memory = Memory(tmp_path / "memory", repository)
    atom = memory.atom("sources", "src/*.py")
    (repository / "src/added.py").write_text("new\n")
    memory.call("memory.write", op="PATCH_NODE", node={"id": atom, "attrs": {"stale_after": "2020-01-01T00:00:00Z"}})
    stale = memory.call("memory.read", entity_id=atom)["entity"]["stale"]
    assert (stale["why"], stale["files"]) == ("past its time, pinned files changed", ["src/added.py"])


def test_nothing_is_reported_of_the_files_of_another_repository(tmp_path: Path, repository: Path) -> None:
    atom = Memory(tmp_path / "memory", repository).atom("queue", "src/queue.py")
    other = make_repository(tmp_path / "other")
    (other / "src/queue.py").write_text("changed\n")
    elsewhere = Memory(tmp_path / "memory", tmp_path)
    assert elsewhere.marked() == {atom: None}
    assert elsewhere.marked(stale=True) == {}
