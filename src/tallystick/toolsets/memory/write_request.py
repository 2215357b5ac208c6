"""What a memory.write asks for: what must be given, what it is done to, and what is said of that.

All of this is known before the head is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from tallystick.commits.canonical import canonical_bytes
from tallystick.commits.payloads import edge_name
from tallystick.engine.store import Target
from tallystick.errors import InvalidArgument
from tallystick.policy import Action
from tallystick.toolsets.memory.arguments import EdgeArgument, WriteArguments, WriteOperation
from tallystick.toolsets.memory.draft_graph import Payload
from tallystick.toolsets.memory.operation_problems import problems_of_operation

PAYLOAD_BYTES_MAX = 1024 * 1024
PATCHES = frozenset({"PATCH_NODE", "PATCH_EDGE"})
CHANGES = PATCHES | {"UPSERT_NODE", "UPSERT_EDGE"}
REDACTS = frozenset({"REDACT_NODE", "REDACT_EDGE"})

Placed = Sequence[tuple[WriteOperation, str | None]]
"""Each operation, and how refusals name it."""


def placed_operations(asked: WriteArguments) -> Placed:
    if asked.ops is None:
        return [(asked, None)]
    return [(operation, f"ops[{number}]") for number, operation in enumerate(asked.ops)]


# -- what must be given


def problems_of(asked: WriteArguments, placed: Placed) -> list[str]:
    return [
        problem
        for operation, place in placed
        for problem in problems_of_operation(operation, "" if place is None else f"{place}.", asked)
    ]


# -- what it is done to


def target_of(asked: WriteOperation, place: str | None) -> Target:
    """A merge and a condition show what is there; whatever else is written shows only where."""
    return Target(
        Action.WRITE if asked.op in CHANGES else Action.DELETE,
        resource_of(asked),
        _written_type_of(asked),
        asked.op not in PATCHES and asked.if_commit is None,
        place,
        asked.op.endswith("_EDGE"),
    )


def resource_of(asked: WriteOperation) -> str:
    if asked.node is not None:
        return asked.node.id
    if asked.edge is not None:
        return asked.edge.id or edge_name(*triple_of(asked.edge))
    return asked.node_id or asked.edge_id or ""


def _written_type_of(asked: WriteOperation) -> str | None:
    if asked.op == "UPSERT_NODE" and asked.node is not None:
        return asked.node.type
    return asked.edge.rel if asked.op == "UPSERT_EDGE" and asked.edge is not None else None


def triple_of(edge: EdgeArgument) -> tuple[str, str, str]:
    return edge.source, edge.rel, edge.to


# -- what is said of it


def payload_of(asked: WriteOperation) -> Payload:
    return PAYLOADS[asked.op](asked)


def _node_payload(asked: WriteOperation) -> Payload:
    assert asked.node is not None
    return {"id": asked.node.id, "type": asked.node.type, "attrs": asked.node.attrs}


def _edge_payload(asked: WriteOperation) -> Payload:
    assert asked.edge is not None
    source, rel, target = triple_of(asked.edge)
    payload: Payload = {"from": source, "rel": rel, "to": target, "attrs": asked.edge.attrs or {}}
    return payload | ({"id": asked.edge.id} if asked.edge.id else {})


def _redact_payload(asked: WriteOperation) -> Payload:
    named = _edge_name(asked) if asked.op == "REDACT_EDGE" else {"node_id": asked.node_id}
    payload: Payload = {**named, "reason": asked.reason}
    if asked.redacted_fields is not None:
        payload["redacted_fields"] = asked.redacted_fields
    if asked.original_commit_id is not None:
        payload["original_commit_id"] = asked.original_commit_id
    return payload


def _edge_name(asked: WriteOperation) -> Payload:
    """Empty when the edge is named by its id: only the head knows which one that is."""
    if asked.edge is None:
        return {}
    return dict(zip(("from", "rel", "to"), triple_of(asked.edge), strict=True))


PAYLOADS: dict[str, Callable[[WriteOperation], Payload]] = {
    "UPSERT_NODE": _node_payload,
    "UPSERT_EDGE": _edge_payload,
    "PATCH_NODE": _node_payload,
    "PATCH_EDGE": _edge_payload,
    "DELETE_NODE": lambda asked: {"node_id": asked.node_id},
    "DELETE_EDGE": _edge_name,
    "REDACT_NODE": _redact_payload,
    "REDACT_EDGE": _redact_payload,
}


def request_hash(asked: WriteArguments) -> str:
    """Of what is asked to be done: not by whom, in which run or why, unless why is part of what is written."""
    sent = [_encoded(operation, place) for operation, place in placed_operations(asked)]
    return sha256(sent[0] if asked.ops is None else b'{"ops":[%b]}' % b",".join(sent)).hexdigest()


def _encoded(asked: WriteOperation, place: str | None) -> bytes:
    said = asked.model_dump(by_alias=True, exclude_none=True, exclude=None if asked.op in REDACTS else {"reason"})
    aside = ("nonce", "actor", "run_context", "ops", "receipt")
    try:
        return canonical_bytes({name: value for name, value in said.items() if name not in aside})
    except InvalidArgument as error:
        raise error.at(place) from None
