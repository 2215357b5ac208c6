"""The projection that follows the log into an engine: entities and edges as they are now.

A node is `(:Entity)`, an edge `[:EDGE]`; what they are called is in properties, since a type or a relation may be any
text. Attributes are in `attrs` as JSON, and those with plain names and values are properties as well. Contents are
left out.

Where it stands is in the engine, so that one that lost its data begins again. What it may still hold of what was
redacted is noted at home, in `_system/cypher.db`, so that it is told of while the engine is away.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tallystick.commits import DELETIONS, REDACTIONS, Commit, Verb
from tallystick.commits.mask import redact
from tallystick.commits.payloads import EdgePayload, read_edge, read_extent, read_node, read_target
from tallystick.errors import InvalidArgument, StorageRefused
from tallystick.extensions.cypher.engine import WRITE_SECONDS, EngineThread, Parameters, Rows, Statement
from tallystick.extensions.cypher.registered import ERASING, database_path
from tallystick.log import Entry, Head
from tallystick.projections.database import Connection, Damaged, Database

T = TypeVar("T")
Properties = dict[str, Any]
Find = Callable[[str, Parameters], Properties | None]

ROWS_AT_ONCE = 500
_ERASE_AGAIN_SECONDS = 1.0
_PLAIN_KEY = re.compile("[A-Za-z][A-Za-z0-9_]{0,63}")

_STAND = "MATCH (p:Tallystick) RETURN p.head, p.owner"
_MOVE = "MERGE (p:Tallystick {id: 'position'}) SET p.head = $head, p.owner = $owner"
_NODES = "UNWIND $rows AS row MERGE (n:Entity {id: row.id}) SET n = row"
_EDGES = (
    "UNWIND $rows AS row MATCH (a:Entity {id: row.source}), (b:Entity {id: row.target})"
    " CREATE (a)-[e:EDGE]->(b) SET e = row"
)
_DELETE_NODES = "UNWIND $ids AS id MATCH (n:Entity {id: id}) DETACH DELETE n"
_DELETE_EDGES = "UNWIND $keys AS key MATCH ()-[e:EDGE {key: key}]->() DELETE e"
_NODE = "MATCH (n:Entity {id: $id}) RETURN n"
_EDGE = "MATCH ()-[e:EDGE {key: $key}]->() RETURN e"


class CypherProjection:
    name = "cypher"

    def __init__(self, home: Path, engine: EngineThread | None, tenant: str) -> None:
        """Without an engine there is nothing that it can do, and that is said whenever it is asked to."""
        self._engine = engine
        self._tenant = tenant
        self._notes = Database(database_path(home), _prepare)
        self._is_prepared = False

    @property
    def graph(self) -> str:
        return self._required.address.graph_of(self._tenant)

    def position(self) -> Head:
        found = self._read(_STAND, {}).rows
        if not found:
            self._is_prepared = False
            return Head()
        head, owner = found[0]
        if owner != self._owner():
            raise StorageRefused(
                f"the graph '{self.graph}' at {self._required.address.shown} mirrors another memory",
                hint="let cypher_graph name another one, or delete that one there if nothing else uses it",
            )
        return msgspec.json.decode(head, type=Head)

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        commits = [entry.commit for entry in entries]
        changes = Changes(self._find)
        for commit in commits:
            changes.add(commit)
        if not self._is_prepared:
            self._do(self._required.engine.prepare(self.graph))
            self._is_prepared = True
        move = (_MOVE, {"head": msgspec.json.encode(head).decode(), "owner": self._owner()})
        self._do(self._required.engine.write(self.graph, [*changes.statements(), move]))
        self._note(head, {commit.operation for commit in commits})

    def settle(self, *, final: bool = False) -> float | None:
        return None if self.erase() else _ERASE_AGAIN_SECONDS

    def erase(self) -> bool:
        with self._notes.guarded() as db:
            if db.execute(ERASING).fetchone() is None:
                return True
        if not self._do(self._required.engine.erase(self.graph)):
            return False
        with self._notes.transaction() as db:
            db.execute("DELETE FROM meta WHERE key = 'scrub'")
        return True

    def reset(self) -> None:
        self.position()
        self._do(self._required.engine.drop(self.graph))
        self._is_prepared = False
        with self._notes.transaction() as db:
            db.execute("DELETE FROM meta WHERE key = 'head'")
            db.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', 'due')")

    def close(self) -> None:
        self._notes.close()

    @property
    def _required(self) -> EngineThread:
        if self._engine is None:
            raise InvalidArgument(
                "an engine has copies of this memory, and cypher_url does not name it any more",
                code="CYPHER_NOT_CONFIGURED",
                hint="set cypher_url as before; once that graph is deleted there, remove _system/cypher.db",
            )
        return self._engine

    def _read(self, text: str, parameters: Parameters) -> Rows:
        engine = self._required.engine
        work = engine.read(self.graph, text, parameters, seconds=WRITE_SECONDS, rows_max=ROWS_AT_ONCE, is_follower=True)
        return self._do(work)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._required.wait_for(work)

    def _find(self, text: str, parameters: Parameters) -> Properties | None:
        rows = self._read(text, parameters).rows
        return dict(rows[0][0]) if rows else None

    def _owner(self) -> str:
        """Of this home, and of no other that is given the same address."""
        with self._notes.transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES ('owner', ?)", (secrets.token_hex(16),))
            return str(db.execute("SELECT value FROM meta WHERE key = 'owner'").fetchone()[0])

    def _note(self, head: Head, operations: set[Verb]) -> None:
        with self._notes.transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES ('head', ?)", (msgspec.json.encode(head).decode(),))
            if operations & (DELETIONS | REDACTIONS):
                db.execute("INSERT OR REPLACE INTO meta VALUES ('scrub', 'due')")


class Changes:
    """What some commits leave of all that they touch: applied twice, it is the same."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self.nodes: dict[str, Properties | None] = {}
        self.edges: dict[str, Properties | None] = {}

    def add(self, commit: Commit) -> None:
        _ADD[commit.operation](self, commit)

    def statements(self) -> Iterator[Statement]:
        yield from _in_parts(_DELETE_EDGES, "keys", list(self.edges))
        yield from _in_parts(_DELETE_NODES, "ids", [each for each, left in self.nodes.items() if left is None])
        yield from _in_parts(_NODES, "rows", _living(self.nodes))
        yield from _in_parts(_EDGES, "rows", _living(self.edges))

    def upsert_node(self, commit: Commit) -> None:
        said = read_node(commit.payload)
        self.nodes[said.id] = node_properties(said.id, said.type, said.attrs, commit)

    def delete_node(self, commit: Commit) -> None:
        self.nodes[read_target(commit.payload).node_id] = None

    def redact_node(self, commit: Commit) -> None:
        said = read_target(commit.payload)
        node = self.nodes.get(said.node_id) or self._find(_NODE, {"id": said.node_id})
        if node is not None:
            left = _redacted(node, commit)
            self.nodes[said.node_id] = node_properties(said.node_id, node["type"], left, commit)

    def upsert_edge(self, commit: Commit) -> None:
        said = read_edge(commit.payload)
        self.edges[edge_key(said)] = edge_properties(said, said.attrs, commit)

    def delete_edge(self, commit: Commit) -> None:
        self.edges[edge_key(read_edge(commit.payload))] = None

    def redact_edge(self, commit: Commit) -> None:
        said = read_edge(commit.payload)
        key = edge_key(said)
        edge = self.edges.get(key) or self._find(_EDGE, {"key": key})
        if edge is not None:
            named = msgspec.structs.replace(said, source=edge["source"], rel=edge["rel"], target=edge["target"])
            self.edges[key] = edge_properties(named, _redacted(edge, commit), commit)


