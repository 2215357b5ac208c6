"""The history: where each commit lies in the log, and which entity it is about.

Columns are indexed by sequence number, which starts at 1; row 0 belongs to nobody, so that
0 can mean "none". A commit costs 28 bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

BLOCK = 1 << 16
_SLOTS = 2 * BLOCK


class History:
    def __init__(self) -> None:
        self.offset = array("Q", (0,))
        self.prev = array("I", (0,))
        """The commit before it on the same entity."""
        self.entity = array("I", (0,))
        """Handle of the node or edge, shifted left by one; the lowest bit is 1 for an edge."""
        self.moves = 0
        """Grows with every step, forwards or back: who finds it unchanged has missed nothing."""
        self.lamports = Lamports()
        self.commit_ids = CommitIds()

    @property
    def count(self) -> int:
        return len(self.offset) - 1

    def add(self, *, offset: int, prev: int, entity: int, lamport: int, commit_id: str) -> None:
        self.lamports.add(lamport, len(self.offset))
        self.commit_ids.add(commit_id)
        self.offset.append(offset)
        self.prev.append(prev)
        self.entity.append(entity)
        self.moves += 1

    def pop(self) -> None:
        self.lamports.pop(self.count)
        self.commit_ids.pop()
        self.offset.pop()
        self.prev.pop()
        self.entity.pop()
        self.moves += 1

    def newest(self, seq: int, at: int) -> int:
        """Going back from `seq` along its entity, the first commit that is not after `at`; 0 if there is none."""
        prev = self.prev
        while seq > at:
            seq = prev[seq]
        return seq

    def chain(self, seq: int) -> list[int]:
        """All commits of an entity up to `seq`, oldest first."""
        found = []
        prev = self.prev
        while seq:
            found.append(seq)
            seq = prev[seq]
        found.reverse()
        return found


class Lamports:
    """Lamport of each commit, kept as the places where they don't just count up by one."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.seqs: list[int] = []

    def add(self, lamport: int, seq: int) -> None:
        if not self.starts or lamport - self.starts[-1] != seq - self.seqs[-1]:
            self.starts.append(lamport)
            self.seqs.append(seq)

    def pop(self, seq: int) -> None:
        if self.seqs[-1] == seq:
            self.starts.pop()
            self.seqs.pop()

    def seq(self, lamport: int, count: int) -> int:
        """How many of the first `count` commits have a lamport that is not above this one."""
        place = bisect_right(self.starts, lamport) - 1
        if place < 0:
            return 0
        end = self.seqs[place + 1] - 1 if place + 1 < len(self.seqs) else count
        return min(self.seqs[place] + lamport - self.starts[place], end)


class CommitIds:
    """From commit_id to sequence number without keeping the ids: candidates agree in 32 bits, the log decides.

    Open-addressing tables of fixed size, one for each 65,536 commits: none ever has to grow,
    so no write waits for it, and the last id added is the last of its run and can be taken out.
    """

    def __init__(self) -> None:
        self.prefixes = array("I", (0,))
        self.blocks: list[array[int]] = []

    def add(self, commit_id: str) -> None:
        seq = len(self.prefixes)
        prefix = int(commit_id[:8], 16)
        self.prefixes.append(prefix)
        number = (seq - 1) // BLOCK
        if number == len(self.blocks):
            self.blocks.append(array("I", bytes(4 * _SLOTS)))
        block = self.blocks[number]
        slot = prefix % _SLOTS
        while block[slot]:
            slot = (slot + 1) % _SLOTS
        block[slot] = seq

    def pop(self) -> None:
        seq = len(self.prefixes) - 1
        block = self.blocks[(seq - 1) // BLOCK]
        slot = self.prefixes.pop() % _SLOTS
        while block[slot] != seq:
            slot = (slot + 1) % _SLOTS
        block[slot] = 0
        if seq % BLOCK == 1:
            self.blocks.pop()

    def candidates(self, commit_id: str) -> Iterator[int]:
        prefix = int(commit_id[:8], 16)
        for block in reversed(self.blocks):
            slot = prefix % _SLOTS
            while seq := block[slot]:
                if self.prefixes[seq] == prefix:
                    yield seq
                slot = (slot + 1) % _SLOTS
