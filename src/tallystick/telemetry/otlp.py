"""OpenTelemetry: traces, metrics and logs to a collector, as the standard OTEL_* variables say.

The only module that imports the SDK, and only when a collector is named. Nothing is registered
globally: the MCP SDK would begin spans of its own beside ours, and not on the fast path. A
collector that does not answer loses telemetry and nothing else; nor does a variable that we
cannot follow keep anybody from serving, since a client's own are inherited.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import secrets
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from tallystick.telemetry import metrics, tracing
from tallystick.telemetry.logs import fields_of

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric, MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.trace import Span
    from opentelemetry.trace import Tracer as SdkTracer
    from opentelemetry.util.types import AnyValue

TRACES, METRICS, LOGS = "TRACES", "METRICS", "LOGS"
PROTOCOL = "http/protobuf"
_NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_SCOPE = "tallystick"
_UNITS = {"seconds": "s", "bytes": "By"}
_NOT_OURS = ("opentelemetry", "urllib3", "requests")
"""Who speaks while exporting: to export that too would never end."""
_LAST_SECONDS = 2.0
"""How long the end of the process may wait for the collector."""
_INTERVAL_MILLISECONDS = 60_000

logger = logging.getLogger(__name__)


@asynccontextmanager
async def exporting(version: str, environ: Mapping[str, str] = os.environ) -> AsyncIterator[None]:
    """While inside, telemetry goes to the collector that the environment names, if it names one."""
    wanted = signals(environ)
    if not wanted or not _installed():
        yield
        return
    exporters = _Exporters(_resource(version), version)
    for signal in wanted:
        exporters.begin(signal, environ)
    try:
        yield
    finally:
        await exporters.end()


def signals(environ: Mapping[str, str]) -> list[str]:
    """Those that are to be exported; what is asked for and not to be had is said."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    return [signal for signal in (TRACES, METRICS, LOGS) if _is_wanted(signal, environ)]


def _is_wanted(signal: str, environ: Mapping[str, str]) -> bool:
    chosen = {name.strip().lower() for name in environ.get(f"OTEL_{signal}_EXPORTER", "").split(",")} - {""}
    endpoint = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    if unknown := sorted(chosen - {"otlp", "none"}):
        logger.warning("OTEL_%s_EXPORTER is %s: there are otlp and none", signal, ", ".join(unknown))
    if not ("otlp" in chosen or (endpoint and not chosen)):
        return False
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol and protocol.strip() != PROTOCOL:
        logger.warning("%s are not exported: OTLP is spoken as %s here, not %s", signal.lower(), PROTOCOL, protocol)
        return False
    return True


def _installed() -> bool:
    with suppress(ImportError):
        if all(importlib.util.find_spec(name) is not None for name in _NEEDED):
            return True
    logger.warning("OTEL_* variables name a collector, but OpenTelemetry is missing: install tallystick[otel]")
    return False


def _resource(version: str) -> Resource:
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    ours: dict[str, AnyValue] = {
        "service.name": _SCOPE,
        "service.version": version,
        "service.instance.id": secrets.token_hex(8),
    }
    python = sys.version.partition(" ")[0]
    runtime: dict[str, AnyValue] = {"process.pid": os.getpid(), "process.runtime.version": python}
    # What the operator says of us goes before what we say.
    return Resource.create({**ours, **runtime}).merge(OTELResourceDetector().detect())


