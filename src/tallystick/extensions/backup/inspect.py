"""Backups looked at: which there are, whether one is whole, and how the last run of this base went."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import msgspec

from tallystick.audit.proof import verify_audit
from tallystick.commits import REDACTIONS, Commit
from tallystick.commits.signed_note import VerifierKey
from tallystick.config import Settings
from tallystick.errors import Corrupt, InvalidArgument, NotFound, TallystickError
from tallystick.extensions.backup.figures import SignedTree, require_end, require_part, require_redactions
from tallystick.extensions.backup.manifest import Manifest, StoredFile, TenantBackup
from tallystick.extensions.backup.object_store import address_of
from tallystick.extensions.backup.repository import Repository
from tallystick.extensions.backup.restore import choose_backup
from tallystick.log import Head, reached, verifier_after
from tallystick.log.backups import Target, read_targets
from tallystick.log.head_file import HeadFile
from tallystick.log.unopened import unopened
from tallystick.operations import Progress, no_progress
from tallystick.operations.tenants import tenants_of
from tallystick.private_files import make_directory, place_file
from tallystick.projections.blobs import blob_of


class ListedBackup(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    at: str | None
    """None where it cannot be read; `problem` says why."""
    commits: int = 0
    tenants: dict[str, int] = {}
    """Their positions."""
    bytes: int = 0
    host: str = ""
    is_signed: bool = False
    keys: list[str] = []
    """The ids of those that it takes to read it."""
    problem: str | None = None


class VerifiedBackup(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    number: int
    at: str
    sound: bool
    tenants: dict[str, int]
    commits: int
    objects: int
    bytes: int
    is_signed: bool
    signed_by: list[str]
    problems: list[str]


class TargetStatus(msgspec.Struct, frozen=True, kw_only=True):
    target: str
    is_configured: bool
    """Whether servers of this base back up to it."""
    is_given_up: bool
    """It fails, no server backs up to it, and a backup elsewhere succeeded since."""
    last: str | None
    """When the last run that succeeded ended; None where there was none."""
    number: int | None
    kept: int
    waiting: int
    """Commits of all tenants that are in no backup there."""
    failed: str | None
    failing_since: str | None
    problems: list[str]


class LastBackup(msgspec.Struct, frozen=True, kw_only=True):
    at: str | None
    """When the last run that succeeded ended; None where none has."""
    failing_since: str | None
    """Of the store that has been failing for longest and was not given up; None where none is."""


def list_backups(repository: Repository) -> list[ListedBackup]:
    """The newest first."""
    return [_listed(repository, number) for number in reversed(repository.numbers())]


def _listed(repository: Repository, number: int) -> ListedBackup:
    try:
        found = repository.read(number)
    except TallystickError as error:
        return ListedBackup(number=number, at=None, problem=error.message)
    manifest = found.manifest
    return ListedBackup(
        number=number,
        at=manifest.at,
        commits=sum(each.head.count for each in manifest.tenants),
        tenants=_positions(manifest),
        bytes=manifest.bytes,
        host=manifest.host,
        is_signed=found.is_signed,
        keys=sorted({piece.key for piece in manifest.pieces() if piece.key}),
    )


def verify_backup(
    repository: Repository,
    *,
    number: int | None = None,
    keys: Sequence[VerifierKey] = (),
    progress: Progress = no_progress,
) -> VerifiedBackup:
    """Reads every piece and proves the logs, without restoring anything. Raises what keeps it from beginning."""
    found = choose_backup(repository, number, keys)
    manifest = found.manifest
    work = _Verification(repository, manifest, progress)
    problems = work.problems()
    return VerifiedBackup(
        target=repository.store.url,
        number=manifest.number,
        at=manifest.at,
        sound=not problems,
        tenants=_positions(manifest),
        commits=sum(each.head.count for each in manifest.tenants),
        objects=len(manifest.objects),
        bytes=manifest.bytes,
        is_signed=found.is_signed,
        signed_by=list(found.signed_by),
        problems=problems,
    )


class _Verification:
    def __init__(self, repository: Repository, manifest: Manifest, progress: Progress) -> None:
        self._repository = repository
        self._manifest = manifest
        self._progress = progress
        self._done = 0
        self._named: set[str] = set()
        """Blobs that the log of the tenant names which is looked at."""
        self._total = sum(piece.bytes for piece in manifest.pieces())

    def problems(self) -> list[str]:
        found: list[str] = []
        for tenant in self._manifest.tenants:
            for check in (self._log, self._audit, self._others):
                try:
                    found += check(tenant)
                except (Corrupt, NotFound, InvalidArgument) as error:
                    found.append(f"{tenant.tenant}: {error.message}")
        return found

    def _log(self, tenant: TenantBackup) -> list[str]:
        require_end(tenant)
        verifier, tree, head = verifier_after(Head(), tenant=tenant.tenant), SignedTree(tenant), Head()
        redactions: list[Commit] = []
        self._named.clear()
        for part in tenant.log:
            data = self._got(StoredFile("", [part.piece]))
            require_part(tenant, part, data, head)
            for line in data.split(b"\n")[:-1]:
                commit = verifier.feed(line)
                tree.add(commit.record_hash)
                if commit.operation in REDACTIONS:
                    redactions.append(commit)
                if b'"blob":"' in line and (blob := blob_of(commit)) is not None:
                    self._named.add(blob)
            head = part.head
        verifier.finish()
        if reached(verifier, Head(), head.end) != tenant.head:
            raise Corrupt(f"its log ends at {verifier.lamport}, not at {tenant.head.lamport} as the manifest says")
        require_redactions(tenant, redactions, head.lamport)
        tree.require_root()
        return [f"{tenant.tenant}: blob {blob} was missing when it was backed up" for blob in tenant.missing]

    def _audit(self, tenant: TenantBackup) -> list[str]:
        if tenant.audit is None:
            return []
        with tempfile.TemporaryDirectory(prefix="tallystick-") as made:
            directory = Path(made)
            for file in tenant.audit.files:
                make_directory(directory)
                place_file(directory / Path(file.path).name, self._got(file))
            with closing(HeadFile(directory / "head")) as head_file:
                head_file.write(tenant.audit.head)
            proof = verify_audit(directory)
        return [] if proof.sound else [f"{tenant.tenant}: its audit log is not sound: {proof.problem}"]

    def _others(self, tenant: TenantBackup) -> list[str]:
        return [*self._blobs(tenant), *self._read(*tenant.files, *([tenant.snapshot] if tenant.snapshot else []))]

    def _blobs(self, tenant: TenantBackup) -> Iterator[str]:
        for file in tenant.blobs:
            digest = sha256()
            for piece in file.pieces:
                digest.update(self._got(StoredFile(file.path, [piece])))
            if digest.hexdigest() != file.path.rpartition("/")[2]:
                yield f"{tenant.tenant}: {file.path} does not have the SHA-256 that is its name"
        held = {file.path.rpartition("/")[2] for file in tenant.blobs}
        for blob in sorted(self._named - held - set(tenant.missing)):
            yield f"{tenant.tenant}: blob {blob} is named by a commit and is not in the backup"

    def _read(self, *files: StoredFile) -> list[str]:
        for piece in (piece for file in files for piece in file.pieces):
            self._got(StoredFile("", [piece]))
        return []

    def _got(self, file: StoredFile) -> bytes:
        data = b"".join(self._repository.get_piece(piece) for piece in file.pieces)
        self._done += len(data)
        self._progress("verifying", self._done, self._total)
        return data


def last_backup(settings: Settings) -> LastBackup | None:
    """To whatever store; None where there was none and none is wanted. Looks at one file."""
    known = read_targets(settings.base)
    if not (known or settings.backup_to):
        return None
    given_up = _given_up(known, settings)
    failing = (each.failing_since for url, each in known.items() if each.failing_since and url not in given_up)
    return LastBackup(
        at=max((each.finished for each in known.values() if each.finished), default=None),
        failing_since=min(failing, default=None),
    )


def _given_up(known: Mapping[str, Target], settings: Settings) -> set[str]:
    newest = max((each.finished for each in known.values()), default="")
    failing = {url for url, each in known.items() if each.failing_since and each.failing_since < newest}
    return failing - {_configured(settings)}


def _configured(settings: Settings) -> str | None:
    return address_of(settings.backup_to) if settings.backup_to else None


def backup_status(settings: Settings) -> list[TargetStatus]:
    """Of every store that this base was backed up to, or shall be. Looks at files here only."""
    known = read_targets(settings.base)
    configured, given_up = _configured(settings), _given_up(known, settings)
    found = {url: target for url, target in known.items() if target.kept or target.failed or url == configured}
    if configured is not None and configured not in found:
        found[configured] = Target()
    return [
        _status(settings, url, target, is_configured=url == configured, is_given_up=url in given_up)
        for url, target in found.items()
    ]


def _status(settings: Settings, url: str, target: Target, *, is_configured: bool, is_given_up: bool) -> TargetStatus:
    newest = target.kept[-1] if target.kept else None
    waiting = 0
    for name in tenants_of(settings):
        with unopened(msgspec.structs.replace(settings, tenant=name).system) as log:
            backed_up = newest.tenants.get(name, (0, 0))[1] if newest else 0
            waiting += max(0, log.head.count - backed_up)
    return TargetStatus(
        target=url,
        is_configured=is_configured,
        is_given_up=is_given_up,
        last=target.finished or None,
        number=newest.number if newest else None,
        kept=len(target.kept),
        waiting=waiting,
        failed=target.failed or None,
        failing_since=target.failing_since or None,
        problems=target.problems,
    )


def _positions(manifest: Manifest) -> dict[str, int]:
    return {each.tenant: each.head.lamport for each in manifest.tenants}
