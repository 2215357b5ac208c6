"""Orphaned blobs: what a writer that died left of a content is found by the doctor, and removed when it is told to."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest

from tallystick.config import Settings, load
from tallystick.operations import orphans
from tallystick.operations.orphans import AGE_SECONDS_MIN, find_orphans, remove_orphans
from tallystick.projections.content import Contents, Prepared
from tests.command_line import CommandLine, node
from tests.projections.workspace import Workspace, memory

LARGE = b"\x89PNG" + b"x" * 300_000


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "memory").mkdir()
    return Workspace(tmp_path / "memory")


@pytest.fixture
def settings(workspace: Workspace) -> Settings:
    return load({"base": workspace.home}, environ={})


def kept(contents: Contents, data: bytes, *, hours_ago: float = 2.0) -> Prepared:
    """As a writer does it that dies before the append."""
    prepared = contents.prepare("nodes", "n", "png", "base64", data)
    blob = contents.files.root / "_content" / "blobs" / prepared.content["blob"]
    then = blob.stat().st_mtime - hours_ago * AGE_SECONDS_MIN
    os.utime(blob, (then, then))
    return prepared


def blobs(workspace: Workspace) -> set[str]:
    return set(workspace.contents.blobs())


def test_only_old_blobs_that_no_commit_names_are_orphans(workspace: Workspace, settings: Settings) -> None:
    named = kept(workspace.contents, LARGE + b"named")
    workspace.append(memory("n", "Project", named.content))
    workspace.append(memory("n", "Project"))
    kept(workspace.contents, LARGE + b"young", hours_ago=0.9)
    lost = kept(workspace.contents, LARGE + b"lost").content
    assert find_orphans(settings) == {lost["blob"]: lost["bytes"]}
    before = blobs(workspace)
    assert remove_orphans(settings) == {lost["blob"]: lost["bytes"]}
    assert blobs(workspace) == before - {lost["blob"]}
    assert remove_orphans(settings) == {}


def test_a_blob_that_is_named_across_two_pieces_of_the_log_is_named(
    workspace: Workspace, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        workspace.append(memory(f"n{number}", "Project", kept(workspace.contents, LARGE + b"%d" % number).content))
    monkeypatch.setattr(orphans, "_PIECE_BYTES", 101)
    assert find_orphans(settings) == {}


def test_a_blob_that_somebody_counted_on_meanwhile_is_left_alone(
    workspace: Workspace, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = LARGE + b"again"
    lost = kept(workspace.contents, data).content["blob"]
    found = find_orphans(settings)
    monkeypatch.setattr(orphans, "find_orphans", lambda settings: found)
    workspace.contents.prepare("nodes", "m", "png", "base64", data)
    assert (remove_orphans(settings), blobs(workspace)) == ({}, {lost})


def test_the_doctor_names_orphans_and_removes_them_only_when_told_to(tmp_path: Path) -> None:
    shell = CommandLine(tmp_path / "memory")
    shell.write(node("a"))
    blob = kept(Contents(shell.base), LARGE).content["blob"]
    assert blob == sha256(LARGE).hexdigest()
    told = shell.run("doctor", "--json").json
    (finding,) = [each for each in told["findings"] if each["what"] == "blobs"]
    assert (finding["status"], blob in finding["found"], "--repair" in finding["advice"]) == ("odd", True, True)
    assert (shell.base / "_content" / "blobs" / blob).exists()
    told = shell.run("doctor", "--repair", "--json").json
    assert (told["sound"], told["removed"]) == (True, [blob])
    assert not (shell.base / "_content" / "blobs" / blob).exists()
    assert shell.run("doctor", "--repair", "--json").json["removed"] == []
