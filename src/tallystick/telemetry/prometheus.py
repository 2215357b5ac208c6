"""The numbers as Prometheus reads them: its text format, 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tallystick.telemetry.metrics import METRICS, Histogram, Labels, Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def render(metrics: Iterable[Metric] = METRICS) -> str:
    """A metric that nobody counted yet is not there, save that its kind is said."""
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
    yield f"# HELP {name} {metric.meaning}"
    yield f"# TYPE {name} {metric.kind}"
    if isinstance(metric, Histogram):
        yield from _buckets(metric)
        return
    for labels, value in metric.read():
        yield f"{name}{_braced(metric.labels, labels)} {_number(value)}"


def _buckets(metric: Histogram) -> Iterator[str]:
    names = (*metric.labels, "le")
    bounds = [*map(_number, metric.bounds), "+Inf"]
    for labels, series in metric.read():
        cumulated = series.cumulated
        for bound, count in zip(bounds, cumulated, strict=True):
            yield f"{metric.name}_bucket{_braced(names, (*labels, bound))} {count}"
        yield f"{metric.name}_sum{_braced(metric.labels, labels)} {_number(series.total)}"
        yield f"{metric.name}_count{_braced(metric.labels, labels)} {cumulated[-1]}"


def _braced(names: Labels, values: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True))
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return escaped.encode(errors="replace").decode()


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
