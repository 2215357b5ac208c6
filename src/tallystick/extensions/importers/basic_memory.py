"""A project of basic-memory: Markdown notes whose list items are observations and relations.

Observation: `- [category] text #tag (context)`. Relation: `- word [[Target]]` or `- "some words" [[Target]]`. Any other
[[Target]] is `links_to`. Headings mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tallystick.extensions.importers import Item, Unmapped
from tallystick.extensions.importers.markdown_vault import Note, first_texts, read_vault
from tallystick.extensions.importers.wiki_links import target_of, targets, without_code

_ITEM = re.compile(r"^\s*[-*]\s+(.*\S)\s*$")
_CATEGORY = re.compile(r"^\[([^\[\]()\n]+)\](?![(\[])\s*(.*)$")
_CHECKBOX = frozenset({" ", "x", "X", "-"})
_TAG = re.compile(r"(?<!\S)#([^\s#()]+)")
_CONTEXT = re.compile(r"\s*\(([^()]*)\)$")
_RELATION = re.compile(r"""^(?:"([^"]+)"|'([^']+)'|([^\s\[\]]+))?\s*\[\[([^\[\]]+)\]\]\s*(?:\([^()]*\))?$""")


def detect(path: Path) -> bool:
    return path.is_dir() and any(
        text.startswith("---") and "\npermalink:" in text.partition("\n---")[0] for text in first_texts(path)
    )


def read(path: Path) -> Iterator[Item | Unmapped]:
    return read_vault(path, _relations, _observations)


def _observations(note: Note) -> dict[str, Any]:
    found = [said for item in _items(note) if (said := _observation(item)) is not None]
    return {"observations": found or None}


def _observation(item: str) -> dict[str, Any] | None:
    found = _CATEGORY.match(item)
    category, text = found.groups() if found else (None, item)
    if category is not None and (category in _CHECKBOX or not text):
        return None
    tags = _TAG.findall(text)
    if category is None and (not tags or "[[" in item):
        return None
    said: dict[str, Any] = {"category": (category or "Note").strip(), "text": text}
    context = _CONTEXT.search(text)
    if context is not None:
        said |= {"text": text[: context.start()], "context": context[1]}
    return said | ({"tags": tags} if tags else {})


def _relations(note: Note) -> Iterator[tuple[str, str]]:
    for line in without_code(note.body).splitlines():
        item = _ITEM.match(line)
        relation = _RELATION.match(item[1]) if item is not None else None
        if relation is None:
            for target in targets(line):
                yield "links_to", target
        else:
            quoted, single, word, target = relation.groups()
            if target_of(target):
                yield (quoted or single or word or "links_to").strip(), target_of(target)


def _items(note: Note) -> Iterator[str]:
    for line in without_code(note.body).splitlines():
        found = _ITEM.match(line)
        if found is not None:
            yield found[1]
