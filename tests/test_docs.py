"""What the documents tell people to type does what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import pytest

from tallystick.errors import Denied
from tallystick.policy import Action, Decision, Policy, Request
from tallystick.toolsets import Answer
from tests.toolsets.agent import working

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "format_1.jsonl"


@pytest.fixture
def check(tmp_path: Path) -> Path:
    """The program in docs/commit-format.md."""
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "commit-format.md").read_text(), re.S)
    path = tmp_path / "check.py"
    path.write_text(program)
    return path


def run(check: Path, log: bytes) -> subprocess.CompletedProcess[str]:
    file = check.with_name("00000000000000000001.jsonl")
    file.write_bytes(log)
    return subprocess.run([sys.executable, check, file], check=False, capture_output=True, text=True, cwd=check.parent)


def test_a_stranger_checks_a_log_with_twenty_lines(check: Path) -> None:
    answer = run(check, GOLDEN.read_bytes())
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("sound up to b97f0bf19f09ff")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"actor":"bob"', b'"actor":"eve"'),
        (b'"since":"1833-06-05"', b'"since":"1933-06-05"'),
        (b'"email":"[REDACTED]"', b'"email":"[INVENTED]"'),
        (b'"reason":"asked"', b'"reason":"axed"'),
    ],
)
def test_what_was_altered_does_not_pass_it(check: Path, old: bytes, new: bytes) -> None:
    log = GOLDEN.read_bytes()
    assert old in log
    assert "altered" in run(check, log.replace(old, new, 1)).stderr


def test_a_line_that_is_missing_does_not_pass_it(check: Path) -> None:
    lines = GOLDEN.read_bytes().splitlines(keepends=True)
    assert "missing" in run(check, b"".join(lines[:1] + lines[2:])).stderr


def test_whoever_starts_finds_what_the_start_page_shows(tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "start.md").read_text(), re.S)
    script = "".join(block for block in blocks if "--base ./memory" in block)
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "NO_COLOR": "1"}
    done = subprocess.run(
        ["sh", "-e"], input=script, capture_output=True, text=True, cwd=tmp_path, env=environ, check=False
    )
    assert done.returncode == 0, done.stderr
    told = [len(re.findall(rf"\b{words}\b", done.stdout)) for words in ("ada", "first day", "audit log: sound")]
    assert told == [3, 2, 1]
    assert (tmp_path / "memory" / "_system" / "log" / "00000000000000000001.jsonl").exists(), "as the page names it"


def example(heading: str) -> dict[str, Any]:
    """What the Python below a heading of CONTRIBUTING.md defines."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    [program] = re.findall(r"( *)```python\n(.*?)```", section, re.S)
    defined: dict[str, Any] = {"Action": Action, "Answer": Answer, "Decision": Decision, "Request": Request}
    exec("from __future__ import annotations\n" + dedent(program[1]), defined)
    return defined


def test_the_tool_that_contributors_are_shown_works() -> None:
    call = example("Add a tool")["call"]
    with working() as agent:
        agent.node("a")
        found = [
            agent.run(call(agent.store, agent.principal, SimpleNamespace(id=node_id))).data for node_id in ("a", "b")
        ]
    assert found == [{"found": True}, {"found": False}]


def test_the_policy_that_contributors_are_shown_works() -> None:
    policy = example("Add a policy engine")["ReadOnly"]()
    assert isinstance(policy, Policy)
    with working(policy) as agent:
        assert agent.search()["entities"] == []
        with pytest.raises(Denied):
            agent.answer("memory.write", {"op": "UPSERT_NODE", "node": {"id": "a", "type": "note", "attrs": {}}})
        assert agent.lines() == []
