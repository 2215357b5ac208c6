"""A base that cannot be written answers searches by words from the index that is there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import CommandLine, node

_MOUNT = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


def read_only(base: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a mount namespace of its own, in which the base is read-only."""
    if subprocess.run(["unshare", "-m", "sh", "-c", _MOUNT, base, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a read-only mount needs root")
    command = [sys.executable, "-m", "tallystick", *words, "--base", str(base)]
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", _MOUNT, base, *command], capture_output=True, text=True, check=False
    )


@pytest.fixture
def memory(tmp_path: Path) -> CommandLine:
    memory = CommandLine(tmp_path / "memory")
    memory.write(node("fish", said="the salmon swims upstream"), node("bird", said="the heron waits"))
    memory.run("catch-up")
    return memory


def test_a_read_only_base_is_searched_by_words(memory: CommandLine) -> None:
    ran = read_only(memory.base, "search", "salmon", "--json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["entities"][0]["id"] == "fish"
    assert "indexed_position" not in json.loads(ran.stdout)


def test_an_index_that_lags_answers_with_its_position(memory: CommandLine) -> None:
    memory.write(node("late", said="another salmon"))
    ran = read_only(memory.base, "search", "salmon", "--json")
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert "fish" in [each["id"] for each in answer["entities"]]
    assert answer.get("indexed_position", 3) <= 3


def test_without_an_index_it_is_refused(memory: CommandLine) -> None:
    for path in (memory.base / "_system/text").iterdir():
        path.unlink()
    ran = read_only(memory.base, "search", "salmon", "--json")
    assert (ran.returncode != 0, "STORAGE_REFUSED" in ran.stderr) == (True, True)
