"""The one clock: UTC, milliseconds, "Z". Tests pass their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

Clock = Callable[[], int]
"""Returns milliseconds since the epoch."""


def wall_clock() -> int:
    return time.time_ns() // 1_000_000


def to_text(milliseconds: int) -> str:
    """ISO 8601 in UTC; texts of this form sort as the times do."""
    seconds, rest = divmod(milliseconds, 1000)
    return _to_the_second(seconds) + _MILLISECONDS[rest]


_MILLISECONDS = tuple(f".{number:03d}Z" for number in range(1000))


@lru_cache(maxsize=16)
def _to_the_second(seconds: int) -> str:
    """Most of what is written in one second is of that second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def elapsed_ms(started_ns: int) -> float:
    """Since then by `time.perf_counter_ns`, to the microsecond."""
    return (time.perf_counter_ns() - started_ns) // 1_000 / 1_000


def from_text(text: str) -> int:
    """Accepts any ISO 8601 date or time; without an offset it is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
