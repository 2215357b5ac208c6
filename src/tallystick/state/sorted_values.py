"""The order of a key's values: numbers among numbers, texts among texts."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Any, Literal

from sortedcontainers import SortedList

from tallystick.state import Breathing

Bound = Literal["gt", "gte", "lt", "lte"]
_RUN = 8_192


class Order:
    """Distinct values only. While it is being built, changes wait in `_late`."""

    def __init__(self) -> None:
        self.ready = False
        self._late: list[tuple[bool, Any]] = []
        self._kinds: dict[type, Any] = {}

    def build(self, values: list[Any]) -> Breathing[None]:
        """Sort in runs, so that a million values don't hold everybody up."""
        for kind in (float, str):
            found = [value for value in values if kind_of(value) is kind]
            runs = []
            for start in range(0, len(found), _RUN):
                runs.append(sorted(found[start : start + _RUN]))
                yield
            ordered: list[Any] = []
            merged = merge(*runs)
            while run := list(islice(merged, _RUN)):
                ordered += run
                yield
            self._kinds[kind] = SortedList(ordered)
        self.ready = True
        for added, value in self._late:
            (self.add if added else self.discard)(value)
        self._late.clear()

    def add(self, value: Any) -> None:
        kind = kind_of(value)
        if kind is None:
            return
        if not self.ready:
            self._late.append((True, value))
        else:
            self._kinds[kind].add(value)

    def discard(self, value: Any) -> None:
        kind = kind_of(value)
        if kind is None:
            return
        if not self.ready:
            self._late.append((False, value))
        else:
            self._kinds[kind].discard(value)

    def count(self, test: Bound, value: str | float) -> int:
        """How many values there are on that side of `value`."""
        ordered = self._kinds[_kind_asked(value)]
        if test in ("lt", "lte"):
            return int(ordered.bisect_left(value) if test == "lt" else ordered.bisect_right(value))
        return len(ordered) - int(ordered.bisect_right(value) if test == "gt" else ordered.bisect_left(value))

    def values(self, test: Bound, value: str | float) -> Breathing[list[Any]]:
        found: list[Any] = []
        for run in self._runs(test, value):
            found += run
            yield
        return found

    def _runs(self, test: Bound, value: str | float) -> Iterator[list[Any]]:
        """Each run is looked up anew from where the last one ended: values come and go in between."""
        ordered = self._kinds[_kind_asked(value)]
        inclusive = test in ("gte", "lte")
        if test in ("lt", "lte"):
            lowest, highest, ends = None, value, (True, inclusive)
        else:
            lowest, highest, ends = value, None, (inclusive, True)
        while run := list(islice(ordered.irange(lowest, highest, inclusive=ends), _RUN)):
            yield run
            lowest, ends = run[-1], (False, ends[1])


def kind_of(value: Any) -> type | None:
    """str, float for every number, None for what has no order."""
    kind = type(value)
    if kind is int or kind is float:
        return float
    return str if kind is str else None


def _kind_asked(value: str | float) -> type:
    return str if isinstance(value, str) else float
