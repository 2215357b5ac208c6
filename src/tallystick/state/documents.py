"""The documents: what stored lines say, as far as the state wants to know."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.commits import Verb, chain
from tallystick.commits.canonical import restore_doubles
from tallystick.commits.mask import ABRIDGED_IN_LINE, unabridged


class NodeDocument(msgspec.Struct, gc=False, frozen=True):
    id: str
    type: str
    attrs: dict[str, Any] = {}
    content: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        restore_doubles(self.attrs)


class EdgeDocument(msgspec.Struct, gc=False, frozen=True, rename={"source": "from", "target": "to"}):
    source: str
    rel: str
    target: str
    attrs: dict[str, Any] = {}
    id: str | None = None
    """Only when its author chose one."""
    content: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        restore_doubles(self.attrs)

    def name(self) -> str:
        return self.id if self.id is not None else edge_name(self.source, self.rel, self.target)


class NodeTarget(msgspec.Struct, gc=False, frozen=True):
    """Of DELETE_NODE and REDACT_NODE."""

    node_id: str
    redacted_fields: list[str] | None = None


class Extent(msgspec.Struct, gc=False, frozen=True):
    """Of a redaction: how much of its entity goes."""

    redacted_fields: list[str] | None = None


class NodeLine(msgspec.Struct, gc=False, frozen=True):
    """The line of an UPSERT_NODE."""

    lamport: int
    commit_id: str
    timestamp: str
    actor: str
    operation: Verb
    content_hash: str
    payload: NodeDocument


class EdgeLine(msgspec.Struct, gc=False, frozen=True):
    """The line of any commit on an edge; all of them name it, and an UPSERT_EDGE holds its document."""

    lamport: int
    commit_id: str
    timestamp: str
    actor: str
    operation: Verb
    content_hash: str
    payload: EdgeDocument


class Line(msgspec.Struct, gc=False, frozen=True):
    """Any line; its payload is left for whoever knows the verb."""

    lamport: int
    commit_id: str
    timestamp: str
    actor: str
    operation: Verb
    content_hash: str
    record_hash: str
    payload: msgspec.Raw
    nonce: str | None = None
    redacts: dict[str, str] | None = None


class Stamp(msgspec.Struct, gc=False, frozen=True):
    timestamp: str


_node_line = msgspec.json.Decoder(NodeLine).decode
_edge_line = msgspec.json.Decoder(EdgeLine).decode
read_line = msgspec.json.Decoder(Line).decode
read_stamp = msgspec.json.Decoder(Stamp).decode
_node = msgspec.json.Decoder(NodeDocument).decode
_edge = msgspec.json.Decoder(EdgeDocument).decode
read_target = msgspec.json.Decoder(NodeTarget).decode
read_extent = msgspec.json.Decoder(Extent).decode


def read_node(payload: bytes) -> NodeDocument:
    return _node(unabridged(payload))


def read_edge(payload: bytes) -> EdgeDocument:
    return _edge(unabridged(payload))


def read_node_line(line: bytes) -> NodeLine:
    said = _node_line(line)
    if said.payload.attrs or ABRIDGED_IN_LINE not in line:
        return said
    return msgspec.structs.replace(said, payload=read_node(chain.payload_of(line)))


def read_edge_line(line: bytes) -> EdgeLine:
    said = _edge_line(line)
    if said.payload.attrs or ABRIDGED_IN_LINE not in line:
        return said
    return msgspec.structs.replace(said, payload=read_edge(chain.payload_of(line)))


def edge_name(source: str, rel: str, target: str) -> str:
    """The id of an edge that was given none: `from|rel|to`, with `|` and `\\` escaped by `\\`."""
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
