"""The commands that look after a memory: verify, doctor, where, snapshot."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.options import Base, Json, Tenant, existing, settled
from tallystick.cli.output import Styled, counted, emit, progress, say, table, visible
from tallystick.config import FILE_NAME, Settings
from tallystick.errors import Corrupt, InvalidArgument, TallystickError

if TYPE_CHECKING:
    from tallystick.audit.proof import AuditProof
    from tallystick.log.proof import Proof
    from tallystick.projections.blobs import BlobProof
    from tallystick.projections.consistency_check import Comparison, Finding

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
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Prove that the log is whole and unaltered, and so is what it names.

    Recomputes every hash and names the first thing that is false, then reads the blobs and names each that is missing
    or damaged; --no-blobs leaves them out where they are many and large.
    Leaves with 0 when everything is true, with 1 when something is not. Changes nothing without --repair; servers may
    go on writing.

    \b
    --views replays the log into the directory for temporary files (TMPDIR) and compares registry.json,
      ontology.yaml, the content files, graph.db and the text index with it. It takes as long as building them.
      A content file that a person edited and that waits to be adopted is told, and is no damage.

    \b
    Examples:
      tallystick verify
      tallystick verify --base ./memory --json
      tallystick verify --views
      tallystick verify --views --repair
    """
    from tallystick.audit.proof import verify_audit
    from tallystick.log.proof import prove
    from tallystick.log.segments import segment_files

    if repair and not views:
        raise InvalidArgument("--repair is for what --views compares", hint="tallystick verify --views --repair")
    settings = existing(base=base, tenant=tenant)
    started = time.monotonic()
    size = sum(path.lstat().st_size for path in segment_files(settings.system / "log"))
    with progress("verifying", size) as tell:
        proof = prove(settings.system, lambda done, total: tell(done))
    audit = verify_audit(settings.system / "audit")
    # What follows from a log that is false cannot be told.
    named = _proven_blobs(settings) if blobs and proof.sound else None
    compared = _compared(settings, size) if views and proof.sound else None
    rebuilt = _rebuilt(settings, compared) if repair and compared is not None else []
    mended = compared is None or compared.sound or repair
    sound = proof.sound and audit.sound and (named is None or named.sound) and mended
    if json:
        _emit_verified(sound, proof, audit, named, compared, rebuilt)
    else:
        _tell_log(proof, time.monotonic() - started)
        _tell_audit(audit)
        _tell_blobs(named)
        _tell_views(compared, rebuilt)
    if not sound:
        raise typer.Exit(1)


def _proven_blobs(settings: Settings) -> BlobProof:
    from tallystick.projections.blobs import prove_blobs
    from tallystick.projections.content import Contents

    there = Contents(settings.home).blobs_before(float("inf"))
    with progress("reading blobs", sum(seen.st_size for _, seen in there)) as tell:
        return prove_blobs(settings.home, tell)


def _compared(settings: Settings, size: int) -> Comparison:
    from tallystick import app
    from tallystick.log.files import FilesLog
    from tallystick.projections.consistency_check import compare

    with progress("comparing", 3 * size) as tell:
        return compare(
            settings.home, lambda: FilesLog(settings.system), database=app.database_of(settings), progress=tell
        )


def _rebuilt(settings: Settings, compared: Comparison) -> list[str]:
    """Raises when what was built again still differs."""
    from tallystick import app
    from tallystick.log.files import FilesLog
    from tallystick.projections.consistency_check import compare, rebuild

    differing = [each.name for each in compared.projections if each.differs]
    database = app.database_of(settings)
    stuck: TallystickError | None = None
    for name in differing:
        try:
            rebuild(settings.home, lambda: FilesLog(settings.system), name, database=database)
        except TallystickError as error:
            stuck = stuck or error
    if stuck is not None:
        raise stuck
    if differing:
        again = compare(settings.home, lambda: FilesLog(settings.system), database=database)
        if not again.sound:
            first = next(each for each in again.findings if each.status == "differs")
            raise Corrupt(
                f"{_described(first)}, although it was built again",
                hint="look at the disk, then follow docs/runbooks/damaged-files.md",
            )
    return list(differing)


def _emit_verified(
    sound: bool,
    proof: Proof,
    audit: AuditProof,
    named: BlobProof | None,
    compared: Comparison | None,
    rebuilt: list[str],
) -> None:
    import msgspec

    told: dict[str, Any] = {"sound": sound, **msgspec.to_builtins(proof), "audit": msgspec.to_builtins(audit)}
    told["blobs"] = None if named is None else {"sound": named.sound, **msgspec.to_builtins(named)}
    if compared is not None:
        told["views"] = {"sound": compared.sound, **msgspec.to_builtins(compared), "rebuilt": rebuilt}
    emit(told)


