"""A vault of Markdown notes with wiki links, as Obsidian keeps it and basic-memory reads it.

    TYPE/NAME.md    title, type, permalink (the id), tags and the attributes; the text;
                    observations `- [category] text`; relations `- relation [[TYPE/NAME]]`

Our own importer `basic-memory` reads back the same ids, types and edges.
"""

from __future__ import annotations

from typing import Any

from tallystick.commits.reserved_attributes import IMPORTED
from tallystick.extensions.exporters import Entity, Graph, Link, Losses
from tallystick.extensions.exporters.directory import Directory
from tallystick.extensions.exporters.file_names import paths
from tallystick.extensions.exporters.markdown import (
    escaped,
    note,
    plain_observations,
    relations_of,
    tags_of,
    text_of,
    warnings,
)

KEYS = frozenset(
    {"title", "type", "permalink", "tags", "author", "modified", "created", "updated", "updated_by", "relations"}
    | {"untrusted", "stale", "schema", "aliases", "cssclasses"}
)
GENERATED = "<!-- written by tallystick export: what follows is made anew by the next one -->"
_MARKDOWN_SOURCES = frozenset({"basic-memory", "markdown"})
_FRONT_MATTER = "front_matter"


def open_writer(graph: Graph, output: Directory, losses: Losses) -> _Writer:
    return _Writer(paths({entity_id: named.type for entity_id, named in graph.names.items()}), output, losses)


class _Writer:
    def __init__(self, names: dict[str, str], output: Directory, losses: Losses) -> None:
        self._names = names
        self._output = output
        self._losses = losses

    def add(self, entity: Entity) -> None:
        text, in_body = text_of(entity)
        is_markdown = _is_markdown(entity)
        observations = plain_observations(entity.attrs) if not is_markdown else None
        in_body += ["observations"] if is_markdown or observations else []
        # Else the text of an agent would be read as an edge.
        text = text.partition(GENERATED)[0].rstrip() if is_markdown else text.replace("[[", "\\[\\[")
        head = {
            "title": entity.title,
            "type": entity.type,
            "permalink": entity.id,
            "tags": tags_of(entity.attrs),
            "author": entity.created_by,
            "updated_by": entity.updated_by if entity.updated_by != entity.created_by else None,
            "modified": entity.at,
            "untrusted": entity.untrusted,
            "stale": entity.stale,
            "relations": relations_of(entity),
        }
        body = [
            "" if text.startswith("# ") else f"# {escaped(entity.title)}",
            warnings(entity),
            text,
            "\n".join(f"- [observation] {each}" for each in observations or ()),
            self._relations(entity),
        ]
        attrs = _attributes(entity, head, frozenset(in_body))
        data = note(head, attrs, body, keys=KEYS, losses=self._losses, entity_id=entity.id)
        self._output.write(f"{self._names[entity.id]}.md", data)

    def finish(self) -> None: ...

    def _relations(self, entity: Entity) -> str:
        if not entity.links:
            return ""
        return "\n".join([GENERATED, "", *map(self._relation, entity.links)])

    def _relation(self, link: Link) -> str:
        rel = _relation_word(link.rel)
        if rel is None:
            rel = f'"{_safe(link.rel)}"'
            self._losses.note("relation", "quotes, brackets and line ends in its name are left out", link.rel)
        return f"- {rel} [[{self._names[link.target]}]]"


def _relation_word(rel: str) -> str | None:
    """One word, or several in quotes."""
    if rel != _safe(rel):
        return None
    return f'"{rel}"' if " " in rel or rel[0] in "-*+>`" or not rel[0].isalnum() else rel


def _safe(rel: str) -> str:
    kept = "".join(each for each in rel if each not in "\"'[]()`|<>\\" and (each.isprintable() or each.isspace()))
    return " ".join(kept.split()) or "links_to"


def _is_markdown(entity: Entity) -> bool:
    imported = entity.attrs.get(IMPORTED)
    return isinstance(imported, dict) and imported.get("from") in _MARKDOWN_SOURCES


def _attributes(entity: Entity, head: dict[str, Any], in_body: frozenset[str]) -> dict[str, Any]:
    """Those that are not said elsewhere in the note."""
    attrs = {
        name: value
        for name, value in entity.attrs.items()
        if name not in in_body and not (name in ("title", "tags") and head[name] == value)
    }
    front = attrs.get(_FRONT_MATTER)
    if isinstance(front, dict) and _is_markdown(entity) and front.keys().isdisjoint(attrs.keys() | KEYS):
        del attrs[_FRONT_MATTER]
        attrs |= front
    return attrs
