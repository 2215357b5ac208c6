"""The aspects: what one vocabulary makes true, beside the graph itself.

An aspect is a function of the graph as it stands, not of how it came about. So it can be
built at any moment from the nodes and edges of its types, which happens at its first use,
and is kept up to date from then on, commit by commit, forwards and back.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import msgspec


class NodeVersion(msgspec.Struct, frozen=True):
    id: str
    type: str
    attrs: dict[str, Any]
    created: int
    """Sequence number of the commit that made it."""
    updated: int
    """Sequence number of its newest commit."""
    content: dict[str, Any] | None = None


class EdgeVersion(msgspec.Struct, frozen=True):
    id: str
    source: str
    rel: str
    target: str
    created: int
    updated: int


class Aspect(Protocol):
    types: ClassVar[frozenset[str]]
    """Types of the nodes it follows. An edge is followed when its source is of one of them."""

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        """None: it was not there, or is not there any more. Undoing swaps the two."""
        ...

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None: ...
