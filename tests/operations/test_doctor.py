"""The doctor says where the room goes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tallystick.clock import wall_clock
from tallystick.config import load
from tallystick.extensions.backup.encryption import add_backup_key
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.operations.doctor import examine
from tests.command_line import CommandLine
from tests.command_line import node as command_node
from tests.commits_by_hand import append, draft, entries, node


def test_a_key_for_backups_that_cannot_be_used_is_told_before_a_backup_fails(tmp_path: Path) -> None:
    log = FilesLog(tmp_path / "base" / "_system")
    append(log, draft(node("a")))
    log.close()
    key = tmp_path / "key"
    settings = load({"base": tmp_path / "base"}, environ={"TALLYSTICK_BACKUP_KEY": str(key)})

    def told() -> tuple[str, str]:
        [found] = [each for each in examine(settings) if each.what == "backup key"]
        return found.status, found.found

    assert told() == ("bad", f"the key file {key} cannot be read: No such file or directory")
    [made] = add_backup_key(settings, key)
    assert told() == ("good", f"{made.id}, in {key}")
    key.chmod(0o644)
    assert told() == ("bad", f"{key} can be read or written by others")


def test_the_share_of_each_part_of_the_disk_is_told(tmp_path: Path) -> None:
    log = FilesLog(tmp_path / "_system")
    append(log, draft(node("a", body="x" * 2_000)))
    log.close()
    size = sum(path.stat().st_size for path in (tmp_path / "_system" / "log").iterdir())
    (tmp_path / "graph.db").write_bytes(b"x" * size)
    (tmp_path / "elsewhere").symlink_to("/")
    [found] = [each.found for each in examine(load({"base": tmp_path}, environ={})) if each.what == "disk"]
    half = f"{size / 1024:.1f} KiB (50%)"
    assert found == f"{size * 2 / 1024:.1f} KiB: log {half}, graph.db {half}"


@pytest.mark.parametrize("name", ["stored_backups.json", "verification.json", "replica.json", "sql.trouble"])
def test_a_pipe_in_the_place_of_a_file_of_ours_is_not_waited_for(tmp_path: Path, name: str) -> None:
    FilesLog(tmp_path / "_system").close()
    os.mkfifo(tmp_path / "_system" / name)
    assert examine(load({"base": tmp_path}, environ={}))


@pytest.mark.parametrize(("ahead_ms", "status"), [(0, "good"), (86_400_000, "odd")])
def test_a_commit_from_the_future_is_told(tmp_path: Path, ahead_ms: int, status: str) -> None:
    log = FilesLog(tmp_path / "_system")
    log.append(entries(Head(), draft(node("a")), now=wall_clock() + ahead_ms), expected=Head())
    log.close()
    [found] = [each for each in examine(load({"base": tmp_path}, environ={})) if each.what == "last commit"]
    assert found.status == status
    assert ("clock" in (found.advice or "")) == (status == "odd")


def test_an_audit_log_that_verify_refuses_does_not_look_sound(tmp_path: Path) -> None:
    FilesLog(tmp_path / "_system").close()
    shell = CommandLine(tmp_path)
    shell.write(command_node("a"))
    assert _audit(tmp_path) == "good"
    [file] = (tmp_path / "_system" / "audit").glob("*.jsonl")
    said = file.read_bytes()
    file.write_bytes(said.replace(b"ALLOW", b"DENIE", 1).replace(b"default-agent", b"another-agent", 1))
    assert _audit(tmp_path) == "bad"
    shutil.rmtree(tmp_path / "_system" / "audit")
    (tmp_path / "_system" / "audit").write_text("in the way")
    assert _audit(tmp_path) == "bad"


def _audit(base: Path) -> str:
    [found] = [each for each in examine(load({"base": base}, environ={})) if each.what == "audit log"]
    return found.status


def test_a_redaction_that_has_not_reached_a_copy_is_unsound(tmp_path: Path) -> None:
    """Of two copies that hold it, each is listed."""
    memory = CommandLine(tmp_path / "memory")
    memory.write(command_node("person", name="Jane Roe"))
    memory.run("catch-up")
    copies = [memory.base / "graph.db", memory.base / "_system/views.db"]
    before = [path.read_bytes() for path in copies]
    memory.write({"op": "REDACT_NODE", "node_id": "person", "reason": "asked"})
    assert memory.main("doctor").code == 0
    assert memory.main("verify", "--views").code == 0
    for path, data in zip(copies, before, strict=True):
        path.write_bytes(data)
    found = memory.main("doctor", "--json")
    listed = [each["found"] for each in found.json["findings"] if each["what"] == "erasure" and each["status"] == "bad"]
    assert (found.code, len(listed)) == (1, 2)
    verified = memory.main("verify", "--views", "--json")
    assert (verified.code, len(verified.json["unerased"])) == (1, 2)
    memory.run("catch-up")
    assert memory.main("doctor").code == 0