class _Exporters:
    def __init__(self, resource: Resource, version: str) -> None:
        self._resource = resource
        self._version = version
        self._endings: list[Callable[[], object]] = []
        self._telling: asyncio.Task[None] | None = None

    def begin(self, signal: str, environ: Mapping[str, str]) -> None:
        try:
            {TRACES: self._traces, METRICS: self._metrics, LOGS: self._logs}[signal](environ)
        except Exception as error:
            logger.warning("%s are not exported: %s", signal.lower(), error)

    async def end(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)
        waiting = [asyncio.ensure_future(_aside(ending)) for ending in self._endings]
        if waiting:
            await asyncio.wait(waiting, timeout=_LAST_SECONDS)
        for each in waiting:
            each.cancel()

    def _traces(self, environ: Mapping[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # The sampler, the limits and the batches are as OTEL_TRACES_SAMPLER, OTEL_SPAN_* and OTEL_BSP_* say.
        provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        tracing.tracer = _Tracer(provider.get_tracer(_SCOPE, self._version))

        def end() -> None:
            tracing.tracer = None
            provider.shutdown()

        self._endings.append(end)

    def _metrics(self, environ: Mapping[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        if environ.get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "cumulative").lower() != "cumulative":
            logger.warning("metrics are exported as they are counted, from the start of the process: cumulative")
        exporter, began = OTLPMetricExporter(), time.time_ns()
        seconds = _milliseconds(environ.get("OTEL_METRIC_EXPORT_INTERVAL")) / 1000

        def export() -> Callable[[], object]:
            data = numbers(self._resource, self._version, began)
            return lambda: exporter.export(data)

        async def tell() -> None:
            while True:
                await asyncio.sleep(seconds)
                # Counted here, on the loop, where nothing changes meanwhile; sent elsewhere.
                await _aside(export())

        def end() -> None:
            export()()
            exporter.shutdown()

        self._telling = asyncio.create_task(tell())
        self._endings.append(end)

    def _logs(self, environ: Mapping[str, str]) -> None:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.sdk._logs import LoggerProvider
        from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

        provider = LoggerProvider(resource=self._resource, shutdown_on_exit=False)
        provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
        handler = _Handler(provider)
        logging.getLogger().addHandler(handler)

        def end() -> None:
            logging.getLogger().removeHandler(handler)
            provider.shutdown()

        self._endings.append(end)


class _Tracer:
    def __init__(self, tracer: SdkTracer) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()
        self._server = trace.SpanKind.SERVER
        self._current = trace.get_current_span

    def call(self, name: str) -> _Span:
        # Never a child of what happens to be current: a session's task is older than its calls.
        context = self._propagator.extract(tracing.arrived.get() or {})
        return _Span(self._tracer.start_span(name, context=context, kind=self._server))

    def span(self, name: str) -> AbstractContextManager[tracing.Span]:
        # Under one that is not sampled there is nothing to export: what is said to that one is dropped.
        current = self._current()
        return _Span(self._tracer.start_span(name)) if current.is_recording() else nullcontext(_Span(current))

    def current(self) -> tracing.Span | None:
        span = self._current()
        return _Span(span) if span.is_recording() else None

    def ids(self) -> tuple[str, str] | None:
        context = self._current().get_span_context()
        return (f"{context.trace_id:032x}", f"{context.span_id:016x}") if context.is_valid else None


class _Span:
    """By hand: the SDK's context managers would cost as much again as the span itself."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.is_recording = span.is_recording()

    def __enter__(self) -> _Span:
        from opentelemetry import context, trace

        self._started = time.perf_counter()
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, *error: object) -> None:
        from opentelemetry import context

        context.detach(self._token)
        self.set(duration_ms=round((time.perf_counter() - self._started) * 1000, 3))
        self._span.end()

    def set(self, **attributes: tracing.Value | None) -> None:
        if self.is_recording:
            self._span.set_attributes(_attributes(attributes))

    def event(self, name: str, **attributes: tracing.Value | None) -> None:
        if self.is_recording:
            self._span.add_event(name, _attributes(attributes))

    def fail(self, code: str, *, ours: bool) -> None:
        from opentelemetry.trace import StatusCode

        self.set(**{"error.type": code})
        if ours:
            self._span.set_status(StatusCode.ERROR, code)


class _Handler(logging.Handler):
    def __init__(self, provider: Any) -> None:
        super().__init__()
        self._provider = provider

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in _NOT_OURS:
            return
        from opentelemetry._logs import SeverityNumber

        self._provider.get_logger(record.name).emit(
            timestamp=int(record.created * 1e9),
            severity_number=_severity(SeverityNumber, record.levelno),
            severity_text=record.levelname,
            body=_text(record.getMessage()),
            attributes={**_attributes(fields_of(record)), **_exception(record)},
            event_name=getattr(record, "event", None),
        )


def _severity(numbers: Any, level: int) -> Any:
    named = ((logging.CRITICAL, "FATAL"), (logging.ERROR, "ERROR"), (logging.WARNING, "WARN"), (logging.INFO, "INFO"))
    return next((numbers[name] for least, name in named if level >= least), numbers["DEBUG"])


def _exception(record: logging.LogRecord) -> dict[str, str]:
    """Without its text, which may quote what somebody wrote; standard error has all of it."""
    if not record.exc_info or record.exc_info[0] is None:
        return {}
    frames = "".join(traceback.format_tb(record.exc_info[2]))
    return {"exception.type": record.exc_info[0].__qualname__, "exception.stacktrace": frames}


def numbers(resource: Resource, version: str, began: int) -> MetricsData:
    """What was counted until now, from the same tables that /metrics is written from."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    now = time.time_ns()
    exported = [found for metric in metrics.METRICS if (found := _exported(metric, began, now)) is not None]
    scope = ScopeMetrics(scope=InstrumentationScope(_SCOPE, version), metrics=exported, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])


def _exported(metric: metrics.Metric, began: int, now: int) -> Metric | None:
    from opentelemetry.sdk.metrics import export

    cumulative = export.AggregationTemporality.CUMULATIVE
    if isinstance(metric, metrics.Histogram):
        spread = [
            export.HistogramDataPoint(
                attributes=_labelled(metric, labels),
                start_time_unix_nano=began,
                time_unix_nano=now,
                count=sum(series.counts),
                sum=series.total,
                bucket_counts=series.counts,
                explicit_bounds=metric.bounds,
                # Not known since the beginning, and the encoder leaves out what is None.
                min=None,  # type: ignore[arg-type]
                max=None,  # type: ignore[arg-type]
            )
            for labels, series in metric.read()
        ]
        return _metric(metric, export.Histogram(spread, cumulative)) if spread else None
    points = [
        export.NumberDataPoint(
            attributes=_labelled(metric, labels),
            start_time_unix_nano=began,
            time_unix_nano=now,
            value=value,
        )
        for labels, value in metric.read()
    ]
    if not points:
        return None
    counted = metric.kind == "counter"
    return _metric(metric, export.Sum(points, cumulative, is_monotonic=True) if counted else export.Gauge(points))


def _labelled(metric: metrics.Metric, labels: metrics.Labels) -> dict[str, str]:
    # An enum's member is a string, but not to every encoder.
    return {name: _text(str(value)) for name, value in zip(metric.labels, labels, strict=True)}


def _metric(metric: metrics.Metric, data: Any) -> Metric:
    from opentelemetry.sdk.metrics.export import Metric

    unit = _UNITS.get(metric.name.rpartition("_")[2], "1")
    return Metric(name=metric.name, description=metric.meaning, unit=unit, data=data)


def _attributes(given: Mapping[str, Any]) -> dict[str, tracing.Value]:
    return {name: _text(value) for name, value in given.items() if value is not None}


def _text(value: Any) -> Any:
    """Half of a surrogate pair would cost the whole batch."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _milliseconds(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and int(text) else _INTERVAL_MILLISECONDS


async def _aside(work: Callable[[], object]) -> None:
    """In a thread that holds nobody up: the end of the process does not wait for it."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def run() -> None:
        try:
            work()
        except Exception:
            logger.warning("the collector could not be reached", exc_info=True)
        with suppress(RuntimeError):  # The loop may have ended meanwhile.
            loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(None))

    threading.Thread(target=run, name="otlp", daemon=True).start()
    await done
