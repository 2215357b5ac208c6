"""Erasure of a person: what names them, redacted, and an account of what is left. Also what was redacted before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tallystick import __version__
from tallystick.clock import to_text, wall_clock
from tallystick.commits import EDGE_VERBS, REDACTIONS, Commit, Verb, chain
from tallystick.commits.mask import tag_name
from tallystick.config import Settings
from tallystick.engine.snapshots import cached_positions
from tallystick.engine.store import Store
from tallystick.errors import InvalidArgument, TallystickError
from tallystick.log.proof import prove
from tallystick.log.redaction_index import NEEDLE
from tallystick.log.unopened import unopened
from tallystick.operations import OperationContext, Progress, no_progress
from tallystick.operations.copies import Backup, copy_holders, known_backups
from tallystick.operations.leftover_scan import MADE_UP, Remains, remains
from tallystick.operations.tenants import naming_tenant
from tallystick.projections.content import Contents
from tallystick.projections.registry import PendingErasure
from tallystick.projections.registry import pending_erasures as pending_in_projections
from tallystick.state.derivation import entity_of
from tallystick.state.mentions import Mention, Subject, Unread, attributes_of, find_mentions, is_subject

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
    fields: dict[str, None] = {}
    names: dict[str, None] = {}
    """Attributes that go with their names."""
    mentions: int = 0

    @property
    def described(self) -> list[str]:
        fields = ["attrs", "content"] if self.is_whole else list(self.fields)
        return [*(f"attrs.{name}" for name in self.names), *fields]

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

    tenant: str
    plans: dict[tuple[str, str], Plan] = {}
    """By kind and id."""
    beyond: list[Mention] = []
    """Mentions that no redaction reaches."""
    unread: list[Unread] = []
    redactions: list[Commit] = []
    """The redactions there are."""


class Redacted(msgspec.Struct):
    """One draft."""

    tenant: str
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
    tenant: str
    entity: str
    kind: str
    place: str
    because: str
    lamport: int | None = None
    commit_id: str | None = None


class NotSearched(msgspec.Struct, frozen=True):
    """A content that could not be read."""

    tenant: str
    entity: str
    lamport: int


class Searched(msgspec.Struct, frozen=True):
    """A log, as it is now."""

    tenant: str
    is_sound: bool
    position: int
    record_hash: str


class ErasureReport(msgspec.Struct, frozen=True):
    """Nothing in it names the subject."""

    at: str
    by: str
    tallystick: str
    reference: str | None
    reason: str
    redacted: list[Redacted]
    not_erased: list[NotErased]
    contents_not_searched: list[NotSearched]
    files_that_still_name_it: list[str]
    """Below the base, or as the settings name them."""
    files_not_searched: list[str]
    """Files and directories that cannot be read."""
    erasure: dict[str, list[str]]
    """`pending`: tenants and projections that still hold a copy, which the next process that opens the tenant erases;
    `stream` for the servers and machines that share the log."""
    backups_taken_before: list[Backup]
    logs: list[Searched]
    log_is_sound: bool
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
    policy_version: str


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


async def search(
    context: OperationContext,
    subject: Subject,
    *,
    fields: Sequence[str] = (),
    whole: bool = False,
    progress: Progress = no_progress,
) -> Search:
    """Reads the whole log. `fields` are planned for everything that names the subject; so is all, with `whole`."""
    with naming_tenant(context.settings):
        async with context.open_store() as store:
            found = await _search(context, store, subject, progress)
    for plan in found.plans.values():
        plan.fields |= dict.fromkeys([*fields, *(["attrs"] if whole else [])])
    return found


def not_erased(found: Search) -> list[NotErased]:
    """What no redaction reaches."""
    return [
        NotErased(found.tenant, each.entity, each.kind, each.place, each.why, each.lamport, each.commit_id)
        for each in found.beyond
    ]


def not_searched(found: Search) -> list[NotSearched]:
    return [NotSearched(found.tenant, each.entity, each.lamport) for each in found.unread]


async def _search(context: OperationContext, store: Store, subject: Subject, progress: Progress) -> Search:
    found = Search(context.settings.tenant)
    persons: set[str] = set()
    contents = Contents(context.settings.home)
    total = (await store.partition(context.principal)).log_bytes
    async for entry in store.commits(context.principal):
        commit = entry.commit
        if commit.operation in REDACTIONS:
            found.redactions.append(commit)
        if is_subject(commit, subject):
            persons.add(entity_of(commit))
        for mention in find_mentions(commit, subject, contents.read):
            if isinstance(mention, Unread):
                found.unread.append(mention)
            elif mention.field is None:
                found.beyond.append(mention)
            else:
                _plan(found, mention, mention.field, commit, subject)
        progress("searching", entry.end, total)
    if persons:
        await _plan_persons(context, store, found, persons, subject)
    return found


async def _plan_persons(
    context: OperationContext, store: Store, found: Search, persons: set[str], subject: Subject
) -> None:
    """Plan every attribute that any version of these nodes had: they are the person."""
    async for entry in store.commits(context.principal):
        commit = entry.commit
        if commit.operation is not Verb.UPSERT_NODE or (entity := entity_of(commit)) not in persons:
            continue
        for field in attributes_of(commit):
            plan = found.plans.get(("node", entity))
            if plan is None or field.removeprefix("attrs.") not in plan.names:
                place = Mention(entity, "node", field, commit.lamport, commit.commit_id, field)
                _plan(found, place, field, commit, subject)


def _plan(found: Search, mention: Mention, field: str, commit: Commit, subject: Subject) -> None:
    said = commit.document()
    new = Plan(mention.entity, mention.kind, str(said.get("type") or said.get("rel")))
    plan = found.plans.setdefault((mention.kind, mention.entity), new)
    plan.mentions += 1
    if mention.in_name:
        plan.names[field.removeprefix("attrs.")] = None
    elif subject.is_named_in(field):
        # Only by the dots between the names: a redaction that said the path would name the subject.
        plan.fields["attrs"] = None
    else:
        plan.fields[field] = None


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
    found: Sequence[tuple[OperationContext, Search]],
    subject: Subject,
    *,
    reason: str,
    reference: str | None = None,
    everywhere: bool = False,
    progress: Progress = no_progress,
) -> ErasureReport:
    """Redacts what was found, tenant by tenant, then reads everything again and reports what is left; `everywhere`:
    also in directories of the base that are no tenant's."""
    accounts, pending = [], list[str]()
    for context, plans in found:
        async with context.open_store() as store:
            done = await _redact(context, store, plans.plans.values(), reason)
        # Once for all that was redacted, and now: it may be that no server does it.
        left_in = [*await context.erase(), *await asyncio.to_thread(_pending_elsewhere, context.settings)]
        pending += [f"{context.settings.tenant}: {name}" for name in left_in]
        async with context.open_store() as store:
            left = await _search(context, store, subject, progress)
        accounts.append((context, done, left))
    by = found[0][0].principal.actor
    report = await asyncio.to_thread(_report, accounts, pending, subject, by, reason, reference, everywhere)
    return msgspec.convert(_without_names(msgspec.to_builtins(report), subject), ErasureReport)


