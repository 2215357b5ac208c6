"""The decisions of the policy as the audit log has them: the newest that fit a question, and one of them explained.

What a decision was about is an entity like any other: whoever may not read it does not learn from here that somebody
asked for it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from tallystick.audit import Decided, Line, decode
from tallystick.clock import from_text, to_text
from tallystick.engine.store import Store
from tallystick.errors import Corrupt, NotFound, TallystickError
from tallystick.extensions.web.reports.audit_index import AuditIndex, DecisionKind, is_look, newest_lines
from tallystick.extensions.web.reports.last_day import SPANS, count_in_spans
from tallystick.policy import Action, Principal
from tallystick.policy.bundle import Bundle, find_bundle
from tallystick.policy.explanation import branches_of, explain
from tallystick.policy.rego import Branch
from tallystick.policy.replay import request_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

PAGE = 50
SECONDS_MAX = 1.0
INDEXING_SECONDS = 0.05
"""So long somebody waits for the index to get on, if the log is much longer than what it knows."""
ACTORS_MAX = 10
ATTEMPTS_MAX = 20
_AT_ONCE = 200
_LOOK_AT_CLOCK = 1_000
_LINES_AT_ONCE = 20_000
"""Lines read before a caller who waits for matches can give up."""
_DAY = 86_400_000
_DENIED = b'"decision":false'

Outcome = Literal["allowed", "denied"]
T = TypeVar("T")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    actor: str | None = None
    action: str | None = None
    resource: str | None = None
    outcome: Outcome | None = None
    policy: str | None = None
    """A version, or the beginning of one."""
    since: str | None = None
    until: str | None = None
    before: int | None = None
    """Only lines before this one."""
    except_looks_by: str | None = None
    """Leaves out what was merely looked at by way of this tool."""

    def fits(self, seq: int, event: Decided) -> bool:
        return (
            (self.before is None or seq < self.before)
            and (self.actor is None or event.actor == self.actor)
            and (self.action is None or event.action == self.action)
            and (self.resource is None or self.resource in (event.resource, f"type:{event.resource_type}"))
            and (self.outcome is None or event.decision == (self.outcome == "allowed"))
            and (self.policy is None or event.policy_version.startswith(self.policy))
            and (self.until is None or event.timestamp <= self.until)
        )

    def fits_kind(self, kind: DecisionKind) -> bool:
        """As far as that says: nothing of its resource and its time."""
        return (
            self.actor in (None, kind.actor)
            and self.action in (None, kind.action)
            and (self.outcome is None or kind.allowed == (self.outcome == "allowed"))
            and (self.policy is None or kind.policy_version.startswith(self.policy))
        )

    def shows(self, line: bytes) -> bool:
        """As far as its bytes say."""
        is_passed = self.except_looks_by is not None and is_look(line, self.except_looks_by)
        return not is_passed and (self.outcome != "denied" or _DENIED in line)


class DecisionLine(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    timestamp: str
    actor: str
    roles: tuple[str, ...]
    action: str
    resource: str | None
    resource_type: str | None
    resource_owner: str | None
    resource_owner_tenant: str | None
    written_type: str | None
    tool: str | None
    allowed: bool
    reason: str
    policy_version: str
    latency_ms: float
    fault: str | None
    record_hash: str


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    lines: list[DecisionLine]
    """Newest first."""
    older: int | None
    """Before which line to go on; None where there is nothing more."""
    is_cut: bool
    """Whether time was up before all lines were looked at."""
    damaged: int
    """Lines that are no events."""
    withholds: bool
    """Whether the policy may withhold decisions from the reader."""


class DeniedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody was denied, once or again and again."""

    actor: str
    action: str
    resource: str | None
    count: int
    first: str
    last: str
    reason: str
    """Of the last one."""
    seq: int
    """The same."""


class Denials(msgspec.Struct, frozen=True, kw_only=True):
    actor: str
    count: int
    first: str
    last: str
    most: DeniedAttempt
    """What of it they tried most often."""


