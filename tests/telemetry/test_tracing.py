"""Traces that arrive with a request, as its sender wrote them."""

from __future__ import annotations

import pytest

from tallystick.telemetry import tracing

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("headers", "meta", "expected"),
    [
        ([], None, None),
        ([(b"accept", b"*/*")], {"progressToken": 1}, None),
        ([(b"traceparent", PARENT.encode())], None, {"traceparent": PARENT}),
        (
            [(b"traceparent", PARENT.encode()), (b"tracestate", b"a=1")],
            {},
            {"traceparent": PARENT, "tracestate": "a=1"},
        ),
        ([(b"traceparent", PARENT.encode()), (b"tracestate", b"a=1")], {"traceparent": OTHER}, {"traceparent": OTHER}),
        ([], {"traceparent": OTHER, "tracestate": "b=2"}, {"traceparent": OTHER, "tracestate": "b=2"}),
        ([], {"traceparent": 7, "tracestate": "b=2"}, None),
        ([(b"traceparent", b"\xff\xfe")], ["traceparent"], {"traceparent": "\xff\xfe"}),
    ],
)
def test_a_trace_arrives_in_a_header_or_nearer_in_meta(
    headers: list[tuple[bytes, bytes]], meta: object, expected: dict[str, str] | None
) -> None:
    tracing.arrive(headers, meta)
    assert tracing.arrived.get() == expected
