"""The payloads of commits, as far as the views show them."""

from __future__ import annotations

from typing import Any

import msgspec

REDACTED = "[REDACTED]"


class NodePayload(msgspec.Struct, frozen=True):
    id: str
    type: str
    attrs: dict[str, Any] = {}
    content: dict[str, Any] | None = None


class EdgePayload(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    source: str
    rel: str
    target: str
    attrs: dict[str, Any] = {}
    id: str | None = None
    content: dict[str, Any] | None = None

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

    @property
    def attributes(self) -> list[str]:
        """The attributes that were named one by one, without what is below them."""
        return [
            field[6:] for field in self.redacted_fields or () if field.startswith("attrs.") and field.count(".") == 1
        ]


read_node = msgspec.json.Decoder(NodePayload).decode
read_edge = msgspec.json.Decoder(EdgePayload).decode
read_target = msgspec.json.Decoder(Target).decode
read_extent = msgspec.json.Decoder(Extent).decode


class Content(msgspec.Struct, frozen=True):
    """What a payload's `content` says, in the terms of a file."""

    format: str
    encoding: str
    digest: str
    """SHA-256 of the bytes that the file should hold."""
    blob: str | None
