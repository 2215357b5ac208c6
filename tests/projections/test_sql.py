"""The SQL mirror: tables that say what the log says, and the queries that the guide shows."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallystick.commits import Draft, Operation, Verb, chain
from tallystick.errors import StorageRefused
from tallystick.log import Entry, Head, head_after
from tallystick.log.files import FilesLog
from tallystick.projections import sql
from tallystick.projections.consistency_check import rebuild
from tallystick.projections.database import Damaged
from tallystick.projections.log_reader import LogReader
from tallystick.projections.sql import SqlProjection
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import append, draft
from tests.laws.test_replay import STORIES, Step
from tests.projections.workspace import connection, cut, gone, memory, text
from tests.state.logged_state import LoggedState

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "query-with-sql.md"
TABLES = ("nodes", "edges", "commits", "work_projects", "work_nodes", "work_evidence", "work_edges")


class SqlSetup:
    """A home with a log, and one process's mirror of it."""

    def __init__(self, home: Path) -> None:
        self.path = home / "graph.db"
        self.system = home / "_system"
        self.log = FilesLog(self.system)
        self.projection = SqlProjection(self.path)
        self.follower = ProjectionWorker(
            LogReader(lambda: FilesLog(self.system)), self.projection, lock=self.system / "sql.lock"
        )

    def write(self, *operations: Operation) -> None:
        append(self.log, *(draft(operation) for operation in operations))

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        self.follower.catch_up()
        return asked(self.path, query, *values)

    def close(self) -> None:
        self.follower.close()
        self.log.close()


