"""Clocks that jump: backwards between two lives, and under a process that runs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from pathlib import Path

from tallystick import app
from tallystick.config import Settings
from tallystick.log import Entry, Head
from tallystick.log.files import FilesLog
from torture.arena import Arena, Skipped, Tally, needs
from torture.kills import examine
from torture.writer import Plan, settled

_LIBRARIES = (
    "/usr/lib/*/faketime/libfaketimeMT.so.1",
    "/usr/lib*/faketime/libfaketimeMT.so.1",
    "/usr/local/lib/faketime/libfaketimeMT.so.1",
)
_JUMPS = ("-1d", "-3h", "-40s", "-400d", "-1s")


def jumping(arena: Arena, tally: Tally) -> None:
    needs("faketime")
    preload = library()
    for place in arena.rounds(tally):
        said = place / "clock"
        environ = {
            "LD_PRELOAD": preload,
            "FAKETIME_TIMESTAMP_FILE": str(said),
            "FAKETIME_NO_CACHE": "1",
            # What measures durations is another clock, and does not jump.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        for number, jump in enumerate(arena.random.sample(_JUMPS, 2)):
            said.write_text("+0s\n")
            plan = Plan(str(place / "base"), str(place / f"life{number}.journal"), f"life{number}", "mixed", arena.seed)
            life = arena.start(plan, environ=environ)
            arena.watch(Path(plan.journal), life, notes=20)
            _turn_back(said, jump)
            tally.faults += 1
            arena.watch(Path(plan.journal), life, notes=Path(plan.journal).read_bytes().count(b"\n") + 30)
            time.sleep(arena.random.uniform(0, 0.3))
            life.kill()
            examine(place, tally)
            _look_back(settled(place / "base"), tally)


def _turn_back(said: Path, jump: str) -> None:
    """Whole, at once: the library reads the file at any moment."""
    fresh = said.with_suffix(".new")
    fresh.write_text(f"{jump}\n")
    os.rename(fresh, said)


def library() -> str:
    from glob import glob

    found = [path for pattern in _LIBRARIES for path in glob(pattern)]
    if not found:
        raise Skipped("libfaketimeMT.so.1 is not where Debian puts it")
    return found[0]


def _look_back(settings: Settings, tally: Tally) -> None:
    """At any time that the log names, `as_of` shows the commits up to the last one of that time, and no other."""
    times = [entry.commit.timestamp for entry in _entries(settings)]
    asked = times[:: max(1, len(times) // 50)]
    for moment, seen in zip(asked, asyncio.run(_counts_as_of(settings, asked)), strict=True):
        there_were = sum(each <= moment for each in times)
        if seen != there_were:
            tally.wrong += 1
            tally.problems.append(f"as_of {moment} shows {seen} commits instead of {there_were}")


async def _counts_as_of(settings: Settings, moments: Sequence[str]) -> list[int]:
    async with app.opened(settings) as store:
        partition = await store.partition(app.local_user(settings))
        return await partition.look(lambda state: [state.resolve(moment) for moment in moments])


def _entries(settings: Settings) -> list[Entry]:
    log = FilesLog(settings.system)
    try:
        return list(log.read(Head()))
    finally:
        log.close()
