"""What can be counted of how a memory is used and kept: work that was claimed and resolved, commits that say why,
redactions, and what waits to be erased.

Counted is what the principal may read, from the newest commit back, for a bounded time.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import msgspec

from tallystick.audit import Decided, decode
from tallystick.audit.newest import newest_lines
from tallystick.clock import to_text
from tallystick.commits import REDACTIONS, Commit, Verb
from tallystick.errors import Corrupt
from tallystick.operations import OperationContext
from tallystick.operations.forget import (
    PendingBackup,
    Redaction,
    describe_redaction,
    pending_backups_of,
    pending_erasures,
)
from tallystick.policy import Action
from tallystick.projections.registry import PendingErasure
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.state.work import NODE
from tallystick.state.work.attributes import read as read_work

SECONDS_MAX = 1.0
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
    is_cut: bool
    """Whether older commits were not looked at."""
    reads_everything: bool
    backups: list[PendingBackup]
    """That hold what was redacted since; told only to who may read everything, as what follows."""
    erasures: list[PendingErasure]
    audit_retention_days: int
    audit_is_archived: bool


class _Task(msgspec.Struct):
    is_resolved: bool
    """Done, by its newest version."""
    ended: str | None = None
    claimed: str | None = None
    owner: str | None = None


async def count_governance(context: OperationContext, audit: Path) -> Governance:
    principal, settings = context.principal, context.settings
    async with context.open_store() as store:
        recalls, narrows = await store.read(principal, Action.SEARCH, _recalls)
        await store.flush_audit()
        tally = _Tally()
        try:
            async with asyncio.timeout(SECONDS_MAX), aclosing(store.commits(principal, newest_first=True)) as entries:
                async for entry in entries:
                    tally.add(entry.commit)
        except TimeoutError:
            tally.is_cut = True
    lookups = await asyncio.to_thread(_lookups, audit)
    tasks = [task for task in tally.tasks.values() if task.claimed is not None]
    backups: list[PendingBackup] = []
    erasures: list[PendingErasure] = []
    if not narrows:
        backups = await asyncio.to_thread(pending_backups_of, settings, tally.redactions)
        erasures = await asyncio.to_thread(pending_erasures, context)
    return Governance(
        work=_share(tasks),
        periods=_periods(tasks, lookups),
        coverage=Coverage(commits=tally.commits, with_reason=tally.with_reason, with_run=tally.with_run),
        redactions=len(tally.redactions),
        newest_redactions=[describe_redaction(commit) for commit in tally.redactions[:ROWS_MAX]],
        recalls=recalls[-ROWS_MAX:][::-1],
        is_cut=tally.is_cut,
        reads_everything=not narrows,
        backups=backups,
        erasures=erasures,
        audit_retention_days=settings.audit_retention_days,
        audit_is_archived=bool(settings.audit_archive),
    )


def _recalls(state: State, read_filter: ReadFilter) -> tuple[list[RecallRow], bool]:
    found = [each for each in state.derived(Trust).recalls() if read_filter.allows(each.id)]
    return [RecallRow(each.id, each.reason, each.active) for each in found], read_filter.narrows


class _Tally:
    """Of commits, the newest first."""

    def __init__(self) -> None:
        self.is_cut = False
        self.commits = self.with_reason = self.with_run = 0
        self.redactions: list[Commit] = []
        self.tasks: dict[str, _Task] = {}

    def add(self, commit: Commit) -> None:
        self.commits += 1
        self.with_reason += bool(commit.reason)
        self.with_run += bool(commit.run_context)
        if commit.operation in REDACTIONS:
            self.redactions.append(commit)
        elif commit.operation is Verb.UPSERT_NODE:
            said = commit.document()
            if said.get("type") == NODE:
                self._work(said, commit.timestamp)

    def _work(self, said: Mapping[str, Any], timestamp: str) -> None:
        facts = read_work(said.get("attrs") or {})
        task = self.tasks.setdefault(said["id"], _Task(facts.resolved and not facts.dropped))
        if facts.resolved:
            task.ended = timestamp
        if facts.owner is not None:
            task.owner, task.claimed = facts.owner, to_text(facts.claimed)


def _share(tasks: Sequence[_Task]) -> Share:
    return Share(sum(task.is_resolved for task in tasks), len(tasks))


class _Lookups(msgspec.Struct, frozen=True):
    since: str | None
    """From when on the audit log tells."""
    times: dict[str, list[str]]
    """Of each actor, in order."""

    def has(self, actor: str, first: str, last: str) -> bool:
        times = self.times.get(actor, [])
        at = bisect_left(times, first)
        return at < len(times) and times[at] <= last


def _lookups(audit: Path) -> _Lookups:
    until = time.monotonic() + SECONDS_MAX
    times: dict[str, list[str]] = {}
    since: str | None = None
    for raw in newest_lines(audit):
        with suppress(Corrupt):
            event = decode(raw).event
            # The first line of a file may be younger than the second: it is written with it.
            since = min(since or event.timestamp, event.timestamp)
            if isinstance(event, Decided) and event.decision and event.tool in RECALL_TOOLS:
                times.setdefault(event.actor, []).append(event.timestamp)
        if time.monotonic() > until:
            break
    return _Lookups(since, {actor: sorted(found) for actor, found in times.items()})


def _periods(tasks: Sequence[_Task], lookups: _Lookups) -> list[Period]:
    months: dict[str, list[_Task]] = {}
    for task in tasks:
        months.setdefault((task.claimed or "")[:7], []).append(task)
    return [_period(month, months[month], lookups) for month in sorted(months, reverse=True)]


def _period(month: str, tasks: Sequence[_Task], lookups: _Lookups) -> Period:
    told = [task for task in tasks if lookups.since is not None and (task.claimed or "") >= lookups.since]
    recalled = [task for task in told if lookups.has(task.owner or "", task.claimed or "", task.ended or "9")]
    others = [task for task in told if task not in recalled]
    return Period(
        month=month,
        all=_share(tasks),
        with_recall=_share(recalled) if told else None,
        without_recall=_share(others) if told else None,
    )
