"""What the metrics said before: rows of fixed number, each about one step."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from tallystick.extensions.web.reports.history import TOOLS_MAX, History, Span, per_minute
from tallystick.telemetry import metrics
from tallystick.telemetry.readings import read_metrics

SPANS = (Span("hour", 60.0, 5), Span("day", 300.0, 3))


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def history(clock: Clock) -> History:
    return History(SPANS, clock=clock)


def go_on(history: History, clock: Clock, seconds: float = 60.0) -> None:
    clock.now += seconds
    history.tick()


def test_each_row_counts_what_came_since_the_one_before(history: History, clock: Clock) -> None:
    metrics.called("history.look", "ok", 0.002, writes=False)
    metrics.called("history.look", "NOT_FOUND", 0.002, writes=False)
    go_on(history, clock)
    go_on(history, clock)
    metrics.called("history.look", "ok", 0.4, writes=False)
    found = history.read("hour", "history.look")
    assert found.columns["calls"] == [2, 0, 1]
    assert found.columns["refused"] == [1, 0, 0]
    first, second, running = found.columns["call_p99"]
    assert first is not None
    assert 0.001 < first <= 0.0025
    assert second is None
    assert running is not None
    assert 0.25 < running <= 0.5
    assert found.times == [1_000_060.0, 1_000_120.0, 1_000_120.0]
    assert history.read("hour").columns["calls"][0] >= 2  # type: ignore[operator]  # a count is always there


def test_a_rate_is_that_of_the_last_steps(history: History, clock: Clock) -> None:
    def called(times: int) -> None:
        for _ in range(times):
            metrics.called("history.rate", "ok", 0.002, writes=False)

    def rate(steps: int) -> float:
        return per_minute(history.read("hour", "history.rate"), "calls", steps)

    called(10)
    assert rate(1) == 10, "the first seconds are no rate"
    go_on(history, clock)
    called(4)
    go_on(history, clock)
    clock.now += 30
    called(2)
    assert rate(1) == 4
    assert rate(2) == rate(9) == 6.4


def test_the_oldest_rows_give_way(history: History, clock: Clock) -> None:
    for number in range(9):
        for _ in range(number):
            metrics.called("history.many", "ok", 0.001, writes=True)
        go_on(history, clock)
    found = history.read("hour", "history.many")
    assert found.columns["calls"] == [5, 6, 7, 8, 0]
    assert found.times == [1_000_360.0, 1_000_420.0, 1_000_480.0, 1_000_540.0, 1_000_540.0]


def test_a_day_has_longer_steps_than_an_hour(history: History, clock: Clock) -> None:
    for _ in range(5):
        metrics.called("history.daily", "ok", 0.001, writes=True)
        go_on(history, clock)
    assert history.read("day", "history.daily").columns["calls"] == [5, 0]


def test_a_process_that_slept_has_one_row_for_it(history: History, clock: Clock) -> None:
    metrics.called("history.slept", "ok", 0.001, writes=True)
    go_on(history, clock, 100_000.0)
    assert history.read("hour", "history.slept").columns["calls"] == [1, 0]


def test_a_tool_that_nobody_called_has_no_calls(history: History, clock: Clock) -> None:
    go_on(history, clock)
    assert history.read("hour", "history.never").columns["calls"] == [None, 0]


def test_memory_stays_as_it_is_however_long_it_runs_and_whatever_is_called(history: History, clock: Clock) -> None:
    for number in range(2 * TOOLS_MAX):
        metrics.called(f"history.tool-{number}", "ok", 0.001, writes=True)
    for _ in range(10):
        go_on(history, clock)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(20):
        go_on(history, clock)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # The last reading is held, once: it is larger than all rings of a row, and does not add up.
    assert grown < 100_000 + 2 * len(list(metrics.CALLS.read())) * 1_000


def test_a_worker_that_was_begun_anew_takes_nothing_away(clock: Clock) -> None:
    counted = 7
    read = lambda: read_metrics([metric_of(counted)])  # noqa: E731  # what there is then
    history = History(SPANS, clock=clock, read=read)
    counted = 3
    go_on(history, clock)
    counted = 5
    assert history.read("hour").columns["calls"] == [0, 2]


def metric_of(calls: int) -> metrics.Histogram:
    found = metrics.Histogram(metrics.CALLS.name, "", *metrics.CALLS.labels)
    for _ in range(calls):
        found.observe(0.002, ("look", "ok", "read"))
    return found
