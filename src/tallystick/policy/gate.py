"""The gate: ask the policy about a resource as it is, keep the answer for a while, write it down.

A decision holds for the facts it was made with (type, owner, tenant), and these are known for
certain only at the head of the log, where nothing can be awaited. So `Asking.decide` is called
there, with the facts found there. An engine in process answers on the spot. A distant one has
been asked beforehand; if it was not, or the facts have changed since, `Undecided` leaves the
head without a trace, `Asking.through` asks about the new facts, and the attempt is made again.
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
from tallystick.audit.writer import Audit
from tallystick.clock import Clock, to_text, wall_clock
from tallystick.errors import Conflict, Denied
from tallystick.policy import Action, Decision, DistantPolicy, Facts, Policy, Principal, Request, denial
from tallystick.policy.cache import Cache

T = TypeVar("T")
Thing = tuple[str, Facts]
"""An id, and what the state says of it."""

SLO_MS = 5.0
ATTEMPTS_MAX = 5
_ASKED_AT_ONCE = 16
_BREATH = 100
_LOOK_AGAIN_SECONDS = 2.0
_SAY_AGAIN_SECONDS = 60.0
_WITHHELD_NAMED = 20
_WRITTEN_SECONDS_MAX = 1.0

logger = logging.getLogger(__name__)


class Undecided(Exception):
    """Not an error: the policy has to be asked about these facts before the attempt is made again."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.facts = facts


class _Made(msgspec.Struct, frozen=True):
    request: Request
    decision: Decision
    latency_ms: float
    cache_hit: bool


class Gate:
    def __init__(
        self,
        policy: Policy | DistantPolicy,
        *,
        audit: Audit | None = None,
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
        self._cache = Cache() if cache is None else cache
        self._slo_ms = slo_ms
        self._strict_audit = strict_audit
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}
        self._look_again = time.monotonic() + _LOOK_AGAIN_SECONDS

    @property
    def is_distant(self) -> bool:
        return self._at_once is None

    def asking(self, principal: Principal, action: Action, resource: str | None = None) -> Asking:
        return Asking(self, principal, action, resource)

    async def narrow(self, principal: Principal, things: Sequence[Thing]) -> set[str]:
        """The ids among them that the principal may READ (L33). One line in the audit log, whatever their number."""
        started = time.perf_counter()
        decisions = await self._decide_all([self.request(principal, Action.READ, *thing) for thing in things])
        withheld = [thing[0] for thing, made in zip(things, decisions, strict=True) if not made.decision.allowed]
        if things and self._audit is not None:
            self._audit.record(
                principal.tenant,
                Narrowed(
                    timestamp=to_text(self._clock()),
                    tenant=principal.tenant,
                    actor=clipped(principal.actor) or "",
                    actor_roles=principal.roles,
                    found=len(things),
                    withheld=len(withheld),
                    resources_withheld=tuple(clipped(name) or "" for name in withheld[:_WITHHELD_NAMED]),
                    policy_version=decisions[0].decision.policy_version,
                    latency_ms=_milliseconds(started),
                    tool=principal.tool,
                ),
            )
        return {thing[0] for thing in things}.difference(withheld)

    def forget(self, tenant: str, resources: Iterable[str]) -> None:
        """Something was written about them: what was decided before may not hold any more."""
        self._cache.forget(tenant, resources)

    def reload(self) -> None:
        """Have the policy's files read again if they changed; what was decided by the old ones is forgotten."""
        reload = getattr(self._policy, "reload_if_changed", None)
        if reload is not None and reload():
            self._cache.clear()
            logger.warning("the policy was read anew: %s", getattr(self._policy, "policy_version", ""))

    async def close(self) -> None:
        if isinstance(self._policy, DistantPolicy):
            await self._policy.close()

    # -- for Asking

    def find(self, request: Request) -> _Made | None:
        """Decided on the spot, or None where a distant policy has to be asked."""
        if self._strict_audit and self._audit is not None and not self._audit.healthy:
            return _Made(request, denial("error", "decisions cannot be written down at present", "none"), 0.0, False)
        started = time.perf_counter()
        if time.monotonic() > self._look_again:
            self._look_again = time.monotonic() + _LOOK_AGAIN_SECONDS
            self.reload()
        kept = self._cache.find(request)
        if kept is not None:
            return _Made(request, kept, _milliseconds(started), True)
        if self._at_once is not None:
            return self._seen(request, self._at_once(request), started)
        return None

    async def ask(self, request: Request) -> _Made:
        found = self.find(request)
        if found is not None:
            return found
        started = time.perf_counter()
        return self._seen(request, await self._awaited(request), started)

    def record(self, made: _Made) -> Future[bool] | None:
        """Write a decision down; a denial's future tells when it is safe."""
        if self._audit is None:
            return None
        tenant = made.request.principal.tenant
        event = event_of(made.request, made.decision, made.latency_ms, made.cache_hit)
        return self._audit.record(tenant, event, urgent=not made.decision.allowed)

    def request(self, principal: Principal, action: Action, resource: str | None, facts: Facts) -> Request:
        return Request(principal, action, resource, facts.type, facts.owner, facts.tenant, to_text(self._clock()))

    # -- below

    async def _decide_all(self, requests: list[Request]) -> list[_Made]:
        """A distant policy is asked about several at once; one in process lets others run now and then."""
        made: list[_Made] = []
        at_once = _ASKED_AT_ONCE if self.is_distant else _BREATH
        for start in range(0, len(requests), at_once):
            part = requests[start : start + at_once]
            if self.is_distant:
                made += await asyncio.gather(*map(self.ask, part))
            else:
                made += [await self.ask(request) for request in part]
                await asyncio.sleep(0)
        return made

    def _seen(self, request: Request, decision: Decision, started: float) -> _Made:
        latency_ms = _milliseconds(started)
        self._cache.keep(request, decision)
        if decision.fault is not None:
            self._incident(request, decision.fault, decision.reason)
        elif latency_ms > self._slo_ms and (unsaid := self._may_say("slow")) is not None:
            told = f", and {unsaid} others since this was last said" if unsaid else ""
            logger.warning("a policy decision took %.1f ms, more than %g%s", latency_ms, self._slo_ms, told)
        return _Made(request, decision, latency_ms, False)

    def _incident(self, request: Request, kind: str, detail: str) -> None:
        unsaid = self._may_say(kind)
        if unsaid is None:
            return
        logger.error("policy incident, %s: %s", kind, detail)
        if self._audit is not None:
            event = Incident(timestamp=to_text(self._clock()), kind=kind, detail=detail, repeated=unsaid)
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


