"""The gate: ask the policy about a resource as it is, keep the answer for a while, write it down.

A decision holds for the facts it was made with (type, owner, tenant), and these are known for
certain only at the head of the log, where nothing can be awaited. So `Authorization.decide` is called
there, with the facts found there. An engine in process answers on the spot. A distant one has
been asked beforehand; if it was not, or the facts have changed since, `DecisionPending` leaves the
head without a trace, `Authorization.through` asks about the new facts, and the attempt is made again.

The same goes for whatever else a draft would change, and for what an answer reads, if
the policy wants to be asked about it (`Decision.narrows`). What was changed is written down
one by one, with all that the policy was given, so that it can be asked again; of what was read
there is one line, since nothing came of it but the answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import msgspec

from tallystick.audit import Decided, Incident, Narrowed, clipped
from tallystick.audit.writer import AuditWriter
from tallystick.clock import Clock, elapsed_ms, to_text, wall_clock
from tallystick.errors import Conflict, Denied, LimitExceeded
from tallystick.policy import Action, Decision, DistantPolicy, Policy, Principal, Request, ResourceFacts, denial
from tallystick.policy.cache import Cache
from tallystick.policy.decision_telemetry import record_decision
from tallystick.system.turns import of_loop
from tallystick.telemetry import metrics

T = TypeVar("T")
Question = tuple[Action, str | None, ResourceFacts, str | None]
"""May the principal do this to a thing? Last the type that a WRITE gives it; None for the id where it is about that
type alone."""

NO_FACTS = ResourceFacts()
"""Of what is not there, or in nobody's log."""
SLO_MS = 5.0
ATTEMPTS_MAX = 5
PATIENCE_SECONDS = 2.0
"""What an attempt reads after so long is not asked about any more."""
AT_THE_HEAD_MS = 5.0
TOUCHED_MAX = 10_000
_ASKED_AT_ONCE = 16
_BREATH = 100
_LOOK_AGAIN_NS = 2_000_000_000
_SAY_AGAIN_SECONDS = 60.0
_WITHHELD_NAMED = 20
_WRITTEN_SECONDS_MAX = 1.0

logger = logging.getLogger(__name__)


class DecisionPending(Exception):
    """Not an error: the policy has to be asked about these before the attempt is made again.

    `facts` are those of the resource that the call itself is about.
    """

    def __init__(self, questions: Sequence[Question] = (), facts: ResourceFacts | None = None) -> None:
        super().__init__(questions, facts)
        self.questions = questions
        self.facts = facts


class _Made(msgspec.Struct, frozen=True):
    request: Request
    decision: Decision
    latency_ms: float
    source: str
    """`cache`, `embedded`, `remote`, or `none` where no policy was asked."""


