"""The exporters: what a memory says at one moment, written in the forms that other programs read.

An exporter is a module with one function, `open_writer`, and a row in `registry`. It is given entities one by one and
writes them; it knows nothing of a store, of policy or of where its output lies. `exporting.py` reads the
entities and puts the output in its place once it is complete. What a form cannot hold is told to `Losses`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec

if TYPE_CHECKING:
    from tallystick.extensions.exporters.directory import Directory

EXAMPLES = 3
_TITLES = ("title", "name", "summary")
TITLE_CHARACTERS_MAX = 200


class Named(msgspec.Struct, frozen=True, gc=False):
    """What is known of an entity before it comes: so that others can refer to it."""

    type: str
    title: str


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An edge to an entity that is exported, too."""

    id: str
    rel: str
    target: str
    attrs: dict[str, Any]
    text: str | None = None
    at: str
    untrusted: dict[str, Any] | None = None
    stale: dict[str, Any] | None = None


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    type: str
    title: str
    attrs: dict[str, Any]
    text: str | None = None
    """What a vocabulary keeps beside the attributes."""
    created_by: str
    updated_by: str
    at: str
    """When it was written last."""
    position: int
    commit_id: str
    links: tuple[Link, ...] = ()
    """The edges that begin here, oldest first."""
    untrusted: dict[str, Any] | None = None
    """The recall that stands against it: {recall, reason}."""
    stale: dict[str, Any] | None = None
    """{why, since, superseded_by?, files?}"""


class Graph(msgspec.Struct, frozen=True):
    """All that is exported, before the first entity comes."""

    names: Mapping[str, Named]
    """By id, in the order in which the entities come."""
    position: int
    at: str
    """The time of the commit at that position."""
    project: str | None = None


class Loss(msgspec.Struct):
    """What a form cannot hold, or holds differently."""

    what: str
    reason: str
    count: int | None = None
    """None where it goes for all that is exported."""
    examples: list[str] = msgspec.field(default_factory=list)


class Losses:
    def __init__(self) -> None:
        self._losses: dict[tuple[str, str], Loss] = {}

    def note(self, what: str, reason: str, example: str | None = None) -> None:
        loss = self._losses.setdefault((what, reason), Loss(what, reason, 0))
        loss.count = (loss.count or 0) + 1
        if example is not None and len(loss.examples) < EXAMPLES:
            loss.examples.append(example)

    def note_always(self, what: str, reason: str) -> None:
        self._losses.setdefault((what, reason), Loss(what, reason))

    def listed(self) -> list[Loss]:
        return list(self._losses.values())


class Writer(Protocol):
    def add(self, entity: Entity) -> None: ...

    def finish(self) -> None:
        """Called once, after the last entity."""
        ...


class FileExporter(Protocol):
    """A form that is one file. A module fulfils it."""

    def open_writer(self, graph: Graph, output: BinaryIO, losses: Losses) -> Writer: ...


class DirectoryExporter(Protocol):
    """A form that is a directory. A module fulfils it."""

    def open_writer(self, graph: Graph, output: Directory, losses: Losses) -> Writer: ...


def title_of(entity_id: str, attrs: Mapping[str, Any]) -> str:
    """In one line."""
    for name in _TITLES:
        said = attrs.get(name)
        if isinstance(said, str) and (line := one_line(said)):
            return line
    return one_line(entity_id) or "?"


def one_line(text: str, most: int = TITLE_CHARACTERS_MAX) -> str:
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"
