"""The graph of swimlanes: a SQLite file with nodes, edges and knowledge.

A node is a task, its project a project, `depends_on` a dependency. Claims are kept as properties and claim nothing.
Knowledge is a node. The history of events is not imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallystick.extensions.importers import Evidence, Fact, Item, Origin, Task, Unmapped
from tallystick.extensions.importers.files import excerpt, text_in, unreadable
from tallystick.extensions.importers.sqlite_copy import Database, opened, tables_of
from tallystick.extensions.importers.trackers import present
from tallystick.formats import strict_json

FILE = "graph.db"
TABLES = ("nodes", "edges", "knowledge")
_JSON = {"state": object, "properties": dict, "context_links": list, "evidence": list}
_CLAIMS = {"_claimed_by": "claimed_by", "_claimed_at": "claimed_at"}
_LINK_CHARACTERS_MAX = 1_000

Row = dict[str, Any]


def detect(path: Path) -> bool:
    return {"nodes", "edges", "events"} <= tables_of(_file(path))


def read(path: Path) -> Iterator[Item | Unmapped]:
    with opened(_file(path)) as database:
        if not {"nodes", "edges"} <= database.tables():
            raise unreadable(path, "no graph of swimlanes: it has no tables nodes and edges")
        edges: dict[str, list[tuple[str, str]]] = {}
        yield from _edges(database, edges)
        for found in database.rows("nodes", order="created_at"):
            yield from [found] if isinstance(found, Unmapped) else _node(*found, edges)
        if "knowledge" in database.tables():
            for found in database.rows("knowledge"):
                yield found if isinstance(found, Unmapped) else _knowledge(*found)
        yield from database.others((*TABLES, "sqlite_sequence"))


def _file(path: Path) -> Path:
    return path / FILE if path.is_dir() else path


def _edges(database: Database, edges: dict[str, list[tuple[str, str]]]) -> Iterator[Unmapped]:
    for found in database.rows("edges"):
        if isinstance(found, Unmapped):
            yield found
            continue
        where, row = found
        source, target, kind = (text_in(row, name) for name in ("from_node", "to_node", "type"))
        if source is None or target is None or kind is None:
            yield Unmapped(where, excerpt(str(row)), "an edge without from_node, to_node or type")
        else:
            edges.setdefault(source, []).append((kind, target))


def _node(where: str, row: Row, edges: dict[str, list[tuple[str, str]]]) -> Iterator[Item | Unmapped]:
    node_id, project = text_in(row, "id"), text_in(row, "project")
    if node_id is None or project is None:
        yield Unmapped(where, excerpt(str(row)), "a node without id or project")
        return
    said: Row = {}
    for name, kind in _JSON.items():
        try:
            said[name] = _parsed(row.get(name), kind)
        except ValueError as error:
            yield Unmapped(where, f"{node_id} {name}", str(error))
    links = [each for each in said.get("context_links") or [] if isinstance(each, str) and each]
    for each in links:
        if len(each) > _LINK_CHARACTERS_MAX:
            yield Unmapped(where, f"{node_id} {excerpt(each)}", "a link that is too long")
    evidence = list(_evidence(said.get("evidence") or []))
    resolved = bool(row.get("resolved"))
    dropped = resolved and bool(evidence) and evidence[-1].type == "dropped"
    yield Task(
        where=where,
        project=project,
        summary=text_in(row, "summary") or node_id,
        status="dropped" if dropped else "resolved" if resolved else "open",
        resolved=resolved,
        dropped=dropped,
        parent=text_in(row, "parent"),
        depends_on=tuple(other for kind, other in edges.get(node_id, ()) if kind == "depends_on"),
        related=tuple(each for each in edges.get(node_id, ()) if each[0] not in ("depends_on", "parent")),
        properties=_properties(row, said),
        texts={name: text for name in ("discovery", "plan", "blocked_reason") if (text := text_in(row, name))},
        context_links=tuple(each for each in links if len(each) <= _LINK_CHARACTERS_MAX),
        evidence=tuple(evidence),
        origin=_origin(node_id, row),
    )


def _properties(row: Row, said: Row) -> Row:
    """What is called as something here is called otherwise: a claim there is none here."""
    own = said.get("properties") or {}
    renamed = {_CLAIMS.get(name, "own_status" if name == "status" else name): value for name, value in own.items()}
    return present(**renamed, state=said.get("state"), blocked=bool(row.get("blocked")) or None)


def _evidence(found: list[Any]) -> Iterator[Evidence]:
    for each in found:
        if isinstance(each, dict) and (kind := text_in(each, "type")) and (ref := text_in(each, "ref")):
            yield Evidence(type=kind, ref=ref, agent=text_in(each, "agent"), timestamp=text_in(each, "timestamp"))


def _parsed(value: Any, kind: type) -> Any:
    """Raises ValueError."""
    if value is None or value == "":
        return None
    try:
        found = strict_json.parse(value.encode() if isinstance(value, str) else b"")
    except strict_json.JsonFault as fault:
        raise ValueError(f"not JSON: {fault}") from None
    if found is not None and not isinstance(found, kind):
        raise ValueError(f"no {'object' if kind is dict else 'list'}")
    return found


def _knowledge(where: str, row: Row) -> Item | Unmapped:
    project, key, content = (text_in(row, name) for name in ("project", "key", "content"))
    if project is None or key is None or content is None:
        return Unmapped(where, excerpt(str(row)), "knowledge without project, key or content")
    name = f"{project}/{key}"
    return Fact(
        where=where,
        id=name,
        type="knowledge",
        attrs={
            "name": key,
            "text": content,
            "project": project,
            "category": text_in(row, "category"),
            "source_node": text_in(row, "source_node"),
        },
        origin=_origin(name, row),
    )


def _origin(item_id: str, row: Row) -> Origin:
    return Origin(
        id=item_id,
        author=text_in(row, "created_by"),
        created=text_in(row, "created_at"),
        updated=text_in(row, "updated_at"),
    )
