"""memory.write: one operation on a node or an edge, checked at the head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.commits import Commit, Draft, Operation, Verb
from tallystick.commits.canonical import canonical_bytes
from tallystick.commits.chain import content_hash
from tallystick.commits.mask import is_field
from tallystick.commits.payloads import edge_name, name_of_edge
from tallystick.errors import Conflict, LimitExceeded, NotFound
from tallystick.partition import Receipt
from tallystick.policy import Action, Principal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.memory.arguments import EdgeArgument, WriteArguments, refuse, required

if TYPE_CHECKING:
    from tallystick.store import Store

TOOL = "memory.write"
PAYLOAD_BYTES_MAX = 1024 * 1024


async def write(store: Store, principal: Principal, asked: WriteArguments) -> Answer:
    refuse(problems_of(asked))
    action = Action.WRITE if asked.op.startswith("UPSERT") else Action.DELETE
    author = speaker(principal, asked.actor)
    if author is None:
        await store.refuse_actor(principal, action, resource_of(asked), asked.actor or "")
    said = PAYLOADS[asked.op](asked)
    check_size(said)
    readable: list[bool] = []

    def propose(state: State, read_filter: ReadFilter) -> Draft | Commit:
        payload = _with_whole_commit_id(state, said)
        written = find_written(state, author.actor, asked, payload)
        if written is not None:
            readable[:] = [False] if read_filter.narrows else []
            return written
        if asked.op in EDGE_CHECKS:
            EDGE_CHECKS[asked.op](state, read_filter, asked)
        check_not_reserved(state, read_filter, asked, payload)
        draft = DRAFTS[asked.op](state, author.actor, asked, payload)
        readable[:] = (
            [_may_count(read_filter, operation) for operation in draft.operations] if read_filter.narrows else []
        )
        return draft

    receipt = await store.write(
        author, action, propose, resource=resource_of(asked), written_type=written_type_of(asked), blindly=True
    )
    return Answer(receipt_of(receipt, readable))


# -- what is asked

REQUIRED: dict[str, tuple[str, ...]] = {
    "UPSERT_NODE": ("node",),
    "UPSERT_EDGE": ("edge",),
    "DELETE_NODE": ("node_id",),
    "DELETE_EDGE": (),
    "REDACT_NODE": ("node_id", "reason"),
    "REDACT_EDGE": ("reason",),
}


def problems_of(asked: WriteArguments) -> list[str]:
    found = [required(field) for field in REQUIRED[asked.op] if getattr(asked, field) is None]
    return found + (EXTRA[asked.op](asked) if asked.op in EXTRA else [])


def _problems_of_upsert_edge(asked: WriteArguments) -> list[str]:
    if asked.edge and asked.edge.id and "|" in asked.edge.id:
        return ["field 'edge.id' must not contain '|', which the ids made from from|rel|to do"]
    return []


def _problems_of_edge_name(asked: WriteArguments) -> list[str]:
    if asked.edge is None and asked.edge_id is None:
        return ["field 'edge' or 'edge_id' is required"]
    if asked.edge is not None and asked.edge_id is not None:
        return ["fields 'edge' and 'edge_id' cannot both name the edge"]
    if asked.edge is not None and (asked.edge.attrs is not None or asked.edge.id is not None):
        return [f"field 'edge' of {asked.op} holds from, rel and to only"]
    return []


def _problems_of_redact(asked: WriteArguments) -> list[str]:
    return [
        f"field 'redacted_fields': '{field}' must be attrs or attrs.<key>"
        for field in asked.redacted_fields or ()
        if not is_field(field)
    ]


EXTRA: dict[str, Callable[[WriteArguments], list[str]]] = {
    "UPSERT_EDGE": _problems_of_upsert_edge,
    "DELETE_EDGE": _problems_of_edge_name,
    "REDACT_NODE": _problems_of_redact,
    "REDACT_EDGE": lambda asked: _problems_of_edge_name(asked) + _problems_of_redact(asked),
}


def speaker(principal: Principal, actor: str | None) -> Principal | None:
    """A proven identity cannot be argued away, then None; where nobody proves one, the caller may name itself."""
    if actor is None or actor == principal.actor:
        return principal
    return msgspec.structs.replace(principal, actor=actor) if principal.trusted else None


def resource_of(asked: WriteArguments) -> str:
    if asked.node is not None:
        return asked.node.id
    if asked.edge is not None:
        return asked.edge.id or edge_name(*triple_of(asked.edge))
    return asked.node_id or asked.edge_id or ""


def written_type_of(asked: WriteArguments) -> str | None:
    if asked.op == "UPSERT_NODE" and asked.node is not None:
        return asked.node.type
    return asked.edge.rel if asked.op == "UPSERT_EDGE" and asked.edge is not None else None


def triple_of(edge: EdgeArgument) -> tuple[str, str, str]:
    return edge.source, edge.rel, edge.to


# -- what is written for it

Payload = dict[str, Any]


def _node_payload(asked: WriteArguments) -> Payload:
    assert asked.node is not None
    return {"id": asked.node.id, "type": asked.node.type, "attrs": asked.node.attrs}


def _edge_payload(asked: WriteArguments) -> Payload:
    assert asked.edge is not None
    source, rel, target = triple_of(asked.edge)
    payload: Payload = {"from": source, "rel": rel, "to": target, "attrs": asked.edge.attrs or {}}
    return payload | ({"id": asked.edge.id} if asked.edge.id else {})


def _redact_payload(asked: WriteArguments) -> Payload:
    named = _edge_name(asked) if asked.op == "REDACT_EDGE" else {"node_id": asked.node_id}
    payload: Payload = {**named, "reason": asked.reason}
    if asked.redacted_fields is not None:
        payload["redacted_fields"] = asked.redacted_fields
    if asked.original_commit_id is not None:
        payload["original_commit_id"] = asked.original_commit_id
    return payload


def _with_whole_commit_id(state: State, payload: Payload) -> Payload:
    """What is written down names the commit in full, however much of its id was given."""
    given = payload.get("original_commit_id")
    return payload if given is None else payload | {"original_commit_id": state.commit_id(given) or given}


def _edge_name(asked: WriteArguments) -> Payload:
    """Empty when the edge is named by its id: only the head knows which one that is."""
    if asked.edge is None:
        return {}
    return dict(zip(("from", "rel", "to"), triple_of(asked.edge), strict=True))


PAYLOADS: dict[str, Callable[[WriteArguments], Payload]] = {
    "UPSERT_NODE": _node_payload,
    "UPSERT_EDGE": _edge_payload,
    "DELETE_NODE": lambda asked: {"node_id": asked.node_id},
    "DELETE_EDGE": _edge_name,
    "REDACT_NODE": _redact_payload,
    "REDACT_EDGE": _redact_payload,
}


def check_size(payload: Payload) -> None:
    size = len(canonical_bytes(payload))
    if size > PAYLOAD_BYTES_MAX:
        raise LimitExceeded(
            f"the payload has {size:,} bytes, the limit is {PAYLOAD_BYTES_MAX:,}",
            code="PAYLOAD_TOO_LARGE",
            hint="keep large content elsewhere and write a reference to it, or split it over several nodes",
            details={"bytes": size, "bytes_max": PAYLOAD_BYTES_MAX},
        )


# -- whose it is

RESERVED = ("work/", "knowledge/", "tasks/", "trust/")
"""Types whose rules live elsewhere; the ontology's own are guarded wherever they are written."""


