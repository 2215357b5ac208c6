"""The proof of the blobs: each that a commit names is there, whole; what was redacted is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tallystick.projections.blobs import BlobProof, prove_blobs
from tests.projections.test_views import redact
from tests.projections.workspace import DEFINITIONS, Workspace, connection, memory, text
from tests.promises import promise

LARGE = "Many words. " * 30_000


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path)
    workspace.write(*DEFINITIONS)
    workspace.write(memory("roof", "Project", text("Small enough for the log.")), memory("call", "Action"))
    workspace.write(memory("book", "Project", workspace.prepared("nodes", "book", LARGE)))
    workspace.write(
        connection("next", "roof", "NextAction", "call", workspace.prepared("connections", "next", LARGE.upper()))
    )
    yield workspace
    workspace.close()


def test_blobs_that_are_whole_are_counted(workspace: Workspace) -> None:
    progress: list[int] = []
    assert prove_blobs(workspace.home, progress.append) == BlobProof(2, 2 * len(LARGE), [])
    assert progress[-1] == 2 * len(LARGE)


@promise("proof, blobs", "verify names a blob that a commit names and that is missing or damaged, and its entity")
@pytest.mark.parametrize("entity", ["book", "next"])
def test_a_changed_byte_is_named_with_its_entity(workspace: Workspace, entity: str) -> None:
    path = _blob_of(workspace, entity)
    path.write_bytes(path.read_bytes()[:-2] + b"!" + path.read_bytes()[-1:])
    (problem,) = prove_blobs(workspace.home).problems
    assert (problem.file, problem.entity) == (f"_content/blobs/{path.name}", entity)
    assert "damaged" in problem.problem
    assert "restore" in problem.advice
    workspace.prepared(
        "nodes" if entity == "book" else "connections", entity, LARGE if entity == "book" else LARGE.upper()
    )
    assert prove_blobs(workspace.home).sound, "writing the same content again replaces it"


def test_a_missing_one_is_named(workspace: Workspace) -> None:
    _blob_of(workspace, "book").unlink()
    (problem,) = prove_blobs(workspace.home).problems
    assert (problem.entity, problem.problem) == ("book", "it is missing")


def test_what_is_no_file_is_named(workspace: Workspace) -> None:
    path = _blob_of(workspace, "book")
    path.rename(workspace.home / "elsewhere")
    path.symlink_to(workspace.home / "elsewhere")
    (problem,) = prove_blobs(workspace.home).problems
    assert "cannot be read" in problem.problem


def test_an_attribute_that_looks_like_a_blob_names_none(workspace: Workspace) -> None:
    workspace.write(memory("fake", "Project", blob="0" * 64))
    assert prove_blobs(workspace.home).sound


def test_an_older_version_is_proven_too(workspace: Workspace) -> None:
    old = _blob_of(workspace, "book")
    workspace.write(memory("book", "Project", text("A short one now.")))
    assert prove_blobs(workspace.home).sound
    old.unlink()
    assert not prove_blobs(workspace.home).sound


def test_what_was_redacted_and_is_gone_is_right(workspace: Workspace) -> None:
    blob = _blob_of(workspace, "book")
    redact(workspace, "book")
    assert not blob.exists()
    assert prove_blobs(workspace.home) == BlobProof(1, len(LARGE), [])


@promise("L51, blobs", "verify names a blob that a redaction should have removed")
def test_what_was_redacted_and_is_still_there_is_named(workspace: Workspace) -> None:
    blob = _blob_of(workspace, "book")
    kept = blob.read_bytes()
    redact(workspace, "book")
    blob.write_bytes(kept)
    os.utime(blob, (1_600_000_000, 1_600_000_000))
    (problem,) = prove_blobs(workspace.home).problems
    assert problem.file == f"_content/blobs/{blob.name}"
    assert "redacted" in problem.problem
    assert "doctor --repair" in problem.advice


def test_what_a_writer_left_that_died_is_no_damage(workspace: Workspace) -> None:
    """Nobody redacted anything: it is only debris, which the doctor tells."""
    workspace.prepared("nodes", "draft", LARGE.lower())
    for path in (workspace.home / "_content" / "blobs").iterdir():
        os.utime(path, (1_600_000_000, 1_600_000_000))
    assert prove_blobs(workspace.home).sound


def _blob_of(workspace: Workspace, entity: str) -> Path:
    words = LARGE if entity == "book" else LARGE.upper()
    return workspace.home / "_content" / "blobs" / sha256(words.encode()).hexdigest()
