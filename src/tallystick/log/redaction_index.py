"""The redaction index: what redactions say is left of the payloads that they masked.

A masked payload has neither its content_hash nor its commit_id any more; the newest redaction
that names it vouches for it. Read from the log when the first masked payload is met, then kept up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from tallystick.commits import REDACTIONS, chain
from tallystick.errors import Corrupt

Lines = Callable[[int, int], Iterable[tuple[int, bytes, bool]]]
"""Offset and line of every line between two offsets, and whether it is whole."""


class RedactionIndex:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._end = 0
        self._last = b""
        """The line before `_end`."""
        self._left: dict[int, str] = {}

    def problem(self, line: bytes, end: int) -> str | None:
        """What is wrong with a stored line, as far as the log up to `end` knows; None if nothing is.

        One pass over all of the log at the first payload that was altered, else over what is new.
        """
        try:
            commit = chain.decode(line)
            if chain.is_committed(line, commit):
                return None
        except Corrupt as error:
            return error.message
        # A redaction is in the log before its masks are: read up to `end` after the line, it is among what is read.
        self._read(end)
        left = self._left.get(commit.lamport)
        if left == chain.content_hash(commit.payload):
            return None
        if left is not None:
            return f"lamport {commit.lamport}: what is left of the redacted payload is not what its redaction left"
        return f"lamport {commit.lamport}: the payload does not match content_hash, and no redaction names it"

    def _read(self, end: int) -> None:
        for offset, line, _ in self._lines(self._end, end):
            if b',"redacts":{' in line:
                with suppress(Corrupt):
                    self._note(line)
            self._last, self._end = line, offset + len(line) + 1

    def _note(self, line: bytes) -> None:
        """Its fields are what it vouches with: those of a line that is not chained prove nothing."""
        commit = chain.decode(line)
        before = chain.record_hash_of(self._last) if self._last else ""
        if chain.is_chained(line, before) and commit.operation in REDACTIONS:
            self._left |= {int(lamport): left for lamport, left in (commit.redacts or {}).items()}