async def _redact(context: OperationContext, store: Store, plans: Iterable[Plan], reason: str) -> list[Redacted]:
    """What is refused is reported, and the others go on."""
    done: list[Redacted] = []
    # Edges first: a node that goes whole takes with it what its edges still say.
    for plan in sorted(plans, key=lambda plan: plan.kind):
        for fields in await _extents(context, store, plan):
            row = Redacted(context.settings.tenant, plan.entity, plan.kind, plan.type, fields or ["attrs", "content"])
            try:
                call = context.prepare("memory.write", _arguments(plan, fields, reason))
                answer = (await call(store)).data
                row.commit_id, row.lamport = answer["commit_id"], answer["lamport"]
                row.timestamp = answer["timestamp"]
                row.first_lamport = (answer.get("batch") or {}).get("first_lamport", row.lamport)
            except TallystickError as error:
                row.refused = error.code
            done.append(row)
    return done


async def _extents(context: OperationContext, store: Store, plan: Plan) -> list[list[str] | None]:
    """The fields of each redaction that the plan takes; None for all of them."""
    extents: list[list[str] | None] = []
    if plan.names:
        known = await _attribute_names(context, store, plan)
        tagged = [tag_name(name, known) for name in plan.names]
        extents += [tagged[first : first + FIELDS_MAX] for first in range(0, len(tagged), FIELDS_MAX)]
    if plan.is_whole:
        extents.append(None)
    elif plan.fields:
        extents.append(list(plan.fields))
    return extents


async def _attribute_names(context: OperationContext, store: Store, plan: Plan) -> set[str]:
    """Of every version that there was."""
    names: set[str] = set()
    async for entry in store.commits(context.principal):
        if entity_of(entry.commit) == plan.entity:
            names |= (entry.commit.document().get("attrs") or {}).keys()
    return names


def _arguments(plan: Plan, fields: list[str] | None, reason: str) -> dict[str, Any]:
    asked = {"op": f"REDACT_{plan.kind.upper()}", f"{plan.kind}_id": plan.entity, "reason": reason}
    return asked if fields is None else {**asked, "redacted_fields": fields}


# -- the account


