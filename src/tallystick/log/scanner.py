"""The scanner: the lines of a files log in order, each verified, for everything that reads a log through."""

from __future__ import annotations

from collections.abc import Iterator

from tallystick.errors import Corrupt
from tallystick.log import Entry, Head, reached, verifier_after
from tallystick.log.segments import Segments


class Scanner:
    """Verifies that each line continues the chain and stands in the segment that is named for it.

    A masked payload is not judged here: `verifier` remembers it until a redaction explains it.
    """

    def __init__(self, segments: Segments, after: Head, *, tenant: str | None = None) -> None:
        self._segments = segments
        self._after = after
        self.verifier = verifier_after(after, tenant=tenant)
        self.offset = after.end
        """The offset at which the last line read begins. If Corrupt is raised, this line is damaged."""
        self.end = after.end
        """The offset at which the last verified line ends."""

    @property
    def head(self) -> Head:
        return reached(self.verifier, self._after, self.end)

    def entries(self, end: int) -> Iterator[Entry]:
        """Yield the entries from where the scanner is up to `end`. Raises Corrupt."""
        for offset, line in self.lines(end):
            yield self.feed(offset, line)

    def lines(self, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the lines from where the scanner is up to `end`, with their offsets, for a caller that feeds each.
        Raises Corrupt for a line without an end."""
        for offset, line, is_whole in self._segments.lines(self.end, end):
            self.offset = offset
            if not is_whole:
                raise Corrupt("the line has no end")
            yield offset, line

    def feed(self, offset: int, line: bytes) -> Entry:
        """Verify the line that follows. Raises Corrupt."""
        before = self.verifier.lamport
        commit = self.verifier.feed(line)
        self._segments.check_named(offset, before, commit.lamport)
        self.end = offset + len(line) + 1
        return Entry(offset, commit, line)
