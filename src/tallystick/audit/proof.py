"""The proof of an audit log: read it from the oldest file that is left, and name the first thing that is false."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import msgspec

from tallystick.audit import Event, Lost, Retired, Started, decode, verify
from tallystick.audit.files import files_in, just_begun
from tallystick.errors import Corrupt
from tallystick.log import Head
from tallystick.log.head_file import HeadFile


class AuditProof(msgspec.Struct, frozen=True):
    """`problem` is None when everything that was checked is true."""

    lines: int
    seq: int
    record_hash: str
    files: int
    lost: int
    """Events that a full disk refused; the log says so itself."""
    since: str
    """When it was begun, or the oldest event that was not retired; empty where there is none."""
    retired: bool
    """Whether there were older events, which were old enough to go."""
    problem: str | None = None
    file: str | None = None
    line: int | None = None

    @property
    def sound(self) -> bool:
        return self.problem is None


def verify_audit(directory: Path) -> AuditProof:
    """Reads only, in constant memory. Servers may go on writing: what they add meanwhile is left for the next proof."""
    head_file = HeadFile(directory / "head")
    reading = _Reading(directory)
    try:
        if directory.exists() and not directory.is_dir():
            raise Corrupt(f"{directory} is no directory")
        kept = head_file.read()
        files = files_in(directory)
        if kept is None and files:
            kept = just_begun(files)
        if kept is None and files:
            raise Corrupt("there are events but no kept position: the end may have been cut off")
        if kept is not None:
            reading.read(files, kept)
    except Corrupt as error:
        return reading.proof(error.message)
    except OSError as error:
        return reading.proof(f"it cannot be read: {error.strerror}")
    finally:
        head_file.close()
    return reading.proof()


E = TypeVar("E", bound=Event)


def events(directory: Path, kind: type[E], *, since: str = "") -> Iterator[tuple[int, E]]:
    """Seq and event, oldest first, without proof; a file that ended before `since` is not opened."""
    files = files_in(directory)
    for file, after in zip_longest(files, files[1:]):
        if since and after is not None and _ended_before(after, since):
            continue
        for line in _lines(file):
            found = decode(line)
            if isinstance(found.event, kind) and found.event.timestamp >= since:
                yield found.seq, found.event


class _Reading:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = 0
        self._lines = 0
        self._lost = 0
        self._seq = 0
        self._record_hash = ""
        self._file: Path | None = None
        self._line = 0
        self._retired: Retired | None = None
        self._origin: tuple[int, str] = (1, "")
        self._since = ""

    def read(self, files: list[Path], kept: Head) -> None:
        for file in files:
            if int(file.stem) > kept.lamport:
                break
            self._file, self._line = file, 0
            self._files += 1
            end = 0
            for line in _raw_lines(file):
                if self._seq >= kept.lamport and int(file.stem) == kept.count:
                    break  # Behind the mark lies what a writer is busy with, or died over.
                self._line += 1
                if not line.endswith(b"\n"):
                    raise Corrupt("the line has no end")
                self._feed(file, line[:-1])
                end += len(line)
                if self._seq == kept.lamport and (int(file.stem), end) != (kept.count, kept.end):
                    raise Corrupt(f"seq {self._seq} is not where it was acknowledged")
        self._file = None
        self._finish(kept)

    def _feed(self, file: Path, line: bytes) -> None:
        if self._line == 1:
            self._begin(file, line)
        found = verify(line, seq=self._seq + 1, prev=self._record_hash)
        if isinstance(found.event, Started) and found.event.broken:
            raise Corrupt(f"its writer found the log damaged: {found.event.broken}")
        if isinstance(found.event, Retired):
            self._retired = found.event
        if isinstance(found.event, Lost):
            self._lost += found.event.events
        self._seq, self._record_hash = found.seq, found.record_hash
        self._lines += 1

    def _begin(self, file: Path, line: bytes) -> None:
        first = decode(line)
        if not isinstance(first.event, Started):
            raise Corrupt("the file does not begin with AUDIT_FILE: its first lines are missing")
        if first.seq != int(file.stem):
            raise Corrupt(f"the file is named for seq {int(file.stem)} and begins with {first.seq}")
        if self._lines == 0:
            self._origin = (first.seq, first.event.prev)
            self._since = first.event.timestamp
            self._seq, self._record_hash = first.seq - 1, first.event.prev

    def _finish(self, kept: Head) -> None:
        first, prev = self._origin
        told = self._retired
        if first != 1 and (
            told is None or told.through < first - 1 or (told.through == first - 1 and told.prev != prev)
        ):
            raise Corrupt(f"the log begins with seq {first}, and no retirement tells of the lines before it")
        if self._seq < kept.lamport:
            raise Corrupt(f"the log ends with seq {self._seq}, but {kept.lamport} was acknowledged")
        if self._record_hash != kept.record_hash:
            raise Corrupt(f"the last line is not the one that was acknowledged as {kept.record_hash}")

    def proof(self, problem: str | None = None) -> AuditProof:
        return AuditProof(
            lines=self._lines,
            seq=self._seq,
            record_hash=self._record_hash,
            files=self._files,
            lost=self._lost,
            since=self._since,
            retired=self._origin[0] > 1,
            problem=problem,
            file=str(self._file) if problem and self._file else None,
            line=self._line if problem and self._file else None,
        )


def _raw_lines(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        yield from opened


def _lines(file: Path) -> Iterator[bytes]:
    return (line[:-1] for line in _raw_lines(file) if line.endswith(b"\n"))


def _ended_before(following: Path, since: str) -> bool:
    first = next(_lines(following), None)
    return first is not None and decode(first).event.timestamp < since
