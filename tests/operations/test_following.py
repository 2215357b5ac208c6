"""A copy that follows a memory by its backups: read, promoted, and the machine that it took over from is stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Conflict, StorageRefused
from tests.command_line import CommandLine, node
from tests.operations.test_backups import WORD, Place, put_content, same_log


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.shell.write(node("a", said="one"), node("person", name=WORD))
    place.shell.write(node("theirs"), tenant="acme")
    place.back_up()
    return place


def follow(place: Place) -> Any:
    return place.shell.run("follow", place.url, "--base", place.root / "copy", "--once", "--json").json


def test_a_copy_follows_reads_and_takes_no_writes(place: Place) -> None:
    follow(place)
    copy = CommandLine(place.root / "copy")
    assert copy.run("show", "a", "--json").json["entity"]["attrs"] == {"said": "one"}
    with pytest.raises(StorageRefused) as refused:
        copy.write(node("mine"))
    assert refused.value.code == "IS_REPLICA"
    with pytest.raises(Conflict):
        copy.run("backup", f"file://{place.root}/other")
    place.shell.write(node("b"))
    place.shell.write(node("new"), tenant="fresh")
    put_content(place, os.urandom(300_000))
    place.back_up()
    assert follow(place)["commits"] == 3
    assert follow(place)["commits"] == 0
    for home in (".", "tenants/acme", "tenants/fresh"):
        assert same_log(place.shell.base / home, place.root / "copy" / home)
    assert copy.run("verify", "--json").json["sound"]


def test_a_redaction_is_carried_out_in_the_copy(place: Place) -> None:
    follow(place)
    blob = put_content(place, WORD.encode() * 50_000)
    place.back_up()
    follow(place)
    place.shell.write({"op": "REDACT_NODE", "node_id": "person", "reason": "asked"})
    place.shell.write({"op": "REDACT_NODE", "node_id": "big", "reason": "asked"})
    place.back_up()
    follow(place)
    assert same_log(place.shell.base, place.root / "copy")
    assert not (place.root / "copy/_content/blobs" / blob).exists()
    assert CommandLine(place.root / "copy").run("verify", "--json").json["sound"]


def test_promoted_it_takes_writes_and_backs_up_and_the_old_one_is_stopped(place: Place) -> None:
    follow(place)
    done = place.shell.run("promote", "--base", place.root / "copy", "--json").json
    assert (done["epoch"], done["caught_up"], done["positions"]) == (1, True, {"default": 2, "acme": 1})
    new = CommandLine(place.root / "copy")
    new.write(node("goes on"))
    assert new.run("backup", place.url, "--json").json["number"] == 2
    place.shell.write(node("nobody told me"))
    with pytest.raises(Conflict) as refused:
        place.back_up()
    assert refused.value.code == "TAKEN_OVER"
    with pytest.raises(StorageRefused) as stopped:
        place.shell.write(node("nor me"))
    assert stopped.value.code == "TAKEN_OVER"
    findings = place.shell.run("doctor", "--json").json["findings"]
    assert [each["status"] for each in findings if each["what"] == "memory"] == ["bad"]
    assert place.verify()["commits"] == 4
    with pytest.raises(Conflict):
        follow(place)


def test_without_the_store_it_is_promoted_only_when_that_is_said(place: Place) -> None:
    follow(place)
    place.store.rename(place.root / "away")
    place.store.write_text("the store is away")
    with pytest.raises(StorageRefused):
        place.shell.run("promote", "--base", place.root / "copy")
    done = place.shell.run("promote", "--base", place.root / "copy", "--without-store", "--json").json
    assert (done["epoch"], done["caught_up"]) == (0, False)
    CommandLine(place.root / "copy").write(node("goes on"))


def test_a_base_with_a_memory_does_not_follow_and_another_memory_is_not_followed(place: Place, tmp_path: Path) -> None:
    with pytest.raises(Conflict) as refused:
        place.shell.run("follow", place.url, "--once")
    assert refused.value.code == "NOT_EMPTY"
    follow(place)
    other = CommandLine(tmp_path / "other")
    other.write(node("stranger"))
    other.run("backup", f"file://{tmp_path}/elsewhere")
    with pytest.raises(Conflict) as refused:
        other.run("follow", f"file://{tmp_path}/elsewhere", "--base", tmp_path / "copy", "--once")
    assert refused.value.code == "OTHER_MEMORY"
