"""Laws of damage to an audit log: it goes on, says so, and nothing that was there is cut, moved or written over."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tallystick.audit import encode
from tallystick.audit.files import AuditFiles
from tallystick.audit.proof import verify_audit
from tallystick.log.head_file import SECTOR_BYTES
from tests.laws.test_damage import harms
from tests.promises import promise
from tests.test_audit import Clock, decided

TORN = b'{"seq":9,"event":"AUTHZ'


class AuditDirectory:
    def __init__(self, directory: Path, *, mark: bool, file_bytes_max: int = 1 << 20) -> None:
        self.directory = directory
        self._file_bytes_max = file_bytes_max
        self.write("one")
        self.write("two")
        if not mark:
            (directory / "head").unlink()
        self.sound = self.files()

    def write(self, resource: str) -> None:
        trail = AuditFiles(self.directory, clock=Clock(), file_bytes_max=self._file_bytes_max)
        trail.append([encode(decided(resource))])
        trail.close()

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.directory.iterdir() if path.is_file()}

    def put(self, files: dict[str, bytes]) -> None:
        for name in self.files().keys() - files.keys():
            (self.directory / name).unlink()
        for name, data in files.items():
            (self.directory / name).write_bytes(data)

    def check_goes_on(self, harmed: dict[str, bytes], what: object) -> None:
        self.put(harmed)
        assert not verify_audit(self.directory).sound, f"{what}: found by nobody"
        assert self.files() == harmed
        self.write("after")
        after = self.files()
        for name, data in harmed.items():
            if name.endswith(".jsonl"):
                assert after[name].startswith(data), f"{what}: {name} lost something"
        assert any(b'"after"' in data for data in after.values())
        assert not verify_audit(self.directory).sound, f"{what}: hidden by writing on"

    def check_settled(self, harmed: dict[str, bytes]) -> None:
        self.put(harmed)
        self.write("after")
        assert verify_audit(self.directory).sound
        for name, data in self.sound.items():
            assert name in ("head", "lock") or self.files()[name].startswith(data)


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here, and thousands of syncs take minutes."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


@promise("L55, audit", "harm to any byte of the audit log is found, stays as it is, and the log goes on")
@pytest.mark.parametrize("part", range(3))
def test_bytes_harmed_anywhere_are_found_and_stay(tmp_path: Path, part: int) -> None:
    kept = AuditDirectory(tmp_path, mark=True)
    (name,) = (each for each in kept.sound if each.endswith(".jsonl"))
    sound = kept.sound[name]
    for what, data in harms(sound, range(part, len(sound), 3)):
        if data.startswith(sound):
            kept.check_settled({**kept.sound, name: data})
        else:
            kept.check_goes_on({**kept.sound, name: data}, what)


@pytest.mark.parametrize("mark", [True, False], ids=["with-mark", "without-mark"])
def test_a_torn_end_on_a_harmed_log_stays(tmp_path: Path, mark: bool) -> None:
    kept = AuditDirectory(tmp_path, mark=mark)
    (name,) = (each for each in kept.sound if each.endswith(".jsonl"))
    sound = kept.sound[name]
    for what, data in harms(sound, range(0, len(sound), 7)):
        if not data.startswith(sound):
            kept.check_goes_on({**kept.sound, name: data + TORN}, what)


def test_a_torn_end_alone_is_settled(tmp_path: Path) -> None:
    kept = AuditDirectory(tmp_path, mark=True)
    (name,) = (each for each in kept.sound if each.endswith(".jsonl"))
    kept.check_settled({**kept.sound, name: kept.sound[name] + TORN})
    kept.check_settled({**kept.sound, name: kept.sound[name] + bytes(700) + b"\n"})


def test_files_harmed_as_a_whole_are_found_and_stay(tmp_path: Path) -> None:
    kept = AuditDirectory(tmp_path, mark=True, file_bytes_max=300)
    names = sorted(each for each in kept.sound if each.endswith(".jsonl"))
    assert len(names) == 2
    one, other = names
    whole = kept.sound[one] + kept.sound[other]
    following = f"{int(other.removesuffix('.jsonl')) + 2:020d}.jsonl"
    for border in (*range(0, len(whole) + 1, 13), len(kept.sound[one]) - 1, len(kept.sound[one]) + 1):
        if border != len(kept.sound[one]):
            kept.check_goes_on({**kept.sound, one: whole[:border], other: whole[border:]}, border)
    kept.check_goes_on({**kept.sound, one: kept.sound[other], other: kept.sound[one]}, "swapped")
    for name in names:
        kept.check_goes_on({**kept.sound, name: b""}, "emptied")
        kept.check_goes_on({key: data for key, data in kept.sound.items() if key != name}, "removed")
    kept.check_goes_on({**kept.sound, one: kept.sound[one] + b"x"}, "longer, though another file follows")
    for garbage in (b"", b"garbage\n", kept.sound[one]):
        kept.put({**kept.sound, following: garbage})
        kept.write("after")
        assert kept.files()[following] == garbage


def test_no_byte_of_the_mark_can_become_another_unnoticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = AuditDirectory(tmp_path, mark=True)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    sector = kept.sound["head"]
    for at in range(0, SECTOR_BYTES, 3):
        harmed = sector[:at] + (b"\t" if sector[at : at + 1] == b" " else b" ") + sector[at + 1 :]
        kept.check_goes_on({**kept.sound, "head": harmed}, at)
        assert harmed in [data for name, data in kept.files().items() if name.startswith("head.rejected-")]
