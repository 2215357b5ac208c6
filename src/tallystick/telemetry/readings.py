"""What all metrics of a process say at a moment, and of several processes that serve one base together."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from tallystick.telemetry import metrics
from tallystick.telemetry.metrics import METRICS, Counter, Gauge, Histogram, Labels, Metric, Series

FIGURES: tuple[Metric, ...] = (
    *(metrics.CALLS, metrics.DECISIONS, metrics.FAULTS, metrics.COMMITS, metrics.APPEND_SECONDS, metrics.SYNC_SECONDS),
    *(metrics.DAMAGE, metrics.REFUSED, metrics.QUEUE, metrics.LOG_BYTES, metrics.LAG, metrics.SESSIONS, metrics.AUDIT),
)
"""What pages tell of; all of them are read in memory."""
_STATM = Path("/proc/self/statm")

T = TypeVar("T")


class Reading(msgspec.Struct, frozen=True, array_like=True):
    seconds: float
    """Since the process began to count."""
    memory_bytes: float | None
    """None where the system does not tell it."""
    values: dict[str, list[tuple[Labels, float]]]
    """Of counters and gauges, by the name of the metric."""
    series: dict[str, list[tuple[Labels, Series]]]
    """Of histograms."""

    def of(self, metric: Counter | Gauge) -> list[tuple[Labels, float]]:
        return self.values.get(metric.name, [])

    def series_of(self, metric: Histogram) -> list[tuple[Labels, Series]]:
        return self.series.get(metric.name, [])


def read_metrics(chosen: Iterable[Metric] = METRICS) -> Reading:
    """Of this process."""
    values: dict[str, list[tuple[Labels, float]]] = {}
    series: dict[str, list[tuple[Labels, Series]]] = {}
    for metric in chosen:
        if isinstance(metric, Histogram):
            series[metric.name] = [(_encodable(labels), each) for labels, each in metric.read()]
        else:
            values[metric.name] = [(_encodable(labels), value) for labels, value in metric.read()]
    return Reading(max(time.monotonic() - metrics.STARTED, 1.0), _memory_bytes(), values, series)


def read_figures() -> Reading:
    return read_metrics(FIGURES)


def together(readings: Sequence[Reading]) -> Reading:
    """As if one process had done it all; since the first of them began."""
    if len(readings) == 1:
        return readings[0]
    gauges = {metric.name: metric.together for metric in METRICS if isinstance(metric, Gauge)}
    memory = [each.memory_bytes for each in readings if each.memory_bytes is not None]
    return Reading(
        max(each.seconds for each in readings),
        sum(memory) if memory else None,
        {
            name: _merged([each.values for each in readings], name, gauges.get(name, sum))
            for name in _names(each.values for each in readings)
        },
        {
            name: _merged([each.series for each in readings], name, _sum_of_series)
            for name in _names(each.series for each in readings)
        },
    )


def _names(parts: Iterable[Mapping[str, object]]) -> list[str]:
    return list(dict.fromkeys(name for part in parts for name in part))


def _merged(
    parts: Iterable[dict[str, list[tuple[Labels, T]]]], name: str, merge: Callable[[list[T]], T]
) -> list[tuple[Labels, T]]:
    found: dict[Labels, list[T]] = {}
    for part in parts:
        for labels, value in part.get(name, []):
            found.setdefault(labels, []).append(value)
    return [(labels, merge(values)) for labels, values in found.items()]


def _sum_of_series(parts: list[Series]) -> Series:
    counts = [sum(each) for each in zip(*(series.counts for series in parts), strict=True)]
    return Series(counts, sum(series.total for series in parts))


def _encodable(labels: Labels) -> Labels:
    """Half a surrogate pair could neither be handed to another process nor be read in a page of metrics."""
    return tuple(label.encode(errors="replace").decode() for label in labels)


def _memory_bytes() -> float | None:
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return float(pages * resource.getpagesize())
