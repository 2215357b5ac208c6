"""The segments: the files of one log in order, read as if they were one.

A segment is named by the first lamport in it and is sealed by the existence of the next;
only the last one grows.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from tallystick.errors import Corrupt

_LINE_GUESS_BYTES = 2048
_CHUNK_BYTES = 1 << 20


class Segments:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.paths: list[Path] = []
        self._starts: list[int] = []
        self._fds: list[int] = []
        self.refresh()

    def refresh(self) -> None:
        """Look for segments that other processes started."""
        found = sorted(self.directory.glob("[0-9]*.jsonl")) if self.directory.is_dir() else []
        if found[: len(self.paths)] != self.paths:
            raise Corrupt(f"a segment of the log vanished from {self.directory}", details={"file": str(self.directory)})
        for path in found[len(self.paths) :]:
            start = self._starts[-1] + os.fstat(self._fds[-1]).st_size if self.paths else 0
            self._fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            self._starts.append(start)
            self.paths.append(path)

    @property
    def size(self) -> int:
        """Logical size: every byte there is, durable or not."""
        return self._starts[-1] + os.fstat(self._fds[-1]).st_size if self.paths else 0

    @property
    def last_start(self) -> int:
        return self._starts[-1] if self.paths else 0

    def locate(self, offset: int) -> tuple[int, int]:
        index = bisect_right(self._starts, offset) - 1
        return index, offset - self._starts[index]

    def end_of(self, index: int) -> int:
        return self._starts[index + 1] if index + 1 < len(self._starts) else self.size

    def line(self, offset: int) -> bytes:
        size = _LINE_GUESS_BYTES
        refreshed = False
        while True:
            index, place = self.locate(offset)
            piece = os.pread(self._fds[index], size, place)
            newline = piece.find(b"\n")
            if newline >= 0:
                return piece[:newline]
            if len(piece) == size:
                size *= 8
            elif not refreshed:
                # Past what we know: another process may have started a segment since.
                self.refresh()
                refreshed = True
            else:
                path = self.paths[index]
                raise Corrupt(f"no whole line at byte {place} of {path.name}", details={"file": str(path)})

    def lines(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Offset and line, without the newline, of every line in the range; a last line may lack its newline."""
        offset, rest = start, b""
        while offset + len(rest) < end:
            piece = self.read(offset + len(rest), min(_CHUNK_BYTES, end - offset - len(rest)))
            if not piece:
                break
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield offset, line
                offset += len(line) + 1
        if rest:
            yield offset, rest

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, never across the border of two segments."""
        index, place = self.locate(offset)
        return os.pread(self._fds[index], min(size, self.end_of(index) - offset), place)

    def find(self, lamport: int) -> int | None:
        """The offset of a commit, by looking at every line: for messages only."""
        key = b',"lamport":%d,' % lamport
        for offset, line in self.lines(0, self.size):
            if 0 <= line.find(key) < line.find(b',"record_hash":"'):
                return offset
        return None

    def place(self, offset: int, error: Corrupt | None = None) -> tuple[Path, int]:
        """File and line number of what `error` names, or of the offset. Counts newlines: for messages only."""
        if error is not None and "lamport" in error.details:
            found = self.find(error.details["lamport"])
            offset = offset if found is None else found
        index, place = self.locate(offset)
        number, seen = 1, 0
        while seen < place:
            piece = os.pread(self._fds[index], min(_CHUNK_BYTES, place - seen), seen)
            if not piece:
                break
            number += piece.count(b"\n")
            seen += len(piece)
        return self.paths[index], number

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds, self._starts, self.paths = [], [], []
