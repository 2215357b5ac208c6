"""The quotas: how much each tenant may write and read in a minute, and how many sessions may be open.

A call counts once when it arrives, and by its work when it is over: once more per 10 ms of work and per 64 KiB of its
answer (`turns.Work.units`). A call under way is not stopped; its tenant waits longer for the next one.

Calls are a leaky bucket kept as one number (GCRA): the moment up to which a tenant has used its share.
A whole minute's share may come at once, then it flows on evenly. Calls are counted per process, or by all workers
of a server together; sessions per process.
"""

from __future__ import annotations

import math
import mmap
import re
import struct
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Protocol

import msgspec

from tallystick.config import TENANT_PATTERN
from tallystick.errors import InvalidArgument, LimitExceeded
from tallystick.policy import Principal
from tallystick.system.file_locks import bytes_locked
from tallystick.system.turns import current

WINDOW_SECONDS = 60.0
_TENANTS_BEFORE_SWEEP = 10_000
SESSIONS_PER_SUBJECT = 1_000
SESSIONS_PER_TENANT = 10_000
SESSION_IDLE_SECONDS = 60.0
"""After so long without a call a session may be ended to make room for another of the same subject."""


class Quota(msgspec.Struct, frozen=True):
    """A minute's share; 0 means as much as one likes."""

    writes: int
    reads: int


class Buckets(Protocol):
    def take(self, tenant: str, *, writes: bool, step: float, now: float) -> float:
        """Use `step` seconds of the tenant's window. How long to wait, if that is more than is left; then nothing is
        used."""
        ...

    def add(self, tenant: str, *, writes: bool, seconds: float, now: float) -> None:
        """Use so much of the tenant's window without asking, up to a whole window more than it has."""
        ...


