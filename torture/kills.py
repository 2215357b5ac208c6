"""Processes killed with SIGKILL at any moment: while they start, write, or put right what the last one left."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

from mcp.client import Client

from tests.mcp_client import ServerProcess, call, start_http
from torture import checker, journal
from torture.arena import Arena, Life, Tally
from torture.journal import Journal
from torture.writer import Plan, settled

_LIVES = 4
_ROLLERS = 3
_ROLLING_BYTES = 1_024
_ROLLS, _ROLLS_QUICK = 2_500, 150
_CLIENTS = 8


def killed(job: str, *, clients: int = 6, **settings: Any) -> Callable[[Arena, Tally], None]:
    """A base that survives several lives; looked at after each."""

    def run(arena: Arena, tally: Tally) -> None:
        for place in arena.rounds(tally):
            for number in _lives(arena):
                plan = _plan(arena, place, f"life{number}", job, clients, settings)
                _die(arena, plan, arena.start(plan), tally)
                examine(place, tally, **settings)

    return run


def http(arena: Arena, tally: Tally) -> None:
    """`tallystick serve` itself, with clients that speak MCP to it."""
    for place in arena.rounds(tally):
        for number in _lives(arena):
            server = start_http(place / "base")
            try:
                asyncio.run(_call_until_killed(arena, server, place / f"life{number}.journal"))
            finally:
                server.kill()
            tally.faults += 1
            examine(place, tally)


async def _call_until_killed(arena: Arena, server: ServerProcess, path: Path) -> None:
    notes, busy = Journal(path), asyncio.Event()

    async def work(number: int) -> None:
        async with Client(server.mcp_url) as client:
            for each in count(1):
                name = f"{path.stem}.{number}.{each}"
                member = {"id": f"{name}.0", "type": "member", "attrs": {"batch": name, "of": 1}}
                await call(client, "memory.write", op="UPSERT_NODE", node=member, nonce=name)
                notes.note("batch", name, number=1)
                busy.set()

    workers = [asyncio.create_task(work(number)) for number in range(_CLIENTS)]
    await asyncio.wait([asyncio.create_task(busy.wait()), *workers], timeout=20, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(arena.random.uniform(0, 1.5))
    server.process.kill()
    for worker in workers:
        worker.cancel()
    # The server is gone: whatever a client was not told may be there or not.
    await asyncio.gather(*workers, return_exceptions=True)


def snapshots(arena: Arena, tally: Tally) -> None:
    """A server writes, and the process that keeps snapshots of its state is killed again and again."""
    for place in arena.rounds(tally):
        plan = _plan(arena, place, "life0", "redactions", 6, {})
        server = arena.start(plan)
        arena.watch(Path(plan.journal), server, notes=200)
        for number in _lives(arena):
            keeper = _plan(arena, place, f"keeper{number}", "snapshots", 1, {})
            life = arena.start(keeper)
            _die(arena, keeper, life, tally, longest=0.2)
        server.kill()
        tally.faults += 1
        examine(place, tally)


def crowd(arena: Arena, tally: Tally) -> None:
    """Four processes write one base while a fifth is killed again and again."""
    for place in arena.rounds(tally):
        plans = [_plan(arena, place, f"life{number}", "mixed", 4, {"segment_bytes_max": 20_000}) for number in range(4)]
        steady = [(plan, arena.start(plan)) for plan in plans]
        for plan, life in steady:
            arena.watch(Path(plan.journal), life, notes=2)
        for number in _lives(arena):
            plan = _plan(arena, place, f"life{4 + number}", "mixed", 4, {"segment_bytes_max": 20_000})
            _die(arena, plan, arena.start(plan), tally)
        for plan, life in steady:
            if life.is_over():
                tally.wrong += 1
                tally.problems.append(f"{plan.name} ended by itself: {_last_words(plan)}")
            life.kill()
        examine(place, tally)


def rolls(arena: Arena, tally: Tally) -> None:
    """Three processes and a server of two workers write one base whose segments hold a few commits each; none of them
    ends or is refused. Thousands of segments are started in a round."""
    settings: dict[str, Any] = {"segment_bytes_max": _ROLLING_BYTES}
    for place in arena.rounds(tally):
        plans = [_plan(arena, place, f"life{number}", "commits", 4, settings) for number in range(_ROLLERS)]
        lives = [(plan, arena.start(plan)) for plan in plans]
        environ = {"TALLYSTICK_SEGMENT_BYTES_MAX": str(_ROLLING_BYTES)}
        server = start_http(place / "base", "--workers", "2", environ=environ)
        try:
            _call_until_rolled(server, place, _ROLLS_QUICK if arena.quick else _ROLLS)
            for plan, life in lives:
                if life.is_over():
                    tally.wrong += 1
                    tally.problems.append(f"{plan.name} ended by itself: {_last_words(plan)}")
                life.kill()
        finally:
            server.kill()
        tally.faults += _segments(place)
        for path in place.glob("*.stderr"):
            if "vanished" in path.read_text(errors="replace"):
                tally.wrong += 1
                tally.problems.append(f"{path.stem} reported a vanished segment")
        examine(place, tally, **settings)


def _call_until_rolled(server: ServerProcess, place: Path, rolls: int) -> None:
    """Every call of every client must succeed, if need be after a wait for the lock: anything else ends the round."""
    notes = Journal(place / "server.journal")

    def work(number: int) -> None:
        for each in count(1):
            if _segments(place) >= rolls:
                return
            name = f"server.{number}.{each}"
            member = {"id": f"{name}.0", "type": "member", "attrs": {"batch": name, "of": 1}}
            _post(server, "memory.write", {"op": "UPSERT_NODE", "node": member, "nonce": name})
            notes.note("batch", name, number=1)
            _post(server, "memory.read", {"entity_id": f"{name}.0"})

    with ThreadPoolExecutor(_ROLLERS) as clients:
        for done in [clients.submit(work, number) for number in range(_ROLLERS)]:
            done.result()


def _post(server: ServerProcess, tool: str, arguments: dict[str, Any]) -> None:
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{server.url}/v1/tools/{tool}", json.dumps(arguments).encode(), headers)
    while True:
        try:
            urllib.request.urlopen(request).read()
            return
        except urllib.error.HTTPError as error:
            refusal = error.read().decode()
            if "lock for too long" not in refusal:
                raise AssertionError(f"{tool}: {error.code} {refusal}") from None


def _segments(place: Path) -> int:
    return len(os.listdir(place / "base" / "_system" / "log"))


def imports(arena: Arena, tally: Tally) -> None:
    """`tallystick import` of an export into an empty base, killed; then tried again, until it is through."""
    for place in arena.rounds(tally):
        export, commits = _exported(arena, place)
        for base, options in ((place / "copy", []), (place / "replayed", ["--replay"])):
            command = [sys.executable, "-m", "tallystick", "import", *options, str(export), "--base", str(base)]
            longest = _timed(arena, command, place)
            for _ in _lives(arena):
                life = arena.run(command, stderr=place / "import.stderr")
                time.sleep(arena.random.uniform(0.4, 1.1) * longest)
                life.kill()
                tally.faults += 1
                if not options and (there := _count(base)) not in (0, commits):
                    tally.wrong += 1
                    tally.problems.append(f"a killed import left {there} of {commits} commits")
            arena.run(command, stderr=place / "import.stderr").wait()
            tally.lost += commits - _count(base)
            enter(checker.check(base, []), tally)


def examine(place: Path, tally: Tally, *, base: Path | None = None, **flags: Any) -> None:
    """Open the base of a round, and enter what is found."""
    notes = [note for path in sorted(place.glob("*.journal")) for note in journal.read(path)]
    found = checker.check(base or place / "base", notes, **flags)
    enter(found, tally)


def enter(found: checker.Findings, tally: Tally) -> None:
    tally.lost += len(found.lost)
    tally.wrong += len(found.wrong)
    tally.problems += [*(f"lost: {each}" for each in found.lost), *found.wrong]


def _lives(arena: Arena) -> range:
    return range(2 if arena.quick else _LIVES)


def _plan(arena: Arena, place: Path, name: str, job: str, clients: int, settings: dict[str, Any]) -> Plan:
    return Plan(str(place / "base"), str(place / f"{name}.journal"), name, job, arena.seed, clients, settings)


def _die(arena: Arena, plan: Plan, life: Life, tally: Tally, *, longest: float = 0.6) -> None:
    """Mostly at work, now and then while it starts."""
    if arena.random.random() < 0.85:
        arena.watch(Path(plan.journal), life, notes=2)
    time.sleep(arena.random.uniform(0, longest))
    if life.is_over():
        tally.wrong += 1
        tally.problems.append(f"{plan.name} ended by itself: {_last_words(plan)}")
    life.kill()
    tally.faults += 1


def _last_words(plan: Plan) -> str:
    path = Path(plan.journal).with_suffix(".stderr")
    return (path.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1] if path.exists() else "nothing"


# -- imports


def _exported(arena: Arena, place: Path) -> tuple[Path, int]:
    plan = _plan(arena, place, "life0", "commits", 4, {})
    life = arena.start(plan)
    arena.watch(Path(plan.journal), life, notes=1_500)
    life.kill()
    log = settled(place / "base").system / "log"
    checker.check(place / "base", [])
    export = place / "export.jsonl"
    export.write_bytes(b"".join(path.read_bytes() for path in sorted(log.glob("*.jsonl"))))
    return export, _count(place / "base")


def _timed(arena: Arena, command: list[str], place: Path) -> float:
    started = time.monotonic()
    elsewhere = [*command[:-1], str(place / f"timed{len(command)}")]
    arena.run(elsewhere, stderr=place / "import.stderr").wait()
    return time.monotonic() - started


def _count(base: Path) -> int:
    from tallystick.log.files import FilesLog

    if not (base / "_system").is_dir():
        return 0
    log = FilesLog(base / "_system")
    try:
        return log.head().count
    finally:
        log.close()
