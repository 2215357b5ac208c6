"""python -m bench [--quick] [NAME ...]"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from bench import Row


def main() -> int:
    there_are = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    parser = argparse.ArgumentParser(prog="make bench", description="Measure, and print ratios to the targets.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(there_are)}")
    parser.add_argument("--quick", action="store_true", help="small amounts: to see that it runs, not to quote")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in there_are]
    if unknown:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(there_are)}")
    rows: list[Row] = []
    for name in chosen.names or there_are:
        rows += measure(name, quick=chosen.quick)
    print(drawn(rows))
    return int(any(row.ratio is not None and row.ratio < 1 for row in rows))


def measure(name: str, *, quick: bool) -> list[Row]:
    """Rows may be plain tuples, so that a benchmark also runs by itself."""
    started = time.perf_counter()
    print(f"{name} …", end="", file=sys.stderr, flush=True)
    rows = [Row(*row) for row in importlib.import_module(f"bench.{name}").run(quick)]
    print(f" {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return rows


def drawn(rows: Iterable[Row]) -> str:
    cells = [("", "measured", "target", "ratio"), *map(_cells, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in cells)
    )


def _cells(row: Row) -> tuple[str, str, str, str]:
    bound = "≥" if row.better == "more" else "<"
    target = "" if row.target is None else f"{bound} {_number(row.target)} {row.unit}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return row.what, f"{_number(row.measured)} {row.unit}", target, ratio


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
