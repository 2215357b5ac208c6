"""What the state costs: writes, reads, searches, walks, lineage, memory and a restart from a snapshot."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench import Row
from tallystick.clock import to_text
from tallystick.commits import Commit, Draft, Operation, Verb, chain
from tallystick.state import Condition, Page, Query, Walk, Walked
from tallystick.state.state import State

T = TypeVar("T")
START = 1_700_000_000_000
PAGE = os.sysconf("SC_PAGE_SIZE")


def run(quick: bool = False) -> list[Row]:
    middle, large = (5_000, 20_000) if quick else (100_000, 1_000_000)
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        rows = measure_work(Path(folder), middle)
        rows += measure_size(Path(folder), large)
    return rows


def measure_work(folder: Path, nodes: int) -> list[Row]:
    book = Book(folder / "work.jsonl")
    book.fill_nodes(100)
    small = Speeds(book, 100)
    book.fill_nodes(nodes, start=100)
    book.fill_edges(3 * nodes, nodes)
    large = Speeds(book, nodes)
    label = f"{nodes:,} nodes, {3 * nodes:,} edges: "
    rows = [
        Row(label + "point read", large.read * 1e6, "µs", 10),
        Row(label + "point read, ratio to 100 nodes", large.read / small.read, "×", 1.5),
        Row(label + "update of a node in the state", large.update * 1e6, "µs", 40),
        Row(label + "update, ratio to 100 nodes", large.update / small.update, "×", 1.5),
    ]
    for name, query in queries(nodes, book.state.count).items():
        book.search(query(0))  # The first range query puts the key's values in order.
        taken = percentile([timed(partial(book.search, query(n))) for n in range(40)], 95)
        target = None if name.startswith("regex") else 25
        rows.append(Row(f"{label}{name}, p95", taken * 1e3, "ms", target))
    rng = random.Random(2)
    walks = [Walk(start=f"node-{rng.randrange(nodes)}", hops=2, direction="both") for _ in range(200)]
    taken = percentile([timed(partial(book.walk, walk)) for walk in walks], 95)
    rows.append(Row(label + "2 hops, at most 100 entities, p95", taken * 1e3, "ms", 5))
    return rows + measure_lineage(book, nodes)


def measure_lineage(book: Book, nodes: int) -> list[Row]:
    for number in range(10_000):
        book.put(node(0, number), actor=f"agent-{number % 15}")
    for number in range(99):
        book.put(node(1, number), actor="agent")
    lineage = book.state.lineage
    return [
        Row("lineage of 100 commits", timed(lambda: lineage("node-1", "direct", 0, 1_000)) * 1e3, "ms", 50),
        Row("lineage of 10,000 commits", timed(lambda: lineage("node-0", "direct", 0, 100_000)), "s", 2),
        Row("one page of it, from the middle", timed(lambda: lineage("node-0", "direct", 5_000, 100)) * 1e3, "ms"),
        Row("summary of 10,000 commits", timed(lambda: book.state.summary("node-0")) * 1e3, "ms", 100),
        Row("node as of 10,000 commits ago", timed(lambda: book.state.node("node-0", at=5 * nodes // 4)) * 1e3, "ms"),
    ]


def measure_size(folder: Path, nodes: int) -> list[Row]:
    log, snapshot = folder / "size.jsonl", folder / "snapshot"
    # Each in a process of its own, so that the memory it takes is seen.
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        rows = pool.apply(build, (log, snapshot, nodes))
        return rows + pool.apply(load, (log, snapshot, nodes))


def build(log: Path, snapshot: Path, nodes: int) -> list[Row]:
    before = resident()
    book = Book(log)
    started = time.perf_counter()
    book.fill_nodes(nodes)
    book.fill_edges(2 * nodes, nodes)
    taken = time.perf_counter() - started
    gc.collect()
    held = resident() - before
    frozen = time.perf_counter()
    chunks = book.state.dump()
    frozen = time.perf_counter() - frozen
    with snapshot.open("wb") as file:
        written = timed(lambda: file.writelines(chunks))
    return [
        Row(f"{sizes(nodes)}sealed and applied, a commit", taken / (3 * nodes) * 1e6, "µs"),
        Row(f"{sizes(nodes)}memory, after writing", held / 1e9, "GB", 4),
        Row(f"{sizes(nodes)}snapshot taken, others waiting", frozen, "s"),
        Row(f"{sizes(nodes)}snapshot encoded and written", written, "s"),
        Row(f"{sizes(nodes)}snapshot size", snapshot.stat().st_size / 1e9, "GB"),
    ]


def load(log: Path, snapshot: Path, nodes: int) -> list[Row]:
    before = resident()
    started = time.perf_counter()
    state = State.load(snapshot.read_bytes(), Lines(log))
    gc.freeze()
    taken = time.perf_counter() - started
    assert state.node("node-7") is not None
    return [
        Row(f"{sizes(nodes)}snapshot loaded", taken, "s", 10),
        Row(f"{sizes(nodes)}memory, after loading", (resident() - before) / 1e9, "GB", 4),
    ]


def sizes(nodes: int) -> str:
    return f"{nodes:,} nodes, {2 * nodes:,} edges: "


class Speeds:
    """Seconds for a read and for an update, at random places."""

    def __init__(self, book: Book, nodes: int) -> None:
        rng = random.Random(1)
        ids = [f"node-{rng.randrange(nodes)}" for _ in range(5_000)]
        self.read = best(lambda: [book.state.node(each) for each in ids]) / len(ids)
        entries = [book.sealed(node(rng.randrange(nodes), rng.randrange(1_000_000))) for _ in range(5_000)]
        self.update = timed(lambda: book.apply(entries)) / len(entries)


class Lines:
    """Reads lines of a file as a log does."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDONLY)

    def __call__(self, offset: int) -> bytes:
        size = 4_096
        while (end := (data := os.pread(self._file, size, offset)).find(b"\n")) < 0:
            size *= 4
        return data[:end]


