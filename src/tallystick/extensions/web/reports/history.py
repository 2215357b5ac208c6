"""What the metrics said over the last hour and the last day, in a fixed amount of memory.

At the end of each step a row is kept: what was counted since the row before it, and what the gauges say. Rows are in
rings, so the oldest gives way to the newest. Counting knows nothing of this: only who ticks reads the metrics.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from tallystick.telemetry import metrics
from tallystick.telemetry.metrics import Gauge, Histogram, Labels, quantile
from tallystick.telemetry.readings import Reading, read_figures

SpanName = Literal["hour", "day"]

TOOLS_MAX = 64
"""Whose calls are kept one by one, those that were called first; others count in the sum."""
ALL_TOOLS = ""
NOTHING = float("nan")
"""Of a latency where nothing was counted, and of a gauge that nobody reads."""

_CALLS = ("calls", "refused", "call_p50", "call_p95", "call_p99")
_REST = (
    *("decisions", "denied", "remembered", "decision_p50", "decision_p95", "decision_p99"),
    *("commits", "append_p95", "waiting", "lag", "log_bytes", "memory_bytes", "sessions"),
)
COLUMNS = (*_CALLS, *_REST)
_SHARES = (0.5, 0.95, 0.99)


class Span(msgspec.Struct, frozen=True):
    name: SpanName
    step: float
    """Seconds that a row is about."""
    rows: int


SPANS = (Span("hour", 60.0, 60), Span("day", 900.0, 96))


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest first."""

    span: SpanName
    step: float
    running: float
    """Seconds of the last row, whose step is not over."""
    times: list[float]
    """When each row ended, in seconds since 1970."""
    columns: dict[str, list[float | None]]
    """Counts are of the whole step, latencies in seconds."""


def per_minute(rows: Rows, column: str, steps: int) -> float:
    """Of what is counted, in the last steps and the one that is not over. What began less than a minute ago has not
    lasted one: its first seconds are no rate."""
    counts = rows.columns[column][-steps - 1 :]
    seconds = (len(counts) - 1) * rows.step + rows.running
    return 60 * sum(each or 0 for each in counts) / max(seconds, 60)


class History:
    def __init__(
        self,
        spans: Sequence[Span] = (),
        *,
        clock: Callable[[], float] = time.time,
        read: Callable[[], Reading] = read_figures,
    ) -> None:
        self._clock = clock
        self._metrics = read
        now, begun = clock(), self._read()
        self._by_span = {span.name: _Kept(span, now, begun) for span in spans or SPANS}

    def tick(self) -> None:
        """Ends each step that is over."""
        now = self._clock()
        for kept in self._by_span.values():
            if now - kept.since >= kept.span.step:
                kept.end_step(now, self._read())

    async def run(self) -> None:
        """Ticks until it is cancelled."""
        step = min(kept.span.step for kept in self._by_span.values())
        while True:
            await asyncio.sleep(step)
            self.tick()

    def _read(self) -> _Summed:
        return _summed(self._metrics())

    def read(self, span: SpanName, tool: str = ALL_TOOLS) -> Rows:
        """With the step that is not over yet as the last row. Of one tool, only its calls; of one that was not kept,
        nothing."""
        return self._by_span[span].read(self._clock(), self._read(), tool)


class _Summed(msgspec.Struct, frozen=True):
    """What rows are made of, at a moment."""

    calls: dict[Labels, list[int]]
    decisions: dict[Labels, list[int]]
    appends: dict[Labels, list[int]]
    commits: float
    gauges: tuple[float, ...]

    def since(self, before: _Summed) -> _Summed:
        return _Summed(
            calls=_since(before.calls, self.calls),
            decisions=_since(before.decisions, self.decisions),
            appends=_since(before.appends, self.appends),
            commits=max(0, self.commits - before.commits),
            gauges=self.gauges,
        )


