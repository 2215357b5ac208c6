"""One memory on several machines: the log on three NATS servers beside the files log, by turns, in one run.

A machine is a process with a base of its own. All of them, and the servers, share the cores and the disk of this
machine, so what counts are the ratios; the load at the time is told with them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from bench import Row, percentile, say
from bench.bases import fill_log, note
from tallystick import app
from tallystick.commits import Draft, Operation, Verb
from tallystick.config import Settings, load
from tallystick.engine.partition import Partition, Propose
from tallystick.engine.snapshots import Snapshots
from tallystick.extensions.backup.encryption import load_backup_keys
from tallystick.extensions.backup.object_store import open_object_store
from tallystick.extensions.backup.repository import Repository
from tallystick.extensions.backup.restore import restore
from tallystick.extensions.backup.run import back_up
from tallystick.extensions.cluster.shared_log import STREAMS
from tallystick.log import Head
from tallystick.log.files import SEGMENT_BYTES_MAX
from tallystick.operations.snapshot import take_snapshot
from tests.nats_cluster import Cluster, running

STREAM = "tally-0"
FILES = "the files log"
_READS = 20_000
_KILLS = 3
COMMITS: int | None = None
"""Of the memory that a new machine joins; None for the usual number."""


class Plan(msgspec.Struct, frozen=True):
    """What a machine does: so many writers on each of so many tenants, for so long."""

    base: str
    settings: dict[str, Any]
    seconds: float
    writers: int = 64
    tenants: int = 1
    name: str = "m"


class Told(msgspec.Struct, frozen=True):
    ended: list[float]
    """When each write was acknowledged, by the clock that all processes of the machine share."""
    taken: list[float]
    written: list[str]
    reads: float
    """A second."""

    @property
    def rate(self) -> float:
        return len(self.ended) / (max(self.ended) - min(self.ended))

    def p(self, percent: float) -> float:
        """Milliseconds."""
        return percentile(self.taken, percent) * 1e3


def run(quick: bool = False) -> list[Row]:
    seconds, turns, commits, kills = (1.5, 1, 5_000, 1) if quick else (5.0, 3, 1_000_000, _KILLS)
    commits = COMMITS or commits
    with (
        tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder,
        running(Path(folder) / "servers", nodes=3) as cluster,
    ):
        place = _Place(Path(folder), cluster)
        return [
            *_writers(place, seconds, turns),
            *_two_machines(place, seconds, turns),
            *_tenants(place, seconds),
            *_failover(place, 12.0 if quick else 20.0, kills),
            *_newcomer(place, commits),
            Row("load average at the end, of how many would run at once", os.getloadavg()[0], ""),
        ]


class _Place:
    """Bases that were not used before, on the same servers, each time with a stream of its own."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self._folder = folder
        self.cluster = cluster
        self._streams = 0

    def stream(self) -> dict[str, Any]:
        self._streams += 1
        return {
            "log_url": self.cluster.url,
            "log_monitor": [f"http://{node.host}:{node.monitor_port}" for node in self.cluster.nodes],
            "log_stream": f"bench-{self._streams}",
        }

    def base(self, name: str) -> str:
        return str(self._folder / f"{name}-{self._streams}")


# -- what is measured


def _writers(place: _Place, seconds: float, turns: int) -> list[Row]:
    found: dict[tuple[str, int], list[Told]] = {}
    for turn in range(turns):
        for writers in (64, 1):
            say(f"{writers} writers, turn {turn + 1} of {turns}")
            for kind in ("files", "stream"):
                settings = place.stream()
                plan = Plan(place.base(kind), settings if kind == "stream" else {}, seconds, writers)
                found.setdefault((kind, writers), []).extend(_together([plan]))
    rows = []
    for writers, share in ((64, 0.6), (1, None)):
        files, stream = (found[kind, writers] for kind in ("files", "stream"))
        beside = median(each.rate for each in files)
        ratio = median(mine.rate / theirs.rate for mine, theirs in zip(stream, files, strict=True))
        label = f"durable writes of 1 KB, {writers} writer{'s'[: writers - 1]} on one machine"
        rows += [
            Row(label, median(each.rate for each in stream), "/s", None, "more", beside, FILES),
            Row(f"{label}, share of the files log's", 100 * ratio, "%", share and 100 * share, "more"),
            Row(
                f"{label}, p50",
                median(each.p(50) for each in stream),
                "ms",
                None,
                "less",
                median(each.p(50) for each in files),
                FILES,
            ),
            Row(f"{label}, p99", median(each.p(99) for each in stream), "ms"),
        ]
    reads = [median(each.reads for each in found[kind, 64]) for kind in ("stream", "files")]
    return [*rows, Row("local point reads", reads[0], "/s", None, "more", reads[1], FILES)]


