"""A memory of server-memory moves in: killed half-way, run again, proven, and found by words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.command_line import CommandLine
from tests.extensions.importers.imports import count, imported, json_lines, written
from tests.promises import promise

FACTS = 6_000
SLICE = 1_000
"""Items that are written at once."""


@promise("import-killed", "an import that is killed goes on at the next run, and everything is there once")
def test_an_import_that_is_killed_goes_on_and_everything_is_there_once(tmp_path: Path) -> None:
    entities = [
        {
            "type": "entity",
            "name": f"service {number}",
            "entityType": "service",
            "observations": [f"listens on {number}"],
        }
        for number in range(FACTS)
    ]
    relations = [
        {"type": "relation", "from": f"service {number}", "to": f"service {number + 1}", "relationType": "calls"}
        for number in range(500)
    ]
    path = json_lines(tmp_path / "memory.jsonl", [*entities, *relations])
    shell = CommandLine(tmp_path / "base")
    _kill_at_the_second_slice(shell.base, path)
    shell.run("log")  # whoever opens it next sets a torn end aside
    before = count(shell)
    assert 0 < before < FACTS + 500

    first = imported(shell, "server-memory", path)
    assert first["commits"] == FACTS + 500 - before
    assert written(first)["edge calls"][0] == 500
    second = imported(shell, "server-memory", path)
    assert second["commits"] == 0
    assert count(shell) == FACTS + 500

    assert shell.run("verify").out.startswith("sound")
    assert "service 777" in shell.run("search", "which service listens on 777").out.splitlines()[1]


def _kill_at_the_second_slice(base: Path, path: Path) -> None:
    """The first is durable by then."""
    command = [sys.executable, "-m", "tallystick", "import", "--from", "server-memory", str(path), "--base", str(base)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = base / "_system" / "log"
    while process.poll() is None and sum(each.read_bytes().count(b"\n") for each in log.glob("*.jsonl")) <= SLICE:
        os.sched_yield()
    process.kill()
    process.wait()
