"""Backups in a store: which there are, and whether one is whole."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import msgspec

from tallystick.audit.proof import verify_audit
from tallystick.commits import REDACTIONS, Commit
from tallystick.commits.signed_note import VerifierKey
from tallystick.errors import Corrupt, InvalidArgument, NotFound, TallystickError
from tallystick.extensions.backup.figures import SignedTree, require_end, require_part, require_redactions
from tallystick.extensions.backup.manifest import Manifest, StoredFile, TenantBackup
from tallystick.extensions.backup.repository import Repository
from tallystick.extensions.backup.restore import choose_backup
from tallystick.log import Head, reached, verifier_after
from tallystick.log.head_file import HeadFile
from tallystick.operations import Progress, no_progress
from tallystick.projections.blobs import blob_of
from tallystick.system.private_files import make_directory, place_file


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


def _positions(manifest: Manifest) -> dict[str, int]:
    return {each.tenant: each.head.lamport for each in manifest.tenants}
