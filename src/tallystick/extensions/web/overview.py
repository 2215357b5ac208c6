"""The overview: what is in the memory, what is being written, and, where nothing is yet, how to begin."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.clock import from_text, to_text, wall_clock
from tallystick.extensions.web.actors import ActorKinds, Kind
from tallystick.extensions.web.chain import Chain
from tallystick.extensions.web.commit_rows import CommitRow, commit_row
from tallystick.extensions.web.context import WebContext
from tallystick.extensions.web.reports.decisions import CountedDenials, count_denials
from tallystick.extensions.web.reports.figures import Health, check_health
from tallystick.extensions.web.reports.last_day import Span, count_last_day
from tallystick.extensions.web.reports.stale_knowledge import StaleKnowledge, list_stale_knowledge
from tallystick.extensions.web.reports.titles import title_of, vocabulary_of
from tallystick.extensions.web.reports.work_board import newest_claims
from tallystick.extensions.web.visit import Visit
from tallystick.operations.copies import LastBackup, last_backup
from tallystick.operations.log_tail import find_created, newest

COMMITS = 12
LISTED = 4
COMMITS_SECONDS = 0.5
"""Where policy withholds most of the log, it is not read to its beginning."""

DENIALS_SECONDS = 0.02
"""So long the audit log is read: the newest are what matters here."""


class TypeCount(msgspec.Struct, frozen=True):
    name: str
    count: int | None
    """None where something may be withheld."""


class Vocabulary(msgspec.Struct, frozen=True):
    name: str
    types: list[TypeCount]


class ClaimedWork(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    claimed_by: str
    claimed_at: str
    claim_ends: str
    """When somebody else may take it."""


class StaleFact(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    type: str
    why: str
    since: str


class DaySpan(msgspec.Struct, frozen=True, kw_only=True):
    """Half an hour of the last day."""

    since: str
    commits: int
    agents: int | None
    """Of these commits; None where it is not counted yet. Of the others nobody knows."""
    people: int | None
    denials: int


class Connection(msgspec.Struct, frozen=True):
    client: str
    command: str


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    is_empty: bool
    entities: int | None
    """None where something may be withheld."""
    largest: int
    """The largest count of a type, for bars."""
    vocabularies: list[Vocabulary]
    commits: list[CommitRow]
    commits_are_cut: bool
    """Whether time was up before so many were found."""
    claimed: list[ClaimedWork]
    """The newest claims."""
    stale: list[StaleFact]
    """Facts that say how long they hold, and do not any more."""
    stale_knowledge: StaleKnowledge
    """What `/knowledge` calls stale."""
    denials: CountedDenials
    """Of the last 24 hours."""
    day: list[DaySpan] | None
    """Commits of these hours; None where something may be withheld."""
    chain: Chain
    """What the last whole verification found."""
    health: Health | None
    """None where it is about other tenants too."""
    backup: LastBackup | None
    """None there likewise, and where none was made and none is wanted."""
    connections: list[Connection]
    """How to connect clients; only where nothing was written yet."""


async def overview(visit: Visit) -> Overview:
    context, tenant = visit.context, visit.principal.tenant
    shows_health = context.figures_for in (None, tenant)
    entries, position, is_cut = await newest(
        visit.context.offer.store,
        visit.principal,
        limit=COMMITS,
        wanted=lambda commit: True,
        seconds_max=COMMITS_SECONDS,
    )
    commits = [entry.commit for entry in reversed(entries)]
    created = await find_created(context.offer.store, visit.principal, commits)
    now = wall_clock()
    denials = await count_denials(context.offer.store, visit.principal, context.audit(tenant), now, DENIALS_SECONDS)
    day = await count_last_day(context.offer.store, visit.principal, now, context.kept_authors.of(tenant))
    facets = await visit.ask("memory.search", facets=True)
    types = [TypeCount(each["name"], each.get("count")) for each in facets["facets"]["types"]]
    counts = [each.count for each in types if each.count is not None]
    return Overview(
        position=position,
        is_empty=position == 0,
        entities=sum(counts) if len(counts) == len(types) else None,
        largest=max(counts, default=1),
        vocabularies=_by_vocabulary(types),
        commits=[commit_row(each, is_new=each.lamport in created) for each in commits],
        commits_are_cut=is_cut,
        claimed=await _claimed(visit),
        stale=await _stale(visit),
        stale_knowledge=await list_stale_knowledge(
            context.knowledge, context.offer.store, visit.principal, context.kept_knowledge.of(tenant), LISTED
        ),
        denials=denials,
        day=None if day is None else _day(day, denials.by_span, visit.principal.actor, context.actor_kinds(tenant)),
        chain=context.chain(tenant, position),
        health=await _health(context, tenant) if shows_health else None,
        backup=last_backup(context.operations(visit.principal).settings) if shows_health else None,
        connections=[] if position else connections(visit.site),
    )


async def _health(context: WebContext, tenant: str) -> Health:
    return await check_health(context.home_of(tenant), context.reading(), context.history.read("hour"))


def _day(spans: list[Span], denials: list[int], visitor: str, kinds: ActorKinds) -> list[DaySpan]:
    """The visitor is known before the audit log tells."""

    def of(kind: Kind, by_actor: dict[str, int] | None) -> int | None:
        if by_actor is None:
            return None
        kind_of = {actor: "person" if actor == visitor else kinds.of(actor) for actor in by_actor}
        return sum(count for actor, count in by_actor.items() if kind_of[actor] == kind)

    return [
        DaySpan(
            since=span.since,
            commits=span.commits,
            agents=of("agent", span.by_actor),
            people=of("person", span.by_actor),
            denials=denied,
        )
        for span, denied in zip(spans, denials, strict=True)
    ]


async def _claimed(visit: Visit) -> list[ClaimedWork]:
    nodes = await newest_claims(visit.context.offer.store, visit.principal, LISTED)
    claims = [_claim(node.id, node.attrs, visit.context.claims.ttl) for node in nodes]
    return [claim for claim in claims if claim is not None]


def _claim(entity_id: str, attrs: dict[str, Any], ttl: int) -> ClaimedWork | None:
    """Properties are whatever an agent wrote."""
    said = attrs.get("properties") or {}
    who, since = said.get("_claimed_by"), said.get("_claimed_at")
    if not isinstance(who, str) or not isinstance(since, str):
        return None
    try:
        ends = to_text(from_text(since) + ttl)
    except (ValueError, OverflowError):
        return None
    return ClaimedWork(
        id=entity_id, title=title_of(entity_id, attrs), claimed_by=who, claimed_at=since, claim_ends=ends
    )


async def _stale(visit: Visit) -> list[StaleFact]:
    answer = await visit.ask("memory.search", stale=True, limit=LISTED)
    return [
        StaleFact(
            id=each["id"],
            title=title_of(each["id"], each.get("attrs")),
            type=each["type"],
            why=each["stale"]["why"],
            since=each["stale"]["since"],
        )
        for each in answer["entities"]
        if "stale" in each
    ]


def _by_vocabulary(types: list[TypeCount]) -> list[Vocabulary]:
    found: dict[str, list[TypeCount]] = {}
    for each in types:
        found.setdefault(vocabulary_of(each.name), []).append(each)
    return [Vocabulary(name, found[name]) for name in sorted(found, key=lambda name: (name != "memory", name))]


def connections(site: str) -> list[Connection]:
    url = f"{site}/mcp"
    entry = f'{{"mcpServers": {{"tallystick": {{"type": "http", "url": "{url}"}}}}}}'
    return [
        Connection("All clients of a repository", "tallystick init"),
        Connection("Claude Code", f"claude mcp add --transport http tallystick {url}"),
        Connection("Codex", f"codex mcp add tallystick --url {url}"),
        Connection("Cursor, and others with a file of servers", entry),
    ]
