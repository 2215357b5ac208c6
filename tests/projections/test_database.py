"""What a database says of itself when its bytes were changed."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tallystick.errors import StorageRefused
from tallystick.projections.database import Connection, Damaged, Database, check_version, translated

CHANGED = (
    sqlite3.OperationalError("Could not decode to UTF-8 column 'text' with text '\ufffd'"),
    sqlite3.OperationalError("no such table: texts"),
    UnicodeDecodeError("utf-8", b"malformed database schema \x86", 26, 27, "invalid start byte"),
)


@pytest.mark.parametrize("error", CHANGED, ids=lambda error: type(error).__name__)
def test_bytes_that_are_no_text_are_damage(error: Exception) -> None:
    with pytest.raises(Damaged), translated():
        raise error


def test_a_file_of_a_newer_version_is_left_alone_even_by_one_who_distrusts_it(tmp_path: Path) -> None:
    def prepare(db: Connection, ours: int) -> None:
        (found,) = db.execute("PRAGMA user_version").fetchone()
        if found:
            check_version(found, ours, "a.db")
        else:
            db.execute(f"PRAGMA user_version = {ours}")

    def opened(ours: int) -> Database:
        return Database(tmp_path / "a.db", lambda db: prepare(db, ours))

    newer, older = opened(2), opened(1)
    newer.position(lambda db: "")
    inode = (tmp_path / "a.db").stat().st_ino
    older.distrust("it looks strange")
    for _ in range(2):
        with pytest.raises(StorageRefused, match="newer version"):
            older.position(lambda db: "")
    assert (tmp_path / "a.db").stat().st_ino == inode
    newer.close()


def test_a_file_of_an_older_version_makes_room(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="older version"):
        check_version(1, 2, "a.db")
