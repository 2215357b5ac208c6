"""Tenants: listed, looked at, and deleted without a trace but the audit's."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tallystick.audit import TenantDeleted
from tallystick.audit.files import AuditFiles
from tallystick.audit.proof import events, verify_audit
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound, StorageRefused
from tests.command_line import CommandLine, node
from tests.mcp_client import call, connect
from tests.test_erasure import found_in

WORD = "Qz7731Xyzzy"


@pytest.fixture
def shell(tmp_path: Path) -> CommandLine:
    shell = CommandLine(tmp_path / "memory")
    shell.write(node("ours", x=1))
    shell.write(node("theirs", word=WORD), node("more"), tenant="acme")
    return shell


def test_tenants_are_listed_with_what_they_hold(shell: CommandLine) -> None:
    found = shell.run("tenants", "list", "--json").json["tenants"]
    assert [(each["tenant"], each["commits"], each["open_in"]) for each in found] == [
        ("default", 1, []), ("acme", 2, []),
    ]  # fmt: skip
    shown = shell.run("tenants", "show", "acme", "--json").json
    assert shown["home"] == str(shell.base / "tenants" / "acme")
    assert shown["bytes"] > shown["log_bytes"] > 0
    with pytest.raises(NotFound) as refused:
        shell.run("tenants", "show", "nobody")
    assert refused.value.hint == "the tenants are: default, acme"


def test_a_deleted_tenant_leaves_nothing_but_a_line_in_the_audit_log(shell: CommandLine, tmp_path: Path) -> None:
    shell.run("export", tmp_path / "acme.jsonl", "--tenant", "acme")
    report = shell.run("tenants", "delete", "acme", "--reason", "contract ended", "--yes", "--json").json
    assert (report["commits"], report["position"], report["reason"]) == (2, 2, "contract ended")
    assert [each["target"] for each in report["backups_left"]] == [str(tmp_path / "acme.jsonl")]
    assert found_in(shell.base, WORD) == []
    assert list((shell.base / "tenants").iterdir()) == []
    (event,) = [event for _, event in events(shell.base / "_system" / "audit", TenantDeleted)]
    assert (event.tenant, event.actor, event.commits) == ("acme", "default-agent", 2)
    assert event.log_hash == report["record_hash"]
    assert verify_audit(shell.base / "_system" / "audit").sound
    assert [each["tenant"] for each in shell.run("tenants", "list", "--json").json["tenants"]] == ["default"]
    assert shell.run("show", "ours", "--json").json["entity"]["attrs"] == {"x": 1}


def test_without_yes_its_name_is_asked_for(shell: CommandLine) -> None:
    with pytest.raises(InvalidArgument, match="nothing was erased"):
        shell.run("tenants", "delete", "acme", stdin="other\n")
    assert shell.run("tenants", "show", "acme", "--json").json["commits"] == 2
    assert "2 commits" in shell.run("tenants", "delete", "acme", stdin="acme\n").out
    assert found_in(shell.base, WORD) == []


def test_the_base_itself_is_not_deleted(shell: CommandLine) -> None:
    with pytest.raises(InvalidArgument) as refused:
        shell.run("tenants", "delete", "default", "--yes")
    assert refused.value.code == "TENANT_IS_BASE"
    assert shell.run("verify").code == 0


def test_a_tenant_that_a_server_has_open_is_not_deleted(shell: CommandLine) -> None:
    async def story() -> None:
        async with connect(shell.base, "--tenant", "acme") as client:
            await call(client, "memory.read", entity_id="theirs")
            with pytest.raises(Conflict) as refused:
                await asyncio.to_thread(shell.run, "tenants", "delete", "acme", "--yes")
            assert refused.value.code == "TENANT_IN_USE"
            written = {"id": "later", "type": "note", "attrs": {}}
            await call(client, "memory.write", op="UPSERT_NODE", node=written)

    asyncio.run(story())
    assert shell.run("show", "later", "--tenant", "acme", "--json").json["entity"]["id"] == "later"
    shell.run("tenants", "delete", "acme", "--yes")
    assert found_in(shell.base, WORD) == []


def test_what_a_deletion_that_was_killed_left_goes_with_the_next(shell: CommandLine) -> None:
    aside = shell.base / "tenants" / ".deleting-zeta-0a1b2c3d"
    (shell.base / "tenants" / "acme").rename(aside)
    assert [each["tenant"] for each in shell.run("tenants", "list", "--json").json["tenants"]] == ["default"]
    shell.write(node("x"), tenant="beta")
    shell.run("tenants", "delete", "beta", "--yes")
    assert found_in(shell.base, WORD) == []
    assert json.loads(shell.run("tenants", "list", "--json").out)["tenants"][0]["tenant"] == "default"


def test_a_deletion_that_cannot_be_written_down_is_not_done(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: AuditFiles, lines: object) -> None:
        raise StorageRefused("the disk is full")

    monkeypatch.setattr(AuditFiles, "append", full)
    with pytest.raises(StorageRefused):
        shell.run("tenants", "delete", "acme", "--yes")
    monkeypatch.undo()
    assert shell.run("tenants", "show", "acme", "--json").json["commits"] == 2
    assert shell.run("verify", "--tenant", "acme").code == 0


@pytest.mark.parametrize("below", ["", "_content"])
def test_a_tenant_that_lies_elsewhere_by_a_link_is_not_said_to_be_deleted(
    shell: CommandLine, tmp_path: Path, below: str
) -> None:
    home = shell.base / "tenants" / "acme" / below
    home.mkdir(exist_ok=True)
    home.rename(tmp_path / "disk")
    home.symlink_to(tmp_path / "disk")
    with pytest.raises(Conflict) as refused:
        shell.run("tenants", "delete", "acme", "--yes")
    assert refused.value.code == "TENANT_HAS_LINKS"
    assert shell.run("tenants", "show", "acme", "--json").json["commits"] == 2
    assert list(events(shell.base / "_system" / "audit", TenantDeleted)) == []


@pytest.mark.parametrize("put", [os.rename, shutil.copytree, os.symlink])
def test_the_log_of_another_tenant_is_refused_and_stays_sound(
    shell: CommandLine, put: Callable[[Path, Path], object]
) -> None:
    acme, beta = shell.base / "tenants" / "acme", shell.base / "tenants" / "beta"
    put(acme, beta)
    log = beta / "_system" / "log" / "00000000000000000001.jsonl"
    before = log.read_bytes()
    with pytest.raises(Corrupt, match="this is the log of tenant 'acme'"):
        shell.write(node("new"), tenant="beta")
    assert log.read_bytes() == before
    told = shell.run("verify", "--tenant", "beta")
    assert (told.code, "tenant is 'acme' in a log of 'beta'" in told.err) == (1, True)
    assert "tenant is 'acme' in a log of 'beta'" in shell.run("doctor", "--tenant", "beta").out
    if put is os.rename:
        beta.rename(acme)
    assert shell.run("verify", "--tenant", "acme").code == 0


def test_a_tenants_directory_that_was_made_a_base_is_refused_and_stays_sound(
    shell: CommandLine, tmp_path: Path
) -> None:
    shutil.copytree(shell.base / "tenants" / "acme", tmp_path / "alone")
    with pytest.raises(Corrupt, match="this is the log of tenant 'acme'"):
        shell.run("remember", "something", "--base", tmp_path / "alone")


@pytest.mark.parametrize("name", ["acme.bak", "ACME", "default", ".deleting-acme-0a1b2c3d"])
def test_a_directory_that_can_be_no_tenants_holds_nothing_up_and_is_told(
    shell: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("tallystick.operations.leftover_scan._PATIENCE_SECONDS", 0.0)
    shutil.copytree(shell.base / "tenants" / "acme", shell.base / "tenants" / name)
    assert [each["tenant"] for each in shell.run("tenants", "list", "--json").json["tenants"]] == ["default", "acme"]
    backed_up = shell.run("backup", "make", f"file://{tmp_path}/store", "--json").json["tenants"]
    assert [each["tenant"] for each in backed_up] == ["acme", "default"]
    assert f"no tenants: {name} in" in shell.run("doctor").out
    forgotten = shell.run("forget", "--subject", WORD, "--yes", "--json").json
    assert [row["tenant"] for row in forgotten["redacted"]] == ["acme"]
    assert all(path.startswith(f"tenants/{name}/") for path in forgotten["files_that_still_name_it"])
    assert not forgotten["complete"]
