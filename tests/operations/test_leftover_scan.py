"""What is left of somebody is told from what only looks like it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tallystick import app
from tallystick.config import load
from tallystick.log.files import FilesLog
from tallystick.operations.catch_up import catch_up
from tallystick.operations.leftover_scan import holds
from tallystick.state.mentions import Subject
from tests.commits_by_hand import append, draft, node


@pytest.fixture
def databases(tmp_path: Path) -> list[Path]:
    log = FilesLog(tmp_path / "_system")
    append(log, draft(node("x", said="Grace was here")))
    log.close()
    catch_up(app.operation_context(load({"base": tmp_path}, environ={})))
    return [path for path in tmp_path.rglob("*.db*") if path.is_file()]


@pytest.mark.parametrize("whole_words", [False, True])
def test_what_tables_are_called_names_nobody(databases: list[Path], whole_words: bool) -> None:
    assert len(databases) >= 3
    for name in ("Ada", "Tom", "Key"):
        assert [path.name for path in databases if holds(path, Subject([name], whole_words=whole_words))] == []


@pytest.mark.parametrize("made", ["088fd290-f3a5-4a0b-aca2-3dbadacb91f7", "ada" + 61 * "0"])
def test_what_a_machine_made_up_names_nobody_unless_it_is_asked_for(tmp_path: Path, made: str) -> None:
    for name, text in (("place", f"since {made}, of user-{made}"), (f"user-{made}.md", "")):
        (tmp_path / name).write_text(text)
        assert not holds(tmp_path / name, Subject(["Ada"]))
        for asked in (made, made.upper(), f"user-{made}"):
            assert holds(tmp_path / name, Subject(["Ada", asked]))


def test_what_they_hold_does(databases: list[Path]) -> None:
    assert {"graph.db", "text.db"} <= {path.name for path in databases if holds(path, Subject(["Grace"]))}


def test_bytes_that_no_text_is_made_of_name_nobody(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "made.db")) as db:
        db.execute("CREATE TABLE nodes (id, commit_hash BLOB)")
        db.execute("INSERT INTO nodes VALUES ('x', ?)", (b"\x01\xffaDa\xfe" + bytes(26),))
        db.commit()
        assert not holds(tmp_path / "made.db", Subject(["Ada"]))
        db.execute("CREATE TABLE version (digest TEXT)")
        db.execute("INSERT INTO version VALUES ('no bytes')")
        db.execute("INSERT INTO nodes VALUES ('Ada', ?)", (b"\x01\xffaDa\xfe" + bytes(26),))
        db.commit()
        assert holds(tmp_path / "made.db", Subject(["Ada"]))
    (tmp_path / "split").write_bytes(b"\0A\xffd\xfea\0")
    assert not holds(tmp_path / "split", Subject(["Ada"]))


def test_nor_does_the_journal_of_a_database_name_anybody_by_its_tables(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "made.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE atom (name)")
        db.execute("CREATE INDEX head ON atom (name)")
        db.commit()
        journal = tmp_path / "made.db-wal"
        assert b"headatom" in journal.read_bytes()
        assert not holds(journal, Subject(["Ada"]))
