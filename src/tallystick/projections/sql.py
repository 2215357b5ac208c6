"""The SQL mirror: `graph.db`, the graph in tables for people's own queries.

Tools never read it and nothing is written through it. The tables are made by the numbered
files in `migrations/`; those of one vocabulary are filled by triggers on `nodes` and `edges`
in the same file, so a vocabulary gets its tables without a line of code here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from tallystick.commits import Commit, Verb
from tallystick.errors import StorageRefused
from tallystick.log import Entry, Head
from tallystick.projections.database import Connection, Damaged, Database, check_follows
from tallystick.projections.views.documents import EdgePayload, read_edge, read_node, read_target

_SCRUB_AGAIN_SECONDS = 5.0
_APPLICATION_ID = int.from_bytes(b"TLYS")
"""In the file's header: it is ours, and may be thrown away."""
_NODE_VALUES = ", ".join("?" * 16)
_EDGE_VALUES = ", ".join("?" * 18)
_COMMIT_VALUES = ", ".join("?" * 13)

Content = tuple[str | None, str | None, str | None, str | None, int | None]
Born = tuple[str, str, int]
"""When, by whom and with which lamport."""


class SqlProjection:
    name = "sql"

    def __init__(self, path: Path) -> None:
        self._database = Database(path, _prepare, keeps_rejected=True)

    def position(self) -> Head:
        return self._database.position(_read_head)

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        with self._database.transaction() as db:
            check_follows(_read_head(db), entries, head)
            for entry in entries:
                entity = _APPLY[entry.commit.operation](db, entry.commit)
                _note_commit(db, entry.commit, entity)
            _write_head(db, head)

    def settle(self, *, final: bool = False) -> float | None:
        with self._database.guarded() as db:
            if db.execute("SELECT 1 FROM meta WHERE key = 'scrub'").fetchone() is None:
                return None
        if not self._database.scrub():
            return _SCRUB_AGAIN_SECONDS
        with self._database.transaction() as db:
            db.execute("DELETE FROM meta WHERE key = 'scrub'")
        return None

    def reset(self) -> None:
        with self._database.transaction() as db:
            for kind, name in db.execute(
                "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            ).fetchall():
                db.execute(f'DROP {kind} IF EXISTS "{name}"')
            _migrate(db)
            db.execute("INSERT INTO meta VALUES ('scrub', 'due')")

    def close(self) -> None:
        self._database.close()


# -- what commits make of the tables


def _upsert_node(db: Connection, commit: Commit) -> str:
    said = read_node(commit.payload)
    born = _take_out(db, "nodes", "id = ?", (said.id,)) or (commit.timestamp, commit.actor, commit.lamport)
    values = (said.id, said.type, _json(said.attrs), *_content(said.content), *born, *_newest(commit), 0)
    db.execute(f"INSERT INTO nodes VALUES ({_NODE_VALUES})", values)
    return said.id


def _delete_node(db: Connection, commit: Commit) -> str:
    node_id = read_target(commit.payload).node_id
    db.execute("DELETE FROM nodes WHERE id = ?", (node_id,))
    return node_id


def _redact_node(db: Connection, commit: Commit) -> str:
    """Also where nothing is left of the node: older versions of it may lie in free pages."""
    target = read_target(commit.payload)
    db.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', 'due')")
    row = db.execute("SELECT type, attrs FROM nodes WHERE id = ?", (target.node_id,)).fetchone()
    if row is None:
        return target.node_id
    content: Sequence[Any] = db.execute(
        "SELECT content, content_format, content_encoding, content_blob, content_bytes FROM nodes WHERE id = ?",
        (target.node_id,),
    ).fetchone()
    fields = target.redacted_fields
    if fields is None or "attrs" in fields:
        attrs, content = {}, (None,) * 5
    else:
        attrs = _without_all(msgspec.json.decode(row[1]), [field.removeprefix("attrs.") for field in fields])
    born = _take_out(db, "nodes", "id = ?", (target.node_id,))
    assert born is not None
    values = (target.node_id, row[0], _json(attrs), *content, *born, *_newest(commit), 1)
    db.execute(f"INSERT INTO nodes VALUES ({_NODE_VALUES})", values)
    return target.node_id


def _upsert_edge(db: Connection, commit: Commit) -> str:
    said = read_edge(commit.payload)
    key = _edge_key(said)
    born = _take_out(db, "edges", "id = ? AND own_id = ?", key) or (commit.timestamp, commit.actor, commit.lamport)
    ends = (said.source, said.rel, said.target)
    values = (*key, *ends, _json(said.attrs), *_content(said.content), *born, *_newest(commit))
    db.execute(f"INSERT INTO edges VALUES ({_EDGE_VALUES})", values)
    return key[0]


def _delete_edge(db: Connection, commit: Commit) -> str:
    key = _edge_key(read_edge(commit.payload))
    db.execute("DELETE FROM edges WHERE id = ? AND own_id = ?", key)
    return key[0]


_APPLY: dict[Verb, Callable[[Connection, Commit], str]] = {
    Verb.UPSERT_NODE: _upsert_node,
    Verb.DELETE_NODE: _delete_node,
    Verb.REDACT_NODE: _redact_node,
    Verb.UPSERT_EDGE: _upsert_edge,
    Verb.DELETE_EDGE: _delete_edge,
}


def _note_commit(db: Connection, commit: Commit, entity: str) -> None:
    run = commit.run_context or {}
    values = (
        commit.lamport, commit.commit_id, commit.timestamp, commit.actor, commit.operation.value,
        commit.operation.value[-4:].lower(), entity, commit.tool, commit.reason,
        run.get("run_id"), run.get("job_id"), run.get("dataset_id"), commit.policy_version,
    )  # fmt: skip
    db.execute(f"INSERT INTO commits VALUES ({_COMMIT_VALUES})", values)


def _read_head(db: Connection) -> str:
    row = db.execute("SELECT value FROM meta WHERE key = 'head'").fetchone()
    return str(row[0]) if row else ""


def _write_head(db: Connection, head: Head) -> None:
    for key, value in (
        ("head", _json(head)),
        ("position", str(head.lamport)),
        ("timestamp", head.timestamp),
    ):
        db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))


