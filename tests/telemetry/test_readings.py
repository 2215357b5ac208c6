"""What several processes counted, as if one had done it all."""

from __future__ import annotations

import msgspec
import pytest

from tallystick.telemetry import metrics
from tallystick.telemetry.metrics import Gauge, Labels, Series
from tallystick.telemetry.readings import Reading, read_metrics, together


def reading(seconds: float = 1.0, memory: float | None = None, **values: float) -> Reading:
    found: dict[str, list[tuple[Labels, float]]] = {f"tallystick_{name}": [((), each)] for name, each in values.items()}
    return Reading(seconds, memory, found, {})


@pytest.mark.parametrize(
    ("metric", "parts", "whole"),
    [
        (metrics.SESSIONS, (2, 3), 5),
        (metrics.QUEUE, (1, 0), 1),
        (metrics.DAMAGE, (1, 1), 2),
        (metrics.LOG_BYTES, (100, 90), 100),
        (metrics.AUDIT, (1, 0), 0),
    ],
)
def test_what_each_says_is_put_together_by_its_meaning(metric: Gauge, parts: tuple[int, int], whole: int) -> None:
    name = metric.name.removeprefix("tallystick_")
    assert together([reading(**{name: part}) for part in parts]).of(metric) == [((), whole)]


def test_histograms_are_summed_bucket_by_bucket() -> None:
    def part(**counts: list[int]) -> Reading:
        found: list[tuple[Labels, Series]] = [
            ((tool, "ok", "read"), Series(each, 1.0)) for tool, each in counts.items()
        ]
        return Reading(1.0, None, {}, {metrics.CALLS.name: found})

    whole = together([part(look=[1, 0, 2], ask=[1, 1, 1]), part(look=[0, 5, 1])])
    assert whole.series_of(metrics.CALLS) == [
        (("look", "ok", "read"), Series([1, 5, 3], 2.0)),
        (("ask", "ok", "read"), Series([1, 1, 1], 1.0)),
    ]


def test_one_that_knows_nothing_yet_takes_nothing_away() -> None:
    whole = together([reading(5.0, 10.0), reading(9.0, None, sessions_open=2), reading(1.0, 7.0)])
    assert (whole.seconds, whole.memory_bytes, whole.of(metrics.SESSIONS)) == (9.0, 17.0, [((), 2)])


def test_a_reading_is_handed_to_another_process_whatever_names_say() -> None:
    calls = metrics.Histogram(metrics.CALLS.name, "", *metrics.CALLS.labels)
    calls.observe(0.1, ("\ud800", "ok", "read"))
    said = read_metrics([calls])
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(said), type=Reading) == said
