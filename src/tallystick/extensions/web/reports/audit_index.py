"""The index: where in the audit log the decisions stand that people ask for, and what can be counted of them.

Lines are never changed and files only grow, so what was read once is not read again: only what is new, for a bounded
time, the newest file first. What is not indexed yet is read as it lies there, so an answer never depends on how far
the index is. It takes a few bytes for each decision, for as many files as are read at all.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from tallystick.audit import Decided
from tallystick.audit.files import files_in
from tallystick.clock import from_text

_BLOCK_BYTES = 1 << 18
FILES_MAX = 64
"""The newest of them."""
COUNTED_MAX = 200_000
_LOOK_AT_CLOCK = 500
_SECOND_MAX = (1 << 32) - 1
_LOOKS = frozenset({"READ", "SEARCH"})


Counted = tuple[int, int]
"""Allowed and denied."""


class VersionCount(msgspec.Struct, kw_only=True):
    """Of the decisions by one version of a policy."""

    first: str
    last: str
    decisions: int = 0
    denials: int = 0

    def add(self, other: VersionCount) -> None:
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)
        self.decisions += other.decisions
        self.denials += other.denials


class DecisionKind(msgspec.Struct, frozen=True):
    """What many decisions have in common."""

    actor: str
    action: str
    policy_version: str
    allowed: bool


class AuditIndex:
    """Used by several threads at once."""

    def __init__(self, directory: Path, *, looks_by: str, recalls_by: Collection[str] = ()) -> None:
        """What was merely looked at by way of the tool `looks_by` is left out, but who came that way is noted; so is
        the use of tools in `recalls_by`."""
        self.directory = directory
        self.looks_by = looks_by
        self._recalls_by = frozenset(recalls_by)
        self._files: dict[int, _File] = {}
        self._recalls: dict[str, array[int]] = {}
        self._has_looked: dict[str, bool] = {}
        self._kinds: dict[DecisionKind, int] = {}
        self._reading = threading.Lock()
        self._oldest: str | None = None
        self.is_complete = False
        """Whether all that there was the last time is in it."""
        self.since: str | None = None
        """From when on it knows everything; None while it does not."""

    def read(self, seconds_max: float) -> None:
        """What is new, for a bounded time. Never raises for what it finds there."""
        until = time.monotonic() + seconds_max
        with self._reading:
            paths = files_in(self.directory)
            kept = {int(path.stem): path for path in paths[-FILES_MAX:]}
            self._files = {first: self._files.get(first) or _File() for first in kept}
            is_read = all(self._read(path, self._files[first], until) for first, path in reversed(kept.items()))
            self.is_complete = is_read and len(kept) == len(paths)
            self.since = self._oldest if is_read else None

    def lines(self, before: int | None = None, *, denied: bool = False) -> Iterator[bytes]:
        """Whole lines without their ends, newest first: all decisions but looks, or only denials, as far as they are
        indexed; of the rest, all. With `before`, only a few of those that are there or behind it."""
        for path in reversed(files_in(self.directory)):
            first = int(path.stem)
            if before is None or first < before:
                yield from self._lines(path, self._files.get(first) or _File(), before, denied=denied)

    def versions(self) -> dict[str, VersionCount]:
        """By name, the newest first."""
        found: dict[str, VersionCount] = {}
        with self._reading:
            for _, file in sorted(self._files.items(), reverse=True):
                for name, counted in reversed(file.versions.items()):
                    found.setdefault(name, VersionCount(first=counted.first, last=counted.last)).add(counted)
        return found

    def count(self, since: int, until: int, spans: int, fits: Callable[[DecisionKind], bool]) -> list[Counted] | None:
        """How many of those that fit were allowed and denied in each of so many parts of this time (milliseconds), the
        oldest first; None where it does not know all of them, or they are too many."""
        first, last = since // 1000, until // 1000
        with self._reading:
            if self.since is None or not (self.is_complete or from_text(self.since) <= since):
                return None
            kinds = list(self._kinds)
            parts = [file.between(first, last) for file in self._files.values()]
        if sum(len(times) for times, _ in parts) > COUNTED_MAX:
            return None
        wanted = {number: kind.allowed for number, kind in enumerate(kinds) if fits(kind)}
        width = max(1, last - first + 1)
        counts: Counter[tuple[int, bool]] = Counter()
        for times, numbers in parts:
            placed = Counter(zip(((at - first) * spans // width for at in times), numbers, strict=True))
            for (place, number), count in placed.items():
                if number in wanted:
                    counts[place, wanted[number]] += count
        return [(counts[place, True], counts[place, False]) for place in range(spans)]

    def has_recalled(self, actor: str, first: str, last: str | None) -> bool:
        """Whether they used a tool that recalls between these times, the last of which may be now."""
        times = self._recalls.get(actor, ())
        at = bisect_left(times, from_text(first))
        return at < len(times) and (last is None or times[at] <= from_text(last))

    def has_looked(self, actor: str) -> bool | None:
        """Whether they ever came by way of `looks_by`; None for somebody who used no tool, as far as is indexed."""
        return self._has_looked.get(actor)

    def _lines(self, path: Path, file: _File, before: int | None, *, denied: bool) -> Iterator[bytes]:
        chosen = file.denied if denied else file.decided
        with self._reading:
            end, count = file.end, len(chosen.places)
        yield from read_backwards(path, end)
        if before is not None:
            count = bisect_left(chosen.numbers, before - int(path.stem), hi=count)
        with path.open("rb") as opened:
            for at in range(count - 1, -1, -1):
                opened.seek(chosen.places[at])
                yield opened.readline().removesuffix(b"\n")

    def _read(self, path: Path, file: _File, until: float) -> bool:
        """False where time was up."""
        try:
            with path.open("rb") as opened:
                if os.fstat(opened.fileno()).st_size < file.end:
                    # A writer took back what the disk refused.
                    file.begin()
                opened.seek(file.end)
                for line in opened:
                    if not line.endswith(b"\n"):
                        break
                    self._note(line, file)
                    if file.lines % _LOOK_AT_CLOCK == 0 and time.monotonic() > until:
                        return False
        except OSError:
            return False
        return True

    def _note(self, line: bytes, file: _File) -> None:
        try:
            said = _glances.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # Whoever reads it as a decision says that it is none.
            file.decided.add(file.lines, file.end)
        else:
            self._oldest = min(self._oldest or said.timestamp, said.timestamp)
            if said.event == Decided.name:
                self._note_decision(said, file)
        file.lines += 1
        file.end += len(line)

    def _note_decision(self, said: _Glance, file: _File) -> None:
        if said.tool is not None:
            self._has_looked[said.actor] = said.tool == self.looks_by or self._has_looked.get(said.actor, False)
        if said.decision and said.tool == self.looks_by and said.action in _LOOKS:
            return
        file.decided.add(file.lines, file.end)
        if not said.decision:
            file.denied.add(file.lines, file.end)
        elif said.tool in self._recalls_by:
            insort(self._recalls.setdefault(said.actor, array("q")), from_text(said.timestamp))
        at, name = said.timestamp, said.policy_version
        kind = DecisionKind(said.actor, said.action, name, said.decision)
        file.times.append(_second(at))
        file.kinds.append(self._kinds.setdefault(kind, len(self._kinds)))
        counted = VersionCount(first=at, last=at, decisions=1, denials=not said.decision)
        if name in file.versions:
            file.versions[name].add(counted)
        else:
            file.versions[name] = counted


class _Places:
    def __init__(self) -> None:
        self.numbers = array("L")
        """Of lines in their file, from 0."""
        self.places = array("Q")
        """Where they begin."""

    def add(self, number: int, place: int) -> None:
        self.numbers.append(number)
        self.places.append(place)


class _File:
    """What was read of one file."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.end = self.lines = 0
        self.decided, self.denied = _Places(), _Places()
        self.versions: dict[str, VersionCount] = {}
        self.times, self.kinds = array("I"), array("I")
        """Of each decision, in the order of the log: the second, and the number of what it is like."""

    def between(self, first: int, last: int) -> tuple[array[int], array[int]]:
        start, end = bisect_left(self.times, first), bisect_right(self.times, last)
        return self.times[start:end], self.kinds[start:end]


