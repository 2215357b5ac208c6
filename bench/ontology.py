"""What typed memories cost: every tool that asks, and create_node until a person can open its file."""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench import Row, percentile
from tallystick.commits import Draft, Operation, Verb
from tallystick.engine.partition import Limits, Partition
from tallystick.engine.store import Store
from tallystick.extensions.ontology.toolset import make_toolset
from tallystick.log.files import FilesLog
from tallystick.policy import Action, Principal
from tallystick.policy.embedded import Embedded
from tallystick.projections.content import Contents
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place
from tallystick.projections.text import TextIndex
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.worker import ProjectionWorker
from tallystick.server.dispatch import prepare
from tallystick.state.ontology import ConnectionType, define_connection_type, define_node_type, define_ontology

KINDS = ("Project", "Action", "Context", "Person")
RELS = ("NextAction", "DependsOn", "WaitingFor", "RequiresContext")
ME = Principal("bench")
CALLS = 200


def run(quick: bool = False) -> list[Row]:
    sizes = (200, 1_000, 2_000) if quick else (1_000, 10_000, 100_000)
    small, middle, large = (asyncio.run(_measured(size)) for size in sizes)
    label = f"{sizes[1]:,} nodes, {2 * sizes[1]:,} connections: "
    rows = [Row(f"{label}{name}, p95", taken, "ms", _target(name)) for name, taken in middle.items()]
    label = f"{sizes[0]:,} → {sizes[2]:,} nodes: "
    return rows + [Row(f"{label}{name}, p95, ratio", large[name] / small[name], "×") for name in middle]


def _target(name: str) -> float:
    return 40 if name.startswith("create") else 25


async def _measured(nodes: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        async with _serving(Path(folder)) as workspace:
            await workspace.fill(nodes)
            return {name: await workspace.percentile(tool, list(calls)) for name, tool, calls in _questions(nodes)}


def _questions(nodes: int) -> Iterator[tuple[str, str, Iterator[dict[str, Any]]]]:
    def some() -> Iterator[int]:
        return iter(random.Random(3).choices(range(nodes), k=CALLS))

    name = _node_id
    yield "get_node", "get_node", ({"node_id": name(n)} for n in some())
    yield "get_node_content", "get_node_content", ({"node_id": name(n)} for n in some())
    yield "get_connection", "get_connection", ({"connection_id": f"conn_{n}"} for n in some())
    yield "query_nodes by type", "query_nodes", ({"type": KINDS[n % 4]} for n in some())
    yield (
        "query_nodes by two properties",
        "query_nodes",
        ({"type": "Action", "properties": {"status": "next", "owner": f"agent-{n % 50}"}} for n in some()),
    )
    yield "query_connections by source", "query_connections", ({"from_node_id": name(n)} for n in some())
    yield "query_connections by type", "query_connections", ({"type": RELS[n % 4]} for n in some())
    yield (
        "query_connections by type and property",
        "query_connections",
        ({"type": RELS[n % 4], "properties": {"weight": n % 100}} for n in some()),
    )
    yield "query_connections by property", "query_connections", ({"properties": {"weight": n % 100}} for n in some())
    yield "get_connected_nodes", "get_connected_nodes", ({"node_id": name(n), "direction": "both"} for n in some())
    yield "search_content, substring", "search_content", ({"query": f"occasion {n} "} for n in some())
    yield (
        "search_content, ranked",
        "search_content",
        ({"query": f"word{n % 5_000} word{n * 2 % 5_000}", "mode": "ranked", "limit": 10} for n in some()),
    )
    yield (
        "create_node with its file and the views",
        "create_node",
        (
            {"type": "Action", "content": _text(n), "format": "markdown", "properties": {"status": "new"}}
            for n in some()
        ),
    )


class _Desk:
    def __init__(self, store: Store, tools: dict[str, Any], followers: Sequence[ProjectionWorker]) -> None:
        self._store = store
        self._tools = tools
        self._followers = followers

    async def fill(self, nodes: int) -> None:
        await self._write([define_ontology(), *map(define_node_type, KINDS)])
        await self._write([define_connection_type(ConnectionType(rel, KINDS, KINDS)) for rel in RELS])
        rng = random.Random(0)
        for start in range(0, nodes, 1_000):
            await self._write([_node(number) for number in range(start, min(start + 1_000, nodes))])
        for start in range(0, 2 * nodes, 1_000):
            numbers = range(start, min(start + 1_000, 2 * nodes))
            await self._write([_edge(n, rng.randrange(nodes), rng.randrange(nodes)) for n in numbers])
        # What was written at once is followed at once: nobody's questions are measured beside that.
        for follower in self._followers:
            await asyncio.to_thread(follower.catch_up)
        self._followers[0].start()
        gc.collect()
        gc.freeze()

    async def _write(self, operations: list[Operation]) -> None:
        draft = Draft(tuple(operations), actor="bench", tool="bench")
        await self._store.write(ME, Action.WRITE, lambda state, read_filter: draft)

    async def percentile(self, name: str, calls: list[dict[str, Any]]) -> float:
        """Of 95 in a hundred calls, in milliseconds; indexes that are made at the first call are there."""
        await self._call(name, calls[0])
        return percentile([await self._call(name, asked) for asked in calls], 95) * 1e3

    async def _call(self, name: str, asked: dict[str, Any]) -> float:
        tool = self._tools[name]
        prepared = prepare(tool, asked)
        started = time.perf_counter()
        await tool.call(self._store, ME, prepared)
        return time.perf_counter() - started


@asynccontextmanager
async def _serving(home: Path) -> AsyncIterator[_Desk]:
    def open_log() -> FilesLog:
        return FilesLog(home / "_system")

    async def open_partition(tenant: str) -> Partition:
        partition = Partition(open_log(), limits=Limits())
        await partition.open()
        return partition

    log = LogReader(open_log)
    follower = Follower(Place(home, log)).worker("views")
    texts = TextProjection(home, log.line)
    reader = ProjectionWorker(log, texts, lock=home / "_system" / "text.lock")
    index = TextIndex(texts, reader.catch_up)
    contents = Contents(home)

    async def published(tenant: str, position: int) -> None:
        await follower.reached(position, 0.5)

    tools = make_toolset(lambda tenant: contents, lambda tenant: index, published=published).tools
    store = Store(open_partition, Embedded("single-user"))
    try:
        yield _Desk(store, {tool.name: tool for tool in tools}, (follower, reader))
    finally:
        index.close()
        reader.close()
        follower.close()
        await store.close()


def _node_id(number: int) -> str:
    return f"mem_{number:06d}_bench"


def _text(number: int) -> str:
    words = " ".join(f"word{number * step % 5_000}" for step in range(1, 100))
    return f"# What was learnt on occasion {number} \n\n{words}"


def _node(number: int) -> Operation:
    attrs = {"status": ("next", "waiting", "done")[number % 3], "owner": f"agent-{number % 50}", "rank": number % 7}
    content = {"format": "markdown", "encoding": "utf-8", "text": _text(number)}
    payload = {"id": _node_id(number), "type": KINDS[number % 4], "attrs": attrs, "content": content}
    return Operation(Verb.UPSERT_NODE, payload)


def _edge(number: int, source: int, target: int) -> Operation:
    name = {"id": f"conn_{number}", "from": _node_id(source), "rel": RELS[number % 4], "to": _node_id(target)}
    return Operation(Verb.UPSERT_EDGE, {**name, "attrs": {"weight": number % 100}})
