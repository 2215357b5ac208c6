"""The commands that look after a memory: verify, doctor, where, snapshot, catch-up."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.options import (
    Base,
    Checkpoints,
    Json,
    Quorum,
    Tenant,
    VerifierKeys,
    existing,
    read_checkpoints,
    settled,
)
from tallystick.cli.output import Styled, emit, progress, say, table, visible
from tallystick.config import FILE_NAME, why_this_base
from tallystick.errors import InvalidArgument
from tallystick.extension import installed
from tallystick.operations import counted

if TYPE_CHECKING:
    from tallystick.audit.proof import AuditProof
    from tallystick.log.proof import Proof
    from tallystick.operations.verify import Verification
    from tallystick.projections.blobs import BlobProof
    from tallystick.projections.consistency_check import Comparison

_MARKS = {"good": ("ok", "green"), "odd": ("look", "yellow"), "bad": ("BAD", "red")}


def verify(
    blobs: Annotated[
        bool, typer.Option("--blobs/--no-blobs", help="Also read every blob that a commit names (the default), or not.")
    ] = True,
    views: Annotated[
        bool, typer.Option("--views", help="Also compare what lies beside the log with what the log gives.")
    ] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="With --views: build again what differs. Edits of people are kept.")
    ] = False,
    checkpoint: Checkpoints = None,
    vkey: VerifierKeys = None,
    quorum: Quorum = 0,
    proof: Annotated[
        Path | None,
        typer.Option("--proof", metavar="FILE", help="Check what 'tallystick prove' wrote, and nothing else."),
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option("--since", metavar="FILE", help="With --proof: the older checkpoint that it says is continued."),
    ] = None,
    payload: Annotated[
        Path | None, typer.Option("--payload", metavar="FILE", help="With --proof: what the commit is said to say.")
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            metavar="SECONDS",
            min=0,
            help="Only if the last verification ended longer ago, and not while another one runs.",
        ),
    ] = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Prove that the log is whole and unaltered, and so is what it names.

    Recomputes every hash and names the first thing that is false, then reads the blobs and names each that is missing
    or damaged; --no-blobs leaves them out where they are many and large.
    Leaves with 0 when everything is true, with 1 when something is not. Changes nothing without --repair, but keeps
    what was found of the chain in _system/verification.json, for the bar of the pages; servers may go on writing.

    \b
    --views replays the log into the directory for temporary files (TMPDIR) and compares registry.json,
      ontology.yaml, the content files, graph.db and the text index with it. It takes as long as building them.
      A content file that a person edited and that waits to be adopted is told, and is no damage.
      It also names entities that break a rule of their vocabulary: circles of parents or dependencies, projects of
      one name, references to what is not there, versions that went back.

    \b
    --checkpoint also holds the log against a checkpoint that somebody kept, signed by a key of --vkey: a log that
      lost commits since, or was rewritten before it, is false. The last one signed here is always compared.

    \b
    --proof checks a file that somebody handed over, offline: no memory is looked at. Whoever has not installed
      tallystick does the same with verify_standalone.py, which is one file.

    \b
    Examples:
      tallystick verify
      tallystick verify --base ./memory --json
      tallystick verify --views
      tallystick verify --views --repair
      tallystick verify --checkpoint checkpoint-of-may --vkey memory.vkey
      tallystick verify --proof task-7.tlog-proof --vkey memory.vkey
    """
    from tallystick import app
    from tallystick.operations.last_verification import is_due, keep_verification, last_verification, verifying
    from tallystick.operations.verify import verify as verified

    if proof is not None:
        check = installed().handler("verify --proof")
        check(proof, vkey or (), since=since, checkpoints=checkpoint or (), payload=payload, quorum=quorum, json=json)
        return
    if since or payload:
        raise InvalidArgument("--since and --payload go with --proof")
    if quorum and not checkpoint:
        raise InvalidArgument("--quorum goes with --proof or --checkpoint")
    if repair and not views:
        raise InvalidArgument("--repair is for what --views compares", hint="tallystick verify --views --repair")
    context = app.operation_context(existing(base=base, tenant=tenant))
    known = read_checkpoints(checkpoint, vkey, quorum)
    started = time.monotonic()
    with verifying(context.settings.system) as is_alone:
        if older_than is not None and not (is_alone and is_due(last_verification(context.settings.system), older_than)):
            _skip(json)
            return
        with progress() as tell:
            found = verified(context, blobs=blobs, views=views, repair=repair, checkpoints=known, progress=tell)
        # Against a checkpoint of somebody else the log is compared for them alone.
        if is_alone and not known:
            keep_verification(context.settings.system, found)
    if json:
        _emit_verified(found)
    else:
        _draw_log(found.log, time.monotonic() - started)
        _draw_checkpoints(found)
        _draw_audit(found.audit, found.audit_gap)
        _draw_blobs(found.blobs)
        _draw_views(found.views, found.rebuilt)
        for copy in found.unerased:
            _draw_false(f"{copy.where} may still hold what was redacted", _UNERASED)
        for each in found.rules:
            _draw_false(f"'{visible(each.entity)}' {visible(each.problem)}", visible(each.advice))
    if not found.sound:
        raise typer.Exit(1)


