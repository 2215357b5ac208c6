"""A line from the first of some commits to now, on which each stands by its time, yet apart from the next one.

A year without a change beside three commits of one second would make them one notch: a part of the line is given to
the intervals alike, the rest by how long they lasted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate

import msgspec

LENGTH = 1_000
GAP = 20
"""Between two commits, at least."""
_GAPS_MAX = 0.6
"""Which part of the line gaps may take; of many commits each has less."""

_SECOND = 1_000
_DAY = 86_400 * _SECOND
_STEPS = tuple(_SECOND * each for each in (1, 5, 15, 60, 300, 900, 3_600, 10_800, 21_600, 86_400, 604_800, 1_209_600))
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 600, 1_200)
_TICKS_MAX = 8
_TICKS_APART = 90
_TICKS_FROM = 150
_TICKS_UNTIL = 950
"""Before and after these the line says where it begins and ends."""


class Tick(msgspec.Struct, frozen=True):
    place: int
    label: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    times: tuple[int, ...]
    """Of the commits, and now behind them, never going back: milliseconds since 1970."""
    places: tuple[int, ...]
    """Where they stand, from 0 to LENGTH."""


def timeline(commits: Sequence[int], now: int) -> Timeline:
    """Clocks go back at times, the order of commits does not."""
    times = tuple(accumulate([*commits, now], max))
    lasted, intervals = times[-1] - times[0], max(len(commits), 1)
    gap = min(GAP, _GAPS_MAX * LENGTH / intervals) if lasted else LENGTH / intervals
    by_time = (LENGTH - gap * intervals) / max(lasted, 1)
    places = tuple(round(gap * number + by_time * (time - times[0])) for number, time in enumerate(times))
    return Timeline(times=times, places=places)


def chosen(line: Timeline, was: int, place: int) -> int:
    """Which commit somebody meant who moved from one to a place: the nearest, but the least movement leads to the next
    one. -1 is before all; whatever is behind the last commit is now, and so is the last commit."""
    now, last = len(line.places) - 1, len(line.places) - 2
    nearest = min(range(len(line.places)), key=lambda each: abs(line.places[each] - place))
    came_from = line.places[was] if was >= 0 else -1
    if nearest == was and place != came_from:
        nearest = min(was + 1, now) if place > came_from else max((last if was == now else was) - 1, 0)
    return now if nearest == last else nearest


def ticks(line: Timeline) -> list[Tick]:
    """Round times between the beginning and the end, with room for their labels."""
    found: list[Tick] = []
    for time, label in _round_times(line.times[0], line.times[-1]):
        place = _place_of(line, time)
        before = found[-1].place if found else _TICKS_FROM - _TICKS_APART
        if before + _TICKS_APART <= place <= _TICKS_UNTIL:
            found.append(Tick(place, label))
    return found


def _place_of(line: Timeline, time: int) -> int:
    at = min(bisect_right(line.times, time), len(line.times) - 1)
    since, until = line.times[at - 1], line.times[at]
    part = (time - since) / max(until - since, 1)
    return round(line.places[at - 1] + part * (line.places[at] - line.places[at - 1]))


def _round_times(first: int, last: int) -> Iterator[tuple[int, str]]:
    step = next((each for each in _STEPS if (last - first) / each <= _TICKS_MAX), None)
    if step is None:
        yield from _round_months(first, last)
        return
    for time in range(first - first % step + step, last, step):
        yield time, _label(time, step)


def _label(time: int, step: int) -> str:
    moment = datetime.fromtimestamp(time / 1000, UTC)
    if time % _DAY == 0:
        return f"{moment.day} {moment:%b}"
    return f"{moment:%H:%M}" if step % (60 * _SECOND) == 0 else f"{moment:%H:%M:%S}"


def _round_months(first: int, last: int) -> Iterator[tuple[int, str]]:
    begun, ended = (datetime.fromtimestamp(each / 1000, UTC) for each in (first, last))
    lasted = 12 * (ended.year - begun.year) + ended.month - begun.month
    step = next((each for each in _MONTHS if lasted / each <= _TICKS_MAX), _MONTHS[-1])
    month = 12 * begun.year + begun.month - 1
    for each in range(month - month % step + step, 12 * ended.year + ended.month, step):
        moment = datetime(each // 12, each % 12 + 1, 1, tzinfo=UTC)
        yield round(moment.timestamp() * 1000), f"{moment:%Y}" if step % 12 == 0 else f"{moment:%b %Y}"
