"""Erasure of a person: what names them, redacted, and an account of what is left. Also what was redacted before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from tallystick import __version__
from tallystick.clock import to_text, wall_clock
from tallystick.commits import EDGE_VERBS, REDACTIONS, Commit
from tallystick.errors import InvalidArgument, TallystickError
from tallystick.log import Head
from tallystick.log.backups import Backup, backups
from tallystick.log.proof import prove
from tallystick.operations import OperationContext
from tallystick.operations.leftover_scan import remains
from tallystick.projections.content import Contents
from tallystick.projections.registry import PendingErasure
from tallystick.projections.registry import pending_erasures as pending_in_projections
from tallystick.snapshots import kept_positions
from tallystick.state.derivation import entity_of
from tallystick.state.mentions import Mention, Subject, Unread, find_mentions

FIELDS_MAX = 100
FIELD_CHARACTERS_MAX = 128
NAMES_THE_SUBJECT = "[NAMES THE SUBJECT]"


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
    """What the log of one tenant says of a subject."""

    plans: dict[tuple[str, str], Plan] = {}
    """By kind and id."""
    beyond: list[Mention] = []
    """Mentions that no redaction reaches."""
    unread: list[Unread] = []
    redactions: list[Commit] = []
    """The redactions there are."""


class Redacted(msgspec.Struct):
    entity: str
    kind: str
    type: str
    fields: list[str]
    commit_id: str | None = None
    lamport: int | None = None
    timestamp: str | None = None
    first_lamport: int | None = None
    """Of the draft: a node takes redactions of its edges with it."""
    refused: str | None = None
    """The error's code."""
    masked_payloads: dict[str, str] = {}


class NotErased(msgspec.Struct, frozen=True, omit_defaults=True):
    entity: str
    kind: str
    place: str
    because: str
    lamport: int | None = None
    commit_id: str | None = None


class ErasureReport(msgspec.Struct, frozen=True):
    """Nothing in it names the subject."""

    at: str
    by: str
    tenant: str
    tallystick: str
    reference: str | None
    reason: str
    redacted: list[Redacted]
    not_erased: list[NotErased]
    contents_not_searched: list[Unread]
    files_that_still_name_it: list[str]
    erasure: dict[str, list[str]]
    """`pending`: the projections that still hold a copy, which the next process that opens the tenant erases."""
    backups_taken_before: list[Backup]
    log_is_sound: bool
    position: int
    record_hash: str
    complete: bool


class Redaction(msgspec.Struct, frozen=True):
    """One that was made before."""

    position: int
    time: str
    actor: str
    entity: str
    kind: str
    fields: list[str]
    reason: str | None
    commit_id: str
    masked_payloads: int


class PendingBackup(msgspec.Struct, frozen=True):
    """It still holds what was redacted since."""

    id: str
    at: str
    target: str
    position: int
    commits: int
    redactions: list[int]
    """Their positions."""
    still_there: bool | None
    """None when it is not known where it went."""


# -- finding


def search(context: OperationContext, subject: Subject, *, fields: Sequence[str] = (), whole: bool = False) -> Search:
    """Reads the whole log. `fields` are planned for everything that names the subject; so is all, with `whole`."""
    found = Search()
    contents = Contents(context.settings.home)
    for commit in _commits(context):
        if commit.operation in REDACTIONS:
            found.redactions.append(commit)
        for mention in find_mentions(commit, subject, contents.read):
            if isinstance(mention, Unread):
                found.unread.append(mention)
            elif mention.field is None:
                found.beyond.append(mention)
            else:
                said = commit.document()
                new = Plan(mention.entity, mention.kind, str(said.get("type") or said.get("rel")), {})
                plan = found.plans.setdefault((mention.kind, mention.entity), new)
                plan.fields[mention.field] = None
                plan.mentions += 1
    for plan in found.plans.values():
        plan.fields |= dict.fromkeys([*fields, *(["attrs"] if whole else [])])
    return found


def beyond_reach(mentions: Iterable[Mention]) -> list[NotErased]:
    return [NotErased(each.entity, each.kind, each.place, each.why, each.lamport, each.commit_id) for each in mentions]


def _commits(context: OperationContext) -> Iterator[Commit]:
    with closing(context.open_log()) as log:
        for entry in log.read(Head()):
            yield entry.commit


# -- erasing


def check_request(subject: Subject, fields: Sequence[str], reason: str) -> None:
    """Raises InvalidArgument for what would go wrong, before anything is done."""
    if not subject.texts:
        raise InvalidArgument("--subject is empty")
    wrong = [each for each in fields if not each.startswith("attrs.") or each == "attrs."]
    if wrong:
        raise InvalidArgument(f"'{wrong[0]}' is no attribute: write attrs.<key>")
    if subject.is_named_in(reason):
        raise InvalidArgument("the reason names the subject, and it stays in the log", hint="say it without the name")


async def forget(
    context: OperationContext, subject: Subject, found: Search, *, reason: str, reference: str | None = None
) -> ErasureReport:
    """Redacts what was found, then reads everything again and reports what is left."""
    done, pending = await _redact(context, found.plans.values(), reason)
    return _account(context, subject, done, pending, reason, reference)