def _two_machines(place: _Place, seconds: float, turns: int) -> list[Row]:
    files, streams = [], []
    for turn in range(turns):
        say(f"two machines on one tenant, turn {turn + 1} of {turns}")
        settings = place.stream()
        files += _together([Plan(place.base("files"), {}, seconds, 64)])
        plans = [Plan(place.base(name), settings, seconds, 32, name=name) for name in ("one", "other")]
        streams.append(_together(plans))
    rates = [sum(each.rate for each in both) for both in streams]
    taken = [each for both in streams for told in both for each in told.taken]
    shares = [min(each.rate for each in both) / rate for both, rate in zip(streams, rates, strict=True)]
    ratio = median(rate / alone.rate for rate, alone in zip(rates, files, strict=True))
    label = "two machines × 32 writers on one tenant"
    beside = median(each.rate for each in files)
    return [
        Row(f"{label}: durable writes", median(rates), "/s", None, "more", beside, FILES),
        Row(f"{label}: share of the files log's", 100 * ratio, "%", 40, "more"),
        Row(f"{label}: p50", percentile(taken, 50) * 1e3, "ms"),
        Row(f"{label}: p99", percentile(taken, 99) * 1e3, "ms", 100),
        Row(f"{label}: the slower one's share", 100 * min(shares), "%", None, "more"),
        Row(f"{label}: longest wait", max(taken) * 1e3, "ms"),
    ]


def _tenants(place: _Place, seconds: float) -> list[Row]:
    rows = []
    for tenants in (1, 16, 64):
        say(f"{tenants} tenants with a writer each")
        (told,) = _together([Plan(place.base("many"), place.stream(), seconds, 1, tenants)])
        rows += [
            Row("tenants with a writer each: writes", told.rate, "/s", None, "more", at=tenants),
            Row("tenants with a writer each: p50", told.p(50), "ms", at=tenants),
        ]
    return sorted(rows, key=lambda row: row.what)


def _failover(place: _Place, seconds: float, kills: int) -> list[Row]:
    found = [_kill_leader(place, seconds, f"the leader is killed, {kill + 1} of {kills}") for kill in range(kills)]
    gaps, acknowledged, lost = zip(*found, strict=True)
    return [
        Row("leader killed: gap in writing, the longest", max(gaps), "s", 10),
        Row("leader killed: gap in writing, the usual", median(gaps), "s"),
        Row("leader killed: acknowledged", sum(acknowledged), "", None, "more"),
        Row("leader killed: of them lost", sum(lost), ""),
    ]


def _kill_leader(place: _Place, seconds: float, told_as: str) -> tuple[float, int, int]:
    """The gap, how many were acknowledged, and how many of them are lost."""
    say(told_as)
    settings = place.stream()
    plan = Plan(place.base("failing"), settings, seconds, 16)
    with _started(plan) as machine:
        machine.begin()
        time.sleep(seconds / 4)
        leader = place.cluster.leader(settings["log_stream"])
        assert leader is not None
        killed = time.monotonic()
        leader.kill()
        told = machine.told()
    leader.start()
    place.cluster.wait_until_healthy()
    later = [each for each in sorted(told.ended) if each > killed - 1]
    gap = max(after - before for before, after in pairwise(later))
    return gap, len(told.ended), len(set(told.written) - _stored(_settings(plan)))


