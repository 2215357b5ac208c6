"""A memory made again from a backup: built beside, proven, and only then moved into the empty base.

    <base>/.restoring/tree       everything, as it will lie in the base
    <base>/.restoring/complete   written when the tree is whole, proven and durable

While `.restoring` is there no log of the base is opened. A crash before `complete` leaves a tree that the next restore
throws away; after it, one that the next restore moves into place. What is restored is what the manifest says, byte for
byte. The manifest may have been written by anybody who can write to the store: its names are checked before they become
paths, and its figures are compared with what was fetched. Settings belong to the operator and are not restored.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

import msgspec

from tallystick.audit.proof import verify_audit
from tallystick.clock import from_text, to_text, wall_clock
from tallystick.commits.signed_note import VerifierKey
from tallystick.config import FILE_NAME
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound, StorageRefused
from tallystick.extensions.backup.capture import BLOB
from tallystick.extensions.backup.contents import home_of, require_contained, require_unnamed
from tallystick.extensions.backup.figures import (
    SignedTree,
    redactions_of,
    require_end,
    require_part,
    require_redactions,
)
from tallystick.extensions.backup.manifest import LogPart, Manifest, Piece, Signed, StoredFile, TenantBackup
from tallystick.extensions.backup.repository import Repository
from tallystick.extensions.backup.run import is_before
from tallystick.extensions.backup.targets import Target, write_target
from tallystick.log import Head, checkpoint_path, reached, verifier_after
from tallystick.log.head_file import HeadFile
from tallystick.log.proof import prove
from tallystick.log.replica import RESTORING, Replica, write_replica
from tallystick.log.segments import segment_path
from tallystick.operations import Progress, no_progress
from tallystick.projections.blobs import prove_blobs
from tallystick.system.file_locks import locked
from tallystick.system.private_files import make_directory, replace_file, sync_directory, sync_files, write_all

_MAY_BE_THERE = {FILE_NAME, "graph.config.yaml", RESTORING}
_TREE, _COMPLETE = "tree", "complete"
_AT_ONCE = 4


class AsOf(msgspec.Struct, frozen=True):
    """Up to where a log is restored; without either, all of it."""

    position: int | None = None
    time: str | None = None

    def reaches(self, lamport: int, timestamp: str) -> bool:
        return (self.position is None or lamport <= self.position) and (self.time is None or timestamp <= self.time)


WHOLE = AsOf()


class TenantRestored(msgspec.Struct, frozen=True):
    tenant: str
    position: int
    commits: int
    record_hash: str
    blobs: int
    missing: list[str]


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    number: int
    at: str
    """When the backup was made."""
    base: str
    tenants: list[TenantRestored]
    bytes: int
    signed_by: list[str]
    """Verifier keys that were asked for and signed the manifest."""
    notes: list[str]
    stream: str = ""
    """Which memory of a stream it was a backup of."""


def parse_as_of(text: str | None) -> AsOf:
    """A position, or any ISO 8601 time. Raises InvalidArgument."""
    if text is None:
        return AsOf()
    if text.isascii() and text.isdecimal():
        return AsOf(position=int(text))
    try:
        return AsOf(time=to_text(from_text(text)))
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"'{text}' is neither a position nor an ISO 8601 time", hint="such as 2026-05-01T12:00Z"
        ) from None


def choose_backup(repository: Repository, number: int | None, keys: Sequence[VerifierKey]) -> Signed:
    """The newest, or that one. Raises NotFound, and Corrupt for one with names that no backup of ours has."""
    found = repository.newest(keys) if number is None else None
    if number is not None:
        with suppress(NotFound):
            found = repository.read(number, keys)
    if found is None:
        there = ", ".join(map(str, repository.numbers()[-20:])) or "none"
        raise NotFound(
            f"there is no backup{'' if number is None else f' {number}'} in {repository.store.url}",
            code="NO_BACKUP",
            hint=f"those that are there: {there}",
        )
    require_contained(found.manifest)
    return found


def restore(
    repository: Repository,
    base: Path,
    *,
    number: int | None = None,
    as_of: AsOf = WHOLE,
    tenant: str | None = None,
    keys: Sequence[VerifierKey] = (),
    segment_bytes_max: int,
    named: Sequence[Path] = (),
    replica: bool = False,
    progress: Progress = no_progress,
) -> Restored:
    """Into an empty base, proven before anybody can open it. Raises Conflict, Corrupt, NotFound, StorageRefused, and
    then the base is as it was, or says that a restore was not finished. `named` are the files that the settings of the
    base name: a backup that holds one of them is refused. A `replica` takes no writes."""
    signed = choose_backup(repository, number, keys)
    require_unnamed(signed.manifest, base, named)
    tenants = _chosen(signed.manifest, tenant, as_of)
    try:
        make_directory(base)
        is_ready = (base / RESTORING / _COMPLETE).exists()
        if not is_ready:
            _require_empty(base)
        make_directory(base / RESTORING)
        with locked(base / RESTORING, timeout_seconds=0, create=False) as is_alone:
            if not is_alone:
                raise Conflict(f"another process restores into {base}", code="RESTORE_RUNNING", hint="let it finish")
            work = _Restoring(repository, base, signed, as_of, segment_bytes_max, progress)
            work.is_replica = replica
            try:
                done = work.finished() if is_ready else work.built(tenants)
            except BaseException:
                # A process that is killed here leaves the tree instead, and the next restore removes it.
                if not (base / RESTORING / _COMPLETE).exists():
                    shutil.rmtree(base / RESTORING, ignore_errors=True)
                raise
            _move_into_place(base)
    except OSError as error:
        raise StorageRefused(
            f"{base} could not be written: {error.strerror or error}",
            hint="free some space, remove nothing, and run the same restore again: it begins anew",
        ) from error
    return done


def replica_of(repository: Repository, manifest: Manifest) -> Replica:
    return Replica(repository.store.url, to_text(wall_clock()), number=manifest.number, as_of=manifest.at)


def _chosen(manifest: Manifest, tenant: str | None, as_of: AsOf) -> list[TenantBackup]:
    chosen = [each for each in manifest.tenants if tenant in (None, each.tenant)]
    names = ", ".join(each.tenant for each in manifest.tenants)
    if not chosen:
        raise NotFound(f"tenant '{tenant}' is not in backup {manifest.number}", hint=f"those in it: {names}")
    if as_of.position is not None and len(chosen) > 1:
        raise InvalidArgument(
            "each tenant counts its own positions", hint=f"say whose with --tenant ({names}), or give a time"
        )
    for each in chosen:
        if as_of.position is not None:
            _require_reachable(each, as_of.position)
    return chosen


def _require_reachable(tenant: TenantBackup, position: int) -> None:
    """What was redacted is gone from the backup, too: a moment at which it was there cannot be restored."""
    for note in tenant.redactions:
        if is_before(note, position):
            raise Conflict(
                f"{tenant.tenant}: position {note.at} redacted something that was there at {position}, and the backup "
                "does not hold it any more",
                code="REDACTED_SINCE",
                hint=f"restore a position before {note.lowest}, or {note.at} or later",
            )


def _require_empty(base: Path) -> None:
    for directory, _, files in os.walk(base):
        top = Path(directory).relative_to(base).parts[:1]
        if top and top[0] == RESTORING:
            continue
        for name in files:
            if top or name not in _MAY_BE_THERE:
                raise Conflict(
                    f"{base} is not empty: {Path(directory, name)}",
                    code="NOT_EMPTY",
                    hint="nothing was changed; name an empty directory with --base",
                )


class _Restoring:
    def __init__(
        self,
        repository: Repository,
        base: Path,
        signed: Signed,
        as_of: AsOf,
        segment_bytes_max: int,
        progress: Progress,
    ) -> None:
        self._repository = repository
        self._base = base
        self._signed = signed
        self._as_of = as_of
        self._segment_bytes_max = segment_bytes_max
        self._progress = progress
        self._tree = base / RESTORING / _TREE
        self._done = 0
        self._total = 0
        self._notes: list[str] = []
        self.is_replica = False

    def built(self, tenants: Sequence[TenantBackup]) -> Restored:
        if self._tree.exists():
            shutil.rmtree(self._tree)
        make_directory(self._tree)
        self._total = sum(piece.bytes for each in tenants for piece in each.pieces())
        restored = self._restored([self._tenant(each) for each in tenants])
        manifest = self._signed.manifest
        make_directory(self._tree / "_system")
        write_target(self._tree, self._repository.store.url, Target(epoch=manifest.epoch))
        if self.is_replica:
            # Before anybody can open it.
            write_replica(self._tree, replica_of(self._repository, manifest))
        sync_files([path for path in (self._tree, *self._tree.rglob("*")) if not path.is_symlink()])
        # From here on it counts: whoever dies now leaves what the next restore moves into place.
        replace_file(self._base / RESTORING / _COMPLETE, msgspec.json.encode(restored))
        return restored

    def finished(self) -> Restored:
        """Of a run that died while it moved things: what that one made."""
        return msgspec.json.decode((self._base / RESTORING / _COMPLETE).read_bytes(), type=Restored)

    def _restored(self, tenants: list[TenantRestored]) -> Restored:
        manifest = self._signed.manifest
        return Restored(
            source=self._repository.store.url,
            number=manifest.number,
            at=manifest.at,
            base=str(self._base),
            tenants=tenants,
            bytes=self._done,
            signed_by=list(self._signed.signed_by),
            notes=self._notes,
            stream=manifest.stream,
        )

    def _tenant(self, tenant: TenantBackup) -> TenantRestored:
        home = home_of(self._tree, tenant.tenant)
        head, named = self._log(home / "_system", tenant)
        blobs = [file for file in tenant.blobs if file.path.rpartition("/")[2] in named]
        for file in (*blobs, *tenant.files):
            self._file(home, file)
        self._snapshot(home, tenant, head)
        self._audit(home, tenant)
        self._prove(home, tenant, head)
        missing = [blob for blob in tenant.missing if blob in named]
        return TenantRestored(tenant.tenant, head.lamport, head.count, head.record_hash, len(blobs), missing)

    # -- the log

    def _log(self, system: Path, tenant: TenantBackup) -> tuple[Head, set[str]]:
        """Written as it is; the proof reads it all afterwards. Returns where it ends and the blobs that it names."""
        require_end(tenant)
        make_directory(system / "log")
        head, named = Head(), set[str]()
        with closing(_Segments(system / "log", self._segment_bytes_max)) as segments:
            for part, data in self._parts(tenant.log):
                require_part(tenant, part, data, head)
                data, reached_head = self._cut(data, head, part)
                segments.write(part.first, data)
                named.update(each.decode() for each in BLOB.findall(data))
                head = reached_head
                if head != part.head:
                    break
        _require_reachable(tenant, head.lamport)
        if head.count:
            with closing(HeadFile(system / "head")) as head_file:
                head_file.write(head)
        return head, named

    def _parts(self, parts: Sequence[LogPart]) -> Iterator[tuple[LogPart, bytes]]:
        wanted = [part for number, part in enumerate(parts) if number == 0 or self._reaches(parts[number - 1])]
        yield from zip(wanted, self._fetched([part.piece for part in wanted]), strict=True)

    def _reaches(self, part: LogPart) -> bool:
        return self._as_of.reaches(part.head.lamport, part.head.timestamp)

    def _cut(self, data: bytes, start: Head, part: LogPart) -> tuple[bytes, Head]:
        if self._reaches(part):
            return data, part.head
        verifier, end, size, head = verifier_after(start), start.end, 0, start
        for line in data.split(b"\n")[:-1]:
            commit = verifier.feed(line)
            if not self._as_of.reaches(commit.lamport, commit.timestamp):
                break
            end += len(line) + 1
            if commit.ends_draft:
                head, size = reached(verifier, start, end), end - start.end
        return data[:size], head

    def _fetched(self, pieces: Sequence[Piece]) -> Iterator[bytes]:
        """In order, some ahead of who takes them."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            left = iter(pieces)
            waiting = [threads.submit(self._repository.get_piece, each) for each in islice(left, _AT_ONCE)]
            while waiting:
                data = waiting.pop(0).result()
                waiting += [threads.submit(self._repository.get_piece, each) for each in islice(left, 1)]
                self._done += len(data)
                self._progress("restoring", self._done, self._total)
                yield data

    # -- what lies beside it

    def _file(self, home: Path, file: StoredFile) -> None:
        path = home / file.path
        make_directory(path.parent)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as written:
            for data in self._fetched(file.pieces):
                written.write(data)

    def _audit(self, home: Path, tenant: TenantBackup) -> None:
        """All of it, whatever moment the log is restored to: it tells what was decided since, too."""
        if tenant.audit is None:
            return
        for file in tenant.audit.files:
            self._file(home, file)
        with closing(HeadFile(home / "_system" / "audit" / "head")) as head_file:
            head_file.write(tenant.audit.head)
        proof = verify_audit(home / "_system" / "audit")
        if not proof.sound:
            self._notes.append(f"{tenant.tenant}: the audit log in the backup is not sound: {proof.problem}")

    def _snapshot(self, home: Path, tenant: TenantBackup, head: Head) -> None:
        """Only if a key vouches for it: a state that is loaded from a snapshot is not compared with the log."""
        snapshot = tenant.snapshot
        if snapshot is None or int(Path(snapshot.path).stem) > head.lamport:
            return
        if self._signed.signed_by or self._repository.keys.newest:
            self._file(home, snapshot)
        else:
            self._notes.append(f"{tenant.tenant}: the snapshot was left out, since no key vouches for this backup")

    def _prove(self, home: Path, tenant: TenantBackup, head: Head) -> None:
        tree = SignedTree(tenant)
        proof = prove(
            home / "_system",
            lambda done, total: self._progress("verifying", done, total),
            tenant=tenant.tenant,
            each=tree.add,
        )
        if not proof.sound or proof.record_hash != head.record_hash:
            raise damaged(tenant, f"the log in the backup is not sound: {proof.problem or 'it ends elsewhere'}")
        require_redactions(tenant, redactions_of(home / "_system"), head.lamport)
        tree.require_root()
        self._checkpoint(home, tenant, tree)
        for problem in prove_blobs(home).problems:
            name = problem.file.rpartition("/")[2]
            if name not in tenant.missing:
                raise damaged(tenant, f"blob {name}: {problem.problem}")
            self._notes.append(f"{tenant.tenant}: blob {name}: {problem.problem}")

    def _checkpoint(self, home: Path, tenant: TenantBackup, tree: SignedTree) -> None:
        """So that nothing is ever signed here that does not continue it. Left out where the log ends before it."""
        if tree.is_reached:
            make_directory(checkpoint_path(home).parent)
            replace_file(checkpoint_path(home), tenant.checkpoint.encode())
        elif tenant.checkpoint:
            self._notes.append(f"{tenant.tenant}: commits were signed that are not restored; readers will see that")


