"""Power cuts: a file system in a file is shut down under its writers, mounted again and looked at.

Beside the writers others sync the same file system: without them a torn end hardly ever shows.
After the shutdown a sync that is under way may still say yes, so only what was noted before
counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from torture import journal
from torture.arena import Arena, Tally, needs
from torture.disks import Image
from torture.kills import examine
from torture.writer import Plan

_CUTS = 3
_NOISES = 2


def cut(kind: str) -> Callable[[Arena, Tally], None]:
    def run(arena: Arena, tally: Tally) -> None:
        for place in arena.rounds(tally):
            image = Image(arena, place, kind)
            for number in range(1 if arena.quick else _CUTS):
                job = arena.random.choice(("commits", "mixed", "redactions", "pages"))
                before = _cut_off(arena, image, place, number, job)
                tally.faults += 1
                _forget_later(place, number, before)
                with image.mounted() as disk:
                    examine(place, tally, base=disk / "base", after_power_cut=True)

    return run


def control(arena: Arena, tally: Tally) -> None:
    """The same where nothing is ever synced: something must be lost, or this program could not see a loss."""
    needs("eatmydata")
    for place in arena.rounds(tally):
        unseen = Tally(tally.scenario, tally.what)
        image = Image(arena, place, "ext4")
        before = _cut_off(arena, image, place, 0, "commits", wrap=["eatmydata"])
        _forget_later(place, 0, before)
        with image.mounted() as disk:
            examine(place, unseen, base=disk / "base")
        tally.faults += 1
        tally.named += unseen.lost
        if not unseen.lost:
            tally.wrong += 1
            tally.problems.append("nothing was lost although nothing was synced: this program sees no losses")


def _cut_off(arena: Arena, image: Image, place: Path, number: int, job: str, wrap: list[str] | None = None) -> int:
    """When the power went, in nanoseconds."""
    with image.mounted() as disk:
        path = place / f"life{number}.journal"
        settings = {"segment_bytes_max": 30_000}
        plan = Plan(str(disk / "base"), str(path), f"life{number}", job, arena.seed, 6, settings)
        life = arena.start(plan, wrap=wrap or ())
        if not wrap:
            for each in range(_NOISES):
                arena.fork(partial(_sync_on, disk / f"noise{each}"), stderr=path.with_suffix(".stderr"))
        arena.watch(path, life, notes=arena.random.randint(5, 60))
        time.sleep(arena.random.uniform(0, 0.3))
        before = time.monotonic_ns()
        image.cut()
    return before


def _sync_on(path: Path) -> None:
    with suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        while True:
            os.pwrite(fd, os.urandom(3_000), 0)
            os.fsync(fd)
            time.sleep(0.003)


def _forget_later(place: Path, number: int, before: int) -> None:
    """What was noted after the cut was never promised."""
    path = place / f"life{number}.journal"
    path.write_bytes(b"".join(msgspec.json.encode(note) + b"\n" for note in journal.read(path, before=before)))
