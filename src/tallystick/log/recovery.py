"""What a crash may leave in a files log, and how it is put right.

Behind the mark lie the bytes of a group that was being written: whole batches are adopted
(their writer died before it could acknowledge them), a torn line or an incomplete batch is
kept beside the log and cut off. A torn tail may be half a line, a run of NUL bytes, or NUL
bytes and then lines of the same group. An intact line of a *later* group behind a bad one
cannot come from a crash, since a group is started only when the one before is durable:
that is damage, and nothing is touched.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tallystick.commits import Commit, chain
from tallystick.errors import Corrupt, StorageRefused
from tallystick.log import Entry, Head, head_after, verifier_after
from tallystick.log.mark import sync_directory
from tallystick.log.segments import Segments

logger = logging.getLogger(__name__)


def recover(segments: Segments, marked: Head) -> Head:
    """Settle what lies behind `marked`; the caller holds the lock. Returns the new durable head."""
    head, group, problem = _adopt(segments, marked)
    if head.count > marked.count:
        logger.warning("adopted %d commits found behind position %d", head.count - marked.count, marked.lamport)
    if head.end < segments.size:
        _refuse_damage(segments, head, {group, head.lamport + 1}, problem)
        _cut_off(segments, head, problem)
    _sync_last(segments)
    return head


def _adopt(segments: Segments, head: Head) -> tuple[Head, int, str]:
    """The head after the last whole batch, the group that batch was in, and why it went no further."""
    verifier = verifier_after(head)
    batch: list[Entry] = []
    group, size, problem = 0, segments.size, "the last batch is incomplete"
    doubtful: dict[int, tuple[Head, int]] = {}
    for offset, line in segments.lines(head.end, size):
        if offset + len(line) >= size:
            problem = "the last line is torn"
            break
        try:
            commit = verifier.feed(line)
        except Corrupt as error:
            problem = error.message
            break
        batch.append(Entry(offset, commit, line))
        if chain.content_hash(commit.payload) != commit.content_hash:
            doubtful[commit.lamport] = (head, group)
        if commit.batch is None or commit.batch[0] == commit.batch[1]:
            head, group, batch = head_after(batch, head), commit.first_of_group(), []
    for lamport in verifier.unexplained:
        return *doubtful[lamport], f"lamport {lamport}: the payload does not match content_hash"
    return head, group, problem


def _refuse_damage(segments: Segments, head: Head, groups: set[int], problem: str) -> None:
    """`groups` are those that may have been under way when the writer died."""
    for _, line in segments.lines(head.end, segments.size):
        commit = _intact(line)
        if commit is not None and commit.first_of_group() not in groups:
            path, number = segments.place(head.end)
            raise Corrupt(
                f"{path.name}, line {number}: {problem}, but intact commits follow (lamport {commit.lamport})",
                hint="this is damage, not a crash: restore the segment from a backup; nothing was changed",
                details={"file": str(path), "line": number, "lamport": commit.lamport},
            )


def _intact(line: bytes) -> Commit | None:
    try:
        commit = chain.decode(line)
    except Corrupt:
        return None
    named = chain.commit_id(commit.payload, commit.lamport, commit.actor, commit.operation)
    return commit if named == commit.commit_id else None


def _cut_off(segments: Segments, head: Head, problem: str) -> None:
    index, place = segments.locate(head.end)
    path = segments.paths[index]
    if index + 1 < len(segments.paths):
        raise Corrupt(f"{path.name}: {problem}, in the middle of the log", details={"file": str(path)})
    torn = path.with_name(f"{path.name}.torn-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{head.end}")
    data = path.read_bytes()[place:]
    try:
        _write_durably(torn, data)
    except OSError as error:
        raise StorageRefused(
            f"a torn end of {path.name} cannot be set aside: {error.strerror}", hint="free some space and start again"
        ) from error
    os.truncate(path, place)
    logger.warning("%s: %s; %d bytes were set aside in %s", path.name, problem, len(data), torn.name)


def _sync_last(segments: Segments) -> None:
    """Adopted bytes become visible only now, when a power cut cannot take them back."""
    if not segments.paths:
        return
    fd = os.open(segments.paths[-1], os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
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
        return self._fresh.exists()

    def sweep(self) -> None:
        """Of a note that was never finished; the caller holds the lock."""
        self._fresh.unlink(missing_ok=True)

    def exist(self) -> bool:
        return self._path.exists()

    def note(self, lamport: int, masks: Mapping[int, bytes]) -> None:
        """Raises OSError, and then there is none."""
        try:
            _write_durably(self._fresh, msgspec.json.encode(_Note(lamport, dict(masks))))
            os.rename(self._fresh, self._path)
            sync_directory(self._path.parent)
        except OSError:
            self._fresh.unlink(missing_ok=True)
            self._path.unlink(missing_ok=True)
            raise

    def carry_out(self, segments: Segments) -> None:
        note = msgspec.json.decode(self._path.read_bytes(), type=_Note)
        for offset, payload in note.masks.items():
            _overwrite(segments, offset, payload)
        # Torn ends may hold an earlier try to write what is masked now.
        for torn in segments.directory.glob("*.torn-*"):
            torn.unlink(missing_ok=True)
        self._drop()

    def finish(self, segments: Segments, head: Head) -> None:
        """After a crash: carry it out if its commit is in the log, forget it if not."""
        if not self.exist():
            return
        note = msgspec.json.decode(self._path.read_bytes(), type=_Note)
        if note.lamport <= head.lamport:
            self.carry_out(segments)
        else:
            self._drop()

    def _drop(self) -> None:
        self._path.unlink()
        sync_directory(self._path.parent)


class _Note(msgspec.Struct):
    lamport: int
    masks: dict[int, bytes]


def _overwrite(segments: Segments, offset: int, payload: bytes) -> None:
    index, place = segments.locate(offset)
    masked = chain.mask(segments.line(offset), payload)
    fd = os.open(segments.paths[index], os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(fd, masked, place)
        os.fdatasync(fd)
    finally:
        os.close(fd)


def _write_durably(path: Path, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