def check_not_reserved(state: State, read_filter: ReadFilter, asked: WriteArguments, payload: Payload) -> None:
    """Reading and lineage are for every entity; writing goes by the rules of its own vocabulary. Erasure must not."""
    if asked.op.startswith("REDACT"):
        return
    said = payload or state.edge_name(asked.edge_id or "") or {}
    for node_id in (said[name] for name in ("id", "node_id", "from") if name in said):
        known = state.owner(node_id)
        if known is not None and known[0].startswith(RESERVED):
            raise _reserved(known[0]) if read_filter.allows(node_id) else _taken(node_id)
    if payload.get("type", "").startswith(RESERVED):
        raise _reserved(payload["type"])


def _reserved(kind: str) -> Conflict:
    toolset = kind.partition("/")[0]
    return Conflict(
        f"'{kind}' belongs to the {toolset} toolset, which writes it by its own rules",
        code="RESERVED_TYPE",
        hint=f"use the tools of toolset '{toolset}', or another type",
    )


def _taken(node_id: str) -> Conflict:
    """By what the caller may not read: not what it is, only that the id is not free."""
    return Conflict(f"the id '{node_id}' is taken", code="RESERVED_TYPE", hint="use another id")


# -- written before?


def find_written(state: State, actor: str, asked: WriteArguments, payload: Payload) -> Commit | None:
    """The commit that this nonce stands for. Asked before anything else, so that a retried delete finds itself."""
    commit = state.nonce(actor, asked.nonce) if asked.nonce is not None else None
    if commit is None or _says_the_same(commit, asked, payload):
        return commit
    raise Conflict(
        f"nonce '{asked.nonce}' was used by actor '{actor}' for another write",
        code="NONCE_REUSED",
        hint="a nonce belongs to one write: use a new one",
        details={"commit_id": commit.commit_id, "lamport": commit.lamport},
    )


