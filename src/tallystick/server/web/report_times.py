"""From a question to the report that answers it: how long people take, as the pages see it.

A question begins with the first search or look at an entity after the last export, and ends with the next export. Kept
by this process alone, and bounded.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from statistics import median

import msgspec

VISITORS_MAX = 10_000
KEPT = 1_000
FORGOTTEN_SECONDS = 3_600
"""Whoever exports so long after a look did something else in between."""

Visitor = tuple[str, str, str]
"""Tenant, actor and session."""


class ReportSeconds(msgspec.Struct, frozen=True):
    reports: int
    median: float
    longest: float


class ReportTimes:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._asked: OrderedDict[Visitor, float] = OrderedDict()
        self._took: dict[str, deque[float]] = {}

    def asked(self, visitor: Visitor) -> None:
        now = self._now()
        if now - self._asked.get(visitor, -FORGOTTEN_SECONDS) >= FORGOTTEN_SECONDS:
            self._asked[visitor] = now
            self._asked.move_to_end(visitor)
            if len(self._asked) > VISITORS_MAX:
                self._asked.popitem(last=False)

    def exported(self, visitor: Visitor) -> None:
        began = self._asked.pop(visitor, None)
        if began is not None and self._now() - began < FORGOTTEN_SECONDS:
            self._took.setdefault(visitor[0], deque(maxlen=KEPT)).append(self._now() - began)

    def of(self, tenant: str) -> ReportSeconds | None:
        took = self._took.get(tenant)
        return ReportSeconds(len(took), round(median(took), 1), round(max(took), 1)) if took else None
