"""The columns: everything the state keeps in memory, and the way to the lines it does not keep."""

from __future__ import annotations

from collections.abc import Callable

from tallystick.commits import Commit, chain
from tallystick.state.attributes import Attributes
from tallystick.state.documents import (
    EdgeLine,
    Line,
    NodeLine,
    read_edge_line,
    read_line,
    read_node_line,
    read_stamp,
)
from tallystick.state.graph import Edges, Nodes
from tallystick.state.history import History
from tallystick.state.nonces import Nonces

Lines = Callable[[int], bytes]
"""The stored line at a logical offset, without its newline. Must know every commit that is being applied, or
was and is not undone, even those that the log does not hold yet."""


class Columns:
    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.nodes = Nodes()
        self.edges = Edges()
        self.attributes = Attributes()
        self.history = History()
        self.nonces = Nonces()

    # -- what the log says, by sequence number

    def node_line(self, seq: int) -> NodeLine:
        """Of an UPSERT_NODE only."""
        return read_node_line(self.lines(self.history.offset[seq]))

    def edge_line(self, seq: int) -> EdgeLine:
        """Of a commit on an edge only."""
        return read_edge_line(self.lines(self.history.offset[seq]))

    def line(self, seq: int) -> Line:
        return read_line(self.lines(self.history.offset[seq]))

    def timestamp(self, seq: int) -> str:
        return read_stamp(self.lines(self.history.offset[seq])).timestamp

    def commit(self, seq: int) -> Commit:
        return chain.decode(self.lines(self.history.offset[seq]))