def asked(path: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """As a person does: with a connection that has nothing to do with us."""
    db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    try:
        return db.execute(query, values).fetchall()
    finally:
        db.close()


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    return {table: sorted(asked(path, f"SELECT * FROM {table}"), key=repr) for table in TABLES}


def work(node_id: str, **attrs: Any) -> Operation:
    return memory(node_id, "work/node", None, **{"resolved": False, "rev": 1} | attrs)


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[SqlSetup]:
    made = SqlSetup(tmp_path)
    yield made
    made.close()


# -- what the tables say


def test_a_node_is_a_row_with_who_made_it_and_who_changed_it_last(setup: SqlSetup) -> None:
    append(setup.log, Draft((memory("a", "Note", text("old"), n=1),), actor="ann", tool="t"))
    append(setup.log, Draft((memory("a", "Task", text("new"), n=2),), actor="bob", tool="t"))
    assert setup.ask(
        "SELECT id, type, json_extract(attrs, '$.n'), content, content_format, content_bytes, created_by, updated_by, "
        "created_lamport, lamport, redacted FROM nodes"
    ) == [("a", "Task", 2, "new", "markdown", 3, "ann", "bob", 1, 2, 0)]
    (commit,) = setup.ask("SELECT commit_id, updated_at FROM nodes")
    assert setup.ask("SELECT commit_id, timestamp FROM commits WHERE lamport = 2") == [commit]


@pytest.mark.parametrize("together", [True, False])
def test_a_node_that_changes_its_type_is_in_the_tables_of_the_last_one_only(setup: SqlSetup, together: bool) -> None:
    setup.write(memory("a", "note", text("one")), memory("b", "note", text("one")), work("c"))
    if not together:
        setup.follower.catch_up()
    setup.write(work("a", title="now work"), memory("b", "draft", text("two")), memory("c", "note", text("plain now")))
    if not together:
        setup.follower.catch_up()
    setup.write(memory("a", "note", text("three")), work("b"), memory("c", "note", text("again")))
    assert setup.ask("SELECT id, type, created_lamport, lamport FROM nodes ORDER BY id") == [
        ("a", "note", 1, 7),
        ("b", "work/node", 2, 8),
        ("c", "note", 3, 9),
    ]
    assert setup.ask("SELECT id FROM work_nodes") == [("b",)]
    assert setup.ask("SELECT count(*) FROM commits") == [(9,)]


def test_a_blob_is_named_and_not_kept(setup: SqlSetup) -> None:
    setup.write(memory("a", "Note", {"format": "png", "encoding": "base64", "blob": "ab" * 32, "bytes": 300_000}))
    assert setup.ask("SELECT content, content_encoding, content_blob, content_bytes FROM nodes") == [
        (None, "base64", "ab" * 32, 300_000)
    ]


def test_edges_are_known_by_their_own_id_or_by_their_ends(setup: SqlSetup) -> None:
    setup.write(memory("a", "Note"), memory("b|c", "Note"))
    setup.write(connection(None, "a", "knows", "b|c", n=1), connection("e1", "a", "knows", "b|c", text("why"), n=2))
    setup.write(connection(None, "a", "knows", "b|c", n=3))
    edges = "SELECT id, own_id, source, rel, target, json_extract(attrs, '$.n'), content FROM edges ORDER BY id"
    ends = ("a", "knows", "b|c")
    assert setup.ask(edges) == [(r"a|knows|b\|c", 0, *ends, 3, None), ("e1", 1, *ends, 2, "why")]
    setup.write(cut("e1", "a", "knows", "b|c"))
    assert setup.ask(edges) == [(r"a|knows|b\|c", 0, *ends, 3, None)]


def test_what_was_deleted_is_told_by_its_commits_only(setup: SqlSetup) -> None:
    setup.write(memory("a", "Note", text("x")), gone("a"))
    assert setup.ask("SELECT * FROM nodes") == []
    assert setup.ask("SELECT operation, kind, entity FROM commits ORDER BY lamport") == [
        ("UPSERT_NODE", "node", "a"),
        ("DELETE_NODE", "node", "a"),
    ]


def test_commits_carry_the_run_they_were_made_in(setup: SqlSetup) -> None:
    run = {"run_id": "r", "job_id": "j", "dataset_id": "d"}
    append(setup.log, Draft((memory("a"),), actor="ann", tool="memory.write", reason="because", run_context=run))
    assert setup.ask("SELECT actor, tool, reason, run_id, job_id, dataset_id FROM commits") == [
        ("ann", "memory.write", "because", "r", "j", "d")
    ]


def test_the_mirror_says_up_to_which_commit_it_goes(setup: SqlSetup) -> None:
    setup.write(memory("a"), memory("b"))
    assert setup.ask("SELECT value FROM meta WHERE key = 'position'") == [("2",)]


def test_work_has_tables_of_its_own(setup: SqlSetup) -> None:
    evidence = [{"type": "git", "ref": "abc", "agent": "ann", "timestamp": "2025-01-01T00:00:00.000Z"}]
    properties = {"priority": 7, "_claimed_by": "bob", "_claimed_at": "2025-01-02T00:00:00.000Z"}
    setup.write(
        memory("p", "work/project", None, name="ship", root="r", summary="Ship it"),
        work("r", project="p", parent=None, summary="Ship it"),
        work(
            "t", project="p", parent="r", summary="Test", state={"at": 1}, properties=properties, context_links=["a.py"]
        ),
        work("u", project="p", parent="r", summary="Done", resolved=True, state=True, evidence=evidence, rev=3),
        connection(None, "t", "depends_on", "u"),
        memory("n"),
        connection(None, "t", "about", "n"),
    )
    assert setup.ask("SELECT id, name, root, summary FROM work_projects") == [("p", "ship", "r", "Ship it")]
    assert setup.ask(
        "SELECT id, project, parent, summary, resolved, state, priority, claimed_by, context_links, rev FROM work_nodes"
    ) == [
        ("r", "p", None, "Ship it", 0, None, None, None, "[]", 1),
        ("t", "p", "r", "Test", 0, '{"at":1}', 7.0, "bob", '["a.py"]', 1),
        ("u", "p", "r", "Done", 1, "true", None, None, "[]", 3),
    ]
    assert setup.ask("SELECT node, number, type, ref, agent FROM work_evidence") == [("u", 0, "git", "abc", "ann")]
    assert setup.ask("SELECT source, type, target FROM work_edges") == [("t", "depends_on", "u")]
    setup.write(work("u", project="p", parent="r", summary="Again"), cut_default("t", "depends_on", "u"))
    assert setup.ask("SELECT resolved, rev FROM work_nodes WHERE id = 'u'") == [(0, 1)]
    assert setup.ask("SELECT * FROM work_evidence") == setup.ask("SELECT * FROM work_edges") == []
    setup.write(gone("u"), gone("p"))
    assert setup.ask("SELECT id FROM work_nodes ORDER BY id") == [("r",), ("t",)]
    assert setup.ask("SELECT * FROM work_projects") == []


def cut_default(source: str, rel: str, target: str) -> Operation:
    return Operation(Verb.DELETE_EDGE, {"from": source, "rel": rel, "to": target})


ODD_WORK = [
    {},
    {"summary": None, "resolved": "yes", "state": None, "properties": [], "context_links": "x", "evidence": "x"},
    {"summary": ["a"], "rev": "x", "properties": {"priority": "7", "_claimed_by": 1}, "evidence": [1, [], {}]},
    {"state": "text", "project": {"a": 1}, "parent": [1], "evidence": {"type": "git"}},
]


@pytest.mark.parametrize("attrs", ODD_WORK, ids=range(len(ODD_WORK)))
def test_odd_work_does_not_stop_the_mirror(setup: SqlSetup, attrs: dict[str, Any]) -> None:
    setup.write(memory("w", "work/node", None, **attrs), memory("p", "work/project", None, **attrs))
    assert setup.ask("SELECT count(*) FROM work_nodes") == setup.ask("SELECT count(*) FROM work_projects") == [(1,)]


# -- redaction

FORGOTTEN = (b"xylophone", b"marzipan", b"zeppelin", b"quetzalcoatl", b"glockenspiel", b"sassafras")


def test_what_was_redacted_says_so_and_so_does_the_node(setup: SqlSetup) -> None:
    setup.write(memory("a", "Note", text("secret"), email="a@b", deep={"x": 1, "y": [{"x": 2, "z": 3}]}))
    fields = ["attrs.email", "attrs.deep.x", "attrs.deep.y.x"]
    setup.write(Operation(Verb.REDACT_NODE, {"node_id": "a", "reason": "asked", "redacted_fields": fields}))
    assert setup.ask("SELECT attrs, content, redacted FROM nodes") == [
        ('{"deep":{"x":"[REDACTED]","y":[{"x":"[REDACTED]","z":3}]},"email":"[REDACTED]"}', "secret", 1)
    ]
    setup.write(Operation(Verb.REDACT_NODE, {"node_id": "a", "reason": "asked"}))
    assert setup.ask("SELECT attrs, content, content_format, content_bytes, redacted FROM nodes") == [
        ('{"deep":"[REDACTED]","email":"[REDACTED]"}', "[REDACTED]", "markdown", 10, 1)
    ]


def test_a_field_that_is_not_there_is_not_invented(setup: SqlSetup) -> None:
    setup.write(memory("a", "Note", x=1))
    setup.write(Operation(Verb.REDACT_NODE, {"node_id": "a", "reason": "asked", "redacted_fields": ["attrs.y"]}))
    assert setup.ask("SELECT attrs, redacted FROM nodes") == [('{"x":1}', 1)]


def test_all_attributes_may_go_and_the_content_stay(setup: SqlSetup) -> None:
    setup.write(memory("a", "Note", text("kept"), x=1))
    setup.write(Operation(Verb.REDACT_NODE, {"node_id": "a", "reason": "asked", "redacted_fields": ["attrs"]}))
    assert setup.ask("SELECT attrs, content FROM nodes") == [('{"x":"[REDACTED]"}', "kept")]


def test_what_was_redacted_of_an_edge_says_so_and_so_does_the_edge(setup: SqlSetup) -> None:
    setup.write(memory("a", "Note"), connection(None, "a", "knows", "a", text("secret"), note="x", since=1))
    setup.write(connection("e1", "a", "knows", "a", note="other"))
    ends = {"from": "a", "rel": "knows", "to": "a", "reason": "asked"}
    setup.write(Operation(Verb.REDACT_EDGE, {**ends, "redacted_fields": ["attrs.note"]}))
    shown = "SELECT attrs, content, redacted, lamport, created_lamport FROM edges ORDER BY own_id"
    other = ('{"note":"other"}', None, 0, 3, 3)
    assert setup.ask(shown) == [('{"note":"[REDACTED]","since":1}', "secret", 1, 4, 2), other]
    setup.write(Operation(Verb.REDACT_EDGE, ends))
    assert setup.ask(shown) == [
        ('{"note":"[REDACTED]","since":"[REDACTED]"}', "[REDACTED]", 1, 5, 2),
        other,
    ]
    assert setup.ask("SELECT kind, entity FROM commits WHERE operation = 'REDACT_EDGE'") == [("edge", "a|knows|a")] * 2


def test_a_redaction_leaves_no_trace_in_the_file_or_beside_it(setup: SqlSetup) -> None:
    setup.write(memory("kept", "Note", text("harpsichord")), memory("it", "Note", text("xylophone"), name="marzipan"))
    setup.write(connection("e1", "kept", "likes", "it", text("glockenspiel"), note="sassafras"))
    setup.follower.catch_up()
    setup.write(connection("e1", "kept", "likes", "it", note="x"))
    setup.follower.catch_up()
    kept = b"".join(path.read_bytes() for path in setup.path.parent.glob("graph.db*"))
    assert b"xylophone" in kept
    setup.write(memory("it", "Note", text("zeppelin")), memory("was", "Note", text("quetzalcoatl")), gone("was"))
    setup.follower.catch_up()
    (setup.path.parent / "graph.db.rejected-20200101T000000").write_bytes(b"xylophone")
    for node in ("it", "was"):
        setup.write(Operation(Verb.REDACT_NODE, {"node_id": node, "reason": "asked"}))
    ends = {"from": "kept", "rel": "likes", "to": "it", "id": "e1"}
    setup.write(Operation(Verb.REDACT_EDGE, {**ends, "reason": "asked"}))
    setup.follower.catch_up()
    kept = b"".join(path.read_bytes() for path in setup.path.parent.glob("graph.db*"))
    assert b"harpsichord" in kept
    assert [word for word in FORGOTTEN if word in kept] == []


# -- laws


@settings(max_examples=30)
@given(STORIES, st.integers(1, 7))
def test_tables_built_live_equal_tables_replayed_and_both_equal_the_state(story: list[Step], chunk: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        live, replayed = Path(folder, "live.db"), Path(folder, "replayed.db")
        logged = LoggedState()
        followed = SqlProjection(live)
        for number, step in enumerate(story):
            step(logged)
            if number % chunk == 0:
                _follow(followed, logged)
        _follow(followed, logged)
        before = contents(live)
        _compare_with_state(before, logged)
        anew = SqlProjection(replayed)
        _follow(anew, logged)
        assert contents(replayed) == before
        followed.reset()
        assert followed.position() == Head()
        _follow(followed, logged)
        assert contents(live) == before
        followed.close()
        anew.close()


def _follow(followed: SqlProjection, logged: LoggedState) -> None:
    at = followed.position()
    entries = [
        Entry(offset, chain.decode(logged.lines[offset]), logged.lines[offset]) for offset in logged.offsets[at.count :]
    ]
    if entries:
        followed.apply(entries, head_after(entries, at))


def _compare_with_state(tables: dict[str, list[tuple[Any, ...]]], logged: LoggedState) -> None:
    rows = {row[0]: row for row in tables["nodes"]}
    alive = {node_id: node for node_id in "abcd" if (node := logged.state.node(node_id)) is not None}
    assert rows.keys() == alive.keys()
    for node_id, node in alive.items():
        row, made = rows[node_id], node.provenance
        assert (row[1], row[9], row[12], row[13], row[16]) == (
            node.type, made.created_by, made.updated_by, made.lamport, made.commit_id
        )  # fmt: skip
        assert row[11] == made.timestamp
        assert msgspec.json.decode(row[2]) == node.attrs
        assert row[3] == (node.content or {}).get("text")
    edges = {
        (edge.source, edge.rel, edge.target, edge.id, edge.lamport)
        for node in alive
        for edge in logged.state.edges(node)
    }
    assert {(row[2], row[3], row[4], row[0], row[16]) for row in tables["edges"]} == edges
    assert [row[0] for row in sorted(tables["commits"])] == [commit.lamport for commit in logged.commits]


INDEXES = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name IN ('edges_source', 'commits_entity')"


def test_a_mirror_that_is_made_anew_gets_its_indexes_at_the_head_and_goes_on_with_them(setup: SqlSetup) -> None:
    setup.write(memory("a"), memory("b"))
    reader = LogReader(lambda: FilesLog(setup.system))
    entries = reader.drafts(Head())
    setup.projection.apply(entries[:1], head_after(entries[:1], Head()))
    assert asked(setup.path, INDEXES) == [(0,)]
    # A process that dies here leaves them to the next.
    setup.projection.close()
    assert setup.ask(INDEXES) == [(2,)]
    setup.write(memory("c"))
    assert setup.ask(INDEXES) == [(2,)]
    assert setup.ask("SELECT id FROM nodes ORDER BY id") == [("a",), ("b",), ("c",)]
    setup.projection.reset()
    assert asked(setup.path, INDEXES) == [(0,)]
    assert setup.ask(INDEXES) == [(2,)]
    reader.close()


# -- several at once, crashes, damage


def test_processes_that_share_the_file_end_up_with_the_same_tables(tmp_path: Path) -> None:
    FilesLog(tmp_path / "_system").close()
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        seen = pool.starmap(_write_and_count, [(tmp_path, worker) for worker in range(3)])
    assert seen == [10, 10, 10]
    setup = SqlSetup(tmp_path)
    assert setup.ask("SELECT count(*) FROM nodes") == setup.ask("SELECT count(*) FROM commits") == [(30,)]
    setup.close()


def _write_and_count(home: Path, worker: int) -> int:
    """How many of its own nodes it saw at the end."""
    setup = SqlSetup(home)
    for number in range(10):
        setup.log.claim(timeout_seconds=30)
        setup.write(memory(f"{worker}-{number}"))
        setup.log.release()
        setup.follower.catch_up()
    (seen,) = setup.ask("SELECT count(*) FROM nodes WHERE id LIKE ?", f"{worker}-%")
    setup.close()
    return int(seen[0])


def test_a_crash_in_the_middle_of_a_chunk_leaves_the_tables_where_they_were(
    setup: SqlSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.write(memory("a"))
    assert setup.ask("SELECT id FROM nodes") == [("a",)]
    setup.write(memory("b"), memory("c"))
    with monkeypatch.context() as dying:
        dying.setattr(sql, "_write_head", _die)
        with pytest.raises(KeyboardInterrupt):
            setup.follower.catch_up()
    assert asked(setup.path, "SELECT id FROM nodes") == [("a",)]
    assert setup.ask("SELECT id FROM nodes ORDER BY id") == [("a",), ("b",), ("c",)]


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def _garble(path: Path) -> None:
    path.write_bytes(b"garbage!" * 1000)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "garbled": _garble,
    "table gone": lambda path: _execute(path, "DROP TABLE nodes"),
    "position garbled": lambda path: _execute(path, "UPDATE meta SET value = '{' WHERE key = 'head'"),
    "older": lambda path: _execute(path, "DELETE FROM migrations WHERE name LIKE '003%'"),
    "changed": lambda path: _execute(path, "UPDATE migrations SET sha256 = ''"),
}


def _execute(path: Path, statement: str) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(statement)
    db.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_older_file_is_set_aside_and_built_again(setup: SqlSetup, damage: str) -> None:
    setup.write(memory("a"), work("w", summary="x"))
    setup.follower.catch_up()
    before = contents(setup.path)
    setup.close()
    DAMAGES[damage](setup.path)
    again = SqlSetup(setup.path.parent)
    again.write(memory("b"))
    with suppress(Damaged):  # A missing table is met by the first commit that needs it.
        again.follower.catch_up()
    assert again.ask("SELECT id FROM nodes ORDER BY id") == [("a",), ("b",), ("w",)]
    assert contents(setup.path)["work_nodes"] == before["work_nodes"]
    assert len(list(setup.path.parent.glob("graph.db.rejected-*[0-9]"))) == 1
    again.close()


def test_a_file_that_vanishes_or_is_replaced_under_a_running_process_is_built_again(setup: SqlSetup) -> None:
    setup.write(memory("a"))
    setup.follower.catch_up()
    for path in setup.path.parent.glob("graph.db*"):
        path.unlink()
    setup.write(memory("b"))
    assert setup.ask("SELECT id FROM nodes ORDER BY id") == [("a",), ("b",)]


def test_commits_are_never_applied_to_a_file_that_has_not_seen_those_before(setup: SqlSetup) -> None:
    setup.write(memory("a"), memory("b"))
    entries = list(setup.log.read(Head()))
    with pytest.raises(Damaged):
        setup.projection.apply(entries[1:], setup.log.head())


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("INSERT INTO migrations VALUES ('999_later.sql', '')", "newer version"),
        ("PRAGMA application_id = 1", "another program"),
    ],
)
def test_a_file_that_is_not_ours_to_replace_is_left_alone(setup: SqlSetup, statement: str, says: str) -> None:
    setup.write(memory("a"))
    setup.follower.catch_up()
    setup.close()
    _execute(setup.path, statement)
    data = setup.path.read_bytes()
    with pytest.raises(StorageRefused, match=says):
        SqlSetup(setup.path.parent).follower.catch_up()
    assert setup.path.read_bytes() == data


