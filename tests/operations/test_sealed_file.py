"""Files that leave the house encrypted: who has the key reads them back, and what is not as it was is refused."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from tallystick.errors import Corrupt, InvalidArgument, TallystickError
from tallystick.extensions.backup.encryption import BackupKey, BackupKeys
from tallystick.extensions.backup.sealed_file import PIECE_BYTES, SealingFile, open_sealed
from tests.command_line import CommandLine, node

KEY = BackupKey.generate()
KEYS = BackupKeys((BackupKey.generate(), KEY))
_HEADER = 20


def sealed(data: bytes, key: BackupKey = KEY) -> bytes:
    target = BytesIO()
    sealing = SealingFile(target, key)
    for start in range(0, len(data), 300_001):
        sealing.write(data[start : start + 300_001])
    sealing.finish()
    return target.getvalue()


def opened(data: bytes, keys: BackupKeys = KEYS) -> bytes:
    target = BytesIO()
    size = open_sealed(BytesIO(data), target, keys)
    assert size == len(target.getvalue())
    return target.getvalue()


def pieces(data: bytes) -> list[bytes]:
    found, at = [], _HEADER
    while at < len(data):
        end = at + 4 + int.from_bytes(data[at : at + 4])
        found.append(data[at:end])
        at = end
    return found


LONG = bytes(range(256)) * (3 * PIECE_BYTES // 256)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_what_was_sealed_is_read_back_and_cannot_be_read_without_the_key(size: int) -> None:
    data = LONG[:size]
    written = sealed(data)
    assert opened(written) == data
    assert size < 256 or data[:256] not in written
    with pytest.raises(InvalidArgument) as refused:
        opened(written, BackupKeys((BackupKey.generate(),)))
    assert refused.value.code == "BACKUP_KEY_MISSING"


def test_pieces_that_are_missing_moved_doubled_or_of_another_file_are_refused() -> None:
    written, other = sealed(LONG), sealed(LONG)
    head, (first, second, third) = written[:_HEADER], pieces(written)
    for parts in (
        [first, second],
        [first, third],
        [second, first, third],
        [first, first, second, third],
        [first, pieces(other)[1], third],
        [first, second, third, third],
        [],
    ):
        with pytest.raises(Corrupt):
            opened(head + b"".join(parts))


@pytest.mark.parametrize("at", [0, 4, _HEADER, _HEADER + 3, _HEADER + 4, _HEADER + 10, _HEADER + 50, -1])
def test_a_file_that_was_changed_or_cut_anywhere_is_refused(at: int) -> None:
    written = sealed(b"a secret " * 10)
    changed = bytearray(written)
    changed[at] ^= 1
    for damaged in (bytes(changed), written[:at]):
        with pytest.raises(TallystickError):
            opened(damaged)


def test_a_piece_that_is_not_encrypted_is_not_taken_for_one() -> None:
    written = sealed(b"x")
    with pytest.raises(Corrupt):
        opened(written[:_HEADER] + (5).to_bytes(4) + b"plain")


def test_an_encrypted_export_becomes_the_very_same_log_again(tmp_path: Path) -> None:
    shell, again = CommandLine(tmp_path / "memory"), CommandLine(tmp_path / "again")
    shell.write(node("ada", said="xylophone"))
    key, file = tmp_path / "key", tmp_path / "export.sealed"
    shell.run("backup", "new-key", key)
    shell.run("export", "--encrypt", "--key", key, file)
    assert b"xylophone" not in file.read_bytes()
    again.run("import", file, "--key", key)
    assert log_of(again) == log_of(shell)


def log_of(shell: CommandLine) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((shell.base / "_system" / "log").glob("*.jsonl")))


def test_without_a_key_nothing_is_exported_and_nothing_imported(tmp_path: Path) -> None:
    shell, again = CommandLine(tmp_path / "memory"), CommandLine(tmp_path / "again")
    shell.write(node("ada"))
    file = tmp_path / "export.sealed"
    with pytest.raises(InvalidArgument, match="no key to encrypt with"):
        shell.run("export", "--encrypt", file)
    assert not file.exists()
    key, other = tmp_path / "key", tmp_path / "other"
    for each in (key, other):
        shell.run("backup", "new-key", each)
    shell.run("export", "--encrypt", "--key", key, file)
    for words in ((), ("--key", other)):
        with pytest.raises(InvalidArgument) as refused:
            again.run("import", file, *words)
        assert refused.value.code == "BACKUP_KEY_MISSING"
    assert not (again.base / "_system" / "log").exists()
