"""`tallystick init` as a person types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import CommandLine, CommandResult
from tests.promises import promise

Run = Callable[..., CommandResult]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "shop"
    root.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "init", "-q"], cwd=root, env=environ, check=True)
    (root / ".cursor").mkdir()
    monkeypatch.chdir(root)
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return root


@pytest.fixture
def tally(repository: Path) -> Run:
    line = CommandLine(repository / "unused")

    def run(*words: object, **environ: str) -> CommandResult:
        places = {"BASE_PATH": "", "HOME": str(repository.parent / "home"), "PATH": "/nowhere"}
        return line.main(*words, **{**places, **environ})

    return run


@promise("init, asks", "init shows the files and writes nothing unless it is told to")
def test_it_shows_the_files_and_writes_nothing_unless_it_is_told_to(tally: Run, repository: Path) -> None:
    outcome = tally("init")
    assert outcome.code == 2
    assert f"{repository}/.cursor/mcp.json" in outcome.out
    assert "--yes" in outcome.err
    assert list((repository / ".cursor").iterdir()) == []
    assert not (repository / ".git" / "tallystick").exists()


def test_it_connects_and_the_memory_of_the_repository_is_used_from_then_on(tally: Run, repository: Path) -> None:
    outcome = tally("init", "--yes")
    assert outcome.code == 0
    assert "next: Cursor" in outcome.out
    assert tally("where").out == f"{repository}/.git/tallystick\n"
    again = tally("init", "--yes")
    assert (again.code, "nothing to do" in again.out) == (0, True)
    told = tally("doctor", "--json").json["findings"]
    assert any("the memory of this repository" in each["found"] for each in told)


def test_with_json_it_is_a_plan_until_yes_is_said(tally: Run, repository: Path) -> None:
    plan = tally("init", "--json").json
    assert plan["written"] is False
    assert {change["action"] for change in plan["changes"]} == {"create"}
    assert list((repository / ".cursor").iterdir()) == []
    assert tally("init", "--json", "--yes").json["written"] is True
    removed = tally("init", "--remove", "--json", "--yes").json
    assert {change["action"] for change in removed["changes"]} == {"delete"}
    assert list((repository / ".cursor").iterdir()) == []


@promise("init, print", "what would be written is printed for copying")
def test_it_prints_what_can_be_copied(tally: Run, repository: Path) -> None:
    (repository / ".cursor" / "mcp.json").write_text('{\n  "mcpServers": {\n    "x": {}\n  }\n}\n')
    outcome = tally("init", "--print", "--client", "cursor", "--no-hooks")
    assert outcome.code == 0
    assert '"tallystick": {\n      "command": "tallystick",\n      "args": ["serve"]\n    }' in outcome.out
    assert "tallystick" not in (repository / ".cursor" / "mcp.json").read_text()


def test_a_file_that_was_left_alone_is_said_and_the_command_leaves_with_1(tally: Run, repository: Path) -> None:
    (repository / ".cursor" / "mcp.json").write_text("{\n  oops\n}")
    outcome = tally("init", "--yes")
    assert outcome.code == 1
    assert "line 2, column 3" in outcome.err
    assert "next: put right what was left alone, then run 'tallystick init' again" in outcome.out
    assert "next: Cursor" not in outcome.out, "there is no server to be enabled"


def test_what_was_edited_by_hand_stays_and_is_shown_until_force(tally: Run, repository: Path) -> None:
    tally("init", "--yes")
    path = repository / ".cursor" / "mcp.json"
    path.write_text(path.read_text().replace('"serve"', '"serve", "--read-only"'))
    kept = tally("init", "--remove", "--yes")
    assert kept.code == 1
    assert '+    "--read-only"' in kept.out
    assert "'tallystick init --remove --force' takes it out" in kept.out
    assert path.exists()
    assert tally("init", "--remove", "--yes", "--force").code == 0
    assert not path.exists()


def test_a_person_is_asked_about_what_was_edited(repository: Path, tally: Run) -> None:
    """At a terminal of its own: nothing is asked where nobody is."""
    tally("init", "--yes")
    path = repository / ".cursor" / "mcp.json"
    path.write_text(path.read_text().replace('"serve"', '"serve", "--read-only"'))
    environ = {**os.environ, "HOME": str(repository.parent / "home"), "BASE_PATH": ""}
    command = [sys.executable, "-m", "tallystick", "init", "--remove"]
    for answers, left in ((b"n\nn\n", True), (b"y\ny\n", False)):
        controller, terminal = os.openpty()
        os.write(controller, answers)
        subprocess.run(command, stdin=terminal, capture_output=True, cwd=repository, env=environ, check=False)
        os.close(controller)
        os.close(terminal)
        assert path.exists() is left


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--client", "emacs"], "there is no client 'emacs'"),
        (["--http", "localhost:1"], "is no address"),
        (["--force"], "goes with --remove"),
        (["--print", "--remove"], "--print"),
        (["--client", "windsurf"], "no configuration for a project"),
    ],
)
def test_what_makes_no_sense_is_refused(tally: Run, words: list[str], told: str) -> None:
    outcome = tally("init", *words)
    assert outcome.code == 2
    assert told in outcome.err


def test_outside_of_a_repository_it_says_what_to_do(
    tally: Run, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository.parent)
    outcome = tally("init")
    assert outcome.code == 3
    assert "git init" in outcome.err
    assert "--user" in outcome.err


def test_a_repository_whose_path_is_not_unicode_gets_no_memory_and_nothing_is_written(
    tally: Run, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = repository.with_name("shop-\udcff")
    repository.rename(odd)
    monkeypatch.chdir(odd)
    outcome = tally("init", "--yes")
    assert (outcome.code, "its name is not UTF-8" in outcome.err) == (2, True)
    assert not (odd / ".git" / "tallystick").exists()


def test_a_name_in_a_file_cannot_steer_the_terminal(tally: Run, repository: Path) -> None:
    entry = {"command": "\x1b[31mred\nerror: forged", "args": ["\u202e"]}
    (repository / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"tallystick": entry}}))
    for words in (("init", "--yes"), ("doctor",), ("init", "--remove", "--yes")):
        told = tally(*words)
        assert {character for character in told.out + told.err if not character.isprintable()} <= {"\n"}
        assert not [line for line in (told.out + told.err).splitlines() if line.startswith("error: forged")]
