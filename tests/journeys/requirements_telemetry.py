"""The promises on what operators are told, each with the test that shows it."""

from __future__ import annotations

_OTLP = "tests/telemetry/test_otlp.py::"
_METRICS = "tests/telemetry/test_metrics.py::"
_LOGS = "tests/telemetry/test_logs.py::"

TELEMETRY_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    (
        "8.2, traces",
        "a write is a span with tenant, actor, operation, commit, lamport, bytes, versions and duration",
        _OTLP + "test_a_write_is_a_span_with_everything_that_the_spec_names",
    ),
    (
        "8.2, context",
        "a call continues the trace of its caller",
        _OTLP + "test_a_call_continues_the_trace_of_its_caller",
    ),
    (
        "8.2, logs",
        "a denial is a line of JSON with actor, action, resource, decision, reason, version and duration",
        _LOGS + "test_a_denial_is_a_line_with_what_the_spec_names",
    ),
    (
        "8.2, one trace",
        "lines carry the trace they were told in, on standard error and at the collector",
        _OTLP + "test_lines_carry_the_trace_they_were_told_in",
    ),
    (
        "8.2, off",
        "OpenTelemetry is loaded only where a collector is named",
        _OTLP + "test_opentelemetry_is_loaded_only_for_a_collector",
    ),
    (
        "8.1, 8.3",
        "calls, commits, decisions, queue, lag and process are at /metrics as Prometheus reads them",
        _METRICS + "test_the_numbers_are_those_of_the_calls",
    ),
    (
        "8.3, governance",
        "who comes without a good token is counted by code",
        _METRICS + "test_who_comes_without_a_good_token_is_counted_by_code",
    ),
    (
        "8, tenants apart",
        "numbers about all tenants are not for each of them",
        _METRICS + "test_numbers_about_all_tenants_are_not_for_each_of_them",
    ),
    (
        "8, privacy",
        "nothing that was written is told to a collector",
        _OTLP + "test_nothing_that_was_written_is_told_to_the_collector",
    ),
)
