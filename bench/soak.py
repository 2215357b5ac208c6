"""python -m bench.soak [--minutes N]: mixed load, and whether memory, files and threads stay what they were.

A process with everything of `tallystick serve` but the wire. Tenants come, are left alone, are closed and opened again;
segments roll, snapshots are taken, contents and words are written, and some of it is redacted. Entities are written
again and again, so that what grows with their number does not grow. What grows by design: the log, and with each
commit a few dozen bytes of its history in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from bench.processes import resident_bytes
from tallystick.app import served
from tallystick.config import Settings
from tallystick.errors import NotFound
from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.dispatch import prepare

TENANTS = 12
AT_ONCE = 4
"""Tenants that are talked to; one of them is another after each turn."""
ENTITIES = 40
CLIENTS = 8
TURN_SECONDS = 3.0
BYTES_A_COMMIT = 1_000
"""More memory than this for each commit is a leak: its history takes about a tenth."""
SPARE = 6
"""Files and threads that one moment may have more than another."""


class Sample(msgspec.Struct, frozen=True):
    seconds: float
    commits: int
    memory: int
    files: int
    threads: int
    tenants: int


class Slope(msgspec.Struct, frozen=True):
    what: str
    first: float
    last: float
    unit: str
    is_flat: bool


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    # A snapshot may still be on its way, by a process of its own.
    with tempfile.TemporaryDirectory(prefix="tallystick-soak-", ignore_cleanup_errors=True) as folder:
        samples = asyncio.run(soak(Path(folder), seconds=asked.minutes * 60, seed=asked.seed))
        segments = len(list(Path(folder).rglob("log/*.jsonl")))
    found = slopes(samples)
    for each in found:
        told = "flat" if each.is_flat else "GROWS"
        print(f"{each.what:24} {each.first:10.1f} → {each.last:10.1f} {each.unit:6} {told}")
    print(f"{samples[-1].commits:,} commits in {segments} segments, {samples[-1].seconds:.0f} s")
    return int(not all(each.is_flat for each in found))


async def soak(base: Path, *, seconds: float, seed: int = 1) -> list[Sample]:
    settings = Settings(
        base=base,
        issuers=("http://127.0.0.1",),
        policy="rbac",
        toolsets=("all",),
        segment_bytes_max=256 << 10,
        snapshot_every=2_000,
        tenant_idle_seconds=2,
    )
    async with served(settings) as offer:
        load = _Load(offer, random.Random(seed))
        started = time.monotonic()
        clients = [asyncio.create_task(load.talk()) for _ in range(CLIENTS)]
        samples: list[Sample] = []
        try:
            while (passed := time.monotonic() - started) < seconds:
                await asyncio.sleep(min(1.0, seconds / 20))
                load.turn(int(passed / TURN_SECONDS))
                samples.append(load.sample(time.monotonic() - started))
                for client in clients:
                    if client.done():
                        client.result()
        finally:
            load.ends = True
            await asyncio.gather(*clients)
        return samples


class _Load:
    def __init__(self, offer: Offer, dice: random.Random) -> None:
        self._offer = offer
        self._dice = dice
        self._turn = 0
        self._commits = 0
        self.ends = False

    def turn(self, number: int) -> None:
        self._turn = number

    async def talk(self) -> None:
        while not self.ends:
            tenant = f"tenant-{(self._turn + self._dice.randrange(AT_ONCE)) % TENANTS}"
            tool, said = self._dice.choices(_CALLS, _WEIGHTS)[0](self._dice, tenant)
            await self._call(tenant, tool, said)
            await asyncio.sleep(0)

    async def _call(self, tenant: str, name: str, said: dict[str, Any]) -> None:
        tool = self._offer.tools.get(name).tool
        principal = Principal(actor="ada", tenant=tenant, roles=("admin",), tool=name)
        # Some of what is asked about is not there yet.
        with suppress(NotFound):
            await tool.call(self._offer.store, principal, prepare(tool, said))
        self._commits += name == "memory.write"

    def sample(self, seconds: float) -> Sample:
        return Sample(
            seconds,
            self._commits,
            resident_bytes(),
            _open_files(),
            len(os.listdir("/proc/self/task")),
            len(self._offer.store.tenants.open_now),
        )


def _open_files() -> int:
    """But for those of the logs, of which there are more and more, by design."""
    targets = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            targets.append(os.readlink(f"/proc/self/fd/{number}"))
    return sum("/log/" not in target for target in targets)


def _write(dice: random.Random, tenant: str) -> tuple[str, dict[str, Any]]:
    words = " ".join(dice.choices(("harbour", "lantern", "orchard", "quarry", "river", "vault", "windmill"), k=20))
    attrs = {"title": f"note {dice.randrange(50)}", "body": words}
    return "memory.write", {"op": "UPSERT_NODE", "node": {"id": _id(dice, tenant), "type": "note", "attrs": attrs}}


def _relate(dice: random.Random, tenant: str) -> tuple[str, dict[str, Any]]:
    root = f"{tenant} root"
    edge = {"from": root, "rel": "knows", "to": root}
    node = {"op": "UPSERT_NODE", "node": {"id": root, "type": "note", "attrs": {"number": dice.randrange(9)}}}
    return "memory.write", {"ops": [node, {"op": "UPSERT_EDGE", "edge": edge}]}


def _redact(dice: random.Random, tenant: str) -> tuple[str, dict[str, Any]]:
    name = f"{tenant} person-{dice.randrange(ENTITIES)}"
    node = {"id": name, "type": "person", "attrs": {"email": f"{name}@example.org"}}
    redaction = {"op": "REDACT_NODE", "node_id": name, "reason": "asked for"}
    return "memory.write", {"op": "UPSERT_NODE", "node": node} if dice.random() < 0.9 else redaction


def _id(dice: random.Random, tenant: str) -> str:
    return f"{tenant} note-{dice.randrange(ENTITIES)}"


_CALLS = (
    _write,
    _relate,
    _redact,
    lambda dice, tenant: ("memory.read", {"entity_id": _id(dice, tenant), "include_edges": True}),
    lambda dice, tenant: ("memory.search", {"query": dice.choice(("harbour", "orchard vault", "river"))}),
    lambda dice, tenant: ("memory.search", {"attrs": {"title": f"note {dice.randrange(50)}"}}),
    lambda dice, tenant: ("memory.lineage", {"entity_id": _id(dice, tenant), "depth": "summary"}),
)
_WEIGHTS = (25, 3, 2, 40, 5, 20, 5)


def slopes(samples: Sequence[Sample]) -> list[Slope]:
    """Of the second quarter against the last: what comes before is the first use of everything."""
    quarter = max(len(samples) // 4, 1)
    before, after = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
    commits = max(after[-1].commits - before[0].commits, 1)
    least = [min(each.memory for each in part) for part in (before, after)]
    growth = (least[1] - least[0]) / commits
    counts = {
        name: [max(getattr(each, name) for each in part) for part in (before, after)]
        for name in ("files", "threads", "tenants")
    }
    return [
        Slope("memory", least[0] / 1e6, least[1] / 1e6, "MB", growth < BYTES_A_COMMIT),
        Slope("memory for each commit", 0, growth, "bytes", growth < BYTES_A_COMMIT),
        *(Slope(name, first, last, "", last <= first * 1.25 + SPARE) for name, (first, last) in counts.items()),
    ]


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
