"""The graph as hooks ask for it, beside what the tools answer."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tallystick.extensions.hooks.graph import opened
from tallystick.extensions.hooks.log_tail import Away
from tests.hook.memories import Memory


@pytest.mark.parametrize("seed", range(3))
def test_what_comes_next_is_what_the_tool_hands_out_next(memory: Memory, seed: int) -> None:
    chance = random.Random(seed)
    memory.call("graph_open", project="shop", goal="Ship it")
    nodes: list[dict[str, Any]] = []
    for number in range(25):
        node: dict[str, Any] = {"ref": f"n{number}", "summary": f"step {number}"}
        if number and chance.random() < 0.6:
            node["parent_ref"] = f"n{chance.randrange(number)}"
        if chance.random() < 0.3:
            node["properties"] = {"priority": chance.randrange(3)}
        nodes.append(node)
    made = {each["ref"]: each["id"] for each in memory.call("graph_plan", nodes=nodes)["created"]}
    edges = [(chance.randrange(25), chance.randrange(25)) for _ in range(8)]
    for source, target in edges:
        if source < target:
            edge = {"from": made[f"n{source}"], "to": made[f"n{target}"], "type": "depends_on"}
            memory.call("graph_connect", edges=[edge])
    told = memory.call("graph_next", project="shop", count=50)
    expected = [each["node"]["id"] for each in told["nodes"]]
    memory.follow("sql")
    with opened(memory.home, memory.home / "graph.db") as graph:
        (project,) = [graph.current_project()]
        assert project is not None
        assert [item.id for item in graph.ready(project.id)] == expected
    assert len(expected) > 3


def test_what_waits_for_a_task_that_was_redacted_comes_next(memory: Memory) -> None:
    memory.call("graph_open", project="shop", goal="Ship it")
    nodes = [{"ref": "a", "summary": "a"}, {"ref": "b", "summary": "b", "depends_on": ["a"]}]
    a, b = (each["id"] for each in memory.call("graph_plan", nodes=nodes)["created"])
    memory.call("graph_update", updates=[{"node_id": a, "resolved": True}])
    memory.call("memory.write", op="REDACT_NODE", node_id=a, reason="asked")
    for _ in range(2):
        with opened(memory.home, memory.home / "graph.db") as graph:
            project = graph.current_project()
            assert project is not None
            assert [item.id for item in graph.ready(project.id)] == [b]
        memory.follow("sql")


def test_a_dependent_of_a_terminated_task_does_not_come_next(memory: Memory) -> None:
    memory.call("graph_open", project="shop", goal="Ship it")
    refs = [("a", []), ("b", ["a"]), ("c", []), ("d", ["c"])]
    nodes = [{"ref": ref, "summary": ref, "depends_on": others} for ref, others in refs]
    a, _, c, d = (each["id"] for each in memory.call("graph_plan", nodes=nodes)["created"])
    memory.call("terminate", containerType="task", id=a, version=1)
    memory.call("graph_restructure", operations=[{"op": "drop", "node_id": c, "reason": "no need"}])
    assert [each["node"]["id"] for each in memory.call("graph_next", project="shop", count=9)["nodes"]] == [d]
    for _ in range(2):
        with opened(memory.home, memory.home / "graph.db") as graph:
            project = graph.current_project()
            assert project is not None
            assert [item.id for item in graph.ready(project.id)] == [d]
        memory.follow("sql")


def test_what_is_held_up_with_a_reason_does_not_come_next(memory: Memory) -> None:
    memory.call("graph_open", project="shop", goal="Ship it")
    nodes = [{"ref": "a", "summary": "a"}, {"ref": "b", "summary": "b"}]
    a, b = (each["id"] for each in memory.call("graph_plan", nodes=nodes)["created"])
    memory.call("block", containerType="task", id=a, version=1, blockedBy="NO_OP", blockedReason="flood")
    for _ in range(2):
        with opened(memory.home, memory.home / "graph.db") as graph:
            project = graph.current_project()
            assert project is not None
            assert [item.id for item in graph.ready(project.id)] == [b]
        memory.follow("sql")


PATTERNS = ("src/a.py", "src/*", "src/**", "**/a.py", "**", "*.py", "src/[ab].py", "{src,lib}/a.py", "src/a?py",
            "lib/**", "src/deep/**", "a.py", "SRC/a.py")  # fmt: skip


def test_the_atoms_of_a_file_are_those_that_the_tool_finds(memory: Memory) -> None:
    memory.call("graph_open", project="shop", goal="Ship it")
    task = memory.call("graph_plan", nodes=[{"ref": "t", "summary": "t"}])["created"][0]["id"]
    atoms = {memory.atom(pattern, "known", pattern, task=task): pattern for pattern in PATTERNS}
    memory.follow("sql")
    with opened(memory.home, memory.home / "graph.db") as graph:
        for path in ("src/a.py", "src/deep/er/b.py", "a.py", "lib/a.py", "src", "other/x.md"):
            found = memory.call("query_graph", operation="context", projectId="shop", paths=path)["data"]
            expected = {atom["id"] for atom in found["orphanAtoms"]}
            assert {atoms[each] for each in graph.about_file(path)} == {atoms[each] for each in expected}, path


@pytest.fixture
def mirrored(memory: Memory) -> Memory:
    memory.note("one", title="One")
    memory.follow("sql")
    return memory


def forge(memory: Memory, *statements: str) -> None:
    with closing(sqlite3.connect(memory.home / "graph.db", isolation_level=None)) as db:
        for statement in ('UPDATE nodes SET attrs = \'{"title":"planted"}\'', *statements):
            db.execute(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM meta WHERE key = 'head'",
        "UPDATE meta SET value = json_remove(value, '$.commit_id') WHERE key = 'head'",
    ],
    ids=["no position", "no commit"],
)
def test_rows_of_a_mirror_that_names_no_commit_are_not_shown(mirrored: Memory, statement: str) -> None:
    """They could be of any log: what is shown comes from the log then."""
    forge(mirrored, statement)
    with opened(mirrored.home, mirrored.home / "graph.db") as graph:
        note = graph.note("one")
    assert note is not None
    assert note.attrs == {"title": "One"}


@pytest.mark.parametrize("is_behind", [False, True])
def test_a_mirror_of_another_log_is_not_believed(mirrored: Memory, is_behind: bool) -> None:
    forge(mirrored, f"UPDATE meta SET value = json_set(value, '$.commit_id', '{'0' * 64}') WHERE key = 'head'")
    if is_behind:
        mirrored.note("two")
    with pytest.raises(Away), opened(mirrored.home, mirrored.home / "graph.db"):
        pass
