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

from tallystick.telemetry.metrics import METRICS, Histogram, Labels, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(metrics: Iterable[Metric] = METRICS, *, process: bool = False) -> bytes:
    """What nobody counted yet is not there, save that its kind is said. `process` adds what the process itself uses."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Ours(metrics))
    if process:
        ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Reading(msgspec.Struct, frozen=True, array_like=True):
    """A family of one worker, as it is handed to the others."""

    name: str
    meaning: str
    kind: str
    samples: list[tuple[str, dict[str, str], float]]


def reading() -> bytes:
    """What this process counted and uses, for another one to render."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Ours(METRICS))
    ProcessCollector(registry=registry)
    return msgspec.msgpack.encode([_reading(family) for family in registry.collect()])


def _reading(family: Family) -> _Reading:
    samples = [(each.name, each.labels, each.value) for each in family.samples]
    return _Reading(family.name, family.documentation, family.type, samples)


def render_workers(readings: Mapping[int, bytes]) -> bytes:
    """All together, each of its own series by a label `worker`: what is a sum and what is not, the reader knows."""
    families: dict[str, Family] = {}
    for number, encoded in sorted(readings.items()):
        for each in msgspec.msgpack.decode(encoded, type=list[_Reading]):
            family = families.setdefault(each.name, Family(each.name, each.meaning, each.kind))
            for name, labels, value in each.samples:
                family.add_sample(name, {**labels, "worker": str(number)}, value)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Known(families.values()))
    return generate_latest(registry)


class _Known(Collector):
    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


class _Ours(Collector):
    """Counting is ours, since it is on the path of every call and the library's takes a lock."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Family]:
        return map(_family, self._metrics)


def _family(metric: Metric) -> Family:
    if isinstance(metric, Histogram):
        return _histogram(metric)
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in metric.read():
        family.add_metric(_encodable(labels), value)
    return family


def _histogram(metric: Histogram) -> HistogramMetricFamily:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    bounds = [*map(floatToGoString, metric.bounds), "+Inf"]
    for labels, series in metric.read():
        buckets = [*zip(bounds, series.cumulated, strict=True)]
        family.add_metric(_encodable(labels), buckets, sum_value=series.total)
    return family


def _encodable(labels: Labels) -> list[str]:
    """Half a surrogate pair would make the whole page unreadable."""
    return [label.encode(errors="replace").decode() for label in labels]
