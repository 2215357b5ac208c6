"""What a commit and a read cost in process, and what the proof of a large log does."""

from __future__ import annotations

import asyncio
import os
import resource
import tempfile
import time
from pathlib import Path

from bench import Row
from tallystick.commits import Draft, Operation, Verb
from tallystick.log import Entry, Head
from tallystick.log.files import FilesLog
from tallystick.log.proof import prove
from tallystick.partition import Partition, Propose

BODY = "x" * 850
"""With its id, type and other attributes: about 1 KB."""


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
        rows.append(Row(f"{label}, p95", sorted(taken)[len(taken) * 95 // 100] * 1e3, "ms", 40 if target else None))
    rows.append(Row("fdatasync of 1 KB, one after the other", _bare_syncs(system / "bare"), "/s", None, "more"))
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
    attrs = {"title": node_id, "status": "open" if number % 3 else "done", "number": number, "body": BODY}
    operation = Operation(Verb.UPSERT_NODE, {"id": node_id, "type": "note", "attrs": attrs})
    return lambda state: Draft((operation,), actor="bench", tool="bench")


def _bare_syncs(path: Path, count: int = 200) -> float:
    """The limit that one writer alone cannot pass."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    started = time.perf_counter()
    for _ in range(count):
        os.write(fd, b"x" * 1024)
        os.fdatasync(fd)
    rate = count / (time.perf_counter() - started)
    os.close(fd)
    return rate


def _measure_proof(system: Path, commits: int) -> list[Row]:
    _fill(system, commits)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    proof = prove(system)
    taken = time.perf_counter() - started
    assert proof.sound
    assert proof.commits == commits
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    label = f"verify of {commits:,} commits"
    return [Row(label, taken, "s", 60 * commits / 1_000_000), Row(f"{label}, memory", max(grown, 0.1), "MB", 50)]


def _fill(system: Path, commits: int) -> None:
    from tallystick.commits import chain

    log = FilesLog(system)
    head = Head()
    group: list[Entry] = []
    offset, prev, record_hash = 0, None, ""
    for number in range(1, commits + 1):
        draft = _proposal(f"n{number}", number)(None)  # type: ignore[arg-type]  # it looks at nothing
        assert isinstance(draft, Draft)
        commit = chain.seal(
            draft,
            draft.operations[0],
            tenant="default",
            lamport=number,
            timestamp="2026-01-01T00:00:00.000Z",
            prev=prev,
            prev_record_hash=record_hash,
            group=group[0].commit.lamport if group else None,
        )
        group.append(Entry(offset, commit, chain.encode(commit)[:-1]))
        offset, prev, record_hash = group[-1].end, commit.commit_id, commit.record_hash
        if len(group) == 5_000 or number == commits:
            head = log.append(group, expected=head)
            group = []
    log.close()
