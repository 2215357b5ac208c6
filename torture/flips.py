"""Bytes that change by themselves, in every kind of file that a base has.

The truth must say so: `verify` names the damage, and whoever opens the base is told. What
follows from the log is named by `verify --views`, and right when it is built again. A wrong
answer that neither of them sees is what is looked for.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from tallystick import app
from tallystick.audit.proof import verify_audit
from tallystick.errors import TallystickError
from tallystick.log.files import FilesLog
from tallystick.log.proof import prove
from tallystick.operations.snapshot import take_snapshot
from tallystick.projections.blobs import prove_blobs
from tallystick.projections.consistency_check import compare, rebuild
from torture import checker, journal
from torture.arena import Arena, Tally
from torture.writer import Plan, settled

KINDS = {
    "log": "_system/log/*.jsonl",
    "mark": "_system/head",
    "snapshot": "_system/snapshots/*.snapshot",
    "audit": "_system/audit/*.jsonl",
    "audit mark": "_system/audit/head",
    "registry": "_system/registry.json",
    "ontology": "_system/ontology.yaml",
    "views table": "_system/views.db",
    "sql": "graph.db",
    "text index": "_system/text/*",
    "blob": "_content/blobs/*",
    "page": "_content/nodes/*",
}
_TRUTH = ("log", "mark", "audit", "audit mark", "blob")
_MIRRORS: dict[str, str] = {"sql": "sql", "text index": "text", "views table": "views"}
"""Databases without checksums of their own, for people and for search: any may be deleted."""
_FLIPS = 3


def flipped(arena: Arena, tally: Tally) -> None:
    for place in arena.rounds(tally):
        _made(arena, place)
        right = checker.views_of(place / "base")
        for kind in KINDS:
            for number in range(1 if arena.quick else _FLIPS):
                base = place / f"{kind} {number}"
                shutil.copytree(place / "base", base)
                where = _flip(arena, base, kind)
                if where is not None:
                    tally.faults += 1
                    _judge(base, kind, where, right, tally)
                shutil.rmtree(base)


def _made(arena: Arena, place: Path) -> None:
    """A base with something of everything."""
    plan = Plan(str(place / "base"), str(place / "life0.journal"), "life0", "mixed", arena.seed, 8)
    life = arena.start(plan)
    arena.watch(Path(plan.journal), life, notes=150)
    life.kill()
    settings = settled(place / "base")
    checker.check(place / "base", journal.read(Path(plan.journal)))
    asyncio.run(take_snapshot(app.operation_context(settings)))


def _flip(arena: Arena, base: Path, kind: str) -> str | None:
    """One byte becomes another. Where, or None when there is no such file."""
    files = sorted(path for path in base.glob(KINDS[kind]) if path.is_file() and path.stat().st_size)
    if not files:
        return None
    path = arena.random.choice(files)
    data = bytearray(path.read_bytes())
    offset = arena.random.randrange(len(data))
    data[offset] ^= arena.random.randrange(1, 256)
    fd = os.open(path, os.O_WRONLY)
    os.pwrite(fd, data[offset : offset + 1], offset)
    os.close(fd)
    return f"byte {offset} of {path.relative_to(base)}"


def _judge(base: Path, kind: str, where: str, right: dict[str, Any], tally: Tally) -> None:
    if _is_named(base):
        tally.named += 1
        return
    differs = {each.name for each in compare(base, lambda: FilesLog(base / "_system")).projections if each.differs}
    try:
        asyncio.run(_open(base))
        shown = checker.views_of(base)
    except TallystickError:
        tally.named += 1
        return
    except sqlite3.DatabaseError:
        # Whoever asks graph.db is told by SQLite; it must be right when it is built again.
        shown = {}
    wrong = _differing(right, shown)
    if kind in _MIRRORS and wrong:
        if not differs:
            tally.unseen += 1
            tally.problems.append(f"{where} changed, and 'verify --views' did not see it")
        for name in _MIRRORS.values():
            rebuild(base, lambda: FilesLog(base / "_system"), name)
        wrong = _differing(right, checker.views_of(base))
    if wrong or kind in _TRUTH:
        tally.wrong += 1
        tally.problems.append(f"{where} changed and nobody said so; {', '.join(wrong) or 'nothing'} differs")
    elif differs:
        tally.named += 1
    else:
        tally.rebuilt += 1


def _is_named(base: Path) -> bool:
    """By `verify`."""
    settings = settled(base)
    if not prove(settings.system).sound or not verify_audit(settings.system / "audit").sound:
        return True
    return not prove_blobs(settings.home).sound


def _differing(right: dict[str, Any], shown: dict[str, Any]) -> list[str]:
    """Without pages: one that was changed is a person's edit, kept, and told by `doctor` until it is adopted."""
    names = [name for name in sorted(right | shown) if not name.startswith("_content/")]
    return [name for name in names if right.get(name) != shown.get(name)]


async def _open(base: Path) -> None:
    settings = settled(base)
    async with app.opened(settings) as store:
        await store.partition(app.local_user(settings))
