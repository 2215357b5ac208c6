"""The unopened log: its files as they lie there, for whoever looks and must change nothing.

Opening a files log settles what a crash left and finishes redactions. Who has to tell of just
that, or has to work where a log cannot be opened, reads the files here instead; nothing is verified.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from tallystick.log import Head
from tallystick.log.head_file import HeadFile
from tallystick.log.segments import Segments

COPY_MARK = "stream.synced"
"""Beside the log where it is this machine's copy of a stream."""


def is_copy(system: Path) -> bool:
    """Whether what lies there is a copy of a stream, and not a log of its own."""
    return (system / COPY_MARK).exists()


class Unopened(msgspec.Struct, frozen=True):
    segments: Segments
    kept: Head | None
    """The durable head; None where there is none."""

    @property
    def head(self) -> Head:
        return self.kept or Head()

    @property
    def end(self) -> int:
        """Of what is both acknowledged and there."""
        return min(self.segments.size, self.head.end)


@contextmanager
def unopened(system: Path) -> Iterator[Unopened]:
    """Raises Corrupt where a file cannot be read."""
    with closing(Segments(system / "log")) as segments, closing(HeadFile(system / "head")) as head_file:
        # The head first: what it counts is there by then.
        kept = head_file.read()
        segments.refresh()
        yield Unopened(segments, kept)
