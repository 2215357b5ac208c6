"""The columns: everything that the state keeps in memory, and access to the lines that it does not keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

import msgspec

from tallystick.commits import Commit, chain
from tallystick.errors import Corrupt
from tallystick.state.attributes import Attributes
from tallystick.state.documents import EdgeLine, Line, NodeLine, read_edge_line, read_line, read_node_line, read_stamp
from tallystick.state.graph import Edges, Nodes
from tallystick.state.history import History
from tallystick.state.nonces import Nonces

T = TypeVar("T")
S = TypeVar("S", bound=chain.Said)


class Lines(Protocol):
    def __call__(self, offset: int, *, checked: bool = True) -> bytes:
        """The stored line at a logical offset, without its newline, as `Log.line` gives it.

        Must know every commit that is being applied, or was and is not undone, even those that the log does not
        hold yet.
        """
        ...


class Columns:
    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.expected: Callable[[Iterable[int]], None] = lambda offsets: None
        """Is told the offsets of lines that will be asked for next."""
        self.nodes = Nodes()
        self.edges = Edges()
        self.attributes = Attributes()
        self.history = History()
        self.nonces = Nonces()

    def expect(self, seqs: Iterable[int]) -> None:
        """These commits will be read next."""
        self.expected(map(self.history.offset.__getitem__, seqs))

    def expect_documents(self, handles: Iterable[int]) -> None:
        """The newest versions of these nodes will be read next."""
        last = self.nodes.last
        self.expect([last[handle] for handle in handles if handle < len(last)])

    # -- what the log says, by sequence number

    def node_line(self, seq: int) -> NodeLine:
        """Of an UPSERT_NODE only."""
        return self._proven(seq, read_node_line)[1]

    def edge_line(self, seq: int) -> EdgeLine:
        """Of a commit on an edge only."""
        return self._proven(seq, read_edge_line)[1]

    def line(self, seq: int) -> Line:
        return self._proven(seq, read_line)[1]

    def commit(self, seq: int) -> Commit:
        return self._proven(seq, chain.decode)[1]

    def chained_commit(self, seq: int) -> Commit:
        """With every field as it was committed: its record_hash was computed again, too."""
        line, commit = self._proven(seq, chain.decode)
        self._check_chained(seq, line)
        return commit

    def may_say(self, seq: int, texts: Iterable[bytes]) -> bool:
        """False when a line lacks one of them and is not damaged: nothing else of it is read."""
        line = self._unchecked(seq)
        has_all = all(line.find(text) >= 0 for text in texts)
        return has_all or not chain.is_undamaged(line, self.history.commit_ids.prefixes[seq])

    def stored(self, seq: int) -> bytes:
        """The line itself."""
        return self._proven(seq, read_line)[0]

    def _proven(self, seq: int, read: Callable[[bytes], S]) -> tuple[bytes, S]:
        """Raises Corrupt when the payload is not the committed one, or the line is another commit's."""
        line = self.lines(self.history.offset[seq], checked=False)
        try:
            said = read(line)
            if chain.is_committed(line, said) and int(said.commit_id[:8], 16) == self.history.commit_ids.prefixes[seq]:
                return line, said
        except (Corrupt, msgspec.MsgspecError, UnicodeDecodeError):
            pass
        return self._redacted(seq, read)

    def _redacted(self, seq: int, read: Callable[[bytes], S]) -> tuple[bytes, S]:
        """What is not as it was committed, if the log knows why. Its record_hash vouches for its commit_id."""
        line = self.lines(self.history.offset[seq])
        self._check_chained(seq, line)
        said = _decoded(read, line)
        if said.commit_id[:8] != f"{self.history.commit_ids.prefixes[seq]:08x}":
            raise Corrupt(f"commit {seq} of the log is not the one that was there")
        return line, said

    def _check_chained(self, seq: int, line: bytes) -> None:
        if not chain.is_chained(line, chain.record_hash_of(self._unchecked(seq - 1)) if seq > 1 else ""):
            raise Corrupt(f"commit {seq} of the log: record_hash does not match its fields and the record before it")

    # -- its place and time: of many commits, not of documents, so nothing is hashed

    def timestamp(self, seq: int) -> str:
        return _decoded(read_stamp, self._unchecked(seq)).timestamp

    def position(self, seq: int) -> Line:
        return _decoded(read_line, self._unchecked(seq))

    def _unchecked(self, seq: int) -> bytes:
        return self.lines(self.history.offset[seq], checked=False)


def _decoded(read: Callable[[bytes], T], line: bytes) -> T:
    try:
        return read(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Corrupt(f"a line of the log cannot be read: {error}") from None