class CountedDenials(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    by_actor: list[Denials]
    """Those with most first; of many, not all."""
    attempts: list[DeniedAttempt]
    """The newest first; of many, not all."""
    by_span: list[int]
    """As the commits of the last day are counted."""
    is_cut: bool
    """Whether time was up before all lines were looked at: there may be more."""


class DecisionSpan(msgspec.Struct, frozen=True):
    since: str
    allowed: int
    denied: int


class DecisionTally(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided when, of what was asked for."""

    since: str
    until: str
    allowed: int
    denied: int
    spans: list[DecisionSpan]
    """The oldest first."""


class SourceLine(msgspec.Struct, frozen=True):
    number: int
    text: str
    is_condition: bool
    """Whether a condition begins on it: it was true, as all of what fired were."""


class Fired(msgspec.Struct, frozen=True):
    place: str
    """file:line"""
    text: str
    lines: tuple[SourceLine, ...] = ()
    """All of the definition, or of the branch of it that gave the value."""


class Rule(msgspec.Struct, frozen=True):
    name: str
    value: Any
    """None where the rule was undefined."""
    fired: tuple[Fired, ...]


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    decision: DecisionLine
    input: dict[str, Any] = {}
    """What the policy is asked."""
    rules: tuple[Rule, ...] = ()
    policy_version: str | None = None
    """By which it is explained: that of now."""
    allowed_now: bool | None = None
    gap: str | None = None
    """Why there are no rules to show."""


async def list_decisions(
    store: Store,
    principal: Principal,
    audit: AuditIndex,
    wanted: Wanted,
    most: int = PAGE,
    seconds_max: float = SECONDS_MAX,
) -> Decisions:
    """The newest that fit, as far as they are found in this time."""
    export = await open_export(store, principal, audit, wanted, seconds_max)
    found: list[DecisionLine] = []
    async with aclosing(export.parts()) as parts:
        async for part in parts:
            found += part
            if len(found) > most:
                break
    outcome = export.outcome
    return Decisions(
        lines=found[:most],
        older=found[most - 1].seq if len(found) > most else outcome.older,
        is_cut=outcome.is_cut,
        damaged=outcome.damaged,
        withholds=outcome.withholds,
    )


async def open_export(
    store: Store, principal: Principal, audit: AuditIndex, wanted: Wanted, seconds_max: float = math.inf
) -> DecisionExport:
    """Raises Denied."""
    await store.flush_audit()
    await asyncio.to_thread(audit.read, INDEXING_SECONDS)
    withholds = await store.withholds(principal)
    return DecisionExport(store, principal, _Scan(audit, wanted, seconds_max), withholds)


class ExportOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """As of `Decisions`."""

    older: int | None
    is_cut: bool
    damaged: int
    withholds: bool


class DecisionExport:
    """The decisions that fit, newest first, in parts: no more than one part is held in memory."""

    def __init__(self, store: Store, principal: Principal, scan: _Scan, withholds: bool) -> None:
        self._store = store
        self._principal = principal
        self._scan = scan
        self._withholds = withholds

    async def parts(self) -> AsyncGenerator[list[DecisionLine]]:
        while not self._scan.is_over:
            part = await asyncio.to_thread(self._scan.more, _AT_ONCE)
            if self._withholds:
                yield await _readable(self._store, self._principal, part)
            else:
                yield [_shown(line) for line in part]

    @property
    def outcome(self) -> ExportOutcome:
        """How far it got."""
        scan = self._scan
        return ExportOutcome(
            older=scan.reached if scan.is_cut else None,
            is_cut=scan.is_cut,
            damaged=scan.damaged,
            withholds=self._withholds,
        )


async def count_denials(
    store: Store, principal: Principal, audit: AuditIndex, now: int, seconds_max: float = SECONDS_MAX
) -> CountedDenials:
    """Of the last day, by who was denied."""
    await asyncio.to_thread(audit.read, min(INDEXING_SECONDS, seconds_max))
    scan = _Scan(audit, Wanted(outcome="denied", since=to_text(max(0, now - _DAY))), seconds_max)
    found: list[DecisionLine] = []
    while not scan.is_over:
        found += await _readable(store, principal, await asyncio.to_thread(scan.more, _AT_ONCE))
    attempts = [_attempt(lines) for lines in _grouped(found, lambda line: (line.actor, line.action, line.resource))]
    return CountedDenials(
        total=len(found),
        by_actor=_by_actor(attempts)[:ACTORS_MAX],
        attempts=attempts[:ATTEMPTS_MAX],
        by_span=count_in_spans((line.timestamp for line in found), now),
        is_cut=scan.is_cut,
    )


def _grouped(items: Iterable[T], key: Callable[[T], Any]) -> Iterable[list[T]]:
    """In the order in which the first of each comes."""
    found: dict[Any, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found.values()


def _attempt(lines: Sequence[DecisionLine]) -> DeniedAttempt:
    last = lines[0]
    return DeniedAttempt(
        actor=last.actor,
        action=last.action,
        resource=last.resource,
        count=len(lines),
        first=lines[-1].timestamp,
        last=last.timestamp,
        reason=last.reason,
        seq=last.seq,
    )


def _by_actor(attempts: Iterable[DeniedAttempt]) -> list[Denials]:
    found = [
        Denials(
            actor=several[0].actor,
            count=sum(each.count for each in several),
            first=min(each.first for each in several),
            last=max(each.last for each in several),
            most=max(several, key=lambda each: each.count),
        )
        for several in _grouped(attempts, lambda each: each.actor)
    ]
    return sorted(found, key=lambda each: -each.count)


async def tally_decisions(audit: AuditIndex, wanted: Wanted, found: Decisions, now: int) -> DecisionTally | None:
    """Of the time that is asked about, else of the last day; `found` is what the same question found. None where that
    is not all and something may be withheld, one resource is asked about, or there are too many."""
    until = min(now, from_text(wanted.until)) if wanted.until else now
    since = min(from_text(wanted.since), until) if wanted.since else max(0, until - _DAY)
    counts = None
    # The index leaves out what it takes for a look.
    if wanted.resource is None and wanted.except_looks_by is not None and not found.withholds:
        counts = await asyncio.to_thread(audit.count, since, until, SPANS, wanted.fits_kind)
    if counts is None and found.older is None and wanted.before is None:
        counts = _count_lines(found.lines, since, until)
    if counts is None:
        return None
    begins = [to_text(since + number * (until - since) // SPANS) for number in range(SPANS)]
    return DecisionTally(
        since=begins[0],
        until=to_text(until),
        allowed=sum(allowed for allowed, _ in counts),
        denied=sum(denied for _, denied in counts),
        spans=[DecisionSpan(begin, *count) for begin, count in zip(begins, counts, strict=True)],
    )


def _count_lines(lines: Iterable[DecisionLine], since: int, until: int) -> list[tuple[int, int]]:
    placed = ((_place(from_text(line.timestamp), since, until), line.allowed) for line in lines)
    counts = Counter(placed)
    return [(counts[number, True], counts[number, False]) for number in range(SPANS)]


def _place(at: int, since: int, until: int) -> int:
    """In which span; none for what is older."""
    return min(SPANS - 1, (at - since) * SPANS // max(1, until - since))


async def explain_decision(
    store: Store, principal: Principal, audit: Path, seq: int, policy: str | None
) -> Explanation:
    """`policy` is None where another server decides. Raises NotFound, also for what may not be read."""
    await store.flush_audit()
    event = await asyncio.to_thread(_find, audit, seq)
    shown = await _readable(store, principal, [] if event is None else [event])
    if event is None or not shown:
        raise NotFound(f"line {seq} of the audit log is no decision that you may read")
    decided = event.event
    assert isinstance(decided, Decided)
    if decided.fault is not None:
        return Explanation(decision=shown[0], gap=f"no rule decided it: {decided.fault}")
    if policy is None:
        return Explanation(decision=shown[0], gap="the rules are in another server: ask the policy engine there")
    try:
        return await asyncio.to_thread(_explained, policy, decided, shown[0])
    except TallystickError as error:
        return Explanation(decision=shown[0], gap=f"the policy could not be asked again: {error.message}")


def _explained(policy: str, decided: Decided, line: DecisionLine) -> Explanation:
    bundle = find_bundle(policy)
    found = explain(bundle, request_of(decided))
    branches = branches_of(bundle)
    rules = tuple(
        Rule(held.rule, held.value, tuple(_fired(bundle, branches, place) for place in held.fired))
        for held in found.rules
    )
    return Explanation(
        decision=line,
        input=found.input,
        rules=rules,
        policy_version=found.decision.policy_version,
        allowed_now=found.decision.allowed,
    )


def _fired(bundle: Bundle, branches: Mapping[str, Branch], place: str) -> Fired:
    name, _, number = place.rpartition(":")
    text = next((module.text for module in bundle.modules if module.name == name), "")
    first = int(number)
    branch = branches.get(place, Branch(first, "", first))
    source = text.splitlines()[first - 1 : branch.last_line]
    if len(source) > 1:
        # Behind its brace the next branch may begin, which did not fire.
        source[-1] = branch.text.splitlines()[-1]
    lines = tuple(
        SourceLine(number, line.expandtabs(4).rstrip(), number in branch.conditions)
        for number, line in enumerate(source, first)
    )
    return Fired(place, source[0].strip() if source else "", lines)


def _find(audit: Path, seq: int) -> Line | None:
    for raw in newest_lines(audit, seq + 1):
        try:
            line = decode(raw)
        except Corrupt:
            continue
        if line.seq <= seq:
            return line if line.seq == seq and isinstance(line.event, Decided) else None
    return None


async def _readable(store: Store, principal: Principal, lines: list[Line]) -> list[DecisionLine]:
    def look(state: State, read_filter: ReadFilter) -> list[Line]:
        return [line for line in lines if _allows(read_filter, getattr(line.event, "resource", None))]

    return [_shown(line) for line in await store.read(principal, Action.SEARCH, look)]


def _allows(read_filter: ReadFilter, resource: str | None) -> bool:
    """What never was there is withheld too, as with references: else it would show which of the two it is."""
    return resource is None or not read_filter.narrows or read_filter.allows_entity(resource)


def _shown(line: Line) -> DecisionLine:
    event = line.event
    assert isinstance(event, Decided)
    return DecisionLine(
        seq=line.seq,
        timestamp=event.timestamp,
        actor=event.actor,
        roles=event.actor_roles,
        action=event.action,
        resource=event.resource,
        resource_type=event.resource_type,
        resource_owner=event.resource_owner,
        resource_owner_tenant=event.resource_owner_tenant,
        written_type=event.written_type,
        tool=event.tool,
        allowed=event.decision,
        reason=event.reason,
        policy_version=event.policy_version,
        latency_ms=event.latency_ms,
        fault=event.fault,
        record_hash=line.record_hash,
    )


class _Scan:
    """From the newest line on, until enough were found, the lines are older than was asked for, or time is up."""

    def __init__(self, audit: AuditIndex, wanted: Wanted, seconds_max: float = SECONDS_MAX) -> None:
        self.is_over = False
        self.is_cut = False
        self.damaged = 0
        self.reached: int | None = None
        """The last line that was decoded."""
        self._wanted = wanted
        self._lines: Iterator[bytes] = (
            newest_lines(audit.directory, wanted.before)
            if wanted.except_looks_by is None and wanted.outcome != "denied"
            else audit.lines(wanted.before, denied=wanted.outcome == "denied")
        )
        self._spent = 0.0
        self._seconds_max = seconds_max

    def more(self, most: int) -> list[Line]:
        """In a thread: it reads files."""
        found: list[Line] = []
        began = time.monotonic()
        try:
            for number, raw in enumerate(self._lines, 1):
                line = self._decoded(raw, is_needed=number % _LOOK_AT_CLOCK == 0)
                if line is not None and line.event.timestamp < (self._wanted.since or ""):
                    self.is_over = True
                    break
                if line is not None and self._fits(raw, line):
                    found.append(line)
                if len(found) == most or number == _LINES_AT_ONCE:
                    break
                if number % _LOOK_AT_CLOCK == 0 and self._spent + time.monotonic() - began > self._seconds_max:
                    self.is_over = self.is_cut = True
                    break
            else:
                self.is_over = True
        except OSError:
            self.is_over = self.is_cut = True
        self._spent += time.monotonic() - began
        return found

    def _fits(self, raw: bytes, line: Line) -> bool:
        return isinstance(line.event, Decided) and self._wanted.fits(line.seq, line.event) and self._wanted.shows(raw)

    def _decoded(self, raw: bytes, *, is_needed: bool) -> Line | None:
        """Of most lines their bytes already say that they are not wanted."""
        if not (is_needed or self._wanted.shows(raw)):
            return None
        try:
            line = decode(raw)
        except Corrupt:
            self.damaged += 1
            return None
        self.reached = line.seq
        return line
