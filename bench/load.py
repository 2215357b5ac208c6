"""Many clients at once over HTTP, seven reads to three durable writes, each client asking again as soon as answered.

The clients share the machine with the server, so the percentiles hold for a server that has not all cores to itself.

python -m bench.load [--agents N] [--minutes N] [--rate N]: as many agents as are asked for, each in a session and on a
connection of its own, who think between two calls, so that all together make about so many calls a second. Says how
long calls took and what the server's memory was before and after. Ends with an error at the first call that fails.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench import Row, percentile, say
from bench.bases import fill, note
from bench.processes import tallystick_http
from bench.talking import Question, Speaker, Talked, speak, talk

CLIENTS = 64
WORKERS = 2
READS = 0.7
P95_TARGETS = {"read": 25.0, "write": 40.0}


def run(quick: bool = False) -> list[Row]:
    nodes, each = (1_000, 10) if quick else (100_000, 500)
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        say(f"filling {nodes:,} nodes")
        fill(Path(folder), map(note, range(nodes)))
        alone, shared = (_measured(Path(folder), nodes, each, workers) for workers in (1, WORKERS))
    return [*_rows(alone, nodes), *_rows_of_workers(shared, alone, nodes)]


class Measured(NamedTuple):
    talked: Talked
    cpu: float
    """Seconds of the server, all its processes together."""

    @property
    def cpu_a_call(self) -> float:
        return self.cpu / self.talked.count * 1e6


def _measured(base: Path, nodes: int, each: int, workers: int) -> Measured:
    with tallystick_http(base, workers=workers) as server:
        server.settle()
        talk(server.port, speak(CLIENTS, 5, lambda: _mixed(server.port, nodes)))
        server.settle(seconds=0.2)
        scripts = speak(CLIENTS, each, lambda: _mixed(server.port, nodes))
        say(f"{CLIENTS} clients, {CLIENTS * each:,} calls, workers: {workers}")
        found: list[Talked] = []
        cpu = server.cpu_of(lambda: found.append(talk(server.port, scripts)))
        return Measured(found[0], cpu)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.load", description=__doc__.splitlines()[0])
    parser.add_argument("--agents", type=int, default=5_000)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=500.0, help="calls a second, of all agents together")
    parser.add_argument("--nodes", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tallystick-load-") as folder:
        print(*agents(Path(folder), asked.agents, asked.minutes * 60, asked.rate, asked.nodes), sep="\n")
    return 0


def agents(base: Path, many: int, seconds: float, rate: float, nodes: int) -> Iterator[str]:
    """Raises Refused when a call fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * many + 512)), hard))
    fill(base, map(note, range(nodes)))
    with tallystick_http(base, http_connections_max=many + 64, sessions_per_subject=many) as server:
        server.settle()
        say(f"{many:,} agents begin their sessions")
        askers = [_mixed(server.port, nodes) for _ in range(many)]
        before, ends, numbers = server.resident_bytes, time.monotonic() + seconds, count()
        scripts = [_until(ends, ask, numbers) for ask in askers]
        dice = random.Random(5)
        found: list[Talked] = []
        cpu = server.cpu_of(lambda: found.append(talk(server.port, scripts, lambda: dice.uniform(0, 2 * many / rate))))
        after = server.resident_bytes
    for kind, taken in sorted(found[0].taken.items()):
        shown = (f"p{percent} {percentile(taken, percent) * 1e3:.1f} ms" for percent in (50, 95, 99))
        yield f"{kind}: {len(taken):,} calls, {', '.join(shown)}"
    yield f"{many:,} agents, {found[0].rate:,.0f} calls/s, no error, {found[0].seconds:.0f} s"
    yield f"server: {cpu / found[0].count * 1e6:.0f} µs a call, memory {before / 1e6:.0f} → {after / 1e6:.0f} MB"


def _until(ends: float, ask: Callable[[int], Question], numbers: Iterator[int]) -> Iterator[Question]:
    """At least one."""
    yield ask(next(numbers))
    while time.monotonic() < ends:
        yield ask(next(numbers))


def _mixed(port: int, nodes: int) -> Callable[[int], Question]:
    speaker = Speaker.in_session(port)

    def ask(number: int) -> Question:
        dice = random.Random(number)
        place = dice.randrange(nodes)
        if dice.random() < READS:
            return speaker.call("read", "memory.read", {"entity_id": f"note-{place}"}, number)
        return speaker.call("write", "memory.write", {"op": "UPSERT_NODE", "node": note(place).payload}, number)

    return ask


def _rows(measured: Measured, nodes: int) -> list[Row]:
    label, talked = f"{CLIENTS} clients, {nodes:,} nodes", measured.talked
    rows = []
    for kind, target in P95_TARGETS.items():
        for percent in (50, 95, 99):
            taken = percentile(talked.taken[kind], percent) * 1e3
            rows.append(Row(f"{label}: {kind}, p{percent}", taken, "ms", target if percent == 95 else None))
    return [
        *rows,
        Row(f"{label}: calls", talked.rate, "/s", None, "more"),
        Row(f"{label}: server CPU a call", measured.cpu_a_call, "µs"),
        Row(f"{label}: share of one core", measured.cpu / talked.seconds * 100, "%"),
    ]


def _rows_of_workers(shared: Measured, alone: Measured, nodes: int) -> list[Row]:
    label = f"{CLIENTS} clients, {nodes:,} nodes, {WORKERS} workers"
    return [
        Row(f"{label}: calls", shared.talked.rate, "/s", None, "more"),
        Row(f"{label}: server CPU a call", shared.cpu_a_call, "µs"),
        Row(f"{label}: server CPU a call, times one worker's", shared.cpu_a_call / alone.cpu_a_call, "×", 1.2),
    ]


if __name__ == "__main__":
    sys.exit(main())