def _report(
    accounts: list[tuple[OperationContext, list[Redacted], Search]],
    pending: list[str],
    subject: Subject,
    by: str,
    reason: str,
    reference: str | None,
    everywhere: bool,
) -> ErasureReport:
    logs: list[Searched] = []
    files: dict[str, None] = {}
    hidden: dict[str, None] = {}
    homes = [context.settings.home for context, _, _ in accounts]
    held: list[Backup] = []
    for context, done, left in accounts:
        proof = prove(context.settings.system, tenant=context.settings.tenant)
        logs.append(Searched(context.settings.tenant, proof.sound, proof.position, proof.record_hash))
        others = homes if everywhere else [context.settings.base / "tenants"]
        remaining = _files_left(context, subject, left, others)
        files |= dict.fromkeys(_shown(context, remaining.named))
        hidden |= dict.fromkeys(_shown(context, remaining.unread))
        made = {id(row): _made(row, left.redactions) for row in done}
        for row in done:
            row.masked_payloads = {at: hash for commit in made[id(row)] for at, hash in (commit.redacts or {}).items()}
        redactions = [commit for commits in made.values() for commit in commits]
        held += [each for each in known_backups(context.settings) if any(_holds(each, one) for one in redactions)]
    beyond = [each for _, _, left in accounts for each in (*not_erased(left), *_still_there(left))]
    unread = [each for _, _, left in accounts for each in not_searched(left)]
    sound = all(log.is_sound for log in logs)
    return ErasureReport(
        at=to_text(wall_clock()),
        by=by,
        tallystick=__version__,
        reference=reference,
        reason=reason,
        redacted=[row for _, done, _ in accounts for row in done],
        not_erased=beyond,
        contents_not_searched=unread,
        files_that_still_name_it=list(files),
        files_not_searched=list(hidden),
        erasure={"pending": pending},
        backups_taken_before=held,
        logs=logs,
        log_is_sound=sound,
        complete=sound and not (beyond or unread or files or hidden or pending),
    )


def _files_left(context: OperationContext, subject: Subject, left: Search, without: list[Path]) -> Remains:
    others = [] if context.database is None else sorted(context.database.parent.glob(f"{context.database.name}*"))
    log_too = not left.beyond and not left.plans
    return remains(context.settings.home, subject, others, log_too=log_too, without=without)


def _shown(context: OperationContext, paths: Iterable[Path]) -> list[str]:
    base = context.settings.base
    return [str(path.relative_to(base) if path.is_relative_to(base) else path) for path in paths]


def _still_there(left: Search) -> list[NotErased]:
    """What a redaction should have reached."""
    because = "its redaction was refused, or it was written meanwhile"
    return [
        NotErased(left.tenant, plan.entity, plan.kind, ", ".join(plan.described), because)
        for plan in left.plans.values()
    ]


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
    """An id or the name of a field may itself name the subject; the commit distinguishes them. Keys are the report's
    own."""
    if isinstance(value, dict):
        return {name: _without_names(each, subject) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_names(each, subject) for each in value]
    if not isinstance(value, str) or MADE_UP.fullmatch(value):
        return value
    return NAMES_THE_SUBJECT if subject.is_named_in(value) or subject.has_id(value) else value


# -- what was redacted before


async def redactions(context: OperationContext) -> list[Redaction]:
    """Reads the whole log."""
    return [describe_redaction(commit) for commit in await _redaction_commits(context)]


async def pending_backups(context: OperationContext) -> list[PendingBackup]:
    """Backups that hold what was redacted since. Reads the whole log."""
    return pending_backups_of(context.settings, await _redaction_commits(context))


def pending_backups_of(settings: Settings, made: Sequence[Commit]) -> list[PendingBackup]:
    """The same, of these redactions."""
    found = []
    for backup in known_backups(settings):
        held = [commit.lamport for commit in made if _holds(backup, commit)]
        if held:
            found.append(PendingBackup(**msgspec.to_builtins(backup), redactions=held, still_there=_is_there(backup)))
    return found


def pending_erasures(context: OperationContext) -> list[PendingErasure]:
    """What may still hold what was redacted or deleted, on this disk. Reads the whole log, and does not open it:
    that would finish them."""
    with unopened(context.settings.system) as log:
        made = (chain.decode(line) for _, line in log.segments.lines_with(NEEDLE, 0, log.end))
        redacted = max((commit.lamport for commit in made if commit.operation in REDACTIONS), default=0)
    return pending_erasures_of(context, redacted)


def pending_erasures_of(context: OperationContext, redacted: int) -> list[PendingErasure]:
    """The same, for who knows the newest redaction; 0 for none."""
    settings = context.settings
    found = pending_in_projections(settings.home, database=context.database)
    old = [at for at in cached_positions(settings.system / "snapshots") if at < redacted]
    in_snapshots = [PendingErasure("snapshots", at, [redacted]) for at in old]
    elsewhere = [each for holder in copy_holders() for each in holder.pending(settings)]
    return [*found, *in_snapshots, *elsewhere]


def _pending_elsewhere(settings: Settings) -> list[str]:
    return [holder.name for holder in copy_holders() if holder.pending(settings)]


def note_place_destroyed(settings: Settings, place: str) -> bool:
    """Record that a place, such as a server, contains nothing any more. Returns False if no erasure waits for it."""
    return any(holder.destroy(settings, place) for holder in copy_holders())


async def _redaction_commits(context: OperationContext) -> list[Commit]:
    async with context.open_store() as store:
        entries = store.commits(context.principal)
        return [entry.commit async for entry in entries if entry.commit.operation in REDACTIONS]


def _is_there(backup: Backup) -> bool | None:
    """What lies in a store was there when it was looked at last."""
    if "://" in backup.target:
        return True
    return Path(backup.target).exists() if backup.target != "-" else None


def describe_redaction(commit: Commit) -> Redaction:
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
        policy_version=commit.policy_version,
    )
