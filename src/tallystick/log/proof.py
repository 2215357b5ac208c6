"""The proof: read a files log from its first byte and name the first thing that is false.

Reads only: no lock is taken for long, nothing is repaired. Servers may go on writing; what
they append meanwhile is left for the next proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tallystick.commits import chain
from tallystick.errors import Corrupt
from tallystick.log import Head, are_new
from tallystick.log.head_file import HeadFile
from tallystick.log.recovery import witnessed_by_snapshots
from tallystick.log.scanner import Scanner
from tallystick.log.segments import Segments
from tallystick.system.file_locks import is_held

Progress = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes there are."""

_PROGRESS_EVERY = 2_000
_MASKING_SECONDS = 2.0
_UNKNOWN = Head(end=-1)


class Proof(msgspec.Struct, frozen=True):
    """`problem` is None when everything that was checked is true."""

    commits: int
    position: int
    record_hash: str
    segments: int
    bytes: int
    redacted: int
    since: str
    """When the first was committed; empty where there is none."""
    problem: str | None = None
    file: str | None = None
    line: int | None = None

    @property
    def sound(self) -> bool:
        return self.problem is None


def prove(
    system: Path,
    progress: Progress = lambda done, total: None,
    *,
    tenant: str | None = None,
    each: Callable[[str], None] = lambda record_hash: None,
) -> Proof:
    """Constant memory: it grows with redactions only. `each` is told the record_hash of every commit, in order.
    Where `tenant` is said, it must be the log of that one."""
    segments, head_file = Segments(system / "log"), HeadFile(system / "head")
    try:
        return _Reading(segments, head_file, system / "lock", tenant, each).prove(progress)
    finally:
        segments.close()
        head_file.close()


