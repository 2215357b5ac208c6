"""Durable writes over HTTP, beside a loop that does nothing but write the same bytes and sync them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import Row, percentile, say
from bench.bases import fill, note
from bench.processes import Server, tallystick_http
from bench.talking import Question, Speaker, Talked, speak, talk

MANY = 64
RATE_TARGET = 2_000
P95_TARGET = 40.0
SYNC = "fdatasync of the same bytes"


def run(quick: bool = False) -> list[Row]:
    each = 10 if quick else 300
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        base = Path(folder)
        fill(base, [note(0)])
        with tallystick_http(base) as server:
            say(f"{MANY} clients")
            numbers = iter(range(1, 10**9))
            _written(server, MANY, 5, numbers.__next__)
            many, cpu = _written(server, MANY, each, numbers.__next__)
            say("one client")
            one, cpu_of_one = _written(server, 1, each * 4, numbers.__next__)
        say("fdatasync alone")
        syncs = syncs_a_second(base / "bare", len(note(0).payload["attrs"]["body"]) + 700, 50 if quick else 500)
    return [
        Row(f"durable writes of 1 KB, {MANY} clients", many.rate, "/s", RATE_TARGET, "more", syncs, SYNC),
        Row(f"the same, p50, {MANY} clients", percentile(many.taken["write"], 50) * 1e3, "ms"),
        Row(f"the same, p95, {MANY} clients", percentile(many.taken["write"], 95) * 1e3, "ms", P95_TARGET),
        Row(f"the same, server CPU a write, {MANY} clients", cpu / many.count * 1e6, "µs"),
        Row("durable writes of 1 KB, one client", one.rate, "/s", None, "more", syncs, SYNC),
        Row(
            "the same, p50, one client", percentile(one.taken["write"], 50) * 1e3, "ms", None, "less", 1e3 / syncs, SYNC
        ),
        Row("the same, server CPU a write, one client", cpu_of_one / one.count * 1e6, "µs"),
        Row("fdatasync of the same bytes, one after the other", syncs, "/s", None, "more"),
    ]


def _written(server: Server, clients: int, each: int, number: Callable[[], int]) -> tuple[Talked, float]:
    scripts = speak(clients, each, lambda: writer(server.port, number))
    server.settle(seconds=0.2)
    found: list[Talked] = []
    cpu = server.cpu_of(lambda: found.append(talk(server.port, scripts)))
    return found[0], cpu


def writer(port: int, number: Callable[[], int]) -> Callable[[int], Question]:
    speaker = Speaker.in_session(port)

    def ask(id: int) -> Question:
        return speaker.call("write", "memory.write", {"op": "UPSERT_NODE", "node": note(number()).payload}, id)

    return ask


def syncs_a_second(path: Path, size: int, count: int) -> float:
    """The limit that one writer who waits for each cannot pass."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        started = time.perf_counter()
        for _ in range(count):
            os.write(fd, b"x" * size)
            os.fdatasync(fd)
        return count / (time.perf_counter() - started)
    finally:
        os.close(fd)
