"""The knowledge graph of the MCP reference server `server-memory`: a JSON object a line, entities and relations.

An entity is a node whose id is its name, a relation is an edge. Neither has a time or an author.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallystick.extensions.importers import Fact, Item, Link, Origin, Unmapped
from tallystick.extensions.importers.files import excerpt, first_bytes, json_lines, text_in, unreadable

FILE = "memory.jsonl"
_KNOWN = {
    "entity": frozenset({"type", "name", "entityType", "observations"}),
    "relation": frozenset({"type", "from", "to", "relationType"}),
}


def detect(path: Path) -> bool:
    start = first_bytes(_file(path)).lstrip()[:2_000]
    return start.startswith(b"{") and (b'"entityType"' in start or b'"relationType"' in start)


def read(path: Path) -> Iterator[Item | Unmapped]:
    file = _file(path)
    if file.is_dir():
        raise unreadable(path, f"it has no {FILE}")
    for found in json_lines(file):
        if isinstance(found, Unmapped):
            yield found
        else:
            yield from _of_line(*found)


def _file(path: Path) -> Path:
    return path / FILE if path.is_dir() and (path / FILE).exists() else path


def _of_line(where: str, said: dict[str, Any]) -> Iterator[Item | Unmapped]:
    kind = said.get("type")
    if kind not in _KNOWN:
        yield Unmapped(where, excerpt(str(kind)), "neither an entity nor a relation")
        return
    for name in sorted(said.keys() - _KNOWN[kind]):
        yield Unmapped(where, excerpt(name), f"no field of {kind} that is known")
    yield _entity(where, said) if kind == "entity" else _relation(where, said)


def _entity(where: str, said: dict[str, Any]) -> Item | Unmapped:
    name, kind, observations = text_in(said, "name"), text_in(said, "entityType"), said.get("observations", [])
    if name is None or kind is None:
        return Unmapped(where, excerpt(str(said)), "an entity without name or entityType")
    if not isinstance(observations, list) or not all(isinstance(each, str) for each in observations):
        return Unmapped(where, excerpt(name), "its observations are not a list of texts")
    return Fact(
        where=where, id=name, type=kind, attrs={"name": name, "observations": observations}, origin=Origin(id=name)
    )


def _relation(where: str, said: dict[str, Any]) -> Item | Unmapped:
    source, target, rel = (text_in(said, key) for key in ("from", "to", "relationType"))
    if source is None or target is None or rel is None:
        return Unmapped(where, excerpt(str(said)), "a relation without from, to or relationType")
    return Link(where=where, source=source, rel=rel, target=target, origin=Origin(id=f"{source}|{rel}|{target}"))
