"""Every byte of the mark counts: one that was changed, added or lost is noticed."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tallystick.errors import Corrupt
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.log.head_file import SECTOR_BYTES, HeadFile, decode_head, encode_head
from tallystick.log.proof import prove
from tests.commits_by_hand import filled
from tests.promises import promise

HEAD = Head(7, 7, 4_242, "ab" * 32, "cd" * 32, "2025-01-04T12:00:00.000Z")

WRITTEN = (
    b'4afef980 {"lamport":7,"count":7,"end":4242,"record_hash":"' + b"ab" * 32 + b'","commit_id":"' + b"cd" * 32
    + b'","timestamp":"2025-01-04T12:00:00.000Z"}'
).ljust(511) + b"\n"  # fmt: skip
"""A sector as released versions wrote it."""


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader looks again for a while at what may be half-written; here nobody is writing."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


def test_the_format_is_the_one_that_was_released() -> None:
    assert encode_head(HEAD) == WRITTEN
    assert decode_head(WRITTEN) == HEAD


@promise("L55, the mark", "no byte of the kept position can be changed unnoticed")
def test_no_byte_can_become_another_unnoticed() -> None:
    raw = encode_head(HEAD)
    changed = (
        (at, value)
        for at in range(SECTOR_BYTES)
        for value in range(256)
        if value != raw[at] and decode_head(raw[:at] + bytes([value]) + raw[at + 1 :]) is not None
    )
    assert list(changed) == []


def test_a_sector_that_became_longer_or_shorter_is_no_mark() -> None:
    raw = encode_head(HEAD)
    for at in range(SECTOR_BYTES + 1):
        assert decode_head(raw[:at] + b" " + raw[at:]) is None
        assert at == SECTOR_BYTES or decode_head(raw[:at]) is None
        assert at == SECTOR_BYTES or decode_head(raw[:at] + raw[at + 1 :]) is None


def _padded_with_a_tab(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[500] = ord("\t")
    path.write_bytes(bytes(raw))


def _longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("harm", [_padded_with_a_tab, _longer, _empty, _a_directory])
def test_a_damaged_mark_stops_the_log_is_named_and_stays_as_it_is(tmp_path: Path, harm: object) -> None:
    assert callable(harm)
    log = FilesLog(tmp_path / "sound")
    filled(log, 2)
    log.close()
    shutil.copytree(tmp_path / "sound", tmp_path / "harmed")
    harm(tmp_path / "harmed" / "head")
    with pytest.raises(Corrupt) as caught:
        FilesLog(tmp_path / "harmed")
    assert (caught.value.details["file"], caught.value.details["line"]) == (str(tmp_path / "harmed" / "head"), 1)
    proof = prove(tmp_path / "harmed")
    assert proof.problem is not None
    assert "head" in proof.problem
    assert prove(tmp_path / "sound").sound


@pytest.mark.usefixtures("impatient")
def test_a_half_written_sector_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head_file = HeadFile(tmp_path / "head")
    head_file.write(HEAD)
    (tmp_path / "head").write_bytes(WRITTEN[:100].ljust(SECTOR_BYTES))
    monkeypatch.setattr(time, "sleep", lambda seconds: void((tmp_path / "head").write_bytes(WRITTEN)))
    assert HeadFile(tmp_path / "head").read() == HEAD


def void(_: object) -> None: ...
