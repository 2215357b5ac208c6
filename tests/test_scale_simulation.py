"""The scale simulation: it loses nobody and agrees with what was measured at today's size."""

from __future__ import annotations

import msgspec
import pytest

from bench.report import between
from bench.scale_simulation import (
    PAGE,
    Fleet,
    Load,
    compared,
    figures,
    resources,
    simulate,
)

SMALL = Load(tenants=200, entities=200_000, commits_a_day=20e6)
NAMES = ("compared", "fleets", "growth", "failure", "resources")


@pytest.mark.parametrize("fails_at", [None, 0.5])
@pytest.mark.parametrize("load", [SMALL, msgspec.structs.replace(SMALL, clients=32)], ids=["open", "closed"])
def test_whoever_asked_is_answered_once(load: Load, fails_at: float | None) -> None:
    told = simulate(load, Fleet(2, 2), figures(replicated=True), seconds=1.5, fails_at=fails_at)
    assert told.asked > 300
    assert told.answered == told.asked == len(told.reads) + len(told.writes)
    assert (told.repeated > 0) == (fails_at is not None)
    assert min(told.reads) > 0
    assert min(told.writes) >= figures(replicated=True).round


def test_the_same_seed_tells_the_same() -> None:
    first, again = (simulate(SMALL, Fleet(), figures(replicated=True), seconds=0.5, seed=7) for _ in range(2))
    assert first == again
    assert first != simulate(SMALL, Fleet(), figures(replicated=True), seconds=0.5, seed=8)


def test_it_agrees_with_what_was_measured_at_todays_size() -> None:
    _, *rows = compared()
    for what, measured, simulated in rows:
        bounds = [float(each.replace(",", "")) for each in measured.split(" to ")]
        assert 0.8 * bounds[0] <= float(simulated.replace(",", "")) <= 1.25 * bounds[-1], what


def test_a_fleet_that_is_too_small_shows_it_by_waits_that_grow() -> None:
    load, cost = Load(), figures(replicated=True)
    short, long = (simulate(load, Fleet(1, 1), cost, seconds=seconds) for seconds in (1, 3))
    enough = simulate(load, Fleet(3, 4), cost, seconds=1)
    assert max(long.writes) > 2 * max(short.writes) > 10 * max(enough.writes)
    assert short.busiest_process > 0.95 > enough.busiest_process


def test_a_failure_stops_writing_until_there_is_a_leader_again() -> None:
    cost = figures(replicated=True)
    told = simulate(SMALL, Fleet(3, 2), cost, seconds=2, fails_at=1)
    assert max(told.writes) > 7 > max(simulate(SMALL, Fleet(3, 2), cost, seconds=2).writes)


def test_what_is_kept_grows_with_the_days_and_not_with_the_processes() -> None:
    cost = figures(replicated=True)
    month, year = ({row[0]: row[1] for row in resources(Load(), Fleet(), cost, days=days)} for days in (30, 360))
    same = "memory of all states, each in one process"
    assert month[same] == year[same]
    assert _number(year["every commit verified anew, one core"]) == pytest.approx(
        12 * _number(month["every commit verified anew, one core"]), rel=0.05
    )


def test_the_page_has_a_place_for_every_table_and_each_is_filled() -> None:
    page = PAGE.read_text()
    for name in NAMES:
        assert between(page, name, "") != page


def _number(text: str) -> float:
    return float(text.split(maxsplit=1)[0].replace(",", ""))