async def _redact(context: OperationContext, plans: Iterable[Plan], reason: str) -> tuple[list[Redacted], list[str]]:
    """One draft for each entity. What is refused is reported, and the others go on.

    Then the copies are erased, once for all of them. Returns also what still has one.
    """
    done: list[Redacted] = []
    async with context.open_store() as store:
        # Edges first: a node that goes whole takes with it what its edges still say.
        for plan in sorted(plans, key=lambda plan: plan.kind):
            fields = ["attrs", "content"] if plan.is_whole else list(plan.fields)
            row = Redacted(plan.entity, plan.kind, plan.type, fields)
            try:
                answer = (await context.prepare("memory.write", _arguments(plan, reason))(store)).data
                row.commit_id, row.lamport, row.timestamp = (
                    answer[name] for name in ("commit_id", "lamport", "timestamp")
                )
                row.first_lamport = (answer.get("batch") or {}).get("first_lamport", row.lamport)
            except TallystickError as error:
                row.refused = error.code
            done.append(row)
    return done, await context.erase()


def _arguments(plan: Plan, reason: str) -> dict[str, Any]:
    asked = {"op": f"REDACT_{plan.kind.upper()}", f"{plan.kind}_id": plan.entity, "reason": reason}
    return asked if plan.is_whole else {**asked, "redacted_fields": list(plan.fields)}


# -- the account


def _account(
    context: OperationContext,
    subject: Subject,
    done: list[Redacted],
    pending: list[str],
    reason: str,
    reference: str | None,
) -> ErasureReport:
    settings = context.settings
    left = search(context, subject)
    files = remains(settings.home, subject.texts, log_too=not left.beyond and not left.plans)
    proof = prove(settings.system)
    made = {id(row): _made(row, left.redactions) for row in done}
    for row in done:
        row.masked_payloads = {at: hash for commit in made[id(row)] for at, hash in (commit.redacts or {}).items()}
    not_erased = [*beyond_reach(left.beyond), *_still_there(left.plans.values())]
    report = ErasureReport(
        at=to_text(wall_clock()),
        by=context.principal.actor,
        tenant=settings.tenant,
        tallystick=__version__,
        reference=reference,
        reason=reason,
        redacted=done,
        not_erased=not_erased,
        contents_not_searched=left.unread,
        files_that_still_name_it=files,
        erasure={"pending": pending},
        backups_taken_before=[
            backup
            for backup in backups(settings.system)
            if any(_holds(backup, commit) for commits in made.values() for commit in commits)
        ],
        log_is_sound=proof.sound,
        position=proof.position,
        record_hash=proof.record_hash,
        complete=not (not_erased or left.unread or files or pending) and proof.sound,
    )
    return msgspec.convert(_without_names(msgspec.to_builtins(report), subject), ErasureReport)


def _still_there(plans: Iterable[Plan]) -> list[NotErased]:
    """What a redaction should have reached."""
    because = "its redaction was refused, or it was written meanwhile"
    return [NotErased(plan.entity, plan.kind, ", ".join(plan.fields), because) for plan in plans]


def _made(row: Redacted, redactions: Iterable[Commit]) -> list[Commit]:
    """The redactions that one draft made."""
    if row.lamport is None or row.first_lamport is None:
        return []
    return [each for each in redactions if row.first_lamport <= each.lamport <= row.lamport]


def _holds(backup: Backup, redaction: Commit) -> bool:
    """Whether it was taken when a payload was there that this redaction masked."""
    masked = [int(lamport) for lamport in redaction.redacts or ()]
    return bool(masked) and min(masked) <= backup.position < redaction.lamport


def _without_names(value: Any, subject: Subject) -> Any:
    """An id or the name of a field may itself name the subject; the commit distinguishes them."""
    if isinstance(value, dict):
        return {_without_names(name, subject): _without_names(each, subject) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_names(each, subject) for each in value]
    return NAMES_THE_SUBJECT if isinstance(value, str) and subject.is_named_in(value) else value


# -- what was redacted before


def redactions(context: OperationContext) -> list[Redaction]:
    """Reads the whole log."""
    return [_redaction(commit) for commit in _commits(context) if commit.operation in REDACTIONS]


def pending_backups(context: OperationContext) -> list[PendingBackup]:
    """Backups by `export` that hold what was redacted since. Reads the whole log."""
    made = [commit for commit in _commits(context) if commit.operation in REDACTIONS]
    found = []
    for backup in backups(context.settings.system):
        held = [commit.lamport for commit in made if _holds(backup, commit)]
        if held:
            there = Path(backup.target).exists() if backup.target != "-" else None
            found.append(PendingBackup(**msgspec.to_builtins(backup), redactions=held, still_there=there))
    return found


def pending_erasures(context: OperationContext) -> list[PendingErasure]:
    """What may still hold what was redacted or deleted, on this disk. Reads the whole log."""
    settings = context.settings
    redacted = max((each.lamport for each in _commits(context) if each.operation in REDACTIONS), default=0)
    found = pending_in_projections(settings.home, database=context.database)
    old = [at for at in kept_positions(settings.system / "snapshots") if at < redacted]
    return [*found, *(PendingErasure("snapshots", at, [redacted]) for at in old)]


def _redaction(commit: Commit) -> Redaction:
    said = commit.document()
    return Redaction(
        position=commit.lamport,
        time=commit.timestamp,
        actor=commit.actor,
        entity=entity_of(commit),
        kind="edge" if commit.operation in EDGE_VERBS else "node",
        fields=said.get("redacted_fields", ["attrs", "content"]),
        reason=said.get("reason"),
        commit_id=commit.commit_id,
        masked_payloads=len(commit.redacts or {}),
    )
