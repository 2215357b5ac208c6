"""What the work tools cost, on disk and durable, in a project of a thousand nodes and in one of a hundred thousand."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import Row, percentile
from bench.bases import freeze_loaded
from tallystick.engine.partition import Partition
from tallystick.engine.snapshots import Snapshots
from tallystick.engine.store import Store
from tallystick.log.files import FilesLog
from tallystick.policy import Principal
from tallystick.policy.embedded import Embedded
from tallystick.server.dispatch import prepare
from tallystick.toolsets.work import TOOLSET

WHO = Principal(actor="bench")
TOOLS = {tool.name: tool for tool in TOOLSET.tools}
AREAS = 20
BATCH = 100
FLAT = 2.0


def run(quick: bool = False) -> list[Row]:
    small, large = (500, 5_000) if quick else (1_000, 100_000)
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        return asyncio.run(_measured(Path(folder), small, large, rounds=20 if quick else 60))


async def _measured(folder: Path, small: int, large: int, *, rounds: int) -> list[Row]:
    before = await _at_size(folder / "small", small, rounds)
    after = await _at_size(folder / "large", large, rounds)
    rows: list[Row] = []
    label = f"{large:,} work nodes: "
    for name, (taken, target) in after.items():
        rows.append(Row(f"{label}{name}, p95", percentile(taken, 95) * 1e3, "ms", target))
        if target == _TARGET:
            # Of the middle ones: a p95 has the slowest syncs of the disk in it, whatever the size.
            ratio = percentile(taken, 50) / percentile(before[name][0], 50)
            rows.append(Row(f"{label}{name}, median, ratio to {small:,}", ratio, "×", FLAT))
    return rows


_TARGET = 25.0
_PLAN_TARGET = 100.0
_QUERY_TARGET = 50.0
_START_TARGET = 200.0


async def _at_size(base: Path, size: int, rounds: int) -> dict[str, Taken]:
    async def open_partition(tenant: str) -> Partition:
        system = base / "_system"
        partition = Partition(FilesLog(system), tenant=tenant, snapshots=Snapshots(system / "snapshots"))
        await partition.open()
        return partition

    store = Store(open_partition, Embedded("single-user"))
    try:
        office = Office(store)
        await office.fill(size)
        freeze_loaded()
        measured = await office.measure(rounds)
        await (await store.partition(WHO)).save_snapshot()
    finally:
        await store.close()
    store = Store(open_partition, Embedded("single-user"))
    try:
        await store.partition(WHO)
        freeze_loaded()
        measured["first graph_next after a start"] = [await Office(store).first()], _START_TARGET
    finally:
        await store.close()
    return measured


Taken = tuple[list[float], float | None]
"""Seconds of each call, and the target in milliseconds."""


class Office:
    """One project with epics, stories and tasks; stories wait for each other in one long line."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._random = random.Random(7)
        self.epics: list[str] = []
        self.stories: list[str] = []
        self.tasks: list[str] = []

    async def call(self, name: str, *, agent: str = "bench", **arguments: Any) -> dict[str, Any]:
        tool = TOOLS[name]
        answer = await tool.call(self._store, Principal(actor=agent), prepare(tool, arguments))
        return answer.data

    async def first(self) -> float:
        """Seconds."""
        return await self._timed("graph_next", {"project": "large"})

    async def fill(self, size: int) -> None:
        await self.call("graph_open", project="large")
        while len(self.epics) + len(self.stories) + len(self.tasks) < size:
            await self._add_batch()
        done = self._random.sample(self.tasks, len(self.tasks) // 3)
        evidence = [{"type": "git", "ref": "commit 1234567"}]
        for start in range(0, len(done), 500):
            updates = [
                {"node_id": node_id, "resolved": True, "add_evidence": evidence}
                for node_id in done[start : start + 500]
            ]
            await self.call("graph_update", updates=updates)
        await self.call("graph_next", project="large", agent="other", count=50, claim=True)

    async def _add_batch(self) -> float:
        nodes = self._batch()
        started = time.perf_counter()
        told = await self.call("graph_plan", nodes=nodes)
        taken = time.perf_counter() - started
        ids = {each["ref"]: each["id"] for each in told["created"]}
        self.epics.append(ids["epic"])
        self.stories += [ids[ref] for ref in ids if ref.startswith("s")]
        self.tasks += [ids[ref] for ref in ids if ref.startswith("t")]
        return taken

    def _batch(self) -> list[dict[str, Any]]:
        number = len(self.epics)
        nodes: list[dict[str, Any]] = [{"ref": "epic", "summary": f"Epic {number}: a part of the whole"}]
        for story in range(9):
            after = f"s{story - 1}" if story else (self.stories[-1] if self.stories else None)
            waits = [after] if after else []
            nodes.append({"ref": f"s{story}", "parent_ref": "epic", "summary": f"Story {story}", "depends_on": waits})
        for task in range(BATCH - 10):
            nodes.append(
                {
                    "ref": f"t{task}",
                    "parent_ref": f"s{task % 9}",
                    "summary": f"Task {task} of epic {number} about {self._random.choice(_WORDS)}",
                    "depends_on": [f"t{task - 9}"] if task >= 9 and task % 3 == 0 else [],
                    "properties": {"priority": task % 5, "area": f"area {self._random.randrange(AREAS)}"},
                    "context_links": [f"src/part_{number}/file_{task}.py"] if task % 10 == 0 else [],
                }
            )
        return nodes

    async def measure(self, rounds: int) -> dict[str, Taken]:
        found: dict[str, Taken] = {}
        for name, arguments in self._calls().items():
            await self.call(name.split()[0], **arguments())
            taken = [await self._timed(name.split()[0], arguments()) for _ in range(rounds)]
            found[name] = taken, None if "(" in name else _TARGET
        found["graph_plan of 100"] = [await self._add_batch() for _ in range(rounds // 2)], _PLAN_TARGET
        for wanted in self._filters():
            taken = []
            for sort in ("readiness", "depth", "recent", "created"):
                asked = {"project": "large", "filter": wanted, "sort": sort}
                taken += [await self._timed("graph_query", asked) for _ in range(max(rounds // 4, 5))]
            found[f"graph_query by {next(iter(wanted), 'nothing')}"] = taken, _QUERY_TARGET
        return found

    async def _timed(self, name: str, arguments: dict[str, Any]) -> float:
        started = time.perf_counter()
        await self.call(name, **arguments)
        return time.perf_counter() - started

    def _calls(self) -> dict[str, Callable[[], dict[str, Any]]]:
        open_tasks = iter(self._random.sample(self.tasks, min(len(self.tasks), 400)))
        pick = self._random.choice
        evidence = [{"type": "git", "ref": "abc1234"}]
        return {
            "graph_open": lambda: {"project": "large"},
            "graph_next": lambda: {"project": "large"},
            "graph_next (by properties)": lambda: {"project": "large", "filter": {"area": "area 3", "priority": 0}},
            "graph_next (below a node)": lambda: {"project": "large", "scope": pick(self.epics)},
            "graph_next with claim": lambda: {"project": "large", "claim": True},
            "graph_update with resolve": lambda: {
                "updates": [{"node_id": next(open_tasks), "resolved": True, "add_evidence": evidence}]
            },
            "graph_connect with its cycle check": lambda: self._edge(pick(self.tasks), pick(self.tasks)),
            "graph_connect along a long line": lambda: self._edge(*self._two_stories()),
            "graph_connect (refused, with the way round)": lambda: self._edge(*reversed(self._two_stories())),
        }

    def _edge(self, source: str, target: str) -> dict[str, Any]:
        return {"edges": [{"from": source, "to": target, "type": "depends_on"}]}

    def _two_stories(self) -> tuple[str, str]:
        """The one that waits for the other, by a way of any length."""
        first, second = sorted(self._random.sample(range(len(self.stories)), 2))
        return self.stories[second], self.stories[first]

    def _filters(self) -> list[dict[str, Any]]:
        return [
            {},
            {"resolved": False},
            {"properties": {"area": "area 3"}},
            {"text": "harbour"},
            {"ancestor": self.epics[-1]},
            {"has_evidence_type": "git"},
            {"is_leaf": True},
            {"is_actionable": True},
            {"is_blocked": True},
            {"claimed_by": None},
        ]


_WORDS = ("bridges", "harbours", "lanterns", "orchards", "quarries", "rivers", "vaults", "windmills")
