"""The commands for the right to be forgotten: forget, redactions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import orjson
import typer

from tallystick.cli.options import Base, EveryTenant, Json, Tenant, command_group, existing, settled
from tallystick.cli.output import emit, note, progress, require_new, table, write_new
from tallystick.errors import InvalidArgument, NotFound, TallystickError
from tallystick.operations import counted

if TYPE_CHECKING:
    from tallystick.operations import OperationContext
    from tallystick.operations.forget import ErasureReport, NotErased, PendingBackup, Plan, Search
    from tallystick.projections.registry import PendingErasure


subject_commands = command_group("What names a person, for that person.")
SubjectTexts = Annotated[
    list[str],
    typer.Option("--subject", metavar="TEXT", help="A name, an address, a number; may be given several times."),
]
WholeWords = Annotated[bool, typer.Option("--whole-words", help="'Ann' is not named by 'Annual'.")]


@subject_commands.callback()
def _subject() -> None: ...


def forget(
    subject: SubjectTexts,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="attrs.KEY", help="Redact this too in all that names the subject."),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="Redact all that such nodes and edges say, and the edges of such nodes."),
    ] = False,
    whole_words: WholeWords = False,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Goes into the log, so it must not name the subject.")
    ] = "GDPR_RIGHT_TO_ERASURE",
    reference: Annotated[
        str | None, typer.Option("--reference", metavar="TEXT", help="The request's number, for the report.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Write what was done, without personal data.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. What is redacted cannot be brought back.")] = False,
    json: Json = False,
    base: Base = None,
    tenant: EveryTenant = None,
) -> None:
    """Find what names a person, and erase it.

    Looks at every version of every node and edge of every tenant, living or deleted, and lists what it finds; with
    --yes the fields that name the subject are redacted: in the log, in snapshots and indexes, and in all that
    follows from it. An attribute whose name is the subject's goes with its name. Then it looks again, at the log and
    at every file, and tells what is left and why: ids, authors and reasons cannot be redacted. Leaves with 1 when
    something is. The policy of the server is not asked: whoever can write these files is the operator.

    \b
    Examples:
      tallystick forget --subject "Ada Example" --subject ada@example.org
      tallystick forget --subject ada@example.org --field attrs.phone --reference R-17 --report r-17.json --yes
      tallystick forget --subject Ann --whole-words --whole
    """
    from tallystick.operations import forget as erasure
    from tallystick.state.mentions import Subject

    sought, fields = Subject(subject, whole_words=whole_words), field or []
    erasure.check_request(sought, fields, reason)
    require_new(report)
    contexts = _contexts(base, tenant)
    with progress() as tell:
        found = [
            asyncio.run(erasure.search(each, sought, fields=fields, whole=whole, progress=tell)) for each in contexts
        ]
    if not yes:
        _draw_found(found, json=json)
        return
    with progress() as tell:
        plans = list(zip(contexts, found, strict=True))
        done = asyncio.run(
            erasure.forget(plans, sought, reason=reason, reference=reference, everywhere=tenant is None, progress=tell)
        )
    if report is not None:
        _write_report(report, done)
    _draw_done(done, json=json)
    if done.files_that_still_name_it and not whole_words and not json:
        note("where that is only a part of other words, --whole-words tells them apart")
    if not done.complete:
        raise typer.Exit(1)


@subject_commands.command("export")
def export_subject(
    subject: SubjectTexts,
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="Where to; - is standard output.")] = Path("-"),
    whole_words: WholeWords = False,
    base: Base = None,
    tenant: EveryTenant = None,
) -> None:
    """Write what names a person, for that person: JSON.

    Every version of every node and edge that names them, of every tenant, with who wrote it, when, and where it
    names them. Nothing is withheld, so look through it before it is handed on: it may name others too.

    \b
    Examples:
      tallystick subject export --subject "Ada Example" --subject ada@example.org ada.json
      tallystick subject export --subject ada@example.org --tenant acme
    """
    from tallystick.operations.subject import export_subject as exported
    from tallystick.state.mentions import Subject

    sought = Subject(subject, whole_words=whole_words)
    if not sought.texts:
        raise InvalidArgument("--subject is empty")
    with progress() as tell:
        found = asyncio.run(exported(_contexts(base, tenant), sought, progress=tell))
    if str(file) == "-":
        emit(found)
    else:
        _write_json(file, msgspec.to_builtins(found))
    versions = sum(len(each.versions) for each in found.entities)
    count = len(found.entities)
    note(f"{count} {'entity' if count == 1 else 'entities'}, {counted(versions, 'version')}")


def _contexts(base: Path | None, tenant: str | None) -> list[OperationContext]:
    """Of the tenant that was named, or else of all."""
    from tallystick import app
    from tallystick.operations.tenants import contexts_of

    if tenant is not None:
        return [app.operation_context(existing(base=base, tenant=tenant))]
    settings = settled(base=base)
    return contexts_of(app.operation_context(settings)) or [app.operation_context(existing(base=base))]


def _write_report(path: Path, report: ErasureReport) -> None:
    content = msgspec.to_builtins(report)
    try:
        _write_json(path, content)
    except TallystickError:
        note("the report could not be written; here it is")
        emit(content)
        raise


def _write_json(path: Path, content: Any) -> None:
    """For this user only."""
    write_new(path, orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n", mode=0o600)


def redactions(
    pending_backups: Annotated[
        bool, typer.Option("--pending-backups", help="List the backups that still hold what was redacted since.")
    ] = False,
    pending: Annotated[
        bool,
        typer.Option(
            "--pending", help="List what may still hold what was redacted or deleted: on this disk, and backups."
        ),
    ] = False,
    destroyed: Annotated[
        str | None,
        typer.Option(
            "--destroyed",
            metavar="BACKUP",
            help="Note that this backup is gone for good, or what this NATS server had stored.",
        ),
    ] = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """List what was redacted, and the backups that have to go for it.

    Knows of the backups that 'tallystick backup' and 'tallystick export' made. Other copies of the directory are known
    to whoever made them.

    \b
    Examples:
      tallystick redactions
      tallystick redactions --pending
      tallystick redactions --pending-backups
      tallystick redactions --destroyed backup_5d1c9a02
      tallystick redactions --destroyed n3
    """
    from tallystick import app
    from tallystick.operations import forget as erasure
    from tallystick.operations.copies import note_destroyed

    context = app.operation_context(existing(base=base, tenant=tenant))
    settings = context.settings
    if destroyed is not None and erasure.note_place_destroyed(settings, destroyed):
        note(f"nothing waits for the server {destroyed} any more")
        return
    if destroyed is not None and not note_destroyed(settings.system, destroyed, by=context.principal.actor):
        raise NotFound(
            f"no backup '{destroyed}' is known, and nothing waits for a server of that name",
            hint="'tallystick redactions --pending' lists them",
        )
    if pending_backups or destroyed is not None:
        _draw_backups(asyncio.run(erasure.pending_backups(context)), json=json)
        return
    if pending:
        found = erasure.pending_erasures(context)
        _draw_pending(found, asyncio.run(erasure.pending_backups(context)), json=json)
        return
    made = asyncio.run(erasure.redactions(context))
    if json:
        emit({"redactions": made})
    else:
        _draw_rows(("position", "time", "actor", "kind", "entity", "fields", "reason"), made)


# -- drawing


def _draw_found(found: list[Search], *, json: bool) -> None:
    from tallystick.operations.forget import not_erased, not_searched

    plans = [(each.tenant, plan) for each in found for plan in each.plans.values()]
    beyond = [mention for each in found for mention in not_erased(each)]
    unread = [content for each in found for content in not_searched(each)]
    if json:
        rows = [
            {"tenant": name, "entity": plan.entity, "kind": plan.kind, "type": plan.type, "fields": plan.described}
            for name, plan in plans
        ]
        emit({"to_redact": rows, "cannot_be_erased": beyond, "contents_not_searched": unread})
        return
    table(
        ("tenant", "", "entity", "type", "would be redacted", "mentions"),
        [(name, plan.kind, plan.entity, plan.type, _fields(plan), plan.mentions) for name, plan in plans],
    )
    _draw_beyond(beyond, len(unread))
    note(
        f"{len(plans)} {'entity' if len(plans) == 1 else 'entities'} to redact; nothing was changed"
        f"{'; to do it add --yes' if plans else ''}"
    )


def _fields(plan: Plan) -> str:
    return "everything" if plan.is_whole else ", ".join(plan.described)


def _draw_done(report: ErasureReport, *, json: bool) -> None:
    if json:
        emit(report)
        return
    table(
        ("tenant", "", "entity", "redacted", "commit"),
        [
            (row.tenant, row.kind, row.entity, ", ".join(row.fields), row.commit_id or f"refused: {row.refused}")
            for row in report.redacted
        ],
    )
    _draw_beyond(report.not_erased, len(report.contents_not_searched))
    for path in report.files_that_still_name_it:
        note(f"still in {path}")
    for path in report.files_not_searched:
        note(f"could not be searched: {path}; make it readable, or remove it, and run this again")
    for name in report.erasure["pending"]:
        note(f"still in the {name}: {_why_pending(name)}")
    for backup in report.backups_taken_before:
        note(f"still in the backup {backup.target} of {backup.at} ({backup.id})")
    note("nothing else in this base names the subject" if report.complete else "NOT everything is erased: see above")


def _why_pending(name: str) -> str:
    if name.endswith(": stream"):
        return "'tallystick redactions --pending' tells which server or machine it waits for"
    return "another program keeps it from being cleaned; the next start of a server goes on"


def _draw_beyond(mentions: list[NotErased], unread: int) -> None:
    for each in mentions:
        at = f" (position {each.lamport})" if each.lamport is not None else ""
        note(f"cannot be erased: {each.tenant}: {each.place} of {each.kind} {each.entity}{at}: {each.because}")
    if unread:
        note(f"could not be searched: {counted(unread, 'content')}")


def _draw_backups(found: list[PendingBackup], *, json: bool) -> None:
    if json:
        emit({"backups": found})
        return
    _draw_rows(("id", "at", "target", "position", "redactions", "still_there"), found)
    if found:
        note("stores are cleaned by the next 'tallystick backup'; destroy exports, and note it with --destroyed")


def _draw_pending(found: list[PendingErasure], backups: list[PendingBackup], *, json: bool) -> None:
    if json:
        emit({"pending": found, "backups": backups})
        return
    _draw_rows(("where", "position", "commits"), found)
    if found:
        note("servers that run finish it: on this disk once no other program reads these files")
    if backups:
        _draw_backups(backups, json=False)


def _draw_rows(names: tuple[str, ...], rows: list[Any]) -> None:
    table(names, ([getattr(row, name) for name in names] for row in rows))
