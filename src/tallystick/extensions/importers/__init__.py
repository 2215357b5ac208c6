"""The importers: what other programs remember, read as items that a memory can hold.

An importer is a module with two functions (`Importer`), and a row in `registry`. It reads files that nobody vouches for
and yields what they say, in any order; it knows nothing of a store, of what is there already or of how things are
written. `importing/` compares the items with the memory and writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an item comes from, as its source says. It becomes the attribute `imported`, never the commit's own."""

    id: str
    """The source's own id, or what stands for one: with the source's name it says which item this is next time."""
    author: str | None = None
    created: str | None = None
    updated: str | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the memory vocabulary."""

    where: str
    """In the source, for people: `memory.jsonl:12`."""
    id: str
    type: str
    attrs: dict[str, Any]
    """An attribute that may be missing is None: so it is taken away when the source has it no more."""
    origin: Origin


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An edge between two facts, by their ids. One that leads nowhere is told, and left out."""

    where: str
    source: str
    rel: str
    target: str
    attrs: dict[str, Any] = {}
    origin: Origin


class Evidence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type: str
    ref: str
    agent: str | None = None
    timestamp: str | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the work vocabulary. Tasks name each other by the ids of their origins, within a project."""

    where: str
    project: str
    summary: str
    status: str
    """As the source calls it. What it means here is said by the next two."""
    resolved: bool = False
    dropped: bool = False
    """Resolved because it was given up."""
    parent: str | None = None
    depends_on: tuple[str, ...] = ()
    related: tuple[tuple[str, str], ...] = ()
    """Other edges: relation and id."""
    properties: dict[str, Any] = {}
    texts: dict[str, str] = {}
    """Properties that may be long. What does not fit into a node is kept as evidence, in parts."""
    context_links: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    origin: Origin


class Atom(msgspec.Struct, frozen=True, kw_only=True):
    """Knowledge of files, in a project of the work vocabulary."""

    where: str
    project: str
    name: str
    knowledge: str
    paths: tuple[str, ...]
    origin: Origin


class Unmapped(msgspec.Struct, frozen=True):
    """What is not imported, and why. Whatever an importer does not yield as an item it yields as this."""

    where: str
    what: str
    reason: str


Item = Fact | Link | Task | Atom


class Importer(Protocol):
    """One source. A module fulfils it."""

    def detect(self, path: Path) -> bool:
        """Whether this looks like the source's own files. Looks at names and first bytes, raises nothing."""
        ...

    def read(self, path: Path) -> Iterator[Item | Unmapped]:
        """Everything there, a piece at a time. It is read twice: first to be counted, then to be written.

        The files may be huge, damaged or hostile: `files`, `front_matter` and `sqlite_copy` are the ways to read them.
        Raises InvalidArgument where there is nothing of this kind at all.
        """
        ...