class Asking:
    """One question on its way through the gate. However often it is decided on the way, it is written down once."""

    def __init__(self, gate: Gate, principal: Principal, action: Action, resource: str | None) -> None:
        self._gate = gate
        self._principal = principal
        self._action = action
        self._resource = resource
        self._made: tuple[Facts, _Made] | None = None

    def decide(self, facts: Facts) -> Decision:
        """At the head, where nothing can be awaited. Raises Denied, or Undecided for `through` to see to."""
        if self._made is None or self._made[0] != facts:
            made = self._gate.find(self._request(facts))
            if made is None:
                raise Undecided(facts)
            self._made = (facts, made)
        decision = self._made[1].decision
        if not decision.allowed:
            raise denied(self._made[1].request, decision)
        return decision

    async def through(
        self, attempt: Callable[[], Awaitable[T]], facts: Callable[[], Awaitable[Facts]] | None = None
    ) -> T:
        """Make the attempt, which calls `decide` at the head, until the decision is about what is true there.

        `facts` saves a distant policy the first attempt, where that is costly.
        """
        try:
            if facts is not None and self._gate.is_distant:
                await self._ask(await facts())
            for _ in range(ATTEMPTS_MAX):
                try:
                    return await self._attempted(attempt)
                except Undecided as undecided:
                    await self._ask(undecided.facts)
            raise Conflict(
                f"'{self._resource}' kept changing hands while the policy was asked about it", hint="try again"
            )
        finally:
            await self._written()

    async def _attempted(self, attempt: Callable[[], Awaitable[T]]) -> T:
        done = await attempt()
        if self._action in (Action.WRITE, Action.DELETE) and self._resource is not None:
            self._gate.forget(self._principal.tenant, [self._resource])
        return done

    async def _ask(self, facts: Facts) -> None:
        self._made = (facts, await self._gate.ask(self._request(facts)))

    async def _written(self) -> None:
        if self._made is None:
            return
        written = self._gate.record(self._made[1])
        if written is not None:
            # A denial is answered when it is on the disk, unless that takes so long that waiting would be the harm.
            await asyncio.wait([asyncio.wrap_future(written)], timeout=_WRITTEN_SECONDS_MAX)

    def _request(self, facts: Facts) -> Request:
        return self._gate.request(self._principal, self._action, self._resource, facts)


def denied(request: Request, decision: Decision) -> Denied:
    """The error that every door knows how to say (L24, L25)."""
    owner = request.resource_owner
    owned = (
        f" (owned by '{owner}')" if owner and request.resource_owner_tenant in (None, request.principal.tenant) else ""
    )
    about = f" resource '{request.resource}'{owned}" if request.resource else ""
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
        action=request.action.value,
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
        fault=decision.fault,
    )


def _wrapped(policy: Policy) -> Callable[[Request], Awaitable[Decision]]:
    async def ask(request: Request) -> Decision:
        return policy.decide(request)

    return ask


def _milliseconds(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 3)
