"""Spans, while somebody collects them: `tracer` is None otherwise, and looking at it is all that it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Protocol

Value = str | int | float | bool
_WANTED = ("traceparent", "tracestate")


class Span(Protocol):
    @property
    def is_recording(self) -> bool:
        """False where it was not sampled: whatever is added to it is dropped."""

    def set(self, **attributes: Value | None) -> None:
        """None is left out."""

    def event(self, name: str, **attributes: Value | None) -> None: ...

    def fail(self, code: str, *, ours: bool) -> None:
        """What became of it, by a stable code; `ours` marks a bug, which is the only error of the server."""


class Tracer(Protocol):
    def call(self, name: str) -> AbstractContextManager[Span]:
        """A span for a caller's request, continuing the trace that `arrived` names."""

    def span(self, name: str) -> AbstractContextManager[Span]:
        """A span under the current one. An exception ends it and is passed on; its text is not kept."""

    def current(self) -> Span | None: ...

    def ids(self) -> tuple[str, str] | None:
        """Of the trace and the span that the current code runs under."""


tracer: Tracer | None = None
"""Set by `otlp`. Look at it as `tracing.tracer`: a name imported from here stays None."""

arrived: ContextVar[Mapping[str, str] | None] = ContextVar("arrived", default=None)
"""The trace that the request being served belongs to, as its sender wrote it (W3C Trace Context)."""


def arrive(headers: Iterable[tuple[bytes, bytes]] = (), meta: object = None) -> None:
    """Tell of a request's trace. MCP puts it into `_meta`, which is nearer to the call than the header is."""
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers if name in _HEADERS}
    if isinstance(meta, Mapping) and isinstance(meta.get(_WANTED[0]), str):
        found = {name: meta[name] for name in _WANTED if isinstance(meta.get(name), str)}
    arrived.set(found or None)


_HEADERS = frozenset(name.encode() for name in _WANTED)
