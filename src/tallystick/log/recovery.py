"""What a crash may leave in a files log, and how it is put right.

Behind the mark lie the bytes of a group that was being written: whole batches are adopted
(their writer died before it could acknowledge them), a torn line or an incomplete batch is
kept beside the log and cut off. A torn tail may be half a line, a run of NUL bytes, or NUL
bytes and then lines of the same group. An intact line of a *later* group behind a bad one
cannot come from a crash, since a group is started only when the one before is durable:
that is damage, and nothing is touched.

Nor is anything touched before the whole log up to the mark was read and found sound: a line
that damage made longer moves the end of the log behind the mark, and what lies there then is
no torn tail but commits that were acknowledged.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path

import msgspec

from tallystick.commits import Commit, chain
from tallystick.errors import Corrupt, StorageRefused, Unreadable, exhaustion
from tallystick.log import Entry, Head, head_after
from tallystick.log.redaction_index import NEEDLE
from tallystick.log.scanner import Scanner
from tallystick.log.segments import Segments
from tallystick.system.private_files import replace_file, sync_data, sync_directory, sync_file
from tallystick.system.regular_files import read_regular

_RESTORE = "this is damage, not a crash: restore the segment from a backup; nothing was changed"
_SNAPSHOT = re.compile(r"([0-9]{20})\.snapshot")

logger = logging.getLogger(__name__)


class SoundPart(msgspec.Struct, frozen=True):
    """What was read of a log: how far it is sound, and what stands there instead of more."""

    head: Head
    """After the last whole batch."""
    group: int
    """The group that batch was in; 0 where it lies before the mark."""
    problem: str | None = None
    """Why it went no further; None at the end of the log."""
    at: int = 0
    """Offset of what `problem` is about."""
    is_torn: bool = False
    """Whether it looks like a write that was cut short. Only a mark can tell whether it was one."""


def recover(segments: Segments, marked: Head | None, *, pending: Mapping[int, bytes], witnessed: int) -> Head:
    """Settle what lies behind `marked`, once all before it is proven; the caller holds the lock.

    `pending` are masks that wait to be carried out; `witnessed` is a position that is known from
    elsewhere to have been there. Returns the new durable head. Raises Corrupt, and then nothing was touched.
    """
    found = _read(segments, marked or Head(), pending)
    head = found.head
    if head.lamport < witnessed:
        raise segments.named(
            Corrupt(
                f"{found.problem or 'its end was cut off'}: the log is sound up to position {head.lamport}, "
                f"but a snapshot was made at {witnessed}"
            ),
            found.at or head.end,
            hint="restore the log from a backup; if you know better, delete the snapshots directory",
        )
    if head.end < segments.size:
        _refuse_damage(segments, found, is_marked=marked is not None)
    # From here on things are changed: in an order in which a crash is recovered from by doing it all again.
    adopted = head.count - (marked.count if marked else 0)
    if adopted:
        logger.warning("adopted %d commits found behind position %d", adopted, marked.lamport if marked else 0)
    if head.end < segments.size:
        _cut_off(segments, head, found.problem or "")
    _sync_last(segments)
    return head


def adopt(segments: Segments, marked: Head) -> Head | None:
    """As `recover`, for one who opened the log before; None unless whole batches and nothing else follow the mark."""
    if segments.size < marked.end:
        return None
    found = _Reading(segments, marked, Head()).read()
    if found.problem is not None:
        return None
    _sync_last(segments)
    return found.head


def set_back(directory: Path, head: Head) -> None:
    """Let a log end at an earlier head of it, for one who can fetch the rest again; the caller holds the lock.

    What lay behind is set aside, as a torn end is.
    """
    with closing(Segments(directory)) as segments:
        segments.refresh()
        if segments.size <= head.end:
            return
        index, _ = segments.locate(head.end)
        for path in segments.paths[index + 1 :]:
            os.rename(path, path.with_name(f"{path.name}.torn-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-0"))
        sync_directory(directory)
    with closing(Segments(directory)) as segments:
        segments.refresh()
        if segments.size > head.end:
            _cut_off(segments, head, "it was not synced before the machine went down")
        _sync_last(segments)


def witnessed_by_snapshots(system: Path) -> int:
    """The newest position that a snapshot is named for: so far the log was durable once."""
    names = (_SNAPSHOT.fullmatch(path.name) for path in (system / "snapshots").glob("*.snapshot"))
    return max((int(name[1]) for name in names if name), default=0)


def _read(segments: Segments, marked: Head, pending: Mapping[int, bytes]) -> SoundPart:
    """Raises Corrupt unless the log is sound up to the mark, and the mark's commit the last one there."""
    reading = _Reading(segments, Head(), marked)
    found = reading.read(pending)
    if found.head.end >= marked.end and reading.at_mark == marked:
        return found
    problem = found.problem or (
        f"the log ends at byte {segments.size}, but position {marked.lamport} was acknowledged up to "
        f"byte {marked.end}: its end was cut off"
        if segments.size < marked.end
        else f"it is not what was acknowledged as position {marked.lamport}"
    )
    raise segments.named(Corrupt(problem), found.at, hint=_RESTORE)


