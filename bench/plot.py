"""The plot: curves over sizes, ours and the peer's, as an SVG that needs nothing to be made or seen.

Colours and greys are such that they can be read on white and on black.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from bench import Row

OURS, THEIRS, INK, FAINT = "#2f81f7", "#e8590c", "#7d8590", "#7d859055"
ACROSS = 3
WIDTH, HEIGHT = 300, 200
LEFT, RIGHT, TOP, BOTTOM = 62, 22, 34, 44
HEADING = 76


class Curve(NamedTuple):
    title: str
    unit: str
    peer: str
    points: list[tuple[int, float, float]]
    """Size, ours, the peer's."""


def draw(rows: Sequence[Row], *, kind: str = "CPU a call") -> str:
    """A panel for each curve of that kind, all on the same axes, so that they can be compared."""
    curves = [curve for curve in curves_of(rows) if curve.title.endswith(kind)]
    if not curves:
        raise ValueError(f"there are no curves of {kind}")
    down = math.ceil(len(curves) / ACROSS)
    width, height = ACROSS * WIDTH, HEADING + down * HEIGHT
    x, y = _axes(curves)
    panels = [
        f'<g transform="translate({number % ACROSS * WIDTH} {HEADING + number // ACROSS * HEIGHT})">'
        f"{_panel(curve, x, y)}</g>"
        for number, curve in enumerate(curves)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            f' font-family="system-ui, sans-serif" font-size="11" role="img">',
            f"<title>{escape(_title(curves[0], kind))}</title>",
            _text(width / 2, 24, _title(curves[0], kind), size=16, anchor="middle"),
            *_legend(width / 2, 50, curves[0].peer),
            *panels,
            "</svg>",
            "",
        ]
    )


def curves_of(rows: Sequence[Row]) -> list[Curve]:
    found = []
    for what, group in groupby((row for row in rows if row.at is not None), key=lambda row: row.what):
        members = list(group)
        points = [(row.at or 0, row.measured, row.peer) for row in members if row.peer is not None]
        if points:
            found.append(Curve(what, members[0].unit, members[0].beside, points))
    return found


class Axis:
    """Logarithmic, from a power of ten to a power of ten."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.low = math.floor(math.log10(min(values)) + 1e-9)
        self.high = max(math.ceil(math.log10(max(values)) - 1e-9), self.low + 1)
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self._start + share * (self._end - self._start), 1)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _axes(curves: Sequence[Curve]) -> tuple[Axis, Axis]:
    points = [point for curve in curves for point in curve.points]
    across = Axis([size for size, _, _ in points], LEFT, WIDTH - RIGHT)
    upwards = Axis([value for _, ours, theirs in points for value in (ours, theirs)], HEIGHT - BOTTOM, TOP)
    return across, upwards


def _panel(curve: Curve, x: Axis, y: Axis) -> str:
    title = curve.title.partition(",")[0]
    return "".join(
        [
            _text(LEFT, TOP - 12, title, size=13),
            *(_line(LEFT, y.place(tick), WIDTH - RIGHT, y.place(tick)) for tick in y.ticks),
            *(_text(LEFT - 6, y.place(tick) + 4, _short(tick), anchor="end") for tick in y.ticks),
            *(_line(x.place(tick), TOP, x.place(tick), HEIGHT - BOTTOM) for tick in x.ticks),
            *(_text(x.place(tick), HEIGHT - BOTTOM + 15, _short(tick), anchor="middle") for tick in x.ticks),
            _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "entities", anchor="middle"),
            _text(14, (TOP + HEIGHT - BOTTOM) / 2, curve.unit, anchor="middle", turned=True),
            _curve([(x.place(size), y.place(theirs)) for size, _, theirs in curve.points], THEIRS),
            _curve([(x.place(size), y.place(ours)) for size, ours, _ in curve.points], OURS),
        ]
    )


def _curve(points: Sequence[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{x},{y}" for x, y in points)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}'


def _legend(middle: float, y: float, peer: str) -> list[str]:
    entries = [(middle - 130, "Tallystick (durable)", OURS), (middle + 30, peer, THEIRS)]
    return [
        piece
        for x, label, colour in entries
        for piece in (_curve([(x, y - 4), (x + 20, y - 4)], colour), _text(x + 28, y, label))
    ]


def _title(curve: Curve, kind: str) -> str:
    what = "Server CPU for each call over stdio" if kind == "CPU a call" else kind
    return f"{what}, {curve.unit}, by how much is remembered (both axes logarithmic)"


def _line(x: float, y: float, to_x: float, to_y: float) -> str:
    return f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{FAINT}"/>'


def _text(x: float, y: float, said: str, *, size: int = 11, anchor: str = "start", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x} {y})"' if turned else ""
    return f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{INK}"{turn}>{escape(said)}</text>'


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1_000:g}k" if value >= 1_000 else f"{value:g}"
