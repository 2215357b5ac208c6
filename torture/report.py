"""The report: a table for people, and the same in docs/reliability.md."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence

from tallystick import __version__
from torture.arena import ROOT, Tally

PAGE = ROOT / "docs" / "reliability.md"
_PARTS = ("results", "cluster")
"""The tables of the page, by their markers: of one machine, and of several."""
_COLUMNS = ("scenario", "rounds", "acknowledged", "faults", "lost", "wrong", "named", "rebuilt", "unseen", "seconds")
_PROBLEMS_SHOWN = 12


def line(tally: Tally) -> str:
    if tally.skipped:
        return f"{tally.scenario}: skipped: {tally.skipped}"
    said = (
        f"{tally.scenario}: {tally.rounds} rounds, {tally.acknowledged} acknowledged, {tally.faults} faults, "
        f"{tally.lost} lost, {tally.wrong} wrong ({tally.seconds:.0f} s)"
    )
    return "\n".join([said, *(f"    {each}" for each in _few(tally.problems))])


def drawn(tallies: Sequence[Tally]) -> str:
    rows = [_COLUMNS, *map(_row, tallies), _row(_sum(tallies))]
    widths = [max(len(row[number]) for row in rows) for number in range(len(_COLUMNS))]
    table = ["  ".join(_cell(*each) for each in zip(range(99), row, widths, strict=False)) for row in rows]
    return "\n".join([*table, *(f"skipped: {each.scenario}: {each.skipped}" for each in tallies if each.skipped)])


def publish(tallies: Sequence[Tally], *, minutes: float, seed: int) -> None:
    """Between the markers of the page; the rest of it is written by hand. A table of which nothing ran stays."""
    page = PAGE.read_text()
    for part in _PARTS:
        ran = [tally for tally in tallies if tally.scenario.startswith("cluster") == (part == "cluster")]
        if ran:
            begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
            results = "\n".join([begin, "", _where(minutes, seed), "", *_markdown(ran), "", end])
            page = re.sub(f"{begin}.*{end}", lambda _, results=results: results, page, flags=re.DOTALL)  # type: ignore[misc]
    PAGE.write_text(page)


def _where(minutes: float, seed: int) -> str:
    return (
        f"Tallystick {__version__}, Python {platform.python_version()}, {platform.system()} {platform.release()}, "
        f"{_cores()}; `make torture ARGS='--minutes {minutes:g} --seed {seed}'`."
    )


def _cores() -> str:
    return f"{os.cpu_count()} cores"


def _markdown(tallies: Sequence[Tally]) -> list[str]:
    names = ("what is done", *_COLUMNS[1:-1])
    rows = [(tally.what, *_row(tally)[1:-1]) for tally in tallies if not tally.skipped]
    total = ("**together**", *_row(_sum(tallies))[1:-1])
    table = [f"| {' | '.join(row)} |" for row in (names, ("---", *["--:"] * (len(names) - 1)), *rows, total)]
    skipped = [f"- not tried: {tally.what}: {tally.skipped}" for tally in tallies if tally.skipped]
    return [*table, "", *skipped] if skipped else table


def _row(tally: Tally) -> tuple[str, ...]:
    if tally.skipped:
        return (tally.scenario, "skipped", *[""] * (len(_COLUMNS) - 2))
    values = [getattr(tally, name) for name in _COLUMNS[1:-1]]
    return (tally.scenario, *(f"{value:,}" for value in values), f"{tally.seconds:.0f}")


def _sum(tallies: Sequence[Tally]) -> Tally:
    total = Tally("together", "together")
    for name in _COLUMNS[1:]:
        setattr(total, name, sum(getattr(tally, name) for tally in tallies))
    return total


def _cell(number: int, text: str, width: int) -> str:
    return text.ljust(width) if number == 0 else text.rjust(width)


def _few(problems: Sequence[str]) -> list[str]:
    some = list(dict.fromkeys(problems))
    return some[:_PROBLEMS_SHOWN] + ([f"and {len(some) - _PROBLEMS_SHOWN} more"] if len(some) > _PROBLEMS_SHOWN else [])