class Book:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self.state = State(Lines(path))
        self._end = 0
        self._last: Commit | None = None

    def put(self, operation: Operation, actor: str = "agent") -> None:
        self.state.apply(*self.sealed(operation, actor))

    def sealed(self, operation: Operation, actor: str = "agent") -> tuple[Commit, int, int]:
        last = self._last
        lamport = last.lamport + 1 if last else 1
        commit = chain.seal(
            Draft((operation,), actor=actor, tool="bench"),
            operation,
            tenant="default",
            lamport=lamport,
            timestamp=to_text(START + lamport * 10),
            prev=last.commit_id if last else None,
            prev_record_hash=last.record_hash if last else "",
        )
        offset, line = self._end, chain.encode(commit)
        self._file.write(line)
        self._file.flush()
        self._end += len(line)
        self._last = commit
        return commit, offset, self._end

    def apply(self, entries: list[tuple[Commit, int, int]]) -> None:
        for entry in entries:
            self.state.apply(*entry)

    def search(self, query: Query) -> Page:
        return drive(self.state.search(query))

    def walk(self, walk: Walk) -> Walked:
        return drive(self.state.walk(walk))

    def fill_nodes(self, stop: int, start: int = 0) -> None:
        for number in range(start, stop):
            self.put(node(number, number))

    def fill_edges(self, count: int, nodes: int) -> None:
        rng = random.Random(0)
        for _ in range(count):
            self.put(edge(rng.randrange(nodes), rng.randrange(nodes), rng.choice(["cites", "knows", "made"])))


def node(number: int, seed: int) -> Operation:
    """About 1 KB: a title and a moment of its own, the rest shared by many."""
    attrs: dict[str, Any] = {
        "title": f"What was learnt on occasion {seed}",
        "body": f"{seed} " + "lorem ipsum dolor sit amet " * 28,
        "status": ("open", "active", "done", "dropped")[seed % 4],
        "assignee": f"agent-{seed % 1_000}",
        "tags": [f"tag-{seed % 200}", f"tag-{seed * 7 % 200}", f"tag-{seed * 13 % 200}"],
        "priority": seed % 5,
        "learnt": START + seed * 977,
        "place": {"city": f"city-{seed % 500}", "floor": seed % 30},
        "verified": seed % 3 == 0,
    }
    return Operation(Verb.UPSERT_NODE, {"id": f"node-{number}", "type": f"type-{number % 20}", "attrs": attrs})


def edge(source: int, target: int, rel: str) -> Operation:
    payload = {"from": f"node-{source}", "rel": rel, "to": f"node-{target}", "attrs": {"weight": source % 7}}
    return Operation(Verb.UPSERT_EDGE, payload)


def queries(nodes: int, commits: int) -> dict[str, Callable[[int], Query]]:
    late = START + commits * 10
    return {
        "search by id": lambda n: Query(ids=(f"node-{n}",)),
        "search by type": lambda n: Query(type=f"type-{n % 20}", offset=n * 10),
        "search by value": lambda n: Query(conditions=(Condition("assignee", "eq", f"agent-{n}"),)),
        "search by five conditions": lambda n: Query(
            type=f"type-{n % 20}",
            conditions=(
                Condition("status", "in", ["open", "done"]),
                Condition("verified", "eq", True),
                Condition("tags", "eq", f"tag-{n}"),
                Condition("place.city", "exists", True),
                Condition("priority", "ne", 3),
            ),
        ),
        "search by a range over a tenth": lambda n: Query(
            conditions=(
                Condition("learnt", "gte", START + n * 977),
                Condition("learnt", "lt", START + (n + nodes // 10) * 977),
            )
        ),
        "search by a time window": lambda n: Query(since=late - n * 1_000, until=late + 100_000),
        "search by type in a wide window": lambda n: Query(type=f"type-{n % 20}", since=START + n),
        "search as of 1,000 commits ago": lambda n: Query(type=f"type-{n % 20}", at=commits - 1_000),
        "regex over as many texts as nodes": lambda n: Query(conditions=(Condition("title", "regex", f"on {n}.*7$"),)),
        "regex with a type": lambda n: Query(
            type=f"type-{n % 20}", conditions=(Condition("assignee", "regex", f"-{n}[0-9]$"),)
        ),
    }


def drive(answer: Generator[None, None, T]) -> T:
    while True:
        try:
            next(answer)
        except StopIteration as done:
            found: T = done.value
            return found


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def best(work: Callable[[], object]) -> float:
    return min(timed(work) for _ in range(3))


def percentile(values: list[float], share: int) -> float:
    return sorted(values)[(len(values) * share - 1) // 100]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
