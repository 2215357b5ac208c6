"""The segments: the files of one log in order, read as if they were one.

A segment is named by the first lamport in it and is sealed by the existence of the next;
only the last one grows. A line never crosses from one to the next.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tallystick.errors import Corrupt, StorageRefused, Unreadable

_LINE_GUESS_BYTES = 2048
_CHUNK_BYTES = 1 << 20
_NAME = re.compile(r"[0-9]{20}\.jsonl")
_LAMPORT = re.compile(rb',"lamport":([0-9]{1,16}),')


class Segments:
    def __init__(self, directory: Path) -> None:
        """Knows of no file before `refresh`."""
        self.directory = directory
        self.paths: list[Path] = []
        self._starts: list[int] = []
        self._numbers: dict[int, int] = {}
        self._fds: list[int] = []

    def refresh(self) -> None:
        """Look for segments that other processes started."""
        found = segment_files(self.directory)
        if found[: len(self.paths)] != self.paths:
            raise Corrupt(
                f"a segment of the log vanished from {self.directory}",
                details={"file": str(self.directory), "line": 1},
            )
        for path in found[len(self.paths) :]:
            start = self.size
            self._fds.append(_opened(path))
            self._starts.append(start)
            self._numbers[start] = int(path.stem)
            self.paths.append(path)

    @property
    def size(self) -> int:
        """Logical size: every byte there is, durable or not."""
        return self._starts[-1] + os.fstat(self._fds[-1]).st_size if self.paths else 0

    @property
    def last_start(self) -> int:
        return self._starts[-1] if self.paths else 0

    def locate(self, offset: int) -> tuple[int, int]:
        """Which segment, and where in it; of empty ones the last."""
        if not self._starts:
            raise Corrupt(f"there is no log in {self.directory}", details={"file": str(self.directory), "line": 1})
        index = bisect_right(self._starts, offset) - 1
        return index, offset - self._starts[index]

    def end_of(self, index: int) -> int:
        return self._starts[index + 1] if index + 1 < len(self._starts) else self.size

    def expect(self, offsets: Iterable[int]) -> None:
        """Tell the system what will be read: what it has to fetch from the disk comes side by side, and not one after
        the other as it is asked for."""
        if not hasattr(os, "posix_fadvise"):
            return
        with suppress(OSError, Corrupt):
            for index, place in map(self.locate, offsets):
                os.posix_fadvise(self._fds[index], place, _LINE_GUESS_BYTES, os.POSIX_FADV_WILLNEED)

    def line(self, offset: int) -> bytes:
        size = _LINE_GUESS_BYTES
        refreshed = False
        while True:
            index, place = self.locate(offset)
            piece = self._pread(index, size, place)
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

    def line_before(self, offset: int) -> bytes:
        """The line that ends where another begins; empty before the first of all."""
        return self.line(self._line_start(offset - 1)) if offset else b""

    def lines(self, start: int, end: int) -> Iterator[tuple[int, bytes, bool]]:
        """Offset, line without its newline, and whether there was one, of every line in the range.

        A line without a newline ends with its segment, or with the range.
        """
        offset, at, last = start, start, -1
        rest: list[bytes] = []
        while at < end:
            index, _ = self.locate(at)
            if rest and index != last:
                yield offset, b"".join(rest), False
                offset, rest = at, []
            piece = self.read(at, min(_CHUNK_BYTES, end - at))
            if not piece:
                break
            at, last = at + len(piece), index
            *whole, tail = piece.split(b"\n")
            for line in whole:
                if rest:
                    line = b"".join((*rest, line))
                    rest = []
                yield offset, line, True
                offset += len(line) + 1
            if tail:
                rest.append(tail)
        if rest:
            yield offset, b"".join(rest), False

    def lines_with(self, needle: bytes, start: int, end: int) -> Iterator[tuple[bytes, bytes]]:
        """Each line in the range that holds `needle`, behind the line before it, which is empty for the first of all.

        Reads all of the range, at the speed of a search for bytes.
        """
        at = start
        while at < end:
            piece = self.read(at, min(_CHUNK_BYTES, end - at))
            found = piece.find(needle)
            if found >= 0:
                begin = self._line_start(at + found)
                _, line, _ = next(self.lines(begin, end))
                yield self.line_before(begin), line
                at = begin + len(line) + 1
            elif at + len(piece) in (at, end, self.end_of(self.locate(at)[0])):
                at += len(piece) or end
            else:
                # It may begin in this piece and end in the next.
                at += len(piece) - len(needle) + 1

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes, never across the border of two segments; none past the end."""
        index, place = self.locate(offset)
        return self._pread(index, max(0, min(size, self.end_of(index) - offset)), place)

    def check_named(self, offset: int, after: int, lamport: int) -> None:
        """Raises Corrupt when the segment that begins at `offset`, if one does, is not named by what is in it.

        The name may be lower than the first lamport: of a segment that a full disk kept empty for a while.
        """
        number = self._numbers.get(offset)
        if number is not None and not after < number <= lamport:
            path = segment_path(self.directory, number)
            raise Corrupt(
                f"{path.name} is named for lamport {number}, but it stands between {after} and {lamport}",
                hint="segments were renamed or added by hand; nothing was changed",
                details={"file": str(path), "line": 1},
            )

    def check_empty(self, lamport: int) -> None:
        """Raises Corrupt unless the last alone is empty, if any is, and waits for a commit behind `lamport`."""
        for index, path in enumerate(self.paths):
            is_last = index + 1 == len(self.paths)
            if self.end_of(index) == self._starts[index] and not (is_last and int(path.stem) > lamport):
                raise Corrupt(
                    f"{path.name} is empty, and commits lie behind it",
                    hint="restore the segment from a backup; nothing was changed",
                    details={"file": str(path), "line": 1},
                )

    def find(self, lamports: Collection[int]) -> dict[int, int]:
        """The offsets of these commits. Some thirty reads each; all lines for those that are not where they should be.

        Lamports rise, so they can be bisected; where damage broke the order, every line is looked at.
        """
        found = {lamport: offset for lamport in lamports if (offset := self._bisected(lamport)) is not None}
        missing = set(lamports) - found.keys()
        for offset, line, _ in self.lines(0, self.size) if missing else ():
            if (lamport := _lamport_of(line)) in missing:
                found.setdefault(lamport, offset)
        return found

    def _bisected(self, lamport: int) -> int | None:
        low, high = 0, self.size
        while low < high:
            start = self._line_start((low + high) // 2)
            line = self.line(start)
            there = _lamport_of(line)
            if there == lamport:
                return start
            if there < lamport:
                low = start + len(line) + 1
            else:
                high = start
        return None

    def _line_start(self, offset: int) -> int:
        """Of the line that has a byte at this offset. No line begins before its segment does."""
        index, place = self.locate(offset)
        size = _LINE_GUESS_BYTES
        while place > 0:
            start = max(0, place - size)
            newline = self._pread(index, place - start, start).rfind(b"\n")
            if newline >= 0:
                return self._starts[index] + start + newline + 1
            place, size = start, size * 8
        return self._starts[index]

    def place(self, offset: int) -> tuple[Path, int]:
        """File and line number of an offset. Counts newlines, as far as they can be read: for messages only."""
        if not self.paths:
            return self.directory, 1
        index, place = self.locate(offset)
        number, seen = 1, 0
        with suppress(Unreadable):
            while seen < place and (piece := self._pread(index, min(_CHUNK_BYTES, place - seen), seen)):
                number += piece.count(b"\n")
                seen += len(piece)
        return self.paths[index], number

    def named(self, error: Corrupt, offset: int, *, hint: str | None = None) -> Corrupt:
        """The same, with file and line of what it is about."""
        if "line" in error.details:
            return error
        path, number = self.place(offset)
        if error.details.get("file", str(path)) != str(path):
            # What begins the next file cannot be read: the offset is that of the last line that could.
            path, number = Path(error.details["file"]), 1
        return type(error)(
            f"{path.name}, line {number}: {error.message}",
            hint=error.hint or hint,
            details={**error.details, "file": str(path), "line": number},
        )

    def _pread(self, index: int, size: int, place: int) -> bytes:
        try:
            return os.pread(self._fds[index], size, place)
        except OSError as error:
            path = self.paths[index]
            raise Unreadable(
                f"{path.name} cannot be read at byte {place}: {error.strerror}",
                details={"file": str(path)},
            ) from error

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds, self._starts, self._numbers, self.paths = [], [], {}, []


def _lamport_of(line: bytes) -> int:
    """0, which no commit has, where there is none."""
    # No text can hold this key unescaped, and no object comes before it: the first is the commit's own.
    found = _LAMPORT.search(line)
    return int(found[1]) if found else 0


def segment_files(directory: Path) -> list[Path]:
    """In order; none where there is no such directory. What bears another kind of name is not ours, and is left alone.

    Not a glob: to some Pythons a directory that cannot be read is one without files, and so a log that was cut off.
    """
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise Unreadable(
            f"{directory} cannot be read: {error.strerror}",
            details={"file": str(directory), "line": 1},
        ) from error
    return sorted(directory / name for name in names if _NAME.fullmatch(name))


def segment_path(directory: Path, first: int) -> Path:
    return directory / f"{first:020d}.jsonl"


def _opened(path: Path) -> int:
    try:
        # Not waiting for the other end, should something else than a file lie there.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise Corrupt(f"{path.name} leads nowhere", details={"file": str(path), "line": 1}) from error
    except OSError as error:
        raise StorageRefused(
            f"{path} cannot be read: {error.strerror}", hint="look at its permissions and at the disk"
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Corrupt(f"{path.name} is not a file", details={"file": str(path), "line": 1})
    return fd
