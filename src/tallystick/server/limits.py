"""The quotas: how many writes and reads a minute each tenant may ask for.

A leaky bucket kept as one number (GCRA): the moment up to which a tenant has used its share.
A whole minute's share may come at once, then it flows on evenly. Counted per process.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tallystick.config import TENANT_PATTERN
from tallystick.errors import InvalidArgument, LimitExceeded
from tallystick.policy import Principal

WINDOW_SECONDS = 60.0
_TENANTS_BEFORE_SWEEP = 10_000


class Quota(msgspec.Struct, frozen=True):
    """A minute's share; 0 means as much as one likes."""

    writes: int
    reads: int


class Quotas:
    def __init__(
        self,
        default: Quota,
        overrides: Mapping[str, Quota] | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._default = default
        self._overrides = dict(overrides or {})
        self._now = now
        self._used_until: dict[tuple[str, bool], float] = {}

    def check(self, principal: Principal, *, writes: bool) -> None:
        """Count one call. Raises LimitExceeded(RATE_LIMITED) with {retry_after, status}; that call does not count."""
        quota = self._overrides.get(principal.tenant, self._default)
        share = quota.writes if writes else quota.reads
        if share == 0:
            return
        now, key = self._now(), (principal.tenant, writes)
        used_until = max(self._used_until.get(key, now), now) + WINDOW_SECONDS / share
        # A hair's breadth for what adding fractions loses, else the last call of a share may be refused.
        wait = used_until - now - WINDOW_SECONDS
        if wait > 1e-6:
            raise _limited(principal.tenant, share, wait, writes=writes)
        if len(self._used_until) >= _TENANTS_BEFORE_SWEEP:
            self._sweep(now)
        self._used_until[key] = used_until

    def _sweep(self, now: float) -> None:
        """Whoever has nothing used up is as good as unknown."""
        self._used_until = {key: until for key, until in self._used_until.items() if until > now}


def read_overrides(texts: Sequence[str]) -> dict[str, Quota]:
    """From `tenant=writes/reads`, a minute each."""
    return dict(_read_override(text) for text in texts)


def _read_override(text: str) -> tuple[str, Quota]:
    tenant, _, shares = text.partition("=")
    writes, _, reads = shares.partition("/")
    if not re.fullmatch(TENANT_PATTERN, tenant) or not (_is_share(writes) and _is_share(reads)):
        raise InvalidArgument(
            f"'{text}' is not a quota",
            code="QUOTA_INVALID",
            hint="write tenant=writes/reads, for example acme=5000/50000",
        )
    return tenant, Quota(int(writes), int(reads))


def _is_share(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _limited(tenant: str, share: int, wait: float, *, writes: bool) -> LimitExceeded:
    retry_after = max(1, math.ceil(wait))
    return LimitExceeded(
        f"tenant '{tenant}' has used its {share} {'writes' if writes else 'reads'} a minute; wait {retry_after} s",
        code="RATE_LIMITED",
        details={"retry_after": retry_after, "status": 429},
    )