class Gate:
    def __init__(
        self,
        policy: Policy | DistantPolicy,
        *,
        audit: AuditWriter | None = None,
        cache: Cache | None = None,
        slo_ms: float = SLO_MS,
        strict_audit: bool = False,
        clock: Clock = wall_clock,
    ) -> None:
        """`strict_audit` denies everything while decisions cannot be written down."""
        self._policy = policy
        self._at_once = policy.decide if isinstance(policy, Policy) else None
        self._awaited = _wrapped(policy) if isinstance(policy, Policy) else policy.ask
        self._audit = audit
        self.cache = Cache() if cache is None else cache
        self._slo_ms = slo_ms
        self._strict_audit = strict_audit
        self._clock = clock
        self.is_distant = self._at_once is None
        self._source = "remote" if self.is_distant else "embedded"
        self._said: dict[str, tuple[float, int]] = {}
        self._look_again = time.perf_counter_ns() + _LOOK_AGAIN_NS

    async def refuse_actor(self, principal: Principal, action: Action, resource: str | None, reason: str) -> None:
        """Write down that a call was denied before any policy was asked, because of whom it named as its author."""
        request = Request(principal, action, resource, timestamp=self.now())
        made = _Made(request, denial("actor", reason, "none"), 0.0, "none")
        _count(made)
        if urgent := self.record(made):
            await _written([urgent])

    def reload(self) -> None:
        """Have the policy's files read again if they changed; what was decided by the old ones is forgotten."""
        reload = getattr(self._policy, "reload_if_changed", None)
        if reload is not None and reload():
            self.cache.clear()
            logger.warning("the policy was read anew: %s", getattr(self._policy, "policy_version", ""))

    async def flush_audit(self) -> None:
        """Returns when all that was decided so far is in the audit log, or was refused by the disk."""
        if self._audit is not None:
            await asyncio.to_thread(self._audit.flush)

    async def close(self) -> None:
        if isinstance(self._policy, DistantPolicy):
            await self._policy.close()

    # -- for Authorization

    def find(self, request: Request) -> _Made | None:
        """Decided on the spot, or None where a distant policy has to be asked."""
        if self._strict_audit and self._audit is not None and not self._audit.healthy:
            return _Made(request, denial("error", "decisions cannot be written down at present", "none"), 0.0, "none")
        started = time.perf_counter_ns()
        if started > self._look_again:
            self._look_again = started + _LOOK_AGAIN_NS
            self.reload()
        kept = self.cache.find(request)
        if kept is not None:
            return _Made(request, kept, elapsed_ms(started), "cache")
        if self._at_once is not None:
            return self._seen(request, self._at_once(request), started)
        return None

    async def ask(self, request: Request) -> _Made:
        found = self.find(request)
        if found is not None:
            return found
        started = time.perf_counter_ns()
        return self._seen(request, await self._awaited(request), started)

    def record(self, made: _Made) -> Future[bool] | None:
        """Write a decision down; a denial's future is done when it is durable."""
        request, decision, cache_hit = made.request, made.decision, made.source == "cache"
        record_decision(request, decision, made.latency_ms, cache_hit)
        if self._audit is None:
            return None
        event = event_of(request, decision, made.latency_ms, cache_hit)
        return self._audit.record(request.principal.tenant, event, urgent=not decision.allowed)

    def record_narrowed(self, principal: Principal, reads: Sequence[_Made]) -> None:
        """One line, whatever their number."""
        if self._audit is None:
            return
        withheld = [made.request.resource for made in reads if not made.decision.allowed]
        event = Narrowed(
            timestamp=self.now(),
            tenant=principal.tenant,
            actor=clipped(principal.actor) or "",
            actor_roles=principal.roles,
            found=len(reads),
            withheld=len(withheld),
            resources_withheld=tuple(clipped(name) or "" for name in withheld[:_WITHHELD_NAMED]),
            policy_version=reads[0].decision.policy_version,
            latency_ms=round(sum(made.latency_ms for made in reads), 3),
            tool=principal.tool,
        )
        self._audit.record(principal.tenant, event)

    def now(self) -> str:
        return to_text(self._clock())

    async def ask_all(self, requests: list[Request]) -> list[_Made]:
        """A distant policy is asked about several at once; one in process lets others run now and then."""
        made: list[_Made] = []
        at_once = _ASKED_AT_ONCE if self.is_distant else _BREATH
        for start in range(0, len(requests), at_once):
            part = requests[start : start + at_once]
            if self.is_distant:
                made += await asyncio.gather(*map(self.ask, part))
            else:
                made += [await self.ask(request) for request in part]
                await of_loop().turn(part[0].principal.tenant)
        return made

    # -- below

    def _seen(self, request: Request, decision: Decision, started: int) -> _Made:
        latency_ms = elapsed_ms(started)
        self.cache.keep(request, decision)
        if decision.fault is not None:
            self._incident(request, decision.fault, decision.reason)
        elif latency_ms > self._slo_ms and (unsaid := self._may_say("slow")) is not None:
            others = f", and {unsaid} others since this was last said" if unsaid else ""
            logger.warning("a policy decision took %.1f ms, more than %g%s", latency_ms, self._slo_ms, others)
        return _Made(request, decision, latency_ms, self._source)

    def _incident(self, request: Request, kind: str, detail: str) -> None:
        unsaid = self._may_say(kind)
        if unsaid is None:
            return
        logger.error("policy incident, %s: %s", kind, detail)
        if self._audit is not None:
            event = Incident(timestamp=self.now(), kind=kind, detail=detail, repeated=unsaid)
            self._audit.record(request.principal.tenant, event)

    def _may_say(self, kind: str) -> int | None:
        """How many went unsaid before this one, or None if it is too soon to say it again.

        Once a minute for each kind: a dead engine would otherwise fill the log with its own death.
        """
        said, unsaid = self._said.get(kind, (float("-inf"), 0))
        now = time.monotonic()
        if now - said < _SAY_AGAIN_SECONDS:
            self._said[kind] = (said, unsaid + 1)
            return None
        self._said[kind] = (now, 0)
        return unsaid


