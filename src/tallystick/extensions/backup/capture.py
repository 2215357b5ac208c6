"""What one tenant has, as pieces: only what is new is read, verified and put; the rest is carried on.

Servers write meanwhile. A log is taken up to the durable head that was seen first, and each line is what was committed
or what a redaction up to that head left of it; where a redaction is at work just now, it is read again.

Parts of a log are merged as they come, a small one with those before it that are no larger: a log has few parts
however often it is backed up, and a byte is put again about as often as its part doubles.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import closing, suppress
from functools import partial
from hashlib import file_digest
from itertools import takewhile
from pathlib import Path

import msgspec

from tallystick.audit.files import files_in
from tallystick.commits import REDACTIONS, Commit, chain
from tallystick.commits.signed_note import NoteRefused, parse_checkpoint, parse_note
from tallystick.config import Settings, named_paths
from tallystick.errors import Conflict, Corrupt
from tallystick.extensions.backup.contents import EXPORTS_PATH, is_plain, is_writable_name
from tallystick.extensions.backup.figures import notes_of
from tallystick.extensions.backup.manifest import (
    PIECE_BYTES_MAX,
    AuditBackup,
    LogPart,
    Piece,
    RedactionNote,
    StoredFile,
    TenantBackup,
)
from tallystick.log import Entry, Head, checkpoint_path
from tallystick.log.head_file import HeadFile
from tallystick.log.redaction_index import NEEDLE, RedactionIndex
from tallystick.log.scanner import Scanner
from tallystick.log.unopened import Unopened, unopened
from tallystick.projections.blobs import blob_of
from tallystick.projections.reserved_files import Reserved

Put = Callable[[bytes], Piece]
Told = Callable[[int], None]
"""Called with the bytes that were done."""

BLOB = re.compile(rb'"blob":"([0-9a-f]{64})"')
_ROUNDS = 60
_PAUSE_SECONDS = 0.05


def capture_tenant(
    settings: Settings,
    before: TenantBackup | None,
    put: Put,
    told: Told,
    lost: Set[str] = frozenset(),
    passed_over: Callable[[str], None] = lambda path: None,
) -> TenantBackup:
    """Raises Corrupt for a log that is damaged, and Conflict for one that does not go on from `before`. What `before`
    names and is `lost` is read and put again. `passed_over` is called with each plain file whose name no manifest can
    hold."""
    log = capture_log(settings.system, before, put, told, lost)
    before = _without(before, lost) if before and lost else before
    redacted = max((note.at for note in log.redactions), default=0)
    blobs, missing = _blobs(settings, log, before, put)
    return TenantBackup(
        tenant=settings.tenant,
        first=log.first,
        head=log.head,
        log=log.parts,
        redactions=log.redactions,
        blobs=blobs,
        missing=missing,
        audit=_audit(settings.system, before.audit if before else None, put),
        snapshot=_snapshot(settings.system, before, log.head, redacted, put),
        checkpoint=_checkpoint(settings.home, log.head),
        files=_files(settings, before, put, passed_over),
    )


def _without(before: TenantBackup, lost: Set[str]) -> TenantBackup:
    """As if what is lost, beside the log, had never been put."""

    def is_whole(file: StoredFile) -> bool:
        return not any(piece.object in lost for piece in file.pieces)

    def begun(file: StoredFile) -> StoredFile:
        return StoredFile(file.path, list(takewhile(lambda piece: piece.object not in lost, file.pieces)))

    audit = before.audit
    return msgspec.structs.replace(
        before,
        blobs=[file for file in before.blobs if is_whole(file)],
        missing=[*before.missing, *(Path(file.path).name for file in before.blobs if not is_whole(file))],
        audit=AuditBackup(audit.head, [begun(file) for file in audit.files]) if audit else None,
        snapshot=before.snapshot if before.snapshot and is_whole(before.snapshot) else None,
        files=[file for file in before.files if is_whole(file)],
    )


# -- the log


class CapturedLog(msgspec.Struct, frozen=True):
    first: str
    head: Head
    parts: list[LogPart]
    redactions: list[RedactionNote]
    has_redacted: bool
    """Since the backup before it."""
    blobs: set[str]
    """That what was read names: all of the log, where something was redacted."""


class _Unsettled(Exception):
    """A line is not, or not yet, what a redaction left of it."""

    def __init__(self, error: Corrupt) -> None:
        self.error = error


def capture_log(system: Path, before: TenantBackup | None, put: Put, told: Told, lost: Set[str]) -> CapturedLog:
    for rounds in range(_ROUNDS):
        with unopened(system) as log:
            try:
                return _Reading(log, before, put, told, lost).captured()
            except _Unsettled as unsettled:
                # A redaction is in the log before its masks are, and a later one than the head may be at work.
                if rounds == _ROUNDS - 1:
                    raise unsettled.error from None
        time.sleep(_PAUSE_SECONDS)
    raise AssertionError("unreachable")


class _Reading:
    def __init__(self, log: Unopened, before: TenantBackup | None, put: Put, told: Told, lost: Set[str]) -> None:
        self._segments = log.segments
        self._head = log.head
        self._put, self._told, self._lost = put, told, lost
        self._index = RedactionIndex(partial(log.segments.lines_with, NEEDLE))
        self._blobs: set[str] = set()
        if log.segments.size < log.head.end:
            raise Corrupt(
                f"the log ends at byte {log.segments.size}, but byte {log.head.end} was acknowledged",
                hint="run 'tallystick verify', then follow docs/runbooks/corrupt-log.md",
            )
        self._first = chain.record_hash_of(log.segments.line(0)) if log.head.count else ""
        is_same = before is not None and before.first == self._first
        self._before = before if is_same else None
        """Another log under the same name, of a tenant that was deleted and came back, goes on from nothing."""

    def captured(self) -> CapturedLog:
        old = self._before.log if self._before else []
        base = self._before.head if self._before else Head()
        self._require_continued(base)
        made = self._redactions_since(base)
        self._left = {int(at): left for commit in made for at, left in (commit.redacts or {}).items()}
        kept = old[: _merge_from(old, self._head.end)] if self._head.end > base.end else old
        parts = list(self._kept_parts(kept))
        parts += self._read(parts[-1].head if parts else Head(), self._head.end)
        return CapturedLog(
            first=self._first,
            head=self._head,
            parts=parts,
            redactions=[*(self._before.redactions if self._before else []), *notes_of(made)],
            has_redacted=bool(made),
            blobs=self._all_blobs() if made else self._blobs,
        )

    def _require_continued(self, base: Head) -> None:
        """Raises Conflict unless the log that was backed up last is the beginning of this one."""
        with suppress(Corrupt):
            if base.count == 0 or (
                base.end <= self._head.end
                and chain.record_hash_of(self._segments.line_before(base.end)) == base.record_hash
            ):
                return
        raise Conflict(
            f"the newest backup holds this log up to position {base.lamport}, and this log (at {self._head.lamport}) "
            "does not go on from there: it is an older copy, or the memory went on somewhere else",
            code="BACKUP_DIVERGED",
            hint="nothing was changed in the store; find out which is the memory, and back the other up elsewhere",
        )

    def _redactions_since(self, base: Head) -> list[Commit]:
        found = (chain.decode(line) for _, line in self._segments.lines_with(NEEDLE, base.end, self._head.end))
        return [commit for commit in found if commit.operation in REDACTIONS]

    def _kept_parts(self, parts: Sequence[LogPart]) -> Iterator[LogPart]:
        """Those that a redaction reached or that are lost are read again. Their lines lie where they lay."""
        before = Head()
        for part in parts:
            if part.piece.object in self._lost or any(
                part.first <= lamport <= part.head.lamport for lamport in self._left
            ):
                yield from self._read(before, part.head.end)
            else:
                yield part
            before = part.head

    def _read(self, start: Head, end: int) -> Iterator[LogPart]:
        """Cut between drafts only: a part can be verified by itself."""
        scan, lines, size, first = Scanner(self._segments, start), list[bytes](), 0, 0
        for entry in self._checked(scan, end):
            first = first or entry.commit.lamport
            lines.append(entry.line)
            size += len(entry.line) + 1
            self._blobs.update(each.decode() for each in BLOB.findall(entry.line))
            if entry.commit.ends_draft and (size >= PIECE_BYTES_MAX or entry.end == end):
                lines.append(b"")
                yield LogPart(self._put(b"\n".join(lines)), first, scan.head)
                self._told(size)
                lines, size, first = [], 0, 0
        if lines:
            raise self._segments.named(Corrupt("the log ends within a batch"), end - 1)

    def _checked(self, scan: Scanner, end: int) -> Iterator[Entry]:
        try:
            for entry in scan.entries(end):
                self._check(entry.line, entry.commit, is_intact=scan.verifier.is_intact)
                yield entry
        except Corrupt as error:
            raise self._segments.named(error, scan.offset) from None

    def _check(self, line: bytes, commit: Commit, *, is_intact: bool) -> None:
        if is_intact:
            left = self._left.get(commit.lamport, commit.content_hash)
            if left != commit.content_hash:
                raise _Unsettled(
                    Corrupt(
                        f"lamport {commit.lamport}: a redaction names it, but its payload is still there",
                        hint="start a server once, which finishes it",
                    )
                )
        elif (problem := self._index.problem(line, self._head.end)) is not None:
            raise _Unsettled(Corrupt(problem, hint="run 'tallystick verify'"))

    def _all_blobs(self) -> set[str]:
        """What a redaction took away is named no more: only all of the log tells what still is."""
        found: set[str] = set()
        for _, line in self._segments.lines_with(b'"blob":"', 0, self._head.end):
            found.update(each.decode() for each in BLOB.findall(line))
        return found


def _merge_from(parts: Sequence[LogPart], end: int) -> int:
    """How many stay as they are."""
    kept = len(parts)
    while kept:
        last = parts[kept - 1]
        if last.piece.bytes > end - last.head.end or end - last.start > PIECE_BYTES_MAX:
            break
        kept -= 1
    return kept


# -- what lies beside it


def _blobs(
    settings: Settings, log: CapturedLog, before: TenantBackup | None, put: Put
) -> tuple[list[StoredFile], list[str]]:
    known = {file.path: file for file in before.blobs} if before else {}
    kept = {} if log.has_redacted else dict(known)
    missing = set() if log.has_redacted or before is None else set(before.missing)
    for blob in sorted(log.blobs | missing):
        path = f"_content/blobs/{blob}"
        if path in known:
            kept[path] = known[path]
        elif (found := _stored(settings.home, path, put)) is not None and _digest(settings.home / path) == blob:
            kept[path] = found
            missing.discard(blob)
        elif _is_content(settings.system, log.head, blob):
            missing.add(blob)
    return [kept[path] for path in sorted(kept)], sorted(missing)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def _is_content(system: Path, head: Head, blob: str) -> bool:
    """Not everything that is written like the name of a blob is one: attributes may be called so."""
    with unopened(system) as log:
        for _, line in log.segments.lines_with(blob.encode(), 0, head.end):
            if blob_of(chain.decode(line)) == blob:
                return True
    return False


def _audit(system: Path, before: AuditBackup | None, put: Put) -> AuditBackup | None:
    directory = system / "audit"
    with closing(HeadFile(directory / "head")) as head_file:
        head = head_file.read()
    if head is None:
        return None
    known = {file.path: file for file in before.files} if before else {}
    found = []
    for path in files_in(directory):
        if int(path.stem) <= head.count:
            size = head.end if int(path.stem) == head.count else path.stat().st_size
            name = f"_system/audit/{path.name}"
            found.append(_grown(path, name, known.get(name), size, put))
    return AuditBackup(head, found)


def _grown(path: Path, name: str, before: StoredFile | None, size: int, put: Put) -> StoredFile:
    """A file that is only ever added to."""
    pieces = list(before.pieces) if before and before.bytes <= size else []
    done = sum(piece.bytes for piece in pieces)
    while pieces and done < size and pieces[-1].bytes <= size - done and size - done < PIECE_BYTES_MAX:
        done -= pieces.pop().bytes
    with path.open("rb") as file:
        file.seek(done)
        pieces += _pieces(file.read, size - done, put)
    return StoredFile(name, pieces)


def _snapshot(system: Path, before: TenantBackup | None, head: Head, redacted: int, put: Put) -> StoredFile | None:
    """The newest that holds nothing of what was redacted. It is a cache: to begin without one takes longer."""
    last = before.snapshot if before else None
    paths = sorted((system / "snapshots").glob("*.snapshot"), reverse=True)
    usable = (path for path in paths if path.stem.isdecimal() and redacted <= int(path.stem) <= head.lamport)
    for path in usable:
        name = f"_system/snapshots/{path.name}"
        if last is not None and last.path == name:
            return last
        if (found := _stored(system.parent, name, put)) is not None:
            return found
    return last if last is not None and int(Path(last.path).stem) >= redacted else None


def _checkpoint(home: Path, head: Head) -> str:
    """Only if it is of what is in the backup: a later one would be held against a log that does not reach it."""
    with suppress(OSError, NoteRefused):
        note = checkpoint_path(home).read_bytes()
        if parse_checkpoint(parse_note(note)).size <= head.count:
            return note.decode()
    return ""


def _files(
    settings: Settings, before: TenantBackup | None, put: Put, passed_over: Callable[[str], None]
) -> list[StoredFile]:
    """Plain files, which no log holds, as they are when they are read."""
    known = {file.path: file for file in before.files} if before else {}
    names = _plain_files(settings, passed_over) if settings.backup_files else iter(())
    found = []
    for name in (*names, EXPORTS_PATH):
        with suppress(FileNotFoundError):
            seen = (settings.home / name).stat()
            old = known.get(name)
            if old is not None and (old.changed, old.bytes) == (seen.st_mtime_ns, seen.st_size):
                found.append(old)
            elif (stored := _stored(settings.home, name, put)) is not None:
                found.append(msgspec.structs.replace(stored, changed=seen.st_mtime_ns))
    return found


def _plain_files(settings: Settings, passed_over: Callable[[str], None]) -> Iterator[str]:
    """Paths that the files toolset may reach. Nothing that settings name: keys, certificates and secrets stay here."""
    reserved = Reserved(settings.home, named_paths(settings), settings.base)

    def is_reachable(path: str) -> bool:
        with suppress(FileNotFoundError):
            return is_plain(path) and not reserved.hides(tuple(path.split("/")), os.lstat(settings.home / path))
        return False

    for directory, directories, names in os.walk(settings.home):
        at = Path(directory).relative_to(settings.home)
        directories[:] = sorted(name for name in directories if is_reachable((at / name).as_posix()))
        for path in ((at / name).as_posix() for name in sorted(names)):
            if not is_writable_name(path):
                passed_over(path)
            elif is_reachable(path) and stat.S_ISREG(os.lstat(settings.home / path).st_mode):
                yield path


def _stored(home: Path, name: str, put: Put) -> StoredFile | None:
    """None where it is not there, or is no file."""
    try:
        # No link is followed, and nothing that is no file is waited for.
        fd = os.open(home / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        return None
    with open(fd, "rb") as file:
        return StoredFile(name, list(_pieces(file.read, None, put)))


def _pieces(read: Callable[[int], bytes], size: int | None, put: Put) -> Iterable[Piece]:
    """Up to `size` bytes, or all there are."""
    while size is None or size > 0:
        data = read(PIECE_BYTES_MAX if size is None else min(size, PIECE_BYTES_MAX))
        if not data:
            break
        size = None if size is None else size - len(data)
        yield put(data)
