"""The mark: the durable head of a files log, kept apart from it.

One sector, rewritten in place after each sync of the log. It says two things that the log
cannot say of itself: how far it is durable (bytes behind the mark may still be lost, so no
reader shows them), and that its end was not cut off. It is never ahead of what the disk
holds; after a power cut it may be behind, and opening the log moves it forward again.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import msgspec

from tallystick.errors import Corrupt, LogError, Unreadable, exhaustion
from tallystick.log import Head
from tallystick.system.private_files import replace_file
from tallystick.system.regular_files import is_at

SECTOR_BYTES = 512
_TORN_READS_MAX = 200


class HeadFile:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1
        self._opening = threading.Lock()
        # One tuple, since the log's own thread writes it while the loop reads it.
        self._seen: tuple[bytes | None, Head | None] = (None, None)

    def read(self) -> Head | None:
        """None where there is no mark yet. A reader may meet a half-written sector: it looks again."""
        if self._fd < 0 and not self._open():
            return None
        for _ in range(_TORN_READS_MAX):
            try:
                # One byte more than there should be: what was added counts too.
                raw = os.pread(self._fd, SECTOR_BYTES + 1, 0)
            except OSError as error:
                raise self._unreadable(error) from error
            seen = self._seen
            if raw == seen[0]:
                return seen[1]
            head = decode_head(raw)
            if head is not None:
                self._seen = (raw, head)
                return head
            time.sleep(0.0005)
        raise Corrupt(
            f"the kept position in {self.path} is unreadable",
            hint="run 'tallystick verify'; if the log is sound, remove this file and start again",
            details=self._place(),
        )

    def write(self, head: Head) -> None:
        raw = encode_head(head)
        if self._fd < 0 and not self._open():
            self._create(raw)
        os.pwrite(self._fd, raw, 0)
        self._seen = (raw, head)

    def is_in_place(self) -> bool:
        """Whether the file that is open is the one at its path; true if none is open."""
        return self._fd < 0 or is_at(self._fd, self.path)

    def is_missing(self) -> bool:
        """Whether the file that is open has no successor at its path; false if none is open."""
        return self._fd >= 0 and not self.path.exists()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._seen = -1, (None, None)

    def _open(self) -> bool:
        """Only what is not there is no mark: one that cannot be opened must not be taken for a log that has none."""
        with self._opening:
            return self._fd >= 0 or self._has_opened()

    def _has_opened(self) -> bool:
        refused: OSError | None = None
        for flags in (os.O_RDWR, os.O_RDONLY):
            try:
                # Not waiting for the other end, should something else than a file lie there.
                self._fd = os.open(self.path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
                return True
            except (FileNotFoundError, NotADirectoryError):
                return False
            except OSError as error:
                refused = error
        raise self._unreadable(refused) from refused

    def _unreadable(self, error: OSError | None) -> LogError:
        why = error.strerror if error else "?"
        exhausted = None if error is None else exhaustion(error)
        return exhausted or Unreadable(f"the kept position in {self.path} cannot be read: {why}", details=self._place())

    def _place(self) -> dict[str, Any]:
        return {"file": str(self.path), "line": 1}

    def _create(self, raw: bytes) -> None:
        # Whole before it has its name: a crash leaves either no mark or a readable one.
        replace_file(self.path, raw)
        self._open()


def encode_head(head: Head) -> bytes:
    return _sealed(msgspec.json.encode(head))


def _sealed(body: bytes) -> bytes:
    return (b"%08x %s" % (zlib.crc32(body), body)).ljust(SECTOR_BYTES - 1) + b"\n"


def decode_head(raw: bytes) -> Head | None:
    """None unless every byte is the one that `encode_head` writes, the padding included."""
    body = raw[9:-1].rstrip(b" ")
    if raw != _sealed(body):
        return None
    try:
        return msgspec.json.decode(body, type=Head)
    except msgspec.MsgspecError:
        return None
