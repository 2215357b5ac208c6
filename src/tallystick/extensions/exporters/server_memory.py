"""The knowledge graph of the MCP reference server `server-memory`: a JSON object a line, entities and relations.

An entity is called by its id. What it says is its observations: those that it has, and each other attribute as
`name: value`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from tallystick.commits.reserved_attributes import IMPORTED
from tallystick.extensions.exporters import Entity, Graph, Link, Losses

_OBSERVATIONS = "observations"


def open_writer(graph: Graph, output: BinaryIO, losses: Losses) -> _Writer:
    losses.note_always("authors and times", "it knows no author and no time")
    return _Writer(output, losses)


class _Writer:
    def __init__(self, output: BinaryIO, losses: Losses) -> None:
        self._output = output
        self._losses = losses

    def add(self, entity: Entity) -> None:
        said = {"name": entity.id, "entityType": entity.type, "observations": list(self._observations(entity))}
        self._write({"type": "entity", **said})
        seen: set[tuple[str, str]] = set()
        for link in entity.links:
            if (link.rel, link.target) in seen:
                self._losses.note("edge", "another one has the same ends and relation", link.id)
            else:
                seen.add((link.rel, link.target))
                self._relation(entity.id, link)

    def finish(self) -> None: ...

    def _relation(self, source: str, link: Link) -> None:
        if link.attrs.keys() - {IMPORTED} or link.text:
            self._losses.note("what an edge says", "a relation has none", link.id)
        if link.untrusted or link.stale:
            self._losses.note("warning on an edge", "a relation has no place for it", link.id)
        self._write({"type": "relation", "from": source, "to": link.target, "relationType": link.rel})

    def _observations(self, entity: Entity) -> Iterator[str]:
        if entity.untrusted is not None:
            yield f"recalled, not to be relied upon: {entity.untrusted.get('reason', '')}".rstrip(": ")
        if entity.stale is not None:
            yield f"stale: {entity.stale['why']}, since {entity.stale['since']}"
        own = entity.attrs.get(_OBSERVATIONS)
        is_own = isinstance(own, list) and all(isinstance(each, str) for each in own)
        if isinstance(own, list) and is_own:
            yield from own
        for name, value in entity.attrs.items():
            if name == IMPORTED:
                self._losses.note("attribute 'imported'", "left out: it says where the entity came from", entity.id)
            elif not (name == _OBSERVATIONS and is_own) and (name, value) != ("name", entity.id):
                if not isinstance(value, str):
                    self._losses.note("attribute that is no text", "written as JSON in an observation", entity.id)
                yield f"{name}: {shown(value)}"
        if entity.text is not None:
            yield entity.text

    def _write(self, said: dict[str, Any]) -> None:
        self._output.write(orjson.dumps(said) + b"\n")


def shown(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
