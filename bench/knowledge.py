"""What it costs to find the knowledge of files among many globs, and to add to it."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench import Row, percentile
from bench.bases import freeze_loaded
from tallystick.commits import Draft, Operation, Verb
from tallystick.engine.partition import Partition, Propose
from tallystick.engine.snapshots import Snapshots
from tallystick.engine.store import Store
from tallystick.log.files import FilesLog
from tallystick.policy import Principal
from tallystick.policy.embedded import Embedded
from tallystick.server.dispatch import prepare
from tallystick.state.knowledge import ATOM, CHANGELOG, MOLECULE
from tallystick.toolsets.knowledge import make_tool_context, make_toolset

PROJECT = "5" * 32
TASK = "a" * 32
WHO = Principal(actor="bench")
NOW = "2026-01-01T00:00:00.000Z"
KNOWLEDGE = "All handlers extend one base class, are idempotent, and take their locales from the registry. " * 6


def run(quick: bool = False) -> list[Row]:
    few, many = (200, 2_000) if quick else (1_000, 10_000)
    rounds = 20 if quick else 100
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        small = asyncio.run(_measure(Path(folder) / "small", few, rounds))
        large = asyncio.run(_measure(Path(folder) / "large", many, rounds))
    label = f"{many:,} atoms × 5 patterns"
    return [
        Row(f"context of 100 files among {label}, p95", percentile(large["context"], 95), "ms", 25),
        Row(
            f"the same compared with {few:,} atoms, median", median(large["context"]) / median(small["context"]), "×", 2
        ),
        Row(f"context of 100 files that nobody knows among {label}, p95", percentile(large["unknown"], 95), "ms", 25),
        Row(f"manage_graph create at {label}, p95", percentile(large["create"], 95), "ms", 40),
        Row(f"manage_graph update at {label}, p95", percentile(large["update"], 95), "ms", 40),
        Row(f"search for a word in {label}", median(large["search"]), "ms"),
        Row(f"first use of {label}, nothing stored", median(large["build"]), "ms"),
        Row(f"first use of {label} after a start", median(large["start"]), "ms", 200),
    ]


async def _measure(system: Path, atoms: int, rounds: int) -> dict[str, list[float]]:
    async def opened(tenant: str) -> Partition:
        partition = Partition(FilesLog(system), snapshots=Snapshots(system / "snapshots"))
        await partition.open()
        return partition

    store = Store(opened, Embedded("single-user"))
    await _fill(await store.partition(WHO), atoms)
    query, manage, _ = make_toolset(make_tool_context(repo=system)).tools
    dice = random.Random(7)

    async def call(tool: Any, **said: Any) -> Any:
        answer = await tool.call(store, WHO, prepare(tool, said))
        return answer.data["data"]

    async def context() -> None:
        # The same hundred atoms in both sizes, so that only what cannot match differs.
        paths = [_path(number, dice) for number in range(100)]
        found = await call(query, operation="context", projectId=PROJECT, paths=paths)
        assert not found["unmatchedPaths"]

    async def unknown() -> None:
        paths = [f"elsewhere/area{number}/deep/down/file{number}.py" for number in range(100)]
        assert (await call(query, operation="context", projectId=PROJECT, paths=paths))["orphanAtoms"] == []

    async def create() -> None:
        patterns = [pattern.replace("area", "made") for pattern in _patterns(dice.randrange(10**9))]
        said = {"projectId": PROJECT, "createdByTaskId": TASK, "name": "new", "knowledge": KNOWLEDGE}
        await call(manage, operation="create", entityType="atom", paths=patterns, **said)

    async def update() -> None:
        atom = _id(dice.randrange(atoms))
        version = (await call(query, operation="get", entityType="atom", id=atom))["atom"]["version"]
        await call(manage, operation="update", entityType="atom", id=atom, version=version, knowledge=KNOWLEDGE)

    async def search() -> None:
        await call(query, operation="search", entityType="atom", projectId=PROJECT, query="nowhere to be found")

    measured = {"build": await _timed(context, 1)}
    freeze_loaded()
    for name, what, times in (
        ("context", context, rounds),
        ("unknown", unknown, rounds),
        ("create", create, rounds),
        ("update", update, rounds),
        ("search", search, 3),
    ):
        measured[name] = await _timed(what, times)
    await (await store.partition(WHO)).save_snapshot()
    await store.close()
    store = Store(opened, Embedded("single-user"))
    await store.partition(WHO)
    freeze_loaded()
    measured["start"] = await _timed(context, 1)
    await store.close()
    return measured


async def _timed(what: Any, rounds: int) -> list[float]:
    """Milliseconds of each."""
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        await what()
        taken.append((time.perf_counter() - started) * 1e3)
    return taken


def _id(number: int) -> str:
    return f"{number:032x}"


def _patterns(number: int) -> list[str]:
    return [
        f"src/area{number % 97}/module{number}/**",
        f"src/area{number % 97}/page-{number}-*.tsx",
        f"packages/area{number}/{{src,test}}/**/*.ts",
        f"**/*.kind{number}.ts",
        f"docs/area{number}.md",
    ]


def _path(number: int, dice: random.Random) -> str:
    return dice.choice(
        [
            f"src/area{number % 97}/module{number}/a/b.ts",
            f"src/area{number % 97}/page-{number}-x.tsx",
            f"packages/area{number}/test/a/b/c.ts",
            f"lib/deep/x.kind{number}.ts",
            f"docs/area{number}.md",
        ]
    )


async def _fill(partition: Partition, atoms: int) -> None:
    operations = [_put(PROJECT, "work/project", name="bench", root="r"), _put(TASK, "work/node", project=PROJECT)]
    common: dict[str, Any] = {"projectId": PROJECT, "knowledge": KNOWLEDGE, "createdByTaskId": TASK, "lastTaskId": TASK}
    common |= {"version": 1, "createdAt": NOW, "updatedAt": NOW}
    for number in range(atoms // 10):
        operations.append(_put(_id(10**9 + number), MOLECULE, name=f"molecule {number}", relatedMolecules=[], **common))
    for number in range(atoms):
        molecule = _id(10**9 + number % (atoms // 10)) if number % 2 else None
        values = {"name": f"atom {number}", "moleculeId": molecule, "paths": _patterns(number), "relatedAtoms": []}
        operations.append(_put(_id(number), ATOM, **common, **values))
        entry = {"parentType": "atom", "parentId": _id(number), "taskId": TASK, "summary": "made", "createdAt": NOW}
        operations += [_put(_id(2 * 10**9 + 3 * number + each), CHANGELOG, **entry) for each in range(3)]
    for start in range(0, len(operations), 2_000):
        await partition.commit(_proposal(tuple(operations[start : start + 2_000])))


def _proposal(operations: tuple[Operation, ...]) -> Propose:
    return lambda state: Draft(operations, actor="bench", tool="bench")


def _put(node_id: str, node_type: str, **attrs: Any) -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": node_type, "attrs": attrs})
