"""Who works on what: one claim, whether it was taken in work or in tasks (X7, X22)."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from tallystick.clock import to_text
from tallystick.engine.sessions import Sessions
from tallystick.policy import Principal
from tallystick.state.work import CLAIM, CLAIMED_AT, CLAIMED_BY, CLAIMED_SESSION
from tallystick.state.work.board import Row
from tallystick.state.work.claims import ClaimTime

Properties = dict[str, Any]


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What they are judged by; the same for all toolsets of a process."""

    ttl: int = 3_600_000
    """Milliseconds until one is stale."""
    sessions: Sessions = msgspec.field(default_factory=Sessions)

    def moment(self, now: int) -> ClaimTime:
        """For one call: of each session it is asked once whether it lives."""
        return ClaimTime(now, self.ttl, cache(self.sessions.is_alive))

    def claimant(self, principal: Principal, now: int) -> Claimant:
        return Claimant(principal, self.moment(now), self.sessions)


class Claimant(msgspec.Struct, frozen=True):
    """A principal at one moment, who may want to claim something."""

    principal: Principal
    moment: ClaimTime
    sessions: Sessions

    def is_kept_from(self, row: Row) -> bool:
        """Whether it is somebody else's."""
        return self.moment.is_held(row, self.principal.actor, self.principal.session)

    def has(self, row: Row) -> bool:
        return row.owner == self.principal.actor and self.moment.is_claimed(row) and not self.is_kept_from(row)

    def take(self, properties: Properties) -> Properties:
        """With its claim, made or renewed. Its session is shown to live first: what it has must never look free."""
        session = self.principal.session
        if session is not None:
            self.sessions.claims(session)
        claim = {CLAIMED_BY: self.principal.actor, CLAIMED_AT: to_text(self.moment.now)}
        return released(properties) | claim | ({} if session is None else {CLAIMED_SESSION: session})

    def warning(self, row: Row) -> str | None:
        """Return what the caller should know who changes what another agent or session holds."""
        if not self.is_kept_from(row):
            return None
        return f"'{row.id}' is claimed by {holder(row)} since {to_text(row.claimed)}: it may be working on it"

    def takes_over(self, row: Row) -> dict[str, str] | None:
        """Whose claim would go; None where it is the claimant's own, or nobody's."""
        asks = self.principal
        if row.owner is None or (row.owner == asks.actor and row.session in (None, asks.session)):
            return None
        return {"claimed_by": row.owner, "claimed_at": to_text(row.claimed), "why": self.moment.why_free(row)}


def holder(row: Row) -> str:
    """Return who claimed it. Two sessions of one name are two agents, so the session is part of that."""
    return f"'{row.owner}'" if row.session is None else f"'{row.owner}' in session {row.session}"


def released(properties: Properties) -> Properties:
    return {name: value for name, value in properties.items() if name not in CLAIM}
