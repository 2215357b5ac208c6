"""The segments: the files of one log in order, read as if they were one.

A segment is named by the first lamport in it and is sealed by the existence of the next;
only the last one grows. A line never crosses from one to the next.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from tallystick.errors import Corrupt, LogError, StorageRefused, Unreadable, exhaustion
from tallystick.system.regular_files import is_at

OPEN_MAX = 16
"""Segments of one log that this process has open at a time, besides those that a thread reads at the moment."""
_LINE_GUESS_BYTES = 2048
_CHUNK_BYTES = 1 << 20
_NAME = re.compile(r"[0-9]{20}\.jsonl")
_LAMPORT = re.compile(rb',"lamport":([0-9]{1,16}),')


class _Known(msgspec.Struct, frozen=True):
    """The segments at one moment. Replaced as a whole, so a thread never sees a part of a change."""

    paths: list[Path] = []
    starts: list[int] = []
    numbers: dict[int, int] = {}
    """The lamport in the name of the segment that starts at an offset; of empty ones the last."""


class Segments:
    """For any number of threads."""

    def __init__(self, directory: Path) -> None:
        """Knows of no file before `refresh`."""
        self.directory = directory
        self._known = _Known()
        self._refreshing = threading.Lock()
        self._files = _OpenFiles()

    @property
    def paths(self) -> list[Path]:
        return self._known.paths

    def refresh(self) -> None:
        """Look for segments that other processes started."""
        with self._refreshing:
            known = self._known
            paths = self._listed(known.paths)
            starts = list(known.starts)
            for index in range(len(starts), len(paths)):
                # A segment is sealed once the next one exists: its size does not change any more.
                starts.append(starts[-1] + self._files.size(paths[index - 1]) if starts else 0)
                self._files.size(paths[index])
            if len(paths) > len(known.paths):
                numbers = dict(zip(starts, (int(path.stem) for path in paths), strict=True))
                self._known = _Known(paths, starts, numbers)

    def _listed(self, known: list[Path]) -> list[Path]:
        """Return the segments there are. Raises Corrupt if two listings in a row lack a known one.

        A directory that is read while segments are added may show a later one without an earlier one, so a listing
        counts when the next one begins with it.
        """
        paths = segment_files(self.directory)
        while paths != known:
            again = segment_files(self.directory)
            if again[: len(paths)] == paths:
                if paths[: len(known)] != known:
                    raise self._vanished(next(path for path in known if path not in paths))
                break
            paths = again
        return paths

    def _vanished(self, path: Path) -> Corrupt:
        return Corrupt(
            f"the segment {path.name} vanished from {self.directory}",
            hint="it was removed, renamed or moved with its directory: put it back, and this process goes on. If it is"
            " there, restart this process and run 'tallystick verify'; restore from a backup only if that finds damage",
            details={"file": str(path), "line": 1},
        )

    @property
    def size(self) -> int:
        """Logical size: every byte there is, durable or not."""
        known = self._known
        return known.starts[-1] + self._files.size(known.paths[-1]) if known.paths else 0

    def is_last_in_place(self) -> bool:
        """Whether the last segment that is known is the file at its path."""
        paths = self._known.paths
        return not paths or is_at(self._files.of(paths[-1]).fd, paths[-1])

    def is_last(self, fd: int) -> bool:
        """Whether this is an opening of the last segment that is known."""
        file = self._files.of(self._known.paths[-1])
        return os.path.samestat(os.fstat(fd), os.fstat(file.fd))

    @property
    def last_start(self) -> int:
        starts = self._known.starts
        return starts[-1] if starts else 0

    def locate(self, offset: int) -> tuple[int, int]:
        """Which segment, and where in it; of empty ones the last."""
        starts = self._known.starts
        if not starts:
            raise Corrupt(f"there is no log in {self.directory}", details={"file": str(self.directory), "line": 1})
        index = bisect_right(starts, offset) - 1
        return index, offset - starts[index]

    def end_of(self, index: int) -> int:
        known = self._known
        if index + 1 < len(known.starts):
            return known.starts[index + 1]
        return known.starts[index] + self._files.size(known.paths[index])

    def expect(self, offsets: Iterable[int]) -> None:
        """Tell the system what will be read: what it has to fetch from the disk comes side by side, and not one after
        the other as it is asked for."""
        if not hasattr(os, "posix_fadvise"):
            return
        with suppress(OSError, LogError):
            for index, place in map(self.locate, offsets):
                file = self._files.of(self.paths[index])
                os.posix_fadvise(file.fd, place, _LINE_GUESS_BYTES, os.POSIX_FADV_WILLNEED)

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
        number = self._known.numbers.get(offset)
        if number is not None and not after < number <= lamport:
            path = segment_path(self.directory, number)
            raise Corrupt(
                f"{path.name} is named for lamport {number}, but it stands between {after} and {lamport}",
                hint="segments were renamed or added by hand; nothing was changed",
                details={"file": str(path), "line": 1},
            )

    def check_empty(self, lamport: int) -> None:
        """Raises Corrupt unless the last alone is empty, if any is, and waits for a commit behind `lamport`."""
        known = self._known
        for index, path in enumerate(known.paths):
            is_last = index + 1 == len(known.paths)
            if self.end_of(index) == known.starts[index] and not (is_last and int(path.stem) > lamport):
                raise Corrupt(
                    f"{path.name} is empty, and commits lie behind it",
                    hint="restore the segment from a backup; nothing was changed",
                    details={"file": str(path), "line": 1},
                )

    def find(self, lamports: Collection[int]) -> dict[int, int]:
        """The offsets of these commits. Some thirty reads each, one for a commit right after another one of them; all
        lines for those that are not where they should be.

        Lamports rise, so they can be bisected; where damage broke the order, every line is looked at.
        """
        found: dict[int, int] = {}
        after = 0
        for lamport in sorted(lamports):
            offset = self._right_at(after, lamport)
            offset = self._bisected(lamport) if offset is None else offset
            if offset is not None:
                found[lamport], after = offset, offset + len(self.line(offset)) + 1
        missing = set(lamports) - found.keys()
        for offset, line, _ in self.lines(0, self.size) if missing else ():
            if (lamport := _lamport_of(line)) in missing:
                found.setdefault(lamport, offset)
        return found

    def _right_at(self, offset: int, lamport: int) -> int | None:
        """The offset, if the line there is this commit's."""
        return offset if offset < self.size and _lamport_of(self.line(offset)) == lamport else None

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
        first, size = offset - place, _LINE_GUESS_BYTES
        while place > 0:
            start = max(0, place - size)
            newline = self._pread(index, place - start, start).rfind(b"\n")
            if newline >= 0:
                return first + start + newline + 1
            place, size = start, size * 8
        return first

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
        path = self.paths[index]
        file = self._files.of(path)
        try:
            return os.pread(file.fd, size, place)
        except OSError as error:
            raise exhaustion(error) or Unreadable(
                f"{path.name} cannot be read at byte {place}: {error.strerror}",
                details={"file": str(path)},
            ) from error

    def close(self) -> None:
        self._known, self._files = _Known(), _OpenFiles()