class _Reading:
    def __init__(
        self,
        segments: Segments,
        head_file: HeadFile,
        lock: Path,
        tenant: str | None,
        each: Callable[[str], None],
    ) -> None:
        self._each = each
        self._segments = segments
        self._head_file = head_file
        self._lock = lock
        # Before the head is read: a snapshot is taken of what is durable, so the head is there or further on.
        self._witnessed = witnessed_by_snapshots(lock.parent)
        self._scan = Scanner(segments, Head(), tenant=tenant)
        self._verifier = self._scan.verifier
        self._since = ""

    def prove(self, progress: Progress) -> Proof:
        try:
            kept = self._kept(progress)
            if kept is not None:
                self._read(kept, progress)
                self._check_end(kept)
            self._check_witnessed()
        except Corrupt as error:
            return self._falsity(error)
        return self._proof()

    def _kept(self, progress: Progress) -> Head | None:
        """The position kept apart from the log; None where nothing was ever written."""
        try:
            kept = self._head_file.read()
        except Corrupt as error:
            self._segments.refresh()
            raise self._without_kept(error, progress) from None
        # After the mark, and so with everything that it counts.
        self._segments.refresh()
        if kept is None and self._segments.size:
            missing = f"there are commits but no kept position in {self._head_file.path}: the end may have been cut off"
            raise self._without_kept(Corrupt(missing), progress)
        return kept

    def _without_kept(self, error: Corrupt, progress: Progress) -> Corrupt:
        """Where nothing tells how much was acknowledged, it can still be said whether what is there is sound."""
        if not self._segments.size:
            return error
        self._feed(self._segments.size, _UNKNOWN, progress)
        self._check_whole(progress)
        self._scan.offset = 0
        told = f"the {self._verifier.count} commits that are there, up to position {self._verifier.lamport}, are sound"
        return Corrupt(f"{error.message}; {told}", details=error.details)

    def _read(self, kept: Head, progress: Progress) -> None:
        size = self._segments.size
        # Behind the kept position lies what a writer is busy with, unless nobody is writing.
        end = size if size > kept.end and not is_held(self._lock) else min(size, kept.end)
        self._feed(end, kept, progress)
        before, now = Head(), kept
        # Masked while we read, by a redaction that came after the position we began with: then it is in the log
        # by now. What was there before and is still unexplained is damage.
        while are_new(self._verifier.unexplained, before) and (then := self._head_file.read() or now) != now:
            before, now = now, then
            self._segments.refresh()
            self._feed(min(self._segments.size, now.end), now, progress)
        self._check_whole(progress)

    def _check_whole(self, progress: Progress) -> None:
        self._finish()
        self._check_masked()
        self._segments.check_empty(self._verifier.lamport)
        progress(self._scan.end, self._scan.end)

    def _finish(self) -> None:
        try:
            self._verifier.finish()
        except Corrupt as error:
            self._scan.offset = self._offset_of(error.details["lamport"])
            raise

    def _offset_of(self, lamport: int) -> int:
        return self._segments.find({lamport}).get(lamport, self._scan.offset)

    def _feed(self, end: int, kept: Head, progress: Progress) -> None:
        for number, (offset, line) in enumerate(self._scan.lines(end)):
            if offset == kept.end and self._head_file.read() == kept:
                raise Corrupt(
                    f"it lies behind position {kept.lamport}, the last that was acknowledged: either a writer died "
                    "before it could acknowledge this (opening the store settles it), or it was added by hand"
                )
            commit = self._scan.feed(offset, line).commit
            self._since = self._since or commit.timestamp
            self._each(commit.record_hash)
            if offset < kept.end <= self._scan.end:
                self._compare(kept)
            if number % _PROGRESS_EVERY == 0:
                progress(self._scan.end, end)

    def _compare(self, kept: Head) -> None:
        if self._scan.head != kept:
            # A payload that became longer or shorter moved everything behind it: that is what is false first.
            self._finish()
            raise Corrupt(f"the last commit is not the one that was acknowledged as {kept.record_hash}")

    def _check_masked(self) -> None:
        """What a redaction names must be gone from the disk, not only be said to be."""
        unmasked = self._verifier.unmasked
        deadline = time.monotonic() + _MASKING_SECONDS
        for lamport, offset in self._segments.find(unmasked).items():
            if not self._is_masked(offset, unmasked[lamport], deadline):
                self._scan.offset = offset
                raise Corrupt(
                    f"lamport {lamport}: a redaction names it, but its payload is still there "
                    "(opening the store finishes a redaction that was cut short)"
                )

    def _is_masked(self, offset: int, left: str, deadline: float) -> bool:
        """Or about to be: a redaction is in the log just before its masks are; its writer has the lock until then."""
        while True:
            is_busy = is_held(self._lock)
            commit = chain.decode(self._segments.line(offset))
            if left in (commit.content_hash, chain.content_hash(commit.payload)):
                return True
            if not is_busy or time.monotonic() > deadline:
                return False
            time.sleep(0.005)

    def _check_end(self, kept: Head) -> None:
        if self._scan.end < kept.end or self._verifier.count < kept.count:
            self._scan.offset = self._scan.end
            raise Corrupt(
                f"the log ends at lamport {self._verifier.lamport}, but {kept.lamport} was acknowledged: "
                f"{kept.count - self._verifier.count} commits are missing from its end"
            )

    def _check_witnessed(self) -> None:
        """An empty log without a stored head is that of a new memory, unless something is left of an older one."""
        if self._verifier.lamport < self._witnessed:
            self._scan.offset = self._scan.end
            raise Corrupt(
                f"the log ends at lamport {self._verifier.lamport}, but a snapshot was made at {self._witnessed}: "
                "its end was cut off"
            )

    def _falsity(self, error: Corrupt) -> Proof:
        if not self._segments.paths and "file" not in error.details:
            return self._proof(problem=error.message)
        named = self._segments.named(error, self._scan.offset)
        return self._proof(problem=error.message, file=named.details["file"], line=named.details["line"])

    def _proof(self, problem: str | None = None, file: str | None = None, line: int | None = None) -> Proof:
        return Proof(
            commits=self._verifier.count,
            position=self._verifier.lamport,
            record_hash=self._verifier.record_hash,
            segments=len(self._segments.paths),
            bytes=self._scan.end,
            redacted=self._verifier.redacted,
            since=self._since,
            problem=problem,
            file=file,
            line=line,
        )
