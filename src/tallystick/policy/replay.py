"""The replay: what another policy would have decided, from what the audit log says was asked."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tallystick.audit import Decided
from tallystick.policy import Action, Policy, Principal, Request

CHANGED_MAX = 10_000


class Changed(msgspec.Struct, frozen=True):
    """Fields that end in `_now` are the candidate's."""

    seq: int
    timestamp: str
    actor: str
    action: str
    resource: str | None
    decision: bool
    decision_now: bool
    reason: str
    reason_now: str


class Replayed(msgspec.Struct, frozen=True):
    policy_version: str
    asked: int
    skipped: int
    """Denied because the engine gave no answer: no policy decided that."""
    allowed_now: int
    """Denied then, allowed by the candidate."""
    denied_now: int
    changed: list[Changed]
    """The first of them."""

    @property
    def changed_omitted(self) -> int:
        """How many are not in `changed`."""
        return self.allowed_now + self.denied_now - len(self.changed)

    @property
    def same(self) -> bool:
        return not self.allowed_now and not self.denied_now


def replay(policy: Policy, decided: Iterable[tuple[int, Decided]], changed_max: int = CHANGED_MAX) -> Replayed:
    asked = skipped = 0
    counts = {True: 0, False: 0}
    changed: list[Changed] = []
    version = "none"
    for seq, event in decided:
        if event.fault is not None:
            skipped += 1
            continue
        asked += 1
        now = policy.decide(request_of(event))
        version = now.policy_version
        if now.allowed == event.decision:
            continue
        counts[now.allowed] += 1
        if len(changed) < changed_max:
            changed.append(_changed(seq, event, now.allowed, now.reason))
    return Replayed(version, asked, skipped, counts[True], counts[False], changed)


def request_of(event: Decided) -> Request:
    """The question as it was put."""
    principal = Principal(
        actor=event.actor,
        tenant=event.tenant,
        roles=event.actor_roles,
        tool=event.tool,
        ip_address=event.ip_address,
    )
    return Request(
        principal,
        Action(event.action),
        event.resource,
        event.resource_type,
        event.resource_owner,
        event.resource_owner_tenant,
        event.timestamp,
        event.written_type,
    )


def _changed(seq: int, event: Decided, allowed: bool, reason: str) -> Changed:
    return Changed(
        seq=seq,
        timestamp=event.timestamp,
        actor=event.actor,
        action=event.action,
        resource=event.resource,
        decision=event.decision,
        decision_now=allowed,
        reason=event.reason,
        reason_now=reason,
    )
