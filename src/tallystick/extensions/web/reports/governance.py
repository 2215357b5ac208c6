"""What can be counted of how a memory is used and kept: work that was claimed and resolved, commits that say why,
redactions, and what waits to be erased.

Counted is what the principal may read, from the newest commit back, for a bounded time. For those who may read all of
it the counts are kept: the rest of the log is counted while nobody waits, and then only what is new.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

import msgspec

from tallystick.clock import to_text
from tallystick.commits import REDACTIONS, Commit, Verb
from tallystick.engine.store import Store
from tallystick.extensions.web.reports.audit_index import AuditIndex
from tallystick.operations import OperationContext
from tallystick.operations.copies import backups_kept
from tallystick.operations.forget import (
    PendingBackup,
    Redaction,
    describe_redaction,
    pending_backups_of,
    pending_erasures_of,
)
from tallystick.policy import Action, Principal
from tallystick.projections.registry import PendingErasure
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.state.work import NODE
from tallystick.state.work.attributes import read as read_work

SECONDS_MAX = 1.0
"""Where something is withheld: then nothing is kept."""
WAITED_FOR = 1_000
"""Commits: a longer log is not counted while somebody waits."""
_AT_A_TIME = 100
_PAUSE_SECONDS = 0.02
"""Between so many old commits, for everybody else."""
INDEXING_SECONDS = 0.05
ROWS_MAX = 20
RECALL_TOOLS = ("memory.search", "memory.read", "query_graph")
"""By which agents look up what was known before."""


class Share(msgspec.Struct, frozen=True):
    resolved: int
    claimed: int


class Period(msgspec.Struct, frozen=True, kw_only=True):
    month: str
    """2026-03, of the claim."""
    all: Share
    with_recall: Share | None
    """Whose claimant looked something up between the claim and the end; None where the audit log does not reach."""
    without_recall: Share | None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    commits: int
    with_reason: int
    with_run: int


class RecallRow(msgspec.Struct, frozen=True):
    id: str
    reason: str
    active: bool


class Governance(msgspec.Struct, frozen=True, kw_only=True):
    work: Share
    periods: list[Period]
    """The newest first."""
    coverage: Coverage
    redactions: int
    newest_redactions: list[Redaction]
    recalls: list[RecallRow]
    """The newest first; of many, not all."""
    recalls_total: int
    recalls_active: int
    is_cut: bool
    """Whether older commits were not looked at."""
    reads_everything: bool
    backups: list[PendingBackup]
    """That hold what was redacted since; told only to who may read everything, as what follows."""
    erasures: list[PendingErasure]
    audit_retention_days: int
    audit_is_archived: bool
    backups_kept: str | None
    """How many and for how long; None where none are made by themselves."""


class _Task(msgspec.Struct):
    position: int
    """Of its newest version that was counted."""
    is_resolved: bool
    """Done, by that version."""
    ended: str | None = None
    """As `claimed` the first time."""
    claimed: str | None = None
    owner: str | None = None


class KeptCounts:
    """By tenant, for as long as a server runs."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    async def of(self, store: Store, principal: Principal) -> _Tally:
        """For who may read everything."""
        kept = self._kept.get(principal.tenant)
        if kept is None:
            kept = self._kept[principal.tenant] = _Kept(store, principal)
        else:
            await kept.count_new(store, principal)
        if kept.is_short:
            await kept.counting
        return kept.tally

    async def close(self) -> None:
        counting = [kept.counting for kept in self._kept.values()]
        for each in counting:
            each.cancel()
        await asyncio.gather(*counting, return_exceptions=True)


class _Kept:
    def __init__(self, store: Store, principal: Principal) -> None:
        self.tally = _Tally()
        self._position = store.position(principal)
        self.begin(store, principal, self.tally)

    def begin(self, store: Store, principal: Principal, tally: _Tally) -> None:
        """Count the log up to here; what was counted before is shown until that is done."""
        self._fresh = tally
        self._begun = self._position
        self.counting = asyncio.create_task(self._count_old(store, principal, tally), name="governance")

    async def _count_old(self, store: Store, principal: Principal, tally: _Tally) -> None:
        begun = self._begun
        async with aclosing(store.commits(principal, newest_first=True)) as entries:
            async for entry in entries:
                if entry.commit.lamport <= begun:
                    tally.add(entry.commit)
                if not self.is_short and tally.commits % _AT_A_TIME == 0:
                    await asyncio.sleep(_PAUSE_SECONDS)
        tally.is_cut = False
        self.tally = tally

    async def count_new(self, store: Store, principal: Principal) -> None:
        """Begin again if what was counted may be redacted by now, or could not be counted."""
        is_lost = self.counting.done() and (self.counting.cancelled() or self.counting.exception() is not None)
        async with aclosing(store.commits(principal, after=self._position)) as entries:
            async for entry in entries:
                if entry.commit.lamport <= self._position:
                    continue
                self._position = entry.commit.lamport
                is_lost = is_lost or entry.commit.operation in REDACTIONS
                for tally in {id(each): each for each in (self.tally, self._fresh)}.values():
                    tally.add(entry.commit)
        if is_lost:
            self.counting.cancel()
            self.begin(store, principal, _Tally())

    @property
    def is_short(self) -> bool:
        return self._begun <= WAITED_FOR


