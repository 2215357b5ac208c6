"""The rows: what is wrong with a database is told from what stands in the way of looking."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tallystick.errors import StorageRefused, TallystickError
from tallystick.projections.database import Damaged
from tallystick.projections.row_diff import doubted, shown


def test_a_full_disk_is_no_damage() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("PRAGMA max_page_count = 2")
        db.execute("CREATE TABLE t (x)")
        with pytest.raises(StorageRefused, match="no room"), doubted():
            db.execute("INSERT INTO t VALUES (zeroblob(100000))")


def test_a_busy_database_is_no_damage(tmp_path: Path) -> None:
    with (
        closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as one,
        closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None, timeout=0)) as other,
    ):
        one.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TallystickError) as refused, doubted():
            other.execute("CREATE TABLE t (x)")
    assert refused.value.code == "PROJECTION_BUSY"


def test_what_is_no_database_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"Dear diary" * 500)
    with closing(sqlite3.connect(tmp_path / "a.db")) as db, pytest.raises(Damaged), doubted():
        db.execute("SELECT * FROM sqlite_master")


def test_a_long_key_is_cut_and_bytes_that_are_no_text_are_shown() -> None:
    assert shown(b"\xffab") == "\N{REPLACEMENT CHARACTER}ab"
    assert len(shown("x" * 1000)) == 101
