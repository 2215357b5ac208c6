"""Benchmarks: each module has `run(quick) -> list[Row]`; `make bench` runs them all and prints one table.

Figures of one machine say little to another, so each stands beside its target as a ratio:
above 1 is better than asked for, whichever way better is.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Row(NamedTuple):
    what: str
    measured: float
    unit: str
    target: float | None = None
    """None for a figure that is only of interest."""
    better: Literal["more", "less"] = "less"

    @property
    def ratio(self) -> float | None:
        if self.target is None or not self.measured or not self.target:
            return None
        return self.measured / self.target if self.better == "more" else self.target / self.measured