def test_a_file_that_is_no_database_is_left_alone_unless_it_is_called_as_ours(tmp_path: Path) -> None:
    """A clone may bring a graph.config.yaml whose db_path names what somebody holds dear."""
    setup = SqlSetup(tmp_path)
    setup.write(memory("a"))
    dear = tmp_path / "thesis.txt"
    dear.write_text("years of work")
    dear.chmod(0o644)
    reader = LogReader(lambda: FilesLog(setup.system))
    worker = ProjectionWorker(reader, SqlProjection(dear), lock=setup.system / "other.lock")
    with pytest.raises(StorageRefused, match="no database"):
        worker.catch_up()
    worker.close()
    with pytest.raises(StorageRefused, match="no database"):
        rebuild(tmp_path, lambda: FilesLog(setup.system), "sql", database=dear)
    assert (dear.read_text(), list(tmp_path.glob("thesis*"))) == ("years of work", [dear])
    assert dear.stat().st_mode & 0o777 == 0o644
    setup.path.write_text("damage")
    assert setup.ask("SELECT id FROM nodes") == [("a",)]
    setup.close()


def test_the_journal_of_another_program_is_left_to_it(tmp_path: Path) -> None:
    """Whoever opens and closes a database in the ordinary way takes in what lies beside it."""
    (tmp_path / "open").mkdir()
    theirs = tmp_path / "closed" / "theirs.db"
    with closing(sqlite3.connect(tmp_path / "open" / "theirs.db", isolation_level=None)) as db:
        db.execute("CREATE TABLE theirs (secret)")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("INSERT INTO theirs VALUES (1)")
        shutil.copytree(tmp_path / "open", theirs.parent)
    before = {each.name: each.read_bytes() for each in theirs.parent.iterdir()}
    assert before["theirs.db-wal"]
    with pytest.raises(StorageRefused, match="another program"):
        SqlProjection(theirs).position()
    assert {each.name: each.read_bytes() for each in theirs.parent.iterdir()} == before


