"""What a commit and a read cost in process, and what the proof of a large log does."""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from pathlib import Path

from bench import Row, percentile
from bench.bases import fill, note
from bench.writes import syncs_a_second
from tallystick.commits import Draft, Operation, Verb
from tallystick.engine.partition import Partition, Propose
from tallystick.log.files import FilesLog
from tallystick.log.proof import prove


def run(quick: bool = False) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        rows = asyncio.run(_measure_partition(Path(folder) / "partition", 20 if quick else 200))
        return rows + _measure_proof(Path(folder) / "proof", 20_000 if quick else 1_000_000)


async def _measure_partition(system: Path, each: int) -> list[Row]:
    partition = Partition(FilesLog(system))
    await partition.open()
    rows = []
    for writers, target in ((64, 5_000), (1, None)):
        taken: list[float] = []
        started = time.perf_counter()
        await asyncio.gather(*(_write(partition, f"{writers}-{number}", each, taken) for number in range(writers)))
        rate = len(taken) / (time.perf_counter() - started)
        label = f"durable writes of 1 KB, {writers} waiting together"
        rows.append(Row(label, rate, "/s", target, "more"))
        rows.append(Row(f"{label}, p95", percentile(taken, 95) * 1e3, "ms", 40 if target else None))
    rows.append(
        Row("fdatasync of 1 KB, one after the other", syncs_a_second(system / "bare", 1024, each), "/s", None, "more")
    )
    count = each * 100
    started = time.perf_counter()
    for number in range(count):
        await partition.look(lambda state, number=number: state.node(f"64-{number % 64}-0"))  # type: ignore[misc]
    rows.append(Row("point reads through a partition", count / (time.perf_counter() - started), "/s", 100_000, "more"))
    await partition.close()
    return rows


async def _write(partition: Partition, name: str, count: int, taken: list[float]) -> None:
    for number in range(count):
        started = time.perf_counter()
        await partition.commit(_proposal(f"{name}-{number}", number))
        taken.append(time.perf_counter() - started)


def _proposal(node_id: str, number: int) -> Propose:
    payload = note(number).payload | {"id": node_id}
    return lambda state: Draft((Operation(Verb.UPSERT_NODE, payload),), actor="bench", tool="bench")


def _measure_proof(base: Path, commits: int) -> list[Row]:
    fill(base, map(note, range(commits)))
    system = base / "_system"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    proof = prove(system)
    taken = time.perf_counter() - started
    assert proof.sound
    assert proof.commits == commits
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    label = f"verify of {commits:,} commits"
    return [Row(label, taken, "s", 60 * commits / 1_000_000), Row(f"{label}, memory", max(grown, 0.1), "MB", 50)]