class Authorization(msgspec.Struct, eq=False):
    """One call on its way through the gate: the question itself, what else its draft touches, and what its answer
    reads. However often something is decided on the way, it is recorded once."""

    _gate: Gate
    _principal: Principal
    _action: Action
    _resource: str | None = None
    _written_type: str | None = None
    _now: str = ""
    _answers: dict[ResourceFacts, _Made] = {}
    """To the question itself, by what was found at the head."""
    _made: _Made | None = None
    _more: dict[Question, _Made] = {}
    _touched: list[_Made] = []
    _spent_ms: float = 0.0

    def __post_init__(self) -> None:
        self._now = self._gate.now()

    # -- at the head, where nothing can be awaited

    def decide(self, facts: ResourceFacts) -> Decision:
        """The question itself. Raises Denied, or DecisionPending for `through` to see to."""
        made = self._answers.get(facts)
        if made is None:
            made = self._gate.find(self._request(self._action, self._resource, facts, self._written_type))
        if made is None:
            raise DecisionPending(facts=facts)
        self._answers[facts] = self._made = made
        self._touched = []
        if not made.decision.allowed:
            raise denied(made.request, made.decision, owned=self._tells_owner(facts))
        return made.decision

    def decisions(self, questions: Sequence[Question]) -> list[Decision]:
        """What the policy says of each, allowed or not. Raises DecisionPending, LimitExceeded."""
        if len(questions) > TOUCHED_MAX:
            raise _too_many(len(questions))
        unknown = [question for question in questions if self._find(question) is None]
        if unknown:
            raise DecisionPending(unknown)
        return [self._more[question].decision for question in questions]

    def require(self, question: Question) -> None:
        """Of what the caller named itself, after `decisions` told of it. Raises Denied."""
        made = self._more[question]
        if not made.decision.allowed:
            self._touched = [made]
            owned = question[1] is not None and question[2].owner is not None and self._reads(question[1], question[2])
            raise denied(made.request, made.decision, owned=owned)
        self._touched.append(made)

    def decide_all(self, touched: Sequence[Question]) -> None:
        """Everything else that a draft would change; one denial refuses it whole.

        Raises Denied, DecisionPending, LimitExceeded.
        """
        for question, decision in zip(touched, self.decisions(touched), strict=True):
            if not decision.allowed:
                raise self._refused(question)
        self._touched += [self._more[question] for question in touched]

    def may_read(self, resource: str, owner: tuple[str, str] | None) -> bool | None:
        """Whether it may be READ (L33), by its type and owner; None where the policy has to be asked first."""
        made = self._find(self.read_question(resource, owner))
        return None if made is None else made.decision.allowed

    def read_question(self, resource: str, owner: tuple[str, str] | None) -> Question:
        facts = NO_FACTS if owner is None else ResourceFacts(*owner, self._principal.tenant)
        return Action.READ, resource, facts, None

    # -- around it

    async def through(
        self, attempt: Callable[[], Awaitable[T]], facts: Callable[[], Awaitable[ResourceFacts]] | None = None
    ) -> T:
        """Make the attempt, which decides at the head, until all its decisions are about what is true there.

        `facts` saves a distant policy the first attempt, where that is costly.
        """
        try:
            if facts is not None and self._gate.is_distant:
                await self._ask(await facts())
            try:
                done = await attempt()
            except DecisionPending as pending:
                done = await self._repeated(attempt, pending)
            if self._action is Action.WRITE or self._action is Action.DELETE:
                self._forget()
            return done
        finally:
            if urgent := self._record():
                await _written(urgent)

    async def _repeated(self, attempt: Callable[[], Awaitable[T]], pending: DecisionPending) -> T:
        """Ask about what is pending, and make the attempt again."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        changes = 0
        while True:
            if pending.facts is not None:
                changes += 1
                await self._ask(pending.facts)
                if changes == ATTEMPTS_MAX:
                    raise Conflict(
                        f"'{self._resource}' kept changing hands while the policy was asked about it", hint="try again"
                    )
            elif time.monotonic() > deadline:
                raise _too_long()
            else:
                await self._ask_all(pending.questions)
            self._spent_ms = 0.0
            try:
                return await attempt()
            except DecisionPending as again:
                pending = again

    async def _ask(self, facts: ResourceFacts) -> None:
        request = self._request(self._action, self._resource, facts, self._written_type)
        self._answers[facts] = self._made = await self._gate.ask(request)

    async def _ask_all(self, questions: Sequence[Question]) -> None:
        made = await self._gate.ask_all([self._request(*question) for question in questions])
        self._more.update(zip(questions, made, strict=True))

    def _find(self, question: Question) -> _Made | None:
        """Others wait while the head is held, so only for a while are decisions made there."""
        made = self._more.get(question)
        if made is None and self._spent_ms < AT_THE_HEAD_MS:
            made = self._gate.find(self._request(*question))
            if made is not None:
                self._spent_ms += made.latency_ms
                self._more[question] = made
        return made

    def _refused(self, question: Question) -> Exception:
        """Not named to a caller who may not read it and asked for something else."""
        self._touched = [made] = [self._more[question]]
        readable = question[1] is None or self._reads(question[1], question[2])
        return denied(made.request, made.decision, named=readable)

    def _tells_owner(self, facts: ResourceFacts) -> bool:
        """Who may not read something does not learn whose it is."""
        if self._resource is None or facts.owner is None or self._action is Action.READ:
            return False
        return self._reads(self._resource, facts)

    def _reads(self, resource: str, facts: ResourceFacts) -> bool:
        question = (Action.READ, resource, facts, None)
        made = self._find(question)
        if made is None:
            raise DecisionPending([question])
        return made.decision.allowed

    # -- afterwards

    def _forget(self) -> None:
        """Something was written about them: what was decided before may not hold any more."""
        named = (self._resource, *[made.request.resource for made in self._touched])
        self._gate.cache.forget(self._principal.tenant, filter(None, named))

    def _record(self) -> list[Future[bool]]:
        """Write down what was decided; a denial's future is done when it is durable."""
        for made in self._answers.values():
            _count(made)
        written = [] if self._made is None else [self._gate.record(self._made)]
        if self._more:
            for made in self._more.values():
                _count(made)
            written += map(self._gate.record, self._touched)
            reads = [made for (action, *_), made in self._more.items() if action is Action.READ]
            changes = self._action in (Action.WRITE, Action.DELETE)
            if reads and not (changes and all(made.decision.allowed for made in reads)):
                self._gate.record_narrowed(self._principal, reads)
        return list(filter(None, written))

    def _request(self, action: Action, resource: str | None, facts: ResourceFacts, written_type: str | None) -> Request:
        return Request(
            self._principal, action, resource, facts.type, facts.owner, facts.tenant, self._now, written_type
        )