@pytest.mark.parametrize("name", ["graph.db", "other.db"])
def test_a_database_of_another_program_is_not_changed_and_never_removed(tmp_path: Path, name: str) -> None:
    setup = SqlSetup(tmp_path)
    setup.write(memory("a"))
    theirs = tmp_path / "theirs" / name
    theirs.parent.mkdir()
    _execute(theirs, "CREATE TABLE theirs (secret)")
    theirs.chmod(0o644)
    data = theirs.read_bytes()
    with pytest.raises(StorageRefused, match="another program"):
        SqlProjection(theirs).position()
    with pytest.raises(StorageRefused, match="another program"):
        rebuild(tmp_path, lambda: FilesLog(setup.system), "sql", database=theirs)
    assert [(each.name, each.read_bytes()) for each in theirs.parent.iterdir()] == [(name, data)]
    assert theirs.stat().st_mode & 0o777 == 0o644
    setup.close()


def test_rows_without_a_position_are_not_taken_for_this_log(setup: SqlSetup) -> None:
    setup.write(memory("a"))
    setup.follower.catch_up()
    setup.close()
    _execute(setup.path, "UPDATE nodes SET id = 'planted'")
    _execute(setup.path, "DELETE FROM meta")
    again = SqlSetup(setup.path.parent)
    assert again.ask("SELECT id FROM nodes") == [("a",)]
    again.close()


