"""OpenTelemetry: what a collector gets to see of a real server, and that nothing is loaded where there is none."""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tallystick.telemetry import otlp, tracing
from tests.command_line import node
from tests.mcp_client import RawClient, ServerProcess, start_server
from tests.promises import promise
from tests.telemetry.otlp_collector import Collector, collecting, serving, values

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
OTHER_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER_TRACEPARENT = f"00-{OTHER_TRACE}-{PARENT}-01"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
SECRET = "what nobody but the log may know"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collector, ServerProcess]]:
    """A write within somebody's trace, a read, and a refusal, seen by a collector until the server ended."""
    with collecting() as collector:
        told = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address,
            "OTEL_EXPORTER_OTLP_HEADERS": "x-team=memory",
            "OTEL_SERVICE_NAME": "shared-memory",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
            "TALLYSTICK_LOG_LEVEL": "debug",
        }
        with (
            serving(tmp_path_factory.mktemp("base"), **told) as server,
            httpx2.Client(base_url=server.url, timeout=None) as http,
        ):
            write = {**node("n1", "note", text=SECRET), "actor": "planner"}
            assert http.post("/v1/tools/memory.write", json=write, headers={"traceparent": TRACEPARENT}).is_success
            assert http.post("/v1/tools/memory.read", json={"entity_id": "n1"}).is_success
            assert http.post("/v1/tools/memory.read", json={"id": SECRET}).status_code == 400
        yield collector, server


@promise("8.2, context", "a call continues the trace of its caller")
def test_a_call_continues_the_trace_of_its_caller(story: tuple[Collector, ServerProcess]) -> None:
    call = story[0].span("tools/call memory.write")
    assert (call.trace_id.hex(), call.parent_span_id.hex()) == (TRACE, PARENT)
    told = values(call.attributes)
    assert told["gen_ai.tool.name"] == "memory.write"
    assert (told["tenant_id"], told["toolset"], told["outcome"]) == ("default", "memory", "ok")


def test_a_call_without_a_trace_begins_one(story: tuple[Collector, ServerProcess]) -> None:
    reads = [span for span in story[0].spans if span.name == "tools/call memory.read"]
    assert len({TRACE, *(span.trace_id.hex() for span in reads)}) == 3
    assert {span.parent_span_id for span in reads} == {b""}


@promise(
    "8.2, traces", "a write is a span with tenant, actor, operation, commit, lamport, bytes, versions and duration"
)
def test_a_write_is_a_span_with_everything_that_the_spec_names(story: tuple[Collector, ServerProcess]) -> None:
    collector, _ = story
    write = collector.span("memory_write")
    assert write.parent_span_id == collector.span("tools/call memory.write").span_id
    told = values(write.attributes)
    assert told.keys() >= {"commit_id", "bytes", "duration_ms"}
    assert len(told["commit_id"]) == 64
    assert told["bytes"] > len(SECRET)
    assert told["duration_ms"] > 0
    assert {name: told[name] for name in ("tenant_id", "actor", "operation", "lamport", "schema_version")} == {
        "tenant_id": "default",
        "actor": "planner",
        "operation": "UPSERT_NODE",
        "lamport": 1,
        "schema_version": "1",
    }
    assert told["policy_id"].startswith("single-user")


def test_what_the_policy_said_is_an_event_of_the_span_it_let_through(story: tuple[Collector, ServerProcess]) -> None:
    [event] = [event for event in story[0].span("memory_write").events if event.name == "policy_eval"]
    told = values(event.attributes)
    assert (told["action"], told["resource"], told["decision"]) == ("WRITE", "n1", True)
    assert told.keys() >= {"actor", "reason", "policy_version", "duration_ms"}


def test_a_refusal_is_told_by_its_code_and_is_no_error_of_the_server(story: tuple[Collector, ServerProcess]) -> None:
    [refused] = [span for span in story[0].spans if span.name.startswith("tools/") and _code(span)]
    assert _code(refused) == "INVALID_ARGUMENT"
    assert refused.status.code == 0


