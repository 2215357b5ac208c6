"""The places: what a path stands for, and what may be done there.

<anything else>              plain files: everything is allowed
_content/nodes/*             views of contents: to be read, and edited as text
_content/connections/*
_system/registry.json        views: to be read
_system/ontology.yaml
every other name that begins with _ or ., tenants, graph.db, the settings
                             the store's own: neither read nor written here
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.projections.content import Kind
from tallystick.projections.reserved_files import is_own
from tallystick.projections.sandboxed_files import Parts, is_unfinished, parts_of

_SHOWN: frozenset[Parts] = frozenset(
    {
        (),
        ("_system",),
        ("_system", "registry.json"),
        ("_system", "ontology.yaml"),
        ("_content",),
        ("_content", "nodes"),
        ("_content", "connections"),
    }
)


Entity = tuple[Kind, str]


class Place(msgspec.Struct, frozen=True):
    parts: Parts
    rule: Literal["plain", "content", "shown"]
    entity: Entity | None = None
    """Whose content it is, where the views know it."""

    @property
    def path(self) -> str:
        return "/".join(self.parts)

    @property
    def resource(self) -> str:
        """What the policy is asked about."""
        return self.entity[1] if self.entity is not None else f"file:{self.path}"


def place_of(path: str) -> Place:
    """Raises InvalidArgument with code PATH_NOT_ALLOWED or PATH_RESERVED."""
    parts = parts_of(path)
    if parts in _SHOWN:
        return Place(parts, "shown")
    if len(parts) == 3 and parts[0] == "_content" and parts[1] in ("nodes", "connections"):
        if is_unfinished(parts[-1]):
            raise _reserved(parts)
        return Place(parts, "content")
    if is_own(parts):
        raise _reserved(parts)
    return Place(parts, "plain")


def check_not_own(parts: Parts) -> None:
    """Of what goes with a directory. What a crash left of a file that was being written is nobody's."""
    if is_own(parts) and not is_unfinished(parts[-1]):
        raise _reserved(parts)


def check_plain(place: Place, verb: str) -> None:
    """Raises unless it is a plain file or directory below the base."""
    if place.rule == "plain":
        return
    if place.rule == "content":
        raise InvalidArgument(
            f"'{place.path}' is the content of a memory: it cannot be {verb} as a file",
            code="PATH_RESERVED",
            hint="use create_node, update_node and delete_node; str_replace and insert edit its text",
        )
    raise _reserved(place.parts)


def _reserved(parts: Parts) -> InvalidArgument:
    return InvalidArgument(
        f"'{'/'.join(parts) or '.'}' belongs to the store itself",
        code="PATH_RESERVED",
        hint="choose another name; _system/registry.json, _system/ontology.yaml and _content can be viewed",
    )
