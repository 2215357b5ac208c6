"""The files log: JSONL segments on a local disk, opened by any number of processes at once.

Always true: the bytes before the mark are whole, chained, durable groups. Only the process
that holds the lock writes behind the mark, and it moves the mark when those bytes are
durable; so a reader that stops at the mark sees nothing that a power cut could take back.
A process that dies leaves the lock free and at worst some bytes behind the mark: whoever
claims the log next adopts the whole batches among them and cuts off the rest.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from tallystick.commits import chain
from tallystick.errors import Corrupt, HeadMoved, LogClosed, Misplaced, StorageRefused, Unmasked, exhaustion
from tallystick.log import Entry, Head, are_new, check_chained, head_after
from tallystick.log.head_file import HeadFile
from tallystick.log.masks import masks_of
from tallystick.log.read_ahead import ReadAhead, begin_reading
from tallystick.log.recovery import PendingMasks, adopt, recover, witnessed_by_snapshots
from tallystick.log.redaction_index import NEEDLE, RedactionIndex
from tallystick.log.scanner import Scanner
from tallystick.log.segments import Segments, segment_path
from tallystick.system.file_locks import locked, open_lock, release, take, take_in_turn
from tallystick.system.private_files import make_directory, sync_data, sync_directory, sync_files, write_all
from tallystick.system.regular_files import is_at
from tallystick.telemetry import metrics

SEGMENT_BYTES_MAX = 64 << 20
_PATIENCE_SECONDS = 30.0
_MASKING_SECONDS = 2.0
_TURN_SECONDS = 0.01
_RESTORE = (
    "run 'tallystick verify': if it finds the log sound, restart this process, else restore this segment from a backup;"
    " nothing was changed"
)
_LOOK_AT_DISK = "look at the disk, then restart this process; it reads the log anew and goes on"
_PUT_BACK = (
    "put the files back where they were, or restart this process, which reads anew what is there;"
    " repeat what was not acknowledged with the same nonce"
)
_AWAIT_MASKS = "do not repeat it: this process carries it out as soon as its limits allow; raise them if it persists"
_REFUSALS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}

logger = logging.getLogger(__name__)


class FilesLog:
    def __init__(self, system: Path, *, segment_bytes_max: int = SEGMENT_BYTES_MAX, syncs: bool = True) -> None:
        """`system` is the partition's `_system` directory; it is made when it is not there.

        Where something else answers for what is not on the disk yet, groups need not be synced one by one: without
        `syncs` that is done by `sync`, and what lies behind the last one may be anything after a power cut.
        """
        self.system = system
        self._segment_bytes_max = segment_bytes_max
        self._syncs = syncs
        self._closed: str | None = None
        self._claimed = False
        self._writer = -1
        self._writer_path: Path | None = None
        self._lock = _open_lock(system)
        self._turnstile = -1
        self._turn_ends = 0.0
        self._head_file = HeadFile(system / "head")
        self._masks = PendingMasks(system / "redaction.pending")
        self._segments = Segments(system / "log")
        self._redactions = RedactionIndex(partial(self._segments.lines_with, NEEDLE))
        self._ahead: ReadAhead | None = None
        try:
            self._segments.refresh()
            self._settle_what_a_crash_left()
        except BaseException:
            # Whoever tries again and again to open what is damaged must not run out of files.
            self.close()
            raise

    # -- reading

    def head(self) -> Head:
        return self._head_file.read() or Head()

    def prepare(self, redactions: Sequence[tuple[int, int]], after: Head) -> None:
        # A log whose end was cut off is for `read` to tell of.
        end = min(self.head().end, self._segments.size)
        self._end_reading_ahead()
        self._ahead = begin_reading(self.system, after, end)
        self._redactions.prepare(redactions, after.end, end)

    def read(self, after: Head) -> Iterator[Entry]:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            with closing(ahead):
                for entries in ahead if ahead.after == after else ():
                    yield from entries
                    after = head_after(entries, after)
        yield from self._read(after)

    def _read(self, after: Head) -> Iterator[Entry]:
        scan, head = Scanner(self._segments, after), after
        try:
            while True:
                before, head = head, self._readable_head()
                for entry in scan.entries(head.end):
                    if not scan.verifier.is_intact:
                        entry = self._settled(entry.offset)
                    if entry.commit.redacts is not None:
                        self._finish_masks_of_the_dead()
                    self._redactions.follow((entry,))
                    yield entry
                if scan.head != head:
                    # Whoever went on until the head is reached would go on for ever.
                    raise Corrupt(f"the last commit is not the one that was acknowledged as position {head.lamport}")
                # A payload may have been masked while we read, by a redaction that came after the head we had seen:
                # then it is in the log by now. What was there before and is still unexplained is damage.
                if self.head() == head or not are_new(scan.verifier.unexplained, before):
                    break
            if scan.verifier.unexplained:
                scan = self._scanned_again(after, scan.end)
            scan.offset = self._of_unexplained(scan.verifier, scan.offset)
            scan.verifier.finish()
        except Corrupt as error:
            raise self._segments.named(error, scan.offset, hint=_RESTORE) from None

    def _settled(self, offset: int) -> Entry:
        """Nobody gets to see a payload that is neither the committed one nor what a redaction left of it."""
        line = self._settled_line(offset)
        return Entry(offset, chain.decode(line), line)

    def _scanned_again(self, after: Head, end: int) -> Scanner:
        """A redaction is in the log just before its masks are: an earlier one's are still there."""
        self._await_masks()
        scan = Scanner(self._segments, after)
        deque(scan.entries(end), maxlen=0)
        return scan

    def _await_masks(self) -> None:
        deadline = time.monotonic() + _MASKING_SECONDS
        while self._masks.exist() and time.monotonic() < deadline:
            self._finish_masks_of_the_dead()
            time.sleep(0.005)

    def _of_unexplained(self, verifier: chain.Verifier, offset: int) -> int:
        """Where the first payload lies that nothing explains, or `offset`."""
        first = verifier.unexplained[:1]
        return self._segments.find(first).get(first[0], offset) if first else offset

    def _readable_head(self) -> Head:
        head = self.head()
        if head.end > self._segments.size:
            self._segments.refresh()
        # A writer syncs its bytes before it moves the stored head, so this is no race: acknowledged bytes are gone, or
        # in a file that took the place of the open one.
        if head.end > self._segments.size:
            self._require_in_place()
            raise Corrupt(
                f"the log ends at byte {self._segments.size}, but position {head.lamport} was acknowledged up to "
                f"byte {head.end}: its end was cut off",
            )
        return head

    def expect(self, offsets: Iterable[int]) -> None:
        self._segments.expect(offsets)

    def line(self, offset: int, *, checked: bool = True) -> bytes:
        if not checked:
            return self._segments.line(offset)
        try:
            return self._settled_line(offset)
        except Corrupt as error:
            raise self._segments.named(error, offset, hint=_RESTORE) from None

    def _settled_line(self, offset: int) -> bytes:
        """As a redaction left it, which may be at it just now. Raises Corrupt."""
        line, problem = self._judged_line(offset)
        if problem is not None:
            self._await_masks()
            line, problem = self._judged_line(offset)
        if problem is not None:
            raise Corrupt(problem)
        return line

    def _judged_line(self, offset: int) -> tuple[bytes, str | None]:
        line = self._segments.line(offset)
        # The head behind the line: a redaction is in the log before its masks are.
        return line, self._redactions.problem(line, self._readable_head().end)

    # -- writing

    def claim(self, *, timeout_seconds: float = _PATIENCE_SECONDS) -> bool:
        """May block for as long as the timeout: not on an event loop unless it is zero.

        Settles what a writer that died left, before anything is decided on what the log holds: a payload that
        its redaction was about to mask must not be read as if it were to stay. That takes reading, so with a
        timeout of zero the answer is False.
        """
        if self._lock < 0:
            raise StorageRefused(
                f"{self.system} cannot be written", hint="make the file system writable; reads go on meanwhile"
            )
        if not self._take_lock(timeout_seconds):
            return False
        try:
            self._require_in_place()
            self._claimed = self._is_settled()
            if not self._claimed and timeout_seconds > 0:
                self._settle_what_a_writer_left()
                self._claimed = True
        finally:
            if not self._claimed:
                release(self._lock)
        return self._claimed

    def _take_lock(self, timeout_seconds: float) -> bool:
        """A lock file that was removed or replaced is opened anew: other processes use the one at the path."""
        while self._take_in_turn(timeout_seconds):
            if is_at(self._lock, self.system / "lock"):
                return True
            try:
                fresh = open_lock(self.system / "lock")
            except OSError as error:
                release(self._lock)
                raise exhaustion(error) or Misplaced(
                    f"the lock of the log in {self.system} cannot be opened: {error.strerror}", hint=_PUT_BACK
                ) from error
            os.close(self._lock)
            self._lock = fresh
        return False

    def _take_in_turn(self, timeout_seconds: float) -> bool:
        """Several groups make a turn, since passing the lock on costs more than a group; then a waiting process is
        next. A process that writes alone looks once a turn whether one waits."""
        if time.monotonic() < self._turn_ends and take(self._lock, timeout_seconds=0):
            return True
        if self._turnstile < 0:
            # Without a turnstile the lock is as safe, but not fair.
            with suppress(OSError):
                self._turnstile = open_lock(self.system / "turnstile.lock")
        if self._turnstile < 0:
            return take(self._lock, timeout_seconds=timeout_seconds)
        if not take_in_turn(self._lock, self._turnstile, timeout_seconds=timeout_seconds):
            return False
        self._turn_ends = time.monotonic() + _TURN_SECONDS
        return True

    def release(self) -> None:
        self._claimed = False
        release(self._lock)

    def append(self, entries: Sequence[Entry], *, expected: Head) -> Head:
        if self._closed:
            raise LogClosed(self._closed, hint="restart this process; it reads the log anew and goes on")
        if not self._claimed:
            with_lock = self.claim(timeout_seconds=_PATIENCE_SECONDS)
            if not with_lock:
                raise StorageRefused("another process has held the log's lock for too long")
            try:
                return self.append(entries, expected=expected)
            finally:
                self.release()
        masks = self.check(entries, expected)
        # The order is what makes a crash harmless. It leaves, after
        #   the note:   a note whose commit is not in the log; whoever opens or claims the log drops it
        #   the write:  whole or torn lines behind the mark; adopted or cut off, and nobody was answered
        #   the mark:   a redaction in the log that is not carried out; the note says what is left to do
        if masks:
            self._note_masks(entries[-1].commit.lamport, masks)
        self._write(entries, expected)
        head = head_after(entries, expected)
        # Not synced: after a power cut it may be behind, never ahead of what the log holds.
        self._move_mark(head)
        self._redactions.follow(entries)
        if masks:
            self._carry_out_masks()
        return head

    def check(self, entries: Sequence[Entry], expected: Head) -> dict[int, bytes]:
        """Raise what `append` would raise for these, before anything is written; returns what they mask, by offset."""
        if self.head() != expected:
            raise HeadMoved(f"the log is at {self.head().lamport}, not at {expected.lamport}")
        check_chained(entries, expected)
        return self._masks_of(entries, expected)

    def sync(self, since: Head) -> Head:
        """Make what lies behind `since` durable, whoever appended it; returns how far. Raises OSError."""
        head = self._readable_head()
        self._segments.refresh()
        first, _ = self._segments.locate(since.end) if self._segments.paths else (0, 0)
        sync_files(self._segments.paths[first:])
        return head

    def confirm(self) -> None:
        """Its mark is the newest there is."""

    def await_copy(self, machine: str, lamport: int) -> None:
        """No other machine has it."""

    def behind_seconds(self) -> float:
        return 0.0

    def close(self) -> None:
        self._end_reading_ahead()
        self._let_go_of_writer()
        for fd in (self._lock, self._turnstile):
            if fd >= 0:
                os.close(fd)
        self._lock = self._turnstile = -1
        self._closed = "the log was closed"
        self._segments.close()
        self._head_file.close()

    # -- below

    def _end_reading_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None

    def _write(self, entries: Sequence[Entry], expected: Head) -> None:
        data = b"".join([entry.line + b"\n" for entry in entries])
        # A crash in here leaves any part of `data`, in any order of its blocks: NUL bytes, then lines of it. All of
        # it lies behind the mark and belongs to one group, which is how recovery tells it from damage.
        try:
            self._ready_segment(entries[0].commit.lamport, expected)
            write_all(self._writer, data)
        except OSError as error:
            self._cut_back_to(expected, error)
            if exhausted := exhaustion(error):
                raise exhausted from error
            if error.errno not in _REFUSALS:
                raise self._close_writer(f"writing to the log failed: {error.strerror}") from error
            raise StorageRefused(
                f"the log could not be written: {error.strerror}",
                hint="free some space or make the file system writable; nothing was lost and reads go on",
            ) from error
        if self._syncs:
            self._sync(expected)
        # Not cut back: without its lock this process must not shorten a file that others may write.
        if misplaced := self._misplaced():
            raise self._close_writer(f"{misplaced} while the log was written", hint=_PUT_BACK)

    def _sync(self, expected: Head) -> None:
        started = time.perf_counter()
        try:
            sync_data(self._writer)
        except OSError as error:
            # Never tried again: the kernel may have dropped the dirty pages and would say yes.
            self._cut_back_to(expected, error)
            raise self._close_writer(f"the log could not be synced: {error.strerror}") from error
        metrics.SYNC_SECONDS.observe(time.perf_counter() - started)

    def _require_in_place(self) -> None:
        """Before anything is decided or changed: what is at the paths now may be another log."""
        if misplaced := self._misplaced():
            raise self._refusal(f"{misplaced} while this process had the log open")

    def _refusal(self, why: str) -> Misplaced:
        return Misplaced(why, hint=_PUT_BACK, details={"restart_helps": not self._is_missing()})

    def _is_missing(self) -> bool:
        """Whether one of the files that are open has no successor at its path, so that a restart finds no log."""
        paths = (*self._segments.paths[-1:], self.system / "lock")
        return self._head_file.is_missing() or not all(path.exists() for path in paths)

    def _misplaced(self) -> str | None:
        """Which file is not the one that is open; None if all are. Three files, two calls of the system each."""
        if not self._is_segment_in_place():
            return f"{self._segments.paths[-1].name} was removed, replaced or moved"
        if not self._head_file.is_in_place():
            return "the stored head was removed, replaced or moved"
        if self._lock >= 0 and not is_at(self._lock, self.system / "lock"):
            return "the log's lock was removed or replaced"
        return None

    def _is_segment_in_place(self) -> bool:
        paths = self._segments.paths
        if paths and self._writer_path == paths[-1]:
            return is_at(self._writer, paths[-1])
        return self._segments.is_last_in_place()

    def _ready_segment(self, lamport: int, expected: Head) -> None:
        """Have the segment open that the next group goes to; start another when the last is full."""
        if not self._has_room():
            # Another process may have started one and died.
            self._segments.refresh()
        self._segments.check_named(expected.end, expected.lamport, lamport)
        if not self._has_room():
            make_directory(self._segments.directory)
            self._open_writer(segment_path(self._segments.directory, lamport))
            self._segments.refresh()
        elif self._writer_path != self._segments.paths[-1]:
            self._open_writer(self._segments.paths[-1])
            if not self._segments.is_last(self._writer):
                self._let_go_of_writer()
                raise self._refusal("the last segment of the log was replaced")

    def _has_room(self) -> bool:
        """Whether the last segment takes another group."""
        is_full = self._segments.size - self._segments.last_start >= self._segment_bytes_max
        return bool(self._segments.paths) and not is_full

    def _open_writer(self, path: Path) -> None:
        self._let_go_of_writer()
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        # Before anything is in it: else a power cut could take the name, and with it a group that was acknowledged.
        # A crash before this leaves an empty segment after the last commit, which the next append goes to.
        try:
            sync_directory(path.parent)
        except BaseException:
            os.close(fd)
            raise
        self._writer, self._writer_path = fd, path

    def _let_go_of_writer(self) -> None:
        if self._writer >= 0:
            os.close(self._writer)
        self._writer, self._writer_path = -1, None

    def _cut_back_to(self, head: Head, cause: OSError) -> None:
        """Take half-written bytes off again, so that nobody adopts what its writer was refused.

        A crash before this leaves them behind the mark: they may be adopted, though their callers were never told
        that they are there. That is allowed; what was said to be refused and is there is not, hence the close.
        """
        # Nothing was written unless the last segment is open.
        if self._writer_path is None or self._segments.paths[-1:] != [self._writer_path]:
            return
        if misplaced := self._misplaced():
            # Others may write the file by now.
            raise self._close_writer(f"a failed write ({cause.strerror}) was not undone: {misplaced}", hint=_PUT_BACK)
        try:
            os.ftruncate(self._writer, max(0, head.end - self._segments.last_start))
        except OSError as error:
            why = f"a failed write ({cause.strerror}) could not be undone: {error.strerror}"
            raise self._close_writer(why) from error

    def _masks_of(self, entries: Sequence[Entry], head: Head) -> dict[int, bytes]:
        return masks_of(
            entries,
            self._segments.find,
            self._segments.line,
            lambda line: self._redactions.problem(line, head.end) is None,
        )

    def _note_masks(self, lamport: int, masks: Mapping[int, bytes]) -> None:
        """Before the append: a crash behind it finishes the masking from this note."""
        try:
            self._masks.note(lamport, masks)
        except OSError as error:
            raise exhaustion(error) or StorageRefused(
                f"a redaction could not be noted: {error.strerror}",
                hint="free some space or make the file system writable; nothing was written and reads go on",
            ) from error

    def _carry_out_masks(self) -> None:
        """Raises Unmasked: the commit of the redaction is in the log, whatever fails here."""
        try:
            self._masks.carry_out(self._segments)
        except Exception as error:
            if exhausted := exhaustion(error):
                # The note remains, and the next claim carries it out.
                raise Unmasked(
                    f"a redaction is in the log but not carried out yet: {exhausted.message}", hint=_AWAIT_MASKS
                ) from exhausted
            # Only a process that opens the log anew may report it as done.
            reason = error.strerror if isinstance(error, OSError) else error
            closed = self._close_writer(f"a redaction could not be carried out: {reason}")
            closed.__cause__ = error
            raise Unmasked(closed.message, hint=closed.hint) from closed

    def _finish_masks_of_the_dead(self) -> None:
        """Whoever lives holds the lock until its masks are done; what waits for them must not wait for ever."""
        if self._lock < 0 or not self._masks.exist():
            return
        try:
            # An opening of its own: the thread that waits for our lock must not get this one with it.
            with locked(self.system / "lock", timeout_seconds=0) as has_lock:
                if has_lock:
                    self._masks.finish(self._segments, self.head())
        except OSError as error:
            logger.warning("a redaction could not be finished yet: %s", error.strerror)

    def _move_mark(self, head: Head) -> None:
        try:
            self._head_file.write(head)
        except OSError as error:
            raise self._close_writer(f"the position could not be kept: {error.strerror}") from error

    def _close_writer(self, why: str, *, hint: str = _LOOK_AT_DISK) -> LogClosed:
        self._closed = why
        logger.error("%s; this process writes no more", why)
        return LogClosed(why, hint=hint)

    # -- after a crash

    def _settle_what_a_crash_left(self) -> None:
        """Not while another process writes: it settles that itself, and its bytes are not ours."""
        self._segments.check_empty(self.head().lamport)
        if not self._segments.size and (witnessed := witnessed_by_snapshots(self.system)):
            raise Corrupt(
                f"the log in {self.system} is empty, but a snapshot was made at position {witnessed}",
                hint="restore the log from a backup; if you know better, delete the snapshots directory",
                details={"file": str(self._segments.directory), "line": 1},
            )
        if self._lock < 0 or self._is_settled() or not self._take_lock(_PATIENCE_SECONDS):
            return
        try:
            # Another process may have been first.
            if not self._is_settled():
                self._recover()
                # After the head has moved over what was adopted: a note whose commit is not in the log is dropped.
                self._masks.finish(self._segments, self.head())
                self._masks.sweep()
        finally:
            release(self._lock)

    def _is_settled(self) -> bool:
        return self._ends_at_the_mark() and not self._masks.exist() and not self._masks.were_begun()

    def _ends_at_the_mark(self) -> bool:
        marked = self._head_file.read() or Head()
        if marked.end != self._segments.size:
            # Not necessarily a crash: another process may have started a segment.
            self._segments.refresh()
        return marked.end == self._segments.size

    def _recover(self) -> None:
        """Read all of the log; nothing is touched unless it is sound."""
        marked = self._head_file.read()
        if marked is None:
            logger.warning("no kept position beside the log in %s", self.system)
        head = recover(
            self._segments,
            marked,
            pending=self._masks.waiting(),
            witnessed=witnessed_by_snapshots(self.system),
        )
        if head != marked:
            self._move_mark(head)

    def _settle_what_a_writer_left(self) -> None:
        """It died while we had the log open; we hold the lock."""
        try:
            if not self._ends_at_the_mark():
                # What somebody who died wrote whole is as good as what somebody who lives wrote.
                head = adopt(self._segments, self.head())
                if head is None:
                    self._recover()
                else:
                    self._move_mark(head)
            self._masks.finish(self._segments, self.head())
            self._masks.sweep()
        except OSError as error:
            raise exhaustion(error) or StorageRefused(
                f"what a writer left that died could not be settled: {error.strerror}",
                hint="free some space or make the file system writable; nothing was lost and reads go on",
            ) from error


def _open_lock(system: Path) -> int:
    """A file of its own, never removed; -1 where nothing can be written."""
    try:
        make_directory(system)
        return open_lock(system / "lock")
    except OSError as error:
        if error.errno not in _REFUSALS or not system.is_dir():
            raise exhaustion(error) or StorageRefused(
                f"{system} cannot be made: {error.strerror}", hint="choose another base directory with --base"
            ) from error
        logger.warning("%s is read-only: serving reads", system)
        return -1