def _says_the_same(commit: Commit, asked: WriteArguments, payload: Payload) -> bool:
    if commit.operation != asked.op:
        return False
    if asked.edge_id is not None:
        said = commit.document()
        is_it = asked.edge_id == name_of_edge(said)
        return is_it and all(said.get(name) == value for name, value in payload.items())
    return commit.content_hash == content_hash(payload)


# -- drafts


def _upsert_node(state: State, actor: str, asked: WriteArguments, payload: Payload) -> Draft:
    return _draft(actor, asked, Operation(Verb.UPSERT_NODE, payload, nonce=asked.nonce))


def _check_ends(state: State, read_filter: ReadFilter, asked: WriteArguments) -> None:
    """What may not be read is missing, too."""
    assert asked.edge is not None
    ends = dict.fromkeys((asked.edge.source, asked.edge.to))
    missing = [each for each in ends if state.owner(each) is None or not read_filter.allows(each)]
    if missing:
        raise NotFound(
            "no node " + " and no node ".join(f"'{node_id}'" for node_id in missing),
            hint="write both ends of an edge before the edge",
            details={"missing": missing},
        )


def _check_joins(state: State, read_filter: ReadFilter, asked: WriteArguments) -> None:
    """An edge to what may not be read is not there."""
    if not read_filter.allows_edge(resource_of(asked)):
        raise _no_edge(asked)


EDGE_CHECKS: dict[str, Callable[[State, ReadFilter, WriteArguments], None]] = {
    "UPSERT_EDGE": _check_ends,
    "DELETE_EDGE": _check_joins,
    "REDACT_EDGE": _check_joins,
}


def _upsert_edge(state: State, actor: str, asked: WriteArguments, payload: Payload) -> Draft:
    _check_edge_id(state, payload)
    return _draft(actor, asked, Operation(Verb.UPSERT_EDGE, payload, nonce=asked.nonce))


def _check_edge_id(state: State, payload: Payload) -> None:
    """A chosen id belongs to its ends for good: lineage by that id must be one history."""
    held = state.edge_name(payload["id"]) if "id" in payload else None
    if held is not None and any(held[end] != payload[end] for end in ("from", "rel", "to")):
        # Not whose it is: its ends may be what the caller may not read.
        raise Conflict(
            f"the edge id '{held['id']}' is taken by another edge",
            code="EDGE_ID_TAKEN",
            hint="leave out 'edge.id', or choose another",
        )


def _delete_node(state: State, actor: str, asked: WriteArguments, payload: Payload) -> Draft:
    if state.owner(payload["node_id"]) is None:
        raise NotFound(f"no node '{payload['node_id']}'")
    edges = (Operation(Verb.DELETE_EDGE, name) for name in state.edge_names(payload["node_id"]))
    return _draft(actor, asked, *edges, Operation(Verb.DELETE_NODE, payload, nonce=asked.nonce))


def _delete_edge(state: State, actor: str, asked: WriteArguments, payload: Payload) -> Draft:
    edge = state.edge_by_id(resource_of(asked))
    name = state.edge_name(edge.id) if edge is not None else None
    if name is None:
        raise _no_edge(asked)
    return _draft(actor, asked, Operation(Verb.DELETE_EDGE, name, nonce=asked.nonce))


def _no_edge(asked: WriteArguments) -> NotFound:
    if asked.edge is None:
        return NotFound(f"no edge with the id '{asked.edge_id}'")
    source, rel, target = triple_of(asked.edge)
    return NotFound(
        f"no edge '{source}' -{rel}-> '{target}'", hint="an edge with an id of its own is called by edge_id"
    )


