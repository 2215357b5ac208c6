"""What counts as the text of an entity: its id, its type or relation, the values of its attributes, its content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from tallystick.commits.mask import REDACTED
from tallystick.commits.reserved_attributes import said
from tallystick.projections.text.words import words_in, words_of

NAME_WORDS_MAX = 4
_NAME_KEYS = """
    name title speaker author owner assignee user username nickname alias person customer client company team
    project created_by written_by by from to who"""
NAME_KEYS = frozenset(_NAME_KEYS.split())
"""Attributes whose short values are names: a question that says one means the entities that have it."""
_OPAQUE = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
NAMED, OF_TYPE, IS_EDGE = "=", "@", "@@edge"
"""No word begins like these: they stand in the index beside the words, and are found by nobody's question."""


class Entity(msgspec.Struct, frozen=True):
    """A node or an edge as a commit leaves it."""

    id: str
    is_edge: bool
    type: str
    """Of an edge: its relation."""
    attrs: dict[str, Any]
    content: dict[str, Any] | None
    offset: int
    """Of the line that says so."""
    author: str
    chain: str
    """What was made one after the other has the same: the run that made it, or who did."""


def words_of_entity(entity: Entity) -> list[str]:
    """But for its content."""
    return words_in("\n".join([_spoken(entity.id), entity.type, *values(said(entity.attrs))]))


def _spoken(entity_id: str) -> str:
    """What an id says in words. One that is a number or a hash says nothing, and is found as it stands."""
    return entity_id if len(words_of(entity_id)) > 1 and not _OPAQUE.fullmatch(entity_id) else ""


def values(attrs: Any) -> Iterator[str]:
    """Texts and numbers at any depth; what was redacted is none."""
    if isinstance(attrs, str):
        if attrs != REDACTED:
            yield attrs
    elif isinstance(attrs, dict):
        for value in attrs.values():
            yield from values(value)
    elif isinstance(attrs, list):
        for value in attrs:
            yield from values(value)
    elif isinstance(attrs, (int, float)) and not isinstance(attrs, bool):
        yield str(attrs)


def type_mark(name: str, *, is_edge: bool) -> str:
    return f"{OF_TYPE}{'edge' if is_edge else 'node'} {name}"


def name_mark(words: list[str]) -> str:
    return NAMED + " ".join(words)


def marks_of(entity: Entity) -> Iterator[str]:
    """What the entity is and how it is called."""
    yield type_mark(entity.type, is_edge=entity.is_edge)
    if entity.is_edge:
        yield IS_EDGE
    names = [value for key, value in entity.attrs.items() if key in NAME_KEYS and isinstance(value, str)]
    for name in (entity.author, *names):
        if name != REDACTED and len(name) < 100 and (mark := _mark_of(name)):
            yield mark


@lru_cache(maxsize=4_096)
def _mark_of(name: str) -> str | None:
    words = words_of(name.casefold())
    return name_mark(words) if 0 < len(words) <= NAME_WORDS_MAX else None