def _count(made: _Made) -> None:
    decision = made.decision
    metrics.decided(made.request.action, made.latency_ms, decision.allowed, made.source, decision.fault)


async def _written(denials: Iterable[Future[bool]]) -> None:
    """A denial is answered when it is on the disk, unless that takes so long that waiting would be the harm."""
    await asyncio.wait(map(asyncio.wrap_future, denials), timeout=_WRITTEN_SECONDS_MAX)


def denied(request: Request, decision: Decision, *, named: bool = True, owned: bool = True) -> Denied:
    """The error for every protocol (L24, L25)."""
    owner = request.resource_owner if owned else None
    whose = (
        f" (owned by '{owner}')" if owner and request.resource_owner_tenant in (None, request.principal.tenant) else ""
    )
    about = f" resource '{request.resource}'{whose}" if request.resource else ""
    if not named:
        about = " something that this would change"
    elif request.resource is None and request.written_type is not None:
        about = f" anything of type '{request.written_type}'"
    policy_decision: dict[str, Any] = {
        "result": False,
        "reason": decision.reason,
        "policy_version": decision.policy_version,
    }
    return Denied(
        f"actor '{request.principal.actor}' cannot {request.action}{about}",
        details={"policy_decision": policy_decision, "status": 403},
    )


def event_of(request: Request, decision: Decision, latency_ms: float, cache_hit: bool) -> Decided:
    principal = request.principal
    return Decided(
        timestamp=request.timestamp,
        tenant=principal.tenant,
        actor=clipped(principal.actor) or "",
        actor_roles=principal.roles,
        action=request.action,
        resource=clipped(request.resource),
        resource_type=request.resource_type,
        resource_owner=request.resource_owner,
        resource_owner_tenant=request.resource_owner_tenant,
        tool=principal.tool,
        ip_address=principal.ip_address,
        decision=decision.allowed,
        reason=decision.reason,
        policy_version=decision.policy_version,
        latency_ms=latency_ms,
        cache_hit=cache_hit,
        written_type=request.written_type,
        fault=decision.fault,
    )


def _too_long() -> LimitExceeded:
    return LimitExceeded(
        f"finding out what may be read or changed of it took longer than {PATIENCE_SECONDS:g} s",
        code="QUERY_TIMEOUT",
        hint="narrow it by id, type, an attribute or a time window, or take fewer hops",
    )


def _too_many(count: int) -> LimitExceeded:
    return LimitExceeded(
        f"this would change {count:,} things, and the policy is asked about {TOUCHED_MAX:,} at most",
        hint="do it in parts",
        details={"things": count, "things_max": TOUCHED_MAX},
    )


def _wrapped(policy: Policy) -> Callable[[Request], Awaitable[Decision]]:
    async def ask(request: Request) -> Decision:
        return policy.decide(request)

    return ask