def test_the_numbers_are_those_of_the_calls(story: tuple[Collector, ServerProcess]) -> None:
    metrics = story[0].metrics
    calls = {
        (told["tool"], told["outcome"]): point.as_double or point.as_int
        for point in metrics["tallystick_tool_calls"].sum.data_points
        if (told := values(point.attributes))
    }
    assert calls == {("memory.write", "ok"): 1, ("memory.read", "ok"): 1, ("memory.read", "INVALID_ARGUMENT"): 1}
    assert metrics["tallystick_tool_calls"].sum.is_monotonic
    [synced] = metrics["tallystick_log_sync_duration_seconds"].histogram.data_points
    assert (synced.count, sum(synced.bucket_counts)) == (1, 1)
    assert 0 < synced.sum < 10
    assert metrics["tallystick_log_sync_duration_seconds"].unit == "s"


@promise("8.2, one trace", "lines carry the trace they were told in, on standard error and at the collector")
def test_lines_carry_the_trace_they_were_told_in(story: tuple[Collector, ServerProcess]) -> None:
    collector, server = story
    [line] = [each for each in collector.lines if each.event_name == "policy_eval" and each.trace_id.hex() == TRACE]
    assert values(line.attributes)["action"] == "WRITE"
    [said] = [each for each in server.events("policy_eval") if each["trace_id"] == TRACE]
    assert said["span_id"] == line.span_id.hex() == collector.span("memory_write").span_id.hex()


def test_everything_says_whose_it_is_as_the_operator_wants(story: tuple[Collector, ServerProcess]) -> None:
    collector = story[0]
    assert {resource["service.name"] for resource in collector.resources} == {"shared-memory"}
    assert {resource["deployment.environment.name"] for resource in collector.resources} == {"test"}
    assert {headers["x-team"] for headers in collector.headers} == {"memory"}


@promise("8, privacy", "nothing that was written is told to a collector")
def test_nothing_that_was_written_is_told_to_the_collector(story: tuple[Collector, ServerProcess]) -> None:
    sent = b"".join(request.SerializeToString() for request in story[0].requests)
    assert b"memory_write" in sent
    assert SECRET.encode() not in sent


def _code(span: Any) -> str | None:
    found: str | None = values(span.attributes).get("error.type")
    return found


# -- stdio


def speak(base: Path, *messages: dict[str, Any], python: tuple[str, ...] = (), **environ: str) -> tuple[list[Any], str]:
    """What a server on stdio answers, and what it says on standard error."""
    server = start_server(base, python=python, environ=environ)
    client = RawClient(server)
    numbered = [{"jsonrpc": "2.0", "id": number, **message} for number, message in enumerate(messages, 1)]
    try:
        client.send(b"".join(json.dumps(line).encode() + b"\n" for line in (INITIALIZE, *numbered)))
        return [json.loads(line) for line in client.end()], "".join(server.stderr())
    finally:
        server.kill()


def call(tool: str, arguments: dict[str, Any], **meta: str) -> dict[str, Any]:
    return {"method": "tools/call", "params": {"name": tool, "arguments": arguments, "_meta": meta}}


def test_on_stdio_a_trace_comes_with_the_message(tmp_path: Path) -> None:
    with collecting() as collector:
        answers, _ = speak(
            tmp_path,
            call("memory.write", node("n1"), traceparent=TRACEPARENT, tracestate="vendor=1"),
            call("memory.read", {"entity_id": "n1"}),
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{collector.address}/v1/traces",
        )
    assert len(answers) == 3
    wrote, read = collector.span("tools/call memory.write"), collector.span("tools/call memory.read")
    assert (wrote.trace_id.hex(), wrote.parent_span_id.hex(), wrote.trace_state) == (TRACE, PARENT, "vendor=1")
    assert read.trace_id.hex() != TRACE
    assert not collector.metrics
    assert not collector.lines


def test_over_http_each_message_of_a_session_has_its_own_trace(tmp_path: Path) -> None:
    """However it comes: in a header, in `_meta`, or not at all; a session remembers none."""
    with collecting() as collector:
        endpoint = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.address}/v1/traces"}
        with serving(tmp_path, **endpoint) as server, httpx2.Client(base_url=server.url, timeout=None) as http:
            headers = {"accept": "application/json, text/event-stream", "traceparent": TRACEPARENT}
            begun = http.post("/mcp", json=INITIALIZE, headers=headers)
            session = {"accept": headers["accept"], "mcp-session-id": begun.headers["mcp-session-id"]}
            http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
            for message, more in (
                (call("memory.write", node("n1")), {"traceparent": TRACEPARENT}),
                (call("memory.read", {"entity_id": "n1"}, traceparent=OTHER_TRACEPARENT), {"traceparent": TRACEPARENT}),
                (call("memory.lineage", {"entity_id": "n1"}), {}),
            ):
                answer = http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, **message}, headers={**session, **more})
                assert "result" in answer.json()
    traces = [collector.span(f"tools/call memory.{word}").trace_id.hex() for word in ("write", "read", "lineage")]
    assert traces[:2] == [TRACE, OTHER_TRACE]
    assert traces[2] not in (TRACE, OTHER_TRACE)


