"""The shapes of what is answered, and how much of it fits.

Lists are cut where an agent's context would overflow, and say so; `next_offset` says where to go on.
What was asked for by its id is never cut.
"""

from __future__ import annotations

from typing import Any

from tallystick.state import Edge, Node, Path, Provenance
from tallystick.state.read_filter import ReadFilter
from tallystick.toolsets.truncation import size_of

ANSWER_BYTES_MAX = 50_000
"""25,000 tokens at two bytes each: hashes are that dense, prose takes half as many tokens."""


def provenance_of(found: Provenance) -> dict[str, Any]:
    return {
        "commit_id": found.commit_id,
        "created_by": found.created_by,
        "updated_by": found.updated_by,
        "timestamp": found.timestamp,
        "lamport": found.lamport,
        "content_hash": found.content_hash,
    }


def entity_of(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "type": node.type,
        "attrs": node.attrs,
        "created_by": node.provenance.created_by,
        "updated_by": node.provenance.updated_by,
    }


def edge_of(edge: Edge) -> dict[str, Any]:
    return {"id": edge.id, "from": edge.source, "to": edge.target, "rel": edge.rel, "attrs": edge.attrs}


def path_of(path: Path, read_filter: ReadFilter) -> dict[str, Any]:
    documents = ({"from": e.source, "to": e.target, "rel": e.rel, "attrs": e.attrs} for e in path.edges)
    edges = [read_filter.warned(edge.id, document) for edge, document in zip(path.edges, documents, strict=True)]
    return {"path": path.ids, "edges": edges}


def only(fields: list[str] | None, document: dict[str, Any]) -> dict[str, Any]:
    """The document with its id and the fields asked for; all of it when none are."""
    if fields is None:
        return document
    found: dict[str, Any] = {}
    for field in ["id", *fields]:
        _copy(field, document, found)
    return found


def _copy(path: str, source: dict[str, Any], target: dict[str, Any]) -> None:
    if path in source:
        target[path] = source[path]
        return
    # A key may itself hold dots, so every way to split the path is tried, the shortest key first.
    at = path.find(".")
    while at > 0:
        key, rest = path[:at], path[at + 1 :]
        child = source.get(key)
        if isinstance(child, dict):
            inner = target.get(key)
            if inner is child:  # All of it is there already.
                return
            copied: dict[str, Any] = dict(inner) if isinstance(inner, dict) else {}
            _copy(rest, child, copied)
            if copied:
                target[key] = copied
                return
        at = path.find(".", at + 1)


def slim(document: dict[str, Any], heavy: str, bytes_max: int) -> dict[str, Any]:
    """Without its heavy field, and marked, when it would not fit on a page of its own."""
    if size_of(document) <= bytes_max:
        return document
    return {key: value for key, value in document.items() if key != heavy} | {"oversize": True}


def pagination(*, total: int, offset: int, limit: int, shown: int) -> dict[str, Any]:
    """`truncated` is there when the page was cut to what fits, not to what was asked for."""
    end = offset + shown
    page = {"total": total, "offset": offset, "limit": limit, "next_offset": end if shown and end < total else None}
    return page | {"truncated": True} if shown < min(limit, total - offset) else page
