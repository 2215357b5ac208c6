"""The payloads: what the operation of each verb says, and the names of edges.

    UPSERT_NODE  NodePayload    the whole node; replaces what was there
    UPSERT_EDGE  EdgePayload    the whole edge; `id` only if the caller chose one
    DELETE_NODE  TargetPayload
    DELETE_EDGE  EdgePayload    without attrs
    REDACT_NODE  TargetPayload  how much goes is its `Extent`
    REDACT_EDGE  EdgePayload    without attrs; the same

Readers ignore members that they do not name, so that a payload may say more (`reason`,
`original_commit_id`). They raise msgspec.MsgspecError for what is no such payload.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.commits.canonical import restore_doubles
from tallystick.commits.mask import unabridged


class NodePayload(msgspec.Struct, gc=False, frozen=True):
    id: str
    type: str
    attrs: dict[str, Any] = {}
    content: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.attrs:
            restore_doubles(self.attrs)


class EdgePayload(msgspec.Struct, gc=False, frozen=True, rename={"source": "from", "target": "to"}):
    source: str
    rel: str
    target: str
    attrs: dict[str, Any] = {}
    id: str | None = None
    """Only when its author chose one."""
    content: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.attrs:
            restore_doubles(self.attrs)

    @property
    def name(self) -> str:
        return self.id if self.id is not None else edge_name(self.source, self.rel, self.target)


class TargetPayload(msgspec.Struct, gc=False, frozen=True):
    node_id: str
    redacted_fields: list[str] | None = None


class Extent(msgspec.Struct, gc=False, frozen=True):
    """Of a redaction: how much of its entity goes; None stands for all of it."""

    redacted_fields: list[str] | None = None
    supersedes: list[str] | None = None
    """The entities that the node still supersedes: their ids are not among what goes."""

    @property
    def takes_content(self) -> bool:
        return self.redacted_fields is None


_node = msgspec.json.Decoder(NodePayload).decode
_edge = msgspec.json.Decoder(EdgePayload).decode
read_target = msgspec.json.Decoder(TargetPayload).decode
read_extent = msgspec.json.Decoder(Extent).decode


def read_node(payload: bytes) -> NodePayload:
    return _node(unabridged(payload))


def read_edge(payload: bytes) -> EdgePayload:
    return _edge(unabridged(payload))


def edge_name(source: str, rel: str, target: str) -> str:
    """The id of an edge that was given none: `from|rel|to`, with `|` and `\\` escaped by `\\`."""
    plain = f"{source}|{rel}|{target}"
    if plain.count("|") == 2 and "\\" not in plain:
        return plain
    return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in (source, rel, target))


def edge_triple(name: str) -> tuple[str, str, str] | None:
    """What `edge_name` was made of; None when it is no such name."""
    parts = [""]
    letters = iter(name)
    for letter in letters:
        if letter == "|":
            parts.append("")
        else:
            parts[-1] += next(letters, "") if letter == "\\" else letter
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def name_of_edge(said: dict[str, Any]) -> str:
    """The name that a payload gives its edge, read or yet to be written."""
    return said["id"] if said.get("id") is not None else edge_name(said["from"], said["rel"], said["to"])