def _take_out(db: Connection, table: str, where: str, key: tuple[Any, ...]) -> Born | None:
    """When and by whom it was made. It is then inserted anew, so that triggers see two kinds of change only."""
    born: Born | None = db.execute(
        f"SELECT created_at, created_by, created_lamport FROM {table} WHERE {where}", key
    ).fetchone()
    if born is not None:
        db.execute(f"DELETE FROM {table} WHERE {where}", key)
    return born


def _edge_key(said: EdgePayload) -> tuple[str, int]:
    return said.name, int(said.id is not None)


def _newest(commit: Commit) -> tuple[str, str, int, str]:
    return commit.timestamp, commit.actor, commit.lamport, commit.commit_id


def _content(content: dict[str, Any] | None) -> Content:
    if content is None:
        return None, None, None, None, None
    text = content.get("text")
    size = len(text.encode()) if isinstance(text, str) else content.get("bytes")
    return text, content.get("format"), content.get("encoding"), content.get("blob"), size


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# -- redaction


def _without_all(attrs: dict[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """Removed rather than masked: in the log some are gone altogether, and a replay must end up here too."""
    for path in paths:
        attrs = _without(attrs, path)
    return attrs


def _without(members: dict[str, Any], path: str) -> dict[str, Any]:
    """Every reading of the path is followed: names may have dots in them, and lists may hold objects."""
    return {
        name: _without_below(value, path[len(name) + 1 :]) if path.startswith(name + ".") else value
        for name, value in members.items()
        if name != path
    }


def _without_below(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        return _without(value, path)
    if isinstance(value, list):
        return [_without_below(each, path) for each in value]
    return value


# -- the tables


def _prepare(db: Connection) -> None:
    if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        db.execute("BEGIN IMMEDIATE")
        _migrate(db)
        db.execute("COMMIT")
        return
    if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
        raise StorageRefused(
            "the file for the SQL mirror is a database of another program", hint="let db_path name another file"
        )
    made = dict(db.execute("SELECT name, sha256 FROM migrations"))
    wanted = {name: digest for name, _, digest in _migrations()}
    if made.keys() - wanted.keys():
        raise StorageRefused(
            "graph.db was made by a newer version of Tallystick", hint="use that version, or move graph.db away"
        )
    if made != wanted:
        raise Damaged("it was made by an older version")


def _migrate(db: Connection) -> None:
    """Inside the caller's transaction."""
    db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    for _, script, _ in _migrations():
        for statement in _statements(script):
            db.execute(statement)
    db.executemany("INSERT INTO migrations VALUES (?, ?)", [(name, digest) for name, _, digest in _migrations()])


@cache
def _migrations() -> list[tuple[str, str, str]]:
    """Name, script and SHA-256 of each, in order."""
    folder = resources.files("tallystick.projections").joinpath("migrations")
    scripts = sorted((file.name, file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".sql"))
    return [(name, script, sha256(script.encode()).hexdigest()) for name, script in scripts]


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
