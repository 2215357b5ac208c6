"""What a memory.write asks for: what must be given, what it is done to, and what is said of that.

All of this is known before the head is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from tallystick.commits.canonical import canonical_bytes
from tallystick.commits.mask import is_field
from tallystick.commits.payloads import edge_name
from tallystick.errors import InvalidArgument
from tallystick.policy import Action
from tallystick.store import Target
from tallystick.toolsets.memory.arguments import EdgeArgument, WriteArguments, WriteOperation, required
from tallystick.toolsets.memory.draft_graph import Payload

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

REQUIRED: dict[str, tuple[str, ...]] = {
    "UPSERT_NODE": ("node",),
    "UPSERT_EDGE": ("edge",),
    "PATCH_NODE": ("node",),
    "PATCH_EDGE": ("edge",),
    "DELETE_NODE": ("node_id",),
    "DELETE_EDGE": (),
    "REDACT_NODE": ("node_id", "reason"),
    "REDACT_EDGE": ("reason",),
}


def problems_of(asked: WriteArguments, placed: Placed) -> list[str]:
    if asked.op is None and asked.ops is None:
        return [required("op")]
    found: list[str] = []
    for operation, place in placed:
        within = "" if place is None else f"{place}."
        found += _problems_of_operation(operation, within, has_reason=asked.reason is not None)
    return found


def _problems_of_operation(asked: WriteOperation, within: str, *, has_reason: bool) -> list[str]:
    """A reason for the whole call is one for each of its operations."""
    found: list[str] = []
    for name in REQUIRED[asked.op]:
        if getattr(asked, name) is None and not (name == "reason" and has_reason):
            found.append(required(within + name))
    if asked.op in EXTRA:
        found += EXTRA[asked.op](asked, within)
    return found


def _problems_of_node(asked: WriteOperation, within: str) -> list[str]:
    if asked.node is None:
        return []
    found: list[str] = []
    if asked.node.type is None and asked.op == "UPSERT_NODE":
        found.append(required(f"{within}node.type"))
    if asked.node.attrs is None:
        found.append(required(f"{within}node.attrs"))
    return found


def _problems_of_upsert_edge(asked: WriteOperation, within: str) -> list[str]:
    if asked.edge and asked.edge.id and "|" in asked.edge.id:
        return [f"field '{within}edge.id' must not contain '|', which the ids made from from|rel|to do"]
    return []


def _problems_of_patch_edge(asked: WriteOperation, within: str) -> list[str]:
    missing = asked.edge is not None and asked.edge.attrs is None
    return _problems_of_upsert_edge(asked, within) + ([required(f"{within}edge.attrs")] if missing else [])


def _problems_of_edge_name(asked: WriteOperation, within: str) -> list[str]:
    if asked.edge is None and asked.edge_id is None:
        return [f"field '{within}edge' or '{within}edge_id' is required"]
    if asked.edge is not None and asked.edge_id is not None:
        return [f"fields '{within}edge' and '{within}edge_id' cannot both name the edge"]
    if asked.edge is not None and (asked.edge.attrs is not None or asked.edge.id is not None):
        return [f"field '{within}edge' of {asked.op} holds from, rel and to only"]
    return []


def _problems_of_redact(asked: WriteOperation, within: str) -> list[str]:
    return [
        f"field '{within}redacted_fields': '{field}' must be attrs or attrs.<key>"
        for field in asked.redacted_fields or ()
        if not is_field(field)
    ]


EXTRA: dict[str, Callable[[WriteOperation, str], list[str]]] = {
    "UPSERT_NODE": _problems_of_node,
    "UPSERT_EDGE": _problems_of_upsert_edge,
    "PATCH_NODE": _problems_of_node,
    "PATCH_EDGE": _problems_of_patch_edge,
    "DELETE_EDGE": _problems_of_edge_name,
    "REDACT_NODE": _problems_of_redact,
    "REDACT_EDGE": lambda asked, within: _problems_of_edge_name(asked, within) + _problems_of_redact(asked, within),
}


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
