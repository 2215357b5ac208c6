"""The metrics in Prometheus' text format, rendered by its own client library; imported when somebody scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from tallystick.telemetry.metrics import METRICS, Counter, Gauge, Histogram, Metric
from tallystick.telemetry.readings import Reading, read_metrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(metrics: Iterable[Metric] = METRICS, *, process: bool = False) -> bytes:
    """What nobody counted yet is not there, save that its kind is said. `process` adds what the process itself uses."""
    families = _families(metrics, read_metrics(metrics))
    return _rendered([*families, *(_process() if process else ())])


def publish() -> bytes:
    """What this process counted and uses, for another one to tell of."""
    process = [_Used(each.name, each.documentation, each.type, _samples(each)) for each in _process()]
    return msgspec.msgpack.encode(Published(read_metrics(), process))


def render_workers(readings: Mapping[int, Published]) -> bytes:
    """All together, each of its own series by a label `worker`: what is a sum and what is not, the reader knows."""
    together: dict[str, Family] = {}
    for number, published in sorted(readings.items()):
        for each in [*_families(METRICS, published.reading), *map(_used, published.process)]:
            family = together.setdefault(each.name, Family(each.name, each.documentation, each.type))
            for name, labels, value in _samples(each):
                family.add_sample(name, {**labels, "worker": str(number)}, value)
    return _rendered(together.values())


class _Used(msgspec.Struct, frozen=True, array_like=True):
    """A family of what the process itself uses."""

    name: str
    meaning: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


class Published(msgspec.Struct, frozen=True, array_like=True):
    reading: Reading
    process: list[_Used]


def _rendered(families: Iterable[Family]) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Known(families))
    return generate_latest(registry)


def _process() -> Iterable[Family]:
    return ProcessCollector(registry=None).collect()


def _used(used: _Used) -> Family:
    family = Family(used.name, used.meaning, used.kind)
    for sample in used.samples:
        family.add_sample(*sample)
    return family


def _samples(family: Family) -> list[tuple[str, dict[str, str], float]]:
    return [(each.name, each.labels, each.value) for each in family.samples]


class _Known(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


def _families(metrics: Iterable[Metric], reading: Reading) -> Iterator[Family]:
    """Counting is ours, since it is on the path of every call and the library's takes a lock."""
    for metric in metrics:
        yield _histogram(metric, reading) if isinstance(metric, Histogram) else _family(metric, reading)


def _family(metric: Counter | Gauge, reading: Reading) -> Family:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in reading.of(metric):
        family.add_metric(labels, value)
    return family


def _histogram(metric: Histogram, reading: Reading) -> HistogramMetricFamily:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    bounds = [*map(floatToGoString, metric.bounds), "+Inf"]
    for labels, series in reading.series_of(metric):
        buckets = [*zip(bounds, series.cumulated, strict=True)]
        family.add_metric(labels, buckets, sum_value=series.total)
    return family