def damaged(tenant: TenantBackup, problem: str) -> Corrupt:
    return Corrupt(
        f"{tenant.tenant}: {problem}",
        code="BACKUP_DAMAGED",
        hint="nothing was restored; take another backup: 'tallystick backup list'",
    )


class _Segments:
    """Files of a log, written one after the other."""

    def __init__(self, directory: Path, bytes_max: int) -> None:
        self._directory, self._bytes_max = directory, bytes_max
        self._fd = -1
        self._size = 0

    def write(self, first: int, data: bytes) -> None:
        if not data:
            return
        if self._fd < 0 or self._size >= self._bytes_max:
            self.close()
            path = segment_path(self._directory, first)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._size = 0
        write_all(self._fd, data)
        self._size += len(data)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _move_into_place(base: Path) -> None:
    """Each part by one rename; `.restoring` goes last, and until then nobody opens the base."""
    tree = base / RESTORING / _TREE
    for entry in sorted(tree.iterdir()) if tree.exists() else ():
        target = base / entry.name
        if target.is_dir():
            _remove_empty(target)
        os.rename(entry, target)
    sync_directory(base)
    shutil.rmtree(base / RESTORING)
    sync_directory(base)


def _remove_empty(directory: Path) -> None:
    """Raises OSError where something is in it."""
    for each in directory.iterdir():
        _remove_empty(each)
    directory.rmdir()