class _File:
    """An open segment. It is closed when nothing refers to it any more, so never while a thread reads it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class _OpenFiles:
    """The segments that were used last, open. For any number of threads."""

    def __init__(self) -> None:
        self._files: OrderedDict[Path, _File] = OrderedDict()
        self._using = threading.Lock()
        self._identities: dict[Path, tuple[int, int]] = {}

    def of(self, path: Path) -> _File:
        """Raises Corrupt if the file is missing or is another one than before, StorageRefused if it cannot be read."""
        with self._using:
            file = self._files.get(path)
            if file is None:
                file = self._files[path] = self._open(path)
                if len(self._files) > OPEN_MAX:
                    self._files.popitem(last=False)
            else:
                self._files.move_to_end(path)
            return file

    def size(self, path: Path) -> int:
        return os.fstat(self.of(path).fd).st_size

    def _open(self, path: Path) -> _File:
        file = _File(_opened(path))
        status = os.fstat(file.fd)
        identity = status.st_dev, status.st_ino
        if self._identities.setdefault(path, identity) != identity:
            raise Corrupt(
                f"{path.name} was replaced by another file while this process had the log open",
                hint="restart this process; it reads the log anew",
                details={"file": str(path), "line": 1},
            )
        return file


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
        raise exhaustion(error) or Unreadable(
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
        raise exhaustion(error) or StorageRefused(
            f"{path} cannot be read: {error.strerror}", hint="look at its permissions and at the disk"
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Corrupt(f"{path.name} is not a file", details={"file": str(path), "line": 1})
    return fd
