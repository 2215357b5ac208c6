"""What somebody read in some spans of time, as far as the audit log says.

It names the entity of a call that is about one; of a search it says that there was one, not what it found. Lines are
read as they lie there: whether they are the ones that were written is for the proof to say.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec

from tallystick.audit import Decided, Event, Lost, decode
from tallystick.audit.files import began_at, files_in
from tallystick.clock import from_text, to_text
from tallystick.errors import Corrupt

SECONDS_MAX = 5.0
READS_MAX = 1_000
_READING = frozenset({"READ", "SEARCH"})
_LOOK_AT_CLOCK = 2_000
_SLACK = 60_000
"""Milliseconds. A line is written after its decision, the first one of a file after the file has begun."""


class Span(msgspec.Struct, frozen=True):
    actor: str
    since: str
    until: str | None = None
    """None: until now."""

    def holds(self, timestamp: str) -> bool:
        return self.since <= timestamp and (self.until is None or timestamp <= self.until)


class AuditRead(msgspec.Struct, frozen=True):
    """The first of several alike."""

    resource: str
    actor: str
    at: str
    seq: int
    """Its line in the audit log."""
    tool: str | None = None


class AuditReads(msgspec.Struct, frozen=True):
    reads: tuple[AuditRead, ...] = ()
    """One for each entity, in the order in which they were first read."""
    searches: int = 0
    """Decisions about looking for something, a few of one call perhaps: what was found is written nowhere."""
    gaps: tuple[str, ...] = ()
    """Why there may have been more, a sentence each."""


class _Spent(Exception):
    pass


def find_reads(
    directory: Path, spans: Sequence[Span], *, except_by: str | None = None, seconds_max: float = SECONDS_MAX
) -> AuditReads:
    """Reads the files of these spans, so it belongs in a thread. Never raises for what it finds there. What was done
    by the tool `except_by` does not count."""
    if not spans:
        return AuditReads()
    files = files_in(directory)
    if not files:
        return AuditReads(gaps=("there is no audit log of that time",))
    found = _Reads(spans, except_by)
    deadline = time.monotonic() + seconds_max
    try:
        began = [began_at(path) for path in files]
        if to_text(max(0, from_text(began[0]) - _SLACK)) > min(span.since for span in spans):
            found.gap(f"the audit log begins at {began[0]}: of what was read before it says nothing")
        for path in _overlapping(files, began, spans):
            found.scan(path, deadline)
    except _Spent:
        found.gap("the audit log was not read to its end: it is too long")
    except OSError:
        found.gap("the audit log could not be read")
    return AuditReads(tuple(found.reads.values()), found.searches, tuple(found.gaps))


def _overlapping(files: Sequence[Path], began: Sequence[str], spans: Sequence[Span]) -> Iterator[Path]:
    """A file ends about where the next begins."""
    starts = [to_text(max(0, from_text(each) - _SLACK)) for each in began]
    ends = [to_text(from_text(each) + _SLACK) for each in began[1:]]
    for path, start, end in zip_longest(files, starts, ends):
        if any((end is None or span.since <= end) and (span.until is None or start <= span.until) for span in spans):
            yield path


class _Reads:
    def __init__(self, spans: Sequence[Span], except_by: str | None) -> None:
        self.reads: dict[str, AuditRead] = {}
        self.searches = 0
        self.gaps: dict[str, None] = {}
        self._spans = spans
        self._except_by = except_by
        # Most lines are somebody else's: they are not decoded. What the disk refused is said in lines of nobody.
        self._wanted = (*(msgspec.json.encode(span.actor) for span in spans), Lost.name.encode())

    def gap(self, text: str) -> None:
        self.gaps[text] = None

    def scan(self, path: Path, deadline: float) -> None:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                if number % _LOOK_AT_CLOCK == 0 and time.monotonic() > deadline:
                    raise _Spent
                if any(name in line for name in self._wanted):
                    self._take(line.removesuffix(b"\n"))

    def _take(self, line: bytes) -> None:
        try:
            found = decode(line)
        except Corrupt:
            self.gap("a line of the audit log is damaged: 'tallystick verify' tells where")
            return
        event: Event = found.event
        if isinstance(event, Lost):
            if any(span.holds(event.timestamp) or span.holds(event.since) for span in self._spans):
                self.gap(f"{event.events} decisions could not be written to the audit log at {event.since}")
        elif isinstance(event, Decided) and self._is_wanted(event):
            self._note(event, found.seq)

    def _is_wanted(self, event: Decided) -> bool:
        if not event.decision or event.action not in _READING or event.tool == (self._except_by or ""):
            return False
        return any(span.actor == event.actor and span.holds(event.timestamp) for span in self._spans)

    def _note(self, event: Decided, seq: int) -> None:
        if event.resource is None or event.action == "SEARCH":
            self.searches += 1
        if event.resource is None or event.resource in self.reads:
            return
        if len(self.reads) == READS_MAX:
            self.gap(f"more than {READS_MAX} entities were read: only the first are looked at")
        else:
            read = AuditRead(event.resource, event.actor, event.timestamp, seq, event.tool)
            self.reads[event.resource] = read
