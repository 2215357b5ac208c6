"""The metrics in Prometheus' text format, rendered by its own client library; imported when somebody scrapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
