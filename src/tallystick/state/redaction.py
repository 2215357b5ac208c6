"""The redaction of a node or an edge: which words go, in its document and in every earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from tallystick.commits import Verb, chain, mask
from tallystick.commits.canonical import parse
from tallystick.errors import NotFound
from tallystick.state import Redaction
from tallystick.state.columns import Columns
from tallystick.state.documents import read_line


def plan(columns: Columns, node_id: str, fields: Sequence[str] | None) -> Redaction:
    """Masks for every UPSERT_NODE of the node that still says something of the fields. Reads all of them.

    Raises NotFound for a node that never was; one that was deleted can still be redacted.
    """
    handle = columns.nodes.handles.get(node_id)
    if handle is None:
        raise NotFound(f"there is no node '{node_id}'", details={"entity_id": node_id})
    return _plan(columns, columns.nodes.last[handle], fields)


def plan_edge(columns: Columns, handle: int, fields: Sequence[str] | None) -> Redaction:
    """The same for an edge, dead or alive."""
    return _plan(columns, columns.edges.last[handle], fields)


def _plan(columns: Columns, last: int, fields: Sequence[str] | None) -> Redaction:
    mask.paths_of(fields)
    redacts: dict[str, str] = {}
    masks: dict[int, bytes] = {}
    for seq in columns.history.chain(last):
        offset = columns.history.offset[seq]
        line = columns.stored(seq)
        read = read_line(line)
        if read.operation not in (Verb.UPSERT_NODE, Verb.UPSERT_EDGE):
            continue
        masked = _masked_payload(line, fields)
        if masked is not None:
            masks[offset] = masked
            redacts[str(read.lamport)] = sha256(masked).hexdigest()
    return Redaction(redacts, masks)


def left_by(line: bytes, fields: Sequence[str] | None) -> bytes:
    """The line as a redaction leaves it, whether or not the log has been masked yet."""
    masked = _masked_payload(line, fields)
    return line if masked is None else chain.mask(line, masked)


def _masked_payload(line: bytes, fields: Sequence[str] | None) -> bytes | None:
    """None when nothing is left to mask."""
    payload = chain.payload_of(line)
    masked = mask.fitted(mask.redact(parse(mask.unabridged(payload)), fields), chain.room_of(line))
    return None if masked == payload else masked
