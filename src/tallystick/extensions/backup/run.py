"""One backup of a whole memory, every tenant: what is new is put, a manifest is published, what is old goes.

Until its manifest is there, a backup is not: a run that dies at any moment leaves pieces that the next one uses. One
process of a base at a time; any number of machines on one store.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path

import msgspec

from tallystick import __version__
from tallystick.audit import BackupFailed, TenantDeleted, encode
from tallystick.audit.proof import events
from tallystick.clock import from_text, to_text, wall_clock
from tallystick.commits.signed_note import SignerKey
from tallystick.config import DEFAULT_TENANT, Settings
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound, StorageRefused, TallystickError
from tallystick.extensions.backup.capture import Told, capture_tenant
from tallystick.extensions.backup.contents import require_contained
from tallystick.extensions.backup.encryption import load_backup_keys, not_encrypted
from tallystick.extensions.backup.manifest import FORMAT, Manifest, RedactionNote, TenantBackup
from tallystick.extensions.backup.object_store import address_of, local_directory, open_object_store
from tallystick.extensions.backup.repository import Repository
from tallystick.extensions.backup.targets import KeptBackup, Target, read_targets, write_target
from tallystick.log import Head
from tallystick.log.replica import Replica, read_replica, write_replica
from tallystick.log.unopened import unopened
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.operations.shared_logs import shared_log
from tallystick.operations.tenants import tenants_of
from tallystick.system.file_locks import locked

logger = logging.getLogger(__name__)

LOCK = "backup.lock"
_RACES_MAX = 20
_DAY = 86_400_000
_SWEEP_EVERY = _DAY


class TenantDone(msgspec.Struct, frozen=True):
    tenant: str
    position: int
    commits: int


class BackupDone(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    number: int
    at: str
    is_new: bool
    """False where nothing had changed: then the newest backup is still true."""
    tenants: list[TenantDone]
    bytes: int
    """Of all pieces, before they are encrypted."""
    new_bytes: int
    new_objects: int
    lost_objects: int
    """Of the last backup, gone from the store: what was in them was put again, or is among the problems."""
    signed_by: list[str]
    key: str | None
    expired: list[int]
    held_back: list[int]
    """Should have gone, and the store refused: they are tried again by the next run."""
    problems: list[str]
    """What could not be backed up as it should; everything else was."""
    seconds: float


def back_up(
    context: OperationContext, *, to: str = "", key_file: Path | None = None, progress: Progress = no_progress
) -> BackupDone:
    """Raises StorageRefused where the store does not take it, Conflict where another run is at work, the store is that
    of another memory, or the memory was taken over elsewhere. Servers may go on writing."""
    context = context.for_tenant(DEFAULT_TENANT)
    settings = context.settings
    url = target_of(settings, to)
    repository = Repository(open_object_store(url), load_backup_keys(settings, key_file))
    with locked(settings.base / "_system" / LOCK, timeout_seconds=0) as is_alone:
        if not is_alone:
            raise Conflict(
                "another process backs this memory up at this moment", code="BACKUP_RUNNING", hint="let it finish"
            )
        try:
            done = _Run(context, repository, progress).run()
        except TallystickError as error:
            _note_failure(context, repository.store.url, error)
            raise
    return done


def target_of(settings: Settings, to: str = "") -> str:
    url = to or settings.backup_to
    if not url:
        raise InvalidArgument(
            "no store of backups is named",
            code="NO_TARGET",
            hint="name one, such as file:///srv/backups/memory, or set backup_to",
        )
    directory = local_directory(url)
    if directory is not None and directory.resolve().is_relative_to(settings.base.resolve()):
        raise InvalidArgument(
            f"{url} lies in the base itself",
            code="STORE_INVALID",
            hint="a backup lies on another disk, better elsewhere",
        )
    return url


class _Run:
    def __init__(self, context: OperationContext, repository: Repository, progress: Progress) -> None:
        self._context = context
        self._settings = context.settings
        self._repository = repository
        self._progress = progress
        self._signers: tuple[SignerKey, ...] = context.checkpoint_keys()
        self._known = read_targets(self._settings.base).get(repository.store.url, Target())
        self._started = time.monotonic()
        self._problems: list[str] = []
        self._next = 1
        self._has_redacted = False

    def run(self) -> BackupDone:
        replica = read_replica(self._settings.base)
        if replica is not None and replica.is_fenced:
            raise taken_over(replica.source, replica.since)
        if replica is not None:
            raise Conflict(
                f"this base follows {replica.source}, which is backed up where it is written",
                code="IS_REPLICA",
                hint="'tallystick promote' makes it the memory",
            )
        for _ in range(_RACES_MAX):
            self._require_unfenced()
            base = self._base()
            self._problems = []
            manifest = self._captured(base)
            if base is not None and _says_the_same(base, manifest):
                return self._finished(base, is_new=False)
            if self._repository.publish(manifest, self._signers):
                return self._finished(manifest, is_new=True)
        raise Conflict("other machines were faster each time", code="BACKUP_RUNNING", hint="try again later")

    def _require_unfenced(self) -> None:
        fence = self._repository.fence()
        if fence is not None and fence.epoch > self._known.epoch and fence.stream == self._stream():
            if fence.stream:
                # Other machines write to the stream, too: it must take nothing more from any of them.
                shared_log(self._settings).end(self._settings, fence.host)
            # Every process that has this base open sees it before its next write.
            write_replica(self._settings.base, Replica(fence.host, fence.at, is_fenced=True))
            raise taken_over(fence.host, fence.at)

    def _stream(self) -> str:
        """Return which shared memory this base is a copy of; empty if its log is its own."""
        if not self._settings.log_url:
            return ""
        kind = shared_log(self._settings)
        of_tenants = (
            msgspec.structs.replace(self._settings, tenant=name) for name in sorted(tenants_of(self._settings))
        )
        return next(filter(None, map(kind.memory_of, of_tenants)), "")

    def _base(self) -> Manifest | None:
        """The newest, if it is one of ours to go on from."""
        try:
            found = self._repository.newest([key.verifier for key in self._signers])
            if found is not None:
                self._require_usable(found.manifest)
        except Corrupt:
            # Unsigned, of a time before there was a key, or not ours: nothing of it is relied upon.
            self._next = self._repository.numbers()[-1] + 1
            self._repository.go_on_from(None)
            with suppress(Corrupt):
                self._require_same(self._repository.read(self._next - 1, is_believed=False).manifest)
            return None
        self._next = found.manifest.number + 1 if found else 1
        self._repository.go_on_from(found.manifest if found else None)
        if found is not None:
            self._require_same(found.manifest)
            return found.manifest
        return None

    def _require_usable(self, manifest: Manifest) -> None:
        """Raises Corrupt for names of others, and for pieces of a time before there was a key."""
        require_contained(manifest)
        if self._repository.keys.newest and any(piece.key is None for piece in manifest.pieces()):
            raise not_encrypted(f"a piece of backup {manifest.number}")

    def _require_same(self, manifest: Manifest) -> None:
        """Of the tenants that both have, one must have begun with the same commit."""
        ours = {name: first_hash(self._of(name)) for name in tenants_of(self._settings)}
        common = [each for each in manifest.tenants if each.tenant in ours]
        if not any(each.first == ours[each.tenant] for each in common):
            raise Conflict(
                f"{self._repository.store.url} holds backups of another memory ({manifest.memory[:12]})",
                code="OTHER_MEMORY",
                hint="nothing was changed; name a store, or a path in it, of its own for each memory",
            )

    def _captured(self, base: Manifest | None) -> Manifest:
        names = tenants_of(self._settings)
        totals = {name: _new_bytes(self._of(name), base.find(name) if base else None) for name in names}
        done, total = 0, sum(totals.values())

        def told(size: int) -> None:
            nonlocal done
            done += size
            self._progress("backing up", min(done, total), total)

        tenants = []
        for name in names:
            before = base.find(name) if base else None
            found = self._tenant(name, before, told)
            if found is not None and found.head.count:
                tenants.append(found)
        tenants += self._vanished(base, names)
        self._problems += self._lost(tenants)
        if not tenants:
            raise NotFound("there is nothing to back up yet", code="NO_MEMORY", hint="an agent's first write begins it")
        return Manifest(
            format=FORMAT,
            number=self._next,
            at=to_text(wall_clock()),
            memory=base.memory if base else tenants[0].first,
            epoch=self._known.epoch,
            host=socket.gethostname(),
            tallystick=__version__,
            tenants=sorted(tenants, key=lambda each: each.tenant),
            stream=self._stream(),
        )

    def _tenant(self, name: str, before: TenantBackup | None, told: Told) -> TenantBackup | None:
        """One that is damaged keeps what was backed up of it, and does not hold up the others."""
        passed_over: list[str] = []
        try:
            found = capture_tenant(
                self._of(name), before, self._repository.put_piece, told, self._repository.lost, passed_over.append
            )
        except Corrupt as error:
            self._problems.append(f"{name}: {error.message}")
            return before
        self._problems += [f"{name}: blob {blob} is missing or damaged" for blob in found.missing]
        self._problems += [f"{name}: no backup can hold the name of the file {path!a}" for path in passed_over]
        return found

    def _vanished(self, base: Manifest | None, names: Sequence[str]) -> list[TenantBackup]:
        """Tenants that nobody deleted and that are not there any more: their backup stays."""
        gone = [each for each in base.tenants if each.tenant not in names] if base else []
        if not gone:
            return []
        audit = self._of(DEFAULT_TENANT).system / "audit"
        deleted = [event for _, event in events(audit, TenantDeleted)]
        lost = [each for each in gone if not any(is_deletion_of(event, each.tenant, each.head) for event in deleted)]
        self._problems += [f"{each.tenant}: its log is gone from this base, and nobody deleted it" for each in lost]
        return lost

    def _lost(self, tenants: Sequence[TenantBackup]) -> list[str]:
        """Only of one that cannot be captured. It goes on to be named, so that nobody sweeps what is left of it."""
        if gone := len(self._repository.lost):
            logger.warning("%d objects of the last backup were gone from %s", gone, self._repository.store.url)
        missing = ((each.tenant, len(self._repository.missing_of(each.pieces()))) for each in tenants)
        return [
            f"{tenant}: {count} objects of its last backup are gone from the store, and nothing here takes their place"
            for tenant, count in missing
            if count
        ]

    # -- afterwards

    def _finished(self, manifest: Manifest, *, is_new: bool) -> BackupDone:
        kept, expired, held_back = self._expire(manifest)
        swept = self._swept(kept)
        now = to_text(wall_clock())
        seconds = time.monotonic() - self._started
        target = Target(
            kept=[_kept(each) for each in kept],
            finished=now,
            seconds=seconds,
            new_bytes=self._repository.put_bytes,
            problems=self._problems,
            swept=swept,
            epoch=self._known.epoch,
        )
        _write_target(self._settings.base, self._repository.store.url, target, instead_of=self._never_used())
        key = self._repository.keys.newest
        return BackupDone(
            target=self._repository.store.url,
            number=manifest.number,
            at=manifest.at,
            is_new=is_new,
            tenants=[TenantDone(each.tenant, each.head.lamport, each.head.count) for each in manifest.tenants],
            bytes=manifest.bytes,
            new_bytes=self._repository.put_bytes,
            new_objects=self._repository.put_objects,
            lost_objects=len(self._repository.lost),
            signed_by=[str(each.verifier) for each in self._signers],
            key=key.id if key else None,
            expired=expired,
            held_back=held_back,
            problems=self._problems,
            seconds=seconds,
        )

    def _never_used(self) -> list[str]:
        """Stores that somebody named once, in vain: now that there is a backup nobody has to look for one there."""
        configured = address_of(self._settings.backup_to) if self._settings.backup_to else None
        known = read_targets(self._settings.base).items()
        return [url for url, each in known if not (each.kept or each.finished or each.epoch or url == configured)]

    def _expire(self, newest: Manifest) -> tuple[list[Manifest], list[int], list[int]]:
        """What holds something that was redacted since goes at once, everything else when it is old."""
        older = [self._read(number) for number in self._repository.numbers() if number < newest.number]
        found = [each for each in older if each is not None]
        staying, going = [newest], list[Manifest]()
        for age, each in enumerate(reversed(found), 1):
            holds = holds_redacted(each, newest)
            self._has_redacted |= holds
            (going if holds or self._is_old(each, age) else staying).append(each)
        expired: list[int] = []
        for each in reversed(going):
            try:
                self._repository.expire([each.number], staying)
                expired.append(each.number)
            except StorageRefused as error:
                self._problems.append(f"backup {each.number} could not be removed: {error.message}")
        held_back = [each for each in going if each.number not in expired]
        return (
            sorted((*staying, *held_back), key=lambda each: each.number),
            expired,
            [each.number for each in held_back],
        )

    def _read(self, number: int) -> Manifest | None:
        """None for one that cannot be read: it is left alone, and `backup verify` tells of it."""
        try:
            return self._repository.read(number, is_believed=False).manifest
        except (Corrupt, NotFound, InvalidArgument):
            return None

    def _is_old(self, manifest: Manifest, age: int) -> bool:
        settings = self._settings
        if settings.backup_keep and age >= settings.backup_keep:
            return True
        days = settings.backup_keep_days
        return bool(days) and wall_clock() - from_text(manifest.at) > days * _DAY

    def _swept(self, kept: Sequence[Manifest]) -> str:
        """Once a day, and until nothing is left: what a run that died had put may hold what was redacted since."""
        last = self._known.swept
        if last and not self._has_redacted and wall_clock() - from_text(last) < _SWEEP_EVERY:
            return last
        with suppress(StorageRefused):
            if len(kept) == len(self._repository.numbers()) and self._repository.sweep(kept) == 0:
                return to_text(wall_clock())
        return ""

    def _of(self, tenant: str) -> Settings:
        return msgspec.structs.replace(self._settings, tenant=tenant)


def taken_over(host: str, at: str) -> Conflict:
    return Conflict(
        f"this memory was taken over by {host} at {at}: nothing is written here any more",
        code="TAKEN_OVER",
        hint="send clients to the other; docs/runbooks/take-over.md says what to do with this one",
    )


def is_deletion_of(event: TenantDeleted, tenant: str, head: Head) -> bool:
    """Whether it tells of the log that was once at this head, and not of one before it that was called the same."""
    return event.tenant == tenant and (event.log_hash == head.record_hash or event.timestamp >= head.timestamp)


def holds_redacted(older: Manifest, newest: Manifest) -> bool:
    """Whether it was taken when something was there that was redacted since."""
    for each in newest.tenants:
        before = older.find(each.tenant)
        if (
            before is not None
            and before.first == each.first
            and any(is_before(note, before.head.lamport) for note in each.redactions)
        ):
            return True
    return False


def is_before(note: RedactionNote, position: int) -> bool:
    """Whether a copy up to this position holds what the redaction erased."""
    return note.lowest <= position < note.at


def _says_the_same(base: Manifest, manifest: Manifest) -> bool:
    return base.tenants == manifest.tenants


def _kept(manifest: Manifest) -> KeptBackup:
    return KeptBackup(
        manifest.number,
        manifest.at,
        {each.tenant: (each.head.lamport, each.head.count) for each in manifest.tenants},
    )


def first_hash(settings: Settings) -> str:
    """Of its first commit: whose log it is. Empty where there is none, or none that can be read."""
    from tallystick.commits import chain

    with suppress(Corrupt), unopened(settings.system) as log:
        return chain.record_hash_of(log.segments.line(0)) if log.head.count else ""
    return ""


def _new_bytes(settings: Settings, before: TenantBackup | None) -> int:
    with suppress(Corrupt), unopened(settings.system) as log:
        return max(0, log.head.end - (before.head if before else Head()).end)
    return 0


def _note_failure(context: OperationContext, url: str, error: TallystickError) -> None:
    """Kept for `doctor` and metrics, and an incident in the audit log the first time."""
    base = context.settings.base
    known = read_targets(base).get(url, Target())
    now = to_text(wall_clock())
    is_first = not known.failed
    failed = msgspec.structs.replace(known, failed=error.message, failing_since=known.failing_since or now)
    _write_target(base, url, failed)
    if is_first:
        event = BackupFailed(timestamp=now, target=url, code=error.code, detail=error.message[:1_000])
        with suppress(TallystickError), closing(context.open_audit()) as audit:
            audit.append([encode(event)])


def _write_target(base: Path, url: str, target: Target, *, instead_of: Collection[str] = ()) -> None:
    """What cannot be noted here is in the store all the same."""
    with suppress(OSError):
        write_target(base, url, target, instead_of=instead_of)
