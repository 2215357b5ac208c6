"""The history: where each commit lies in the log, and which entity it is about.

Columns are indexed by sequence number, which starts at 1; row 0 belongs to nobody, so that
0 can mean "none". A commit costs 28 bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

FIRST = 1 << 6
BLOCK = 1 << 16


class History:
    def __init__(self) -> None:
        self.offset = array("Q", (0,))
        self.prev = array("I", (0,))
        """The commit before it on the same entity."""
        self.entity = array("I", (0,))
        """Handle of the node or edge, shifted left by one; the lowest bit is 1 for an edge."""
        self.redactions = array("I")
        """Those that are one, oldest first."""
        self.moves = 0
        """Grows with every step, forwards or back: who finds it unchanged has missed nothing."""
        self.lamports = Lamports()
        self.commit_ids = CommitIds()

    @property
    def count(self) -> int:
        return len(self.offset) - 1

    def add(self, offset: int, prev: int, entity: int, lamport: int, commit_id: str) -> int:
        """The sequence number that it gets."""
        seq = len(self.offset)
        self.lamports.add(lamport, seq)
        self.commit_ids.add(commit_id)
        self.offset.append(offset)
        self.prev.append(prev)
        self.entity.append(entity)
        self.moves += 1
        return seq

    def pop(self) -> None:
        if self.redactions and self.redactions[-1] == self.count:
            self.redactions.pop()
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

    Open-addressing tables of fixed size, the first for few commits and the later ones for 65,536
    each: none ever has to grow, so no write waits for it, a tenant with little to say costs
    little, and the last id added is the last of its run and can be taken out.
    """

    def __init__(self) -> None:
        self.prefixes = array("I", (0,))
        self.blocks: list[array[int]] = []

    def add(self, commit_id: str) -> None:
        seq = len(self.prefixes)
        prefix = int(commit_id[:8], 16)
        self.prefixes.append(prefix)
        if (seq - 1) % FIRST == 0:  # No block begins elsewhere.
            self._begin_block(_block_of(seq))
        block = self.blocks[-1]
        slots = len(block)
        slot = prefix % slots
        while block[slot]:
            slot = (slot + 1) % slots
        block[slot] = seq

    def _begin_block(self, number: int) -> None:
        if number == len(self.blocks):
            self.blocks.append(array("I", bytes(4 * slots_of(number))))

    def pop(self) -> None:
        seq = len(self.prefixes) - 1
        block = self.blocks[-1]
        slots = len(block)
        slot = self.prefixes.pop() % slots
        while block[slot] != seq:
            slot = (slot + 1) % slots
        block[slot] = 0
        if seq == 1 or _block_of(seq - 1) != _block_of(seq):
            self.blocks.pop()

    def candidates(self, commit_id: str) -> Iterator[int]:
        prefix = int(commit_id[:8], 16)
        for block in reversed(self.blocks):
            slots = len(block)
            slot = prefix % slots
            while seq := block[slot]:
                if self.prefixes[seq] == prefix:
                    yield seq
                slot = (slot + 1) % slots


def _block_of(seq: int) -> int:
    """The first has FIRST commits, each of the next as many as all before it together, up to BLOCK."""
    place = seq - 1
    if place < BLOCK:
        return (place // FIRST).bit_length()
    return (BLOCK // FIRST).bit_length() + place // BLOCK - 1


def slots_of(number: int) -> int:
    """Twice as many as the block has commits, so that runs stay short."""
    return min(2 * FIRST << max(number - 1, 0), 2 * BLOCK)


def block_sizes(count: int) -> list[int]:
    """The slots of each block when there are so many commits."""
    return [slots_of(number) for number in range(_block_of(count) + 1)] if count else []
