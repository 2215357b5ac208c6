"""The audit files of one tenant, appended to by any number of processes.

Always true: the bytes before the mark (`head`, one sector, as in the log) are whole, chained
and durable lines. Only the process that holds the lock writes behind it, and moves the mark
when the bytes are synced. A process that dies between the two leaves whole lines behind the
mark, which the next writer adopts, and at worst half a line, which it cuts off.

An audit log must go on: where the files are not as the mark says, the writer starts a file
that says so, and the proof is false from then on, until that file retires. What is damaged is
left as it is: only bytes behind a mark up to which everything is proven are ever cut off.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tallystick.audit import Event, Retired, Started, chained, decode, encode, verify
from tallystick.clock import Clock, from_text, to_text, wall_clock
from tallystick.errors import Corrupt, Misplaced, StorageRefused
from tallystick.log import Head
from tallystick.log.head_file import HeadFile
from tallystick.log.segments import segment_files, segment_path
from tallystick.system.file_locks import open_lock, release, take
from tallystick.system.private_files import make_directory, replace_file, sync_data, sync_directory, write_all
from tallystick.system.regular_files import is_at

FILE_BYTES_MAX = 16 << 20
RETENTION_DAYS = 90
_DAY = 86_400_000
_UNFINISHED = "next"
_PATIENCE_SECONDS = 10.0
_WAS_MISPLACED = "was removed, replaced or moved"
_LEAVE = "leave the files of the audit log in their place; it goes on in a new file, and 'tallystick verify' reports it"
_NUMBER = re.compile(r"[0-9]{20}(?=\.jsonl$)")

logger = logging.getLogger(__name__)


class AuditFiles:
    def __init__(
        self,
        directory: Path,
        *,
        file_bytes_max: int = FILE_BYTES_MAX,
        retention_days: int = RETENTION_DAYS,
        archive: Path | None = None,
        clock: Clock = wall_clock,
    ) -> None:
        """`retention_days` 0 keeps everything. Retired files are moved to `archive`, or removed without one."""
        self.directory = directory
        self._file_bytes_max = file_bytes_max
        self._retention_days = retention_days
        self._archive = archive
        self._clock = clock
        self._lock = -1
        self._writer = -1
        self._first = 0
        self._began = ""
        self._head_file = HeadFile(directory / "head")

    def append(self, events: Sequence[bytes]) -> None:
        """Encoded events, in order; durable on return. Raises StorageRefused, and then none of them is there; after
        Misplaced they may be in a file that was moved, and the next append opens the files that are at the paths."""
        try:
            self._claim()
            try:
                head = self._ready()
                self._write(events, head)
            finally:
                release(self._lock)
        except OSError as error:
            self.close()
            raise StorageRefused(
                f"the audit log in {self.directory} could not be written: {error.strerror or error}",
                hint="free some space or make the file system writable",
            ) from error

    def close(self) -> None:
        for fd in (self._writer, self._lock):
            if fd >= 0:
                os.close(fd)
        self._writer = self._lock = -1
        self._head_file.close()

    # -- below

    def _claim(self) -> None:
        while True:
            if self._lock < 0:
                make_directory(self.directory)
                self._lock = open_lock(self.directory / "lock")
            if not take(self._lock, timeout_seconds=_PATIENCE_SECONDS):
                raise OSError(errno.EBUSY, "another process has held its lock for too long")
            if (name := self._misplaced()) is None:
                return
            self._warn_of_misplaced(name)
            self.close()

    def _misplaced(self) -> str | None:
        """Return the name of a file that every writer shares and that is not the one at its path."""
        if not is_at(self._lock, self.directory / "lock"):
            return "lock"
        return None if self._head_file.is_in_place() else "head"

    def _is_writer_in_place(self) -> bool:
        return is_at(self._writer, self._path(self._first))

    def _warn_of_misplaced(self, name: str) -> None:
        logger.warning("%s of the audit log in %s %s; it is opened anew", name, self.directory, _WAS_MISPLACED)

    def _ready(self) -> Head:
        """The file open that the next lines go to; the head tells its first seq as `count`, its size as `end`."""
        head = self._kept()
        if head is None:
            head = self._begin()
        elif self._path(head.lamport + 1).exists() or _size(self._path(head.count)) != head.end:
            head = self._settle(head)
        if head.count != self._first or self._writer < 0:
            self._open(head.count)
        elif not self._is_writer_in_place():
            self._warn_of_misplaced(self._path(head.count).name)
            self._open(head.count)
        return self._next_file(head) if self._is_full(head) else head

    def _kept(self) -> Head | None:
        try:
            return self._head_file.read()
        except Corrupt as error:
            logger.error("%s; it is set aside", error.message)
            self._head_file.close()
            self._head_file.path.rename(self._head_file.path.with_name(f"head.rejected-{time.time_ns()}"))
            return None

    def _write(self, events: Sequence[bytes], head: Head) -> None:
        lines, seq, record_hash = [], head.lamport, head.record_hash
        for event in events:
            seq += 1
            line, record_hash = chained(seq, event, record_hash)
            lines.append(line)
        data = b"".join(lines)
        self._append_bytes(data, head.end)
        self._head_file.write(Head(seq, head.count, head.end + len(data), record_hash, None, to_text(self._clock())))

    def _append_bytes(self, data: bytes, size: int) -> None:
        try:
            write_all(self._writer, data)
            sync_data(self._writer)
        except OSError:
            # So that nobody adopts what its writer believes to be lost.
            os.ftruncate(self._writer, size)
            raise
        # Not cut back: without its lock this process must not shorten a file that others may write.
        name = self._misplaced() if self._is_writer_in_place() else self._path(self._first).name
        if name is not None:
            raise Misplaced(
                f"{name} of the audit log in {self.directory} {_WAS_MISPLACED} while it was written", hint=_LEAVE
            )

    # -- files

    def _path(self, first: int) -> Path:
        return segment_path(self.directory, first)

    def _open(self, first: int) -> None:
        if self._writer >= 0:
            os.close(self._writer)
        # Of a file that a crash or a full disk kept from beginning; whoever has the lock is alone here.
        (self.directory / _UNFINISHED).unlink(missing_ok=True)
        self._writer = os.open(self._path(first), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._first = first
        self._began = began_at(self._path(first))

    def _is_full(self, head: Head) -> bool:
        return head.end >= self._file_bytes_max or self._clock() - from_text(self._began) >= _DAY

    def _next_file(self, head: Head) -> Head:
        began = self._start(head)
        if (event := self._retire()) is not None:
            self._write([encode(event)], began)
            began = self._head_file.read() or began
            self._remove(event)
        return began

    def _start(self, head: Head, broken: str | None = None) -> Head:
        """A file with its first line, whole before it has its name: a crash leaves it there or not at all."""
        first = self._free(head.lamport + 1)
        started = Started(timestamp=to_text(self._clock()), prev=head.record_hash, broken=broken)
        line, record_hash = chained(first, encode(started), head.record_hash)
        replace_file(self._path(first), line, unfinished=self.directory / _UNFINISHED)
        now = Head(first, first, len(line), record_hash, None, started.timestamp)
        self._head_file.write(now)
        self._open(first)
        return now

    def _free(self, first: int) -> int:
        """Of a file that is not there: what has that name already is damaged, and stays."""
        if not os.path.lexists(self._path(first)):
            return first
        return 1 + max(int(name[0]) for path in self.directory.iterdir() if (name := _NUMBER.match(path.name)))

    def _retire(self) -> Retired | None:
        """What may go: files whose successor began before the retention's end."""
        if not self._retention_days:
            return None
        oldest = to_text(self._clock() - self._retention_days * _DAY)
        files = files_in(self.directory)
        staying = next((file for file, after in pairwise(files) if began_at(after) > oldest), None)
        keep = files[-1] if staying is None else staying
        if keep == files[0]:
            return None
        first = _first_event(keep)
        if first is None:
            logger.error("%s does not begin as it should: nothing retires until it is looked into", keep)
            return None
        return Retired(timestamp=to_text(self._clock()), through=int(keep.stem) - 1, prev=first.prev)

    def _remove(self, retired: Retired) -> None:
        """Said first, then done: a crash in between leaves files that the next retirement takes along."""
        for file in files_in(self.directory):
            if int(file.stem) > retired.through:
                break
            if self._archive is None:
                file.unlink()
            else:
                make_directory(self._archive)
                shutil.move(file, self._archive / file.name)
        sync_directory(self.directory)

    # -- after a crash, or worse

    def _begin(self) -> Head:
        files = files_in(self.directory)
        if not files:
            return self._start(Head())
        if (begun := just_begun(files)) is not None:
            self._head_file.write(begun)
            return begun
        logger.error("the audit log in %s has lost its kept position", self.directory)
        return self._start(_end_of(files[-1]), broken="the kept position was missing, and so may be lines before this")

    def _settle(self, head: Head) -> Head:
        """The files are not as the mark says: adopt the whole lines behind it, cut off what a crash left of another."""
        path = self._path(head.count)
        if not _is_sound(path, head):
            return self._start(head, broken=f"lines up to {head.lamport} were acknowledged and are not as they were")
        if (following := self._path(head.lamport + 1)).exists() and path.stat().st_size == head.end:
            # Its writer died before it could mark it.
            path, start = following, Head(head.lamport, head.lamport + 1, 0, head.record_hash)
        else:
            start = head
        end, rest = _followed(path, start)
        if end.end == 0 or (rest and not _is_torn(rest)):
            return self._start(end, broken=f"what follows line {end.lamport} was not written by an audit log")
        if rest:
            os.truncate(path, end.end)
        self._head_file.write(end)
        return end


