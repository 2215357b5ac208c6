"""The changes that each verb makes to the columns, and how they are taken back.

Applying checks first and changes then: a commit that cannot be applied raises Corrupt and
leaves everything as it was. What was there before is read from the log, so taking back
needs no journal.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from tallystick.commits import REDACTIONS, Commit, Verb, chain
from tallystick.commits.mask import Path, paths_of
from tallystick.commits.payloads import EdgePayload, read_edge, read_extent, read_node, read_target
from tallystick.errors import Corrupt, TallystickError
from tallystick.state.asof import edge_creator, is_alive_after, life, version
from tallystick.state.attributes import flatten
from tallystick.state.columns import Columns

EDGE = 1
"""The lowest bit of an entity number."""


def apply(columns: Columns, commit: Commit, offset: int) -> None:
    try:
        APPLY[commit.operation](columns, commit, offset)
    except msgspec.MsgspecError as error:
        raise _corrupt(commit, f"its payload cannot be read: {error}") from None


def undo(columns: Columns) -> None:
    """Take back the newest commit."""
    history = columns.history
    seq = history.count
    line = columns.line(seq)
    entity = history.entity[seq]
    UNDO[line.operation](columns, entity >> 1, seq)
    if entity & EDGE:
        _undo_edge_row(columns, entity >> 1, seq)
    else:
        _undo_node_row(columns, entity >> 1, seq, line.actor)
    if line.nonce is not None:
        columns.nonces.pop(line.actor, line.nonce, seq)
    history.pop()


# -- nodes


def _upsert_node(columns: Columns, commit: Commit, offset: int) -> None:
    document = read_node(commit.payload)
    after = flatten(document.attrs, columns.attributes.dotted)
    nodes, seq = columns.nodes, columns.history.count + 1
    handle = nodes.handles.get(document.id)
    before = version(columns, handle, seq) if handle is not None else None
    if handle is None:
        handle = nodes.add(document.id)
    actor = nodes.actors.number(commit.actor)
    nodes.note_actor(handle, actor, seq)
    if before is None:
        nodes.created[handle] = seq
        nodes.owner[handle] = actor
    nodes.revive(handle, document.type)
    nodes.doc[handle] = seq
    columns.attributes.replace(handle, flatten(before.attrs) if before else {}, after)
    _add_node_row(columns, handle, commit, offset)


def _undo_upsert_node(columns: Columns, handle: int, seq: int) -> None:
    nodes, prev = columns.nodes, columns.history.prev[seq]
    before = version(columns, handle, seq - 1)
    after = columns.node_line(seq).payload
    columns.attributes.replace(handle, flatten(after.attrs), flatten(before.attrs) if before else {})
    if prev == 0:
        return
    if before is None:
        nodes.mark_deleted(handle)
        former = life(columns, prev)
        nodes.created[handle] = former.created
        nodes.owner[handle] = nodes.actors.number(former.creator)
        nodes.type[handle] = nodes.types.number(former.type)
        nodes.doc[handle] = former.doc
    else:
        nodes.revive(handle, before.type)
        nodes.doc[handle] = _doc_before(columns, prev)


def _doc_before(columns: Columns, seq: int) -> int:
    while columns.line(seq).operation is not Verb.UPSERT_NODE:
        seq = columns.history.prev[seq]
    return seq


def _delete_node(columns: Columns, commit: Commit, offset: int) -> None:
    node_id = read_target(commit.payload).node_id
    handle = _living(columns, commit, node_id)
    if any(columns.edges.alive[edge] for edge in columns.edges.around(handle)):
        raise _corrupt(commit, f"it deletes node '{node_id}', which still has edges")
    before = version(columns, handle, columns.history.count)
    columns.nodes.note_actor(handle, columns.nodes.actors.number(commit.actor), columns.history.count + 1)
    columns.nodes.mark_deleted(handle)
    columns.attributes.replace(handle, flatten(before.attrs) if before else {}, {})
    _add_node_row(columns, handle, commit, offset)


def _undo_delete_node(columns: Columns, handle: int, seq: int) -> None:
    before = version(columns, handle, seq - 1)
    if before is not None:
        columns.nodes.revive(handle, before.type)
        columns.attributes.replace(handle, {}, flatten(before.attrs))


def _redact_node(columns: Columns, commit: Commit, offset: int) -> None:
    target = read_target(commit.payload)
    handle = columns.nodes.handles.get(target.node_id)
    if handle is None:
        raise _corrupt(commit, f"it redacts node '{target.node_id}', which never was")
    paths = _paths(commit)
    before = version(columns, handle, columns.history.count)
    columns.nodes.note_actor(handle, columns.nodes.actors.number(commit.actor), columns.history.count + 1)
    if _is_masked(columns, commit):
        for path in [None] if paths is None else paths:
            columns.attributes.sweep(handle, path if isinstance(path, str) else None)
    _add_node_row(columns, handle, commit, offset)
    after = version(columns, handle, columns.history.count)
    # In two steps: after sweeping, what both have is gone from the index too.
    columns.attributes.replace(handle, flatten(before.attrs) if before else {}, {})
    columns.attributes.replace(handle, {}, flatten(after.attrs) if after else {})


def _is_masked(columns: Columns, redaction: Commit) -> bool:
    """Whether another process has masked the log already.

    Values that were indexed here before that can then be read nowhere, not even where the node
    was written again or deleted since: they have to be searched for.
    """
    if not redaction.redacts:
        return False
    # The oldest line is masked first: if it is not, none is.
    oldest = min(map(int, redaction.redacts))
    commit = columns.commit(columns.history.lamports.seq(oldest, columns.history.count))
    return chain.content_hash(commit.payload) != commit.content_hash


def _undo_redact_node(columns: Columns, handle: int, seq: int) -> None:
    before, after = version(columns, handle, seq - 1), version(columns, handle, seq)
    if before is not None and after is not None:
        columns.attributes.replace(handle, flatten(after.attrs), flatten(before.attrs))


def _add_node_row(columns: Columns, handle: int, commit: Commit, offset: int) -> None:
    prev = columns.nodes.last[handle]
    columns.nodes.last[handle] = columns.history.count + 1
    columns.nodes.commits[handle] += 1
    _add_row(columns, commit, offset, prev, handle << 1)


def _undo_node_row(columns: Columns, handle: int, seq: int, actor: str) -> None:
    nodes, prev = columns.nodes, columns.history.prev[seq]
    if prev == 0:
        nodes.pop()
        return
    nodes.last[handle] = prev
    nodes.commits[handle] -= 1
    nodes.forget(handle, nodes.actors.number(actor), seq)


# -- edges


def _upsert_edge(columns: Columns, commit: Commit, offset: int) -> None:
    document = read_edge(commit.payload)
    edges = columns.edges
    source, target = _living(columns, commit, document.source), _living(columns, commit, document.target)
    handle = _named(columns, commit, document, source, target)
    if handle is None:
        handle = edges.add(source, document.rel, target, document.id)
    if not edges.alive[handle]:
        edges.owner[handle] = columns.nodes.actors.number(commit.actor)
    edges.set_alive(handle, True)
    _add_edge_row(columns, handle, commit, offset)


def _undo_upsert_edge(columns: Columns, handle: int, seq: int) -> None:
    prev = columns.history.prev[seq]
    if prev and not is_alive_after(columns, prev):
        columns.edges.set_alive(handle, False)
        columns.edges.owner[handle] = columns.nodes.actors.number(edge_creator(columns, prev))


def _delete_edge(columns: Columns, commit: Commit, offset: int) -> None:
    document = read_edge(commit.payload)
    source, target = _living(columns, commit, document.source), _living(columns, commit, document.target)
    handle = _named(columns, commit, document, source, target)
    if handle is None or not columns.edges.alive[handle]:
        raise _corrupt(commit, f"it deletes the edge '{document.name}', which is not there")
    columns.edges.set_alive(handle, False)
    _add_edge_row(columns, handle, commit, offset)


def _redact_edge(columns: Columns, commit: Commit, offset: int) -> None:
    """Nothing is kept here of what edges say, so it is one more commit of the edge, dead or alive."""
    document = read_edge(commit.payload)
    handles = columns.nodes.handles
    source, target = handles.get(document.source), handles.get(document.target)
    handle = None if source is None or target is None else _named(columns, commit, document, source, target)
    if handle is None:
        raise _corrupt(commit, f"it redacts the edge '{document.name}', which never was")
    _paths(commit)
    _add_edge_row(columns, handle, commit, offset)


def _undo_redact_edge(columns: Columns, handle: int, seq: int) -> None:
    """Its row is all there was of it."""


def _named(columns: Columns, commit: Commit, document: EdgePayload, source: int, target: int) -> int | None:
    """The edge that a payload is about, dead or alive."""
    edges = columns.edges
    if document.id is None:
        return edges.find(source, document.rel, target)
    handle = edges.by_chosen.get(document.id)
    if handle is None:
        return None
    if (edges.source[handle], edges.rel_of(handle), edges.target[handle]) != (source, document.rel, target):
        raise _corrupt(commit, f"the edge id '{document.id}' belongs to other ends")
    return handle


def _undo_delete_edge(columns: Columns, handle: int, seq: int) -> None:
    columns.edges.set_alive(handle, True)


def _add_edge_row(columns: Columns, handle: int, commit: Commit, offset: int) -> None:
    prev = columns.edges.last[handle]
    columns.edges.last[handle] = columns.history.count + 1
    _add_row(columns, commit, offset, prev, handle << 1 | EDGE)


def _undo_edge_row(columns: Columns, handle: int, seq: int) -> None:
    prev = columns.history.prev[seq]
    if prev == 0:
        columns.edges.pop()
    else:
        columns.edges.last[handle] = prev


# -- both


def _add_row(columns: Columns, commit: Commit, offset: int, prev: int, entity: int) -> None:
    history, nonces = columns.history, columns.nonces
    seq = history.add(offset, prev, entity, commit.lamport, commit.commit_id)
    if commit.operation in REDACTIONS:
        history.redactions.append(seq)
    if commit.nonce is not None:
        nonces.add(commit.actor, commit.nonce, seq)
    if nonces.are_due(seq):
        # Everything is changed by now. Where times cannot be read, nonces are kept for longer.
        with suppress(Corrupt):
            nonces.expire(seq, columns.timestamp)


def _paths(redaction: Commit) -> list[Path] | None:
    try:
        return paths_of(read_extent(redaction.payload).redacted_fields)
    except TallystickError as error:
        raise _corrupt(redaction, error.message) from None


def _living(columns: Columns, commit: Commit, node_id: str) -> int:
    handle = columns.nodes.handles.get(node_id)
    if handle is None or handle not in columns.nodes.alive:
        raise _corrupt(commit, f"it is about node '{node_id}', which is not there")
    return handle


def _corrupt(commit: Commit, problem: str) -> Corrupt:
    return Corrupt(
        f"lamport {commit.lamport}: {commit.operation} cannot be applied: {problem}",
        hint="nothing was changed; what to do: docs/runbooks/corrupt-log.md",
        details={"lamport": commit.lamport, "commit_id": commit.commit_id},
    )


APPLY: dict[Verb, Callable[[Columns, Commit, int], None]] = {
    Verb.UPSERT_NODE: _upsert_node,
    Verb.DELETE_NODE: _delete_node,
    Verb.REDACT_NODE: _redact_node,
    Verb.UPSERT_EDGE: _upsert_edge,
    Verb.DELETE_EDGE: _delete_edge,
    Verb.REDACT_EDGE: _redact_edge,
}
UNDO: dict[Verb, Callable[[Columns, int, int], None]] = {
    Verb.UPSERT_NODE: _undo_upsert_node,
    Verb.DELETE_NODE: _undo_delete_node,
    Verb.REDACT_NODE: _undo_redact_node,
    Verb.UPSERT_EDGE: _undo_upsert_edge,
    Verb.DELETE_EDGE: _undo_delete_edge,
    Verb.REDACT_EDGE: _undo_redact_edge,
}
