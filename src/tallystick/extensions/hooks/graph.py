"""The graph as hooks ask for it: the SQL mirror, with what the end of the log says besides.

Read only. Where the mirror is behind, what it lacks is put into tables of the same form in memory, by the same
triggers, and laid over it: a hook that runs a moment after a write, or where no server runs at all, sees the write.
What was redacted is left out, also where the mirror has not seen the redaction yet.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from tallystick.extensions.hooks.log_tail import Away, Line, Place, read_tail

_BUSY_SECONDS = 0.3
_MIGRATIONS = Path(__file__).parents[2] / "projections" / "migrations"
_HEAD = "SELECT value FROM mirror.meta WHERE key = 'head'"
_LAID_OVER = {
    "nodes": "id", "work_projects": "id", "work_nodes": "id", "atom_paths": "atom", "cited_files": "node",
    "successors": "by", "recalled": "page",
}  # fmt: skip
"""Each table, and the column that names the node whose newest version made the row."""
_CANDIDATES_MAX = 2_000
"""Of the unresolved work of a project so many are ranked."""
_PATTERNS_MAX = 1_000
_CHANGES_MAX = 500
_CLAIMS_MAX = 20
_DEPTH_MAX = 64
_REDACTED = "[REDACTED]"
_AFTER_ALL = "\U0010ffff"
"""Behind every character that may follow."""


class Note(msgspec.Struct, frozen=True):
    """A node as it is now."""

    id: str
    type: str
    attrs: dict[str, Any]
    text: str
    """Its content, if it is a text."""
    author: str
    at: str
    position: int
    """Of the commit that wrote it last."""


class WorkItem(msgspec.Struct, frozen=True):
    id: str
    summary: str
    project: str | None
    claimed_by: str | None
    claimed_at: str | None
    session: str | None
    """The MCP session that claimed it."""
    links: tuple[str, ...] = ()


class Project(msgspec.Struct, frozen=True):
    id: str
    name: str
    goal: str


class Successor(msgspec.Struct, frozen=True):
    id: str
    redacted: bool


class Change(msgspec.Struct, frozen=True):
    entity: str
    actor: str
    lamport: int


Allows = Callable[[str], bool]
"""Whether an entity may be told of."""


@contextmanager
def opened(home: Path, database: Path, allows: Allows | None = None) -> Iterator[Graph]:
    """Raises Away, or sqlite3.Error for what is damaged where it is read."""
    db, has_mirror = _connected(database)
    try:
        yield Graph(db, _brought_up(db, home / "_system", has_mirror), allows)
    finally:
        db.close()


def _connected(database: Path) -> tuple[sqlite3.Connection, bool]:
    """Whether there is a mirror to ask. One that is being made, or locked, or an older version's, is as good as none:
    then the log is read from its beginning, if it is short."""
    if database.is_file():
        db = _empty()
        try:
            db.execute("ATTACH ? AS mirror", (f"{database.absolute().as_uri()}?mode=ro",))
            if db.execute("SELECT 1 FROM mirror.migrations WHERE name = '005_indexes.sql'").fetchone() and _has_seen(
                db
            ):
                return db, True
        except sqlite3.Error:
            pass
        db.close()
    return _empty(), False


def _has_seen(db: sqlite3.Connection) -> bool:
    """Whether the mirror is at a commit. That commit's id is compared with the log's, which proves that the rows are of
    this log; rows without one could be of any."""
    row = db.execute("SELECT json_extract(value, '$.commit_id') FROM mirror.meta WHERE key = 'head'").fetchone()
    return row is not None and isinstance(row[0], str)


def _empty() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None, timeout=_BUSY_SECONDS, uri=True, cached_statements=64)


def _brought_up(db: sqlite3.Connection, system: Path, has_mirror: bool) -> int:
    """The position that everything asked of the connection is at."""
    if not has_mirror:
        lines, head = read_tail(system, Place())
        _make_tables(db)
        _put(db, lines, has_mirror=False)
        return head.lamport
    # From here on the mirror stays as it is for us.
    db.execute("BEGIN")
    lines, head = read_tail(system, _seen(db))
    if lines:
        _make_tables(db)
        _lay_over(db, lines)
    return head.lamport


def _make_tables(db: sqlite3.Connection) -> None:
    """In memory. One by one, since a script would end the transaction."""
    statement = ""
    for path in sorted(_MIGRATIONS.glob("*.sql")):
        for line in path.read_text("utf-8").splitlines(keepends=True):
            statement += line
            if sqlite3.complete_statement(statement):
                db.execute(statement)
                statement = ""


def _seen(db: sqlite3.Connection) -> Place:
    row = db.execute(_HEAD).fetchone()
    try:
        return msgspec.json.decode(row[0], type=Place) if row else Place()
    except msgspec.MsgspecError as error:
        raise Away("the mirror does not say where it is") from error


# -- what the mirror has not seen


def _lay_over(db: sqlite3.Connection, lines: Sequence[Line]) -> None:
    touched, edges = _put(db, lines, has_mirror=True)
    db.execute("CREATE TEMP TABLE touched (id TEXT PRIMARY KEY) WITHOUT ROWID")
    db.executemany("INSERT INTO touched VALUES (?)", [(each,) for each in touched])
    db.execute("CREATE TEMP TABLE touched_edges (id TEXT PRIMARY KEY) WITHOUT ROWID")
    db.executemany("INSERT INTO touched_edges VALUES (?)", [(each,) for each in edges])
    for table, column in _LAID_OVER.items():
        _view(db, table, f'"{column}" NOT IN (SELECT id FROM touched)')
    _view(db, "edges", "id NOT IN (SELECT id FROM touched_edges)")
    _view(db, "commits", "1")


def _view(db: sqlite3.Connection, table: str, kept: str) -> None:
    # A name without a schema means the temporary one first.
    db.execute(
        f"CREATE TEMP VIEW {table} AS SELECT * FROM mirror.{table} WHERE {kept} UNION ALL SELECT * FROM main.{table}"
    )


def _put(db: sqlite3.Connection, lines: Sequence[Line], *, has_mirror: bool) -> tuple[set[str], set[str]]:
    """The nodes and edges that they are about, as they are after them."""
    touched: set[str] = set()
    edges: set[str] = set()
    for line in lines:
        entity, is_node = _name(line)
        (touched if is_node else edges).add(entity)
        db.execute(
            "INSERT OR REPLACE INTO main.commits VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, '')",
            (line.lamport, line.commit_id, line.timestamp, line.actor, line.operation, entity, line.tool, ""),
        )
        if is_node:
            db.execute("DELETE FROM main.nodes WHERE id = ?", (entity,))
            db.execute("DELETE FROM main.successors WHERE by = ?", (entity,))
        else:
            db.execute("DELETE FROM main.edges WHERE id = ?", (entity,))
        if line.operation == "UPSERT_NODE" and isinstance(line.payload.get("attrs"), dict):
            db.execute(
                f"INSERT INTO main.nodes VALUES ({', '.join('?' * 16)})", _node_row(db, line, entity, has_mirror)
            )
        elif line.operation == "REDACT_NODE" and isinstance(line.payload.get("supersedes"), list):
            superseded = [(str(each), entity) for each in line.payload["supersedes"]]
            db.executemany("INSERT OR IGNORE INTO main.successors VALUES (?, ?)", superseded)
        elif line.operation == "UPSERT_EDGE":
            said = line.payload
            ends = (str(said.get("from")), str(said.get("rel")), str(said.get("to")))
            db.execute(
                f"INSERT INTO main.edges VALUES (?, 0, ?, ?, ?, '{{}}', {'NULL, ' * 5}?, ?, ?, ?, ?, ?, ?, 0)",
                (entity, *ends, *_born(line), line.timestamp, line.actor, line.lamport, line.commit_id),
            )
    return touched, edges


def _name(line: Line) -> tuple[str, bool]:
    said = line.payload
    if line.operation.endswith("_NODE"):
        return str(said.get("id") if line.operation == "UPSERT_NODE" else said.get("node_id")), True
    if said.get("id") is not None:
        return str(said["id"]), False
    parts = (str(said.get(name)) for name in ("from", "rel", "to"))
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in parts), False


def _born(line: Line) -> tuple[str, str, int]:
    return line.timestamp, line.actor, line.lamport


def _node_row(db: sqlite3.Connection, line: Line, entity: str, has_mirror: bool) -> tuple[Any, ...]:
    attrs = msgspec.json.encode(line.payload["attrs"]).decode()
    content = line.payload.get("content")
    text = content.get("text") if isinstance(content, dict) else None
    born = None
    if has_mirror:
        query = "SELECT created_at, created_by, created_lamport FROM mirror.nodes WHERE id = ?"
        born = db.execute(query, (entity,)).fetchone()
    return (
        entity, str(line.payload.get("type")), attrs, text if isinstance(text, str) else None, None, None, None, None,
        *(born or _born(line)), line.timestamp, line.actor, line.lamport, line.commit_id, int(_REDACTED in attrs),
    )  # fmt: skip


# -- what is asked


class Graph:
    def __init__(self, db: sqlite3.Connection, position: int, allows: Allows | None = None) -> None:
        """Without `allows` everything may be told of."""
        self._db = db
        self._allows = allows
        self.position = position

    @property
    def narrows(self) -> bool:
        """Whether something may not be told of: then not what it holds up or how often a word is said, either."""
        return self._allows is not None

    # -- notes

    def note(self, node_id: str) -> Note | None:
        """None for what is not there, may not be told of, was redacted, or is not to be relied upon."""
        row = self._db.execute(
            "SELECT id, type, attrs, content, updated_by, updated_at, lamport FROM nodes WHERE id = ? AND NOT redacted",
            (node_id,),
        ).fetchone()
        if row is None or (self._allows is not None and not self._allows(node_id)) or self.is_recalled(node_id):
            return None
        node_id, kind, attrs, content, author, at, position = row
        try:
            said = msgspec.json.decode(attrs, type=dict[str, Any])
        except msgspec.MsgspecError:
            return None
        return Note(node_id, kind, said, content if isinstance(content, str) else "", author, at, position)

    def is_recalled(self, entity: str) -> bool:
        # Anything but an explicit "undone" stands.
        query = (
            "SELECT 1 FROM recalled JOIN nodes ON nodes.id = recalled.recall AND nodes.type = 'trust/recall'"
            " WHERE recalled.entity = ? AND COALESCE(json_extract(nodes.attrs, '$.status'), '') != 'undone'"
        )
        return self._db.execute(query, (entity,)).fetchone() is not None

    def successor(self, entity: str) -> Successor | None:
        """Return a node that takes the place of this one and may be relied upon; one that may be shown before one that
        was redacted."""
        rows = self._db.execute(
            "SELECT by, COALESCE(redacted, 1) FROM successors LEFT JOIN nodes ON nodes.id = by WHERE entity = ?"
            " ORDER BY COALESCE(redacted, 1), lamport DESC, by LIMIT 5",
            (entity,),
        )
        successors = (Successor(by, bool(redacted)) for by, redacted in rows.fetchall())
        return next(filter(self._counts, successors), None)

    def _counts(self, successor: Successor) -> bool:
        if not successor.redacted:
            return self.note(successor.id) is not None
        may_read = self._allows is None or self._allows(successor.id)
        return may_read and not self.is_recalled(successor.id)

    def about_file(self, path: str) -> list[str]:
        """Nodes whose patterns match it, or that cite it; those that are most particular about it first."""
        parts = path.split("/")
        heads = ["", *("/".join(parts[:count]) + "/" for count in range(1, len(parts))), path]
        rows = self._db.execute(
            f"SELECT head, pattern, atom FROM atom_paths WHERE head IN ({_marks(heads)}) ORDER BY length(head) DESC"
            f" LIMIT {_PATTERNS_MAX}",
            heads,
        ).fetchall()
        cited = self._db.execute("SELECT node FROM cited_files WHERE path = ? LIMIT 50", (path,)).fetchall()
        atoms = (atom for _, pattern, atom in rows if _fits(pattern, path))
        return list(dict.fromkeys(chain((node for (node,) in cited), atoms)))

    def unpinned(self, agents: Sequence[str], after: int) -> list[str]:
        """Knowledge that these made since then and that is tied to no state of its files."""
        rows = self._db.execute(
            f"SELECT id FROM nodes WHERE created_by IN ({_marks(agents)}) AND created_lamport > ?"
            " AND type = 'knowledge/atom' AND json_type(attrs, '$.pin') IS NULL AND NOT redacted LIMIT 20",
            (*agents, after),
        )
        return [node_id for (node_id,) in rows]

    # -- names, for a word that is begun

    def ids(self, begun: str, limit: int) -> list[str]:
        query = "SELECT id FROM nodes WHERE id >= ? AND id < ? AND NOT redacted ORDER BY id LIMIT ?"
        return [found for (found,) in self._db.execute(query, (begun, begun + _AFTER_ALL, limit))]

    def types(self, begun: str, limit: int) -> list[str]:
        query = "SELECT DISTINCT type FROM nodes WHERE type >= ? AND type < ? ORDER BY type LIMIT ?"
        return [found for (found,) in self._db.execute(query, (begun, begun + _AFTER_ALL, limit))]

    def projects(self) -> list[str]:
        return [name for (name,) in self._db.execute("SELECT name FROM work_projects ORDER BY name LIMIT 1000")]

    def open_work(self, begun: str, limit: int) -> list[tuple[str, str]]:
        """Work that is not over: its id, and what it is."""
        query = "SELECT id, summary FROM work_nodes WHERE NOT resolved AND id >= ? AND id < ? ORDER BY id LIMIT ?"
        return list(self._db.execute(query, (begun, begun + _AFTER_ALL, limit)))

    # -- changes

    def last_position_of(self, agents: Sequence[str]) -> int:
        """Of the last thing that any of them wrote; 0 for never."""
        # Over a view of both tables SQLite would read every commit of the agent; of a table its index has the answer.
        found = [
            self._db.execute(f"SELECT max(lamport) FROM {table} WHERE actor = ?", (agent,)).fetchone()[0]
            for table in self._commit_tables()
            for agent in agents
        ]
        return max((each for each in found if each is not None), default=0)

    def _commit_tables(self) -> list[str]:
        """Return the tables of commits: that of the mirror, and that of what it has not seen."""
        schemas = [row[1] for row in self._db.execute("PRAGMA database_list") if row[1] in ("mirror", "main")]
        query = "SELECT 1 FROM {}.sqlite_master WHERE type = 'table' AND name = 'commits'"
        return [f"{each}.commits" for each in schemas if self._db.execute(query.format(each)).fetchone()]

    def changes(self, after: int, besides: Sequence[str]) -> list[Change]:
        """Nodes that others wrote, newest first, each once."""
        rows = self._db.execute(
            f"SELECT entity, actor, lamport FROM commits WHERE lamport > ? AND kind = 'node'"
            f" AND operation = 'UPSERT_NODE' AND actor NOT IN ({_marks(besides)})"
            f" ORDER BY lamport DESC LIMIT {_CHANGES_MAX}",
            (after, *besides),
        )
        newest: dict[str, Change] = {}
        for entity, actor, lamport in rows:
            newest.setdefault(entity, Change(entity, actor, lamport))
        return list(newest.values())

    def written_after(self, position: int) -> list[str]:
        """Nodes, newest first; only the newest where there are very many."""
        if position >= self.position:
            return []
        rows = self._db.execute(
            "SELECT entity, max(lamport) FROM commits WHERE lamport > ? AND kind = 'node' GROUP BY entity"
            f" ORDER BY 2 DESC LIMIT {_CHANGES_MAX}",
            (position,),
        )
        return [entity for entity, _ in rows]

    # -- work

    def project(self, project_id: str) -> Project | None:
        row = self._db.execute("SELECT id, name, root FROM work_projects WHERE id = ?", (project_id,)).fetchone()
        if row is None or self.note(row[0]) is None:
            return None
        goal = self._db.execute("SELECT summary FROM work_nodes WHERE id = ?", (row[2],)).fetchone()
        return Project(row[0], row[1], goal[0] if goal and self.note(row[2]) is not None else "")

    def current_project(self) -> Project | None:
        """The one in which something was done last; else the newest."""
        row = self._db.execute(
            "SELECT work_nodes.project FROM commits JOIN work_nodes ON work_nodes.id = commits.entity"
            " WHERE commits.lamport > ? AND work_nodes.project IN (SELECT id FROM work_projects)"
            " ORDER BY commits.lamport DESC LIMIT 1",
            (self.position - _CANDIDATES_MAX,),
        ).fetchone()
        row = row or self._db.execute("SELECT id FROM work_projects ORDER BY updated_at DESC LIMIT 1").fetchone()
        return self.project(row[0]) if row else None

    def claimed(self, agents: Sequence[str], is_shown: Callable[[WorkItem], bool]) -> list[WorkItem]:
        """Return what these agents claimed and did not resolve, newest claim first, as far as `is_shown` accepts it."""
        rows = self._db.execute(
            "SELECT id, summary, project, claimed_by, claimed_at, claimed_session, context_links FROM work_nodes"
            f" WHERE claimed_by IN ({_marks(agents)}) AND resolved = 0 ORDER BY claimed_at DESC",
            agents,
        )
        items = (item for item in map(_item, rows) if is_shown(item) and self.note(item.id) is not None)
        return list(islice(items, _CLAIMS_MAX))

    def ready(self, project_id: str) -> list[WorkItem]:
        """What waits for nothing, in the order of graph_next."""
        rows = self._db.execute(
            "SELECT id, summary, project, claimed_by, claimed_at, claimed_session, context_links, priority, parent,"
            " updated_at, created_lamport FROM work_nodes AS one WHERE project = ? AND resolved = 0 AND held = 0"
            " AND NOT EXISTS (SELECT 1 FROM work_nodes AS child"
            "   WHERE child.parent = one.id AND child.resolved = 0 AND child.project <> ?)"
            " AND NOT EXISTS (SELECT 1 FROM edges JOIN work_nodes AS other ON other.id = edges.target"
            "   WHERE edges.source = one.id AND edges.rel = 'depends_on' AND other.project <> ?"
            "   AND (other.resolved = 0 OR other.dropped = 1 AND EXISTS (SELECT 1 FROM nodes"
            "     WHERE nodes.id = other.id AND json_type(nodes.attrs, '$.task.blocks') = 'true')))"
            f" LIMIT {_CANDIDATES_MAX}",
            (project_id, _REDACTED, _REDACTED),
        ).fetchall()
        depths: dict[str, int] = {}
        rows.sort(key=lambda row: (-_priority(row[7]), -self._depth(row[8], depths), row[9], row[10]))
        return [_item(row) for row in rows[:50]]

    def _depth(self, parent: str | None, known: dict[str, int]) -> int:
        way: list[str] = []
        while parent is not None and parent not in known and len(way) < _DEPTH_MAX:
            way.append(parent)
            row = self._db.execute("SELECT parent FROM work_nodes WHERE id = ?", (parent,)).fetchone()
            parent = row[0] if row else None
        depth = known.get(parent, 0) if parent is not None else 0
        for each in reversed(way):
            depth += 1
            known[each] = depth
        return depth


def _item(row: Sequence[Any]) -> WorkItem:
    links = msgspec.json.decode(row[6], type=list[Any])
    node_id, summary, project, claimed_by, claimed_at, session = row[:6]
    kept = tuple(link for link in links if isinstance(link, str))
    return WorkItem(
        node_id, summary, project, claimed_by, claimed_at, session if isinstance(session, str) else None, kept
    )


def _priority(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _fits(pattern: str, path: str) -> bool:
    if pattern == path:
        return True
    # Only where there are patterns is it worth loading what understands them.
    from tallystick.errors import InvalidArgument
    from tallystick.state.knowledge.globs import parse, segments_of
    from tallystick.state.knowledge.index import GlobIndex

    try:
        index: GlobIndex[int] = GlobIndex()
        index.add(1, parse(pattern))
        return bool(index.match(segments_of(path) or ()))
    except InvalidArgument:
        return False


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