class Quotas:
    def __init__(
        self,
        default: Quota,
        overrides: Mapping[str, Quota] | None = None,
        *,
        buckets: Buckets | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._default = default
        self._overrides = dict(overrides or {})
        self._buckets = buckets or OwnBuckets()
        self._now = now

    def check(self, principal: Principal, *, writes: bool) -> None:
        """Count one call, and its work when it is over. Raises LimitExceeded(RATE_LIMITED) with {retry_after, status};
        that call does not count."""
        quota = self._overrides.get(principal.tenant, self._default)
        share = quota.writes if writes else quota.reads
        if share == 0:
            return
        wait = self._buckets.take(principal.tenant, writes=writes, step=WINDOW_SECONDS / share, now=self._now())
        if wait > 0:
            raise _limited(principal.tenant, share, wait, writes=writes)
        work = current()
        if work is not None:
            work.charge = partial(self._charge, principal.tenant, writes, WINDOW_SECONDS / share)

    def _charge(self, tenant: str, writes: bool, step: float, units: int) -> None:
        self._buckets.add(tenant, writes=writes, seconds=step * units, now=self._now())


class OwnBuckets:
    """Of this process."""

    def __init__(self) -> None:
        self._used_until: dict[tuple[str, bool], float] = {}

    def take(self, tenant: str, *, writes: bool, step: float, now: float) -> float:
        key = tenant, writes
        used_until = max(self._used_until.get(key, now), now) + step
        wait = _wait(used_until, now)
        if wait == 0:
            if len(self._used_until) >= _TENANTS_BEFORE_SWEEP:
                self._sweep(now)
            self._used_until[key] = used_until
        return wait

    def add(self, tenant: str, *, writes: bool, seconds: float, now: float) -> None:
        key = tenant, writes
        self._used_until[key] = _in_debt(self._used_until.get(key, now), seconds, now)

    def _sweep(self, now: float) -> None:
        """Whoever has nothing used up is as good as unknown."""
        self._used_until = {key: until for key, until in self._used_until.items() if until > now}


class SharedBuckets:
    """Of all processes that were forked after it was made: a table in a file without a name.

    A process that is killed in the middle leaves a slot as it was or as it was to be, and its lock free. The clock
    is the machine's, the same for all.
    """

    _SLOTS = 1 << 16
    _SLOT = struct.Struct("=Qd")
    _TRIES = 8

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # open for as long as the process lives
        self._file.truncate(self._SLOTS * self._SLOT.size)
        self._table = mmap.mmap(self._file.fileno(), 0)

    def take(self, tenant: str, *, writes: bool, step: float, now: float) -> float:
        key = _hashed(tenant, writes)
        start = key % (self._SLOTS - self._TRIES)
        with bytes_locked(self._file.fileno(), start, self._TRIES):
            at = self._find(key, start) * self._SLOT.size
            found, until = self._SLOT.unpack_from(self._table, at)
            used_until = max(until if found == key else now, now) + step
            wait = _wait(used_until, now)
            if wait == 0:
                self._SLOT.pack_into(self._table, at, key, used_until)
            return wait

    def add(self, tenant: str, *, writes: bool, seconds: float, now: float) -> None:
        key = _hashed(tenant, writes)
        start = key % (self._SLOTS - self._TRIES)
        with bytes_locked(self._file.fileno(), start, self._TRIES):
            at = self._find(key, start) * self._SLOT.size
            known, until = self._SLOT.unpack_from(self._table, at)
            used_until = _in_debt(until if known == key else now, seconds, now)
            self._SLOT.pack_into(self._table, at, key, used_until)

    def _find(self, key: int, start: int) -> int:
        """The slot of the key, else the one that was used up the longest ago, or will be: that tenant starts afresh."""
        slots: dict[int, tuple[int, float]] = {
            slot: self._SLOT.unpack_from(self._table, slot * self._SLOT.size)
            for slot in range(start, start + self._TRIES)
        }
        mine = (slot for slot, (found, _) in slots.items() if found == key)
        return next(mine, min(slots, key=lambda slot: slots[slot][1]))


def _in_debt(used_until: float, seconds: float, now: float) -> float:
    return min(max(used_until, now) + seconds, now + 2 * WINDOW_SECONDS)


def _wait(used_until: float, now: float) -> float:
    # A hair's breadth for what adding fractions loses, else the last call of a share may be refused.
    wait = used_until - now - WINDOW_SECONDS
    return wait if wait > 1e-6 else 0.0


@lru_cache(maxsize=_TENANTS_BEFORE_SWEEP)
def _hashed(tenant: str, writes: bool) -> int:
    """Never 0, which is an empty slot. Not Python's own, which is another one in each process."""
    return int.from_bytes(blake2b(f"{tenant}\n{writes}".encode(), digest_size=8).digest()) | 1


class _Subject(msgspec.Struct):
    """The sessions of one: id to when it was last used, the longest unused first."""

    unused: dict[str, float] = {}
    """Begun, and never called in."""
    used: dict[str, float] = {}


class SessionQuota:
    """How many sessions a subject, and a tenant, may have begun here. The caller's own idle ones make room."""

    def __init__(
        self,
        per_subject: int = SESSIONS_PER_SUBJECT,
        per_tenant: int = SESSIONS_PER_TENANT,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_subject = per_subject
        self._per_tenant = per_tenant
        self._now = now
        self._tenants: dict[str, dict[str, _Subject]] = {}

    def make_room(self, tenant: str, subject: str) -> list[str]:
        """The sessions to end so that the subject may have one more; they count no longer. Raises LimitExceeded."""
        mine = self._tenants.get(tenant, {}).get(subject, _Subject())
        excess = max(_count(mine) + 1 - self._per_subject, self._count_tenant(tenant) + 1 - self._per_tenant)
        idle_since = self._now() - SESSION_IDLE_SECONDS
        idle = [*mine.unused, *(id for id, at in mine.used.items() if at <= idle_since)]
        if excess > len(idle):
            raise LimitExceeded(
                "too many sessions are in use; end some, or wait",
                code="RATE_LIMITED",
                details={"retry_after": math.ceil(SESSION_IDLE_SECONDS), "status": 429},
            )
        ended = idle[: max(excess, 0)]
        for id in ended:
            self.remove(tenant, subject, id)
        return ended

    def add(self, tenant: str, subject: str, id: str) -> None:
        self._tenants.setdefault(tenant, {}).setdefault(subject, _Subject()).unused[id] = self._now()

    def use(self, tenant: str, subject: str, id: str) -> None:
        mine = self._tenants.get(tenant, {}).get(subject)
        if mine is None or (mine.used.pop(id, None) is None and mine.unused.pop(id, None) is None):
            return
        mine.used[id] = self._now()  # at the end of the order

    def remove(self, tenant: str, subject: str, id: str) -> None:
        subjects = self._tenants.get(tenant, {})
        mine = subjects.get(subject, _Subject())
        mine.unused.pop(id, None)
        mine.used.pop(id, None)
        if not _count(mine):
            subjects.pop(subject, None)
        if not subjects:
            self._tenants.pop(tenant, None)

    def expire(self, seconds: float) -> list[str]:
        """Those that nobody used for so long; they count no longer."""
        before = self._now() - seconds
        stale = [
            (tenant, subject, id)
            for tenant, subjects in self._tenants.items()
            for subject, mine in subjects.items()
            for id, at in (*mine.unused.items(), *mine.used.items())
            if at <= before
        ]
        for each in stale:
            self.remove(*each)
        return [id for _, _, id in stale]

    def _count_tenant(self, tenant: str) -> int:
        return sum(_count(each) for each in self._tenants.get(tenant, {}).values())


def _count(subject: _Subject) -> int:
    return len(subject.unused) + len(subject.used)


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
