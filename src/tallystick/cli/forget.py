"""The commands for the right to be forgotten: forget, redactions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import orjson
import typer

from tallystick.cli.asking import principal, tool
from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import counted, emit, note, table
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
    """What to redact of one node."""

    node: str
    type: str
    fields: dict[str, None]
    mentions: int = 0

    @property
    def is_whole(self) -> bool:
        """Content goes with the whole node only; and some names cannot be said in a redaction."""
        return (
            "content" in self.fields
            or "attrs" in self.fields
            or len(self.fields) > FIELDS_MAX
            or any(len(field) > FIELD_CHARACTERS_MAX or not field.isprintable() for field in self.fields)
        )


class Search(msgspec.Struct):
    """What was found in the log."""

    plans: dict[str, Plan] = {}
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
        typer.Option("--field", metavar="attrs.KEY", help="Redact this too in each node that names the subject."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="Redact all attributes and the content of each node that names it.")
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
    from it. Then it looks again, at the log and at every file, and tells what is left: ids, edges, authors and
    reasons cannot be redacted. Leaves with 1 when something is.

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
    _bring_to_head(settings)
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
    from tallystick.commits import Verb
    from tallystick.projections.content import Contents
    from tallystick.state.mentions import Unread, find_mentions

    contents = Contents(settings.home)
    types: dict[str, str] = {}
    found = Search()
    for commit in _commits(settings):
        if commit.operation is Verb.REDACT_NODE:
            found.commits[commit.commit_id] = commit
        for mention in find_mentions(commit, subject, contents.read):
            if isinstance(mention, Unread):
                found.unread.append(mention)
            elif mention.field is None:
                found.beyond.append(mention)
            else:
                kind = types.setdefault(mention.entity, str(commit.document().get("type")))
                plan = found.plans.setdefault(mention.entity, Plan(mention.entity, kind, {}))
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
    """One draft for each node. What is refused is told, and the others go on."""
    from tallystick import app
    from tallystick.server.dispatch import prepare

    word = tool(settings, "memory.write")
    done: list[dict[str, Any]] = []
    async with app.opened(settings) as store:
        for plan in plans:
            asked: dict[str, Any] = {"op": "REDACT_NODE", "node_id": plan.node, "reason": reason}
            if not plan.is_whole:
                asked["redacted_fields"] = list(plan.fields)
            fields = asked.get("redacted_fields", ["attrs", "content"])
            row: dict[str, Any] = {"node": plan.node, "type": plan.type, "fields": fields}
            try:
                answer = await word.call(store, principal(settings), prepare(word, asked))
                row |= {name: answer.data[name] for name in ("commit_id", "lamport", "timestamp")}
            except TallystickError as error:
                row["refused"] = error.code
            done.append(row)
    return done


def _bring_to_head(settings: Settings) -> None:
    """What follows the log forgets when it follows: now, where no server does it, and only where it was before."""
    from tallystick.log.files import FilesLog
    from tallystick.projections import views
    from tallystick.projections.follower import Follower
    from tallystick.projections.sql import SqlProjection
    from tallystick.projections.text.projection import TextProjection
    from tallystick.toolsets.work.settings import read_settings

    def open_log() -> FilesLog:
        return FilesLog(settings.system)

    followers: list[Follower] = []
    database = read_settings(base=settings.base, working=Path.cwd(), environ=os.environ).db_path
    database = database or settings.home / "graph.db"
    if (settings.system / "views.db").exists():
        followers.append(views.follow(settings.home, open_log)[1])
    if (settings.system / "text").exists():
        lock = settings.system / "text.lock"
        followers.append(Follower(open_log, TextProjection(settings.home), lock=lock))
    if database.exists():
        followers.append(Follower(open_log, SqlProjection(database), lock=settings.system / "sql.lock"))
    for follower in followers:
        follower.catch_up()
        follower.close()


def _account(settings: Settings, subject: Subject, request: dict[str, Any]) -> dict[str, Any]:
    """Looks again at everything, and says what is so now. Nothing in it names the subject."""
    from tallystick import __version__
    from tallystick.cli.remains import remains
    from tallystick.clock import to_text, wall_clock
    from tallystick.log.backups import backups
    from tallystick.log.proof import prove

    left = search(settings, subject)
    files = remains(settings.home, subject.texts, log_too=not left.beyond and not left.plans)
    proof = prove(settings.system)
    done = request["redacted"]
    for row in done:
        commit = left.commits.get(row.get("commit_id", ""))
        row["masked_payloads"] = commit.redacts if commit is not None else {}
    told = {
        "at": to_text(wall_clock()),
        "by": settings.agent_identity,
        "tenant": settings.tenant,
        "tallystick": __version__,
        **request,
        "not_erased": [*map(msgspec.to_builtins, left.beyond), *_still_there(left)],
        "contents_not_searched": [msgspec.to_builtins(each) for each in left.unread],
        "files_that_still_name_it": files,
        "backups_taken_before": [
            msgspec.to_builtins(each) for each in backups(settings.system) if _precedes(each, left.commits, done)
        ],
        "log_is_sound": proof.sound,
        "position": proof.position,
        "record_hash": proof.record_hash,
    }
    told["complete"] = not (told["not_erased"] or left.unread or files or not proof.sound)
    discreet: dict[str, Any] = _discreet(told, subject)
    return discreet


def _still_there(left: Search) -> list[dict[str, Any]]:
    """What a redaction should have reached: refused, or written meanwhile."""
    return [{"entity": plan.node, "kind": "node", "place": ", ".join(plan.fields)} for plan in left.plans.values()]


def _precedes(backup: Backup, redactions: dict[str, Commit], done: list[dict[str, Any]]) -> bool:
    ours = [redactions[row["commit_id"]] for row in done if row.get("commit_id") in redactions]
    return any(_holds(backup, commit) for commit in ours)


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
    from tallystick.log.backups import note_destroyed

    settings = existing(base=base, tenant=tenant)
    if destroyed is not None and not note_destroyed(settings.system, destroyed, by=settings.agent_identity):
        raise NotFound(f"no backup '{destroyed}' is known", hint="'tallystick redactions --pending-backups' lists them")
    made = [commit for commit in _commits(settings) if commit.operation == "REDACT_NODE"]
    if pending_backups or destroyed is not None:
        _draw_backups(_pending(settings, made), json=json)
    elif json:
        emit({"redactions": list(map(_row, made))})
    else:
        rows = (
            [row[name] for name in ("position", "time", "actor", "node", "fields", "reason")] for row in map(_row, made)
        )
        table(("position", "time", "actor", "node", "fields", "reason"), rows)


def _row(commit: Commit) -> dict[str, Any]:
    said = commit.document()
    return {
        "position": commit.lamport,
        "time": commit.timestamp,
        "actor": commit.actor,
        "node": said["node_id"],
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
        nodes = [{"node": plan.node, "type": plan.type, "fields": list(plan.fields)} for plan in found.plans.values()]
        emit(
            {
                "to_redact": nodes,
                "cannot_be_erased": [msgspec.to_builtins(each) for each in found.beyond],
                "contents_not_searched": [msgspec.to_builtins(each) for each in found.unread],
            }
        )
        return
    rows = [(plan.node, plan.type, _said(plan), plan.mentions) for plan in found.plans.values()]
    table(("node", "type", "would be redacted", "mentions"), rows)
    _draw_beyond([msgspec.to_builtins(each) for each in found.beyond], len(found.unread))
    note(f"{counted(len(rows), 'node')} to redact; nothing was changed" + ("; to do it add --yes" if rows else ""))


def _said(plan: Plan) -> str:
    return "everything" if plan.is_whole else ", ".join(plan.fields)


def _draw_done(told: dict[str, Any], *, json: bool) -> None:
    if json:
        emit(told)
        return
    rows = [(row["node"], ", ".join(row["fields"]), row.get("commit_id") or row["refused"]) for row in told["redacted"]]
    table(("node", "redacted", "commit"), rows)
    _draw_beyond(told["not_erased"], len(told["contents_not_searched"]))
    for path in told["files_that_still_name_it"]:
        note(f"still in {path}")
    for backup in told["backups_taken_before"]:
        note(f"still in the backup {backup['target']} of {backup['at']} ({backup['id']})")
    note("nothing else in this base names the subject" if told["complete"] else "NOT everything is erased: see above")


def _draw_beyond(mentions: list[dict[str, Any]], unread: int) -> None:
    for each in mentions:
        at = f" (position {each['lamport']})" if "lamport" in each else ""
        note(f"cannot be erased: {each['place']} of {each['kind']} {each['entity']}{at}")
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
