"""The payloads of commits, as far as the views show them."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.commits.canonical import restore_doubles
from tallystick.commits.mask import unabridged


class NodePayload(msgspec.Struct, frozen=True):
    id: str
    type: str
    attrs: dict[str, Any] = {}
    content: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        restore_doubles(self.attrs)


class EdgePayload(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    source: str
    rel: str
    target: str
    attrs: dict[str, Any] = {}
    id: str | None = None
    content: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        restore_doubles(self.attrs)

    @property
    def name(self) -> str:
        if self.id is not None:
            return self.id
        return "|".join(part.replace("\\", "\\\\").replace("|", "\\|") for part in (self.source, self.rel, self.target))


class Target(msgspec.Struct, frozen=True):
    """Of DELETE_NODE and REDACT_NODE."""

    node_id: str


class Extent(msgspec.Struct, frozen=True):
    """Of a redaction: how much of its entity goes."""

    redacted_fields: list[str] | None = None


_node = msgspec.json.Decoder(NodePayload).decode
_edge = msgspec.json.Decoder(EdgePayload).decode
read_target = msgspec.json.Decoder(Target).decode
read_extent = msgspec.json.Decoder(Extent).decode


def read_node(payload: bytes) -> NodePayload:
    return _node(unabridged(payload))


def read_edge(payload: bytes) -> EdgePayload:
    return _edge(unabridged(payload))


class Content(msgspec.Struct, frozen=True):
    """What a payload's `content` says, in the terms of a file."""

    format: str
    encoding: str
    digest: str
    """SHA-256 of the bytes that the file should hold."""
    blob: str | None
