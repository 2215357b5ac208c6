"""What text search costs: by substring and ranked, with others writing, at start, and what a text costs to keep."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import random
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench import Row, percentile, timed
from bench.bases import seal
from tallystick.commits import Operation, Verb
from tallystick.log.files import FilesLog
from tallystick.projections.log_reader import LogReader
from tallystick.projections.text import Mode, TextIndex
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.worker import ProjectionWorker

TEXT_BYTES = 1024
SEARCHERS = 2


def run(quick: bool = False) -> list[Row]:
    sizes = {500: None, 2_000: 25.0} if quick else {1_000: None, 10_000: 25.0, 100_000: 100.0}
    rows: list[Row] = []
    slowest: list[float] = []
    for texts, target in sizes.items():
        with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
            measured, worst = measure(Path(folder), texts, target)
            rows += measured
            slowest.append(worst)
    label = f"substring, p95: ratio from {min(sizes):,} to {max(sizes):,} texts"
    return [*rows, Row(label, slowest[-1] / slowest[0], "×")]


def measure(home: Path, texts: int, target: float | None) -> tuple[list[Row], float]:
    label = f"{texts:,} texts of 1 KB: "
    workspace = Workspace(home)
    workspace.write_many(texts)
    applied = timed(workspace.follower.catch_up)
    rows = [Row(label + "applied, a text", applied / texts * 1e6, "µs")]
    substring = [workspace.search(query, limit=100) for query in rare(40) + COMMON + SHORT]
    ranked = [workspace.search(query, limit=20, mode="ranked") for query in rare(20) + COMMON + pairs(20)]
    everything = [workspace.search(query) for query in rare(20) + SHORT]
    searchers = f"substring by {SEARCHERS} processes, one writing, p95"
    rows += [
        Row(label + "substring of any length, first 100, p95", percentile(substring, 95) * 1e3, "ms", target),
        Row(label + "ranked, best 20, p95", percentile(ranked, 95) * 1e3, "ms", target),
        Row(label + "substring, every hit, p95", percentile(everything, 95) * 1e3, "ms"),
        Row(
            label + "search for what was just written, p95", percentile(just_written(workspace), 95) * 1e3, "ms", target
        ),
        Row(label + searchers, percentile(together(home), 95) * 1e3, "ms", target),
        Row(label + "first search of a new process", first_search(home) * 1e3, "ms", target),
        Row(label + "redaction, until no trace is left", redaction(workspace), "s"),
    ]
    workspace.close()
    return rows, percentile(substring, 95)


def just_written(workspace: Workspace) -> list[float]:
    taken = []
    for number in range(40):
        workspace.write(f"new-{number}", f"fresh words {number}.")
        taken.append(timed(partial(workspace.found, f"fresh words {number}.", [f"new-{number}"])))
    return taken


def redaction(workspace: Workspace) -> float:
    workspace.put(Operation(Verb.REDACT_NODE, {"node_id": "node-7", "reason": "asked"}))
    return timed(workspace.follower.catch_up)


def first_search(home: Path) -> float:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(open_and_search, (home,))


def open_and_search(home: Path) -> float:
    workspace: list[Workspace] = []

    def first() -> None:
        workspace.append(Workspace(home))
        workspace[0].search("zz")

    taken = timed(first)
    workspace[0].close()
    return taken


def together(home: Path) -> list[float]:
    with multiprocessing.get_context("spawn").Pool(SEARCHERS) as pool:
        return list(itertools.chain(*pool.starmap(search_and_write, [(home, n == 0) for n in range(SEARCHERS)])))


def search_and_write(home: Path, writes: bool) -> list[float]:
    workspace = Workspace(home)
    taken = []
    for number, query in enumerate((rare(20) + SHORT) * 2):
        if writes:
            workspace.write(f"node-{number}", text_of(number + 1_000_000))
        taken.append(workspace.search(query, limit=100))
    workspace.close()
    return taken


class Workspace:
    """A log and an index over it, as a server process has them."""

    def __init__(self, home: Path) -> None:
        self.log = FilesLog(home / "_system")
        log = LogReader(lambda: FilesLog(home / "_system"))
        self._projection = TextProjection(home, log.line)
        self.follower = ProjectionWorker(log, self._projection, lock=home / "_system" / "text.lock")
        self._index = TextIndex(self._projection, self.follower.catch_up)
        self._runner = asyncio.Runner()

    def search(self, query: str, limit: int | None = None, mode: Mode = "substring") -> float:
        return timed(lambda: self._runner.run(self._index.contents(query, limit=limit, mode=mode)))

    def found(self, query: str, expected: Sequence[str]) -> None:
        found = self._runner.run(self._index.contents(query))
        assert [hit.node_id for hit in found.hits] == expected

    def write_many(self, texts: int) -> None:
        for start in range(0, texts, 1_000):
            self.put(*(upsert(f"node-{n}", text_of(n)) for n in range(start, min(texts, start + 1_000))))

    def write(self, node_id: str, text: str) -> None:
        self.put(upsert(node_id, text))

    def put(self, *operations: Operation) -> None:
        """As a group of drafts."""
        self.log.claim(timeout_seconds=30)
        try:
            head = self.log.head()
            self.log.append(seal(head, operations), expected=head)
        finally:
            self.log.release()

    def close(self) -> None:
        self._index.close()
        self.follower.close()
        self._runner.close()
        self.log.close()


def upsert(node_id: str, text: str) -> Operation:
    content = {"format": "markdown", "encoding": "utf-8", "text": text}
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": "Note", "attrs": {}, "content": content})


# -- texts whose words are as common and as rare as those of a language


def _made_up() -> list[str]:
    rng = random.Random(1)
    words: dict[str, None] = {}
    while len(words) < 30_000:
        syllables = rng.choice([1, 1, 2, 2, 2, 3, 3, 4])
        sounds = (rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") for _ in range(syllables))
        words["".join(sounds) + rng.choice("nrst")] = None
    return list(words)


WORDS = _made_up()
WEIGHTS = list(itertools.accumulate(1 / (rank + 2.7) for rank in range(len(WORDS))))
COMMON = WORDS[:20]
SHORT = ["a", "e", "zw", "qx", "k9", "ba", "x", "t ", "7", "on"]


def text_of(number: int) -> str:
    words = random.Random(number).choices(WORDS, cum_weights=WEIGHTS, k=TEXT_BYTES // 4)
    return " ".join(words)[:TEXT_BYTES].capitalize()


def rare(count: int) -> list[str]:
    return random.Random(3).sample(WORDS[5_000:], count)


def pairs(count: int) -> list[str]:
    rng = random.Random(4)
    return [" ".join(rng.sample(text_of(rng.randrange(500)).split(), 2)) for _ in range(count)]
