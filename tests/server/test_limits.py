"""Quotas: what a tenant may ask for in a minute, and nobody else's share."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tallystick.errors import InvalidArgument, LimitExceeded
from tallystick.policy import Principal
from tallystick.server import limits
from tallystick.server.answers import status_of
from tallystick.server.limits import OwnBuckets, Quota, Quotas, SessionQuota, SharedBuckets, read_overrides
from tallystick.system.turns import Work
from tests.promises import promise

ACME, GLOBEX = Principal("alice", "acme"), Principal("bob", "globex")


class Counter:
    buckets: type[OwnBuckets | SharedBuckets] = OwnBuckets

    def __init__(self, quota: Quota, overrides: dict[str, Quota] | None = None) -> None:
        self.now = 1000.0
        self.quotas = Quotas(quota, overrides, buckets=self.buckets(), now=lambda: self.now)

    def allowed(self, calls: int, principal: Principal = ACME, *, writes: bool = True) -> int:
        return sum(self._is_allowed(principal, writes=writes) for _ in range(calls))

    def _is_allowed(self, principal: Principal, *, writes: bool) -> bool:
        try:
            self.quotas.check(principal, writes=writes)
        except LimitExceeded:
            return False
        return True


@pytest.fixture(autouse=True, params=[OwnBuckets, SharedBuckets])
def _buckets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counter, "buckets", request.param)


@pytest.mark.parametrize("share", [1, 3, 7, 60, 1000, 9999, 10_000])
def test_exactly_a_minutes_share_may_come_at_once(share: int) -> None:
    assert Counter(Quota(share, 0)).allowed(share + 10) == share


def test_then_the_share_flows_back_evenly() -> None:
    counter = Counter(Quota(60, 0))
    counter.allowed(60)
    counter.now += 0.5
    assert counter.allowed(5) == 0
    counter.now += 0.5
    assert counter.allowed(5) == 1
    counter.now += 10
    assert counter.allowed(50) == 10
    counter.now += 3600
    assert counter.allowed(100) == 60


def test_refused_calls_do_not_count() -> None:
    counter = Counter(Quota(60, 0))
    counter.allowed(10_000)
    counter.now += 1
    assert counter.allowed(5) == 1


@promise("OWASP API6, flows", "a tenant's writes are counted apart from its reads and from others'")
def test_writes_reads_and_tenants_are_counted_apart() -> None:
    counter = Counter(Quota(2, 3))
    assert counter.allowed(9, ACME) == 2
    assert counter.allowed(9, ACME, writes=False) == 3
    assert counter.allowed(9, GLOBEX) == 2
    assert counter.allowed(9, Principal("another agent", "acme")) == 0


@promise("L53", "a tenant may have a quota of its own, or none")
def test_a_tenant_may_have_a_quota_of_its_own_or_none() -> None:
    counter = Counter(Quota(2, 2), read_overrides(["acme=5/0"]))
    assert counter.allowed(9, ACME) == 5
    assert counter.allowed(99, ACME, writes=False) == 99
    assert counter.allowed(9, GLOBEX) == 2


@promise("OWASP API4, rate", "a tenant that asks too much is told how long to wait")
def test_the_refusal_says_how_long_to_wait_and_waiting_helps() -> None:
    counter = Counter(Quota(2, 0))
    counter.allowed(2)
    with pytest.raises(LimitExceeded) as refusal:
        counter.quotas.check(ACME, writes=True)
    assert refusal.value.code == "RATE_LIMITED"
    assert refusal.value.details == {"retry_after": 30, "status": 429}
    assert "acme" in refusal.value.message
    assert status_of(refusal.value) == 429
    counter.now += refusal.value.details["retry_after"]
    assert counter.allowed(2) == 1


def test_a_clock_that_stands_or_goes_back_gives_nothing_away() -> None:
    counter = Counter(Quota(10, 0))
    counter.allowed(10)
    counter.now -= 500
    assert counter.allowed(5) == 0


def test_a_call_counts_by_its_work_when_it_is_over() -> None:
    counter = Counter(Quota(0, 100))
    with Work("acme") as work:
        assert counter.allowed(1, writes=False) == 1
        work.bytes = 20 * (64 << 10)
        work.seconds = 0.205
    assert counter.allowed(100, writes=False) == 59
    assert counter.allowed(100, GLOBEX, writes=False) == 100


def test_however_much_work_a_call_took_its_tenant_waits_a_minute_at_most() -> None:
    counter = Counter(Quota(0, 100))
    with Work("acme") as work:
        assert counter.allowed(1, writes=False) == 1
        work.bytes = 1 << 30
    with pytest.raises(LimitExceeded) as caught:
        counter.quotas.check(ACME, writes=False)
    assert caught.value.details["retry_after"] == 61
    counter.now += 61
    assert counter.allowed(1, writes=False) == 1


def test_tenants_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_TENANTS_BEFORE_SWEEP", 100)
    buckets = OwnBuckets()
    for number in range(1000):
        buckets.take(f"tenant-{number}", writes=True, step=1.0, now=1000.0 + number)
    assert len(buckets._used_until) <= 100


def test_more_tenants_than_a_shared_table_has_room_for_are_served_and_the_busiest_are_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SharedBuckets, "_SLOTS", 64)
    quotas = Quotas(Quota(60, 0), buckets=SharedBuckets(), now=lambda: 1000.0)
    for _ in range(60):
        quotas.check(ACME, writes=True)
    for number in range(1000):
        quotas.check(Principal("a", f"tenant-{number}"), writes=True)
    with pytest.raises(LimitExceeded):
        quotas.check(ACME, writes=True)


FORKING = """
import os
from tallystick.server.limits import SharedBuckets
buckets = SharedBuckets()
reading, writing = os.pipe()
for _ in range(4):
    if os.fork() == 0:
        taken = sum(buckets.take("acme", writes=True, step=60 / 500, now=1000.0) == 0 for _ in range(400))
        os.write(writing, f"{taken} ".encode())
        os._exit(0)
