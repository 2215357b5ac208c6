"""A file that leaves the house encrypted: pieces, each sealed as an object of a backup is.

    TSF1 | id of the file, 16 bytes | (length of the piece, 4 | the piece) …

A piece is sealed under the file's id, its number and whether it is the last one: pieces that are missing, changed,
in another order or of another file are refused.
"""

from __future__ import annotations

import secrets
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

from tallystick.config import Settings
from tallystick.errors import Corrupt, InvalidArgument
from tallystick.extensions.backup.encryption import MAGIC as SEALED
from tallystick.extensions.backup.encryption import BackupKey, BackupKeys, load_backup_keys

MAGIC = b"TSF1"
PIECE_BYTES = 1 << 20
_PIECE_BYTES_MAX = PIECE_BYTES + 1024
_ID = 16
_LENGTH = struct.Struct(">I")


def sealing(settings: Settings, file: Path | None) -> Callable[[BinaryIO], AbstractContextManager[SealingFile]]:
    """Return how to encrypt what is written to a target with the newest key. Raises InvalidArgument without a key."""
    key = load_backup_keys(settings, file).newest
    if key is None:
        raise InvalidArgument(
            "there is no key to encrypt with",
            code="BACKUP_KEY_MISSING",
            hint="'tallystick backup new-key FILE' makes one; name it by --key or backup_key",
        )

    @contextmanager
    def sealed(target: BinaryIO) -> Iterator[SealingFile]:
        sealing = SealingFile(target, key)
        yield sealing
        sealing.finish()

    return sealed


@contextmanager
def unsealed(settings: Settings, source: BinaryIO, file: Path | None) -> Iterator[tuple[BinaryIO, int]]:
    """Yield what was encrypted and how many bytes it is, decrypted into a file without a name."""
    with tempfile.TemporaryFile() as plain:
        size = open_sealed(source, plain, load_backup_keys(settings, file))
        plain.seek(0)
        yield plain, size


class SealingFile:
    """To be written to. `finish` writes the last piece: without it the file is refused by who opens it."""

    def __init__(self, target: BinaryIO, key: BackupKey) -> None:
        self._target = target
        self._key = key
        self._id = secrets.token_bytes(_ID)
        self._number = 0
        self._waiting = bytearray()
        target.write(MAGIC + self._id)

    def write(self, data: bytes) -> int:
        self._waiting += data
        # More than a piece, so that something is left for the last one.
        while len(self._waiting) > PIECE_BYTES:
            self._write_piece(bytes(self._waiting[:PIECE_BYTES]), is_last=False)
            del self._waiting[:PIECE_BYTES]
        return len(data)

    def finish(self) -> None:
        self._write_piece(bytes(self._waiting), is_last=True)
        self._waiting.clear()

    def _write_piece(self, data: bytes, *, is_last: bool) -> None:
        sealed = self._key.seal(_name(self._id, self._number, is_last), data)
        self._target.write(_LENGTH.pack(len(sealed)) + sealed)
        self._number += 1


def is_sealed(start: bytes) -> bool:
    return start.startswith(MAGIC)


def open_sealed(source: BinaryIO, target: BinaryIO, keys: BackupKeys) -> int:
    """Decrypts the whole of it; how many bytes came out. Raises InvalidArgument without the key, and Corrupt: what was
    written until then is not to be used."""
    header = source.read(len(MAGIC) + _ID)
    if len(header) != len(MAGIC) + _ID or not is_sealed(header):
        raise _damaged("its beginning is missing")
    file_id, number, size = header[len(MAGIC) :], 0, 0
    piece = _read_piece(source)
    while piece is not None:
        following = _read_piece(source)
        size += target.write(keys.open(_name(file_id, number, following is None), piece))
        piece, number = following, number + 1
    if number == 0:
        raise _damaged("it has no piece")
    return size


def _read_piece(source: BinaryIO) -> bytes | None:
    start = source.read(_LENGTH.size)
    if not start:
        return None
    length = _LENGTH.unpack(start)[0] if len(start) == _LENGTH.size else _PIECE_BYTES_MAX + 1
    data = source.read(length) if length <= _PIECE_BYTES_MAX else b""
    # A piece that is not sealed would be taken as it is.
    if len(data) != length or not data.startswith(SEALED):
        raise _damaged("a piece of it is cut off or is none")
    return data


def _name(file_id: bytes, number: int, is_last: bool) -> str:
    return f"file {file_id.hex()}, {'last ' if is_last else ''}piece {number}"


def _damaged(why: str) -> Corrupt:
    return Corrupt(
        f"the encrypted file cannot be read: {why}", code="BACKUP_DAMAGED", hint="nothing was changed; take another one"
    )
