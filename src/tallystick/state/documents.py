"""The stored lines, decoded as far as the state wants to know."""

from __future__ import annotations

import msgspec

from tallystick.commits import Verb, chain
from tallystick.commits.mask import ABRIDGED_IN_LINE
from tallystick.commits.payloads import EdgePayload, NodePayload, read_edge, read_node


class NodeLine(msgspec.Struct, gc=False, frozen=True):
    """The line of an UPSERT_NODE."""

    lamport: int
    commit_id: str
    timestamp: str
    actor: str
    operation: Verb
    content_hash: str
    payload: NodePayload


class EdgeLine(msgspec.Struct, gc=False, frozen=True):
    """The line of any commit on an edge; all of them name it, and an UPSERT_EDGE holds its document."""

    lamport: int
    commit_id: str
    timestamp: str
    actor: str
    operation: Verb
    content_hash: str
    payload: EdgePayload


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
