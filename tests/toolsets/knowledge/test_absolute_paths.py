"""Absolute paths below the repository mean the same as relative ones, in every tool that takes paths."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import InvalidArgument
from tallystick.system.repository import relative_to_root
from tests.hook.memories import Memory, make_repository
from tests.toolsets.knowledge.agents import KnowledgeAgent, keeping


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


@pytest.fixture
def agent(root: Path) -> Iterator[KnowledgeAgent]:
    with keeping(repo=root) as agent:
        yield agent


def _atoms(agent: KnowledgeAgent, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.context(path)["orphanAtoms"]
    return found


def test_knowledge_is_written_and_found_by_absolute_paths(agent: KnowledgeAgent, root: Path) -> None:
    atom = agent.atom(paths=[f"{root}/src/**"])
    assert atom["paths"] == ["src/**"]
    (match,) = _atoms(agent, f"{root}/src/cart.ts")
    assert (match["id"], match["matchedPaths"]) == (atom["id"], [f"{root}/src/cart.ts"])
    assert _atoms(agent, "/elsewhere/src/cart.ts") == []


def test_a_link_on_the_way_to_the_root_does_not_matter(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    assert relative_to_root(f"{link}/src/cart.ts", root) == "src/cart.ts"
    assert relative_to_root(f"{root}/src/", link) == "src/"
    assert relative_to_root(f"{root}x/src", root) == f"{root}x/src"
    assert relative_to_root("src/cart.ts", root) == "src/cart.ts"


def test_a_pattern_outside_the_repository_is_refused(agent: KnowledgeAgent) -> None:
    with pytest.raises(InvalidArgument, match="relative to the repository"):
        agent.atom(paths=["/etc/**"])


def test_a_fact_cites_a_file_by_its_absolute_path(root: Path) -> None:
    memory = Memory(root)
    memory.note("fees", text="are 2 %", cites=[f"{root}/src/cart.ts"])
    (cited,) = memory.call("memory.read", entity_id="fees")["entity"]["attrs"]["cites"]
    blob = subprocess.check_output(["git", "hash-object", "src/cart.ts"], cwd=root, text=True).strip()
    assert (cited["path"], cited["hash"]) == ("src/cart.ts", blob)


def test_work_that_links_to_an_absolute_path_comes_with_what_is_known_of_it(root: Path) -> None:
    memory = Memory(root)
    memory.call("graph_open", project="shop", goal="Checkout")
    node = {"ref": "a", "summary": "Refunds", "context_links": [f"{root}/src/cart.ts:12"]}
    (task,) = memory.call("graph_plan", nodes=[node])["created"]
    atom = memory.atom("Cart", "Totals are rounded once", "src/*.ts", task=task["id"])
    (entry,) = memory.call("graph_next", project="shop", node_id=task["id"])["nodes"]
    assert [each["id"] for each in entry["knowledge"]["orphanAtoms"]] == [atom]
