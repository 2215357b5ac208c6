"""What names a person, written out for that person."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from tallystick.errors import Conflict, Corrupt, InvalidArgument
from tests.command_line import CommandLine, edge, node

ADA = "ada@example.org"


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    shell = CommandLine(tmp_path / "memory")
    shell.write(node("team", lead="nobody"), node("b"), node("team", lead=ADA), edge("team", "pays", "b", to=[ADA]))
    shell.write(node("theirs", **{ADA: 1}), tenant="acme")
    return shell


def test_every_version_of_what_names_somebody_is_told_with_the_place(shell: CommandLine) -> None:
    found = shell.run("subject", "export", "--subject", ADA).json
    assert (found["subject"], found["tenants"]) == ([ADA], ["default", "acme"])
    assert [
        (each["tenant"], each["kind"], each["id"], [version["found_in"] for version in each["versions"]])
        for each in found["entities"]
    ] == [
        ("default", "node", "team", [[], ["attrs.lead"]]),
        ("default", "edge", "team|pays|b", [["attrs.to"]]),
        ("acme", "node", "theirs", [[f"attrs.{ADA}"]]),
    ]
    assert found["entities"][0]["versions"][0]["document"]["attrs"] == {"lead": "nobody"}


def test_it_goes_to_a_file_that_only_its_owner_reads_and_nobody_is_asked(
    shell: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLYSTICK_POLICY", "closed")
    file = tmp_path / "ada.json"
    told = shell.run("subject", "export", "--subject", ADA, "--tenant", "acme", file)
    assert told.err.endswith("1 entity, 1 version\n")
    assert (json.loads(file.read_text())["tenants"], file.stat().st_mode & 0o777) == (["acme"], 0o600)
    with pytest.raises(Conflict):
        shell.run("subject", "export", "--subject", ADA, file)
    with pytest.raises(InvalidArgument):
        shell.run("subject", "export", "--subject", " ")


@pytest.mark.parametrize("words", [("subject", "export"), ("forget",), ("forget", "--yes")])
def test_of_several_tenants_the_one_with_the_damaged_log_is_named(shell: CommandLine, words: tuple[str, ...]) -> None:
    (segment,) = (shell.base / "tenants/acme/_system/log").iterdir()
    segment.write_bytes(segment.read_bytes().replace(b"theirs", b"thEirs"))
    with pytest.raises(Corrupt) as damaged:
        shell.run(*words, "--subject", ADA)
    assert damaged.value.message.startswith("tenant 'acme': ")
    assert "'tallystick verify --tenant acme'" in str(damaged.value.hint)
    assert shell.run("redactions", "--json").json["redactions"] == []


def test_after_forgetting_there_is_nothing_to_export(shell: CommandLine) -> None:
    shell.run("forget", "--subject", ADA, "--yes")
    assert shell.run("subject", "export", "--subject", ADA).json["entities"] == []


def test_a_file_that_did_not_fit_is_not_left_half_written(shell: CommandLine, small_disk: Path) -> None:
    with (small_disk / "fill").open("ab", buffering=0) as fill, suppress(OSError):
        while True:
            fill.write(bytes(4096))
    with pytest.raises(InvalidArgument, match="No space left"):
        shell.run("subject", "export", "--subject", ADA, small_disk / "ada.json")
    assert not (small_disk / "ada.json").exists()
