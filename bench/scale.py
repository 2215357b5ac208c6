"""A million nodes and three million edges: memory, a replay of the whole log, a restart, and reads then."""

from __future__ import annotations

import asyncio
import gc
import itertools
import multiprocessing
import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from bench import Row, percentile, say
from bench.bases import fill
from bench.processes import Server, resident_bytes, tallystick
from bench.state import edge, node
from bench.talking import Lines, call_line
from tallystick.commits import Operation
from tallystick.engine.partition import Partition
from tallystick.engine.snapshots import Snapshots
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.projections import sql

EDGES = 3
"""For each node."""
QUICK = 50
CAUGHT_UP_SECONDS = 7200.0


def run(quick: bool = False) -> list[Row]:
    nodes = 1_000_000 // (QUICK if quick else 1)
    label = f"{nodes:,} nodes, {EDGES * nodes:,} edges: "
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        base = Path(folder)
        started = time.perf_counter()
        fill(base, _operations(nodes))
        written = time.perf_counter() - started
        say("replaying the whole log, and keeping a snapshot")
        # In a process of its own, so that the memory it takes is seen.
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            rows: list[Row] = pool.apply(_replay, (base,))
        rows += _served(base, nodes, rounds=200 if quick else 2_000)
        rows += _sizes(base)
    total = (1 + EDGES) * nodes
    first = Row("sealed, chained and appended, a commit", written / total * 1e6, "µs")
    return [row._replace(what=label + row.what) for row in [first, *rows]]


def _operations(nodes: int) -> Iterator[Operation]:
    rng = random.Random(0)
    rels = ("cites", "knows", "made")
    edges = (edge(rng.randrange(nodes), rng.randrange(nodes), rng.choice(rels)) for _ in range(EDGES * nodes))
    return itertools.chain((node(number, number) for number in range(nodes)), edges)


def _replay(base: Path) -> list[Row]:
    return asyncio.run(_replayed(base / "_system"))


async def _replayed(system: Path) -> list[Row]:
    partition = Partition(FilesLog(system), snapshots=Snapshots(system / "snapshots"))
    before = resident_bytes()
    started = time.perf_counter()
    await partition.open()
    replayed = time.perf_counter() - started
    gc.collect()
    held = resident_bytes() - before
    started = time.perf_counter()
    await partition.save_snapshot()
    kept = time.perf_counter() - started
    position = partition.position
    await partition.close()
    return [
        Row("log verified and replayed without a snapshot", replayed, "s"),
        Row("a commit verified and replayed", replayed / position * 1e6, "µs", 15),
        Row("memory of the state, after a replay", held / 1e9, "GB", 4),
        Row("snapshot taken and written", kept, "s"),
    ]


def _served(base: Path, nodes: int, rounds: int) -> list[Row]:
    say("first start: views, SQL and text index follow the log")
    started = time.perf_counter()
    with tallystick(base) as server:
        Lines(server).begin()
        while not _is_mirrored(base / "graph.db", (1 + EDGES) * nodes):
            time.sleep(0.5)
        mirrored = time.perf_counter() - started
        server.settle(patience_seconds=CAUGHT_UP_SECONDS)
        followed = time.perf_counter() - started
    say("restart")
    started = time.perf_counter()
    with tallystick(base) as server:
        lines = Lines(server)
        lines.begin()
        lines.call("memory.read", {"entity_id": "node-7"})
        wall, cpu = time.perf_counter() - started, server.cpu_seconds
        server.settle(patience_seconds=CAUGHT_UP_SECONDS)
        resident = server.resident_bytes
        return [
            Row("graph.db caught up with the whole log, once", mirrored, "s", 240),
            Row("views, graph.db and text index caught up with the whole log, once", followed, "s"),
            Row("restart to the first answer, with a snapshot", wall, "s", 10),
            Row("restart to the first answer, CPU", cpu, "s"),
            Row("memory of the server", resident / 1e9, "GB", 4),
            *_reads(server, lines, nodes, rounds),
        ]


def _is_mirrored(graph: Path, commits: int) -> bool:
    try:
        with closing(sqlite3.connect(f"file:{graph}?mode=ro", uri=True)) as db:
            (head,) = db.execute(sql.POSITION).fetchone()
            return msgspec.json.decode(head, type=Head).count == commits and sql.has_indexes(db)
    except (sqlite3.Error, TypeError):
        return False  # It has yet to be begun.


def _reads(server: Server, lines: Lines, nodes: int, rounds: int) -> list[Row]:
    dice = random.Random(3)
    some = [f"node-{dice.randrange(nodes)}" for _ in range(rounds)]
    asked = {
        "point read over stdio": ("memory.read", {}),
        "2 hops, at most 100 entities, over stdio": (
            "memory.search",
            {"traversal": {"hops": 2, "direction": "both"}, "limit": 100},
        ),
    }
    rows = []
    for what, (tool, arguments) in asked.items():
        say(what)
        calls = [call_line(number, tool, {"entity_id": each, **arguments}) for number, each in enumerate(some)]
        lines.time_calls(calls[: rounds // 10], seconds=60)
        taken: list[float] = []
        cpu = server.cpu_of(lambda: taken.extend(lines.time_calls(calls, seconds=60)))  # noqa: B023
        rows += [
            Row(f"{what}: p50", percentile(taken, 50) * 1e3, "ms"),
            Row(f"{what}: p95", percentile(taken, 95) * 1e3, "ms", 25),
            Row(f"{what}: CPU a call", cpu / len(taken) * 1e6, "µs"),
        ]
    return rows


def _sizes(base: Path) -> list[Row]:
    newest = max((base / "_system/snapshots").glob("*.snapshot"))
    parts = {
        "log": _bytes_under(base / "_system/log"),
        "snapshot": newest.stat().st_size,
        "graph.db": sum(path.stat().st_size for path in base.glob("graph.db*")),
        "everything": _bytes_under(base),
    }
    return [Row(f"size on disk: {name}", size / 1e9, "GB") for name, size in parts.items()]


def _bytes_under(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
