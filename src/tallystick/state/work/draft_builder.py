"""The draft builder: each operation is tried out on the work graph as it is added, and all are taken back.

So a rule is judged where the operations before it lead, and what a draft makes actionable is
the exact difference between before and after. The numbers are the ones that the commits will
have, because a draft is appended at the very head at which it was built.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from tallystick.commits import Operation, Verb
from tallystick.commits.payloads import edge_name, name_of_edge
from tallystick.errors import LimitExceeded
from tallystick.state.attributes import integer_of
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work import NODE
from tallystick.state.work.board import Row, rank_of
from tallystick.state.work.graph import WorkGraph

OPERATIONS_MAX = 20_000

Attrs = dict[str, Any]
Link = dict[str, Any]
"""An edge as its operation says it: {from, rel, to, attrs?, content?, id?}."""
_Change = tuple[NodeVersion | None, NodeVersion | None] | tuple[EdgeVersion | None, EdgeVersion | None]


class DraftBuilder:
    def __init__(self, state: State, read_filter: ReadFilter | None = None) -> None:
        """With a filter, `newly_actionable` is judged by what may be read."""
        self.graph = state.derived(WorkGraph)
        self.operations: list[Operation] = []
        self.state = state
        self._changes: list[_Change] = []
        self._nodes: dict[str, NodeVersion | None] = {}
        self._links: dict[str, Link | None] = {}
        self._read_filter = read_filter if read_filter is not None and read_filter.narrows else None
        self._was_ready: dict[Row, bool] = {}

    def __enter__(self) -> DraftBuilder:
        self.graph.was_actionable = {}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.graph.was_actionable = None
        while self._changes:
            before, after = self._changes.pop()
            self._notify(after, before)

    # -- nodes

    def find(self, node_id: str) -> Attrs | None:
        """The attributes of a node as the draft leaves it."""
        version = self._version(node_id)
        return None if version is None else version.attrs

    def attrs(self, node_id: str) -> Attrs:
        """Of a work node that is known to be there."""
        found = self.find(node_id)
        if found is None:
            raise KeyError(node_id)
        return found

    def put(self, node_id: str, attrs: Attrs, node_type: str = NODE) -> None:
        before = self._version(node_id)
        number = self._add(Verb.UPSERT_NODE, {"id": node_id, "type": node_type, "attrs": attrs})
        after = NodeVersion(node_id, node_type, attrs, before.created if before else number, number)
        self._nodes[node_id] = after
        self._change(before, after)

    def revise(self, node_id: str, **changes: Any) -> None:
        """The next revision of a node; None takes an attribute away."""
        attrs = self.attrs(node_id)
        said = {**attrs, **changes, "rev": revision(attrs) + 1}
        kept = {name: value for name, value in said.items() if value is not None or name == "parent"}
        self.put(node_id, kept)

    def delete(self, node_id: str) -> None:
        before = self._version(node_id)
        self._add(Verb.DELETE_NODE, {"node_id": node_id})
        self._nodes[node_id] = None
        self._change(before, None)

    def put_beside(self, node_id: str, node_type: str, attrs: Attrs) -> None:
        """A node that is none of the work graph's."""
        self._add(Verb.UPSERT_NODE, {"id": node_id, "type": node_type, "attrs": attrs})

    def _version(self, node_id: str) -> NodeVersion | None:
        if node_id in self._nodes:
            return self._nodes[node_id]
        row, node = self.graph.find(node_id), self.state.node(node_id)
        if row is None or node is None:
            return None
        version = NodeVersion(node_id, node.type, node.attrs, row.created, row.updated, node.content)
        self._nodes[node_id] = version
        return version

    # -- edges

    def links(self, node_id: str) -> list[Link]:
        """All edges of a node as the draft leaves them. Reads a line for each."""
        found = [
            _link(edge.source, edge.rel, edge.target, edge.attrs, edge.content, edge.id)
            for edge in self.state.edges(node_id)
            if edge.id not in self._links
        ]
        return found + [
            link for link in self._links.values() if link is not None and node_id in (link["from"], link["to"])
        ]

    def find_link(self, source: str, rel: str, target: str) -> Link | None:
        name = edge_name(source, rel, target)
        if name in self._links:
            return self._links[name]
        edge = self.state.edge(source, rel, target)
        if edge is None or edge.id in self._links:
            return None
        return _link(source, rel, target, edge.attrs, edge.content, edge.id)

    def link(self, link: Link) -> None:
        number = self._add(Verb.UPSERT_EDGE, {"attrs": {}, **link})
        self._links[name_of_edge(link)] = link
        self._change(None, _edge_version(link, number))

    def unlink(self, link: Link) -> None:
        named: Link = {key: link[key] for key in ("from", "rel", "to", "id") if key in link}
        number = self._add(Verb.DELETE_EDGE, named)
        self._links[name_of_edge(link)] = None
        self._change(_edge_version(link, number), None)

    # -- what comes of it

    def newly_actionable(self) -> list[Row]:
        """What was not actionable before and is now; what comes next first."""
        if self._read_filter is not None:
            ready = [row for row, was in self._was_ready.items() if not was and self._is_ready(row, self._read_filter)]
            return sorted(ready, key=rank_of)
        changed = self.graph.was_actionable or {}
        found = [row for row, was in changed.items() if not was and row.rank is not None]
        return sorted(found, key=lambda row: row.rank or ())

    def _note_ready(self, change: NodeVersion | EdgeVersion, read_filter: ReadFilter) -> None:
        """Whoever may become actionable by a change: the node, the one above it, and those that wait for it."""
        row = self.graph.find(change.source if isinstance(change, EdgeVersion) else change.id)
        around = [] if row is None else [row, *([row.parent] if row.parent is not None else []), *row.dependents]
        for each in around:
            if each not in self._was_ready:
                self._was_ready[each] = self._is_ready(each, read_filter)

    def _is_ready(self, row: Row, read_filter: ReadFilter) -> bool:
        return row.open and not row.held and not any(read_filter.allows(each.id) for each in row.waits_for())

    def _add(self, verb: Verb, payload: dict[str, Any]) -> int:
        """The sequence number that it will have."""
        if len(self.operations) == OPERATIONS_MAX:
            raise LimitExceeded(
                f"this would take more than {OPERATIONS_MAX:,} changes at once",
                code="too_large",
                hint="do it in parts: smaller subtrees, fewer nodes",
            )
        self.operations.append(Operation(verb, payload))
        return self.state.count + len(self.operations)

    def _change(self, before: Any, after: Any) -> None:
        self._changes.append((before, after))
        if self._read_filter is not None:
            self._note_ready(before or after, self._read_filter)
        self._notify(before, after)
        if self._read_filter is not None and after is not None and before is None and isinstance(after, NodeVersion):
            made = self.graph.find(after.id)
            if made is not None:
                self._was_ready.setdefault(made, False)

    def _notify(self, before: Any, after: Any) -> None:
        if isinstance(before or after, NodeVersion):
            self.graph.node_changed(before, after)
        else:
            self.graph.edge_changed(before, after)


def revision(attrs: Attrs) -> int:
    return integer_of(attrs, "rev", 1)


def _link(source: str, rel: str, target: str, attrs: Attrs, content: Attrs | None, edge_id: str) -> Link:
    link: Link = {"from": source, "rel": rel, "to": target, "attrs": attrs}
    if content is not None:
        link["content"] = content
    return link if edge_id == edge_name(source, rel, target) else {**link, "id": edge_id}


def _edge_version(link: Link, number: int) -> EdgeVersion:
    return EdgeVersion(name_of_edge(link), link["from"], link["rel"], link["to"], number)