_UNERASED = "a server that opens this memory finishes it, once no other program reads these files"


def _skip(json: bool) -> None:
    if json:
        emit({"skipped": True})
    else:
        say("skipped: it was verified since, is being verified, or nothing may be kept there")


def _emit_verified(found: Verification) -> None:
    import msgspec

    shown: dict[str, Any] = {
        "sound": found.sound,
        **msgspec.to_builtins(found.log),
        "audit": found.audit,
        "audit_gap": found.audit_gap,
        "checkpoints": found.checkpoints,
        "blobs": None if found.blobs is None else {"sound": found.blobs.sound, **msgspec.to_builtins(found.blobs)},
    }
    if found.views is not None:
        views = msgspec.to_builtins(found.views)
        shown["views"] = {"sound": found.views.sound, **views, "rebuilt": found.rebuilt}
        shown["unerased"] = found.unerased
        shown["rules"] = found.rules
    emit(shown)


def _draw_log(proof: Proof, seconds: float) -> None:
    if proof.sound:
        say(
            f"sound: {counted(proof.commits, 'commit')} up to position {proof.position}, {proof.bytes} bytes in "
            f"{counted(proof.segments, 'segment')}, {counted(proof.redacted, 'payload')} redacted ({seconds:.1f} s)"
        )
        say(f"record_hash {proof.record_hash or '(empty log)'}")
    else:
        place = f"{proof.file}, line {proof.line}: " if proof.file else ""
        _draw_false(f"{place}{proof.problem}", "nothing was changed; what to do: docs/runbooks/corrupt-log.md")


def _draw_checkpoints(found: Verification) -> None:
    for each in found.checkpoints:
        if each.problem is None:
            say(f"checkpoint: continued, {counted(each.size, 'commit')} of '{each.origin}' in {each.source}")
        else:
            _draw_false(each.problem, "nothing was changed; what to do: docs/runbooks/corrupt-log.md")


def _draw_blobs(named: BlobProof | None) -> None:
    if named is None:
        return
    if named.sound:
        say(f"blobs: sound, {named.blobs} ({named.bytes} bytes)")
    for problem in named.problems:
        whose = f" (content of '{visible(problem.entity)}', lamport {problem.lamport})" if problem.entity else ""
        _draw_false(f"{problem.file}{whose}: {problem.problem}", problem.advice)


def _draw_views(compared: Comparison | None, rebuilt: list[str]) -> None:
    if compared is None:
        return
    from tallystick.operations.verify import describe

    for each in compared.projections:
        state = each.not_compared or f"compared at position {each.position}, {counted(each.differs, 'difference')}"
        behind = f", {counted(each.behind, 'commit')} behind" if each.behind else ""
        say(f"{each.name}: {state}{behind}" + (", built again" if each.name in rebuilt else ""))
    for finding in compared.findings:
        if finding.status == "differs":
            _draw_false(describe(finding))
        else:
            say(f"  {finding.status}: {describe(finding)}")
    more = sum(each.differs + each.edited + each.waits for each in compared.projections) - len(compared.findings)
    if more > 0:
        say(f"  and {more} more")
    if not compared.sound and not rebuilt:
        say("  the log is right and these follow from it: 'tallystick verify --views --repair' builds them again")


