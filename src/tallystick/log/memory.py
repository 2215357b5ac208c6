"""The memory log: the contract without a disk, for tests and for throw-away stores."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence

from tallystick.commits import chain
from tallystick.errors import Corrupt, HeadMoved
from tallystick.log import Entry, Head, check_chained, head_after, verifier_after
from tallystick.log.masks import masks_of
from tallystick.log.redaction_index import NEEDLE, RedactionIndex


class MemoryLog:
    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._lines: list[bytes] = []
        self._places: dict[int, int] = {}
        self._head = Head()
        self._redactions = RedactionIndex(self._redactions_between)

    def head(self) -> Head:
        return self._head

    def confirm(self) -> None:
        """There is no other place."""

    def await_copy(self, machine: str, lamport: int) -> None:
        """No other machine has it."""

    def behind_seconds(self) -> float:
        return 0.0

    def claim(self, *, timeout_seconds: float = 0) -> bool:
        return True

    def release(self) -> None:
        pass

    def append(self, entries: Sequence[Entry], *, expected: Head) -> Head:
        if self._head != expected:
            raise HeadMoved(f"the log is at {self._head.lamport}, not at {expected.lamport}")
        check_chained(entries, expected)
        masks = masks_of(entries, self._find, self._line, lambda line: self._problem(line) is None)
        for entry in entries:
            self._lines.append(entry.line)
            self._offsets.append(entry.offset)
            self._places[entry.commit.lamport] = entry.offset
        self._head = head_after(entries, expected)
        for offset, payload in masks.items():
            index = self._index(offset)
            self._lines[index] = chain.mask(self._lines[index], payload)
        return self._head

    def prepare(self, redactions: Sequence[tuple[int, int]], after: Head) -> None:
        self._redactions.prepare(redactions, after.end, self._head.end)

    def read(self, after: Head) -> Iterator[Entry]:
        verifier = verifier_after(after)
        start = bisect_left(self._offsets, after.end)
        # Another thread may be appending: what lies behind the head is not there yet.
        stop = bisect_left(self._offsets, self._head.end)
        for offset, line in list(zip(self._offsets[start:stop], self._lines[start:stop], strict=True)):
            commit = verifier.feed(line)
            if not verifier.is_intact:
                self.line(offset)
            yield Entry(offset, commit, line)
        verifier.finish()

    def expect(self, offsets: Iterable[int]) -> None:
        """They are in memory."""

    def line(self, offset: int, *, checked: bool = True) -> bytes:
        line = self._line(offset)
        problem = self._problem(line) if checked else None
        if problem is not None:
            raise Corrupt(problem)
        return line

    def close(self) -> None:
        pass

    def _redactions_between(self, start: int, end: int) -> list[tuple[bytes, bytes]]:
        places = range(bisect_left(self._offsets, start), bisect_left(self._offsets, end))
        befores = [b"", *self._lines]
        return [(befores[place], self._lines[place]) for place in places if NEEDLE in self._lines[place]]

    def _line(self, offset: int) -> bytes:
        return self._lines[self._index(offset)]

    def _problem(self, line: bytes) -> str | None:
        return self._redactions.problem(line, self._head.end)

    def _find(self, lamports: Collection[int]) -> dict[int, int]:
        return {lamport: self._places[lamport] for lamport in lamports if lamport in self._places}

    def _index(self, offset: int) -> int:
        index = bisect_left(self._offsets, offset)
        if index == len(self._offsets) or self._offsets[index] != offset:
            raise Corrupt(f"no line starts at {offset}")
        return index