def files_in(directory: Path) -> list[Path]:
    return [path for path in segment_files(directory) if path.is_file()]


def just_begun(files: Sequence[Path]) -> Head | None:
    """Where a log ends whose writer died before it could mark the first line; None for any other without a mark."""
    if len(files) != 1 or int(files[0].stem) != 1:
        return None
    end, rest = _followed(files[0], Head(0, 1))
    return end if end.lamport == 1 and not rest else None


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _first_event(path: Path) -> Started | None:
    """None unless it is the one that was written there."""
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            line = file.readline().removesuffix(b"\n")
        first = decode(line).event
        if isinstance(first, Started):
            verify(line, seq=int(path.stem), prev=first.prev)
            return first
    except (Corrupt, OSError):
        pass
    return None


def began_at(path: Path) -> str:
    """A damaged file is as old as can be: it is not added to, and goes with the next retirement."""
    first = _first_event(path)
    try:
        return to_text(0 if first is None else from_text(first.timestamp))
    except ValueError:
        return to_text(0)


def _is_sound(path: Path, head: Head) -> bool:
    """Whether the file leads to `head`, where it may go on."""
    first = _first_event(path)
    if first is None:
        return False
    end, _ = _followed(path, Head(head.count - 1, head.count, 0, first.prev), until=head.end)
    return (end.lamport, end.end, end.record_hash) == (head.lamport, head.end, head.record_hash)


def _followed(path: Path, head: Head, *, until: int | None = None) -> tuple[Head, bytes]:
    """Where the lines of a file that follow on `head` end, and what lies behind them."""
    data = path.read_bytes()[head.end : until] if path.is_file() else b""
    at = 0
    while (newline := data.find(b"\n", at)) >= 0:
        try:
            found = verify(data[at:newline], seq=head.lamport + 1, prev=head.record_hash)
        except Corrupt:
            break
        size = newline + 1 - at
        head = Head(found.seq, head.count, head.end + size, found.record_hash, None, found.event.timestamp)
        at += size
    return head, data[at:]


def _is_torn(rest: bytes) -> bool:
    """Whether a crash may have left this: no whole event is in it."""
    return all(_event(line) is None for line in rest.split(b"\n")[:-1])


def _event(line: bytes) -> Event | None:
    try:
        return decode(line).event
    except Corrupt:
        return None


def _end_of(path: Path) -> Head:
    """Where the lines of a file end that follow on each other, taken from its first; the proof looks at the rest."""
    number, first = int(path.stem), _first_event(path)
    if first is None:
        return Head(number, number)
    end, _ = _followed(path, Head(number - 1, number, 0, first.prev))
    return end if end.lamport >= number else Head(number, number)
