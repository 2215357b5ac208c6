"""The graph as the operations of one call leave it so far.

Each operation is judged by those before it, so that an edge may name nodes of the same call; nothing of it is in the
state until all are accepted. A call of one operation reads the state and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tallystick.commits import EDGE_VERBS, Operation, Verb
from tallystick.commits.payloads import name_of_edge
from tallystick.errors import InvalidArgument
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

Payload = dict[str, Any]


class Document(msgspec.Struct, frozen=True):
    """What a node or an edge says."""

    type: str
    """The relation of an edge."""
    attrs: dict[str, Any]
    content: dict[str, Any] | None


class DraftGraph:
    def __init__(self, state: State, read_filter: ReadFilter) -> None:
        self.state = state
        self.narrows = read_filter.narrows
        """False where everything may be read."""
        self._read_filter = read_filter
        self._nodes: dict[str, Payload | None] = {}
        self._edges: dict[str, Payload | None] = {}
        """By name. None, here as above, for what was deleted."""
        self._edge_names: dict[str, Payload] = {}
        """Of edges that were written, dead or alive."""
        self._around: dict[str, dict[str, None]] = {}
        self._written: set[str] = set()
        """The names of what was upserted, even if it was deleted since."""
        self._redacted: dict[str, bool] = {}
        """By name: whether all of it goes."""

    # -- what is there

    def type_of(self, node_id: str) -> str | None:
        """Of a living node, without reading its document."""
        if node_id in self._nodes:
            said = self._nodes[node_id]
            return None if said is None else said["type"]
        known = self.state.owner(node_id)
        return None if known is None else known[0]

    def node(self, node_id: str) -> Document | None:
        if node_id in self._nodes:
            return _document(self._nodes[node_id], "type")
        found = self.state.node(node_id)
        return None if found is None else Document(found.type, found.attrs, found.content)

    def knows_node(self, node_id: str) -> bool:
        """Dead or alive."""
        return node_id in self._nodes or self.state.last_owner(node_id) is not None

    def has_edge(self, name: str) -> bool:
        return self._edges[name] is not None if name in self._edges else self.state.edge_owner(name) is not None

    def edge(self, name: str) -> Document | None:
        if name in self._edges:
            return _document(self._edges[name], "rel")
        found = self.state.edge_by_id(name)
        return None if found is None else Document(found.rel, found.attrs, found.content)

    def edge_name(self, edge_id: str) -> Payload | None:
        """What names this edge, dead or alive."""
        return self._edge_names.get(edge_id) or self.state.edge_name(edge_id)

    def edge_names(self, node_id: str) -> Iterator[Payload]:
        """Yield the name of each living edge of a node."""
        for name in self.state.edge_names(node_id):
            if name_of_edge(name) not in self._edges:
                yield name
        for drafted in self._around.get(node_id, ()):
            if self._edges[drafted] is not None:
                yield self._edge_names[drafted]

    def allows(self, node_id: str) -> bool:
        """Whether it may be read: what the call made itself is no secret to its author."""
        return (node_id in self._nodes and not self.state.knows(node_id)) or self._read_filter.allows(node_id)

    def allows_edge(self, name: str) -> bool:
        """An edge to what may not be read is not there. True where there is no such edge."""
        ends = self.edge_name(name) if self.narrows else None
        return ends is None or all([self.allows(ends["from"]), self.allows(ends["to"])])

    # -- what becomes of it

    def add(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self._add(operation)

    def _add(self, operation: Operation) -> None:
        said, verb = operation.payload, operation.verb
        if verb in EDGE_VERBS:
            self._add_edge(verb, name_of_edge(said), said)
        elif verb is Verb.UPSERT_NODE:
            self._write(said["id"])
            self._nodes[said["id"]] = said
        elif verb is Verb.DELETE_NODE:
            self._nodes[said["node_id"]] = None
        else:
            self._redacted[said["node_id"]] = "redacted_fields" not in said

    def _add_edge(self, verb: Verb, name: str, said: Payload) -> None:
        if verb is Verb.REDACT_EDGE:
            self._redacted[name] = "redacted_fields" not in said
            return
        if verb is Verb.UPSERT_EDGE:
            self._write(name)
        self._edges[name] = said if verb is Verb.UPSERT_EDGE else None
        self._edge_names[name] = {key: said[key] for key in ("from", "rel", "to", "id") if key in said}
        for end in (said["from"], said["to"]):
            self._around.setdefault(end, {})[name] = None

    # -- redactions: they are decided on lines that are in the log, and say what is left of each

    def check_redactable(self, name: str, *, whole_node: bool = False) -> None:
        edges = self._around.get(name, ()) if whole_node else ()
        if name in self._redacted or not self._written.isdisjoint((name, *edges)):
            raise _touched_twice(name)

    def is_redacted(self, name: str) -> bool:
        """Whether all of this edge goes already. Raises for one of which some does."""
        if self._redacted.get(name) is False:
            raise _touched_twice(name)
        return name in self._redacted

    def _write(self, name: str) -> None:
        if name in self._redacted:
            raise _touched_twice(name)
        self._written.add(name)


def _document(said: Payload | None, kind: str) -> Document | None:
    return None if said is None else Document(said[kind], said["attrs"], said.get("content"))


def _touched_twice(name: str) -> InvalidArgument:
    return InvalidArgument(
        f"'{name}' is redacted, and written or redacted by another operation of this call, too",
        hint="redact it in a call of its own",
    )
