"""python -m bench [--quick] [--json FILE] [--docs] [NAME ...]"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import time
from pathlib import Path

from bench import SECTIONS, Row, cluster, recall
from bench.report import Results, drawn, tables


def main() -> int:
    # So that what was started is ended and what was made is removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    chosen = _arguments()
    results = Results(chosen.json)
    for name in chosen.names:
        started = time.perf_counter()
        rows = measure(name, quick=chosen.quick)
        results.add(name, rows, quick=chosen.quick, seconds=time.perf_counter() - started)
        print(f"\n{name}\n" + "\n\n".join(map(drawn, tables(rows))), flush=True)
    if chosen.docs:
        results.write_docs()
    return 0


def measure(name: str, *, quick: bool) -> list[Row]:
    """Rows may be plain tuples, so that a benchmark also runs by itself."""
    print(f"{name} …", file=sys.stderr, flush=True)
    started = time.perf_counter()
    rows = [Row(*row) for row in importlib.import_module(f"bench.{name}").run(quick)]
    print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description="Measure, and print ratios to the targets and to peers measured in the same run."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one or more of {', '.join(SECTIONS)}; default all")
    parser.add_argument("--quick", action="store_true", help="small amounts: to see that it runs, not to quote")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep the results there, beside those of other sections"
    )
    parser.add_argument(
        "--docs",
        action="store_true",
        help="write docs/benchmarks.md and its plot from FILE; without a NAME measure nothing",
    )
    parser.add_argument("--locomo", type=Path, metavar="FILE", help="the data set that recall is measured on")
    parser.add_argument("--vectors", action="store_true", help="measure recall with the setting `vectors` on")
    parser.add_argument("--commits", type=int, metavar="N", help="of the memory that a new machine of a cluster joins")
    chosen = parser.parse_args()
    cluster.COMMITS = chosen.commits
    recall.DATA, recall.VECTORS = chosen.locomo, chosen.vectors
    if unknown := [name for name in chosen.names if name not in (*SECTIONS, "all")]:
        parser.error(f"there is no {unknown[0]}; there are {', '.join(SECTIONS)}")
    if "recall" in chosen.names and not chosen.locomo:
        parser.error("recall needs --locomo FILE, the data set that it is measured on")
    if chosen.docs and not chosen.json:
        parser.error("--docs needs --json FILE, where the results are")
    if "all" in chosen.names or not (chosen.names or chosen.docs):
        chosen.names = [name for name in SECTIONS if name != "recall" or chosen.locomo]
    return chosen


if __name__ == "__main__":
    sys.exit(main())
