"""The draft of each operation of a memory.write, judged at the head.

What is there is asked of a `DraftGraph`: the state, and on it what the operations before this one would leave.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

import msgspec

from tallystick.commits import Operation, Verb, reserved_attributes
from tallystick.commits.canonical import canonical_bytes
from tallystick.commits.payloads import name_of_edge
from tallystick.errors import Conflict, NotFound
from tallystick.state.state import State
from tallystick.toolsets.memory.arguments import WriteOperation
from tallystick.toolsets.memory.draft_graph import Document, DraftGraph, Payload
from tallystick.toolsets.memory.write_request import (
    PATCHES,
    PAYLOAD_BYTES_MAX,
    REDACTS,
    resource_of,
    triple_of,
)


class Drafted(msgspec.Struct, frozen=True):
    """Of one operation. The last is what was asked for; those before it are of edges that it takes along."""

    operations: list[Operation]
    dropped: list[str] = []
    makes_node: bool = False


Drafting = Generator[None, None, Drafted]
"""Pauses between the many parts of a large one."""


def draft_operation(graph: DraftGraph, asked: WriteOperation, said: Payload, reason: str | None) -> Drafting:
    """Raises what forbids it. `reason` is that of the whole call."""
    if asked.op in EDGE_CHECKS:
        EDGE_CHECKS[asked.op](graph, asked)
    if asked.if_commit is not None:
        _check_commit(graph, asked, asked.if_commit)
    if asked.op in REDACTS:
        # Erasure is for every entity, whatever vocabulary it is of.
        said = _redaction(graph.state, said, reason)
    else:
        check_not_reserved(graph, asked, said)
    if asked.op in LONG_DRAFTS:
        return (yield from LONG_DRAFTS[asked.op](graph, asked, said))
    return DRAFTS[asked.op](graph, asked, said)


def _redaction(state: State, said: Payload, reason: str | None) -> Payload:
    return with_whole_commit_id(state, said if said["reason"] is not None else said | {"reason": reason})


def with_whole_commit_id(state: State, payload: Payload) -> Payload:
    """What is written down names the commit in full, however much of its id was given."""
    given = payload.get("original_commit_id")
    return payload if given is None else payload | {"original_commit_id": state.commit_id(given) or given}


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


# -- whose it is

RESERVED = ("work/", "knowledge/", "tasks/", "trust/")
"""Types whose rules live elsewhere; the ontology's own are guarded wherever they are written."""


