"""The Open Knowledge Format 0.2: a directory of Markdown concepts.

index.md          okf_version, and a link to each directory
log.md            the newest changes by day
TYPE/index.md     a link to each concept of this type
TYPE/NAME.md      a concept
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tallystick.commits.reserved_attributes import IMPORTED, STALE_AFTER, VERIFIED, cited_paths
from tallystick.extensions.exporters import Entity, Graph, Link, Losses, one_line
from tallystick.extensions.exporters.directory import Directory
from tallystick.extensions.exporters.file_names import paths
from tallystick.extensions.exporters.markdown import (
    escaped,
    note,
    plain_observations,
    relations_of,
    tags_of,
    text_of,
    to_yaml,
    warnings,
)
from tallystick.state.staleness import SUPERSEDED

VERSION = "0.2"
KEYS = frozenset(
    {"type", "title", "description", "resource", "tags", "sources", "generated", "verified", "status", "stale_after"}
    | {"id", "created_by", "untrusted", "stale", "relations", "okf_version"}
)
LOG_ENTRIES_MAX = 1_000
_STATUSES = frozenset({"draft", "stable", "deprecated"})
_ACTOR = re.compile(r"(human|process):\S.*|[^/\s]+/[^/\s]+")
_DESCRIPTIONS = ("description", "summary", "text")


def open_writer(graph: Graph, output: Directory, losses: Losses) -> _Writer:
    return _Writer(graph, output, losses)


class _Writer:
    def __init__(self, graph: Graph, output: Directory, losses: Losses) -> None:
        self._graph = graph
        self._names = paths({entity_id: named.type for entity_id, named in graph.names.items()})
        self._output = output
        self._losses = losses
        self._newest: list[tuple[str, int, str]] = []
        """Time, position and id of the last changes, the oldest of them first."""

    def add(self, entity: Entity) -> None:
        text, in_body = text_of(entity)
        observations = plain_observations(entity.attrs)
        in_body += ["observations"] if observations else []
        head = _head(entity)
        body = [
            "" if text.startswith("# ") else f"# {escaped(entity.title)}",
            warnings(entity),
            text,
            "\n".join(f"* {escaped(each, len(each) + 1)}" for each in observations or ()),
            self._links(entity.links),
        ]
        attrs = {
            name: value
            for name, value in entity.attrs.items()
            if name not in in_body and not (name in head and _is_said(name, value, head[name]))
        }
        data = note(head, attrs, body, keys=KEYS, losses=self._losses, entity_id=entity.id)
        self._output.write(f"{self._names[entity.id]}.md", data)
        push = heapq.heappush if len(self._newest) < LOG_ENTRIES_MAX else heapq.heappushpop
        push(self._newest, (entity.at, entity.position, entity.id))

    def finish(self) -> None:
        by_directory: dict[str, list[str]] = {}
        for entity_id, path in self._names.items():
            by_directory.setdefault(path.partition("/")[0], []).append(entity_id)
        lines = []
        for directory, ids in sorted(by_directory.items()):
            kind = escaped(self._graph.names[ids[0]].type)
            lines.append(f"* [{kind}](/{directory}/index.md): {len(ids):,}")
            listed = "\n".join(f"* {self._link(each)}" for each in ids)
            self._output.write(f"{directory}/index.md", f"# {kind}\n\n{listed}\n".encode())
        head = to_yaml({"okf_version": VERSION})
        told = f"# Index\n\nAs of {self._graph.at}, position {self._graph.position}.\n"
        self._output.write("index.md", f"---\n{head}---\n\n{told}\n{chr(10).join(lines)}\n".encode())
        self._output.write("log.md", "".join(self._log()).encode())
        if len(self._names) > LOG_ENTRIES_MAX:
            self._losses.note_always("log.md", f"it has the {LOG_ENTRIES_MAX:,} newest changes")

    def _log(self) -> Iterator[str]:
        yield "# Log\n"
        day = ""
        for at, _, entity_id in sorted(self._newest, reverse=True):
            if at[:10] != day:
                day = at[:10]
                yield f"\n## {day}\n\n"
            yield f"* **Update**: {self._link(entity_id)}\n"

    def _links(self, links: Iterable[Link]) -> str:
        lines = [f"* {escaped(link.rel)}: {self._link(link.target)}" for link in links]
        return "\n".join(["## Links", "", *lines]) if lines else ""

    def _link(self, entity_id: str) -> str:
        return f"[{escaped(self._graph.names[entity_id].title)}](/{self._names[entity_id]}.md)"


def _head(entity: Entity) -> dict[str, Any]:
    attrs = entity.attrs
    return {
        "type": entity.type,
        "title": entity.title,
        "description": _description(entity),
        "id": entity.id,
        "tags": tags_of(attrs),
        "sources": list(_sources(attrs)) or None,
        "generated": {"by": _actor(entity.updated_by), "at": entity.at},
        "created_by": _actor(entity.created_by) if entity.updated_by != entity.created_by else None,
        "verified": _verified(attrs.get(VERIFIED)),
        "status": _status(entity),
        "stale_after": attrs.get(STALE_AFTER) if isinstance(attrs.get(STALE_AFTER), str) else None,
        "untrusted": entity.untrusted,
        "stale": entity.stale,
        "relations": relations_of(entity),
    }


def _is_said(name: str, value: Any, said: Any) -> bool:
    return said is not None and (said == value or (name == VERIFIED and isinstance(value, dict) and len(value) == 2))


def _description(entity: Entity) -> str | None:
    for name in _DESCRIPTIONS:
        said = entity.attrs.get(name)
        if isinstance(said, str) and (line := one_line(said.lstrip("# "))) and line != entity.title:
            return line
    return None


def _actor(name: str) -> str:
    """Nobody knows here whether somebody is a person: who does not say so is a process."""
    return name if _ACTOR.fullmatch(name) else f"process:{name}"


def _verified(said: Any) -> list[dict[str, str]] | None:
    if not isinstance(said, dict) or not isinstance(said.get("by"), str) or not isinstance(said.get("at"), str):
        return None
    return [{"by": _actor(said["by"]), "at": said["at"]}]


def _status(entity: Entity) -> str | None:
    if entity.untrusted is not None or (entity.stale is not None and SUPERSEDED in entity.stale["why"]):
        return "deprecated"
    said = entity.attrs.get("status")
    return said if isinstance(said, str) and said in _STATUSES else None


def _sources(attrs: dict[str, Any]) -> Iterator[dict[str, str]]:
    imported = attrs.get(IMPORTED)
    if isinstance(imported, dict):
        named = {"id": "id", "resource": "from", "author": "author", "last_modified": "updated"}
        found = {key: imported[name] for key, name in named.items() if isinstance(imported.get(name), str)}
        if found:
            yield found
    for path in cited_paths(attrs):
        yield {"id": path, "resource": path}
