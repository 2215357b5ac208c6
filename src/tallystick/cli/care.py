"""The commands that look after a memory: verify, doctor, where, snapshot."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import typer

from tallystick.cli.options import Base, Json, Tenant, existing, settled
from tallystick.cli.output import counted, emit, progress, table
from tallystick.config import FILE_NAME

if TYPE_CHECKING:
    from tallystick.audit.proof import AuditProof

_MARKS = {"good": ("ok", "green"), "odd": ("look", "yellow"), "bad": ("BAD", "red")}


def verify(json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Prove that the log is whole and unaltered.

    Recomputes every hash and names the first thing that is false.
    Leaves with 0 when everything is true, with 1 when something is not. Changes nothing; servers may go on writing.

    \b
    Examples:
      tallystick verify
      tallystick verify --base ./memory --json
    """
    import msgspec

    from tallystick.audit.proof import verify_audit
    from tallystick.log.proof import prove

    settings = existing(base=base, tenant=tenant)
    started = time.monotonic()
    size = sum(path.stat().st_size for path in (settings.system / "log").glob("*.jsonl"))
    with progress("verifying", size) as tell:
        proof = prove(settings.system, lambda done, total: tell(done))
    audit = verify_audit(settings.system / "audit")
    if json:
        emit({"sound": proof.sound and audit.sound, **msgspec.to_builtins(proof), "audit": msgspec.to_builtins(audit)})
    elif proof.sound:
        typer.echo(
            f"sound: {counted(proof.commits, 'commit')} up to position {proof.position}, {proof.bytes} bytes in "
            f"{counted(proof.segments, 'segment')}, {counted(proof.redacted, 'payload')} redacted "
            f"({time.monotonic() - started:.1f} s)"
        )
        typer.echo(f"record_hash {proof.record_hash or '(empty log)'}")
    else:
        place = f"{proof.file}, line {proof.line}: " if proof.file else ""
        typer.echo(f"{typer.style('false:', fg='red', bold=True)} {place}{proof.problem}", err=True)
        typer.echo("  nothing was changed; what to do: docs/runbooks/corrupt-log.md", err=True)
    if not json:
        _tell_audit(audit)
    if not (proof.sound and audit.sound):
        raise typer.Exit(1)


def _tell_audit(audit: AuditProof) -> None:
    if audit.sound:
        typer.echo(f"audit log: sound, {counted(audit.lines, 'event')}")
        return
    place = f"{audit.file}, line {audit.line}: " if audit.file else ""
    typer.echo(f"{typer.style('false:', fg='red', bold=True)} audit log: {place}{audit.problem}", err=True)


def doctor(json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Tell what is where, is it sound, and what to do.

    Looks at the outside and at the last commit only; 'tallystick verify' proves the rest.
    Leaves with 1 when something is bad. Changes nothing.

    \b
    Examples:
      tallystick doctor
      tallystick doctor --base ./memory --json
    """
    from tallystick.cli.examination import examine

    findings = examine(settled(base=base, tenant=tenant))
    sound = all(finding.status != "bad" for finding in findings)
    if json:
        found = [{"what": f.what, "status": f.status, "found": f.found, "advice": f.advice} for f in findings]
        emit({"sound": sound, "findings": found})
    else:
        table(("", "what", "found"), ((_MARKS[finding.status][0], finding.what, finding.found) for finding in findings))
        for finding in findings:
            if finding.advice:
                mark, colour = _MARKS[finding.status]
                typer.echo(f"{typer.style(mark, fg=colour)}: {finding.what}: {finding.advice}")
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
        typer.echo(settings.home)
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
        typer.echo(f"{path} ({size} bytes)")
