"""The lineage of an entity: its commits, what each did, and what it changed.

Walking an entity's commits costs no line; only those of the page, and for updates the one
before, are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tallystick.commits import DELETIONS, REDACTIONS, Verb
from tallystick.commits.payloads import edge_triple
from tallystick.state import Breathing, Lineage, Step, Summary
from tallystick.state.asof import edge_at, node_at
from tallystick.state.changes import EDGE
from tallystick.state.columns import Columns
from tallystick.state.conditions import is_same

if TYPE_CHECKING:
    from tallystick.state.read_filter import ReadFilter

T = TypeVar("T")
_EDGES = 512
_NAMES = ("id", "from", "rel", "to")
"""What an entity is called is not what it says."""


def lineage(
    columns: Columns,
    entity_id: str,
    depth: Literal["direct", "full"],
    offset: int,
    limit: int,
    read_filter: ReadFilter | None = None,
) -> Lineage | None:
    """Also of what was deleted. `depth` full adds the commits on the edges of a node, dead ones included.

    An edge with an end that may not be read is as good as unknown.
    """
    entity = find(columns, entity_id)
    if entity is None or (entity & EDGE and not may_read_edge(columns, entity >> 1, read_filter)):
        return None
    seqs = _finished(commits_of(columns, entity_id, depth, read_filter))
    offset = max(offset, 0)
    steps = [step(columns, seq) for seq in seqs[offset : offset + max(limit, 0)]]
    handle, head = entity >> 1, columns.history.count
    if entity & EDGE:
        rel = columns.edges.rel_of(handle)
        return Lineage(entity_id, rel, None, steps, len(seqs), edge=edge_at(columns, handle, head))
    return Lineage(entity_id, columns.nodes.type_of(handle), node_at(columns, handle, head), steps, len(seqs))


def commits_of(
    columns: Columns, entity_id: str, depth: Literal["direct", "full"], read_filter: ReadFilter | None = None
) -> Breathing[list[int]]:
    """The sequence numbers of what `lineage` lists, as of the first slice."""
    entity, head = find(columns, entity_id), columns.history.count
    if entity is None or (entity & EDGE and not may_read_edge(columns, entity >> 1, read_filter)):
        return []
    seqs = _commits(columns, entity)
    if depth == "direct" or entity & EDGE:
        return seqs
    for number, edge in enumerate(columns.edges.around(entity >> 1), 1):
        # A row may go while others run: it was taken back.
        if edge < len(columns.edges.last) and may_read_edge(columns, edge, read_filter):
            seqs += _commits(columns, edge << 1 | EDGE)
        if number % _EDGES == 0:
            yield
    return sorted(seq for seq in seqs if seq <= head)


def _finished(work: Breathing[T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result


def summary(columns: Columns, entity_id: str) -> Summary | None:
    """For a node from its columns; an edge has none of these, its own commits are read."""
    entity = find(columns, entity_id)
    if entity is None:
        return None
    handle = entity >> 1
    if entity & EDGE:
        lines = [columns.line(seq) for seq in _commits(columns, entity)]
        actors = {line.actor for line in lines}
        return Summary(lines[0].timestamp, lines[-1].timestamp, len(lines), len(actors))
    nodes = columns.nodes
    return Summary(
        created_at=columns.timestamp(nodes.created[handle]),
        last_modified=columns.timestamp(nodes.last[handle]),
        modification_count=nodes.commits[handle],
        unique_actors=nodes.actors_of(handle),
    )


def newest_commit_id(columns: Columns, entity_id: str) -> str | None:
    """None when it is not there; nodes go first, as in `find`."""
    nodes, edges = columns.nodes, columns.edges
    handle = nodes.handles.get(entity_id)
    if handle is not None:
        return columns.line(nodes.last[handle]).commit_id if handle in nodes.alive else None
    edge = find_edge(columns, entity_id)
    return columns.line(edges.last[edge]).commit_id if edge is not None and edges.alive[edge] else None


def may_read_edge(columns: Columns, edge: int, read_filter: ReadFilter | None) -> bool:
    """Whether both its ends may be read."""
    if read_filter is None or not read_filter.narrows:
        return True
    edges, ids = columns.edges, columns.nodes.ids
    return read_filter.allows_all((ids[edges.source[edge]], ids[edges.target[edge]]))


def find(columns: Columns, entity_id: str) -> int | None:
    """Handle shifted left by one, the lowest bit set for an edge. Dead or alive; nodes go first."""
    handle = columns.nodes.handles.get(entity_id)
    if handle is not None:
        return handle << 1
    edge = find_edge(columns, entity_id)
    return None if edge is None else edge << 1 | EDGE


def find_edge(columns: Columns, edge_id: str) -> int | None:
    chosen = columns.edges.by_chosen.get(edge_id)
    if chosen is not None:
        return chosen
    triple = edge_triple(edge_id) if "|" in edge_id else None
    return None if triple is None else find_triple(columns, *triple)


def find_triple(columns: Columns, source: str, rel: str, target: str) -> int | None:
    handles = columns.nodes.handles
    start, end = handles.get(source), handles.get(target)
    return None if start is None or end is None else columns.edges.find(start, rel, end)


def _commits(columns: Columns, entity: int) -> list[int]:
    last = (columns.edges if entity & EDGE else columns.nodes).last[entity >> 1]
    return columns.history.chain(last)


def step(columns: Columns, seq: int) -> Step:
    commit = columns.chained_commit(seq)
    verb, _, kind = commit.operation.partition("_")
    before = None if commit.operation in REDACTIONS else version_before(columns, seq)
    if verb != "UPSERT":
        return Step(commit, commit.operation.value, None, None if before is None else dict(leaves(before)))
    if before is None:
        return Step(commit, f"CREATE_{kind}", None)
    changes, old = difference(before, commit.document()), dict(leaves(before))
    return Step(commit, f"UPDATE_{kind}", changes, {path: old.get(path) for path in changes})


def version_before(columns: Columns, seq: int) -> dict[str, Any] | None:
    """What the entity was before an upsert; None if it was not there."""
    while seq := columns.history.prev[seq]:
        commit = columns.commit(seq)
        if commit.operation in (Verb.UPSERT_NODE, Verb.UPSERT_EDGE):
            return commit.document()
        if commit.operation not in REDACTIONS:
            return None
    return None


def creates(columns: Columns, seq: int) -> bool:
    """Whether it is the first commit of its entity's present life; only ever an upsert."""
    if columns.position(seq).operation not in (Verb.UPSERT_NODE, Verb.UPSERT_EDGE):
        return False
    while seq := columns.history.prev[seq]:
        before = columns.position(seq).operation
        if before not in REDACTIONS:
            return before in DELETIONS
    return True


def difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Dotted path → new value, None where it was removed. Lists are compared as a whole."""
    before, after = dict(leaves(old)), dict(leaves(new))
    changes: dict[str, Any] = {path: None for path in before if path not in after}
    for path, value in after.items():
        if path not in before or not is_same(before[path], value):
            changes[path] = value
    return changes


def leaves(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """What a document says, by dotted path."""
    for name, value in document.items():
        if not prefix and name in _NAMES:
            continue
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{name}.")
        elif prefix or value != {}:
            yield f"{prefix}{name}", value
