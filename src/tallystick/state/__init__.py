"""The state: pure functions of the log, in memory.

The types of queries and results. No I/O and no clock here: documents stay in
the log, and the state asks for a line by its offset through the function it was given.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from tallystick.commits import Commit

if TYPE_CHECKING:
    from tallystick.state.read_filter import ReadFilter

T = TypeVar("T")
Breathing = Generator[None, None, T]
"""A long computation that yields now and then, so that its driver can let others run."""

Direction = Literal["out", "in", "both"]
EntityKind = Literal["node", "edge"]
Triple = tuple[str, str, str]
"""Source, relation and target of an edge."""
Test = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "regex", "exists"]


class Provenance(msgspec.Struct, frozen=True):
    """Of an entity: its newest commit, and who made it first."""

    commit_id: str
    created_by: str
    updated_by: str
    timestamp: str
    lamport: int
    content_hash: str


class Node(msgspec.Struct, frozen=True):
    id: str
    type: str
    attrs: dict[str, Any]
    provenance: Provenance
    content: dict[str, Any] | None = None
    """What a vocabulary keeps beside the attributes: {"format", "encoding", "text" or "blob"}."""


class Edge(msgspec.Struct, frozen=True):
    id: str
    source: str
    rel: str
    target: str
    attrs: dict[str, Any]
    lamport: int
    timestamp: str
    content: dict[str, Any] | None = None


class Condition(msgspec.Struct, frozen=True):
    """A test on one attribute; `key` is dotted from below attrs (`preferences.theme`)."""

    key: str
    test: Test
    value: Any


class Query(msgspec.Struct, frozen=True, kw_only=True):
    ids: tuple[str, ...] | None = None
    type: str | None = None
    types: frozenset[str] | None = None
    """Any of these."""
    conditions: tuple[Condition, ...] = ()
    author: str | None = None
    """Who wrote a version of the node."""
    since: int | None = None
    """Milliseconds; the newest commit of the node is at or after it."""
    until: int | None = None
    """Milliseconds; before it."""
    at: int | None = None
    """A sequence number: the state after that many commits. None is the head."""
    offset: int = 0
    limit: int = 100


class Page(msgspec.Struct, frozen=True):
    nodes: list[Node]
    total: int
    indexed: bool
    """False when documents had to be looked at one by one."""


class NamedEdge(msgspec.Struct, frozen=True):
    """As somebody outside the state names one."""

    source: str
    rel: str
    target: str
    id: str | None = None
    """Only when its author chose one."""


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    start: str
    target: str | None = None
    """Only the paths that end there, and what lies on them."""
    shortest: bool = False
    """With a target: the paths of the fewest edges, however many up to `hops`."""
    hops: int
    min_hops: int | None = None
    """Paths of fewer than `hops` edges are listed down to this length; None: only exactly `hops`."""
    edge_types: tuple[str, ...] = ()
    direction: Direction = "out"
    since: int | None = None
    until: int | None = None
    """The window is on each edge's newest commit."""
    at: int | None = None
    entities_max: int = 100
    paths_max: int = 100
    """0: none is listed, and none is missed."""
    read_filter: ReadFilter | None = None
    """Nodes that it denies are not crossed and not counted."""
    along: tuple[NamedEdge, ...] | None = None
    """Only these edges are looked at; those that are not there are not crossed."""
    reads_nodes: bool = True
    """Whether the nodes are answered with what they say, or not at all."""
    paths_bytes_max: int = 16 << 20
    """Of the attributes of the edges that are read for paths; the paths that need more are left out."""


class Path(msgspec.Struct, frozen=True):
    ids: list[str]
    edges: list[Edge]


class Walked(msgspec.Struct, frozen=True):
    nodes: list[Node]
    """What was reached, nearest first; the start is not among it."""
    paths: list[Path]
    edges_traversed: int
    """Different edges that were crossed, to new nodes or to known ones; with a target, those on its paths."""
    truncated: bool
    ids: list[str] = []
    """Of the nodes, whether or not they were read."""


class Step(msgspec.Struct, frozen=True):
    """One commit in the life of an entity."""

    commit: Commit
    action: str
    """CREATE_NODE, UPDATE_NODE, DELETE_NODE, REDACT_NODE, and the same for edges."""
    changes: dict[str, Any] | None
    """UPDATE only: flattened difference to the version before ("attrs.a.b": new value, removed → None)."""
    before: dict[str, Any] | None = None
    """UPDATE: by the same paths, the values that were replaced; None where there was none. DELETE: all that it said."""


class Lineage(msgspec.Struct, frozen=True):
    id: str
    type: str
    """Of a node; the relation of an edge."""
    current: Node | None
    """None when it was deleted, and for an edge."""
    steps: list[Step]
    total: int
    edge: Edge | None = None
    """What an edge is now."""


class Summary(msgspec.Struct, frozen=True):
    created_at: str
    """Of a node that was deleted and made again: the last time."""
    last_modified: str
    modification_count: int
    unique_actors: int


Redacts = dict[str, str]
"""What must be masked so that fields are forgotten: decimal lamport → SHA-256 of what is left of its payload."""
