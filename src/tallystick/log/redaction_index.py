"""The redaction index: what redactions say is left of the payloads that they masked.

A masked payload has neither its content_hash nor its commit_id any more; the newest redaction
that names it vouches for it. Redactions are looked for once, by `prepare` or when the first
masked payload is met, and then followed as they come.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from tallystick.commits import REDACTIONS, chain
from tallystick.errors import Corrupt
from tallystick.log import Entry

NEEDLE = b',"redacts":{'
"""In the line of every redaction, and in few others."""

Pairs = Callable[[int, int], Iterable[tuple[bytes, bytes]]]
"""Of each line between two offsets that holds the needle: the line before it, and the line."""


class RedactionIndex:
    """For any number of threads."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._end = 0
        """Redactions are known up to this offset."""
        self._left: dict[int, str] = {}
        self._reading = threading.Lock()

    def prepare(self, known: Sequence[tuple[int, int]], known_end: int, end: int) -> None:
        """Read those between the pairs of `known`, which are all up to `known_end`, and look for the rest."""
        with self._reading:
            if known_end > self._end:
                for start, stop in known:
                    self._note(start, stop)
                self._end = known_end
            self._read(end)

    def follow(self, entries: Sequence[Entry]) -> None:
        """These are in the log, verified. Where they follow on what is known they need not be looked for."""
        if entries[0].offset != self._end:
            return
        with self._reading:
            for entry in entries if entries[0].offset == self._end else ():
                if entry.commit.redacts:
                    self._remember(entry.commit.redacts)
                self._end = entry.end

    def problem(self, line: bytes, end: int) -> str | None:
        """What is wrong with a stored line, as far as the log up to `end` knows; None if nothing is.

        Cheap where the redactions up to `end` are known; else the rest of the log is searched for them.
        """
        try:
            commit = chain.decode(line)
            if chain.is_committed(line, commit):
                return None
        except Corrupt as error:
            return error.message
        # A redaction is in the log before its masks are: read up to `end` after the line, it is among what is read.
        with self._reading:
            self._read(end)
        left = self._left.get(commit.lamport)
        if left == chain.content_hash(commit.payload):
            return None
        if left is not None:
            return f"lamport {commit.lamport}: what is left of the redacted payload is not what its redaction left"
        return f"lamport {commit.lamport}: the payload does not match content_hash, and no redaction names it"

    def _read(self, end: int) -> None:
        if end > self._end:
            self._note(self._end, end)
            self._end = end

    def _note(self, start: int, end: int) -> None:
        for before, line in self._pairs(start, end):
            # Its fields are what it vouches with: those of a line that is not chained prove nothing.
            with suppress(Corrupt):
                commit = chain.decode(line)
                is_chained = chain.is_chained(line, chain.record_hash_of(before) if before else "")
                if is_chained and commit.operation in REDACTIONS:
                    self._remember(commit.redacts or {})

    def _remember(self, redacts: dict[str, str]) -> None:
        self._left |= {int(lamport): left for lamport, left in redacts.items()}
