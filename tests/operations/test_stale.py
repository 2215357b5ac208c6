"""tallystick stale: what may not hold any more, and what contradicts itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import timeouts
from tests.command_line import CommandLine, commits_in, node
from tests.promises import promise
from tests.toolsets.knowledge.agents import Checkout

LONG_AGO = "2020-01-01T00:00:00.000Z"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    found = Checkout(tmp_path / "shop")
    monkeypatch.chdir(found.root)
    return found


@pytest.fixture
def shell(tmp_path: Path, checkout: Checkout) -> CommandLine:
    return CommandLine(tmp_path / "base")


def by(actor: str, operation: dict[str, Any]) -> dict[str, Any]:
    return operation | {"actor": actor}


def verifying(shell: CommandLine) -> list[str]:
    """What the work nodes that were ever made are about."""
    documents = [commit.document() for commit in commits_in(shell.base / "_system" / "log")]
    made = [each["attrs"].get("properties", {}) for each in documents if each.get("type") == "work/node"]
    return [each["verifies"] for each in made if "verifies" in each]


@promise("tallystick stale", "everything stale is listed with why and since when")
def test_everything_stale_is_listed_with_why_and_since(shell: CommandLine, checkout: Checkout) -> None:
    shell.write(
        node("past", stale_after=LONG_AGO),
        node("later", stale_after="2999-01-01"),
        node("old"),
        node("new", supersedes=["old", "never was"]),
        node("cites", cites=["README.md"]),
        node("rests", cites=["src/checkout/page.ts"]),
        node("none"),
    )
    checkout.write("README.md", "otherwise")
    found = shell.run("stale", "--json").json
    assert found["stale"][0]["id"] == "past"
    stale = {each["id"]: each for each in found["stale"]}
    assert {name: each["why"] for name, each in stale.items()} == {
        "past": "past its time",
        "old": "superseded",
        "cites": "cited files changed",
    }
    assert stale["past"] == {"id": "past", "type": "note", "why": "past its time", "since": LONG_AGO}
    assert stale["old"]["superseded_by"] == "new"
    assert stale["cites"]["files"] == ["README.md"]
    assert found["contradictions"] == []
    drawn = shell.run("stale")
    assert "superseded by new" in drawn.out
    assert "cited files changed: README.md" in drawn.out
    assert "3 stale facts, 0 contradictions" in drawn.err


@promise("tallystick stale, contradictions", "two authors who differ within a short time are listed, not judged")
def test_two_authors_who_differ_within_a_short_time_are_listed_until_somebody_verifies(shell: CommandLine) -> None:
    shell.write(
        by("ann", node("port", value=1, text="same")),
        by("ben", node("port", value=2, text="same")),
        by("ann", node("alone", value=1)),
        by("ann", node("alone", value=2)),
        by("ann", node("agreed", value=1)),
        by("ben", node("agreed", value=1, more="x")),
    )
    (found,) = shell.run("stale", "--json").json["contradictions"]
    assert (found["id"], found["what"], found["attribute"]) == ("port", "values differ", "value")
    assert [(each["by"], each["value"]) for each in found["claims"]] == [("ann", 1), ("ben", 2)]
    assert "value: 1 by ann at" in shell.run("stale").out
    shell.write({"op": "PATCH_NODE", "node": {"id": "port", "attrs": {"verified": True}}})
    assert shell.run("stale", "--json").json["contradictions"] == []


@promise("tallystick stale, gone", "a cited file that is gone, and facts that supersede each other, are listed")
def test_a_file_that_is_gone_and_facts_that_supersede_each_other_are_listed(
    shell: CommandLine, checkout: Checkout
) -> None:
    checkout.write(".gitignore", "built")
    checkout.write("built", "x")
    shell.write(
        node("a", supersedes=["b"]),
        node("b", supersedes=["a"]),
        node("c", cites=["README.md", "built", "never.md"]),
    )
    (checkout.root / "README.md").unlink()
    found = shell.run("stale", "--json").json["contradictions"]
    assert found == [
        {"id": "a", "what": "supersede each other", "others": ["b"]},
        {"id": "c", "what": "file is gone", "file": "README.md"},
        {"id": "c", "what": "file is gone", "file": "never.md"},
    ]


def test_work_is_made_of_all_of_it_once(shell: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write(*(node(f"past{number}", stale_after=LONG_AGO) for number in range(60)))
    shell.run("stale")
    assert verifying(shell) == []
    monkeypatch.setenv("TALLYSTICK_STALE_MAKES_WORK", "true")
    for _ in range(2):
        shell.run("stale")
    assert sorted(verifying(shell)) == sorted(f"past{number}" for number in range(60))


def test_a_verification_survives_export_and_import_and_a_restored_version(shell: CommandLine, tmp_path: Path) -> None:
    shell.write(by("ann", node("fact", stale_after=LONG_AGO, verified=True)))
    verified = shell.run("show", "fact", "--json").json["entity"]["attrs"]["verified"]
    assert verified["by"] == "ann"
    (tmp_path / "export").write_text(shell.run("export").out)
    other = CommandLine(tmp_path / "other")
    other.run("import", "--replay", tmp_path / "export")
    assert other.run("show", "fact", "--json").json["entity"]["attrs"]["verified"] == verified
    other.write(node("fact", n=1))
    other.run("restore-entity", "fact", "--as-of", "1")
    assert other.run("show", "fact", "--json").json["entity"]["attrs"]["verified"] == verified


def test_nothing_to_say_of_an_empty_memory_and_hostile_names_are_drawn_escaped(shell: CommandLine) -> None:
    shell.write(node("x"))
    assert shell.run("stale", "--json").json == {"stale": [], "contradictions": []}
    shell.write(node("\u202eevil", stale_after=LONG_AGO))
    assert "\u202e" not in shell.run("stale").out


@promise("X24, work, processes", "processes that notice at once make one node")
def test_processes_that_notice_at_once_make_one_node(shell: CommandLine, checkout: Checkout) -> None:
    shell.write(node("past", stale_after=LONG_AGO))
    environ = {"BASE_PATH": str(shell.base), "TALLYSTICK_STALE_MAKES_WORK": "true", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "tallystick", "stale"]
    running = [
        subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(3)
    ]
    for each in running:
        _, err = each.communicate(timeout=timeouts.SECONDS)
        assert each.returncode == 0, err
    assert verifying(shell) == ["past"]
