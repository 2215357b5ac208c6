"""A vault of Markdown notes with wiki links, as Obsidian and others keep it.

A note is a node whose id is its permalink or its path, a link [[target]] an edge `links_to`. Targets are found by path,
permalink, title or file name, as far as only one note is called so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.extensions.importers import Fact, Item, Link, Origin, Unmapped
from tallystick.extensions.importers.files import files, text_in, texts, texts_in, unreadable
from tallystick.extensions.importers.front_matter import split
from tallystick.extensions.importers.wiki_links import targets, without_code

SUFFIX = ".md"
SKIPPED = frozenset({"node_modules", "__pycache__"})
_HEADING = re.compile(r"^#\s+(.+?)\s*#*\s*$", re.MULTILINE)
_KNOWN = frozenset({"title", "type", "permalink", "tags", "created", "modified", "updated", "author"})
_LOOKED_AT = 50


class Note(msgspec.Struct, frozen=True):
    where: str
    id: str
    title: str
    said: dict[str, Any]
    body: str


Relations = Callable[[Note], Iterator[tuple[str, str]]]
"""What links a note to others: relation and target, as it calls it."""
Attributes = Callable[[Note], dict[str, Any]]


def detect(path: Path) -> bool:
    return path.is_dir() and any("[[" in text or text.startswith("---") for text in first_texts(path))


def read(path: Path) -> Iterator[Item | Unmapped]:
    return read_vault(path, links_of, lambda note: {})


def first_texts(path: Path) -> Iterator[str]:
    """Of some notes, to guess by."""
    for _, found in zip(range(_LOOKED_AT), texts(path, SUFFIX, skip=SKIPPED), strict=False):
        if not isinstance(found, Unmapped):
            yield found[1]


def read_vault(path: Path, relations: Relations, more: Attributes) -> Iterator[Item | Unmapped]:
    if not path.is_dir() or not any(isinstance(each, Path) for each in files(path, SUFFIX, skip=SKIPPED)):
        raise unreadable(path, "no directory with Markdown files")
    names = _Names(path)
    links: list[Link] = []
    for found in texts(path, SUFFIX, skip=SKIPPED):
        if isinstance(found, Unmapped):
            yield found
            continue
        note, fault = _note(path, *found)
        if fault is not None:
            yield fault
        yield _fact(note, more(note))
        for rel, target in dict.fromkeys(relations(note)):
            # What is not found keeps its name: whoever writes it tells that it leads nowhere.
            end = names.find(target) or target
            key = f"{note.where}|{rel}|{target}"
            links.append(Link(where=note.where, source=note.id, rel=rel, target=end, origin=Origin(id=key)))
    yield from _once(links)


def links_of(note: Note) -> Iterator[tuple[str, str]]:
    for target in targets(without_code(note.body)):
        yield "links_to", target


def _once(links: list[Link]) -> Iterator[Link]:
    """Two names of one note make one edge."""
    seen: set[tuple[str, str, str]] = set()
    for link in links:
        ends = link.source, link.rel, link.target
        if ends not in seen:
            seen.add(ends)
            yield link


def _note(root: Path, where: str, text: str) -> tuple[Note, Unmapped | None]:
    fault = None
    try:
        said, body = split(text)
    except InvalidArgument as error:
        fault = Unmapped(where, "front matter", f"{error.message}; the note is kept as text")
        said, body = {}, text
    heading = _HEADING.search(without_code(body))
    stem = where.removesuffix(SUFFIX)
    title = text_in(said, "title") or (heading[1] if heading else None) or stem.rpartition("/")[2]
    node_id = text_in(said, "permalink") or f"{root.resolve().name}/{stem}"
    return Note(where, node_id, title, said, body), fault


def _fact(note: Note, more: dict[str, Any]) -> Fact:
    said = note.said
    others = {key: value for key, value in said.items() if key not in _KNOWN}
    tags = said.get("tags")
    return Fact(
        where=note.where,
        id=note.id,
        type=text_in(said, "type") or "note",
        attrs={
            "title": note.title,
            "text": note.body.strip(),
            "tags": (texts_in(said, "tags") or tags.replace(",", " ").split() if isinstance(tags, str) else tags)
            or None,
            "front_matter": others or None,
            **more,
        },
        origin=Origin(
            id=note.where,
            author=text_in(said, "author"),
            created=text_in(said, "created"),
            updated=text_in(said, "modified") or text_in(said, "updated"),
        ),
    )


class _Names:
    """By what a note may be called in a link. A name that several have leads to none of them."""

    def __init__(self, path: Path) -> None:
        self._ids: dict[str, str | None] = {}
        self._loosely: dict[str, str | None] = {}
        for found in texts(path, SUFFIX, skip=SKIPPED):
            if not isinstance(found, Unmapped):
                note, _ = _note(path, *found)
                stem = note.where.removesuffix(SUFFIX)
                for name in (note.id, stem):
                    self._note(self._ids, name, note.id)
                for name in (note.title, stem.rpartition("/")[2]):
                    self._note(self._loosely, name, note.id)

    def find(self, target: str) -> str | None:
        name = target.removesuffix(SUFFIX).strip("/").casefold()
        return self._ids.get(name) or self._loosely.get(name)

    def _note(self, names: dict[str, str | None], name: str, node_id: str) -> None:
        key = name.casefold()
        names[key] = node_id if names.get(key, node_id) == node_id else None
