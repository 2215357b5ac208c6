"""The kept table: what the views show and what their files were when we left them.

`_system/views.db`. It is changed and its position moved in one transaction, so several
processes can take turns with it. Files are not part of that transaction: a row of `file`
says what is due, and stays so until it is done, whoever gets to it.
It may be deleted; replaying the log brings it back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from tallystick.log import Head
from tallystick.projections.database import Connection, Damaged, Database, check_version, translated

VERSION = 2
_SCHEMA = """
CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS definition (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, attrs TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS node (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created TEXT NOT NULL,
  lamport INTEGER NOT NULL, offset INTEGER NOT NULL, fragment TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS connection (
  seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, created TEXT NOT NULL, modified TEXT NOT NULL,
  source TEXT NOT NULL, target TEXT NOT NULL, offset INTEGER NOT NULL, fragment TEXT);
CREATE INDEX IF NOT EXISTS connection_source ON connection (source);
CREATE INDEX IF NOT EXISTS connection_target ON connection (target);
CREATE TABLE IF NOT EXISTS file (
  path TEXT PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, offset INTEGER NOT NULL, digest TEXT NOT NULL,
  encoding TEXT NOT NULL, origin TEXT NOT NULL, due TEXT NOT NULL,
  size INTEGER, mtime_ns INTEGER, problem TEXT) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS file_entity ON file (kind, id);
CREATE INDEX IF NOT EXISTS file_in_any_case ON file (path COLLATE NOCASE);
CREATE INDEX IF NOT EXISTS file_due ON file (due) WHERE due != '';
CREATE INDEX IF NOT EXISTS file_problem ON file (problem) WHERE problem IS NOT NULL;
CREATE TABLE IF NOT EXISTS version (
  kind TEXT NOT NULL, id TEXT NOT NULL, digest TEXT NOT NULL, blob INTEGER NOT NULL,
  PRIMARY KEY (kind, id, digest)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS version_blob ON version (digest) WHERE blob;
CREATE TABLE IF NOT EXISTS doomed (blob TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS stranger (name TEXT PRIMARY KEY) WITHOUT ROWID;
"""


class FileRow(msgspec.Struct, frozen=True):
    """A content file: what it should hold, and its size and time when we last left it (None: unknown)."""

    path: str
    kind: str
    id: str
    offset: int
    """Of the line in the log that has its content."""
    digest: str
    encoding: str
    origin: str
    """"edit" when the newest content came from this very file, "erased" when the old one must not be kept."""
    due: str
    """"write", "remove", or "" when there is nothing to do."""
    size: int | None
    mtime_ns: int | None
    problem: str | None

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.path.split("/"))


class ConnectionRow(msgspec.Struct, frozen=True):
    id: str
    created: str
    modified: str
    source: str
    target: str
    offset: int
    """Of its newest line in the log."""
    fragment: str | None
    """None while one of its ends is not shown."""


class ViewsDb:
    """Over a database that this process writes, or over a connection that somebody only looks through."""

    def __init__(self, over: Database | Connection) -> None:
        self._database = over if isinstance(over, Database) else None
        # The connection in use: for as long as a transaction lasts, even if the file is replaced meanwhile.
        self._pinned = None if isinstance(over, Database) else over
        self._last: Connection | None = None

    # -- the database

    def ready(self) -> bool:
        """True when it was opened anew, so that nothing remembered of it holds."""
        if self._database is None or self._database.connection() is self._last:
            return False
        self._last = self._database.connection()
        return True

    @contextmanager
    def changed(self) -> Iterator[None]:
        """All or nothing. A damaged database is given up, and the next look finds an empty one."""
        if self._database is None:
            raise ValueError("this table is only for looking")
        try:
            with self._database.transaction() as self._pinned:
                yield
        except Damaged as error:
            self._database.give_up(error.message)
            raise
        finally:
            self._pinned = None

    def _run(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        if self._pinned is not None:
            return self._pinned.execute(sql, values)
        if self._database is None:
            raise ValueError("this table has no connection")
        with translated():
            return self._database.connection().execute(sql, values)

    def _one(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self._run(sql, values).fetchone()

    # -- notes

    def note(self, key: str) -> str | None:
        found = self._one("SELECT value FROM note WHERE key = ?", (key,))
        return found[0] if found else None

    def set_note(self, key: str, value: str) -> None:
        self._run("INSERT OR REPLACE INTO note VALUES (?, ?)", (key, value))

    def drop_note(self, key: str) -> None:
        self._run("DELETE FROM note WHERE key = ?", (key,))

    def position(self) -> Head:
        kept = self.note("position")
        return Head() if kept is None else msgspec.json.decode(kept, type=Head)

    def move(self, head: Head) -> None:
        self.set_note("position", msgspec.json.encode(head).decode())

    @property
    def generation(self) -> int:
        """Counts the changes that readers can see."""
        return int(self.note("generation") or 0)

    def touch(self) -> None:
        self.set_note("generation", str(self.generation + 1))

    def clear(self, *, keep_definitions: bool) -> None:
        """Begin again. Files wait for what the replay says of them."""
        for name in ("node", "connection", "stranger", *(() if keep_definitions else ("definition",))):
            self._run(f"DELETE FROM {name}")
        self._run("UPDATE file SET due = 'remove'")
        self.move(Head())
        self.touch()

    # -- what is shown

    def definitions(self) -> list[tuple[str, dict[str, Any]]]:
        rows = self._run("SELECT kind, attrs FROM definition ORDER BY seq").fetchall()
        return [(kind, msgspec.json.decode(attrs)) for kind, attrs in rows]

    def define(self, node_id: str, kind: str, attrs: dict[str, Any]) -> None:
        encoded = msgspec.json.encode(attrs).decode()
        self._run("INSERT OR IGNORE INTO definition (id, kind, attrs) VALUES (?, ?, ?)", (node_id, kind, encoded))

    def node(self, node_id: str) -> tuple[str, int, int] | None:
        """Created, lamport and offset."""
        found: tuple[str, int, int] | None = self._one(
            "SELECT created, lamport, offset FROM node WHERE id = ?", (node_id,)
        )
        return found

    def put_node(self, node_id: str, created: str, lamport: int, offset: int, fragment: str) -> None:
        self._run(
            "INSERT INTO node (id, created, lamport, offset, fragment) VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO"
            " UPDATE SET lamport = excluded.lamport, offset = excluded.offset, fragment = excluded.fragment",
            (node_id, created, lamport, offset, fragment),
        )

    def drop_node(self, node_id: str) -> None:
        self._run("DELETE FROM node WHERE id = ?", (node_id,))

    def connection(self, connection_id: str) -> ConnectionRow | None:
        found = self._one(f"SELECT {_CONNECTION} FROM connection WHERE id = ?", (connection_id,))
        return ConnectionRow(*found) if found else None

    def connections_of(self, node_id: str) -> list[ConnectionRow]:
        sql = f"SELECT {_CONNECTION} FROM connection WHERE source = ? OR target = ? ORDER BY seq"
        return [ConnectionRow(*row) for row in self._run(sql, (node_id, node_id)).fetchall()]

    def put_connection(self, row: ConnectionRow) -> None:
        marks = ", ".join("?" * len(ConnectionRow.__struct_fields__))
        self._run(
            f"INSERT INTO connection ({_CONNECTION}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET"
            " modified = excluded.modified, source = excluded.source, target = excluded.target,"
            " offset = excluded.offset, fragment = excluded.fragment",
            msgspec.structs.astuple(row),
        )

    def drop_connection(self, connection_id: str) -> None:
        self._run("DELETE FROM connection WHERE id = ?", (connection_id,))

    def registry(self) -> bytes:
        """One entity a line. Joined by the database, so that other threads run meanwhile."""
        pieces = []
        for name in ("node", "connection"):
            sql = f"SELECT CAST(group_concat(fragment, ?) AS BLOB) FROM (SELECT fragment FROM {name} ORDER BY seq)"
            lines = self._one(sql, (",\n",))[0]
            pieces.append(b"{\n" + lines + b"\n  }" if lines else b"{}")
        return b'{\n  "nodes": %b,\n  "connections": %b\n}\n' % tuple(pieces)

    # -- what was passed over, and would have to be replayed if it came to count

    def strangers(self) -> set[str]:
        return {row[0] for row in self._run("SELECT name FROM stranger")}

    def add_stranger(self, name: str) -> None:
        self._run("INSERT OR IGNORE INTO stranger VALUES (?)", (name,))

    # -- files

    def file_of(self, kind: str, entity_id: str) -> FileRow | None:
        """The one that holds its content now, not one that waits for its removal."""
        return self._file("kind = ? AND id = ? AND due != 'remove'", (kind, entity_id))

    def file_at(self, path: str) -> FileRow | None:
        return self._file("path = ?", (path,))

    def is_taken(self, path: str, kind: str, entity_id: str) -> bool:
        """Whether another's content lies there, or where a file system may take it for the same."""
        where = "path = ? COLLATE NOCASE AND due != 'remove' AND NOT (kind = ? AND id = ?)"
        return self._file(where, (path, kind, entity_id)) is not None

    def files_due(self) -> list[FileRow]:
        """What is to go comes first: another file may be about to take its name, in other letters."""
        return self._files("due != '' ORDER BY due")

    def files_left(self, kind: str) -> list[tuple[str, int | None, int | None]]:
        """Path, size and time of all that are as they should be, or were when we left them."""
        sql = "SELECT path, size, mtime_ns FROM file WHERE due = '' AND kind = ?"
        return self._run(sql, (kind,)).fetchall()

    def has_due(self) -> bool:
        return bool(self._one("SELECT EXISTS (SELECT 1 FROM file WHERE due != '') OR EXISTS (SELECT 1 FROM doomed)")[0])

    def put_file(self, row: FileRow) -> None:
        marks = ", ".join("?" * len(FileRow.__struct_fields__))
        self._run(f"INSERT OR REPLACE INTO file ({_FILE}) VALUES ({marks})", msgspec.structs.astuple(row))

    def drop_file(self, path: str) -> None:
        self._run("DELETE FROM file WHERE path = ?", (path,))

    def set_due(self, path: str, due: str) -> None:
        self._run("UPDATE file SET due = ? WHERE path = ?", (due, path))

    def set_left(self, path: str, size: int | None, mtime_ns: int | None) -> None:
        """It is as it should be, and this is how we left it."""
        self._run(
            "UPDATE file SET due = '', problem = NULL, size = ?, mtime_ns = ? WHERE path = ?", (size, mtime_ns, path)
        )

    def set_erased(self, path: str) -> None:
        """Nothing is left in it of what was redacted."""
        self._run("UPDATE file SET origin = '' WHERE path = ?", (path,))

    def set_problem(self, path: str, problem: str | None) -> None:
        self._run("UPDATE file SET problem = ? WHERE path = ?", (problem, path))

    def problems(self) -> list[tuple[str, str]]:
        sql = (
            "SELECT path, problem FROM file WHERE problem IS NOT NULL"
            " UNION ALL SELECT substr(key, 9), value FROM note WHERE key LIKE 'problem %' ORDER BY 1"
        )
        return self._run(sql).fetchall()

    # -- contents there have been

    def add_version(self, kind: str, entity_id: str, digest: str, *, blob: bool) -> None:
        self._run("INSERT OR REPLACE INTO version VALUES (?, ?, ?, ?)", (kind, entity_id, digest, blob))

    def had_version(self, kind: str, entity_id: str, digest: str) -> bool:
        sql = "SELECT 1 FROM version WHERE kind = ? AND id = ? AND digest = ?"
        return self._one(sql, (kind, entity_id, digest)) is not None

    def forget_versions(self, kind: str, entity_id: str) -> None:
        """Blobs that only this entity ever named are doomed."""
        own = (kind, entity_id)
        self._run(
            "INSERT OR IGNORE INTO doomed SELECT digest FROM version AS own WHERE kind = ? AND id = ? AND blob AND NOT"
            " EXISTS (SELECT 1 FROM version AS other WHERE other.digest = own.digest AND other.blob"
            " AND (other.kind != own.kind OR other.id != own.id))",
            own,
        )
        self._run("DELETE FROM version WHERE kind = ? AND id = ?", own)

    def to_remove(self) -> list[str]:
        return [row[0] for row in self._run("SELECT blob FROM doomed")]

    def drop_doomed(self, blob: str) -> None:
        self._run("DELETE FROM doomed WHERE blob = ?", (blob,))

    def _file(self, where: str, values: Sequence[Any]) -> FileRow | None:
        found = self._one(f"SELECT {_FILE} FROM file WHERE {where}", values)
        return FileRow(*found) if found else None

    def _files(self, where: str) -> list[FileRow]:
        return [FileRow(*row) for row in self._run(f"SELECT {_FILE} FROM file WHERE {where}").fetchall()]


_FILE = ", ".join(FileRow.__struct_fields__)
_CONNECTION = ", ".join(ConnectionRow.__struct_fields__)


def prepare(connection: Connection) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version:
        check_version(version, VERSION, "views.db")
        with suppress(sqlite3.OperationalError):  # of a disk that may only be read
            connection.executescript(_SCHEMA)
    else:
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