for _ in range(4):
    os.wait()
print(os.read(reading, 1000).decode())
"""


def test_processes_of_one_server_share_a_quota_and_none_is_counted_twice() -> None:
    told = subprocess.run([sys.executable, "-c", FORKING], capture_output=True, text=True, check=True).stdout
    assert sum(map(int, told.split())) == 500


@pytest.mark.parametrize(
    "text", ["acme", "acme=1", "acme=1/", "acme=/1", "acme=-1/1", "acme=1/x", "=1/1", "../x=1/1", "ACME=1/1", "a=1/٣"]
)
def test_a_quota_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        read_overrides([text])
    assert refusal.value.code == "QUOTA_INVALID"


def test_overrides_are_read_per_tenant() -> None:
    expected: dict[str, Any] = {"acme": Quota(5000, 50_000), "small": Quota(1, 0)}
    assert read_overrides(["acme=5000/50000", "small=1/0"]) == expected


def test_a_subjects_own_sessions_make_room_those_first_that_were_never_used() -> None:
    clock = [0.0]
    quota = SessionQuota(3, 5, now=lambda: clock[0])
    for id in ("used", "first", "second"):
        assert quota.make_room("acme", "ada") == []
        quota.add("acme", "ada", id)
    quota.use("acme", "ada", "used")
    quota.use("acme", "ada", "elsewhere")
    assert quota.make_room("acme", "ada") == ["first"]
    quota.add("acme", "ada", "third")
    for id in ("second", "third"):
        quota.use("acme", "ada", id)
    with pytest.raises(LimitExceeded) as refused:
        quota.make_room("acme", "ada")
    assert refused.value.details == {"retry_after": 60, "status": 429}
    clock[0] = 59.0
    quota.use("acme", "ada", "used")
    clock[0] = 60.0
    assert quota.make_room("acme", "ada") == ["second"]


def test_sessions_of_others_make_no_room() -> None:
    quota = SessionQuota(3, 2, now=lambda: 0.0)
    for subject in ("ada", "bob"):
        quota.add("acme", subject, subject)
    assert quota.make_room("other", "eve") == []
    with pytest.raises(LimitExceeded):
        quota.make_room("acme", "eve")
    assert quota.make_room("acme", "ada") == ["ada"]
    assert quota.make_room("acme", "eve") == []


def test_sessions_that_nobody_used_for_long_count_no_longer() -> None:
    clock = [0.0]
    quota = SessionQuota(now=lambda: clock[0])
    quota.add("acme", "ada", "old")
    clock[0] = 5.0
    quota.add("acme", "ada", "new")
    clock[0] = 10.0
    assert quota.expire(10.0) == ["old"]
    assert quota.expire(10.0) == []
