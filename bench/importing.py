"""What it costs to move in: the memory of server-memory, imported once, and once more to find that nothing is new."""

from __future__ import annotations

import json
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench import Row, say
from bench.processes import command_line

SECONDS_TARGET = 60.0


def run(quick: bool = False) -> list[Row]:
    entities = 2_000 if quick else 100_000
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-") as folder:
        path, base = Path(folder) / "memory.jsonl", Path(folder) / "base"
        _write(path, entities)
        what = f"{entities:,} entities of server-memory and half as many relations"
        say(f"importing {what}")
        first, again = (_import(base, path) for _ in range(2))
    return [
        Row(f"import {what}", first.wall, "s", SECONDS_TARGET),
        Row("of it CPU", first.cpu, "s"),
        Row("the same once more, which writes nothing", again.wall, "s"),
        Row("of it CPU", again.cpu, "s"),
    ]


class _Taken(NamedTuple):
    wall: float
    cpu: float


def _write(path: Path, entities: int) -> None:
    with path.open("w") as file:
        for number in range(entities):
            said = [f"never retries refund {number}", "uses the ledger for the billing of customers"]
            entity = {"type": "entity", "name": f"service {number}", "entityType": "service", "observations": said}
            file.write(json.dumps(entity) + "\n")
        for number in range(entities // 2):
            ends = {"from": f"service {number}", "to": f"service {number + 1}"}
            file.write(json.dumps({"type": "relation", **ends, "relationType": "calls"}) + "\n")


def _import(base: Path, path: Path) -> _Taken:
    words = command_line("import", base, "--from", "server-memory", str(path))
    started, used = time.perf_counter(), _cpu_of_children()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _Taken(time.perf_counter() - started, _cpu_of_children() - used)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
