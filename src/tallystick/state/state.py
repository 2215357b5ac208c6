"""The state of one partition: the graph, its indexes and its history at one position.

It follows from the log alone, and documents stay there: the state keeps where they are and
what to find them by. `apply` goes forwards by one commit, `undo` back; both are exact, so
two states at the same position answer alike, however they got there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal

from tallystick.clock import from_text
from tallystick.commits import Commit, reserved_attributes
from tallystick.errors import Corrupt, NotFound
from tallystick.log import Head
from tallystick.state import (
    Breathing,
    Direction,
    Edge,
    EntityKind,
    Lineage,
    Node,
    Page,
    Provenance,
    Query,
    Redacts,
    Step,
    Summary,
    Triple,
    Walk,
    Walked,
    asof,
    changes,
    facets,
    lineage,
    redaction,
    search,
    snapshot,
    staleness,
    walk,
)
from tallystick.state.attributes import at_path
from tallystick.state.columns import Columns, Lines
from tallystick.state.derived_index import A, DerivedIndex, DerivedIndexes
from tallystick.state.facets import Facets
from tallystick.state.graph import linked
from tallystick.state.search import Located
from tallystick.state.walk import Reached, Verified
from tallystick.system.turns import finished

if TYPE_CHECKING:
    from tallystick.state.read_filter import ReadFilter

__all__ = ["Lines", "State"]


_DATING = frozenset({reserved_attributes.STALE_AFTER, reserved_attributes.SUPERSEDES, reserved_attributes.CITES})


class State:
    def __init__(self, lines: Lines) -> None:
        self._columns = Columns(lines)
        self._head = Head()
        self._derived_indexes = DerivedIndexes(self._columns)

    def expects(self, told: Callable[[Iterable[int]], None]) -> None:
        """From now on `told` is called with the offsets of lines that are about to be read."""
        self._columns.expected = told

    def finds_stored(self, find: Callable[[str], bytes | None]) -> None:
        """From now on `find` is asked for what was stored of a derived index, before it is built."""
        self._derived_indexes.find_stored = find

    # -- moving

    def apply(self, commit: Commit, offset: int, end: int | None = None) -> None:
        """`end` is the offset just past its line; without it the line is asked for.

        Raises Corrupt, and changes nothing, for a commit that cannot follow from what is here.
        """
        if commit.lamport <= self._head.lamport:
            raise Corrupt(
                f"lamport {commit.lamport} does not come after {self._head.lamport}",
                hint="nothing was changed; what to do: docs/runbooks/corrupt-log.md",
                details={"lamport": commit.lamport},
            )
        if end is None:
            end = offset + len(self._columns.lines(offset)) + 1
        changes.apply(self._columns, commit, offset)
        self._derived_indexes.applied()
        count = self._columns.history.count
        self._head = Head(commit.lamport, count, end, commit.record_hash, commit.commit_id, commit.timestamp)

    def undo(self, commits: int) -> None:
        """Take back the newest commits, whose lines must still be there to read."""
        history = self._columns.history
        if not 0 <= commits <= history.count:
            raise ValueError(f"cannot undo {commits} of {history.count} commits")
        end = self._head.end
        for _ in range(commits):
            end = history.offset[history.count]
            with self._derived_indexes.undoing():
                changes.undo(self._columns)
        if history.count == 0:
            self._head = Head()
        elif commits:
            last = self._columns.position(history.count)
            self._head = Head(last.lamport, history.count, end, last.record_hash, last.commit_id, last.timestamp)

    # -- where we are

    @property
    def head(self) -> Head:
        return self._head

    @property
    def count(self) -> int:
        return self._head.count

    @property
    def position(self) -> int:
        return self._head.lamport

    @property
    def last_offset(self) -> int:
        """Where the line of the newest commit begins."""
        history = self._columns.history
        return history.offset[history.count]

    def head_at(self, lamport: int) -> Head:
        """Where the log ended after its last commit up to this position."""
        history = self._columns.history
        seq = history.lamports.seq(lamport, history.count)
        if seq == history.count:
            return self._head
        if seq == 0:
            return Head()
        last = self._columns.position(seq)
        return Head(last.lamport, seq, history.offset[seq + 1], last.record_hash, last.commit_id, last.timestamp)

    def offsets(self, after: Head) -> Sequence[int]:
        """Where the line of each commit behind `after` begins; eight bytes each."""
        return self._columns.history.offset[after.count + 1 :]

    def redactions(self) -> list[tuple[int, int]]:
        """Where the line of each begins and ends."""
        history = self._columns.history
        return [
            (history.offset[seq], self._head.end if seq == history.count else history.offset[seq + 1])
            for seq in history.redactions
        ]

    def resolve(self, as_of: str | int) -> int:
        """The sequence number that a lamport, a commit_id or an ISO time stands for: what `at` wants.

        A commit_id may be shortened to eight digits. Raises InvalidArgument with code UNKNOWN_AS_OF, or
        AMBIGUOUS_COMMIT_ID. A time before the first commit is 0, one after the last is the head.
        """
        return asof.resolve(self._columns, as_of, self.position)

    def moment(self, as_of: str | int) -> int:
        """As `resolve`, at the end of the draft that a lamport or a commit_id is in the middle of: no reader ever saw
        half of a draft. Raises as `resolve`."""
        return asof.draft_end(self._columns, self.resolve(as_of))

    def time_after(self, milliseconds: int) -> int:
        """The time of what is written next, if a clock shows this: never before the head's."""
        return max(milliseconds, from_text(self._head.timestamp)) if self._head.timestamp else milliseconds

    def commit_id(self, prefix: str) -> str | None:
        """The whole id of the one commit that these eight or more digits begin; None when there is none.

        Raises InvalidArgument with code AMBIGUOUS_COMMIT_ID when there are several.
        """
        found = asof.find_commit(self._columns, prefix)
        return None if found is None else found[1]

    def commit(self, at: int) -> Commit:
        """With this sequence number, every field as it was committed. Reads two lines."""
        return self._columns.chained_commit(at)

    def timestamp(self, at: int) -> str:
        """Of the commit with this sequence number. Reads a line."""
        return self._columns.timestamp(at)

    def author(self, at: int) -> str:
        """Of the commit with this sequence number. Reads a line."""
        return self._columns.position(at).actor

    def creates(self, commit: Commit) -> bool:
        """Whether what an upsert is about was not there before it. Reads a line, if anything was."""
        return lineage.creates(self._columns, self._columns.history.lamports.seq(commit.lamport, self.count))

    def newest_commit_id(self, entity_id: str) -> str | None:
        """Of the newest commit on a living node or edge."""
        return lineage.newest_commit_id(self._columns, entity_id)

    def draft_of(self, commit: Commit) -> list[Commit]:
        """All commits of the draft that it belongs to."""
        columns = self._columns
        seqs = (columns.history.lamports.seq(lamport, self.count) for lamport in commit.draft_lamports)
        return [columns.commit(seq) for seq in seqs]

    def document_before(self, commit: Commit) -> dict[str, Any] | None:
        """What the entity of an upsert said before it; None if it was not there."""
        return lineage.version_before(self._columns, self._columns.history.lamports.seq(commit.lamport, self.count))

    # -- what is there

    def node(self, node_id: str, at: int | None = None) -> Node | None:
        handle = self._columns.nodes.handles.get(node_id)
        return None if handle is None else asof.node_at(self._columns, handle, asof.clamped(self._columns, at))

    def owner(self, node_id: str) -> tuple[str, str] | None:
        """Type and owner of a living node, without reading its document."""
        nodes = self._columns.nodes
        handle = nodes.handles.get(node_id)
        if handle is None or handle not in nodes.alive:
            return None
        return nodes.type_of(handle), nodes.owner_of(handle)

    def last_owner(self, node_id: str) -> tuple[str, str] | None:
        """The same, and for a node that was deleted what it was last."""
        nodes = self._columns.nodes
        handle = nodes.handles.get(node_id)
        return None if handle is None else (nodes.type_of(handle), nodes.owner_of(handle))

    def edge_owner(self, edge_id: str) -> tuple[str, str] | None:
        """Relation and owner of a living edge."""
        edge = lineage.find_edge(self._columns, edge_id)
        return None if edge is None or not self._columns.edges.alive[edge] else self._edge_owner(edge)

    def last_edge_owner(self, edge_id: str) -> tuple[str, str] | None:
        """The same, and of an edge that was deleted what it was last."""
        edge = lineage.find_edge(self._columns, edge_id)
        return None if edge is None else self._edge_owner(edge)

    def knows(self, entity_id: str) -> bool:
        """A node or an edge, dead or alive."""
        return lineage.find(self._columns, entity_id) is not None

    def living_ids(self) -> Iterator[str]:
        """Of nodes, and of edges that were given one: any other edge is named by its ends."""
        nodes, edges = self._columns.nodes, self._columns.edges
        chosen = (edge_id for edge_id, edge in edges.by_chosen.items() if edges.alive[edge])
        return chain((nodes.ids[handle] for handle in nodes.alive), chosen)

    def edge(self, source: str, rel: str, target: str, at: int | None = None) -> Edge | None:
        return self._edge(lineage.find_triple(self._columns, source, rel, target), at)

    def edge_by_id(self, edge_id: str, at: int | None = None) -> Edge | None:
        """By the id it was given, or by its default one, `from|rel|to`."""
        return self._edge(lineage.find_edge(self._columns, edge_id), at)

    def edge_provenance(self, edge_id: str, at: int | None = None) -> Provenance | None:
        handle = lineage.find_edge(self._columns, edge_id)
        return None if handle is None else asof.edge_provenance(self._columns, handle, asof.clamped(self._columns, at))

    def edges(
        self,
        node_id: str,
        direction: Direction = "both",
        at: int | None = None,
        limit: int | None = None,
        read_filter: ReadFilter | None = None,
    ) -> list[Edge]:
        """Oldest first, loops once. Reads a line for each: give a limit where that could be many."""
        return list(islice(self.each_edge(node_id, direction, at, read_filter), limit))

    def each_edge(
        self,
        node_id: str,
        direction: Direction = "both",
        at: int | None = None,
        read_filter: ReadFilter | None = None,
    ) -> Iterator[Edge]:
        """As `edges`, each read when it is asked for. Give a moment where others may write in between."""
        for handle in self._around(node_id, direction):
            # A row may go while others run: it was taken back.
            if handle >= len(self._columns.edges.rel):
                continue
            if not lineage.may_read_edge(self._columns, handle, read_filter):
                continue
            edge = self._edge(handle, at)
            if edge is not None:
                yield edge

    def triples(self, node_id: str) -> list[Triple]:
        """Source, relation and target of a node's living edges, without reading a line."""
        return [(name["from"], name["rel"], name["to"]) for name in self.edge_names(node_id)]

    def edge_names(self, node_id: str) -> Iterator[dict[str, str]]:
        """Yield the name of each living edge of a node, as a DELETE_EDGE wants it, without reading a line."""
        edges = self._columns.edges
        return (self._edge_name(edge) for edge in self._around(node_id, "both") if edges.alive[edge])

    def edge_name(self, edge_id: str) -> dict[str, str] | None:
        """What names this edge, dead or alive; None when there never was one."""
        handle = lineage.find_edge(self._columns, edge_id)
        return None if handle is None else self._edge_name(handle)

    def search(self, query: Query) -> Breathing[Page]:
        """As at `query.at`, or as when it was asked, whatever is committed before it is answered."""
        return search.search(self._columns, query)

    def locate(self, query: Query) -> Breathing[Located]:
        """As `search`, by ids: `node` reads each document when it is needed."""
        return search.locate(self._columns, query)

    def find_ids(self, query: Query, most: int) -> Breathing[list[str] | None]:
        """The ids of the nodes that a query finds, in the order in which they were made, without reading them; None
        when there are more than `most`."""
        return search.find_ids(self._columns, query, most)

    def facets(self, read_filter: ReadFilter, node_type: str | None, most: int) -> Breathing[Facets]:
        return facets.count(self._columns, read_filter, node_type, most)

    def reach(self, walk_: Walk) -> Breathing[Reached]:
        """The ids of what a walk comes to."""
        return walk.reach(self._columns, walk_)

    def touched_since(self, at: int) -> Breathing[list[tuple[EntityKind, str]]]:
        """What commits behind `at` are about, dead or alive; what was written last comes first."""
        return asof.touched_since(self._columns, at)

    def changed_before(self, at: int | None, scanned: int) -> tuple[list[tuple[int, str]], int]:
        """Living nodes by their newest commits, the newest first, among the `scanned` commits before `at` (None: the
        end of the log); and before which one to go on, 0 where there is nothing more."""
        return asof.changed_before(self._columns, at, scanned)

    def nodes_of_type(self, name: str) -> Iterator[str]:
        """The ids of living nodes, the newest first."""
        ids = self._columns.nodes.ids
        members = self._columns.nodes.by_type.get(name)
        return (ids[handle] for handle in facets.backwards(members)) if members is not None else iter(())

    def edges_of_relation(self, name: str) -> Breathing[Iterator[Triple]]:
        """Those that are alive, the newest first."""
        yield from facets.related(self._columns)
        number = self._columns.edges.rels.find(name)
        found = None if number is None else self._columns.edges.by_rel.get(number)
        return iter(()) if found is None else map(self._triple, facets.backwards(found))

    def newest_edges(self, node_id: str) -> Iterator[Triple]:
        """Of a node, those that are alive, the newest first."""
        alive = self._columns.edges.alive
        return (self._triple(edge) for edge in reversed(self._around(node_id, "both")) if alive[edge])

    def types(self) -> dict[str, int]:
        """Of living nodes, and how many there are of each."""
        return {name: len(members) for name, members in self._columns.nodes.by_type.items()}

    def relations(self) -> list[str]:
        """Of all edges that ever were."""
        return list(self._columns.edges.rels.texts)

    def known_types(self) -> list[str]:
        """Of all nodes that ever were."""
        return list(self._columns.nodes.types.texts)

    def walk(self, walk_: Walk) -> Breathing[Walked]:
        """From a node that is not there nothing is reached."""
        return walk.walk(self._columns, walk_)

    def verify_edges(self, walk_: Walk) -> Breathing[Verified]:
        """Which of the edges that the walk is to go along it may."""
        return walk.verify(self._columns, walk_)

    def estimate(self, walk_: Walk) -> Breathing[int]:
        """About how many nodes a walk comes to."""
        return walk.estimate(self._columns, walk_)

    def lineage(
        self,
        entity_id: str,
        depth: Literal["direct", "full"],
        offset: int,
        limit: int,
        read_filter: ReadFilter | None = None,
    ) -> Lineage | None:
        return lineage.lineage(self._columns, entity_id, depth, offset, limit, read_filter)

    def commits_of(
        self, entity_id: str, depth: Literal["direct", "full"], read_filter: ReadFilter | None = None
    ) -> Breathing[list[int]]:
        """The sequence numbers of the commits that `lineage` would list."""
        return lineage.commits_of(self._columns, entity_id, depth, read_filter)

    def step(self, seq: int) -> Step:
        """One commit of a lineage. Reads its line, and that before it."""
        return lineage.step(self._columns, seq)

    def created_at(self, node_id: str) -> str:
        """Of a living node, in its last life. Reads a line."""
        return self._columns.timestamp(self._columns.nodes.created[self._columns.nodes.handles[node_id]])

    def summary(self, entity_id: str) -> Summary | None:
        return lineage.summary(self._columns, entity_id)

    def nonce(self, actor: str, nonce: str) -> Commit | None:
        columns = self._columns
        seq = columns.nonces.find(actor, nonce, self._head.timestamp, columns.timestamp)
        return None if seq is None else columns.commit(seq)

    def redaction(self, node_id: str, fields: tuple[str, ...] | None) -> Breathing[Redacts]:
        """What to mask so that these attributes ("attrs.email"; None: all) are forgotten.

        Raises NotFound for a node that never was, InvalidArgument for what is no attribute.
        """
        return redaction.plan(self._columns, node_id, fields)

    def edge_redaction(self, edge_id: str, fields: tuple[str, ...] | None) -> Breathing[Redacts]:
        """The same for an edge."""
        handle = lineage.find_edge(self._columns, edge_id)
        if handle is None:
            raise NotFound(f"there is no edge '{edge_id}'", details={"entity_id": edge_id})
        return (yield from redaction.plan_edge(self._columns, handle, fields))

    def edge_redactions(self, node_id: str) -> Iterator[tuple[dict[str, str], Redacts]]:
        """Yield the name of each edge of a node, dead or alive, that still holds a value, with what to mask of it."""
        for edge in self._around(node_id, "both"):
            redacts = finished(redaction.plan_edge(self._columns, edge, None))
            if redacts:
                yield self._edge_name(edge), redacts

    def named_by(self, node_id: str, keys: Sequence[str]) -> list[str]:
        """What these attributes of a living node hold, as dotted keys; a lookup each for whatever has none of them."""
        attributes, nodes = self._columns.attributes, self._columns.nodes
        found: list[str] = []
        for key in keys:
            postings = attributes.keys.get(key)
            if postings is not None and nodes.handles.get(node_id, -1) in postings.present:
                node = self.node(node_id)
                values = at_path(node.attrs, key) if node is not None else ()
                found += [value for value in values if isinstance(value, str)]
        return found

    @property
    def dates_any(self) -> bool:
        """Whether any living node has an attribute by which something may be stale. Asked for all that is read."""
        return not self._columns.attributes.keys.keys().isdisjoint(_DATING)

    def dated(self, entity_id: str, at: int | None = None) -> staleness.Dated | None:
        """By what to judge whether an entity is stale; None for most."""
        return staleness.find(self._columns, entity_id, at)

    @property
    def has_pins(self) -> bool:
        """Whether any living node may have pinned files."""
        return staleness.has_pins(self._columns)

    def pinned_files(self, node_id: str) -> staleness.PinnedFiles | None:
        """What an atom was pinned to, at the head; None for most."""
        return staleness.find_pinned(self._columns, node_id)

    def pinned(self) -> list[str]:
        """The ids of all nodes that may have pinned files."""
        return staleness.pinned(self._columns)

    def is_redacted(self, node_id: str, at: int | None = None) -> bool:
        """Whether all that a living node said was redacted."""
        handle = self._columns.nodes.handles.get(node_id)
        return handle is not None and asof.is_redacted(self._columns, handle, asof.clamped(self._columns, at))

    def superseded_since(self, entity_id: str, successor: str, at: int | None = None) -> str:
        return staleness.superseded_since(self._columns, entity_id, successor, at)

    def maybe_stale(self, now: int) -> list[str]:
        """The ids of all that is past its time, superseded, or cites files; some of them are fresh all the same."""
        return staleness.candidates(self._columns, now)

    def having(self, key: str) -> list[str]:
        """The living nodes that have this attribute."""
        ids = self._columns.nodes.ids
        return [ids[handle] for handle in self._columns.attributes.find(key).present]

    def written_by_several(self) -> list[str]:
        """The living nodes that more than one actor wrote."""
        nodes = self._columns.nodes
        return [nodes.ids[handle] for handle in sorted(nodes.extra_actors) if handle in nodes.alive]

    def derived(self, kind: type[A]) -> A:
        """What this vocabulary makes of the graph; built at the first call, which reads all of its nodes."""
        return self._derived_indexes.get(kind)

    def warmed(self, kind: type[DerivedIndex]) -> Breathing[None]:
        """The same in slices: what is committed in between is applied in the end."""
        return self._derived_indexes.building(kind)

    # -- cache

    def dump(self) -> Iterator[bytes]:
        """A snapshot in chunks, of this very moment even if commits are applied before the last chunk is taken."""
        return snapshot.dump(self._columns, self._head)

    def dump_indexes(self) -> Iterator[tuple[str, bytes]]:
        """The derived indexes that are built and can be stored, by name, each as it is when it is asked for."""
        return self._derived_indexes.dump(self._head.record_hash)

    def storable_indexes(self) -> dict[str, int]:
        """How many nodes each of them knows."""
        return self._derived_indexes.sizes()

    @classmethod
    def load(cls, data: bytes | memoryview, lines: Lines) -> State:
        """What `dump` wrote, in one piece. Raises ValueError for anything else: then replay the log."""
        state = cls(lines)
        state._columns, state._head = snapshot.load(data, lines)
        state._derived_indexes = DerivedIndexes(state._columns)
        return state

    # -- inside

    def _edge_owner(self, edge: int) -> tuple[str, str]:
        edges = self._columns.edges
        return edges.rel_of(edge), self._columns.nodes.actors.texts[edges.owner[edge]]

    def _triple(self, edge: int) -> Triple:
        edges, ids = self._columns.edges, self._columns.nodes.ids
        return ids[edges.source[edge]], edges.rel_of(edge), ids[edges.target[edge]]

    def _edge_name(self, edge: int) -> dict[str, str]:
        edges, ids = self._columns.edges, self._columns.nodes.ids
        name = {"from": ids[edges.source[edge]], "rel": edges.rel_of(edge), "to": ids[edges.target[edge]]}
        return name | ({"id": edges.chosen[edge]} if edge in edges.chosen else {})

    def _edge(self, handle: int | None, at: int | None) -> Edge | None:
        return None if handle is None else asof.edge_at(self._columns, handle, asof.clamped(self._columns, at))

    def _around(self, node_id: str, direction: Direction) -> list[int]:
        edges = self._columns.edges
        handle = self._columns.nodes.handles.get(node_id)
        if handle is None:
            return []
        if direction == "both":
            return edges.around(handle)
        return list(linked(edges.out if direction == "out" else edges.into, handle))
