"""What metrics look at when they are asked for."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tallystick import __version__
from tallystick.app.tenant_projections import AllProjections
from tallystick.config import Settings
from tallystick.engine.partition import Partition
from tallystick.engine.store import Store
from tallystick.extension import installed
from tallystick.telemetry import metrics

if TYPE_CHECKING:
    pass


@contextmanager
def watched(settings: Settings, store: Store, projections: AllProjections) -> Iterator[None]:
    """While inside, metrics look at these when they are asked for."""
    named = settings.metrics_tenants or (() if settings.issuers else (settings.tenant,))

    partitions = partial(open_partitions, store)

    def lags() -> Iterable[tuple[tuple[str], float]]:
        worst: dict[str, int] = {}
        for tenant, partition in partitions().items():
            for projection, lag in projections.lags(tenant, partition.position).items():
                worst[projection] = max(lag, worst.get(projection, 0))
        return [((projection,), lag) for projection, lag in worst.items()]

    readings: dict[metrics.Gauge, metrics.Reading] = {
        metrics.QUEUE: lambda: [((), sum(each.waiting for each in partitions().values()))],
        metrics.TENANTS_OPEN: lambda: [((), len(partitions()))],
        metrics.LOG_BYTES: lambda: [((), sum(each.log_bytes for each in partitions().values()))],
        metrics.DISK_BYTES: lambda: _disk_bytes(
            msgspec.structs.replace(settings, tenant=tenant) for tenant in partitions()
        ),
        metrics.DISK_FREE: lambda: [((), shutil.disk_usage(settings.base).free)],
        metrics.POSITION: lambda: [((name,), each.position) for name, each in partitions().items() if name in named],
        metrics.LAG: lags,
        metrics.BUILD: lambda: [((__version__, sys.version.partition(" ")[0]), 1)],
    }
    for gauges in installed().load("gauges"):
        readings |= gauges(settings)
    metrics.METRICS.extend(gauge for gauge in readings if gauge not in metrics.METRICS)
    for gauge, reading in readings.items():
        gauge.reading = reading
    try:
        yield
    finally:
        for gauge in readings:
            gauge.reading = tuple


def _disk_bytes(tenants: Iterable[Settings]) -> Iterable[tuple[tuple[str], float]]:
    """By database, and by directory of few files: what is as many files as there are entities would take too long."""
    sizes: Counter[str] = Counter()
    for each in tenants:
        for directory in (each.home, each.system):
            for path in directory.glob("*.db*"):
                sizes[path.name.partition(".")[0]] += _size(path)
        for part in ("snapshots", "audit"):
            sizes[part] += sum(map(_size, (each.system / part).glob("*")))
    return [((part,), size) for part, size in sizes.items()]


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def open_partitions(store: Store) -> dict[str, Partition]:
    """Those that are open."""
    found = {tenant: store.tenants.find(tenant) for tenant in store.tenants.open_now}
    return {tenant: partition for tenant, partition in found.items() if partition is not None}


def behind_seconds(store: Store) -> float:
    found = [store.tenants.find(tenant) for tenant in store.tenants.open_now]
    return max((partition.behind_seconds() for partition in found if partition is not None), default=0.0)
