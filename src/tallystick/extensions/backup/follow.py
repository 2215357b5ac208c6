"""A warm copy elsewhere: it follows the backups of a memory, serves reads, and can be made the memory.

What it has of a log is verified as it is appended, and a redaction is carried out here as it is there. It takes no
writes of its own until it is promoted; then a fence in the store stops the machine that it takes over from, should it
come back, before its next backup is made and with it its writes.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from hashlib import sha256

import msgspec

from tallystick.audit import TenantDeleted, decode
from tallystick.clock import to_text, wall_clock
from tallystick.commits.signed_note import VerifierKey
from tallystick.config import DEFAULT_TENANT, Settings, named_paths
from tallystick.errors import Conflict, Corrupt, StorageRefused
from tallystick.extensions.backup.contents import require_unnamed
from tallystick.extensions.backup.figures import redactions_of, require_end, require_part, require_redactions
from tallystick.extensions.backup.manifest import Manifest, StoredFile, TenantBackup
from tallystick.extensions.backup.object_store import quoted_if_old
from tallystick.extensions.backup.repository import Fence, Repository
from tallystick.extensions.backup.restore import choose_backup, damaged, replica_of, restore
from tallystick.extensions.backup.run import LOCK, first_hash, is_deletion_of
from tallystick.extensions.backup.targets import Target, read_targets, write_target
from tallystick.log import Entry, Head, verifier_after
from tallystick.log.replica import RESTORING, end_replica, open_copy, read_replica, write_replica
from tallystick.log.unopened import unopened
from tallystick.operations import Progress, no_progress
from tallystick.operations.shared_logs import Followed, Promoted, positions, require_sound
from tallystick.operations.tenants import remove_copy, tenants_of
from tallystick.projections.sandboxed_files import SandboxedFiles
from tallystick.system.file_locks import locked

logger = logging.getLogger(__name__)

_GROUP_BYTES = 8 << 20
_LOCK = "follow.lock"


def follow_once(
    settings: Settings, repository: Repository, *, keys: Sequence[VerifierKey] = (), progress: Progress = no_progress
) -> Followed:
    """Bring the base to the newest backup; an empty one is made from it. Raises Conflict for a base that is not ours
    to follow with, Corrupt where the backup does not continue what is here."""
    base = settings.base
    replica = read_replica(base)
    named = named_paths(settings)
    if replica is None or (base / RESTORING).exists():
        if tenants_of(settings):
            raise Conflict(
                f"{base} holds a memory that follows nothing", code="NOT_EMPTY", hint="name an empty one with --base"
            )
        restore(
            repository,
            base,
            keys=keys,
            segment_bytes_max=settings.segment_bytes_max,
            named=named,
            replica=True,
            progress=progress,
        )
        replica = read_replica(base)
    if replica is None or replica.is_fenced or quoted_if_old(replica.source) != repository.store.url:
        source = replica.source if replica else "nothing"
        raise Conflict(f"{base} follows {source}", code="OTHER_MEMORY", hint="name an empty base, or that address")
    with locked(base / "_system" / _LOCK, timeout_seconds=0) as is_alone:
        if not is_alone:
            raise Conflict("another process follows with this base", code="FOLLOW_RUNNING", hint="one is enough")
        manifest = choose_backup(repository, None, keys).manifest
        require_unnamed(manifest, base, named)
        waiting = _remove_deleted(settings, repository, manifest)
        new = 0
        if manifest.number > replica.number:
            ready = [each for each in manifest.tenants if each.tenant not in waiting]
            new = sum(_Copy(settings, repository, each).caught_up() for each in ready)
            if len(ready) < len(manifest.tenants):
                raise _in_use(waiting)
            write_replica(base, replica_of(repository, manifest))
    return Followed(repository.store.url, manifest.number, manifest.at, positions(settings), new)


def _in_use(waiting: dict[str, str]) -> StorageRefused:
    return StorageRefused(
        f"a tenant was deleted and made again, and here it is the deleted one: {'; '.join(waiting.values())}",
        code="TENANT_IN_USE",
        hint="stop the servers that serve it here; everything else was followed",
    )


def _remove_deleted(settings: Settings, repository: Repository, manifest: Manifest) -> dict[str, str]:
    """Tenants that were deleted there, as the audit log in the backup says: that one is missing, or another one bears
    its name, is no proof. What somebody has open here waits for the next look: those, and why."""
    waiting: dict[str, str] = {}
    for name in _deleted(settings, repository, manifest):
        try:
            left = remove_copy(_of(settings, name))
        except Conflict as error:
            left = waiting[name] = error.message
        if left:
            logger.warning("tenant '%s' was deleted in the memory that is followed, and is still here: %s", name, left)
    return waiting


def _deleted(settings: Settings, repository: Repository, manifest: Manifest) -> list[str]:
    heads = {name: _head(_of(settings, name)) for name in tenants_of(settings) if _is_gone(settings, name, manifest)}
    audit = manifest.find(DEFAULT_TENANT)
    if not heads or audit is None or audit.audit is None:
        return []
    lines = (
        line
        for file in audit.audit.files
        for line in b"".join(map(repository.get_piece, file.pieces)).splitlines()
        if b'"TENANT_DELETED"' in line
    )
    events = [found for found in (decode(line).event for line in lines) if isinstance(found, TenantDeleted)]
    return [name for name, head in heads.items() if any(is_deletion_of(each, name, head) for each in events)]


def _is_gone(settings: Settings, name: str, manifest: Manifest) -> bool:
    """Never the default one: it is the base itself, and the manifest may be anybody's word."""
    there, here = manifest.find(name), first_hash(_of(settings, name))
    return name != DEFAULT_TENANT and (there is None or here not in ("", there.first))


