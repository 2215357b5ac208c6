"""`/operations`: whether the server does well, by its own count, now and over the last hour or day."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from tallystick.clock import to_text
from tallystick.config import Settings
from tallystick.errors import InvalidArgument, NotFound, TallystickError
from tallystick.extensions.web.context import WorkerPlace
from tallystick.extensions.web.reports.figures import Figures, ProcessFigures, measure, measure_processes
from tallystick.extensions.web.reports.history import ALL_TOOLS, SPANS, Rows, SpanName
from tallystick.extensions.web.visit import Visit
from tallystick.operations.copies import StoreStatus, copy_holders
from tallystick.policy import Action
from tallystick.telemetry.readings import together

Values = list[float | None]


class Line(msgspec.Struct, frozen=True):
    label: str
    values: Values


class Plot(msgspec.Struct, frozen=True):
    name: str
    title: str
    unit: str
    lines: list[Line]


class Plots(msgspec.Struct, frozen=True):
    span: SpanName
    seconds: int
    """How long that is."""
    tool: str | None
    """Whose calls are shown; None for all."""
    times: list[str]
    """When each step ended; the last one is not over yet."""
    plots: list[Plot]


class OperationsView(msgspec.Struct, frozen=True):
    version: str
    position: int
    figures: Figures
    history: Plots
    backups: list[StoreStatus]
    """Where they are made to, or shall be."""
    backups_problem: str | None
    """Why that is not known."""
    worker: WorkerPlace | None
    """Which process answered; None where there is one only."""
    workers: list[ProcessFigures]
    """Each by itself; the figures are of all of them. Empty where there is one process only."""


async def operations(visit: Visit) -> OperationsView:
    """Raises NotFound for other tenants than the server's own: the figures are about all that the process serves."""
    offer, principal = visit.context.offer, visit.principal
    if visit.context.figures_for not in (None, principal.tenant):
        raise NotFound("the figures are about all tenants")
    position = await offer.store.read(principal, Action.SEARCH, lambda state, read_filter: state.position)
    home = visit.context.home_of(principal.tenant)
    readings = visit.context.readings()
    backups, problem = await asyncio.to_thread(_backups, visit.context.operations(principal).settings)
    return OperationsView(
        version=offer.version,
        position=position,
        figures=await measure(home, home / "_system", together(list(readings.values()))),
        history=_history(visit),
        backups=backups,
        backups_problem=problem,
        worker=visit.context.worker,
        workers=[] if visit.context.worker is None else measure_processes(readings),
    )


def _backups(settings: Settings) -> tuple[list[StoreStatus], str | None]:
    try:
        return [each for holder in copy_holders() for each in holder.stores(settings)], None
    except TallystickError as error:
        return [], error.message


def _history(visit: Visit) -> Plots:
    span = next((each for each in SPANS if each.name == (visit.said("span") or SPANS[0].name)), None)
    if span is None:
        raise InvalidArgument(f"'span' in the address must be one of {', '.join(each.name for each in SPANS)}")
    tool = visit.said("tool")
    kept = visit.context.history
    rows = kept.read(span.name)
    return Plots(
        span=span.name,
        seconds=round(span.step * span.rows),
        tool=tool,
        times=[to_text(round(1000 * each)) for each in rows.times],
        plots=[*_calls(kept.read(span.name, tool or ALL_TOOLS)), *_rest(rows)],
    )


def _calls(rows: Rows) -> list[Plot]:
    return [
        Plot("calls", "Calls", "per minute", _lines(rows, _per_minute, all="calls", refused="refused")),
        Plot("latency", "Latency of calls", "ms", _lines(rows, _ms, p50="call_p50", p95="call_p95", p99="call_p99")),
    ]


def _rest(rows: Rows) -> list[Plot]:
    decisions = rows.columns["decisions"]
    shares = [
        Line("denied", _shares(rows.columns["denied"], decisions)),
        Line("from the cache", _shares(rows.columns["remembered"], decisions)),
    ]
    latency = _lines(rows, _ms, p50="decision_p50", p95="decision_p95", p99="decision_p99")
    return [
        Plot("policy", "Latency of the policy", "ms", latency),
        Plot("decisions", "Decisions", "%", shares),
        Plot("commits", "Commits", "per minute", _lines(rows, _per_minute, commits="commits")),
        Plot("append", "Append", "ms", _lines(rows, _ms, p95="append_p95")),
        Plot("lag", "Projections", "commits behind", _lines(rows, _plain, slowest="lag")),
        Plot("log", "Log", "MB", _lines(rows, _megabytes, log="log_bytes")),
        Plot("memory", "Memory", "MB", _lines(rows, _megabytes, process="memory_bytes")),
        Plot("sessions", "Sessions", "open", _lines(rows, _plain, sessions="sessions")),
    ]


def _lines(rows: Rows, scaled: Callable[[Rows, Values], Values], **columns: str) -> list[Line]:
    return [Line(label, scaled(rows, rows.columns[name])) for label, name in columns.items()]


def _per_minute(rows: Rows, values: Values) -> Values:
    lengths = [rows.step] * (len(rows.times) - 1) + [rows.running]
    return [
        None if value is None else round(60 * value / max(length, 1.0), 2)
        for value, length in zip(values, lengths, strict=True)
    ]


def _ms(rows: Rows, values: Values) -> Values:
    return [None if value is None else round(1000 * value, 3) for value in values]


def _megabytes(rows: Rows, values: Values) -> Values:
    return [None if value is None else round(value / 1e6, 2) for value in values]


def _plain(rows: Rows, values: Values) -> Values:
    return values


def _shares(parts: Values, wholes: Values) -> Values:
    return [
        round(100 * part / whole, 1) if whole and part is not None else None
        for part, whole in zip(parts, wholes, strict=True)
    ]
