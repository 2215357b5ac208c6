"""Where commits are kept: the contract that every log fulfils.

A log knows order, durability and places. It knows nothing of what commits mean.
Offsets are logical: the place of a line's first byte counted from the start of the log,
whatever files it is spread over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from tallystick.commits import Commit, chain

CHECKPOINT = "checkpoint"
"""The name of the file with the last signed checkpoint."""


def tree_directory(home: Path) -> Path:
    """Return the directory of the tree and its checkpoint: hashes and signatures, nothing that was written."""
    return home / "_system" / "tiles"


def checkpoint_path(home: Path) -> Path:
    """Return the file of the last signed checkpoint."""
    return tree_directory(home) / CHECKPOINT


class Head(msgspec.Struct, frozen=True):
    """The durable end of a log, enough to chain the next commit to it."""

    lamport: int = 0
    count: int = 0
    end: int = 0
    """Logical offset just past the last line."""
    record_hash: str = ""
    commit_id: str | None = None
    timestamp: str = ""


class Entry(msgspec.Struct, frozen=True):
    """A commit with the place and the bytes it is kept in."""

    offset: int
    commit: Commit
    line: bytes
    """Without its newline."""

    @property
    def end(self) -> int:
        return self.offset + len(self.line) + 1


class Log(Protocol):
    def head(self) -> Head:
        """The durable head, other writers' included. Cheap: called before every read."""
        ...

    def confirm(self) -> None:
        """Afterwards `head` shows all that was acknowledged, by whomever, before this was called.

        Not for an event loop. Raises StorageRefused where that cannot be found out now.
        """
        ...

    def await_copy(self, machine: str, lamport: int) -> None:
        """Returns when `head` on another machine shows this lamport, or `behind_seconds` there is more than 0.

        `machine` is named as its sessions are (`Sessions.elsewhere`). Not for an event loop. Never raises: what was
        written stays so.
        """
        ...

    def behind_seconds(self) -> float:
        """For how long it has not been known whether others have appended more; cheap, and 0 where that is known."""
        ...

    def claim(self, *, timeout_seconds: float) -> bool:
        """Ask for the others to wait until `release`. False when they did not in time: then try again later.

        A courtesy that saves work, never a promise: the head may move between claim and append, and `append`
        alone decides. With a timeout of zero it returns at once, and may be called on an event loop.
        """
        ...

    def release(self) -> None: ...

    def append(self, entries: Sequence[Entry], *, expected: Head) -> Head:
        """Append all or nothing; on return they would survive a power cut.

        What the redactions among them name is then masked in place, in bytes of the same length
        (`masks` says with what); a crash in between is finished when the log is next opened.

        `entries` are whole batches, chained to `expected`. Raises HeadMoved when the head is
        another one, StorageRefused when nothing was written and it may be tried again later,
        ValueError for entries that no log may hold (`check_chained`, `masks`). Raises Unsettled when it is
        not known whether they were written: `read(expected)` tells, then or later, and the same entries may
        be appended again at the same head, which lets at most one of the two in. LogClosed says that too,
        and that this log writes no more. Raises Unmasked when they were written but not yet masked.
        """
        ...

    def prepare(self, redactions: Sequence[tuple[int, int]], after: Head) -> None:
        """Begin to read what lies behind `after`, and look up what redactions left, so that no reader of a masked
        payload has to search the log for it.

        `redactions` are where the lines of those up to `after` begin and end, where somebody knows them; the rest
        of the log is searched: not for an event loop. Costs time only, and saves it: nothing depends on it.
        """
        ...

    def read(self, after: Head) -> Iterator[Entry]:
        """In order from `after` up to the durable head, each verified before it is handed out. Raises Corrupt.

        Lazy: what is not asked for is not read, so that a reader on an event loop can pause between two entries.
        """
        ...

    def expect(self, offsets: Iterable[int]) -> None:
        """The lines that will be asked for next: have them read together, if that helps. Cheap; never raises."""
        ...

    def line(self, offset: int, *, checked: bool = True) -> bytes:
        """The stored line that starts at `offset`, without its newline.

        Its payload is the one that was committed, by content_hash and commit_id, or what a redaction left of
        it. Not `checked` is for who checks that it is the committed one, and asks again when it is not, or wants
        no more than its time and its place in the chain. Raises Corrupt; other lines can be read as before.
        """
        ...

    def close(self) -> None: ...


def check_chained(entries: Sequence[Entry], head: Head) -> None:
    """What a log must never hold, whoever calls: entries that do not follow on its head."""
    first = entries[0]
    if first.offset != head.end or first.commit.prev != head.commit_id or first.commit.lamport <= head.lamport:
        raise ValueError(f"the entries were not made to follow position {head.lamport}")


def head_after(entries: Sequence[Entry], head: Head) -> Head:
    """Where the log ends once these are appended to it."""
    last = entries[-1]
    return Head(
        lamport=last.commit.lamport,
        count=head.count + len(entries),
        end=last.end,
        record_hash=last.commit.record_hash,
        commit_id=last.commit.commit_id,
        timestamp=last.commit.timestamp,
    )


def verifier_after(head: Head, *, tenant: str | None = None) -> chain.Verifier:
    return chain.Verifier(
        tenant=tenant,
        prev=head.commit_id,
        prev_record_hash=head.record_hash,
        after_lamport=head.lamport,
        timestamp=head.timestamp,
    )


def reached(verifier: chain.Verifier, start: Head, end: int) -> Head:
    """Where a verifier stands that began at `start` and has read up to `end`."""
    return Head(
        lamport=verifier.lamport,
        count=start.count + verifier.count,
        end=end,
        record_hash=verifier.record_hash,
        commit_id=verifier.commit_id,
        timestamp=verifier.timestamp,
    )


def are_new(lamports: Sequence[int], head: Head) -> bool:
    """Whether there are any, and none was there at `head` already."""
    return bool(lamports) and lamports[0] > head.lamport