def _of(settings: Settings, tenant: str) -> Settings:
    return msgspec.structs.replace(settings, tenant=tenant)


def _head(settings: Settings) -> Head:
    with unopened(settings.system) as log:
        return log.head


class _Copy:
    """Of one tenant."""

    def __init__(self, settings: Settings, repository: Repository, tenant: TenantBackup) -> None:
        self._settings = _of(settings, tenant.tenant)
        self._repository = repository
        self._tenant = tenant

    def caught_up(self) -> int:
        require_end(self._tenant)
        if first_hash(self._settings) not in ("", self._tenant.first):
            raise self._diverged("begins with another commit")
        # Contents before the commits that name them, as whoever writes does.
        for file in (*self._tenant.blobs, *self._tenant.files):
            self._fetch(file)
        new = self._append()
        require_redactions(self._tenant, redactions_of(self._settings.system), self._tenant.head.lamport)
        self._remove_redacted()
        return new

    def _append(self) -> int:
        log = open_copy(self._settings.system, segment_bytes_max=self._settings.segment_bytes_max)
        with closing(log):
            before = head = log.head()
            for group in self._groups(head):
                head = log.append(group, expected=head)
        if head != self._tenant.head:
            raise self._diverged(
                f"at {self._tenant.head.lamport} does not continue this copy, which is at {head.lamport}"
            )
        return head.count - before.count

    def _diverged(self, how: str) -> Corrupt:
        return Corrupt(
            f"{self._tenant.tenant}: the backup {how}",
            code="BACKUP_DIVERGED",
            hint="the memory was restored or went another way: follow with an empty base",
        )

    def _groups(self, head: Head) -> Iterator[list[Entry]]:
        """Whole batches behind `head`, verified."""
        verifier, offset = verifier_after(head, tenant=self._tenant.tenant), head.end
        group: list[Entry] = []
        for line in self._lines(head):
            commit = verifier.feed(line)
            group.append(Entry(offset, commit, line))
            offset += len(line) + 1
            if commit.ends_draft and offset - group[0].offset >= _GROUP_BYTES:
                yield group
                group = []
        if group:
            yield group

    def _lines(self, head: Head) -> Iterator[bytes]:
        before = Head()
        for part in self._tenant.log:
            if part.head.end > head.end:
                data = self._repository.get_piece(part.piece)
                require_part(self._tenant, part, data, before)
                yield from data[max(0, head.end - part.start) :].split(b"\n")[:-1]
            before = part.head

    def _fetch(self, file: StoredFile) -> None:
        """No link is followed on the way to it."""
        files, parts = SandboxedFiles(self._settings.home), tuple(file.path.split("/"))
        known = files.find(parts)
        if known is not None and (not file.changed or known.st_mtime_ns == file.changed):
            return
        files.write_stream(parts, self._pieces(file), sync=True, sync_name=True)
        if file.changed:
            files.set_time(parts, file.changed)

    def _pieces(self, file: StoredFile) -> Iterator[bytes]:
        """Raises Corrupt, at the end, for a blob whose bytes do not have the digest that is its name."""
        digest = sha256()
        for data in map(self._repository.get_piece, file.pieces):
            digest.update(data)
            yield data
        if file in self._tenant.blobs and digest.hexdigest() != file.path.rpartition("/")[2]:
            raise damaged(self._tenant, f"{file.path} does not have the SHA-256 that is its name")

    def _remove_redacted(self) -> None:
        named = {file.path.rpartition("/")[2] for file in self._tenant.blobs}
        blobs = self._settings.home / "_content" / "blobs"
        for path in blobs.iterdir() if blobs.is_dir() else ():
            if path.name not in named:
                path.unlink(missing_ok=True)


def promote(
    settings: Settings,
    repository: Repository,
    *,
    keys: Sequence[VerifierKey] = (),
    without_store: bool = False,
    progress: Progress = no_progress,
) -> Promoted:
    """Make this base the memory, once it is proven. Raises StorageRefused where the store cannot be asked, unless
    that is allowed: then nothing fences the machine that it takes over from."""
    base = settings.base
    replica = read_replica(base)
    caught_up = False
    if replica is not None and not replica.is_fenced:
        try:
            follow_once(settings, repository, keys=keys, progress=progress)
            caught_up = True
        except StorageRefused:
            if not without_store:
                raise
    require_sound(settings, progress)
    with locked(base / "_system" / LOCK, timeout_seconds=0) as is_alone:
        if not is_alone:
            # Of two, the lower epoch could be noted last: the other's fence would then stop this very base.
            raise Conflict(
                "another process promotes this base or backs it up", code="BACKUP_RUNNING", hint="let it finish"
            )
        epoch = 0 if without_store and not caught_up else _fenced(repository, keys)
        known = read_targets(base).get(repository.store.url, Target())
        write_target(base, repository.store.url, msgspec.structs.replace(known, epoch=max(epoch, known.epoch)))
        now = read_replica(base)
        end_replica(base)
    return Promoted(
        epoch=epoch,
        source=repository.store.url,
        as_of=now.as_of if now else "",
        positions=positions(settings),
        caught_up=caught_up,
    )


def _fenced(repository: Repository, keys: Sequence[VerifierKey]) -> int:
    """Of two who promote at the same time, one has the lower epoch, and is stopped by the other's fence."""
    newest = None
    # A store without a backup is another one than the memory is backed up to: nobody looks for a fence there.
    with suppress(Corrupt):
        newest = choose_backup(repository, None, keys)
    memory = newest.manifest.memory if newest else ""
    stream = newest.manifest.stream if newest else ""
    while True:
        epoch = 1 + max(repository.last_epoch(), newest.manifest.epoch if newest else 0)
        if repository.put_fence(Fence(epoch, to_text(wall_clock()), socket.gethostname(), memory, stream)):
            return epoch
