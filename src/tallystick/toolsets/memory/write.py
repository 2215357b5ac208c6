"""memory.write: one operation on a node or an edge, or several in one draft, checked at the head.

Arguments become payloads, payloads become the operations of a draft, and the commits an answer. What each operation
is judged by is a `DraftGraph`: the state, and on it what the operations before it would leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.commits import Commit, Draft, Operation, Verb, reserved_attributes
from tallystick.commits.canonical import canonical_bytes
from tallystick.commits.chain import content_hash
from tallystick.commits.mask import is_field
from tallystick.commits.payloads import edge_name, name_of_edge, read_node
from tallystick.errors import Conflict, LimitExceeded, NotFound, TallystickError
from tallystick.partition import Receipt
from tallystick.policy import Action, Principal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.store import Target
from tallystick.toolsets import Answer
from tallystick.toolsets.memory.arguments import EdgeArgument, WriteArguments, WriteOperation, refuse, required
from tallystick.toolsets.memory.draft_graph import Document, DraftGraph, Payload

if TYPE_CHECKING:
    from tallystick.store import Store
    from tallystick.toolsets.memory.similar import SimilarNodes

TOOL = "memory.write"
PAYLOAD_BYTES_MAX = 1024 * 1024
DROPPED_MAX = 100
"""Of the attributes that an operation took away, so many are named; all are counted."""


async def write(
    store: Store, principal: Principal, asked: WriteArguments, *, similar: SimilarNodes | None = None
) -> Answer:
    placed = _placed(asked)
    refuse(problems_of(asked, placed))
    targets = [_target_of(each, place) for each, place in placed]
    first = targets[0]
    author = speaker(principal, asked.actor)
    if author is None:
        await store.refuse_actor(principal, first.action, first.resource, asked.actor or "")
    said = [_payload_of(each, place) for each, place in placed]
    effects: list[_Effect] = []

    def propose(state: State, read_filter: ReadFilter) -> Draft | Commit:
        written = find_written(state, author.actor, asked, said)
        if written is not None:
            effects[:] = _effects_again(state, read_filter, asked, written)
            return written
        operations, effects[:] = _drafted(DraftGraph(state, read_filter), asked, placed, said)
        return _draft(author.actor, asked, operations, said[-1])

    receipt = await store.write(
        author,
        first.action,
        propose,
        resource=first.resource,
        written_type=first.written_type,
        blindly=first.blindly,
        place=first.place,
        more=targets[1:],
    )
    if not receipt.duplicate:
        _give_commits(effects, receipt.commits)
        makes_node = any(effect.makes_node for effect in effects)
        if similar is not None and makes_node and similar.is_ready(store, author):
            await _find_similar(similar, store, author, effects)
    return Answer(_answer(receipt, effects, several=asked.ops is not None))


class _Effect(msgspec.Struct):
    """What one operation of the call comes to."""

    readable: list[bool]
    """For each of its commits, whether the caller may know of it. The last is the one that was asked for; those
    before it are of edges that it takes along, which may lead to what may not be read."""
    dropped: list[str] = []
    makes_node: bool = False
    commits: list[Commit] = []
    similar: list[str] = []


async def _find_similar(similar: SimilarNodes, store: Store, principal: Principal, effects: Sequence[_Effect]) -> None:
    made = {effect.commits[-1].lamport: effect for effect in effects if effect.makes_node}
    nodes = {lamport: read_node(effect.commits[-1].payload) for lamport, effect in made.items()}
    found = await similar.find(store, principal, list(nodes.values()))
    for lamport, node in nodes.items():
        made[lamport].similar = found.get(node.id, [])


Placed = Sequence[tuple[WriteOperation, str | None]]


def _placed(asked: WriteArguments) -> Placed:
    """Each operation, and how refusals name it."""
    if asked.ops is None:
        return [(asked, None)]
    return [(operation, f"ops[{number}]") for number, operation in enumerate(asked.ops)]


# -- what is asked

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
    missing = [name for name in REQUIRED[asked.op] if getattr(asked, name) is None]
    found = [required(within + name) for name in missing if not (name == "reason" and has_reason)]
    return found + (EXTRA[asked.op](asked, within) if asked.op in EXTRA else [])


def _problems_of_node(asked: WriteOperation, within: str) -> list[str]:
    if asked.node is None:
        return []
    names = ("type", "attrs") if asked.op == "UPSERT_NODE" else ("attrs",)
    return [required(f"{within}node.{name}") for name in names if getattr(asked.node, name) is None]


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


def speaker(principal: Principal, actor: str | None) -> Principal | None:
    """A proven identity cannot be argued away, then None; where nobody proves one, the caller may name itself."""
    if actor is None or actor == principal.actor:
        return principal
    return msgspec.structs.replace(principal, actor=actor) if principal.trusted else None


def _target_of(asked: WriteOperation, place: str | None) -> Target:
    """A merge and a condition show what is there; whatever else is written shows only where."""
    is_change = asked.op.startswith(("UPSERT", "PATCH"))
    return Target(
        Action.WRITE if is_change else Action.DELETE,
        resource_of(asked),
        written_type_of(asked),
        blindly=not asked.op.startswith("PATCH") and asked.if_commit is None,
        place=place,
    )


def resource_of(asked: WriteOperation) -> str:
    if asked.node is not None:
        return asked.node.id
    if asked.edge is not None:
        return asked.edge.id or edge_name(*triple_of(asked.edge))
    return asked.node_id or asked.edge_id or ""


def written_type_of(asked: WriteOperation) -> str | None:
    if asked.op == "UPSERT_NODE" and asked.node is not None:
        return asked.node.type
    return asked.edge.rel if asked.op == "UPSERT_EDGE" and asked.edge is not None else None


def triple_of(edge: EdgeArgument) -> tuple[str, str, str]:
    return edge.source, edge.rel, edge.to


# -- what is said


def _payload_of(asked: WriteOperation, place: str | None) -> Payload:
    try:
        payload = PAYLOADS[asked.op](asked)
        check_size(payload)
    except TallystickError as error:
        raise error.at(place) from None
    return payload


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


def _with_whole_commit_id(state: State, payload: Payload) -> Payload:
    """What is written down names the commit in full, however much of its id was given."""
    given = payload.get("original_commit_id")
    return payload if given is None else payload | {"original_commit_id": state.commit_id(given) or given}


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


def check_not_reserved(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> None:
    """Reading and lineage are for every entity; writing goes by the rules of its own vocabulary. Erasure must not."""
    if asked.op.startswith("REDACT") or _patches_reserved_attributes(asked, payload):
        return
    said = payload or graph.edge_name(asked.edge_id or "") or {}
    for node_id in (said[name] for name in ("id", "node_id", "from") if name in said):
        known = graph.type_of(node_id)
        if known is not None and known.startswith(RESERVED):
            raise _reserved(known) if graph.allows(node_id) else _taken(node_id)
    if (payload.get("type") or "").startswith(RESERVED):
        raise _reserved(payload["type"])


def _patches_reserved_attributes(asked: WriteOperation, payload: Payload) -> bool:
    """What says whether a fact still holds may be patched whatever vocabulary the fact is of (X24)."""
    return (
        asked.op.startswith("PATCH") and bool(payload["attrs"]) and payload["attrs"].keys() <= reserved_attributes.NAMES
    )


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


def find_written(state: State, actor: str, asked: WriteArguments, said: Sequence[Payload]) -> Commit | None:
    """The commit that this nonce stands for. Asked before anything else, so that a retried delete finds itself."""
    commit = state.nonce(actor, asked.nonce) if asked.nonce is not None else None
    if commit is None or _says_the_same(state, commit, asked, said):
        return commit
    raise Conflict(
        f"nonce '{asked.nonce}' was used by actor '{actor}' for another write",
        code="NONCE_REUSED",
        hint="a nonce belongs to one write: use a new one",
        details={"commit_id": commit.commit_id, "lamport": commit.lamport},
    )


def _says_the_same(state: State, commit: Commit, asked: WriteArguments, said: Sequence[Payload]) -> bool:
    if commit.request is not None:
        return commit.request == _request_hash(asked)
    if not _is_plain(asked) or commit.operation != asked.op:
        return False
    payload = _with_whole_commit_id(state, said[0])
    if asked.edge_id is not None:
        written = commit.document()
        is_it = asked.edge_id == name_of_edge(written)
        return is_it and all(written.get(name) == value for name, value in payload.items())
    return commit.content_hash == content_hash(payload)


def _is_plain(asked: WriteArguments) -> bool:
    return asked.ops is None and asked.if_commit is None and not str(asked.op).startswith("PATCH")


def _is_told_by_payload(asked: WriteArguments, said: Payload, written: Payload) -> bool:
    """Whether what is committed for a request is what it says: not where it is merged, has content, or where the store
    fills something in."""
    if not _is_plain(asked):
        return False
    return "attrs" not in written or (written == said and reserved_attributes.NAMES.isdisjoint(said["attrs"]))


def _request_hash(asked: WriteArguments) -> str:
    """Of what is asked to be done: not by whom, in which run or why, unless why is part of what is written."""
    operations = [
        operation.model_dump(by_alias=True, exclude_none=True, exclude=None if "REDACT" in operation.op else {"reason"})
        for operation in asked.operations
    ]
    aside = ("nonce", "actor", "run_context", "ops")
    sent = [{name: value for name, value in each.items() if name not in aside} for each in operations]
    return sha256(canonical_bytes(sent[0] if asked.ops is None else {"ops": sent})).hexdigest()


def _effects_again(state: State, read_filter: ReadFilter, asked: WriteArguments, written: Commit) -> list[_Effect]:
    """What the operations came to when they were written."""
    graph = DraftGraph(state, read_filter)
    commits = iter(state.draft_of(written))
    effects: list[_Effect] = []
    for operation in asked.operations:
        made = [next(commits)]
        while made[-1].operation is not VERBS[operation.op]:
            made.append(next(commits))
        before = state.document_before(made[-1]) if made[-1].operation in UPSERTS else None
        dropped = _dropped(operation, before["attrs"], made[-1].document()["attrs"]) if before else []
        readable = [_may_count(graph, commit.document()) for commit in made] if read_filter.narrows else []
        dropped = _readable_of(graph, operation, dropped)
        effects.append(_Effect(readable or [True] * len(made), dropped, commits=made))
    return effects


# -- drafts


def _drafted(
    graph: DraftGraph, asked: WriteArguments, placed: Placed, said: Sequence[Payload]
) -> tuple[list[Operation], list[_Effect]]:
    """Raises what forbids one of the operations, naming it."""
    operations: list[Operation] = []
    effects: list[_Effect] = []
    for (operation, place), payload in zip(placed, said, strict=True):
        try:
            drafted = _draft_operation(graph, operation, payload, asked.reason)
            if place is not None:
                graph.add(drafted.operations)
        except TallystickError as error:
            raise error.at(place) from None
        operations += drafted.operations if place is None else _in_place(drafted.operations, operation.reason, place)
        readable = [_may_count(graph, each.payload) for each in drafted.operations]
        dropped = _readable_of(graph, operation, drafted.dropped)
        effects.append(_Effect(readable, dropped, makes_node=drafted.makes_node))
    return operations, effects


def _in_place(operations: Sequence[Operation], reason: str | None, place: str) -> list[Operation]:
    return [msgspec.structs.replace(each, reason=reason, place=place) for each in operations]


def _draft(actor: str, asked: WriteArguments, operations: list[Operation], said: Payload) -> Draft:
    """One nonce covers all of them; the last, which was said so, has it."""
    if asked.nonce is not None:
        request = None if _is_told_by_payload(asked, said, operations[-1].payload) else _request_hash(asked)
        operations[-1] = msgspec.structs.replace(operations[-1], nonce=asked.nonce, request=request)
    context = asked.run_context.model_dump(exclude_none=True) if asked.run_context else None
    return Draft(tuple(operations), actor=actor, tool=TOOL, reason=asked.reason, run_context=context or None)


class _Drafted(msgspec.Struct, frozen=True):
    operations: list[Operation]
    dropped: list[str] = []
    makes_node: bool = False


def _draft_operation(graph: DraftGraph, asked: WriteOperation, said: Payload, reason: str | None) -> _Drafted:
    payload = _with_whole_commit_id(graph.state, said)
    if "reason" in payload and payload["reason"] is None:
        payload = payload | {"reason": reason}
    if asked.op in EDGE_CHECKS:
        EDGE_CHECKS[asked.op](graph, asked)
    if asked.if_commit is not None:
        _check_commit(graph, asked, asked.if_commit)
    check_not_reserved(graph, asked, payload)
    return DRAFTS[asked.op](graph, asked, payload)


def _check_commit(graph: DraftGraph, asked: WriteOperation, if_commit: str) -> None:
    """Against the state before the call: that is what its author can have seen. What may not be read is not there."""
    entity_id = resource_of(asked)
    is_node = asked.node is not None or asked.node_id is not None
    readable = graph.allows(entity_id) if is_node else graph.allows_edge(entity_id)
    current = graph.state.newest_commit_id(entity_id) if readable else None
    if current is not None and current == graph.state.commit_id(if_commit):
        return
    now = f"is at commit {current}" if current else "is not there"
    raise Conflict(
        f"'{entity_id}' {now}, and not at {if_commit}",
        hint="read it again, then decide",
        details={"entity_id": entity_id, "current_commit_id": current},
    )


# -- nodes


def _upsert_node(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> _Drafted:
    return _replaced(Verb.UPSERT_NODE, asked, payload, graph.node(payload["id"]))


def _patch_node(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> _Drafted:
    node_id = payload["id"]
    before = graph.node(node_id)
    if before is None or not graph.allows(node_id):
        raise NotFound(f"no node '{node_id}'", hint="PATCH_NODE changes what is there, UPSERT_NODE makes it")
    if payload["type"] not in (None, before.type):
        raise Conflict(
            f"'{node_id}' is of type '{before.type}'", code="TYPE_DIFFERS", hint="UPSERT_NODE gives it another type"
        )
    return _merged(Verb.UPSERT_NODE, asked, payload | {"type": before.type}, before)


def _replaced(verb: Verb, asked: WriteOperation, payload: Payload, before: Document | None) -> _Drafted:
    """Content is no attribute, and no argument of this tool: what it cannot say it does not take away."""
    if before is None:
        return _Drafted([Operation(verb, payload)], makes_node=verb is Verb.UPSERT_NODE)
    written = payload if before.content is None else {**payload, "content": before.content}
    return _Drafted([Operation(verb, written)], _dropped(asked, before.attrs, payload["attrs"]))


def _merged(verb: Verb, asked: WriteOperation, payload: Payload, before: Document) -> _Drafted:
    attrs = {name: value for name, value in (before.attrs | payload["attrs"]).items() if not _removes(payload, name)}
    whole = payload | {"attrs": attrs}
    check_size(whole)
    return _replaced(verb, asked, whole, before)


def _removes(payload: Payload, name: str) -> bool:
    return name in payload["attrs"] and payload["attrs"][name] is None


def _delete_node(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> _Drafted:
    if graph.type_of(payload["node_id"]) is None:
        raise NotFound(f"no node '{payload['node_id']}'")
    edges = (Operation(Verb.DELETE_EDGE, name) for name in graph.edge_names(payload["node_id"]))
    return _Drafted([*edges, Operation(Verb.DELETE_NODE, payload)])


def _redact_node(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> _Drafted:
    """A deleted node has a history too, and that is what must be forgotten."""
    node_id, fields = payload["node_id"], _fields(asked)
    graph.check_redactable(node_id, whole_node=fields is None)
    if graph.state.last_owner(node_id) is None:
        raise NotFound(f"no node '{node_id}' was ever written", hint="an edge is redacted by REDACT_EDGE")
    _check_original(graph.state, node_id, payload.get("original_commit_id"))
    operations = [Operation(Verb.REDACT_NODE, payload, redacts=graph.state.redaction(node_id, fields))]
    # Of somebody who is to be forgotten, what edges say of them is to be forgotten too.
    for name, found in graph.state.edge_redactions(node_id) if fields is None else ():
        if not graph.is_redacted(name_of_edge(name)):
            said = {**name, "reason": payload["reason"]}
            operations.insert(-1, Operation(Verb.REDACT_EDGE, said, redacts=found))
    return _Drafted(operations)


# -- edges


def _check_ends(graph: DraftGraph, asked: WriteOperation) -> None:
    """What may not be read is missing, too."""
    assert asked.edge is not None
    ends = dict.fromkeys((asked.edge.source, asked.edge.to))
    missing = [each for each in ends if graph.type_of(each) is None or not graph.allows(each)]
    if missing:
        raise NotFound(
            "no node " + " and no node ".join(f"'{node_id}'" for node_id in missing),
            hint="write both ends of an edge before the edge",
            details={"missing": missing},
        )


def _check_joins(graph: DraftGraph, asked: WriteOperation) -> None:
    """An edge to what may not be read is not there."""
    if not graph.allows_edge(resource_of(asked)):
        raise _no_edge(asked)


EDGE_CHECKS: dict[str, Callable[[DraftGraph, WriteOperation], None]] = {
    "UPSERT_EDGE": _check_ends,
    "PATCH_EDGE": _check_joins,
    "DELETE_EDGE": _check_joins,
    "REDACT_EDGE": _check_joins,
}


def _upsert_edge(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> _Drafted:
    _check_edge_id(graph, payload)
    return _replaced(Verb.UPSERT_EDGE, asked, payload, graph.edge(name_of_edge(payload)))


def _patch_edge(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> _Drafted:
    _check_edge_id(graph, payload)
    before = graph.edge(name_of_edge(payload))
    if before is None:
        raise _no_edge(asked)
    return _merged(Verb.UPSERT_EDGE, asked, payload, before)


def _check_edge_id(graph: DraftGraph, payload: Payload) -> None:
    """A chosen id belongs to its ends for good: lineage by that id must be one history."""
    held = graph.edge_name(payload["id"]) if "id" in payload else None
    if held is not None and any(held[end] != payload[end] for end in ("from", "rel", "to")):
        # Not whose it is: its ends may be what the caller may not read.
        raise Conflict(
            f"the edge id '{held['id']}' is taken by another edge",
            code="EDGE_ID_TAKEN",
            hint="leave out 'edge.id', or choose another",
        )


def _delete_edge(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> _Drafted:
    name = graph.edge_name(resource_of(asked))
    if name is None or not graph.has_edge(name_of_edge(name)):
        raise _no_edge(asked)
    return _Drafted([Operation(Verb.DELETE_EDGE, name)])


def _no_edge(asked: WriteOperation) -> NotFound:
    if asked.edge is None or asked.edge.id is not None:
        return NotFound(f"no edge with the id '{resource_of(asked)}'")
    source, rel, target = triple_of(asked.edge)
    return NotFound(f"no edge '{source}' -{rel}-> '{target}'", hint="an edge with an id of its own is called by its id")


def _redact_edge(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> _Drafted:
    edge_id = resource_of(asked)
    name = graph.state.edge_name(edge_id)
    graph.check_redactable(edge_id if name is None else name_of_edge(name))
    if name is None:
        raise _no_edge(asked)
    _check_original(graph.state, edge_id, payload.get("original_commit_id"))
    redacts = graph.state.edge_redaction(edge_id, _fields(asked))
    return _Drafted([Operation(Verb.REDACT_EDGE, {**name, **payload}, redacts=redacts)])


def _fields(asked: WriteOperation) -> tuple[str, ...] | None:
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


DRAFTS: dict[str, Callable[[DraftGraph, WriteOperation, Payload], _Drafted]] = {
    "UPSERT_NODE": _upsert_node,
    "UPSERT_EDGE": _upsert_edge,
    "PATCH_NODE": _patch_node,
    "PATCH_EDGE": _patch_edge,
    "DELETE_NODE": _delete_node,
    "DELETE_EDGE": _delete_edge,
    "REDACT_NODE": _redact_node,
    "REDACT_EDGE": _redact_edge,
}
VERBS = {op: Verb(op.replace("PATCH", "UPSERT")) for op in DRAFTS}
"""What each is committed as."""
UPSERTS = (Verb.UPSERT_NODE, Verb.UPSERT_EDGE)


# -- what is answered


def _dropped(asked: WriteOperation, before: Payload, after: Payload) -> list[str]:
    """The attributes that were there and are not any more, unless the caller named them to be removed."""
    given = asked.node or asked.edge
    removed = (given.attrs or {}).items() if given is not None and asked.op.startswith("PATCH") else ()
    named = {f"attrs.{name}" for name, value in removed if value is None}
    return sorted(path for path in _lost(before, after, "attrs") if path not in named)


def _lost(before: Payload, after: Payload, within: str) -> Iterator[str]:
    """The topmost of each; lists are values like any other."""
    for name, value in before.items():
        path = f"{within}.{name}"
        if name not in after:
            yield path
        elif isinstance(value, dict) and isinstance(after[name], dict):
            yield from _lost(value, after[name], path)


def _readable_of(graph: DraftGraph, asked: WriteOperation, dropped: list[str]) -> list[str]:
    """Who may not read an entity does not learn what it said."""
    entity_id = resource_of(asked)
    if not dropped:
        return []
    return dropped if (graph.allows(entity_id) if asked.node is not None else graph.allows_edge(entity_id)) else []


def _may_count(graph: DraftGraph, said: Payload) -> bool:
    """Whether the caller may know of it: not of an edge to what may not be read, which goes with its other end."""
    return "from" not in said or all([graph.allows(said["from"]), graph.allows(said["to"])])


def _give_commits(effects: Sequence[_Effect], commits: Sequence[Commit]) -> None:
    made = iter(commits)
    for effect in effects:
        effect.commits = [next(made) for _ in effect.readable]


def _answer(receipt: Receipt, effects: Sequence[_Effect], *, several: bool) -> dict[str, Any]:
    commit = effects[-1].commits[-1]
    answer: dict[str, Any] = {
        "commit_id": commit.commit_id,
        "lamport": commit.lamport,
        "timestamp": commit.timestamp,
        "content_hash": commit.content_hash,
        "prev": commit.prev,
        "duplicate": receipt.duplicate,
    }
    counted = [
        each
        for effect in effects
        for each, is_readable in zip(effect.commits, effect.readable, strict=True)
        if is_readable
    ]
    if len(counted) > 1:
        answer["batch"] = {"commits": len(counted), "first_lamport": counted[0].lamport}
    if several:
        answer["results"] = [_result(each) for each in effects]
    else:
        answer |= _details(effects[0])
    if receipt.erasure_pending:
        answer["erasure"] = {"pending": list(receipt.erasure_pending)}
    return answer


def _result(effect: _Effect) -> dict[str, Any]:
    """Of one operation among several: what it takes to go on from it."""
    commit = effect.commits[-1]
    return {"commit_id": commit.commit_id, "lamport": commit.lamport, **_details(effect)}


def _details(effect: _Effect) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if effect.dropped:
        details["dropped"] = effect.dropped[:DROPPED_MAX]
    if len(effect.dropped) > DROPPED_MAX:
        details["dropped_total"] = len(effect.dropped)
    if effect.similar:
        details["similar"] = effect.similar
    if effect.commits[-1].redacts is not None:
        details["redacted_commits"] = len(effect.commits[-1].redacts)
    return details
