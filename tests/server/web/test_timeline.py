"""Where commits stand on the slider: by their time, apart from each other, and each to be had by a place."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallystick.clock import from_text
from tallystick.extensions.web.timeline import LENGTH, chosen, ticks, timeline

DAY = 86_400_000
MARCH = from_text("2026-03-01")
TIMES = st.lists(st.integers(0, 50 * 365 * DAY), min_size=1, max_size=200)


def test_commits_stand_by_their_time() -> None:
    line = timeline([MARCH, MARCH + 10 * DAY, MARCH + 15 * DAY], MARCH + 20 * DAY)
    assert line.places == (0, 490, 745, 1000)


def test_commits_of_one_second_are_apart_beside_a_year_without_any() -> None:
    line = timeline([MARCH, MARCH + 365 * DAY, MARCH + 365 * DAY + 1, MARCH + 365 * DAY + 2], MARCH + 365 * DAY + 3)
    assert line.places == (0, 940, 960, 980, 1000)


def test_commits_of_one_moment_are_spread_over_the_line() -> None:
    assert timeline([MARCH] * 4, MARCH).places == (0, 250, 500, 750, 1000)


@given(TIMES, st.integers(0, 60 * 365 * DAY))
def test_no_two_commits_stand_in_one_place_whatever_the_clocks_said(times: list[int], now: int) -> None:
    line = timeline(times, now)
    assert (line.places[0], line.places[-1]) == (0, LENGTH)
    assert all(later - earlier >= 2 for earlier, later in pairwise(line.places))


@given(TIMES, st.integers(0, 60 * 365 * DAY))
def test_every_commit_is_had_by_its_place_and_by_moving_a_little_again_and_again(times: list[int], now: int) -> None:
    line = timeline(times, now)
    first, end = (0 if len(times) > 1 else 1), len(times)
    stops = [*range(end - 1), end]
    assert [chosen(line, first if each == end else end, line.places[each]) for each in stops] == stops
    assert chosen(line, end, line.places[end - 1]) == end, "the last commit is now"
    was, seen = end, [end]
    while was > first:
        was = chosen(line, was, line.places[was] - 1)
        seen.append(was)
    assert seen == stops[::-1]
    was, seen = -1, []
    while was < end:
        was = chosen(line, was, line.places[was] + 1 if was >= 0 else 0)
        seen.append(was)
    assert seen == stops


def test_who_moves_nothing_stays() -> None:
    line = timeline([MARCH, MARCH + DAY, MARCH + 2 * DAY], MARCH + 3 * DAY)
    assert [chosen(line, each, line.places[each]) for each in (0, 1, 3)] == [0, 1, 3]


@pytest.mark.parametrize(
    ("lasted", "labels"),
    [
        (500, []),
        (6_000, ["00:00:01", "00:00:02", "00:00:03", "00:00:04", "00:00:05"]),
        (4 * 3_600_000, ["01:00", "02:00", "03:00"]),
        (2 * DAY, ["12:00", "18:00", "2 Mar", "06:00", "12:00", "18:00"]),
        (36 * DAY, ["12 Mar", "19 Mar", "26 Mar", "2 Apr"]),
        (300 * DAY, ["May 2026", "Jul 2026", "Sep 2026", "Nov 2026"]),
        (20 * 365 * DAY, ["2030", "2035", "2040", "2045"]),
    ],
)
def test_round_times_stand_between(lasted: int, labels: list[str]) -> None:
    assert [each.label for each in ticks(timeline([MARCH], MARCH + lasted))] == labels


@given(TIMES, st.integers(0, 60 * 365 * DAY))
def test_labels_have_room(times: list[int], now: int) -> None:
    places = [0, *(each.place for each in ticks(timeline(times, now)))]
    assert all(later - earlier >= 90 for earlier, later in pairwise(places))
    assert places[-1] <= 950
