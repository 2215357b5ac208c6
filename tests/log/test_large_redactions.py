"""Redactions of entities with many commits: what they cost, and what a crash in the middle of one leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tallystick.commits import Draft, Operation, Verb
from tallystick.engine.partition import Partition
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.log.proof import prove
from tallystick.log.segments import Segments
from tallystick.state.state import State
from tallystick.system.turns import finished
from tests.commits_by_hand import draft, node
from tests.files_with import files_with

VERSIONS = 60
SECRET = b"ada@example.org"


def redacting(state: State) -> Draft:
    said = {"node_id": "a", "reason": "asked"}
    return draft(Operation(Verb.REDACT_NODE, said, redacts=finished(state.redaction("a", None))))


async def filled(base: Path) -> Partition:
    """In several segments, with commits of other entities in between."""
    partition = Partition(FilesLog(base, segment_bytes_max=8_000))
    await partition.open()
    for number in range(VERSIONS):
        await partition.commit(lambda state, n=number: draft(node("a", email=f"{n} {SECRET.decode()}")))  # type: ignore[misc]
        if number % 3 == 0:
            await partition.commit(lambda state: draft(node("b")))
    return partition


async def test_each_segment_is_synced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = await filled(tmp_path)
    syncs: list[int] = []
    real = os.fdatasync

    def counted(fd: int) -> None:
        syncs.append(fd)
        real(fd)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", counted)
        await partition.commit(redacting)
    segments = len(list((tmp_path / "log").iterdir()))
    assert 1 < segments < VERSIONS // 2
    assert len(syncs) <= segments + 2
    assert files_with(SECRET, tmp_path) == []
    await partition.close()
    assert prove(tmp_path).sound


async def test_commits_in_a_row_are_found_by_a_read_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = await filled(tmp_path)
    log = FilesLog(tmp_path)
    offsets = {entry.commit.lamport: entry.offset for entry in log.read(Head())}
    bisected: list[int] = []
    real = Segments._bisected

    def counted(self: Segments, lamport: int) -> int | None:
        bisected.append(lamport)
        return real(self, lamport)

    monkeypatch.setattr(Segments, "_bisected", counted)
    assert log._segments.find(offsets.keys()) == offsets
    assert bisected == []
    assert log._segments.find([5, 6, 7, 40, 41, 10_000]) == {each: offsets[each] for each in (5, 6, 7, 40, 41)}
    assert bisected == [5, 40, 10_000]
    log.close()
    await partition.close()


@pytest.mark.parametrize("masked", [0, 1, VERSIONS // 2, VERSIONS - 1])
async def test_a_redaction_that_ends_in_the_middle_of_its_masks_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, masked: int
) -> None:
    partition = await filled(tmp_path)
    witness = Partition(FilesLog(tmp_path))
    await witness.open()
    real = os.pwrite
    written: list[int] = []

    def broken(fd: int, data: bytes, place: int) -> int:
        if b"[REDACTED]" in data:
            if len(written) == masked:
                raise OSError(5, "Input/output error")
            written.append(place)
        return real(fd, data, place)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", broken)
        receipt = await partition.commit(redacting)
    assert receipt.erasure_pending == ("log",)
    found = await witness.look(lambda state: state.node("a"))
    assert found is not None
    assert SECRET.decode() not in str(found.attrs)
    assert await witness.look(lambda state: state.having("email")) == []
    await partition.close()
    await witness.close()
    FilesLog(tmp_path).close()
    assert files_with(SECRET, tmp_path) == []
    assert prove(tmp_path).sound