def _tell_log(proof: Proof, seconds: float) -> None:
    if proof.sound:
        say(
            f"sound: {counted(proof.commits, 'commit')} up to position {proof.position}, {proof.bytes} bytes in "
            f"{counted(proof.segments, 'segment')}, {counted(proof.redacted, 'payload')} redacted ({seconds:.1f} s)"
        )
        say(f"record_hash {proof.record_hash or '(empty log)'}")
    else:
        place = f"{proof.file}, line {proof.line}: " if proof.file else ""
        _tell_false(f"{place}{proof.problem}", "nothing was changed; what to do: docs/runbooks/corrupt-log.md")


def _tell_blobs(named: BlobProof | None) -> None:
    if named is None:
        return
    if named.sound:
        say(f"blobs: sound, {named.blobs} ({named.bytes} bytes)")
    for problem in named.problems:
        whose = f" (content of '{visible(problem.entity)}', lamport {problem.lamport})" if problem.entity else ""
        _tell_false(f"{problem.file}{whose}: {problem.problem}", problem.advice)


def _tell_views(compared: Comparison | None, rebuilt: list[str]) -> None:
    if compared is None:
        return
    for each in compared.projections:
        state = each.not_compared or f"compared at position {each.position}, {counted(each.differs, 'difference')}"
        behind = f", {counted(each.behind, 'commit')} behind" if each.behind else ""
        say(f"{each.name}: {state}{behind}" + (", built again" if each.name in rebuilt else ""))
    for finding in compared.findings:
        if finding.status == "differs":
            _tell_false(_described(finding))
        else:
            say(f"  {finding.status}: {_described(finding)}")
    told = len(compared.findings)
    all_of_them = sum(each.differs + each.edited + each.waits for each in compared.projections)
    if told < all_of_them:
        say(f"  and {all_of_them - told} more")
    if not compared.sound and not rebuilt:
        say("  the log is right and these follow from it: 'tallystick verify --views --repair' builds them again")


def _described(finding: Finding) -> str:
    key = f" '{visible(finding.key)}'" if finding.key else ""
    return f"{visible(finding.where)}{key}: {visible(finding.what)}"


def _tell_false(what: str, advice: str | None = None) -> None:
    say(Styled("false:", fg="red", bold=True), f" {what}", err=True)
    if advice:
        say(f"  {advice}", err=True)


def _tell_audit(audit: AuditProof) -> None:
    if audit.sound:
        say(f"audit log: sound, {counted(audit.lines, 'event')}")
        return
    place = f"{audit.file}, line {audit.line}: " if audit.file else ""
    _tell_false(f"audit log: {place}{audit.problem}")


def doctor(
    repair: Annotated[
        bool, typer.Option("--repair", help="Remove blobs that no commit names, an hour after they were written.")
    ] = False,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Tell what is where, is it sound, and what to do.

    Looks at the outside and at the last commit only, and for the blobs that commits name;
    'tallystick verify' proves the rest. Leaves with 1 when something is bad. Changes nothing without --repair.

    \b
    Examples:
      tallystick doctor
      tallystick doctor --base ./memory --json
      tallystick doctor --repair
    """
    from tallystick.cli.doctor import examine
    from tallystick.cli.orphans import remove_orphans

    settings = existing(base=base, tenant=tenant) if repair else settled(base=base, tenant=tenant)
    removed = remove_orphans(settings) if repair else {}
    findings = examine(settings)
    sound = all(finding.status != "bad" for finding in findings)
    if json:
        found = [{"what": f.what, "status": f.status, "found": f.found, "advice": f.advice} for f in findings]
        emit({"sound": sound, "findings": found, **({"removed": list(removed)} if repair else {})})
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
            "tenant": settings.tenant,
            "home": str(settings.home),
            "log": str(settings.system / "log"),
            "settings": str(configuration) if configuration.exists() else None,
            "exists": (settings.system / "log").is_dir(),
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

    settings = existing(base=base, tenant=tenant)
    path = asyncio.run(app.take_snapshot(settings))
    size = path.stat().st_size
    if json:
        emit({"file": str(path), "bytes": size})
    else:
        say(f"{path} ({size} bytes)")