async def count_governance(context: OperationContext, audit: AuditIndex, kept: KeptCounts) -> Governance:
    principal, settings = context.principal, context.settings
    async with context.open_store() as store:
        recalls, narrows = await store.read(principal, Action.SEARCH, _recalls)
        await store.flush_audit()
        await asyncio.to_thread(audit.read, INDEXING_SECONDS)
        tally = await (_counted(store, principal) if narrows else kept.of(store, principal))
    tasks = [task for task in tally.tasks.values() if task.claimed is not None]
    backups: list[PendingBackup] = []
    erasures: list[PendingErasure] = []
    if not narrows:
        backups = await asyncio.to_thread(pending_backups_of, settings, tally.redactions)
        redacted = max((commit.lamport for commit in tally.redactions), default=0)
        erasures = await asyncio.to_thread(pending_erasures_of, context, redacted)
    return Governance(
        work=_share(tasks),
        periods=_periods(tasks, audit),
        coverage=Coverage(commits=tally.commits, with_reason=tally.with_reason, with_run=tally.with_run),
        redactions=len(tally.redactions),
        newest_redactions=[describe_redaction(commit) for commit in tally.redactions[:ROWS_MAX]],
        recalls=recalls[-ROWS_MAX:][::-1],
        recalls_total=len(recalls),
        recalls_active=sum(each.active for each in recalls),
        is_cut=tally.is_cut,
        reads_everything=not narrows,
        backups=backups,
        erasures=erasures,
        audit_retention_days=settings.audit_retention_days,
        backups_kept=backups_kept(settings),
        audit_is_archived=bool(settings.audit_archive),
    )


async def _counted(store: Store, principal: Principal) -> _Tally:
    tally = _Tally()
    with suppress(TimeoutError):
        async with asyncio.timeout(SECONDS_MAX), aclosing(store.commits(principal, newest_first=True)) as entries:
            async for entry in entries:
                tally.add(entry.commit)
        tally.is_cut = False
    return tally


def _recalls(state: State, read_filter: ReadFilter) -> tuple[list[RecallRow], bool]:
    found = [each for each in state.derived(Trust).recalls() if read_filter.allows(each.id)]
    return [RecallRow(each.id, each.reason, each.active) for each in found], read_filter.narrows


class _Tally:
    """Of commits in any order."""

    def __init__(self) -> None:
        self.is_cut = True
        """Until the log was counted to its beginning."""
        self.commits = self.with_reason = self.with_run = 0
        self.redactions: list[Commit] = []
        """The newest first."""
        self.tasks: dict[str, _Task] = {}

    def add(self, commit: Commit) -> None:
        self.commits += 1
        self.with_reason += bool(commit.reason)
        self.with_run += bool(commit.run_context)
        if commit.operation in REDACTIONS:
            insort(self.redactions, commit, key=lambda each: -each.lamport)
        elif commit.operation is Verb.UPSERT_NODE:
            said = commit.document()
            if said.get("type") == NODE:
                self._work(said, commit)

    def _work(self, said: Mapping[str, Any], commit: Commit) -> None:
        facts = read_work(said.get("attrs") or {})
        task = self.tasks.setdefault(said["id"], _Task(0, is_resolved=False))
        if commit.lamport > task.position:
            task.position, task.is_resolved = commit.lamport, facts.resolved and not facts.dropped
        if facts.resolved:
            task.ended = min(task.ended or commit.timestamp, commit.timestamp)
        if facts.owner is not None and (task.claimed is None or to_text(facts.claimed) <= task.claimed):
            task.owner, task.claimed = facts.owner, to_text(facts.claimed)


def _share(tasks: Sequence[_Task]) -> Share:
    return Share(sum(task.is_resolved for task in tasks), len(tasks))


def _periods(tasks: Sequence[_Task], audit: AuditIndex) -> list[Period]:
    months: dict[str, list[_Task]] = {}
    for task in tasks:
        months.setdefault((task.claimed or "")[:7], []).append(task)
    return [_period(month, months[month], audit) for month in sorted(months, reverse=True)]


def _period(month: str, tasks: Sequence[_Task], audit: AuditIndex) -> Period:
    told = [task for task in tasks if audit.since is not None and (task.claimed or "") >= audit.since]
    recalled = [task for task in told if audit.has_recalled(task.owner or "", task.claimed or "", task.ended)]
    return Period(
        month=month,
        all=_share(tasks),
        with_recall=_share(recalled) if told else None,
        without_recall=_without(told, recalled) if told else None,
    )


def _without(all: Sequence[_Task], some: Sequence[_Task]) -> Share:
    whole, part = _share(all), _share(some)
    return Share(whole.resolved - part.resolved, whole.claimed - part.claimed)