def _draw_false(what: str, advice: str | None = None) -> None:
    say(Styled("false:", fg="red", bold=True), f" {what}", err=True)
    if advice:
        say(f"  {advice}", err=True)


def _draw_audit(audit: AuditProof, gap: str | None) -> None:
    if not audit.sound:
        place = f"{audit.file}, line {audit.line}: " if audit.file else ""
        _draw_false(f"audit log: {place}{audit.problem}")
        return
    if audit.lines:
        say(f"audit log: sound, {counted(audit.lines, 'event')} since {audit.since}")
    if gap:
        say(f"audit log: {gap}: the log came from elsewhere, or the audit log was removed")


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove blobs that no commit names, an hour after they were written.")
    ] = False,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Tell what is where, is it sound, and what to do.

    Proves the lines of a log of up to 32 MiB; of a larger one it reads the last, and says so. 'tallystick verify'
    proves them whatever their number, and the audit log, blobs and projections too. Leaves with 1 when something is
    bad. Changes nothing without --repair.

    \b
    Examples:
      tallystick doctor
      tallystick doctor --base ./memory --json
      tallystick doctor --repair
    """
    from tallystick.operations.doctor import examine
    from tallystick.operations.orphans import remove_orphans

    settings = existing(base=base, tenant=tenant) if repair else settled(base=base, tenant=tenant)
    removed = remove_orphans(settings) if repair else {}
    findings = examine(settings)
    sound = all(finding.status != "bad" for finding in findings)
    if json:
        shown = {"sound": sound, "findings": findings}
        emit(shown | ({"removed": list(removed)} if repair else {}))
    else:
        table(("", "what", "found"), ((_MARKS[finding.status][0], finding.what, finding.found) for finding in findings))
        for finding in findings:
            if finding.advice:
                mark, colour = _MARKS[finding.status]
                say(Styled(mark, fg=colour), f": {finding.what}: {finding.advice}")
        if repair:
            say(f"removed {counted(len(removed), 'blob')} that nothing named, {sum(removed.values())} bytes")
    if not sound:
        raise typer.Exit(1)


def where(json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Print the directory that the other commands would use.

    \b
    Examples:
      tallystick where
      du -sh "$(tallystick where)"
    """
    settings = settled(base=base, tenant=tenant)
    if not json:
        say(str(settings.home))
        return
    configuration = settings.base / FILE_NAME
    emit(
        {
            "base": str(settings.base),
            "because": why_this_base(settings.base),
            "tenant": settings.tenant,
            "home": str(settings.home),
            "log": str(settings.system / "log"),
            "settings": str(configuration) if configuration.exists() else None,
            "exists": settings.has_log,
        }
    )


def snapshot(json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Write a snapshot now, so that the next start is quick.

    A snapshot is only a cache: servers take them by themselves, and any may be deleted.

    \b
    Examples:
      tallystick snapshot
    """
    from tallystick import app
    from tallystick.operations.snapshot import take_snapshot

    context = app.operation_context(existing(base=base, tenant=tenant))
    taken = asyncio.run(take_snapshot(context))
    for each in app.all_proofs():
        each.sign(context)
    if json:
        emit(taken)
    else:
        say(f"{taken.file} ({taken.bytes} bytes)")


def catch_up(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="views, sql or text. [default: all of them]")
    ] = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Bring the views, graph.db and the text index up to the end of the log.

    Servers do that by themselves, and begin this command for one that has far to go. By hand it is for after a large
    import or a restore, so that the first who search need not wait. What was done stays when it is interrupted.

    \b
    Examples:
      tallystick catch-up
      tallystick catch-up sql --base ./memory
    """
    from tallystick import app
    from tallystick.operations.catch_up import catch_up as caught_up

    context = app.operation_context(existing(base=base, tenant=tenant))
    with progress() as tell:
        done = caught_up(context, names or (), progress=tell)
    if json:
        emit(done)
        return
    rows = [(each.projection, f"{each.commits:,}", f"{each.position:,}", f"{each.seconds:.1f} s") for each in done]
    table(("projection", "commits applied", "position", "took"), rows)
