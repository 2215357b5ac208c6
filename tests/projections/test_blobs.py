"""The proof of the blobs: each that a commit names is there, whole; what was redacted is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tallystick.projections.blobs import BlobProof, prove_blobs
from tests.projections.desk import DEFINITIONS, Desk, connection, memory, text
from tests.projections.test_views import redact

LARGE = "Many words. " * 30_000


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    desk = Desk(tmp_path)
    desk.write(*DEFINITIONS)
    desk.write(memory("roof", "Project", text("Small enough for the log.")), memory("call", "Action"))
    desk.write(memory("book", "Project", desk.prepared("nodes", "book", LARGE)))
    desk.write(connection("next", "roof", "NextAction", "call", desk.prepared("connections", "next", LARGE.upper())))
    yield desk
    desk.close()


def test_blobs_that_are_whole_are_counted(desk: Desk) -> None:
    progress: list[int] = []
    assert prove_blobs(desk.home, progress.append) == BlobProof(2, 2 * len(LARGE), [])
    assert progress[-1] == 2 * len(LARGE)


@pytest.mark.parametrize("entity", ["book", "next"])
def test_a_changed_byte_is_named_with_its_entity(desk: Desk, entity: str) -> None:
    path = _blob_of(desk, entity)
    path.write_bytes(path.read_bytes()[:-2] + b"!" + path.read_bytes()[-1:])
    (problem,) = prove_blobs(desk.home).problems
    assert (problem.file, problem.entity) == (f"_content/blobs/{path.name}", entity)
    assert "damaged" in problem.problem
    assert "restore" in problem.advice
    desk.prepared("nodes" if entity == "book" else "connections", entity, LARGE if entity == "book" else LARGE.upper())
    assert prove_blobs(desk.home).sound, "writing the same content again replaces it"


def test_a_missing_one_is_named(desk: Desk) -> None:
    _blob_of(desk, "book").unlink()
    (problem,) = prove_blobs(desk.home).problems
    assert (problem.entity, problem.problem) == ("book", "it is missing")


def test_what_is_no_file_is_named(desk: Desk) -> None:
    path = _blob_of(desk, "book")
    path.rename(desk.home / "elsewhere")
    path.symlink_to(desk.home / "elsewhere")
    (problem,) = prove_blobs(desk.home).problems
    assert "cannot be read" in problem.problem


def test_an_attribute_that_looks_like_a_blob_names_none(desk: Desk) -> None:
    desk.write(memory("fake", "Project", blob="0" * 64))
    assert prove_blobs(desk.home).sound


def test_an_older_version_is_proven_too(desk: Desk) -> None:
    old = _blob_of(desk, "book")
    desk.write(memory("book", "Project", text("A short one now.")))
    assert prove_blobs(desk.home).sound
    old.unlink()
    assert not prove_blobs(desk.home).sound


def test_what_was_redacted_and_is_gone_is_right(desk: Desk) -> None:
    blob = _blob_of(desk, "book")
    redact(desk, "book")
    assert not blob.exists()
    assert prove_blobs(desk.home) == BlobProof(1, len(LARGE), [])


def test_what_was_redacted_and_is_still_there_is_named(desk: Desk) -> None:
    blob = _blob_of(desk, "book")
    kept = blob.read_bytes()
    redact(desk, "book")
    blob.write_bytes(kept)
    os.utime(blob, (1_600_000_000, 1_600_000_000))
    (problem,) = prove_blobs(desk.home).problems
    assert problem.file == f"_content/blobs/{blob.name}"
    assert "redacted" in problem.problem
    assert "doctor --repair" in problem.advice


def test_what_a_writer_left_that_died_is_no_damage(desk: Desk) -> None:
    """Nobody redacted anything: it is only debris, which the doctor tells."""
    desk.prepared("nodes", "draft", LARGE.lower())
    for path in (desk.home / "_content" / "blobs").iterdir():
        os.utime(path, (1_600_000_000, 1_600_000_000))
    assert prove_blobs(desk.home).sound


def _blob_of(desk: Desk, entity: str) -> Path:
    words = LARGE if entity == "book" else LARGE.upper()
    return desk.home / "_content" / "blobs" / sha256(words.encode()).hexdigest()
