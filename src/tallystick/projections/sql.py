"""The SQL mirror: `graph.db`, the graph in tables for people's own queries.

Tools never read it and nothing is written through it. The tables are made by the numbered
files in `migrations/`; those of one vocabulary are filled by triggers on `nodes` and `edges`
in the same file, so a vocabulary gets its tables without a line of code here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from hashlib import sha256
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from tallystick.commits import Commit, Verb
from tallystick.commits.mask import redact
from tallystick.commits.payloads import EdgePayload, read_edge, read_extent, read_node, read_target
from tallystick.commits.reserved_attributes import SUPERSEDES
from tallystick.errors import StorageRefused, TallystickError
from tallystick.log import Entry, Head
from tallystick.projections.database import Connection, Damaged, Database, Reader, check_follows, newer_version

_SCRUB_AGAIN_SECONDS = 5.0
_CACHE_KILOBYTES = 8_000
_BUILDING_CACHE_KILOBYTES = 64_000
_CHECKPOINT_PAGES = 4_000
_APPLICATION_ID = int.from_bytes(b"TLYS")
"""In the file's header: it is ours, and may be thrown away."""
_NODE_VALUES = ", ".join("?" * 16)
_EDGE_VALUES = ", ".join("?" * 19)
_INDEXES = "005_indexes.sql"
"""The migration that comes last: the indexes that only queries need."""
_ROWS_AT_ONCE = 50
"""While SQLite is at a statement other threads run, so few large ones disturb callers less than many small ones."""

_REDACTED, _DELETED = "due", "deleted"
"""Why copies have to go: the first is waited for."""
_SCRUB = "INSERT INTO meta VALUES ('scrub', ?)"

_CONTENT = ("text", "format", "encoding", "blob", "bytes")
Content = tuple[str | None, str | None, str | None, str | None, int | None]
Born = tuple[str, str, int]
"""When, by whom and with which lamport."""


POSITION = "SELECT value FROM meta WHERE key = 'head'"
ERASING = "SELECT 1 FROM meta WHERE key = 'scrub'"
_OWNER = "SELECT value FROM meta WHERE key = 'owner'"


def database_path(home: Path) -> Path:
    return home / "graph.db"


def is_of_another(path: Path, home: Path) -> bool:
    """Whether it mirrors another memory, which is still there. At home it never does."""
    if path == database_path(home):
        return False
    try:
        with closing(Reader(path)) as reader, reader.snapshot() as db:
            return _is_of_another(db, path, home)
    except TallystickError:
        return False


