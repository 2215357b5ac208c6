"""Benchmarks: each section has `run(quick) -> list[Row]`; `make bench` runs them and prints a table for each.

Figures of one machine say little to another, so each stands beside its target, and where there is
one beside a peer measured in the same run, as a ratio: above 1 is better, whichever way better is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

SECTIONS = (
    "peers",
    "questions",
    "doors",
    "writes",
    "load",
    "neighbours",
    "start",
    "hook",
    "scale",
    "core",
    "state",
    "ontology",
    "text",
    "recall",
    "work",
    "knowledge",
    "policy",
    "pages",
    "path",
    "proof",
    "backup",
    "importing",
    "cluster",
)


class Row(NamedTuple):
    what: str
    measured: float
    unit: str
    target: float | None = None
    """None for a figure that is only of interest."""
    better: Literal["more", "less"] = "less"
    peer: float | None = None
    """The same of the peer, measured in the same run."""
    beside: str = ""
    """Who the peer is."""
    at: int | None = None
    """At which size. Rows with the same `what` and different sizes are one curve."""

    @property
    def ratio(self) -> float | None:
        return self._better_than(self.target)

    @property
    def ratio_to_peer(self) -> float | None:
        return self._better_than(self.peer)

    def _better_than(self, other: float | None) -> float | None:
        if not other or not self.measured:
            return None
        return self.measured / other if self.better == "more" else other / self.measured


def percentile(taken: Sequence[float], percent: float) -> float:
    """The smallest of those that are not passed by so many of a hundred."""
    return sorted(taken)[min(len(taken) - 1, int(len(taken) * percent / 100))]


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def say(progress: str) -> None:
    print(f"  {progress}", file=sys.stderr, flush=True)
