"""How the server does, by its own count: calls and how long they took, decisions, writes, projections, sizes.

The numbers are those of `/metrics`, of one process since it began or of several together. They are about all of their
tenants, so they are for whoever runs them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tallystick.extensions.web.reports.history import Rows, per_minute
from tallystick.telemetry import metrics
from tallystick.telemetry.metrics import Histogram, Labels, Series, quantile
from tallystick.telemetry.readings import Reading

_MINUTES = 5
"""So far back writes are counted for their rate."""
_BUG = "INTERNAL_ERROR"
_USUAL = frozenset({"MISSING_TOKEN"})
"""The first call of many clients."""


class Latency(msgspec.Struct, frozen=True):
    """Seconds, from the buckets that the calls fell into; None where there was none."""

    p50: float | None
    p95: float | None
    p99: float | None


class ToolFigures(msgspec.Struct, frozen=True, kw_only=True):
    tool: str
    access: str
    """read or write"""
    calls: int
    refused: int
    per_minute: float
    latency: Latency


class PolicyFigures(msgspec.Struct, frozen=True, kw_only=True):
    decisions: int
    denied: int
    remembered: int
    """Answered from what the engine said before."""
    without_answer: int
    """Denied because the engine gave none."""
    latency: Latency


class WriteFigures(msgspec.Struct, frozen=True, kw_only=True):
    commits: int
    waiting: int
    """Drafts that wait to be appended now."""
    append: Latency
    sync: Latency


class Lag(msgspec.Struct, frozen=True):
    projection: str
    commits: int


class Size(msgspec.Struct, frozen=True):
    what: str
    bytes: int
    files: int


class Incident(msgspec.Struct, frozen=True):
    what: str
    count: int


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    seconds: float
    """Since the process began, or the first of them."""
    calls: int
    refused: int
    tools: list[ToolFigures]
    """Those called most first."""
    policy: PolicyFigures
    writes: WriteFigures
    lags: list[Lag]
    sizes: list[Size]
    disk_free: int
    disk_total: int
    sessions: int
    """Of clients, open now."""
    damage: int
    """Reads that met something that is not what its hashes say."""
    incidents: list[Incident]
    """What should not happen, and did, most often first."""
    audit_healthy: bool | None
    """None while nothing had to be written down."""


class ProcessFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Of one of several that serve together."""

    number: int
    """From 1."""
    seconds: float
    calls: int
    per_minute: float
    sessions: int
    memory_bytes: float | None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody has to see to, at a glance."""

    damage: int
    """Reads that met something that is not what its hashes say."""
    audit_healthy: bool | None
    """None while nothing had to be written down."""
    lag: int
    """Commits that the slowest projection is behind."""
    write_p95: float | None
    """Seconds, of the calls that write; None where there was none."""
    commits_per_minute: float
    """In the last minutes."""
    log_bytes: int | None
    """Of the logs that are open; None where nobody counts them."""
    disk_free: int
    disk_total: int


async def check_health(home: Path, reading: Reading, last_hour: Rows) -> Health:
    nearest = next(path for path in (home, *home.parents) if path.exists())
    disk = await asyncio.to_thread(shutil.disk_usage, nearest)
    writing = [series for (_, _, access), series in reading.series_of(metrics.CALLS) if access == "write"]
    return Health(
        damage=_sum(reading.of(metrics.DAMAGE)),
        audit_healthy=next((bool(value) for _, value in reading.of(metrics.AUDIT)), None),
        lag=max((int(value) for _, value in reading.of(metrics.LAG)), default=0),
        write_p95=_latency(metrics.CALLS, writing).p95,
        commits_per_minute=per_minute(last_hour, "commits", _MINUTES),
        log_bytes=_sum(sizes) if (sizes := reading.of(metrics.LOG_BYTES)) else None,
        disk_free=disk.free,
        disk_total=disk.total,
    )


async def measure(home: Path, system: Path, reading: Reading) -> Figures:
    """`home` is where the memory lies, `system` its log and what belongs to it."""
    tools = _tools(reading)
    nearest = next(path for path in (home, *home.parents) if path.exists())
    disk = await asyncio.to_thread(shutil.disk_usage, nearest)
    return Figures(
        seconds=reading.seconds,
        calls=sum(each.calls for each in tools),
        refused=sum(each.refused for each in tools),
        tools=tools,
        policy=_policy(reading),
        writes=_writes(reading),
        lags=sorted(
            (Lag(labels[0], int(value)) for labels, value in reading.of(metrics.LAG)), key=lambda lag: -lag.commits
        ),
        sizes=await asyncio.to_thread(_sizes, home, system),
        disk_free=disk.free,
        disk_total=disk.total,
        sessions=_sum(reading.of(metrics.SESSIONS)),
        incidents=_incidents(reading),
        damage=_sum(reading.of(metrics.DAMAGE)),
        audit_healthy=next((bool(value) for _, value in reading.of(metrics.AUDIT)), None),
    )


def measure_processes(readings: Mapping[int, Reading]) -> list[ProcessFigures]:
    """By their numbers, from 0."""
    return [_process(number + 1, readings[number]) for number in sorted(readings)]


def _process(number: int, reading: Reading) -> ProcessFigures:
    calls = _count(reading.series_of(metrics.CALLS))
    return ProcessFigures(
        number=number,
        seconds=reading.seconds,
        calls=calls,
        per_minute=60 * calls / reading.seconds,
        sessions=_sum(reading.of(metrics.SESSIONS)),
        memory_bytes=reading.memory_bytes,
    )


def _tools(reading: Reading) -> list[ToolFigures]:
    by_tool: dict[tuple[str, str], list[tuple[str, Series]]] = {}
    for (tool, outcome, access), series in reading.series_of(metrics.CALLS):
        by_tool.setdefault((tool, access), []).append((outcome, series))
    found = []
    for (tool, access), parts in by_tool.items():
        calls = sum(sum(series.counts) for _, series in parts)
        refused = sum(sum(series.counts) for outcome, series in parts if outcome != metrics.OK)
        latency = _latency(metrics.CALLS, [series for _, series in parts])
        found.append(
            ToolFigures(
                tool=tool,
                access=access,
                calls=calls,
                refused=refused,
                per_minute=60 * calls / reading.seconds,
                latency=latency,
            )
        )
    return sorted(found, key=lambda each: (-each.calls, each.tool))


def _policy(reading: Reading) -> PolicyFigures:
    parts = reading.series_of(metrics.DECISIONS)
    return PolicyFigures(
        decisions=_count(parts),
        denied=_count((labels, series) for labels, series in parts if labels[1] == "denied"),
        remembered=_count((labels, series) for labels, series in parts if labels[2] == "cache"),
        without_answer=_sum(reading.of(metrics.FAULTS)),
        latency=_latency(metrics.DECISIONS, [series for _, series in parts]),
    )


def _writes(reading: Reading) -> WriteFigures:
    return WriteFigures(
        commits=_sum(reading.of(metrics.COMMITS)),
        waiting=_sum(reading.of(metrics.QUEUE)),
        append=_latency(metrics.APPEND_SECONDS, [series for _, series in reading.series_of(metrics.APPEND_SECONDS)]),
        sync=_latency(metrics.SYNC_SECONDS, [series for _, series in reading.series_of(metrics.SYNC_SECONDS)]),
    )


def _incidents(reading: Reading) -> list[Incident]:
    broken = (each for each in reading.series_of(metrics.CALLS) if each[0][1] == _BUG)
    found = [
        Incident("reads that met damage", _sum(reading.of(metrics.DAMAGE))),
        Incident("calls that met a bug", _count(broken)),
        *(
            Incident(f"policy without an answer: {labels[0]}", int(value))
            for labels, value in reading.of(metrics.FAULTS)
        ),
        *(
            Incident(f"refused at the door: {labels[0]}", int(value))
            for labels, value in reading.of(metrics.REFUSED)
            if labels[0] not in _USUAL
        ),
    ]
    return sorted((each for each in found if each.count), key=lambda each: -each.count)


def _count(parts: Iterable[tuple[Labels, Series]]) -> int:
    return sum(sum(series.counts) for _, series in parts)


def _sum(values: Iterable[tuple[Labels, float]]) -> int:
    return int(sum(value for _, value in values))


def _latency(histogram: Histogram, parts: Sequence[Series]) -> Latency:
    counts = [sum(each) for each in zip(*(series.counts for series in parts), strict=True)]
    return Latency(*(quantile(histogram.bounds, counts, share) for share in (0.5, 0.95, 0.99)))


def _sizes(home: Path, system: Path) -> list[Size]:
    """Of what has few files, however much is in it; the views have one for each entity."""
    places = (
        ("log", system / "log"),
        ("snapshots", system / "snapshots"),
        ("audit log", system / "audit"),
    )
    database = home / "graph.db"
    found = [Size(what, *_measured(path)) for what, path in places]
    return [*found, Size("SQL mirror", database.stat().st_size, 1)] if database.is_file() else found


def _measured(path: Path) -> tuple[int, int]:
    """Bytes and files below it. What goes away meanwhile does not count."""
    size = files = 0
    waiting = [path]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        size += entry.stat(follow_symlinks=False).st_size
                        files += 1
        except OSError:
            continue
    return size, files