def _redact_node(state: State, actor: str, asked: WriteArguments, payload: Payload) -> Draft:
    """A deleted node has a history too, and that is what must be forgotten."""
    node_id = payload["node_id"]
    if state.last_owner(node_id) is None:
        raise NotFound(f"no node '{node_id}' was ever written", hint="an edge is redacted by REDACT_EDGE")
    _check_original(state, node_id, payload.get("original_commit_id"))
    fields = _fields(asked)
    redacts = state.redaction(node_id, fields)
    operations = [Operation(Verb.REDACT_NODE, payload, nonce=asked.nonce, redacts=redacts)]
    # Of somebody who is to be forgotten, what edges say of them is to be forgotten too.
    for name, found in state.edge_redactions(node_id) if fields is None else ():
        said = {**name, "reason": asked.reason}
        operations.insert(-1, Operation(Verb.REDACT_EDGE, said, redacts=found))
    return _draft(actor, asked, *operations)


def _redact_edge(state: State, actor: str, asked: WriteArguments, payload: Payload) -> Draft:
    edge_id = resource_of(asked)
    name = state.edge_name(edge_id)
    if name is None:
        raise _no_edge(asked)
    _check_original(state, edge_id, payload.get("original_commit_id"))
    redacts = state.edge_redaction(edge_id, _fields(asked))
    return _draft(actor, asked, Operation(Verb.REDACT_EDGE, {**name, **payload}, nonce=asked.nonce, redacts=redacts))


def _fields(asked: WriteArguments) -> tuple[str, ...] | None:
    return tuple(asked.redacted_fields) if asked.redacted_fields is not None else None


def _check_original(state: State, entity_id: str, commit_id: str | None) -> None:
    if commit_id is None:
        return
    lineage = state.lineage(entity_id, "direct", 0, state.count)
    if lineage is None or all(step.commit.commit_id != commit_id for step in lineage.steps):
        raise NotFound(
            f"no commit '{commit_id}' of '{entity_id}'",
            code="COMMIT_NOT_FOUND",
            hint="memory.lineage lists the commits of an entity",
        )


Drafting = Callable[[State, str, WriteArguments, Payload], Draft]
DRAFTS: dict[str, Drafting] = {
    "UPSERT_NODE": _upsert_node,
    "UPSERT_EDGE": _upsert_edge,
    "DELETE_NODE": _delete_node,
    "DELETE_EDGE": _delete_edge,
    "REDACT_NODE": _redact_node,
    "REDACT_EDGE": _redact_edge,
}


def _draft(actor: str, asked: WriteArguments, *operations: Operation) -> Draft:
    context = asked.run_context.model_dump(exclude_none=True) if asked.run_context else None
    return Draft(operations, actor=actor, tool=TOOL, reason=asked.reason, run_context=context or None)


# -- what is answered


def _may_count(read_filter: ReadFilter, operation: Operation) -> bool:
    """Whether the caller may know of it: not of an edge to what may not be read, which goes with its other end."""
    said = operation.payload
    return "from" not in said or all([read_filter.allows(said["from"]), read_filter.allows(said["to"])])


def receipt_of(receipt: Receipt, readable: Sequence[bool]) -> dict[str, Any]:
    """`readable` says which of the commits may be counted, where not all may be."""
    commit = receipt.commits[-1]
    answer: dict[str, Any] = {
        "commit_id": commit.commit_id,
        "lamport": commit.lamport,
        "timestamp": commit.timestamp,
        "content_hash": commit.content_hash,
        "prev": commit.prev,
        "duplicate": receipt.duplicate,
    }
    counted = (
        [each for each, is_readable in zip(receipt.commits, readable, strict=True) if is_readable] if readable else []
    )
    if commit.batch is not None and not readable:
        answer["batch"] = {"commits": commit.batch[1], "first_lamport": commit.draft_lamports.start}
    elif len(counted) > 1:
        answer["batch"] = {"commits": len(counted), "first_lamport": counted[0].lamport}
    if commit.redacts is not None:
        answer["redacted_commits"] = len(commit.redacts)
    if receipt.erasure_pending:
        answer["erasure"] = {"pending": list(receipt.erasure_pending)}
    return answer
