"""SQLite files of other programs: a private copy is opened, and the original is neither locked nor written.

The write-ahead log is copied too, so that what is not yet in the main file is read. A copy that was torn by a writer is
taken again.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tallystick.errors import InvalidArgument
from tallystick.extensions.importers import Unmapped
from tallystick.extensions.importers.files import first_bytes, open_regular, unreadable

MAGIC = b"SQLite format 3\0"
VALUE_BYTES_MAX = 16 << 20
_ATTEMPTS = 5
_SIDE = ("-wal", "-journal")


def is_sqlite(path: Path) -> bool:
    return first_bytes(path).startswith(MAGIC)


def tables_of(path: Path) -> set[str]:
    """To guess by: none where it cannot be read."""
    with suppress(InvalidArgument, sqlite3.Error), opened(path) as database:
        return database.tables()
    return set()


class Database:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def tables(self) -> set[str]:
        """Real ones: a view may hide any query."""
        asked = "select name from sqlite_master where type = 'table' and sql not like 'create virtual%'"
        return {name for (name,) in self._connection.execute(asked)}

    def rows(self, table: str, *, order: str = "rowid") -> Iterator[tuple[str, dict[str, Any]] | Unmapped]:
        """Each with where it stands. What is damaged is told, and ends the table."""
        count = 0
        try:
            found = self._connection.execute(f"select rowid, * from {_quoted(table)} order by {_quoted(order)}")
            names = [each[0] for each in found.description]
            for row in found:
                count += 1
                yield f"{table}:{row[0]}", dict(zip(names[1:], row[1:], strict=True))
        except sqlite3.Error as error:
            yield Unmapped(table, f"what follows row {count}", f"the database is damaged: {error}")

    def others(self, read: Collection[str]) -> Iterator[Unmapped]:
        """The tables that are not read, as far as there is anything in them."""
        for table in sorted(self.tables() - set(read)):
            try:
                (count,) = self._connection.execute(f"select count(*) from {_quoted(table)}").fetchone()
            except sqlite3.Error as error:
                yield Unmapped(table, table, f"the database is damaged: {error}")
                continue
            if count:
                yield Unmapped(table, f"{count:,} rows", "this table is not imported")


@contextmanager
def opened(path: Path) -> Iterator[Database]:
    """Raises InvalidArgument for what is no database, or one that is written all the time."""
    if not is_sqlite(path):
        raise unreadable(path, "not a SQLite database")
    with tempfile.TemporaryDirectory(prefix="tallystick-import-") as folder:
        copy = Path(folder) / "copy.db"
        _copy(path, copy)
        with closing(sqlite3.connect(copy)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            try:
                connection.execute("pragma trusted_schema = off")
                connection.execute("pragma query_only = on")
                connection.execute("select count(*) from sqlite_master").fetchone()
            except sqlite3.Error as error:
                raise unreadable(path, f"the database is damaged: {error}") from None
            yield Database(connection)


def _copy(path: Path, copy: Path) -> None:
    sides = [(path.with_name(path.name + side), copy.with_name(copy.name + side)) for side in _SIDE]
    for _ in range(_ATTEMPTS):
        before = _looks([path, *(each for each, _ in sides)])
        for source, target in [(path, copy), *sides]:
            target.unlink(missing_ok=True)
            if source.is_file() and not source.is_symlink():
                with open_regular(source) as data, target.open("wb") as file:
                    shutil.copyfileobj(data, file)
        if _looks([path, *(each for each, _ in sides)]) == before:
            return
    raise unreadable(path, "it is written all the time: end the program that does, or try again")


def _looks(paths: Sequence[Path]) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for path in paths:
        try:
            seen = os.stat(path)
            found.append((seen.st_size, seen.st_mtime_ns))
        except OSError:
            found.append(None)
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