# -- the guide


def test_every_query_of_the_guide_runs_and_finds_something(setup: SqlSetup) -> None:
    setup.write(
        memory("mem_1", "Project", text("# Kitchen"), status="active", budget=50_000),
        memory("mem_2", "Action", text("Call the plumber"), status="next"),
        connection("conn_1", "mem_1", "NextAction", "mem_2"),
        memory("p", "work/project", None, name="ship", root="r", summary="Ship it"),
        work("r", project="p", summary="Ship it"),
        work("t", project="p", parent="r", summary="Test", properties={"_claimed_by": "ann", "priority": 2}),
        work("u", project="p", parent="t", summary="Write", evidence=[{"type": "git", "ref": "abc", "agent": "ann"}]),
        connection(None, "t", "depends_on", "u"),
    )
    run = {"run_id": "run_42"}
    append(setup.log, Draft((memory("mem_3", "Note", None),), actor="ann", tool="memory.write", run_context=run))
    setup.write(Operation(Verb.REDACT_NODE, {"node_id": "mem_3", "reason": "asked"}))
    queries = re.findall(r"```sql\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    assert len(queries) >= 8
    assert [query for query in queries if not setup.ask(query)] == []


def test_the_guide_names_every_table_and_column(setup: SqlSetup) -> None:
    setup.follower.catch_up()
    page = GUIDE.read_text("utf-8")
    names = asked(setup.path, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name != 'migrations'")
    missing = [
        f"{table}.{column[1]}"
        for (table,) in names
        for column in asked(setup.path, f"PRAGMA table_xinfo({table})")
        if f"`{table}`" not in page or f"`{column[1]}`" not in page
    ]
    assert missing == []
