"""The rows: two databases side by side, one that is looked at and, attached as `expected`, one that is right."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tallystick.errors import StorageRefused, TallystickError
from tallystick.projections.database import Connection, Damaged

_SHOWN_CHARACTERS_MAX = 100
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_NO_INDEX = {sqlite3.SQLITE_IOERR_SHMOPEN, sqlite3.SQLITE_IOERR_SHMSIZE}
"""Of the write-ahead log, which a reader makes beside the database when he is the first."""


def differing_rows(db: Connection, select: Callable[[str], str], key: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """The key of each row that differs, and how. Text comes as bytes, as it may be none any more.

    `select` gives the rows of a schema; the columns of `key` name one, all of them if there is none.
    """
    here, there = f"({select('main')})", f"({select('expected')})"
    columns = [each[0] for each in db.execute(f"SELECT * FROM {there} LIMIT 0").description]
    at = [columns.index(column) for column in key or columns]

    def find(rows: str, row: Sequence[Any]) -> Sequence[Any] | None:
        values = [row[index] for index in at]
        # What comes as bytes is text: no key of ours is a blob.
        marks = ("CAST(? AS TEXT)" if isinstance(value, bytes) else "?" for value in values)
        by_key = " AND ".join(f'"{columns[index]}" IS {mark}' for index, mark in zip(at, marks, strict=True))
        found: Sequence[Any] | None = db.execute(f"SELECT * FROM {rows} WHERE {by_key}", values).fetchone()
        return found

    for row in db.execute(f"SELECT * FROM {there} EXCEPT SELECT * FROM {here}"):
        yield " ".join(shown(row[index]) for index in at), _difference(columns, row, find(here, row))
    for row in db.execute(f"SELECT * FROM {here} EXCEPT SELECT * FROM {there}"):
        if find(there, row) is None:
            yield " ".join(shown(row[index]) for index in at), "does not follow from the log"


def shown(value: Any) -> str:
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}…"


@contextmanager
def doubted() -> Iterator[None]:
    """Raises Damaged for whatever is wrong with what is read. A full disk and a busy file say nothing about it."""
    try:
        yield
    except UnicodeDecodeError as error:
        # SQLite quotes in its messages what it found.
        raise Damaged("what SQLite says of it is no text") from error
    except sqlite3.DatabaseError as error:
        extended = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        code = extended & 0xFF
        if code == sqlite3.SQLITE_FULL or extended in _NO_INDEX:
            raise StorageRefused(
                f"there is no room to compare: {error}", hint="free some space, or name another directory in TMPDIR"
            ) from error
        if code in _BUSY:
            raise TallystickError(f"the database is busy: {error}", code="PROJECTION_BUSY", hint="try again") from error
        raise Damaged(str(error)) from error


def _difference(columns: Sequence[str], row: Sequence[Any], other: Sequence[Any] | None) -> str:
    if other is None:
        return "is missing"
    differing = [column for column, one, two in zip(columns, row, other, strict=True) if one != two]
    return f"differs in {', '.join(differing) or 'the kind of a value'}"
