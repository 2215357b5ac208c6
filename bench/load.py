"""Many clients at once over HTTP, seven reads to three durable writes, each client asking again as soon as answered.

The clients share the machine with the server, so the percentiles hold for a server that has not all cores to itself.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import Row, percentile, say
from bench.bases import fill, note
from bench.processes import tallystick_http
from bench.talking import Question, Speaker, Talked, speak, talk

CLIENTS = 64
READS = 0.7
P95_TARGETS = {"read": 25.0, "write": 40.0}


def run(quick: bool = False) -> list[Row]:
    nodes, each = (1_000, 10) if quick else (100_000, 500)
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        say(f"filling {nodes:,} nodes")
        fill(Path(folder), map(note, range(nodes)))
        with tallystick_http(Path(folder)) as server:
            server.settle()
            talk(server.port, speak(CLIENTS, 5, lambda: _mixed(server.port, nodes)))
            server.settle(seconds=0.2)
            scripts = speak(CLIENTS, each, lambda: _mixed(server.port, nodes))
            say(f"{CLIENTS} clients, {CLIENTS * each:,} calls")
            found: list[Talked] = []
            cpu = server.cpu_of(lambda: found.append(talk(server.port, scripts)))
    return _rows(found[0], cpu, nodes)


def _mixed(port: int, nodes: int) -> Callable[[int], Question]:
    speaker = Speaker.in_session(port)

    def ask(number: int) -> Question:
        dice = random.Random(number)
        place = dice.randrange(nodes)
        if dice.random() < READS:
            return speaker.call("read", "memory.read", {"entity_id": f"note-{place}"}, number)
        return speaker.call("write", "memory.write", {"op": "UPSERT_NODE", "node": note(place).payload}, number)

    return ask


def _rows(talked: Talked, cpu: float, nodes: int) -> list[Row]:
    label = f"{CLIENTS} clients, {nodes:,} nodes"
    rows = []
    for kind, target in P95_TARGETS.items():
        for percent in (50, 95, 99):
            taken = percentile(talked.taken[kind], percent) * 1e3
            rows.append(Row(f"{label}: {kind}, p{percent}", taken, "ms", target if percent == 95 else None))
    return [
        *rows,
        Row(f"{label}: calls", talked.rate, "/s", None, "more"),
        Row(f"{label}: server CPU a call", cpu / talked.count * 1e6, "µs"),
        Row(f"{label}: share of one core", cpu / talked.seconds * 100, "%"),
    ]
