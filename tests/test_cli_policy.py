"""The command line under a policy that withholds something from its caller."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.command_line import CommandLine, CommandResult
from tests.server.web.policies import owners_policy

COMMANDS = (
    "",
    "status",
    "status --json",
    "ask shared plan",
    "log",
    "log --json --actor ada",
    "show plan",
    "show plan --json",
    "search --type note",
    "search shared plan",
    "search shared nonesuch --type nonesuch",
    "search --facets",
    "search --facets --type note --json",
    "search plan --around plan",
    "lineage plan",
    "lineage plan --depth full --json",
    "lineage plan --depth summary",
    "lineage plan --csv",
    "work",
    "why src --json",
    "work next",
    "work tree shop",
    "knowledge for src/cart.py",
    "knowledge stale",
    "stale",
    "why src/cart.py",
    "why src/cart.py:1",
    "redactions",
    "recall --list",
    "recall --actor ada",
    "verify",
    "forget --subject plan",
    "subject export --subject plan",
    "export",
)


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    shop = tmp_path / "shop"
    (shop / "src").mkdir(parents=True)
    (shop / "src" / "cart.py").write_text("total = 0\n")
    identity = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=shop, check=True)
    monkeypatch.chdir(shop)
    line = CommandLine(tmp_path / "memory")
    for actor, name in (("ada", "plan"), ("eve", "diary")):
        done(line.main("remember", f"a shared {name}", "--id", name, "--type", "note", TALLYSTICK_AGENT=actor))
    done(line.main("remember", "the cart is locked", "--paths", "src/**", TALLYSTICK_AGENT="ada"))
    return line


def done(answer: CommandResult) -> CommandResult:
    assert answer.code == 0, answer.err
    return answer


def test_commands_answer_under_a_policy_that_withholds(memory: CommandLine, tmp_path: Path) -> None:
    environ = {"TALLYSTICK_POLICY": owners_policy(tmp_path), "TALLYSTICK_AGENT": "ada"}
    answers = {words: memory.main(*words.split(), **environ) for words in COMMANDS}
    assert {words: answer.err for words, answer in answers.items() if answer.code} == {}


def test_a_total_under_a_policy_that_withholds_is_a_lower_bound(memory: CommandLine, tmp_path: Path) -> None:
    for number in range(3):
        done(memory.main("remember", f"note {number}", "--id", f"n{number}", "--type", "note", TALLYSTICK_AGENT="ada"))
    environ = {"TALLYSTICK_POLICY": owners_policy(tmp_path), "TALLYSTICK_AGENT": "ada"}
    answer = done(memory.main("search", "--type", "note", "-n", "1", **environ))
    assert "1 of at least 2; go on with --offset 1" in answer.err