class _Reading:
    def __init__(self, segments: Segments, start: Head, marked: Head) -> None:
        self._segments = segments
        self._start = start
        self._marked = marked
        self._scan = Scanner(segments, start)
        self._verifier = self._scan.verifier
        self._batch: list[Entry] = []
        self._doubtful: dict[int, tuple[int, SoundPart]] = {}
        self.at_mark: Head | None = start if marked == start else None
        """What stands where the mark says the log ends; None before that, and where no batch ends there."""

    def read(self, pending: Mapping[int, bytes] | None = None) -> SoundPart:
        found = SoundPart(self._start, 0)
        size = self._segments.size
        for offset, line, is_whole in self._segments.lines(self._start.end, size):
            if not is_whole:
                is_last = offset + len(line) == size
                problem = "the last line is torn" if is_last else "the segment ends in the middle of a line"
                found = _stopped(found, problem, offset, is_torn=is_last)
                break
            try:
                found = self._feed(found, offset, line)
            except Corrupt as error:
                found = _stopped(found, error.message, offset, is_torn=b"\0" in line)
                break
        else:
            if self._batch:
                found = _stopped(found, "the last batch is incomplete", self._batch[0].offset, is_torn=True)
            else:
                found = msgspec.structs.replace(found, at=found.head.end)
        return self._without_doubtful(found, pending or {})

    def _feed(self, found: SoundPart, offset: int, line: bytes) -> SoundPart:
        masked = self._verifier.redacted
        entry = self._scan.feed(offset, line)
        commit = entry.commit
        if self._verifier.redacted > masked:
            # Altered, or redacted by a commit further on: known at the end of the log. Until then it is remembered
            # how far the log is sound without it.
            self._doubtful[commit.lamport] = (offset, found)
        self._batch.append(entry)
        if not commit.ends_draft:
            return found
        head = head_after(self._batch, found.head)
        self._batch = []
        if head.end == self._marked.end:
            # Compared whole, hashes and all: a log of the right length may still be another one.
            self.at_mark = head
        return SoundPart(head, commit.first_of_group() if head.end > self._marked.end else 0)

    def _without_doubtful(self, found: SoundPart, pending: Mapping[int, bytes]) -> SoundPart:
        """Up to the first payload that is neither the committed one nor what a redaction left, nor soon will be."""
        for lamport in self._verifier.unexplained:
            offset, before = self._doubtful[lamport]
            if offset not in pending:
                if offset < self._marked.end:
                    self.at_mark = None
                return _stopped(before, f"lamport {lamport}: the payload does not match content_hash", offset)
        return found


def _stopped(found: SoundPart, problem: str, offset: int, *, is_torn: bool = False) -> SoundPart:
    return SoundPart(found.head, found.group, problem, offset, is_torn)


def _refuse_damage(segments: Segments, found: SoundPart, *, is_marked: bool) -> None:
    """What lies behind the head may go only if it was never acknowledged."""
    # Those that may have been under way when the writer died.
    groups = {found.group, found.head.lamport + 1}
    for _, line, _ in segments.lines(found.head.end, segments.size):
        commit = _intact(line)
        if commit is not None and (commit.first_of_group() not in groups or commit.lamport <= found.head.lamport):
            problem = f"{found.problem}, but intact commits follow (lamport {commit.lamport})"
            raise segments.named(Corrupt(problem, details={"lamport": commit.lamport}), found.at, hint=_RESTORE)
    index, _ = segments.locate(found.head.end)
    if index + 1 < len(segments.paths):
        raise segments.named(Corrupt(f"{found.problem}, in the middle of the log"), found.at, hint=_RESTORE)
    if not is_marked and not found.is_torn:
        raise segments.named(
            Corrupt(f"{found.problem}, and there is no kept position that tells how much was acknowledged"),
            found.at,
            hint=_RESTORE,
        )


def _intact(line: bytes) -> Commit | None:
    try:
        commit = chain.decode(line)
    except Corrupt:
        return None
    # By its own payload alone: what lies between here and the last sound line is unknown, so no chain leads to it.
    named = chain.commit_id(commit.payload, commit.lamport, commit.actor, commit.operation)
    return commit if named == commit.commit_id else None


def _cut_off(segments: Segments, head: Head, problem: str) -> None:
    index, place = segments.locate(head.end)
    path = segments.paths[index]
    torn = path.with_name(f"{path.name}.torn-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{head.end}")
    data = path.read_bytes()[place:]
    # The copy is durable, name and all, before anything is cut off: a crash in between leaves both.
    try:
        replace_file(torn, data)
    except OSError as error:
        raise exhaustion(error) or StorageRefused(
            f"a torn end of {path.name} cannot be set aside: {error.strerror}", hint="free some space and start again"
        ) from error
    # Not synced here but with what was adopted, before the mark moves. A crash before that leaves the torn end, or
    # part of it, for the next recovery to set aside once more.
    os.truncate(path, place)
    logger.warning("%s: %s; %d bytes were set aside in %s", path.name, problem, len(data), torn.name)


