"""The numbers: what is counted, and what it is called outside.

Counted on the event loop and in the threads of the disk, without locks: CPython changes threads
only at calls and jumps, and no sum here has one between its reading and its writing.
"""

from __future__ import annotations

import collections
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec

Labels = tuple[str, ...]

STARTED = time.monotonic()
"""When this process began to count; set anew by one that was forked."""

SERIES_MAX = 1_000
"""Of one metric. What comes after these is counted as `other`: no name may fill the memory."""
OTHER = "other"
OK = "ok"
"""The outcome of a call that was not refused."""

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.04, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds that the objectives stand on: 5 ms to decide, 25 ms to read, 40 ms to write, 50 ms to export."""
_SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


class Counter:
    kind = "counter"

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self._values: dict[Labels, float] = {}

    def add(self, labels: Labels = (), by: float = 1) -> None:
        values = self._values
        if labels not in values:
            labels = _room(labels, len(values))
            values.setdefault(labels, 0)
        values[labels] += by

    def read(self) -> Iterator[tuple[Labels, float]]:
        yield from list(self._values.items())


class Histogram:
    kind = "histogram"

    def __init__(self, name: str, meaning: str, *labels: str, bounds: Sequence[float] = SECONDS) -> None:
        self.name, self.meaning, self.labels = name, meaning, labels
        self.bounds = tuple(bounds)
        self._series: dict[Labels, Series] = {}

    def observe(self, value: float, labels: Labels = ()) -> None:
        series = self._series.get(labels) or self._begin(labels)
        at = bisect_left(self.bounds, value)
        series.counts[at] += 1
        series.total += value

    def read(self) -> Iterator[tuple[Labels, Series]]:
        for labels, series in list(self._series.items()):
            yield labels, Series(series.counts.copy(), series.total)

    def _begin(self, labels: Labels) -> Series:
        labels = _room(labels, len(self._series))
        return self._series.setdefault(labels, Series([0] * (len(self.bounds) + 1), 0.0))


class Series(msgspec.Struct):
    counts: list[int]
    """By bucket, the last of them open; not cumulated."""
    total: float

    @property
    def cumulated(self) -> list[int]:
        return list(accumulate(self.counts))


Reading = Callable[[], Iterable[tuple[Labels, float]]]
Together = Callable[[Iterable[float]], float]


class Gauge:
    """Looked at when somebody asks, by whoever knows; nothing is said while nobody does."""

    def __init__(
        self,
        name: str,
        meaning: str,
        *labels: str,
        kind: str = "gauge",
        reading: Reading = tuple,
        together: Together = sum,
    ) -> None:
        """`together` is what several processes on one base say."""
        self.name, self.meaning, self.labels = name, meaning, labels
        self.kind = kind
        self.reading = reading
        self.together = together

    def read(self) -> Iterator[tuple[Labels, float]]:
        yield from self.reading()


Metric = Counter | Histogram | Gauge


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    """As Prometheus would: evenly spread within a bucket; of the open one, its lower bound."""
    wanted = share * sum(counts)
    if not wanted:
        return None
    lower, before = 0.0, 0
    for bound, count in zip(bounds, counts, strict=False):
        if before + count >= wanted:
            return lower + (bound - lower) * (wanted - before) / count
        lower, before = bound, before + count
    return lower


def _counted(name: str, meaning: str, histogram: Histogram) -> Gauge:
    """How many it has seen, under a name of its own: few dashboards look for a count in a histogram."""

    def reading() -> Iterator[tuple[Labels, float]]:
        return ((labels, sum(series.counts)) for labels, series in histogram.read())

    return Gauge(name, meaning, *histogram.labels, kind="counter", reading=reading)


CALLS = Histogram(
    "tallystick_tool_call_duration_seconds",
    "How long calls took, by what became of them: ok, or the code of the error.",
    *("tool", "outcome", "access"),
)
DECISIONS = Histogram(
    "tallystick_policy_decision_duration_seconds",
    "How long decisions took, by where they came from: an engine, or what it said before.",
    *("action", "decision", "source"),
)
FAULTS = Counter("tallystick_policy_faults", "Denials because the policy engine gave no answer.", "fault")
COMMITS = Counter("tallystick_commits", "Commits appended by this process.", "operation")
_COMMIT_BYTES = Counter("tallystick_commit_bytes", "Their bytes in the log.")
WAIT_SECONDS = Histogram("tallystick_commit_wait_seconds", "How long drafts waited for their group to begin.")
_GROUP_DRAFTS = Histogram("tallystick_group_drafts", "Drafts appended together.", bounds=_SIZES)
APPEND_SECONDS = Histogram("tallystick_append_duration_seconds", "How long groups took to append and sync.")
SYNC_SECONDS = Histogram("tallystick_log_sync_duration_seconds", "How long fdatasync took.")
DAMAGE = Counter("tallystick_log_damage", "Reads that met a line or a blob that is not what its hashes say.")
SNAPSHOTS = Counter("tallystick_snapshots_begun", "Snapshots that this process had made.")
SECRETS = Counter("tallystick_secrets_found", "Secrets in what was to be written, by kind.", "kind")
STREAM_ADOPTED = Counter("tallystick_stream_adopted", "Commits that this process took from the stream.")
STREAM_CONFLICTS = Counter("tallystick_stream_conflicts", "Groups that another machine was faster than.")
STREAM_RETRIES = Counter("tallystick_stream_retries", "Groups that were sent again, since no answer came.")
STREAM_SKIPPED = Counter("tallystick_stream_skipped", "Messages of the stream that continue nothing here.")
STREAM_FOREIGN = Counter("tallystick_stream_foreign", "Messages of other programs that were skipped.")
WALKS_DELEGATED = Counter("tallystick_walks_delegated", "Walks that an engine took over.", "engine")
WALKS_DEGRADED = Counter(
    "tallystick_walks_degraded", "Walks that an engine should have taken over, and did not.", "reason"
)
REFUSED = Counter("tallystick_authentication_failures", "Requests without a token that is good here.", "code")

STREAM_BEHIND = Gauge("tallystick_stream_behind_seconds", "How old this machine's copy may be.", "stream", together=max)
STREAM_RECONNECTS = Gauge("tallystick_stream_reconnects", "Connections to NATS after the first.", "stream")
QUEUE = Gauge("tallystick_queue_drafts", "Drafts that wait to be appended now.")
TENANTS_OPEN = Gauge("tallystick_tenants_open", "Tenants whose memory is open now.", together=max)
LOG_BYTES = Gauge("tallystick_log_bytes", "The logs of the open tenants.", together=max)
DISK_BYTES = Gauge(
    "tallystick_disk_bytes",
    "What the open tenants take on disk besides their logs, by part; contents are left out.",
    "part",
    together=max,
)
DISK_FREE = Gauge("tallystick_disk_free_bytes", "What is free where the base lies.", together=min)
POSITION = Gauge(
    "tallystick_log_position", "Where the log stands, of the tenants that may be named.", "tenant", together=max
)
LAG = Gauge(
    "tallystick_projection_lag_commits", "How far the slowest tenant's is behind its log.", "projection", together=max
)
SESSIONS = Gauge("tallystick_sessions_open", "Sessions of clients that this process serves now.")
AUDIT = Gauge("tallystick_audit_healthy", "1 while decisions can be written down.", together=min)
BUILD = Gauge("tallystick_build_info", "Always 1.", "version", "python", together=max)

METRICS: list[Metric] = [
    *(CALLS, DECISIONS, FAULTS),
    _counted("tallystick_tool_calls", "Calls of tools.", CALLS),
    _counted("tallystick_policy_decisions", "Decisions of the policy.", DECISIONS),
    *(COMMITS, _COMMIT_BYTES, WAIT_SECONDS, _GROUP_DRAFTS, APPEND_SECONDS, SYNC_SECONDS),
    *(STREAM_ADOPTED, STREAM_CONFLICTS, STREAM_RETRIES, STREAM_SKIPPED, STREAM_FOREIGN),
    *(STREAM_BEHIND, STREAM_RECONNECTS),
    *(DAMAGE, SNAPSHOTS, SECRETS, REFUSED, WALKS_DELEGATED, WALKS_DEGRADED),
    *(QUEUE, TENANTS_OPEN, LOG_BYTES, DISK_BYTES, DISK_FREE, POSITION, LAG, SESSIONS, AUDIT, BUILD),
]


def called(tool: str, outcome: str, seconds: float, writes: bool) -> None:
    CALLS.observe(seconds, (tool, outcome, "write" if writes else "read"))


def decided(action: str, milliseconds: float, allowed: bool, source: str, fault: str | None) -> None:
    """`source` is where the decision came from."""
    DECISIONS.observe(milliseconds / 1000, (action, "allowed" if allowed else "denied", source))
    if fault is not None:
        FAULTS.add((fault,))


def appended(operations: Iterable[str], *, drafts: int, size: int, seconds: float) -> None:
    for operation, count in collections.Counter(operations).items():
        COMMITS.add((str(operation),), by=count)
    _COMMIT_BYTES.add(by=size)
    _GROUP_DRAFTS.observe(drafts)
    APPEND_SECONDS.observe(seconds)


def refused(code: str) -> None:
    REFUSED.add((code,))


def _room(labels: Labels, taken: int) -> Labels:
    return labels if taken < SERIES_MAX else (OTHER,) * len(labels)