def _second(timestamp: str) -> int:
    """What no clock of ours wrote is long ago."""
    try:
        return min(max(0, from_text(timestamp) // 1000), _SECOND_MAX)
    except (ValueError, OverflowError):
        return 0


class _Glance(msgspec.Struct, frozen=True):
    event: str
    timestamp: str
    decision: bool = False
    actor: str = ""
    action: str = ""
    tool: str | None = None
    policy_version: str = ""


_glances = msgspec.json.Decoder(_Glance)


# -- the log from its end


def newest_lines(directory: Path, before: int | None = None) -> Iterator[bytes]:
    """Whole lines without their ends, newest first; with `before`, none of a file that begins there or behind it."""
    for path in reversed(files_in(directory)):
        if before is None or int(path.stem) < before:
            yield from read_backwards(path)


def read_backwards(path: Path, begin: int = 0) -> Iterator[bytes]:
    """The lines of a file from its end to the byte `begin`, where one begins."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        rest = b""
        is_last = True
        while end > begin:
            start = max(begin, end - _BLOCK_BYTES)
            file.seek(start)
            rest, *lines = (file.read(end - start) + rest).split(b"\n")
            end = start
            # Behind the last end of a line is nothing, or what a writer is busy with.
            yield from reversed(lines[:-1] if is_last and lines else lines)
            is_last = is_last and not lines
        if rest and not is_last:
            yield rest


def is_look(line: bytes, tool: str) -> bool:
    """Whether it says that this tool was allowed to read or search: told by the bytes, since quotes within texts are
    escaped."""
    # The cheapest first: it is asked of every line.
    is_allowed_look = b'"decision":true' in line and (b'"action":"SEARCH"' in line or b'"action":"READ"' in line)
    return is_allowed_look and b'"tool":%b' % msgspec.json.encode(tool) in line
