"""A copy that follows a memory by its backups: read, promoted, and the machine that it took over from is stopped."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tallystick.errors import Conflict, Corrupt, NotFound, StorageRefused
from tallystick.system.file_locks import locked
from tests.command_line import CommandLine, node
from tests.operations.test_backups import WORD, Place, put_content, same_log
from tests.promises import promise


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.shell.write(node("a", said="one"), node("person", name=WORD))
    place.shell.write(node("theirs"), tenant="acme")
    place.back_up()
    return place


def follow(place: Place) -> Any:
    return place.shell.run("follow", place.url, "--base", place.root / "copy", "--once", "--json").json


@promise("§5.4, replicas", "a copy follows, serves reads and takes no writes")
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


def test_a_store_that_is_mistyped_gets_no_fence(place: Place) -> None:
    place.restore()
    base = place.root / "restored"
    with pytest.raises(StorageRefused, match="there is no such directory"):
        place.shell.run("promote", f"file://{place.root}/typo", "--base", base)
    assert not (place.root / "typo").exists()
    (place.root / "empty").mkdir()
    with pytest.raises(NotFound):
        place.shell.run("promote", f"file://{place.root}/empty", "--base", base)
    assert not list((place.root / "empty").iterdir())


def test_a_store_that_is_not_mounted_is_away_and_not_empty(place: Place) -> None:
    follow(place)
    place.store.rename(place.root / "elsewhere")
    with pytest.raises(StorageRefused, match="there is no such directory"):
        follow(place)
    done = place.shell.run("promote", "--base", place.root / "copy", "--without-store", "--json").json
    assert (done["epoch"], done["caught_up"]) == (0, False)


def test_a_store_whose_name_has_to_be_quoted_is_promoted_from(place: Place) -> None:
    place.store.rename(place.root / "50% #2")
    place.url = f"file://{place.root}/50%25%20%232"
    follow(place)
    assert place.shell.run("promote", "--base", place.root / "copy", "--json").json["caught_up"]


@pytest.mark.parametrize("said", [b"", b"{}", b"\xff"])
def test_a_fence_that_cannot_be_read_stops_backups_until_a_machine_is_promoted(place: Place, said: bytes) -> None:
    (place.store / "fences").mkdir()
    (place.store / "fences" / "0000000003").write_bytes(said)
    with pytest.raises(Corrupt, match="fences/0000000003"):
        place.back_up()
    assert place.shell.run("promote", place.url, "--json").json["epoch"] == 4
    assert place.back_up()["number"] == 2


def test_a_tenant_that_was_deleted_is_removed_from_the_copy_and_one_that_vanished_is_not(place: Place) -> None:
    place.shell.write(node("x"), tenant="gone")
    place.back_up()
    follow(place)
    place.shell.run("tenants", "delete", "acme", "--yes", "--json")
    shutil.rmtree(place.shell.base / "tenants/gone")
    # Nothing to go on from: what vanished is not carried over into this backup.
    (place.store / "manifests" / "0000000002").write_bytes(b"")
    place.back_up()
    home = place.root / "copy" / "tenants"
    with (
        open(home / "acme/_system/head") as held,
        subprocess.Popen(["cat", "-"], stdin=subprocess.PIPE, pass_fds=[held.fileno()]) as reader,
    ):
        assert set(follow(place)["positions"]) == {"default", "acme", "gone"}
        reader.communicate()
    assert set(follow(place)["positions"]) == {"default", "gone"}
    assert [path.name for path in home.iterdir()] == ["gone"]


def test_a_tenant_that_was_deleted_and_made_again_is_replaced_in_the_copy(place: Place) -> None:
    follow(place)
    place.shell.run("tenants", "delete", "acme", "--yes", "--json")
    place.shell.write(node("b"))
    place.shell.write(node("other"), node("owners"), tenant="acme")
    place.back_up()
    copy = place.root / "copy"
    with (
        open(copy / "tenants/acme/_system/head") as held,
        subprocess.Popen(["cat", "-"], stdin=subprocess.PIPE, pass_fds=[held.fileno()]) as reader,
    ):
        for command in ("follow", place.url, "--once"), ("promote",):
            with pytest.raises(StorageRefused, match="acme") as refused:
                place.shell.run(*command, "--base", copy)
            assert refused.value.code == "TENANT_IN_USE"
        reader.communicate()
    assert same_log(place.shell.base, copy)
    assert follow(place)["positions"] == {"default": 3, "acme": 2}
    assert same_log(place.shell.base / "tenants/acme", copy / "tenants/acme")
    assert CommandLine(copy).run("verify", "--tenant", "acme", "--json").json["sound"]


def test_a_tenant_that_is_another_without_a_deletion_stays_as_it_is_in_the_copy(place: Place) -> None:
    place.shell.run("tenants", "delete", "acme", "--yes", "--json")
    place.shell.write(node("theirs"), tenant="acme")
    place.back_up()
    follow(place)
    shutil.rmtree(place.shell.base / "tenants/acme")
    place.shell.write(node("other"), node("owners"), tenant="acme")
    place.back_up()
    with pytest.raises(Corrupt) as refused:
        follow(place)
    assert refused.value.code == "BACKUP_DIVERGED"
    assert CommandLine(place.root / "copy").run("show", "theirs", "--tenant", "acme", "--json").json["entity"]


def test_a_base_is_promoted_by_one_process_at_a_time(place: Place) -> None:
    with locked(place.shell.base / "_system/backup.lock"), pytest.raises(Conflict) as refused:
        place.shell.run("promote", place.url)
    assert refused.value.code == "BACKUP_RUNNING"
    assert not (place.store / "fences").exists()
