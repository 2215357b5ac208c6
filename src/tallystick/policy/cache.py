"""Decisions cached for a while (L32): everything that a policy is given, except the time, is in the key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from tallystick.policy import Decision, Request

SECONDS = 300.0
ENTRIES_MAX = 20_000

_Rest = tuple[object, ...]


class Cache:
    def __init__(
        self,
        *,
        seconds: float = SECONDS,
        entries_max: int = ENTRIES_MAX,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._entries_max = entries_max
        self._clock = clock
        self._version: str | None = None
        # By resource, so that a write can forget what was decided about it; oldest resources first.
        self._kept: dict[tuple[str | None, str | None], dict[_Rest, tuple[Decision, float]]] = {}
        self._count = 0

    def find(self, request: Request) -> Decision | None:
        about = self._kept.get((request.resource_owner_tenant, request.resource))
        kept = about.get(_rest(request)) if about else None
        if kept is None or kept[1] <= self._clock():
            return None
        return kept[0]

    def keep(self, request: Request, decision: Decision) -> None:
        """A decision of another policy_version than the last one empties the cache: the policy has changed."""
        if decision.fault is not None:
            return
        if decision.policy_version != self._version:
            self.clear()
            self._version = decision.policy_version
        if not decision.cacheable or self._seconds <= 0:
            return
        about = self._kept.setdefault((request.resource_owner_tenant, request.resource), {})
        before = len(about)
        about[_rest(request)] = (decision, self._clock() + self._seconds)
        self._count += len(about) - before
        while self._count > self._entries_max:
            self._count -= len(self._kept.pop(next(iter(self._kept))))

    def forget(self, tenant: str, resources: Iterable[str]) -> None:
        for resource in resources:
            # Before it existed it was in nobody's log.
            for owner_tenant in (tenant, None):
                self._count -= len(self._kept.pop((owner_tenant, resource), ()))

    def clear(self) -> None:
        self._kept.clear()
        self._count = 0

    def __len__(self) -> int:
        return self._count


def _rest(request: Request) -> _Rest:
    asks = request.principal
    who = asks.actor, asks.tenant, asks.roles, asks.trusted, asks.tool, asks.ip_address
    return who, request.action, request.resource_type, request.resource_owner, request.written_type