class SqlProjection:
    name = "sql"

    def __init__(self, path: Path, *, home: Path | None = None) -> None:
        """`home`: whose memory it mirrors. A file elsewhere that mirrors another memory is refused."""
        self._database = Database(path, _prepare, require_ours=_require_ours)
        self._home = home

    def position(self) -> Head:
        return self._database.position(self._read_head)

    def _read_head(self, db: Connection) -> str:
        if self._home is not None and _is_of_another(db, self._database.path, self._home):
            raise StorageRefused(
                f"{self._database.path} mirrors the memory in {_owner(db)}",
                hint="each memory needs a graph.db of its own: let db_path name another file for one of them",
            )
        head = _read_head(db)
        # The position is compared with the log, and proves whose rows these are.
        if not head and db.execute("SELECT 1 FROM commits UNION ALL SELECT 1 FROM nodes LIMIT 1").fetchone():
            raise Damaged("it has rows and no position: they could be of any log")
        return head

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        with self._database.transaction() as db:
            check_follows(_read_head(db), entries, head)
            _apply(db, [entry.commit for entry in entries])
            _write_head(db, head)
            if self._home is not None:
                db.execute("INSERT OR REPLACE INTO meta VALUES ('owner', ?)", (str(self._home.absolute()),))

    def settle(self, *, final: bool = False) -> float | None:
        self._make_indexes()
        if self._due() == _DELETED and not final and (rest := self._database.rest_seconds):
            return rest
        return None if self.erase() else _SCRUB_AGAIN_SECONDS

    def _make_indexes(self) -> None:
        """At the head: a mirror that is made anew gets them now, in a few sorts."""
        with self._database.guarded() as db:
            if has_indexes(db):
                return
        with self._database.transaction() as db:
            _run(db, [each for each in _migrations() if each[0] == _INDEXES])
        with self._database.guarded() as db:
            db.execute(f"PRAGMA cache_size = -{_CACHE_KILOBYTES}")

    def erase(self) -> bool:
        if self._due() is None:
            return True
        with self._database.paced():
            if not self._database.scrub():
                return False
        with self._database.transaction() as db:
            db.execute("DELETE FROM meta WHERE key = 'scrub'")
        return True

    def _due(self) -> str | None:
        with self._database.guarded() as db:
            row = db.execute("SELECT value FROM meta WHERE key = 'scrub'").fetchone()
        return None if row is None else str(row[0])

    def require_replaceable(self) -> None:
        self._database.require_replaceable()

    def reset(self) -> None:
        with self._database.transaction() as db:
            for kind, name in db.execute(
                "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            ).fetchall():
                db.execute(f'DROP {kind} IF EXISTS "{name}"')
            _migrate(db)
            db.execute(_SCRUB, (_REDACTED,))

    def close(self) -> None:
        self._database.close()


# -- what commits make of the tables


def _apply(db: Connection, commits: Sequence[Commit]) -> None:
    noted: list[tuple[Any, ...]] = []
    nodes, edges = _PlainNodes(db), _UpsertedEdges(db)
    for commit in commits:
        entity = nodes.find(commit) or edges.find(commit)
        if entity is None:
            nodes.write()
            edges.write()
            entity = _APPLY[commit.operation](db, commit)
        noted.append(_noted(commit, entity))
    nodes.write()
    edges.write()
    _in_parts(db, "INSERT INTO commits VALUES {}", noted)


class _PlainNodes:
    """Upserts that come one after the other, of nodes that no trigger looks at: written together, newest versions only.

    The types of a vocabulary have a slash in their names, and triggers look at no other.
    """

    def __init__(self, db: Connection) -> None:
        self._db = db
        # By id: the row without the id, and without what is told of its birth.
        self._rows: dict[str, tuple[Any, ...]] = {}
        self._born: dict[str, Sequence[Any]] = {}

    def find(self, commit: Commit) -> str | None:
        """Its id, if it is one of them."""
        if commit.operation is not Verb.UPSERT_NODE:
            return None
        said = read_node(commit.payload)
        if "/" in said.type:
            return None
        self._born.setdefault(said.id, (commit.timestamp, commit.actor, commit.lamport))
        self._rows[said.id] = (said.type, _json(said.attrs), *_content(said.content), *_newest(commit), 0)
        return said.id

    def write(self) -> None:
        if not self._rows:
            return
        known = self._db.execute(
            "SELECT id, type, created_at, created_by, created_lamport FROM nodes"
            " WHERE id IN (SELECT value FROM json_each(?))",
            (_json(list(self._rows)),),
        ).fetchall()
        # In place, where the indexes by id, type and maker may stay as they are.
        same = [each for each, kind, *_ in known if kind == self._rows[each][0]]
        _in_parts(self._db, _REWRITE, [(each, *self._rows.pop(each)[1:]) for each in same])
        for each, _, *born in known:
            if each in self._rows:
                self._db.execute("DELETE FROM nodes WHERE id = ?", (each,))
                self._born[each] = born
        rows = [(each, *row[:7], *self._born[each], *row[7:]) for each, row in self._rows.items()]
        _in_parts(self._db, "INSERT INTO nodes VALUES {}", rows)
        self._rows.clear()
        self._born.clear()


class _UpsertedEdges:
    """Upserts of edges: no trigger looks at those, and none at whether their ends are written yet."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._rows: list[tuple[Any, ...]] = []

    def find(self, commit: Commit) -> str | None:
        if commit.operation is not Verb.UPSERT_EDGE:
            return None
        said = read_edge(commit.payload)
        key, ends, newest = _edge_key(said), (said.source, said.rel, said.target), _newest(commit)
        self._rows.append((*key, *ends, _json(said.attrs), *_content(said.content), *newest[:3], *newest, 0))
        return key[0]

    def write(self) -> None:
        _in_parts(self._db, _UPSERT_EDGES, self._rows)
        self._rows = []


_REWRITTEN = (
    "attrs", "content", "content_format", "content_encoding", "content_blob", "content_bytes",
    "updated_at", "updated_by", "lamport", "commit_hash", "redacted",
)  # fmt: skip
_REWRITE = (
    f"UPDATE nodes SET {', '.join(f'{name} = fresh.column{number}' for number, name in enumerate(_REWRITTEN, 2))}"
    " FROM (VALUES {}) AS fresh WHERE nodes.id = fresh.column1"
)
_UPSERT_EDGES = "INSERT INTO edges VALUES {} ON CONFLICT DO UPDATE SET " + ", ".join(
    f"{name} = excluded.{name}" for name in ("source", "rel", "target", *_REWRITTEN)
)
"""What there is keeps when, by whom and with which lamport it was made."""


def _upsert_node(db: Connection, commit: Commit) -> str:
    said = read_node(commit.payload)
    born = _take_out(db, "nodes", "id = ?", (said.id,)) or (commit.timestamp, commit.actor, commit.lamport)
    values = (said.id, said.type, _json(said.attrs), *_content(said.content), *born, *_newest(commit), 0)
    db.execute(f"INSERT INTO nodes VALUES ({_NODE_VALUES})", values)
    return said.id


def _delete_node(db: Connection, commit: Commit) -> str:
    node_id = read_target(commit.payload).node_id
    _take_away(db, "nodes", "id = ?", (node_id,))
    return node_id


def _redact_node(db: Connection, commit: Commit) -> str:
    target = read_target(commit.payload)
    left = _redact(db, commit, "nodes", "type", "id = ?", (target.node_id,))
    if left is not None:
        db.execute(f"INSERT INTO nodes VALUES ({_NODE_VALUES})", (target.node_id, *left))
    return target.node_id


def _delete_edge(db: Connection, commit: Commit) -> str:
    key = _edge_key(read_edge(commit.payload))
    _take_away(db, "edges", "id = ? AND own_id = ?", key)
    return key[0]


def _redact_edge(db: Connection, commit: Commit) -> str:
    key = _edge_key(read_edge(commit.payload))
    left = _redact(db, commit, "edges", "source, rel, target", "id = ? AND own_id = ?", key)
    if left is not None:
        db.execute(f"INSERT INTO edges VALUES ({_EDGE_VALUES})", (*key, *left))
    return key[0]


_APPLY: dict[Verb, Callable[[Connection, Commit], str]] = {
    Verb.UPSERT_NODE: _upsert_node,
    Verb.DELETE_NODE: _delete_node,
    Verb.REDACT_NODE: _redact_node,
    Verb.DELETE_EDGE: _delete_edge,
    Verb.REDACT_EDGE: _redact_edge,
}


def _noted(commit: Commit, entity: str) -> tuple[Any, ...]:
    run = commit.run_context or {}
    return (
        commit.lamport, bytes.fromhex(commit.commit_id), commit.timestamp, commit.actor, commit.operation.value,
        entity, commit.tool, commit.reason,
        run.get("run_id"), run.get("job_id"), run.get("dataset_id"), commit.policy_version,
    )  # fmt: skip


def _in_parts(db: Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        part = rows[start : start + _ROWS_AT_ONCE]
        row = f"({', '.join('?' * len(part[0]))})"
        db.execute(statement.format(", ".join([row] * len(part))), tuple(chain.from_iterable(part)))


def _read_head(db: Connection) -> str:
    row = db.execute(POSITION).fetchone()
    return str(row[0]) if row else ""


def _owner(db: Connection) -> str | None:
    row = db.execute(_OWNER).fetchone()
    return None if row is None else str(row[0])


def _is_of_another(db: Connection, path: Path, home: Path) -> bool:
    owner = _owner(db)
    if owner is None or Path(owner) == home.absolute() or path.absolute() == database_path(home.absolute()):
        return False
    return (Path(owner) / "_system" / "log").is_dir()


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


def _take_away(db: Connection, table: str, where: str, key: tuple[Any, ...]) -> None:
    if db.execute(f"DELETE FROM {table} WHERE {where}", key).rowcount:
        db.execute(f"{_SCRUB} ON CONFLICT DO NOTHING", (_DELETED,))


def _edge_key(said: EdgePayload) -> tuple[str, int]:
    return said.name, int(said.id is not None)


def _newest(commit: Commit) -> tuple[str, str, int, bytes]:
    return commit.timestamp, commit.actor, commit.lamport, bytes.fromhex(commit.commit_id)


def _content(content: dict[str, Any] | None) -> Content:
    if content is None:
        return None, None, None, None, None
    text = content.get("text")
    size = len(text.encode()) if isinstance(text, str) else content.get("bytes")
    return text, content.get("format"), content.get("encoding"), content.get("blob"), size


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# -- redaction


def _redact(
    db: Connection, commit: Commit, table: str, names: str, where: str, key: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    """Takes the row out and says what is left of it, behind the key. `names` are the columns before attrs.

    None, but to be scrubbed all the same, where nothing is there: older versions of it may lie in free pages.
    """
    db.execute(_SCRUB.replace("INSERT", "INSERT OR REPLACE"), (_REDACTED,))
    row = db.execute(
        f"SELECT {names}, attrs, content, content_format, content_encoding, content_blob, content_bytes FROM {table}"
        f" WHERE {where}",
        key,
    ).fetchone()
    if row is None:
        return None
    *named, attrs = row[:-5]
    content = {name: value for name, value in zip(_CONTENT, row[-5:], strict=True) if value is not None}
    document = {"attrs": msgspec.json.decode(attrs), "content": content or None}
    extent = read_extent(commit.payload)
    left = redact(document, extent.redacted_fields)
    # The ids of what it supersedes are not among what was redacted.
    attrs = left["attrs"] if extent.supersedes is None else {**left["attrs"], SUPERSEDES: extent.supersedes}
    born = _take_out(db, table, where, key)
    assert born is not None
    return (*named, _json(attrs), *_content(left["content"]), *born, *_newest(commit), 1)


# -- the tables


def _require_ours(db: Connection) -> None:
    if _is_empty(db) or db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID:
        return
    raise StorageRefused(
        "the file for the SQL mirror is a database of another program", hint="let db_path name another file"
    )


def _is_empty(db: Connection) -> bool:
    return bool(db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0)


def _prepare(db: Connection) -> None:
    # Commits are all over the indexes: a page that is met again soon should neither be read nor written again for it.
    db.execute(f"PRAGMA cache_size = -{_BUILDING_CACHE_KILOBYTES}")
    db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    if _is_empty(db):
        db.execute("BEGIN IMMEDIATE")
        _migrate(db)
        db.execute("COMMIT")
        return
    made = _made(db)
    wanted = {name: digest for name, _, digest in _migrations()}
    if made.keys() - wanted.keys():
        raise newer_version("graph.db")
    if {_INDEXES: wanted[_INDEXES], **made} != wanted:
        raise Damaged("it was made by an older version")
    if has_indexes(db):
        db.execute(f"PRAGMA cache_size = -{_CACHE_KILOBYTES}")


def _migrate(db: Connection) -> None:
    """Inside the caller's transaction. All but the indexes."""
    db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    _run(db, [each for each in _migrations() if each[0] != _INDEXES])


def _run(db: Connection, migrations: Sequence[tuple[str, str, str]]) -> None:
    for name, script, digest in migrations:
        for statement in _statements(script):
            db.execute(statement)
        db.execute("INSERT INTO migrations VALUES (?, ?)", (name, digest))


def has_indexes(db: Connection) -> bool:
    return db.execute("SELECT 1 FROM migrations WHERE name = ?", (_INDEXES,)).fetchone() is not None


def _made(db: Connection) -> dict[str, str]:
    return dict(db.execute("SELECT name, sha256 FROM migrations"))


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
