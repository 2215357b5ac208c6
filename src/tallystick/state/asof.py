"""The past: entities as they were after some commit, and time turned into places in the log."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from pyroaring import BitMap

from tallystick.clock import from_text, to_text
from tallystick.commits import REDACTIONS, Verb, chain
from tallystick.commits.payloads import EdgePayload, NodePayload, edge_name, read_edge, read_extent, read_node
from tallystick.commits.reserved_attributes import SUPERSEDES
from tallystick.errors import InvalidArgument
from tallystick.state import Breathing, Edge, EntityKind, Node, Provenance, T
from tallystick.state.columns import Columns
from tallystick.state.documents import Line, NodeLine
from tallystick.state.redaction import left_by

D = TypeVar("D", NodePayload, EdgePayload)

COMMIT_ID = re.compile("[0-9a-f]{8,64}")
"""A commit_id, or as much of its beginning as tells it from the others."""
_BASIC_DATE = re.compile("[0-9]{8}")
_NAMED_MAX = 5
_TIME_MAX = 253_402_300_799_999
_BREATH = 20_000


class Version(msgspec.Struct, frozen=True, gc=False):
    """A living node at some moment."""

    seq: int
    """Its newest commit then."""
    newest: NodeLine | Line
    lamport: int
    """Of the commit that holds the document."""
    type: str
    attrs: dict[str, Any]
    content: dict[str, Any] | None


def version(columns: Columns, handle: int, at: int) -> Version | None:
    """None when there was no such node after `at` commits."""
    seq = columns.nodes.last[handle]
    if seq <= at:
        if handle not in columns.nodes.alive:
            return None
        if columns.nodes.doc[handle] == seq:
            line = columns.node_line(seq)
            said = line.payload
            return Version(seq, line, line.lamport, said.type, said.attrs, said.content)
    return _past_version(columns, columns.history.newest(seq, at))


def _past_version(columns: Columns, seq: int) -> Version | None:
    if seq == 0:
        return None
    place, line, redactions = _below_redactions(columns, seq)
    if line.operation is Verb.DELETE_NODE:
        return None
    newest = redactions[0] if redactions else line
    if not redactions:
        document = read_node(bytes(line.payload))
        return Version(seq, newest, line.lamport, document.type, document.attrs, document.content)
    document, superseded = _redacted(columns, place, read_node, redactions), read_extent(newest.payload).supersedes
    attrs = document.attrs if superseded is None else {**document.attrs, SUPERSEDES: superseded}
    return Version(seq, newest, line.lamport, document.type, attrs, document.content)


def is_redacted(columns: Columns, handle: int, at: int) -> bool:
    """Whether all that a living node said then was redacted."""
    found = version(columns, handle, at)
    if found is None or not isinstance(found.newest, Line) or found.newest.operation not in REDACTIONS:
        return False
    fields = read_extent(found.newest.payload).redacted_fields
    return fields is None or "attrs" in fields


def _below_redactions(columns: Columns, seq: int) -> tuple[int, Line, list[Line]]:
    """The newest commit of an entity that is no redaction, and the redactions since, newest first."""
    line = columns.line(seq)
    redactions: list[Line] = []
    while line.operation in REDACTIONS:
        redactions.append(line)
        seq = columns.history.prev[seq]
        line = columns.line(seq)
    return seq, line, redactions


def _redacted(columns: Columns, seq: int, read: Callable[[bytes], D], redactions: list[Line]) -> D:
    """What redactions, newest first, leave of a document; the same before and after the log is masked."""
    raw = columns.stored(seq)
    for line in reversed(redactions):
        raw = left_by(raw, read_extent(line.payload).redacted_fields)
    return read(chain.payload_of(raw))


def node_at(columns: Columns, handle: int, at: int) -> Node | None:
    found = version(columns, handle, at)
    if found is None:
        return None
    said = found.newest
    made_by = creator(columns, handle, found.seq)
    provenance = Provenance(said.commit_id, made_by, said.actor, said.timestamp, said.lamport, said.content_hash)
    return Node(columns.nodes.ids[handle], found.type, found.attrs, provenance, found.content)


def creator(columns: Columns, handle: int, seq: int) -> str:
    """Who made the node as it was at one of its commits."""
    if columns.nodes.created[handle] <= seq:
        return columns.nodes.owner_of(handle)
    return life(columns, seq).creator


class Life(msgspec.Struct, frozen=True):
    """From a creation to the deletion, or to the newest commit."""

    created: int
    creator: str
    doc: int
    type: str


def life(columns: Columns, seq: int) -> Life:
    """The last life of a node up to one of its commits. Reads each line of it: for the rare case only."""
    doc = created = 0
    creator = ""
    while seq:
        line = columns.line(seq)
        if line.operation is Verb.UPSERT_NODE:
            doc = doc or seq
            created, creator = seq, line.actor
        elif line.operation is Verb.DELETE_NODE and doc:
            break
        seq = columns.history.prev[seq]
    return Life(created, creator, doc, columns.node_line(doc).payload.type)


def edge_seq(columns: Columns, handle: int, at: int) -> int:
    """The newest commit of an edge that was there after `at` commits; 0 when there was no such edge."""
    seq = columns.edges.last[handle]
    if seq <= at:
        return seq if columns.edges.alive[handle] else 0
    seq = columns.history.newest(seq, at)
    return seq if seq and is_alive_after(columns, seq) else 0


def is_alive_after(columns: Columns, seq: int) -> bool:
    """Whether an edge was there after one of its commits."""
    return _below_redactions(columns, seq)[1].operation is Verb.UPSERT_EDGE


def edge_creator(columns: Columns, seq: int) -> str:
    """Who made an edge in its last life up to one of its commits. Reads each line of it: for the rare case only."""
    creator = ""
    while seq:
        line = columns.line(seq)
        if line.operation is Verb.UPSERT_EDGE:
            creator = line.actor
        elif line.operation is Verb.DELETE_EDGE and creator:
            break
        seq = columns.history.prev[seq]
    return creator


def edge_at(columns: Columns, handle: int, at: int) -> Edge | None:
    seq = edge_seq(columns, handle, at)
    return edge_of(columns, seq) if seq else None


def edge_provenance(columns: Columns, handle: int, at: int) -> Provenance | None:
    seq = edge_seq(columns, handle, at)
    if not seq:
        return None
    said = columns.line(seq)
    is_newest = seq == columns.edges.last[handle]
    made_by = columns.nodes.actors.texts[columns.edges.owner[handle]] if is_newest else edge_creator(columns, seq)
    return Provenance(said.commit_id, made_by, said.actor, said.timestamp, said.lamport, said.content_hash)


def edge_of(columns: Columns, seq: int) -> Edge:
    """A living edge after one of its commits."""
    line = columns.edge_line(seq)
    said = line.payload if line.operation is Verb.UPSERT_EDGE else edge_document(columns, seq)
    return Edge(said.name, said.source, said.rel, said.target, said.attrs, line.lamport, line.timestamp, said.content)


def edge_document(columns: Columns, seq: int) -> EdgePayload:
    """What a living edge says after one of its commits."""
    line = columns.edge_line(seq)
    if line.operation is Verb.UPSERT_EDGE:
        return line.payload
    place, _, redactions = _below_redactions(columns, seq)
    return _redacted(columns, place, read_edge, redactions)


# -- moments


def clamped(columns: Columns, at: int | None) -> int:
    """A sequence number that there is; None is the head."""
    return columns.history.count if at is None else max(0, min(at, columns.history.count))


class AsOf:
    """The nodes after `at` commits, for a question that lets others write before it has its answer.

    The index knows the head only. For a node that no commit after `at` is about it is right,
    whenever it is asked; all others are in `touched`, and have to be judged by their past.
    """

    def __init__(self, columns: Columns, at: int | None) -> None:
        self._history = columns.history
        self.at = clamped(columns, at)
        self.touched = BitMap()
        self._seen = self.at
        self._count = self._history.count
        self._moves = self._history.moves

    def begin(self) -> Breathing[None]:
        """Find what was touched since. Costs as much as there were commits since."""
        while self._seen < self._history.count:
            self._look(min(self._seen + _BREATH, self._history.count))
            yield
            self._refresh()

    def during(self, work: Breathing[T]) -> Breathing[T]:
        """Do the work, and note after each pause what others did meanwhile."""
        while True:
            try:
                next(work)
            except StopIteration as done:
                result: T = done.value
                return result
            yield
            self._refresh()
            yield from self.begin()

    def _refresh(self) -> None:
        moves, count = self._history.moves, self._history.count
        if moves - self._moves != count - self._count:
            self._seen = self.at  # Commits were undone, and others may have been made in their place.
        self._moves, self._count = moves, count

    def _look(self, until: int) -> None:
        rows = self._history.entity[self._seen + 1 : until + 1]
        self.touched.update([row >> 1 for row in rows if not row & 1])
        self._seen = until


def touched_since(columns: Columns, at: int) -> Breathing[list[tuple[EntityKind, str]]]:
    """What the commits behind `at` are about, dead or alive, the newest first."""
    history, nodes, edges = columns.history, columns.nodes, columns.edges
    touched: dict[int, None] = {}
    place = history.count
    while place > at:
        start = max(at, place - _BREATH)
        touched.update(dict.fromkeys(reversed(history.entity[start + 1 : place + 1])))
        place = start
        yield
    found: list[tuple[EntityKind, str]] = []
    for number, row in enumerate(touched, 1):
        handle = row >> 1
        if row & 1:
            if handle < len(edges.rel):
                found.append(("edge", name_of(columns, handle)))
        elif handle < len(nodes.ids):
            found.append(("node", nodes.ids[handle]))
        if number % _BREATH == 0:
            yield
    return found


def changed_before(columns: Columns, at: int | None, scanned: int) -> tuple[list[tuple[int, str]], int]:
    """As `State.changed_before`. Each node stands at its newest commit alone, so no page repeats another."""
    history, nodes = columns.history, columns.nodes
    end = history.count + 1 if at is None else max(1, min(at, history.count + 1))
    start = max(1, end - scanned)
    found: list[tuple[int, str]] = []
    for seq in range(end - 1, start - 1, -1):
        row = history.entity[seq]
        handle = row >> 1
        if not row & 1 and handle in nodes.alive and nodes.last[handle] == seq:
            found.append((seq, nodes.ids[handle]))
    return found, start if start > 1 else 0


def name_of(columns: Columns, edge: int) -> str:
    """The id of an edge, dead or alive."""
    edges, ids = columns.edges, columns.nodes.ids
    return edges.chosen.get(edge) or edge_name(ids[edges.source[edge]], edges.rel_of(edge), ids[edges.target[edge]])


def window(columns: Columns, since: int | None, until: int | None, at: int) -> range:
    """The sequence numbers, up to `at`, of the commits from `since` to before `until`."""
    start = 1 if since is None else first_not_before(columns, since, at)
    stop = at + 1 if until is None else first_not_before(columns, until, at)
    return range(start, max(start, stop))


def first_not_before(columns: Columns, milliseconds: int, at: int) -> int:
    """By bisection over lines: timestamps never go backwards."""
    moment = to_text(min(max(milliseconds, 0), _TIME_MAX))
    return _bisect(columns, at, lambda timestamp: timestamp < moment)


def _bisect(columns: Columns, at: int, is_before: Callable[[str], bool]) -> int:
    low, high = 1, at + 1
    while low < high:
        middle = (low + high) // 2
        if is_before(columns.timestamp(middle)):
            low = middle + 1
        else:
            high = middle
    return low


def resolve(columns: Columns, as_of: str | int, position: int) -> int:
    """How many commits there were at a lamport, a commit_id or a time."""
    if isinstance(as_of, int):
        return _resolve_lamport(columns, as_of, position)
    if is_commit_id(as_of):
        return _resolve_commit(columns, as_of)
    try:
        milliseconds = from_text(as_of)
    except (ValueError, OverflowError):
        raise _unknown(as_of, f"'{as_of[:100]}' is no lamport, commit_id or ISO 8601 time") from None
    return first_not_before(columns, milliseconds + 1, columns.history.count) - 1


def draft_end(columns: Columns, seq: int) -> int:
    """The last commit of the draft that this one is of. Reads a line."""
    if seq == 0:
        return 0
    part, whole = columns.commit(seq).batch or (1, 1)
    return seq + whole - part


def _resolve_lamport(columns: Columns, lamport: int, position: int) -> int:
    if isinstance(lamport, bool) or lamport < 0:
        raise _unknown(lamport, f"{lamport} is no lamport")
    if lamport > position:
        raise _unknown(lamport, f"lamport {lamport} is beyond the head, which is at {position}")
    return columns.history.lamports.seq(lamport, columns.history.count)


def is_commit_id(text: str) -> bool:
    """Eight digits that are a date of the calendar are that."""
    if not COMMIT_ID.fullmatch(text):
        return False
    if not _BASIC_DATE.fullmatch(text):
        return True
    try:
        from_text(text)
    except ValueError:
        return True
    return False


def find_commit(columns: Columns, prefix: str) -> tuple[int, str] | None:
    """Sequence number and commit_id of the one commit whose id begins so; raises InvalidArgument for several."""
    ids = ((seq, columns.line(seq).commit_id) for seq in columns.history.commit_ids.candidates(prefix))
    found = [(seq, commit_id) for seq, commit_id in ids if commit_id.startswith(prefix)]
    if len(found) > 1:
        raise _ambiguous(prefix, sorted(commit_id for _, commit_id in found))
    return found[0] if found else None


def _resolve_commit(columns: Columns, commit_id: str) -> int:
    found = find_commit(columns, commit_id)
    if found is None:
        raise _unknown(commit_id, f"there is no commit {commit_id}")
    return found[0]


def _ambiguous(prefix: str, ids: list[str]) -> InvalidArgument:
    named = ids[:_NAMED_MAX]
    told = ", ".join(named) + (f" and {len(ids) - len(named)} more" if len(ids) > len(named) else "")
    return InvalidArgument(
        f"'{prefix}' begins the ids of {len(ids)} commits: {told}",
        code="AMBIGUOUS_COMMIT_ID",
        hint="give more of its digits",
        details={"candidates": named},
    )


def _unknown(as_of: str | int, problem: str) -> InvalidArgument:
    return InvalidArgument(problem, code="UNKNOWN_AS_OF", details={"as_of": as_of})
