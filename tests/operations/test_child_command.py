from __future__ import annotations

from pathlib import Path

import pytest

from tallystick.operations.child_command import begin_command, run_command

HOSTILE = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n"


@pytest.fixture
def in_a_hostile_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Servers over stdio are started in the repositories that agents work on."""
    for name in ("tallystick.py", "msgspec.py", "typer.py", "json.py"):
        (tmp_path / name).write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_no_module_of_the_directory_it_runs_in_is_taken_for_ours(in_a_hostile_directory: Path) -> None:
    await run_command("doctor", "--base", str(in_a_hostile_directory / "base"))
    assert not (in_a_hostile_directory / "ran").exists()


def test_nor_by_one_that_nobody_waits_for(in_a_hostile_directory: Path) -> None:
    begin_command("doctor", "--base", str(in_a_hostile_directory / "base")).join()
    assert not (in_a_hostile_directory / "ran").exists()