def _sync_last(segments: Segments) -> None:
    """Adopted bytes become visible only now, when a power cut cannot take them back."""
    if not segments.paths:
        return
    fd = os.open(segments.paths[-1], os.O_WRONLY | os.O_CLOEXEC)
    try:
        sync_file(fd)
    finally:
        os.close(fd)
    sync_directory(segments.directory)


class PendingMasks:
    """The note of payloads that a redaction is about to overwrite, so that a crash cannot leave half of it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fresh = path.with_suffix(".new")

    def were_begun(self) -> bool:
        """Whether a note is being written, or its writer died over it."""
        return self._fresh.is_file()

    def sweep(self) -> None:
        """Of a note that was never finished; the caller holds the lock."""
        self._fresh.unlink(missing_ok=True)

    def exist(self) -> bool:
        return self._path.exists()

    def note(self, lamport: int, masks: Mapping[int, bytes]) -> None:
        """Raises OSError, and then there is none."""
        try:
            replace_file(self._path, msgspec.json.encode(_Note(lamport, dict(masks))), unfinished=self._fresh)
        except OSError:
            self._path.unlink(missing_ok=True)
            raise

    def waiting(self) -> dict[int, bytes]:
        """Offset → payload of a note that nobody carried out. Raises Corrupt when it cannot be read."""
        note = self._read()
        return {} if note is None else note.masks

    def carry_out(self, segments: Segments) -> None:
        note = self._read()
        if note is None:
            return
        # A crash in here leaves some payloads masked, and one perhaps half masked: neither what was committed nor
        # what is left. The note holds the bytes themselves, so doing all of it again is right whatever was done.
        _overwrite(segments, note.masks)
        # Torn ends may hold an earlier try to write what is masked now. Before the note goes: it is what makes
        # sure that this is done.
        for torn in segments.directory.glob("*.torn-*"):
            torn.unlink(missing_ok=True)
        self._drop()

    def finish(self, segments: Segments, head: Head) -> None:
        """After a crash: carry it out if its commit is in the log, forget it if not. Raises Corrupt."""
        note = self._read()
        if note is None:
            return
        # The mark has been moved over whatever was adopted, so the commit is before it or nowhere.
        if note.lamport <= head.lamport:
            self._check(note, segments, head)
            self.carry_out(segments)
        else:
            self._drop()

    def _read(self) -> _Note | None:
        try:
            return msgspec.json.decode(read_regular(self._path), type=_Note)
        except FileNotFoundError:
            return None
        except OSError as error:
            # Not `_damaged`, which advises to remove it: once the disk is back it is carried out.
            raise exhaustion(error) or Unreadable(
                f"the redaction noted in {self._path} cannot be read: {error.strerror}",
                details={"file": str(self._path), "line": 1},
            ) from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(f"cannot be read: {error}") from error

    def _check(self, note: _Note, segments: Segments, head: Head) -> None:
        """What it would overwrite cannot be had back: only what a commit in the log says is left may take its place."""
        said = (chain.decode(line).redacts or {} for _, line in segments.lines_with(NEEDLE, 0, head.end))
        left = {int(lamport): digest for redacts in said for lamport, digest in redacts.items()}
        for offset, payload in note.masks.items():
            lamport, room = _payload_at(segments, offset, head)
            if len(payload) > room or left.get(lamport) != sha256(payload).hexdigest():
                raise self._damaged(f"would put at byte {offset} what no redaction names")

    def _damaged(self, problem: str) -> Corrupt:
        return Corrupt(
            f"the redaction noted in {self._path} {problem}",
            hint="remove this file and start again; 'tallystick verify' then names what is still to be redacted",
            details={"file": str(self._path), "line": 1},
        )

    def _drop(self) -> None:
        self._path.unlink()
        sync_directory(self._path.parent)


class _Note(msgspec.Struct):
    lamport: int
    masks: dict[int, bytes]


def _payload_at(segments: Segments, offset: int, head: Head) -> tuple[int, int]:
    """Lamport and length of the line's payload; lamport 0, which no commit has, where no line begins."""
    begins = 0 <= offset < head.end and (offset == 0 or segments.read(offset - 1, 1) == b"\n")
    try:
        line = segments.line(offset) if begins else b""
        return chain.decode(line).lamport, chain.room_of(line)
    except Unreadable:
        raise
    except Corrupt:
        return 0, 0


def _overwrite(segments: Segments, masks: Mapping[int, bytes]) -> None:
    """Put each payload in its place, of the same length: no offset moves. Durable on return, by a sync a segment.

    In the order of the note. A crash may leave some of it, and half of one line: the note puts that right.
    """
    with ExitStack() as stack:
        opened: dict[Path, int] = {}
        for offset, payload in masks.items():
            index, place = segments.locate(offset)
            path = segments.paths[index]
            if path not in opened:
                opened[path] = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
                stack.callback(os.close, opened[path])
            os.pwrite(opened[path], chain.mask(segments.line(offset), payload), place)
        for fd in opened.values():
            sync_data(fd)
