"""The redaction of a node or an edge: which words go, in its document and in every earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from tallystick.commits import Verb, chain, mask
from tallystick.errors import NotFound
from tallystick.state import Breathing, Redacts
from tallystick.state.columns import Columns
from tallystick.state.documents import read_line


def plan(columns: Columns, node_id: str, fields: Sequence[str] | None) -> Breathing[Redacts]:
    """Of every UPSERT_NODE of the node that still says something of the fields. Reads all of them.

    Raises NotFound for a node that never was; one that was deleted can still be redacted.
    """
    handle = columns.nodes.handles.get(node_id)
    if handle is None:
        raise NotFound(f"there is no node '{node_id}'", details={"entity_id": node_id})
    return (yield from _plan(columns, columns.nodes.last[handle], fields))


def plan_edge(columns: Columns, handle: int, fields: Sequence[str] | None) -> Breathing[Redacts]:
    """The same for an edge, dead or alive."""
    return _plan(columns, columns.edges.last[handle], fields)


def _plan(columns: Columns, last: int, fields: Sequence[str] | None) -> Breathing[Redacts]:
    mask.paths_of(fields)
    redacts: Redacts = {}
    for seq in columns.history.chain(last):
        yield
        line = columns.stored(seq)
        read = read_line(line)
        if read.operation not in (Verb.UPSERT_NODE, Verb.UPSERT_EDGE):
            continue
        left = chain.redacted_payload(line, fields)
        if left is not None:
            redacts[str(read.lamport)] = sha256(left).hexdigest()
    return redacts


def left_by(line: bytes, fields: Sequence[str] | None) -> bytes:
    """The line as a redaction leaves it, whether or not the log has been masked yet."""
    left = chain.redacted_payload(line, fields)
    return line if left is None else chain.mask(line, left)
