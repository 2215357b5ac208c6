"""The tables of tasks and knowledge in the SQL mirror."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.commits import Operation
from tallystick.log.files import FilesLog
from tallystick.projections.log_reader import LogReader
from tallystick.projections.sql import SqlProjection
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import append, draft
from tests.projections.workspace import gone, memory
from tests.promises import promise


class SqlSetup:
    def __init__(self, home: Path) -> None:
        self.log = FilesLog(home / "_system")
        self._path = home / "graph.db"
        self._follower = ProjectionWorker(
            LogReader(lambda: FilesLog(home / "_system")), SqlProjection(self._path), lock=home / "sql.lock"
        )

    def write(self, *operations: Operation) -> None:
        append(self.log, *(draft(operation) for operation in operations))

    def ask(self, query: str) -> list[Any]:
        self._follower.catch_up()
        db = sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()

    def close(self) -> None:
        self._follower.close()
        self.log.close()


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[SqlSetup]:
    made = SqlSetup(tmp_path)
    yield made
    made.close()


def node(node_id: str, **attrs: Any) -> Operation:
    return memory(node_id, "work/node", None, **{"project": "p", "parent": "r", "resolved": False, "rev": 1} | attrs)


@promise("K36, orchestrator", "projects, features, tasks and sections are rows")
def test_projects_features_tasks_and_sections_are_rows(mirror: SqlSetup) -> None:
    mirror.write(
        memory("p", "work/project", None, name="Shop", root="r", summary="Sell", task={"tags": ["x"], "rev": 3}),
        node("r", parent=None, summary="Sell"),
        node("f", summary="Pay", task={"kind": "feature", "title": "Checkout", "status": "ACTIVE"}),
        node("t", parent="f", summary="Build", properties={"priority": 1},
             task={"kind": "task", "title": "Form", "status": "NEW", "complexity": 3, "tags": ["a", "b"]}),
        node("planned", summary="Plan", resolved=True, rev=4, properties={"priority": "low"}),
        node("loose", project="tasks/loose", parent=None, summary="L", resolved=True,
             task={"kind": "task", "status": "WILL_NOT_IMPLEMENT"}),
        memory("s", "tasks/section", None, entityType="TASK", entityId="t", title="Notes", usageDescription="u",
               content="words", contentFormat="CODE", ordinal=2, tags="x,y", version=5),
    )  # fmt: skip
    assert mirror.ask("SELECT id, name, summary, tags, version FROM projects") == [("p", "Shop", "Sell", '["x"]', 3)]
    assert mirror.ask("SELECT id, project_id, name, status, priority FROM features") == [
        ("f", "p", "Checkout", "ACTIVE", "MEDIUM")
    ]
    columns = "id, project_id, feature_id, title, status, priority, complexity, tags, version"
    assert mirror.ask(f"SELECT {columns} FROM tasks ORDER BY id") == [
        ("loose", None, None, "L", "WILL_NOT_IMPLEMENT", "MEDIUM", 5, "[]", 1),
        ("planned", "p", None, "Plan", "CLOSED", "LOW", 5, "[]", 4),
        ("t", "p", "f", "Form", "NEW", "HIGH", 3, '["a","b"]', 1),
    ]
    assert mirror.ask("SELECT entity_id, title, content, content_format, ordinal, tags, version FROM sections") == [
        ("t", "Notes", "words", "CODE", 2, "x,y", 5)
    ]
    mirror.write(node("t", parent="r", summary="Build", rev=2), gone("s"), gone("f"))
    assert mirror.ask("SELECT feature_id, title, version FROM tasks WHERE id = 't'") == [(None, "Build", 2)]
    assert mirror.ask("SELECT * FROM sections UNION ALL SELECT * FROM features") == []


def test_a_root_that_comes_before_its_project_is_no_task_either(mirror: SqlSetup) -> None:
    mirror.write(node("r", parent=None), memory("p", "work/project", None, name="Shop", root="r"))
    assert mirror.ask("SELECT id FROM tasks") == []


@promise("K36", "the tables and indexes of the specification's migration")
def test_knowledge_is_in_the_tables_of_its_specification(mirror: SqlSetup) -> None:
    told = {"createdByTaskId": "t", "lastTaskId": "u", "version": 2, "createdAt": "c", "updatedAt": "u"}
    mirror.write(
        memory("m", "knowledge/molecule", None, projectId="p", name="Pages", knowledge="all", relatedMolecules=[],
               **told),
        memory("a", "knowledge/atom", None, projectId="p", moleculeId="m", name="Checkout", paths=["src/**"],
               knowledge="how", relatedAtoms=[{"atomId": "b", "reason": "r"}], **told),
        memory("o", "knowledge/atom", None, projectId="p", moleculeId=None, name="Orphan", paths=[], **told),
        memory("c", "knowledge/changelog", None, parentType="atom", parentId="a", taskId="t", summary="s",
               createdAt="c"),
        memory("odd", "knowledge/changelog", None, parentType="tree"),
    )  # fmt: skip
    assert mirror.ask("SELECT * FROM graph_molecules") == [("m", "p", "Pages", "all", "[]", "t", "u", 2, "c", "u")]
    assert mirror.ask("SELECT * FROM graph_atoms ORDER BY id") == [
        ("a", "p", "m", "Checkout", '["src/**"]', "how", '[{"atomId":"b","reason":"r"}]', "t", "u", 2, "c", "u"),
        ("o", "p", None, "Orphan", "[]", "", "[]", "t", "u", 2, "c", "u"),
    ]
    assert mirror.ask("SELECT * FROM graph_changelog") == [("c", "atom", "a", "t", "s", "c")]
    mirror.write(gone("c"), gone("a"), gone("o"), gone("m"))
    assert mirror.ask("SELECT id FROM graph_changelog UNION SELECT id FROM graph_atoms") == []
    assert mirror.ask("SELECT id FROM graph_molecules") == []


def test_the_indexes_of_the_specification_are_there(mirror: SqlSetup) -> None:
    names = {name for (name,) in mirror.ask("SELECT name FROM sqlite_master WHERE type = 'index'")}
    assert names >= {
        "idx_graph_molecules_project", "idx_graph_atoms_project", "idx_graph_atoms_molecule",
        "idx_graph_changelog_parent", "idx_graph_changelog_task",
    }  # fmt: skip


@pytest.mark.parametrize(
    "attrs",
    [{}, {"task": 3}, {"task": {"kind": [], "tags": "x", "complexity": "y", "description": {"a": 1}}},
     {"properties": {"priority": True}, "rev": "x", "project": 7, "summary": []}, {"root": {"a": 1}, "name": 3}],
)  # fmt: skip
def test_odd_attributes_do_not_stop_the_mirror(mirror: SqlSetup, attrs: dict[str, Any]) -> None:
    types = ["work/project", "work/node", "tasks/section"]
    types += ["knowledge/atom", "knowledge/molecule", "knowledge/changelog"]
    mirror.write(*(memory(kind, kind, None, **attrs) for kind in types))
    assert mirror.ask("SELECT count(*) FROM nodes") == [(6,)]


def test_what_was_given_up_is_not_closed_in_any_table(mirror: SqlSetup) -> None:
    dropped = [{"type": "git", "ref": "x"}, {"type": "dropped", "ref": "no need"}]
    given_up, closed = {"status": "WILL_NOT_IMPLEMENT"}, {"status": "CLOSED"}
    mirror.write(
        node("old", resolved=True, evidence=dropped),
        node("terminated", resolved=True, task=given_up),
        node("done", resolved=True, evidence=dropped[::-1]),
        node("done at last", resolved=True, evidence=dropped, task=closed),
        node("open", evidence=dropped, task=given_up),
        node("odd", resolved=True, evidence="dropped", task="CLOSED"),
        node("feature", resolved=True, evidence=dropped, task={"kind": "feature"}),
    )
    assert mirror.ask("SELECT id, status FROM tasks ORDER BY id") == [
        ("done", "CLOSED"),
        ("done at last", "CLOSED"),
        ("odd", "CLOSED"),
        ("old", "WILL_NOT_IMPLEMENT"),
        ("open", "NEW"),
        ("terminated", "WILL_NOT_IMPLEMENT"),
    ]
    assert mirror.ask("SELECT id, status FROM features") == [("feature", "WILL_NOT_IMPLEMENT")]
    assert mirror.ask("SELECT id FROM work_nodes WHERE dropped ORDER BY id") == [
        ("feature",), ("old",), ("terminated",),
    ]  # fmt: skip


def test_a_claim_is_told_with_its_session(mirror: SqlSetup) -> None:
    claim = {"_claimed_by": "mcp", "_claimed_at": "2026-02-10T12:00:00.000Z", "_claimed_session": "s-1"}
    mirror.write(node("a", properties=claim), node("b"))
    assert mirror.ask("SELECT claimed_by, claimed_session FROM work_nodes ORDER BY id") == [
        ("mcp", "s-1"),
        (None, None),
    ]
