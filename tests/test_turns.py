"""Turns: how the long work of several tenants shares one event loop."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from tallystick.engine.partition import Partition
from tallystick.errors import LimitExceeded
from tallystick.log.memory import MemoryLog
from tallystick.state.state import State
from tallystick.system import turns
from tallystick.system.turns import Pace, Share, Turns, Work, current, of_loop, paced


async def sliced(tenant: str, slices: int, order: list[str]) -> None:
    for _ in range(slices):
        await of_loop().turn(tenant)
        order.append(tenant)


async def test_tenants_take_turns_however_much_work_one_of_them_has() -> None:
    order: list[str] = []
    await asyncio.gather(*(sliced("busy", 4, order) for _ in range(5)), sliced("other", 4, order))
    assert order[:8] == ["busy", "other"] * 4
    assert order[8:] == ["busy"] * 16


async def test_one_slice_runs_per_pass_of_the_loop() -> None:
    order: list[str] = []
    passes = 0

    async def short_calls() -> None:
        nonlocal passes
        while True:
            passes += 1
            order.append("short")
            await asyncio.sleep(0)

    short = asyncio.create_task(short_calls())
    await asyncio.gather(*(sliced("busy", 5, order) for _ in range(10)))
    short.cancel()
    slices = [number for number, name in enumerate(order) if name == "busy"]
    assert all("short" in order[one:other] for one, other in pairwise(slices))


async def test_a_turn_that_is_cancelled_goes_to_the_next() -> None:
    order: list[str] = []
    works = [asyncio.create_task(sliced("a", 2, order)) for _ in range(3)]
    await asyncio.sleep(0)
    works[0].cancel()
    await asyncio.gather(*works, return_exceptions=True)
    assert order == ["a"] * 4


class Look:
    """A long look at the state: it counts how many are under way at a time."""

    running = peak = ended = 0

    def __call__(self, state: State) -> Any:
        yield  # Its first slice.
        Look.running += 1
        Look.peak = max(Look.peak, Look.running)
        for _ in range(10):
            yield
        Look.running -= 1
        Look.ended += 1


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> type[Look]:
    """Each step of a look is a slice of its own."""
    monkeypatch.setattr("tallystick.engine.partition.SLICE_SECONDS", -1.0)
    monkeypatch.setattr(turns, "share", Share(running_max=3, waiting_max=20))
    Look.running = Look.peak = Look.ended = 0
    return Look


async def test_so_many_long_reads_of_a_tenant_are_under_way_and_the_others_wait(looks: type[Look]) -> None:
    partition = Partition(MemoryLog())
    await asyncio.gather(*(partition.look(looks()) for _ in range(12)))
    assert (looks.peak, looks.ended) == (3, 12)


async def test_each_tenant_has_its_own_places(looks: type[Look]) -> None:
    tenants = [Partition(MemoryLog(), tenant=name) for name in ("a", "b")]
    await asyncio.gather(*(tenant.look(looks()) for tenant in tenants for _ in range(6)))
    assert looks.peak == 6


async def test_more_than_may_wait_are_refused_with_a_time_to_retry(looks: type[Look]) -> None:
    partition = Partition(MemoryLog())
    outcomes = await asyncio.gather(*(partition.look(looks()) for _ in range(25)), return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, LimitExceeded)]
    assert [each.code for each in refused] == ["RATE_LIMITED"] * 2
    assert refused[0].details == {"retry_after": 1, "status": 429}
    assert looks.ended == 23
    await partition.look(looks())


async def test_a_read_that_is_cancelled_while_it_waits_leaves_its_place(looks: type[Look]) -> None:
    partition = Partition(MemoryLog())
    reads = [asyncio.create_task(partition.look(looks())) for _ in range(12)]
    await asyncio.sleep(0)
    for read in reads[::2]:
        read.cancel()
    await asyncio.gather(*reads, return_exceptions=True)
    assert looks.ended == 6
    assert of_loop()._tenants == {}


async def test_a_short_call_of_the_same_tenant_is_answered_while_its_long_reads_run(looks: type[Look]) -> None:
    partition = Partition(MemoryLog())
    reads = [asyncio.create_task(partition.look(looks())) for _ in range(12)]
    for _ in range(5):
        await asyncio.sleep(0)
    await asyncio.gather(*(partition.look(lambda state: state.count) for _ in range(3)))
    assert looks.ended == 0
    await asyncio.gather(*reads)


async def test_a_look_counts_its_own_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("tallystick.system.turns.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr("tallystick.engine.partition.LOOK_SECONDS_MAX", 1.0)

    def look(state: State) -> Any:
        for _ in range(9):
            clock[0] += 0.1
            yield
        return "answered"

    partition = Partition(MemoryLog())
    answers = await asyncio.gather(*(partition.look(look) for _ in range(4)))
    assert answers == ["answered"] * 4


async def test_the_work_of_a_call_is_charged_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("tallystick.system.turns.time.perf_counter", lambda: clock[0])
    charges: list[int] = []
    with Work("a") as work:
        work.charge = charges.append
        async for _ in paced(range(5)):
            clock[0] += 0.02
        work.bytes = 3 * (64 << 10) + 1
    assert charges == [13]
    with Work("a") as short:
        short.charge = charges.append
    assert charges == [13]


async def test_a_task_that_outlives_its_call_belongs_to_none() -> None:
    seen: list[Any] = []

    async def outliving() -> None:
        await asyncio.sleep(0)
        seen.append(current())
        seen.append(Pace("b").seconds)

    with Work("a"):
        task = asyncio.create_task(outliving())
    await task
    assert seen == [None, 0.0]


async def test_nothing_is_kept_of_a_tenant_that_has_no_work() -> None:
    own = Turns()
    await asyncio.gather(own.turn("a"), own.turn("b"), own.enter("a"))
    own.leave("a")
    await own.arrive("a")
    assert own._tenants == {}
