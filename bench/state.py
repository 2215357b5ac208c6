"""What the state costs: updates, reads, searches, walks and lineage."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench import Row, percentile, timed
from bench.bases import START
from tallystick.clock import to_text
from tallystick.commits import Commit, Draft, Operation, Verb, chain
from tallystick.state import Condition, Page, Query, Walk, Walked
from tallystick.state.state import State

T = TypeVar("T")


def run(quick: bool = False) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        return measure_work(Path(folder), 5_000 if quick else 100_000)


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

    def __call__(self, offset: int, *, checked: bool = True) -> bytes:
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


def best(work: Callable[[], object]) -> float:
    return min(timed(work) for _ in range(3))