def test_the_sampler_is_heeded(tmp_path: Path) -> None:
    with collecting() as collector:
        writing = call("memory.write", node("n1"))
        speak(tmp_path, writing, OTEL_TRACES_SAMPLER="always_off", OTEL_EXPORTER_OTLP_ENDPOINT=collector.address)
    assert not collector.spans
    assert collector.metrics


def test_a_collector_that_is_not_there_changes_no_answer(tmp_path: Path) -> None:
    answers, _ = speak(tmp_path, call("memory.write", node("n1")), OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert answers[-1]["result"]["structuredContent"]["lamport"] == 1


@promise("8.2, off", "OpenTelemetry is loaded only where a collector is named")
@pytest.mark.parametrize(
    ("environ", "loaded"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}, True),
    ],
)
def test_opentelemetry_is_loaded_only_for_a_collector(tmp_path: Path, environ: dict[str, str], loaded: bool) -> None:
    _, said = speak(tmp_path, call("memory.write", node("n1")), python=("-X", "importtime"), **environ)
    imported = {line.rpartition("|")[2].strip() for line in said.splitlines() if line.startswith("import time:")}
    assert "tallystick.telemetry.metrics" in imported
    # The MCP SDK imports the bare API for itself; what works and costs is the SDK with its exporters.
    heavy = ("opentelemetry.sdk", "opentelemetry.exporter", "prometheus_client", "requests")
    assert bool([name for name in imported if name.startswith(heavy)]) == loaded


# -- what the environment asks for

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}
ALL = ["TRACES", "METRICS", "LOGS"]


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, []),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"}, []),
        (ENDPOINT, ALL),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, []),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "false"}, ALL),
        ({**ENDPOINT, "OTEL_LOGS_EXPORTER": "none"}, ["TRACES", "METRICS"]),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "console"}, ["METRICS", "LOGS"]),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "console, otlp"}, ALL),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, ["METRICS"]),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://localhost/logs"}, ["LOGS"]),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, ALL),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, []),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "grpc"}, ["TRACES", "LOGS"]),
    ],
)
def test_the_environment_says_what_is_exported(environ: dict[str, str], wanted: list[str]) -> None:
    assert otlp.signals(environ) == wanted


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "traces are not exported: OTLP is spoken as http/protobuf",
        ),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER is zipkin: there are otlp and none"),
    ],
)
def test_what_cannot_be_had_is_said(environ: dict[str, str], words: str, caplog: pytest.LogCaptureFixture) -> None:
    otlp.signals(environ)
    assert words in caplog.text


async def test_without_the_packages_the_server_serves_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    async with otlp.exporting("1", ENDPOINT):
        assert tracing.tracer is None
    assert "install tallystick[otel]" in caplog.text


async def test_a_variable_that_makes_no_sense_is_said_and_keeps_nobody_from_serving(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-5")
    async with otlp.exporting("1", {"OTEL_TRACES_EXPORTER": "otlp"}):
        assert tracing.tracer is None
    assert "traces are not exported" in caplog.text


async def test_a_bug_is_told_without_the_words_of_its_exception() -> None:
    with collecting() as collector:
        endpoint = f"{collector.address}/v1/logs"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", endpoint)
            # Pytest keeps what is logged for its report, and half a character cannot travel between its processes.
            patch.setattr(logging.getLogger(), "handlers", [])
            async with otlp.exporting("1", {"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": endpoint}):
                try:
                    raise ValueError(SECRET)
                except ValueError:
                    logging.getLogger("tallystick.test").exception("bug in a \udc80 tool, error id 1")
    [line] = collector.lines
    assert (line.severity_text, line.body.string_value) == ("ERROR", "bug in a ? tool, error id 1")
    assert values(line.attributes)["exception.type"] == "ValueError"
    assert "test_otlp" in values(line.attributes)["exception.stacktrace"]
    assert SECRET.encode() not in b"".join(request.SerializeToString() for request in collector.requests)
