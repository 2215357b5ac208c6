"""Verification: the log, the audit log, the blobs, and on request the projections, proven or rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from tallystick.audit.proof import AuditProof, verify_audit
from tallystick.clock import from_text
from tallystick.commits.signed_note import SignerKey
from tallystick.errors import Corrupt, InvalidArgument, TallystickError
from tallystick.log.checkpoint import Compared as ComparedCheckpoint
from tallystick.log.checkpoint import Comparison as CheckpointComparison
from tallystick.log.checkpoint import Known, read_kept
from tallystick.log.proof import Proof, prove
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.operations.rule_scan import BrokenRule, scan_log
from tallystick.projections.blobs import BlobProof, prove_blobs
from tallystick.projections.consistency_check import Comparison, compare, compared_in, rebuild
from tallystick.projections.consistency_check.replay import Finding
from tallystick.projections.content import Contents
from tallystick.projections.registry import Parts, PendingErasure, pending_redactions, prepared

_BEGUN_TOGETHER_MS = 60_000
"""Events are written down in the background."""


class Verification(msgspec.Struct, frozen=True):
    log: Proof
    audit: AuditProof
    blobs: BlobProof | None = None
    """None when they were not asked for, or the log that names them is false."""
    views: Comparison | None = None
    rebuilt: list[str] = []
    checkpoints: list[ComparedCheckpoint] = []
    """Those that the log was held against; nothing where the log is false by itself."""
    unerased: list[PendingErasure] = []
    """With the projections: copies that may still hold what was redacted."""
    rules: list[BrokenRule] = []
    """With the projections: entities that no tool would write so. The log is sound all the same."""

    @property
    def sound(self) -> bool:
        return (
            self.log.sound
            and self.audit.sound
            and (self.blobs is None or self.blobs.sound)
            and (self.views is None or self.views.sound or bool(self.rebuilt))
            and all(each.problem is None for each in self.checkpoints)
            and not self.unerased
            and not self.rules
        )

    @property
    def audit_gap(self) -> str | None:
        """Commits that the audit log tells nothing of, though nothing in it is false; None where there are none."""
        if not self.log.since or not self.audit.sound or self.audit.retired:
            return None
        if not self.audit.since:
            return f"none here, but the log has {self.log.commits} commits"
        if from_text(self.audit.since) - from_text(self.log.since) <= _BEGUN_TOGETHER_MS:
            return None
        return f"begun at {self.audit.since}, but the log at {self.log.since}"


def verify(
    context: OperationContext,
    *,
    blobs: bool = True,
    views: bool = False,
    repair: bool = False,
    checkpoints: Sequence[Known] = (),
    progress: Progress = no_progress,
) -> Verification:
    """Reads the whole log; with `views` replays it into temporary files three times. It must lead to the `checkpoints`,
    and to the one that was signed here last.

    Changes nothing without `repair`, which rebuilds projections that differ and raises Corrupt when that did not help.
    """
    home, system = context.settings.home, context.settings.system
    comparison = known_checkpoints(context, checkpoints)
    proof = prove(
        system,
        lambda done, total: progress("verifying", done, total),
        tenant=context.settings.tenant,
        each=comparison.feed,
    )
    audit = verify_audit(system / "audit")
    if not proof.sound:
        return Verification(proof, audit)
    signed = comparison.compared()
    named = _prove_blobs(context, progress) if blobs else None
    if not views:
        return Verification(proof, audit, named, checkpoints=signed)
    with prepared(context.settings) as parts_of:
        parts = parts_of(context.settings.tenant)
        compared = _compare(
            context, parts, lambda done: progress("comparing", done, len(compared_in(home)) * proof.bytes)
        )
        rebuilt = _rebuild(context, parts, compared) if repair else []
    unerased = pending_redactions(home, database=context.database)
    return Verification(proof, audit, named, compared, rebuilt, signed, unerased, scan_log(system))


def _compare(
    context: OperationContext, parts: Parts, progress: Callable[[int], None] = lambda done: None
) -> Comparison:
    settings = context.settings
    return compare(
        settings.home,
        context.open_log,
        database=context.database,
        parts=parts,
        tenant=settings.tenant,
        progress=progress,
    )


def known_checkpoints(context: OperationContext, given: Sequence[Known] = ()) -> CheckpointComparison:
    """Those given, and the last that was signed here. Raises Corrupt where that one cannot be read."""
    keys: tuple[SignerKey, ...] = ()
    # Whoever verifies need not be who may sign. The log is compared all the same.
    with suppress(InvalidArgument):
        keys = context.checkpoint_keys()
    kept = read_kept(context.settings.home, [key.verifier for key in keys])
    return CheckpointComparison([*([kept] if kept else []), *given])


def describe(finding: Finding) -> str:
    key = f" '{finding.key}'" if finding.key else ""
    return f"{finding.where}{key}: {finding.what}"


def _prove_blobs(context: OperationContext, progress: Progress) -> BlobProof:
    there = Contents(context.settings.home).blobs_before(float("inf"))
    total = sum(seen.st_size for _, seen in there)
    return prove_blobs(context.settings.home, lambda done: progress("reading blobs", done, total))


def _rebuild(context: OperationContext, parts: Parts, compared: Comparison) -> list[str]:
    differing = [each.name for each in compared.projections if each.differs]
    refused: TallystickError | None = None
    for name in differing:
        try:
            rebuild(
                context.settings.home,
                context.open_log,
                name,
                database=context.database,
                parts=parts,
                tenant=context.settings.tenant,
            )
        except TallystickError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    again = _compare(context, parts) if differing else compared
    if not again.sound:
        first = next(each for each in again.findings if each.status == "differs")
        raise Corrupt(
            f"{describe(first)}, although it was built again",
            hint="look at the disk, then follow docs/runbooks/damaged-files.md",
        )
    return list(differing)