def _newcomer(place: _Place, commits: int) -> list[Row]:
    say(f"{commits:,} commits into the stream")
    settings = place.stream()
    old = _settings(Plan(place.base("old"), settings, 0))
    log = app.open_log(old)
    try:
        fill_log(log, map(note, range(commits)))
    finally:
        log.close()
    say("a machine that has nothing but the stream")
    new = _settings(Plan(place.base("new"), settings, 0))
    started, used = time.perf_counter(), time.process_time()
    asyncio.run(_open_and_close(new))
    taken, used = time.perf_counter() - started, time.process_time() - used
    say("a machine that begins with a backup")
    store = f"file://{place.base('store')}"
    asyncio.run(take_snapshot(app.operation_context(old)))
    back_up(app.operation_context(old), to=store)
    log = app.open_log(old)
    try:
        fill_log(log, map(note, range(commits, commits + commits // 100)))
    finally:
        log.close()
    late = _settings(Plan(place.base("late"), settings, 0))
    began = time.perf_counter()
    restored = restore(
        Repository(open_object_store(store), load_backup_keys(late, None)),
        late.base,
        segment_bytes_max=SEGMENT_BYTES_MAX,
    )
    for each in restored.tenants:
        STREAMS.adopt(msgspec.structs.replace(late, tenant=each.tenant), restored.stream)
    fetched = time.perf_counter() - began
    asyncio.run(_open_and_close(late))
    label = f"a new machine, {commits:,} commits"
    return [
        Row(f"{label}, from the stream: ready", taken, "s", 120 * commits / 1e6),
        Row(f"{label}, from the stream: time of the processor", used, "s"),
        Row(f"{label}, from a backup and the stream: restored and proven", fetched, "s"),
        Row(f"{label}, from a backup and the stream: ready", time.perf_counter() - began, "s", 120 * commits / 1e6),
    ]


async def _open_and_close(settings: Settings) -> None:
    """With snapshots, as a server does."""
    partition = Partition(app.open_log(settings), snapshots=Snapshots(settings.system / "snapshots"))
    await partition.open()
    await partition.close()


def _stored(settings: Settings) -> set[str]:
    log = app.open_log(settings)
    try:
        return {entry.commit.document()["id"] for entry in log.read(Head())}
    finally:
        log.close()


# -- machines


class _Machine:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"begin\n")
        self._process.stdin.flush()

    def told(self) -> Told:
        assert self._process.stdout is not None
        return msgspec.json.decode(self._process.stdout.read(), type=Told)


@contextmanager
def _started(plan: Plan) -> Iterator[_Machine]:
    """Ready to begin."""
    command = [sys.executable, "-m", "bench.cluster", msgspec.json.encode(plan).decode()]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        machine = _Machine(process)
        machine.wait_until_ready()
        yield machine
    finally:
        process.kill()
        process.communicate()


def _together(plans: Sequence[Plan]) -> list[Told]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        machines = [stack.enter_context(_started(plan)) for plan in plans]
        for machine in machines:
            machine.begin()
        return [machine.told() for machine in machines]


def _settings(plan: Plan, tenant: str = "default") -> Settings:
    return load({"base": plan.base, "tenant": tenant, "snapshot_every": 0, **plan.settings}, environ={})


async def _work(plan: Plan) -> Told:
    names = ["default", *(f"t{number}" for number in range(1, plan.tenants))]
    partitions = [Partition(app.open_log(_settings(plan, name)), tenant=name) for name in names]
    for partition in partitions:
        await partition.open()
        await partition.commit(_proposal("first", 0))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    until = time.monotonic() + plan.seconds
    told = Told([], [], [], 0.0)
    await asyncio.gather(
        *(
            _write(partition, f"{plan.name}-{number}", until, told)
            for partition in partitions
            for number in range(plan.writers)
        )
    )
    reads = await _read(partitions[0]) if plan.seconds else 0.0
    for partition in partitions:
        await partition.close()
    return msgspec.structs.replace(told, reads=reads)


async def _write(partition: Partition, name: str, until: float, told: Told) -> None:
    number = 0
    while (started := time.monotonic()) < until:
        number += 1
        await partition.commit(_proposal(f"{name}-{number}", number))
        ended = time.monotonic()
        told.ended.append(ended)
        told.taken.append(ended - started)
        told.written.append(f"{name}-{number}")


async def _read(partition: Partition) -> float:
    started = time.perf_counter()
    for _ in range(_READS):
        await partition.look(lambda state: state.node("first"))
    return _READS / (time.perf_counter() - started)


def _proposal(node_id: str, number: int) -> Propose:
    payload = note(number).payload | {"id": node_id}
    return lambda state: Draft((Operation(Verb.UPSERT_NODE, payload),), actor="bench", tool="bench")


if __name__ == "__main__":
    told = asyncio.run(_work(msgspec.json.decode(sys.argv[1], type=Plan)))
    sys.stdout.write(json.dumps(msgspec.to_builtins(told)))