class _Kept:
    """The rows of one span."""

    def __init__(self, span: Span, now: float, begun: _Summed) -> None:
        self.span = span
        self.since = now
        self._before = begun
        self._count = 0
        self._times = array("d", [0.0]) * span.rows
        self._rings: dict[tuple[str, str], array[float]] = {(ALL_TOOLS, name): _ring(span.rows) for name in COLUMNS}
        self._tools: dict[str, None] = {}

    def end_step(self, now: float, reading: _Summed) -> None:
        at, step = self._count % self.span.rows, reading.since(self._before)
        self._times[at] = now
        self._store(at, ALL_TOOLS, _row(step))
        for tool in dict.fromkeys(labels[0] for labels, counts in step.calls.items() if any(counts)):
            if len(self._tools) < TOOLS_MAX:
                self._begin(tool)
        for tool in self._tools:
            self._store(at, tool, _calls(step, tool))
        self._count += 1
        self._before, self.since = reading, now

    def read(self, now: float, reading: _Summed, tool: str) -> Rows:
        names = COLUMNS if tool == ALL_TOOLS else _CALLS
        step = reading.since(self._before)
        running = _row(step) if tool == ALL_TOOLS else _calls(step, tool)
        first = max(0, self._count - self.span.rows + 1)
        places = [number % self.span.rows for number in range(first, self._count)]
        empty = _ring(self.span.rows)
        rings = [self._rings.get((tool, name), empty) for name in names]
        return Rows(
            span=self.span.name,
            step=self.span.step,
            running=now - self.since,
            times=[*(self._times[place] for place in places), now],
            columns={
                name: [*(_value(ring[place]) for place in places), _value(last)]
                for name, ring, last in zip(names, rings, running, strict=True)
            },
        )

    def _begin(self, tool: str) -> None:
        if tool not in self._tools:
            self._tools[tool] = None
            for name in _CALLS:
                self._rings[tool, name] = _ring(self.span.rows)

    def _store(self, at: int, tool: str, row: Sequence[float]) -> None:
        for name, value in zip(COLUMNS, row, strict=False):
            self._rings[tool, name][at] = value


def _ring(rows: int) -> array[float]:
    return array("f", [NOTHING]) * rows


def _value(stored: float) -> float | None:
    return None if stored != stored else stored


# -- from two readings to a row


def _summed(reading: Reading) -> _Summed:
    return _Summed(
        calls=_counts(reading, metrics.CALLS),
        decisions=_counts(reading, metrics.DECISIONS),
        appends=_counts(reading, metrics.APPEND_SECONDS),
        commits=sum(value for _, value in reading.of(metrics.COMMITS)),
        gauges=(
            _gauge(reading, metrics.QUEUE, sum),
            _gauge(reading, metrics.LAG, max),
            _gauge(reading, metrics.LOG_BYTES, sum),
            NOTHING if reading.memory_bytes is None else reading.memory_bytes,
            _gauge(reading, metrics.SESSIONS, sum),
        ),
    )


def _row(step: _Summed) -> tuple[float, ...]:
    decided = step.decisions
    return (
        *_calls(step, ALL_TOOLS),
        *(_of(decided), _of(decided, 1, "denied"), _of(decided, 2, "cache")),
        *_quantiles(metrics.DECISIONS, decided.values()),
        *(step.commits, _quantiles(metrics.APPEND_SECONDS, step.appends.values())[1]),
        *step.gauges,
    )


def _calls(step: _Summed, tool: str) -> tuple[float, ...]:
    calls = {labels: counts for labels, counts in step.calls.items() if tool in (ALL_TOOLS, labels[0])}
    refused = _of(calls) - _of(calls, 1, metrics.OK)
    return (_of(calls), refused, *_quantiles(metrics.CALLS, calls.values()))


def _counts(reading: Reading, histogram: Histogram) -> dict[Labels, list[int]]:
    return {labels: series.counts for labels, series in reading.series_of(histogram)}


def _since(before: Mapping[Labels, list[int]], now: Mapping[Labels, list[int]]) -> dict[Labels, list[int]]:
    """A worker that was begun anew has counted less than before: never less than nothing."""
    return {
        labels: [max(0, count - old) for count, old in zip(counts, before[labels], strict=True)]
        if labels in before
        else counts
        for labels, counts in now.items()
    }


def _of(counts: Mapping[Labels, list[int]], place: int = 0, word: str | None = None) -> int:
    return sum(sum(each) for labels, each in counts.items() if word in (None, labels[place]))


def _quantiles(histogram: Histogram, counts: Iterable[Sequence[int]]) -> tuple[float, ...]:
    summed = [sum(each) for each in zip([0] * (len(histogram.bounds) + 1), *counts, strict=True)]
    found = (quantile(histogram.bounds, summed, share) for share in _SHARES)
    return tuple(NOTHING if each is None else each for each in found)


def _gauge(reading: Reading, gauge: Gauge, total: Callable[[Iterable[float]], float]) -> float:
    values = [value for _, value in reading.of(gauge)]
    return total(values) if values else NOTHING
