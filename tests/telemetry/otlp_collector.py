"""A collector: OTLP over HTTP, as any backend speaks it. And the server under test, told by its environment."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.mcp_client import ServerProcess, serving_http

KINDS: dict[str, Any] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


class Collector:
    def __init__(self) -> None:
        self.address = ""
        self.requests: list[Any] = []
        self.headers: list[dict[str, str]] = []

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self._of(ExportTraceServiceRequest)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def lines(self) -> list[Any]:
        return [
            line
            for request in self._of(ExportLogsServiceRequest)
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for line in scope.log_records
        ]

    @property
    def metrics(self) -> dict[str, Any]:
        """The last of each."""
        return {
            metric.name: metric
            for request in self._of(ExportMetricsServiceRequest)
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    @property
    def resources(self) -> list[dict[str, Any]]:
        traces = [each.resource for request in self._of(ExportTraceServiceRequest) for each in request.resource_spans]
        counts = [
            each.resource for request in self._of(ExportMetricsServiceRequest) for each in request.resource_metrics
        ]
        lines = [each.resource for request in self._of(ExportLogsServiceRequest) for each in request.resource_logs]
        return [values(resource.attributes) for resource in (*traces, *counts, *lines)]

    def span(self, name: str) -> Any:
        [found] = [span for span in self.spans if span.name == name]
        return found

    def _of(self, kind: type) -> list[Any]:
        return [request for request in self.requests if isinstance(request, kind)]


def values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            collector.requests.append(KINDS[self.path].FromString(body))
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
    collector.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving(base: Path, *arguments: str, **environ: str) -> Iterator[ServerProcess]:
    """`tallystick serve --http`, with its log in JSON."""
    variables = {"TALLYSTICK_LOG_FORMAT": "json", **environ}
    with serving_http(base, *arguments, agent=None, environ=variables) as server:
        yield server
