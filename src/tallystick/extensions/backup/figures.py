"""The figures of a manifest, compared with what was fetched: each one that is not true is refused by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tallystick.commits import REDACTIONS, Commit, chain
from tallystick.commits.signed_note import Checkpoint, NoteRefused, parse_checkpoint, parse_note
from tallystick.commits.tree import Frontier, leaf_hash
from tallystick.errors import Corrupt
from tallystick.extensions.backup.manifest import LogPart, RedactionNote, TenantBackup
from tallystick.log import Head
from tallystick.log.redaction_index import NEEDLE
from tallystick.log.unopened import unopened


def require_part(tenant: TenantBackup, part: LogPart, data: bytes, before: Head) -> None:
    """Compare a part with its lines and with the head of the part before it. The hashes in the lines are not checked.
    Raises Corrupt."""
    lines = data.split(b"\n")
    if part.start != before.end or not data.endswith(b"\n"):
        raise refused(tenant, f"the parts of its log do not follow on each other at position {before.lamport}")
    first, last = chain.decode(lines[0]), chain.decode(lines[-2])
    if part.first != first.lamport or part.first <= before.lamport:
        raise refused(tenant, f"a part of its log begins at position {first.lamport}, not at {part.first}")
    if before.count == 0 and tenant.first != first.record_hash:
        raise refused(tenant, f"its log begins with {first.record_hash}, not with {tenant.first[:64]}")
    actual = Head(
        lamport=last.lamport,
        count=before.count + len(lines) - 1,
        end=before.end + len(data),
        record_hash=last.record_hash,
        commit_id=last.commit_id,
        timestamp=last.timestamp,
    )
    for figure in Head.__struct_fields__:
        if getattr(actual, figure) != getattr(part.head, figure):
            raise refused(tenant, f"{figure} is {getattr(actual, figure)} after a part of its log, not as it names")


def require_end(tenant: TenantBackup) -> None:
    """Raises Corrupt unless the parts of the log lead to the head that is named."""
    end = tenant.log[-1].head if tenant.log else Head()
    if end != tenant.head or not end.count:
        raise refused(tenant, f"its log ends at position {end.lamport}, not at {tenant.head.lamport}")


def redactions_of(system: Path) -> list[Commit]:
    with unopened(system) as log:
        found = [chain.decode(line) for _, line in log.segments.lines_with(NEEDLE, 0, log.end)]
    return [commit for commit in found if commit.operation in REDACTIONS]


def notes_of(commits: Iterable[Commit]) -> list[RedactionNote]:
    return [RedactionNote(each.lamport, min(map(int, each.redacts))) for each in commits if each.redacts]


def require_redactions(tenant: TenantBackup, commits: Iterable[Commit], position: int) -> None:
    """Raises Corrupt unless the redactions up to `position` are those that are named."""
    if notes_of(commits) != [note for note in tenant.redactions if note.at <= position]:
        raise refused(tenant, f"its redactions up to position {position} are not those in its log")


class SignedTree:
    """The tree that the checkpoint of a manifest was signed of, computed from the log."""

    def __init__(self, tenant: TenantBackup) -> None:
        self._tenant = tenant
        self._tree = Frontier()
        self.checkpoint = _checkpoint_of(tenant) if tenant.checkpoint else None

    def add(self, record_hash: str) -> None:
        if self.checkpoint is not None and self._tree.size < self.checkpoint.size:
            self._tree.add(leaf_hash(bytes.fromhex(record_hash)))

    @property
    def is_reached(self) -> bool:
        return self.checkpoint is not None and self._tree.size == self.checkpoint.size

    def require_root(self) -> None:
        """Raises Corrupt for another tree. It is not reached if only a part of the log was restored."""
        if self.checkpoint is not None and self.is_reached and self._tree.root() != self.checkpoint.root:
            raise refused(self._tenant, f"its checkpoint of {self.checkpoint.size} commits is not of this log")


def _checkpoint_of(tenant: TenantBackup) -> Checkpoint:
    try:
        checkpoint = parse_checkpoint(parse_note(tenant.checkpoint.encode()))
    except NoteRefused as error:
        raise refused(tenant, f"its checkpoint cannot be read: {error.message}") from None
    if checkpoint.size > tenant.head.count:
        raise refused(tenant, f"its checkpoint is of {checkpoint.size} commits, and its log has {tenant.head.count}")
    return checkpoint


def refused(tenant: TenantBackup, problem: str) -> Corrupt:
    return Corrupt(
        f"{tenant.tenant}: the manifest does not match the backup: {problem}",
        code="MANIFEST_REFUSED",
        hint="nothing was restored; take another backup: 'tallystick backup list'",
    )