def check_not_reserved(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> None:
    """Reading and lineage are for every entity; writing goes by the rules of its own vocabulary."""
    if asked.op in PATCHES and _patches_reserved_attributes(payload):
        return
    said = payload or graph.edge_name(asked.edge_id or "") or {}
    for name in ("id", "node_id", "from"):
        known = graph.type_of(said[name]) if name in said else None
        if known is not None and known.startswith(RESERVED):
            raise _reserved(known) if graph.allows(said[name]) else _taken(said[name])
    if (payload.get("type") or "").startswith(RESERVED):
        raise _reserved(payload["type"])


def _patches_reserved_attributes(payload: Payload) -> bool:
    """What says whether a fact still holds may be patched whatever vocabulary the fact is of (X24)."""
    return bool(payload["attrs"]) and payload["attrs"].keys() <= reserved_attributes.NAMES


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


# -- nodes


def _upsert_node(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> Drafted:
    check_node_id(graph, payload["id"])
    return _replaced(Verb.UPSERT_NODE, asked, payload, graph.node(payload["id"]))


def check_node_id(graph: DraftGraph, node_id: str) -> None:
    """Whoever asks by an id alone, the policy first of all, takes the node for what is meant: a node that is called
    like somebody else's edge would make that edge its author's to delete."""
    if not graph.knows_node(node_id) and graph.edge_name(node_id) is not None:
        raise Conflict(f"the id '{node_id}' is taken by an edge", code="ID_TAKEN", hint="use another id")


def _patch_node(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> Drafted:
    node_id = payload["id"]
    before = graph.node(node_id)
    if before is None or not graph.allows(node_id):
        raise NotFound(f"no node '{node_id}'", hint="PATCH_NODE changes what is there, UPSERT_NODE makes it")
    if payload["type"] not in (None, before.type):
        raise Conflict(
            f"'{node_id}' is of type '{before.type}'", code="TYPE_DIFFERS", hint="UPSERT_NODE gives it another type"
        )
    return _merged(Verb.UPSERT_NODE, asked, payload | {"type": before.type}, before)


def _replaced(verb: Verb, asked: WriteOperation, payload: Payload, before: Document | None) -> Drafted:
    """Content is no attribute, and no argument of this tool: what it cannot say it does not take away."""
    if before is None:
        return Drafted([_limited(verb, payload)], makes_node=verb is Verb.UPSERT_NODE)
    return Drafted([_limited(verb, payload, before.content)], dropped_by(asked, before.attrs, payload["attrs"]))


def _limited(verb: Verb, payload: Payload, content: Payload | None = None) -> Operation:
    """The limit is for what this tool says, not for the content that stays."""
    if content is None:
        return Operation(verb, payload, bytes_max=PAYLOAD_BYTES_MAX)
    kept = len(canonical_bytes({"content": content})) - len("{}") + len(",")
    return Operation(verb, {**payload, "content": content}, bytes_max=PAYLOAD_BYTES_MAX + kept)


def _merged(verb: Verb, asked: WriteOperation, payload: Payload, before: Document) -> Drafted:
    attrs = {name: value for name, value in (before.attrs | payload["attrs"]).items() if not _removes(payload, name)}
    return _replaced(verb, asked, payload | {"attrs": attrs}, before)


def _removes(payload: Payload, name: str) -> bool:
    return name in payload["attrs"] and payload["attrs"][name] is None


def _delete_node(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> Drafting:
    if graph.type_of(payload["node_id"]) is None:
        raise NotFound(f"no node '{payload['node_id']}'")
    operations: list[Operation] = []
    for name in graph.edge_names(payload["node_id"]):
        operations.append(Operation(Verb.DELETE_EDGE, name))
        yield
    return Drafted([*operations, Operation(Verb.DELETE_NODE, payload)])


def _redact_node(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> Drafting:
    """A deleted node has a history too, and that is what must be forgotten."""
    node_id, fields = payload["node_id"], _fields(asked)
    graph.check_redactable(node_id, whole_node=fields is None)
    if graph.state.last_owner(node_id) is None:
        raise NotFound(f"no node '{node_id}' was ever written", hint="an edge is redacted by REDACT_EDGE")
    _check_original(graph.state, node_id, payload.get("original_commit_id"))
    redacts = yield from graph.state.redaction(node_id, fields)
    operations = [Operation(Verb.REDACT_NODE, payload, redacts=redacts, bytes_max=PAYLOAD_BYTES_MAX)]
    # Of somebody who is to be forgotten, what edges say of them is to be forgotten too.
    for name, found in graph.state.edge_redactions(node_id) if fields is None else ():
        if not graph.is_redacted(name_of_edge(name)):
            said = {**name, "reason": payload["reason"]}
            operations.insert(-1, Operation(Verb.REDACT_EDGE, said, redacts=found))
        yield
    return Drafted(operations)


# -- edges


def _check_ends(graph: DraftGraph, asked: WriteOperation) -> None:
    assert asked.edge is not None
    check_ends(graph, asked.edge.source, asked.edge.to)


def check_ends(graph: DraftGraph, source: str, target: str) -> None:
    """What may not be read is missing, too."""
    ends = dict.fromkeys((source, target))
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


def _upsert_edge(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> Drafted:
    check_edge_id(graph, payload)
    return _replaced(Verb.UPSERT_EDGE, asked, payload, graph.edge(name_of_edge(payload)))


def _patch_edge(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> Drafted:
    check_edge_id(graph, payload)
    before = graph.edge(name_of_edge(payload))
    if before is None:
        raise _no_edge(asked)
    return _merged(Verb.UPSERT_EDGE, asked, payload, before)


def check_edge_id(graph: DraftGraph, payload: Payload) -> None:
    """A chosen id belongs to its ends for good, and to no node: lineage by that id must be one history."""
    name = name_of_edge(payload)
    if graph.knows_node(name) and graph.edge_name(name) is None:
        raise Conflict(
            f"the edge id '{name}' is taken by a node",
            code="EDGE_ID_TAKEN",
            hint="choose another 'edge.id'",
        )
    held = graph.edge_name(payload["id"]) if "id" in payload else None
    if held is not None and any(held[end] != payload[end] for end in ("from", "rel", "to")):
        # Not whose it is: its ends may be what the caller may not read.
        raise Conflict(
            f"the edge id '{held['id']}' is taken by another edge",
            code="EDGE_ID_TAKEN",
            hint="leave out 'edge.id', or choose another",
        )


def _delete_edge(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> Drafted:
    name = graph.edge_name(resource_of(asked))
    if name is None or not graph.has_edge(name_of_edge(name)):
        raise _no_edge(asked)
    return Drafted([Operation(Verb.DELETE_EDGE, name)])


def _no_edge(asked: WriteOperation) -> NotFound:
    hints = ["PATCH_EDGE changes what is there, UPSERT_EDGE makes it"] if asked.op == "PATCH_EDGE" else []
    if asked.edge is None or asked.edge.id is not None:
        return NotFound(f"no edge with the id '{resource_of(asked)}'", hint=next(iter(hints), None))
    source, rel, target = triple_of(asked.edge)
    hints.append("an edge with an id of its own is called by its id")
    return NotFound(f"no edge '{source}' -{rel}-> '{target}'", hint="; ".join(hints))


def _redact_edge(graph: DraftGraph, asked: WriteOperation, payload: Payload) -> Drafting:
    edge_id = resource_of(asked)
    name = graph.state.edge_name(edge_id)
    graph.check_redactable(edge_id if name is None else name_of_edge(name))
    if name is None:
        raise _no_edge(asked)
    _check_original(graph.state, edge_id, payload.get("original_commit_id"))
    redacts = yield from graph.state.edge_redaction(edge_id, _fields(asked))
    operation = Operation(Verb.REDACT_EDGE, {**name, **payload}, redacts=redacts, bytes_max=PAYLOAD_BYTES_MAX)
    return Drafted([operation])


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


DRAFTS: dict[str, Callable[[DraftGraph, WriteOperation, Payload], Drafted]] = {
    "UPSERT_NODE": _upsert_node,
    "UPSERT_EDGE": _upsert_edge,
    "PATCH_NODE": _patch_node,
    "PATCH_EDGE": _patch_edge,
    "DELETE_EDGE": _delete_edge,
}
LONG_DRAFTS: dict[str, Callable[[DraftGraph, WriteOperation, Payload], Drafting]] = {
    "DELETE_NODE": _delete_node,
    "REDACT_NODE": _redact_node,
    "REDACT_EDGE": _redact_edge,
}
VERBS = {op: Verb(op.replace("PATCH", "UPSERT")) for op in (*DRAFTS, *LONG_DRAFTS)}
"""What each is committed as."""
UPSERTS = (Verb.UPSERT_NODE, Verb.UPSERT_EDGE)


# -- what it takes away


def dropped_by(asked: WriteOperation, before: Payload, after: Payload) -> list[str]:
    """The attributes that were there and are not any more, unless the caller named them to be removed."""
    given = asked.node or asked.edge
    removed = (given.attrs or {}).items() if given is not None and asked.op in PATCHES else ()
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
