"""Imports of SQLite files: swimlanes and claude-mem; whole, in use, damaged."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import InvalidArgument
from tallystick.extensions.importers import claude_mem, swimlanes
from tests.command_line import CommandLine
from tests.extensions.importers.imports import (
    FIXTURES,
    atoms,
    count,
    facts,
    imported,
    left_out,
    links,
    reasons,
    tasks,
    tool,
    written,
)
from tests.promises import promise

NODES = """nodes(id text primary key, rev integer, parent text, project text, summary text, resolved integer,
 depth integer, state text, properties text, context_links text, evidence text, created_by text, created_at text,
 updated_at text, discovery text, blocked integer, blocked_reason text, plan text)"""
SWIMLANES = (
    NODES,
    "edges(id text primary key, from_node text, to_node text, type text, created_at text)",
    "events(id text primary key, node_id text, agent text, action text, changes text, timestamp text,"
    " decision_context text)",
    "knowledge(id text primary key, project text, key text, content text, created_by text, created_at text,"
    " updated_at text, source_node text, category text)",
)
AT = "2026-02-03T04:05:06Z"


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "base")


def insert(connection: sqlite3.Connection, table: str, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        said = [json.dumps(each) if isinstance(each, dict | list) else each for each in row.values()]
        connection.execute(f"insert into {table} ({names}) values ({marks})", said)
    connection.commit()


def node(node_id: str, parent: str | None, **more: Any) -> dict[str, Any]:
    shared = {"rev": 1, "project": "shop", "summary": f"Do {node_id}", "resolved": 0, "created_by": "ada"}
    return {"id": node_id, "parent": parent, **shared, "created_at": AT, "updated_at": AT, **more}


def make_swimlanes(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode = wal")
    for table in SWIMLANES:
        connection.execute(f"create table {table}")
    claim = {"_claimed_by": "bob", "_claimed_at": AT, "status": "hot", "priority": 5}
    evidence = [{"type": "git", "ref": "4f2a91c", "agent": "bob", "timestamp": AT}]
    given_up = [{"type": "dropped", "ref": "not needed", "agent": "bob", "timestamp": AT}]
    rows = [
        node("root", None),
        node("a", "root", properties=claim, context_links=["src/refund.py"], discovery="found out", state={"step": 2}),
        node("b", "root", resolved=1, evidence=evidence),
        node("c", "a", resolved=1, evidence=given_up, properties="{", blocked=1, blocked_reason="the bank"),
    ]
    insert(connection, "nodes", rows)
    edges = [("1", "a", "b", "depends_on"), ("2", "c", "b", "relates_to"), ("3", "a", "nobody", "depends_on")]
    insert(
        connection, "edges", [dict(zip(("id", "from_node", "to_node", "type"), each, strict=True)) for each in edges]
    )
    insert(connection, "events", [{"id": "1", "node_id": "a", "agent": "bob", "action": "created", "timestamp": AT}])
    known = {"id": "1", "project": "shop", "key": "refunds", "content": "never retry a refund", "created_by": "ada"}
    insert(connection, "knowledge", [known | {"created_at": AT, "category": "rule", "source_node": "a"}])
    return connection


# -- swimlanes


@promise("import-swimlanes", "a graph of swimlanes is a project, also while it is written, and is left as it was")
def test_a_graph_of_swimlanes_is_a_project_also_while_it_is_written(tmp_path: Path, shell: CommandLine) -> None:
    path = tmp_path / "graph.db"
    with closing(make_swimlanes(path)) as connection:
        connection.execute("begin immediate")
        assert (tmp_path / "graph.db-wal").stat().st_size
        before = {each.name: each.read_bytes() for each in tmp_path.glob("graph.db*")}
        report = imported(shell, "auto", path)
        assert {each.name: each.read_bytes() for each in tmp_path.glob("graph.db*")} == before
    assert report["source"] == "swimlanes"
    assert written(report) == {"task shop": (4, 0, 0), "node knowledge": (1, 0, 0)}
    assert {each["status"]: each["becomes"] for each in report["states"]} == {
        "open": "open", "resolved": "resolved", "dropped": "dropped"
    }  # fmt: skip
    told = reasons(report)
    assert told.pop("c properties").startswith("not JSON")
    assert told == {"1 rows": "this table is not imported", "Do a depends_on nobody": "there is no 'nobody'"}
    found = tool(shell, "graph_query", project="shop")["nodes"]
    first = tool(shell, "graph_context", node_id=next(each["id"] for each in found if each["summary"] == "Do a"))
    assert first["node"]["properties"] == {
        "claimed_by": "bob", "claimed_at": AT, "own_status": "hot", "priority": 5, "discovery": "found out",
        "state": {"step": 2}, "status": "open", "source_id": "a",
    }  # fmt: skip
    assert first["node"]["context_links"] == ["src/refund.py"]
    assert [each["node"]["summary"] for each in first["depends_on"]] == ["Do b"]
    assert first["depends_on"][0]["node"]["evidence"] == [
        {"type": "git", "ref": "4f2a91c", "agent": "bob", "timestamp": AT, "imported": "swimlanes"}
    ]
    assert tool(shell, "graph_query", project="shop", filter={"claimed_by": "bob"})["nodes"] == []
    assert shell.run("show", "shop/refunds", "--json").json["entity"]["attrs"]["text"] == "never retry a refund"
    again = count(shell)
    assert imported(shell, "swimlanes", path)["commits"] == 0
    assert count(shell) == again


@promise("import-damaged", "a damaged database is told and never written")
def test_a_damaged_database_is_told_and_never_written(tmp_path: Path) -> None:
    path = tmp_path / "graph.db"
    with closing(make_swimlanes(path)) as connection:
        insert(connection, "nodes", [node(f"n{number}", "root", plan="x" * 2_000) for number in range(200)])
        connection.execute("pragma wal_checkpoint(truncate)")
    whole = path.read_bytes()
    half = len(whole) // 2
    path.write_bytes(whole[:half] + b"\xaa" * 40_000 + whole[half + 40_000 :])
    assert any("the database is damaged" in reason for _, reason in left_out("swimlanes", path))
    damaged = path.read_bytes()
    path.write_bytes(whole[:1_000])
    with pytest.raises(InvalidArgument):
        list(swimlanes.read(path))
    assert not swimlanes.detect(path)
    assert len(damaged) == len(whole)


def test_what_is_no_such_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "graph.db"
    path.write_text("not a database")
    with pytest.raises(InvalidArgument, match="not a SQLite database"):
        list(swimlanes.read(path))
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        # A view in place of a table may hide a query without end.
        connection.executescript("create table other(x); create view nodes as select 1; create view edges as select 1;")
    with pytest.raises(InvalidArgument, match="no tables nodes and edges"):
        list(swimlanes.read(path))
    with pytest.raises(InvalidArgument, match="no table observations"):
        list(claude_mem.read(path))
    assert not claude_mem.detect(path)
    assert not swimlanes.detect(path)


# -- claude-mem

SESSION = {
    "content_session_id": "c-1",
    "memory_session_id": "m-1",
    "project": "shop",
    "platform_source": "claude",
    "user_prompt": "mend refunds",
    "started_at": AT,
    "started_at_epoch": 1,
    "status": "completed",
}
OBSERVATION = {
    "id": 1,
    "memory_session_id": "m-1",
    "project": "shop",
    "type": "bugfix",
    "title": "Refunds were paid twice",
    "subtitle": "retries",
    "facts": ["no idempotency keys"],
    "narrative": "The client retried.",
    "concepts": ["refunds"],
    "files_modified": ["src/refund.py", "/home/ada/shop/src/[id].ts", "/etc/hosts"],
    "files_read": [],
    "created_at": AT,
    "created_at_epoch": 1,
    "generated_by_model": "m",
    "content_hash": "h1",
}
PLAIN = {
    "id": 2,
    "memory_session_id": "m-1",
    "project": "shop",
    "type": "decision",
    "title": "Use Stripe",
    "created_at": AT,
    "created_at_epoch": 1,
    "content_hash": "h2",
}
SUMMARY = {
    "id": 7,
    "memory_session_id": "m-1",
    "project": "shop",
    "request": "mend refunds",
    "learned": "keys expire",
    "created_at": AT,
    "created_at_epoch": 1,
}
PROMPT = {
    "content_session_id": "c-1",
    "prompt_number": 1,
    "prompt_text": "why twice?",
    "created_at": AT,
    "created_at_epoch": 1,
}


@pytest.fixture
def claude_mem_db(tmp_path: Path) -> Path:
    """Tables as the program itself made them, and rows."""
    path = tmp_path / "claude-mem.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((FIXTURES / "claude-mem" / "schema.sql").read_text())
        insert(connection, "sdk_sessions", [SESSION])
        insert(connection, "observations", [OBSERVATION, PLAIN])
        insert(connection, "session_summaries", [SUMMARY])
        insert(connection, "user_prompts", [PROMPT])
    return path


def claude_mem_export(tmp_path: Path) -> Path:
    path = tmp_path / "export.json"
    lists = {"observations": [OBSERVATION, PLAIN], "sessions": [SESSION], "summaries": [SUMMARY], "prompts": [PROMPT]}
    path.write_text(json.dumps({"exportedAt": AT, "query": "x", "totalObservations": 2, **lists}))
    return path


@promise("import-claude-mem", "what claude-mem kept is knowledge of files and nodes")
def test_what_claude_mem_kept_is_knowledge_of_files_and_nodes(claude_mem_db: Path, shell: CommandLine) -> None:
    report = imported(shell, "auto", claude_mem_db)
    assert report["source"] == "claude-mem"
    assert written(report) == {
        "node session": (1, 0, 0),
        "node decision": (1, 0, 0),
        "node session summary": (1, 0, 0),
        "node prompt": (1, 0, 0),
        "edge part_of": (3, 0, 0),
        "knowledge shop": (1, 0, 0),
    }
    assert reasons(report) == {"/etc/hosts": "this file lies outside of the project"}
    found = tool(shell, "query_graph", operation="context", projectId="shop", paths="src/refund.py")
    (atom,) = found["data"]["orphanAtoms"]
    assert atom["name"] == "Refunds were paid twice"
    assert "- no idempotency keys" in atom["knowledge"]
    assert tool(shell, "query_graph", operation="context", projectId="shop", paths="src/[id].ts")["data"]["orphanAtoms"]
    assert imported(shell, "claude-mem", claude_mem_db)["commits"] == 0


def test_the_export_of_claude_mem_says_the_same(claude_mem_db: Path, tmp_path: Path, shell: CommandLine) -> None:
    imported(shell, "claude-mem", claude_mem_db)
    exported = imported(shell, "auto", claude_mem_export(tmp_path))
    assert (exported["source"], exported["commits"]) == ("claude-mem", 0)


def test_knowledge_that_changed_there_is_a_new_version_here(claude_mem_db: Path, shell: CommandLine) -> None:
    imported(shell, "claude-mem", claude_mem_db)
    with closing(sqlite3.connect(claude_mem_db)) as connection:
        connection.execute("update observations set narrative = 'The queue retried.' where id = 1")
        connection.commit()
    assert written(imported(shell, "claude-mem", claude_mem_db, "--dry-run"))["knowledge shop"] == (0, 1, 0)
    imported(shell, "claude-mem", claude_mem_db)
    (atom,) = tool(shell, "query_graph", operation="search", entityType="atom", projectId="shop")["data"]["items"]
    assert atom["version"] == 2
    changed = {"operation": "update", "entityType": "atom", "id": atom["id"], "version": 2, "name": "Paid twice"}
    assert tool(shell, "manage_graph", **changed)["success"]
    assert imported(shell, "claude-mem", claude_mem_db)["commits"] == 0


def test_an_observation_without_files_of_the_project_is_a_node(tmp_path: Path) -> None:
    path = claude_mem_export(tmp_path)
    assert list(atoms("claude-mem", path)) == ["Refunds were paid twice"]
    plain = facts("claude-mem", path)["claude-mem/observation/m-1/2"]
    assert (plain.type, plain.attrs["title"]) == ("decision", "Use Stripe")
    assert ("claude-mem/prompt/c-1/1", "part_of", "claude-mem/session/m-1") in links("claude-mem", path)
    assert tasks("claude-mem", path) == {}