_ADD = {
    Verb.UPSERT_NODE: Changes.upsert_node,
    Verb.DELETE_NODE: Changes.delete_node,
    Verb.REDACT_NODE: Changes.redact_node,
    Verb.UPSERT_EDGE: Changes.upsert_edge,
    Verb.DELETE_EDGE: Changes.delete_edge,
    Verb.REDACT_EDGE: Changes.redact_edge,
}


def node_properties(node_id: str, node_type: str, attrs: dict[str, Any], commit: Commit) -> Properties:
    return plain_attributes(attrs) | {"id": node_id, "type": node_type} | _said(attrs, commit)


def edge_properties(said: EdgePayload, attrs: dict[str, Any], commit: Commit) -> Properties:
    named = {"key": edge_key(said), "id": said.name, "source": said.source, "rel": said.rel, "target": said.target}
    return plain_attributes(attrs) | named | _said(attrs, commit)


def edge_key(said: EdgePayload) -> str:
    """An id that somebody chose may be spelled like that of another edge."""
    return f"{'own' if said.id is not None else 'ends'}:{said.name}"


def plain_attributes(attrs: dict[str, Any]) -> Properties:
    """Those that any engine can hold, under names that need no quoting."""
    return {key: value for key, value in attrs.items() if _PLAIN_KEY.fullmatch(key) and _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        # Some engines take a text to end there.
        return "\0" not in value
    return isinstance(value, bool | int | float)


def _said(attrs: dict[str, Any], commit: Commit) -> Properties:
    return {
        "attrs": msgspec.json.encode(attrs).decode(),
        "updated_at": commit.timestamp,
        "updated_by": commit.actor,
        "lamport": commit.lamport,
    }


def _redacted(entity: Properties, commit: Commit) -> dict[str, Any]:
    document = {"attrs": msgspec.json.decode(entity["attrs"]), "content": None}
    left: dict[str, Any] = redact(document, read_extent(commit.payload).redacted_fields)["attrs"]
    return left


def _living(entities: dict[str, Properties | None]) -> list[Properties]:
    return [each for each in entities.values() if each is not None]


def _in_parts(text: str, name: str, values: Sequence[Any]) -> Iterable[Statement]:
    for start in range(0, len(values), ROWS_AT_ONCE):
        yield text, {name: values[start : start + ROWS_AT_ONCE]}


def _prepare(db: Connection) -> None:
    db.execute("CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
    if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise Damaged("it is damaged")
