"""The commands for the right to be forgotten: forget, redactions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import orjson
import typer

from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import counted, emit, note, table
from tallystick.cli.tool_client import principal, tool
from tallystick.errors import Conflict, InvalidArgument, NotFound, TallystickError

if TYPE_CHECKING:
    from tallystick.commits import Commit
    from tallystick.config import Settings
    from tallystick.log.backups import Backup
    from tallystick.state.mentions import Mention, Subject, Unread

FIELDS_MAX = 100
FIELD_CHARACTERS_MAX = 128
DISCREET = "[NAMES THE SUBJECT]"


class Plan(msgspec.Struct):
    """What to redact of one entity."""

    entity: str
    kind: str
    """node or edge"""
    type: str
    """The relation of an edge."""
    fields: dict[str, None]
    mentions: int = 0

    @property
    def is_whole(self) -> bool:
        """Content goes with everything else only; and some names cannot be said in a redaction."""
        return (
            "content" in self.fields
            or "attrs" in self.fields
            or len(self.fields) > FIELDS_MAX
            or any(len(field) > FIELD_CHARACTERS_MAX or not field.isprintable() for field in self.fields)
        )


class Search(msgspec.Struct):
    """What was found in the log."""

    plans: dict[tuple[str, str], Plan] = {}
    """By kind and id."""
    beyond: list[Mention] = []
    """Mentions that no redaction reaches."""
    unread: list[Unread] = []
    commits: dict[str, Commit] = {}
    """The redactions there are, by commit id."""


def forget(
    subject: Annotated[
        list[str],
        typer.Option("--subject", metavar="TEXT", help="A name, an address, a number; may be given several times."),
    ],
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="attrs.KEY", help="Redact this too in all that names the subject."),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="Redact all that such nodes and edges say, and the edges of such nodes."),
    ] = False,
    whole_words: Annotated[bool, typer.Option("--whole-words", help="'Ann' is not named by 'Annual'.")] = False,
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
    tenant: Tenant = None,
) -> None:
    """Find what names a person, and erase it.

    Looks at every version of every node and edge, living or deleted, and lists what it finds; with --yes the
    fields that name the subject are redacted: in the log, in snapshots and indexes, and in all that follows
    from it. Then it looks again, at the log and at every file, and tells what is left and why: ids, names of
    attributes, authors and reasons cannot be redacted. Leaves with 1 when something is.

    \b
    Examples:
      tallystick forget --subject "Ada Example" --subject ada@example.org
      tallystick forget --subject ada@example.org --field attrs.phone --reference R-17 --report r-17.json --yes
      tallystick forget --subject Ann --whole-words --whole
    """
    from tallystick.state.mentions import Subject

    sought = Subject(subject, whole_words=whole_words)
    _check_asked(sought, field or [], reason, report)
    settings = existing(base=base, tenant=tenant)
    found = search(settings, sought)
    for plan in found.plans.values():
        plan.fields |= dict.fromkeys([*(field or []), *(["attrs"] if whole else [])])
    if not yes:
        _draw_found(found, json=json)
        return
    done = asyncio.run(_redact(settings, found.plans.values(), reason))
    told = _account(settings, sought, {"reference": reference, "reason": reason, "redacted": done})
    if report is not None:
        _write_report(report, told)
    _draw_done(told, json=json)
    if not told["complete"]:
        raise typer.Exit(1)


def _check_asked(subject: Subject, fields: list[str], reason: str, report: Path | None) -> None:
    if not subject.texts:
        raise InvalidArgument("--subject is empty")
    wrong = [each for each in fields if not each.startswith("attrs.") or each == "attrs."]
    if wrong:
        raise InvalidArgument(f"'{wrong[0]}' is no attribute: write attrs.<key>")
    if subject.is_named_in(reason):
        raise InvalidArgument("the reason names the subject, and it stays in the log", hint="say it without the name")
    if report is not None and report.exists():
        raise Conflict(f"{report} is already there", code="FILE_EXISTS", hint="choose another name")


# -- finding


def search(settings: Settings, subject: Subject) -> Search:
    """Reads the whole log."""
    from tallystick.commits import REDACTIONS
    from tallystick.projections.content import Contents
    from tallystick.state.mentions import Unread, find_mentions

    contents = Contents(settings.home)
    found = Search()
    for commit in _commits(settings):
        if commit.operation in REDACTIONS:
            found.commits[commit.commit_id] = commit
        for mention in find_mentions(commit, subject, contents.read):
            if isinstance(mention, Unread):
                found.unread.append(mention)
            elif mention.field is None:
                found.beyond.append(mention)
            else:
                key = mention.kind, mention.entity
                said = commit.document()
                new = Plan(mention.entity, mention.kind, str(said.get("type") or said.get("rel")), {})
                plan = found.plans.setdefault(key, new)
                plan.fields[mention.field] = None
                plan.mentions += 1
    return found


def _commits(settings: Settings) -> Iterator[Commit]:
    from tallystick.log import Head
    from tallystick.log.files import FilesLog

    log = FilesLog(settings.system)
    try:
        for entry in log.read(Head()):
            yield entry.commit
    finally:
        log.close()


# -- erasing


async def _redact(settings: Settings, plans: Iterable[Plan], reason: str) -> list[dict[str, Any]]:
    """One draft for each entity. What is refused is told, and the others go on.

    Then what follows the log forgets too: now, since it may be that no server does it.
    """
    from tallystick import app
    from tallystick.server.dispatch import prepare

    word = tool(settings, "memory.write")
    done: list[dict[str, Any]] = []
    async with app.opened(settings) as store:
        # Edges first: a node that goes whole takes with it what its edges still say.
        for plan in sorted(plans, key=lambda plan: plan.kind):
            fields = ["attrs", "content"] if plan.is_whole else list(plan.fields)
            row: dict[str, Any] = {"entity": plan.entity, "kind": plan.kind, "type": plan.type, "fields": fields}
            try:
                answer = await word.call(store, principal(settings), prepare(word, _asked(plan, reason)))
                row |= {name: answer.data[name] for name in ("commit_id", "lamport", "timestamp")}
                batch = answer.data.get("batch")
                row["first_lamport"] = batch["first_lamport"] if batch else row["lamport"]
            except TallystickError as error:
                row["refused"] = error.code
            done.append(row)
    await app.catch_up(settings)
    return done


def _asked(plan: Plan, reason: str) -> dict[str, Any]:
    asked = {"op": f"REDACT_{plan.kind.upper()}", f"{plan.kind}_id": plan.entity, "reason": reason}
    return asked if plan.is_whole else {**asked, "redacted_fields": list(plan.fields)}


def _account(settings: Settings, subject: Subject, request: dict[str, Any]) -> dict[str, Any]:
    """Looks again at everything, and says what is so now. Nothing in it names the subject."""
    from tallystick import __version__
    from tallystick.cli.leftover_scan import remains
    from tallystick.clock import to_text, wall_clock
    from tallystick.log.backups import backups
    from tallystick.log.proof import prove

    left = search(settings, subject)
    files = remains(settings.home, subject.texts, log_too=not left.beyond and not left.plans)
    proof = prove(settings.system)
    done = request["redacted"]
    for row in done:
        row["masked_payloads"] = {
            lamport: digest for commit in _made(row, left) for lamport, digest in (commit.redacts or {}).items()
        }
    told = {
        "at": to_text(wall_clock()),
        "by": settings.agent_identity,
        "tenant": settings.tenant,
        "tallystick": __version__,
        **request,
        "not_erased": [*map(_told, left.beyond), *_still_there(left)],
        "contents_not_searched": [msgspec.to_builtins(each) for each in left.unread],
        "files_that_still_name_it": files,
        "backups_taken_before": [
            msgspec.to_builtins(backup)
            for backup in backups(settings.system)
            if any(_holds(backup, commit) for row in done for commit in _made(row, left))
        ],
        "log_is_sound": proof.sound,
        "position": proof.position,
        "record_hash": proof.record_hash,
    }
    told["complete"] = not (told["not_erased"] or left.unread or files or not proof.sound)
    discreet: dict[str, Any] = _discreet(told, subject)
    return discreet


def _still_there(left: Search) -> list[dict[str, Any]]:
    """What a redaction should have reached."""
    because = "its redaction was refused, or it was written meanwhile"
    return [
        {"entity": plan.entity, "kind": plan.kind, "place": ", ".join(plan.fields), "because": because}
        for plan in left.plans.values()
    ]


def _told(mention: Mention) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(mention)
    return told | {"because": mention.why}


def _made(row: dict[str, Any], left: Search) -> list[Commit]:
    """The redactions that one draft made."""
    if "lamport" not in row:
        return []
    return [each for each in left.commits.values() if row["first_lamport"] <= each.lamport <= row["lamport"]]


def _holds(backup: Backup, redaction: Commit) -> bool:
    """Whether it was taken when a payload was there that this redaction masked."""
    masked = [int(lamport) for lamport in redaction.redacts or ()]
    return bool(masked) and min(masked) <= backup.position < redaction.lamport


def _discreet(value: Any, subject: Subject) -> Any:
    """An id or the name of a field may itself name the subject; the commit tells them apart."""
    if isinstance(value, dict):
        return {_discreet(name, subject): _discreet(each, subject) for name, each in value.items()}
    if isinstance(value, list):
        return [_discreet(each, subject) for each in value]
    return DISCREET if isinstance(value, str) and subject.is_named_in(value) else value


def _write_report(path: Path, told: dict[str, Any]) -> None:
    try:
        with path.open("xb") as file:
            file.write(orjson.dumps(told, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        note(f"the report could not be written: {error.strerror}; here it is")
        emit(told)
        raise InvalidArgument(f"cannot write {path}: {error.strerror}", code="FILE_UNWRITABLE") from error


# -- what was redacted before


def redactions(
    pending_backups: Annotated[
        bool, typer.Option("--pending-backups", help="List the backups that still hold what was redacted since.")
    ] = False,
    destroyed: Annotated[
        str | None, typer.Option("--destroyed", metavar="BACKUP", help="Note that this backup is gone for good.")
    ] = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """List what was redacted, and the backups that have to go for it.

    Knows of the backups that 'tallystick export' made. Other copies of the directory are known to whoever made them.

    \b
    Examples:
      tallystick redactions
      tallystick redactions --pending-backups
      tallystick redactions --destroyed backup_5d1c9a02
    """
    from tallystick.commits import REDACTIONS
    from tallystick.log.backups import note_destroyed

    settings = existing(base=base, tenant=tenant)
    if destroyed is not None and not note_destroyed(settings.system, destroyed, by=settings.agent_identity):
        raise NotFound(f"no backup '{destroyed}' is known", hint="'tallystick redactions --pending-backups' lists them")
    made = [commit for commit in _commits(settings) if commit.operation in REDACTIONS]
    if pending_backups or destroyed is not None:
        _draw_backups(_pending(settings, made), json=json)
    elif json:
        emit({"redactions": list(map(_row, made))})
    else:
        names = ("position", "time", "actor", "kind", "entity", "fields", "reason")
        table(names, ([row[name] for name in names] for row in map(_row, made)))


def _row(commit: Commit) -> dict[str, Any]:
    from tallystick.commits import EDGE_VERBS
    from tallystick.state.derivation import entity_of

    said = commit.document()
    return {
        "position": commit.lamport,
        "time": commit.timestamp,
        "actor": commit.actor,
        "entity": entity_of(commit),
        "kind": "edge" if commit.operation in EDGE_VERBS else "node",
        "fields": said.get("redacted_fields", ["attrs", "content"]),
        "reason": said.get("reason"),
        "commit_id": commit.commit_id,
        "masked_payloads": len(commit.redacts or {}),
    }


def _pending(settings: Settings, made: list[Commit]) -> list[dict[str, Any]]:
    from tallystick.log.backups import backups

    found = []
    for backup in backups(settings.system):
        held = [commit.lamport for commit in made if _holds(backup, commit)]
        if held:
            there = Path(backup.target).exists() if backup.target != "-" else None
            found.append({**msgspec.to_builtins(backup), "redactions": held, "still_there": there})
    return found


# -- telling


def _draw_found(found: Search, *, json: bool) -> None:
    if json:
        emit(
            {
                "to_redact": [
                    {"entity": plan.entity, "kind": plan.kind, "type": plan.type, "fields": list(plan.fields)}
                    for plan in found.plans.values()
                ],
                "cannot_be_erased": [_told(each) for each in found.beyond],
                "contents_not_searched": [msgspec.to_builtins(each) for each in found.unread],
            }
        )
        return
    rows = [(plan.kind, plan.entity, plan.type, _said(plan), plan.mentions) for plan in found.plans.values()]
    table(("", "entity", "type", "would be redacted", "mentions"), rows)
    _draw_beyond([_told(each) for each in found.beyond], len(found.unread))
    note(
        f"{len(rows)} {'entity' if len(rows) == 1 else 'entities'} to redact; nothing was changed"
        + ("; to do it add --yes" if rows else "")
    )


def _said(plan: Plan) -> str:
    return "everything" if plan.is_whole else ", ".join(plan.fields)


def _draw_done(told: dict[str, Any], *, json: bool) -> None:
    if json:
        emit(told)
        return
    rows = [
        (row["kind"], row["entity"], ", ".join(row["fields"]), row.get("commit_id") or row["refused"])
        for row in told["redacted"]
    ]
    table(("", "entity", "redacted", "commit"), rows)
    _draw_beyond(told["not_erased"], len(told["contents_not_searched"]))
    for path in told["files_that_still_name_it"]:
        note(f"still in {path}")
    for backup in told["backups_taken_before"]:
        note(f"still in the backup {backup['target']} of {backup['at']} ({backup['id']})")
    note("nothing else in this base names the subject" if told["complete"] else "NOT everything is erased: see above")


def _draw_beyond(mentions: list[dict[str, Any]], unread: int) -> None:
    for each in mentions:
        at = f" (position {each['lamport']})" if "lamport" in each else ""
        note(f"cannot be erased: {each['place']} of {each['kind']} {each['entity']}{at}: {each['because']}")
    if unread:
        note(f"could not be searched: {counted(unread, 'content')}")


def _draw_backups(found: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        emit({"backups": found})
        return
    names = ("id", "at", "target", "position", "redactions", "still_there")
    table(names, ([each[name] for name in names] for each in found))
    if found:
        note("destroy them and their copies, take new ones, and note it with --destroyed")
