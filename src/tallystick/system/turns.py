"""Turns: long work of all tenants shares the event loop of a process in short slices.

The first slice of a call runs at once: most calls need no other. Before each further slice the work waits for a turn.
One turn is given per pass of the loop, to the tenants in rotation, so that a short call waits for about one slice
however much long work there is. A tenant has a bounded number of long reads under way; more wait for a place, and more
than that are refused.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TypeVar
from weakref import WeakKeyDictionary

import msgspec

from tallystick.errors import LimitExceeded

T = TypeVar("T")

SLICE_SECONDS = 0.005
RETRY_SECONDS = 1
UNIT_SECONDS = 0.01
UNIT_BYTES = 64 << 10


class Share(msgspec.Struct, frozen=True):
    """The long reads that one tenant may have in a process."""

    running_max: int = 4
    waiting_max: int = 256


class Work:
    """One call: the seconds of work that it took and the bytes of its answer."""

    __slots__ = ("_token", "bytes", "charge", "is_over", "seconds", "tenant")

    def __init__(self, tenant: str = "") -> None:
        self.tenant = tenant
        self.seconds = 0.0
        self.bytes = 0
        self.charge: Callable[[int], None] | None = None
        """Receives the units of work beyond the first when the call is over."""
        self.is_over = False
        self._token: Token[Work | None] | None = None

    @property
    def units(self) -> int:
        """The cost beyond that of a short call: one unit per 10 ms of work and one per 64 KiB of the answer."""
        return int(self.seconds / UNIT_SECONDS) + self.bytes // UNIT_BYTES

    def __enter__(self) -> Work:
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.is_over = True
        if self._token is not None:
            _current.reset(self._token)
        if self.charge is not None and (units := self.units):
            self.charge(units)


_current: ContextVar[Work | None] = ContextVar("work", default=None)


def current() -> Work | None:
    """The call that the running code belongs to. A task that outlives its call belongs to none."""
    work = _current.get()
    return None if work is None or work.is_over else work


class Pace:
    """The slices of one loop or generator. `tenant` is used outside a call."""

    __slots__ = ("_began", "_is_long", "_tenant", "_work", "seconds")

    def __init__(self, tenant: str = "") -> None:
        self._work = current()
        self._tenant = tenant if self._work is None else self._work.tenant
        self._is_long = False
        self.seconds = 0.0
        """Its finished slices, without the time in which it waited."""
        self._began = time.perf_counter()

    def elapsed(self) -> float:
        """The seconds of the slice under way."""
        return time.perf_counter() - self._began

    async def rest(self, *, is_read: bool = False) -> None:
        """Wait for a turn; a read waits for a place among the long reads first, and keeps it until `end`."""
        self._count()
        if is_read and not self._is_long:
            await of_loop().enter(self._tenant)
            self._is_long = True
        await of_loop().turn(self._tenant)
        self._began = time.perf_counter()

    def end(self) -> None:
        self._count()
        if self._is_long:
            self._is_long = False
            of_loop().leave(self._tenant)

    def _count(self) -> None:
        now = time.perf_counter()
        seconds, self._began = now - self._began, now
        self.seconds += seconds
        if self._work is not None:
            self._work.seconds += seconds


async def paced(items: Iterable[T], tenant: str = "") -> AsyncIterator[T]:
    """The items, made in slices."""
    pace = Pace(tenant)
    for item in items:
        yield item
        if pace.elapsed() > SLICE_SECONDS:
            await pace.rest()
    pace.end()


def finished(steps: Generator[None, None, T]) -> T:
    """Return the result of the steps, made without a pause."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


class _Tenant:
    __slots__ = ("arriving", "places", "running", "turns")

    def __init__(self) -> None:
        self.turns: deque[asyncio.Future[None]] = deque()
        self.arriving: deque[asyncio.Future[None]] = deque()
        self.running = 0
        self.places: deque[asyncio.Future[None]] = deque()
        """Long reads that wait for one of those under way to end."""

    @property
    def is_idle(self) -> bool:
        return not (self.turns or self.arriving or self.running or self.places)


class Turns:
    """The turns of one event loop."""

    def __init__(self, share: Share | None = None) -> None:
        self._share = share
        self._tenants: dict[str, _Tenant] = {}
        self._rotation: deque[str] = deque()
        """The tenants that wait for a turn, each once."""
        self._is_giving = False

    async def turn(self, tenant: str) -> None:
        """Wait for the next slice of a work under way."""
        await self._wait(tenant, self._of(tenant).turns)

    async def arrive(self, tenant: str) -> None:
        """Wait before the first slice of a call, if the tenant has all the long reads under way that it may have."""
        known = self._tenants.get(tenant)
        if known is not None and known.running >= self._limits.running_max:
            await self._wait(tenant, known.arriving)

    async def enter(self, tenant: str) -> None:
        """Take the place of a long read; `leave` must follow. Raises LimitExceeded(RATE_LIMITED)."""
        known, limits = self._of(tenant), self._limits
        if known.running < limits.running_max:
            known.running += 1
            return
        if len(known.places) >= limits.waiting_max:
            raise _too_many(tenant, known)
        place = asyncio.get_running_loop().create_future()
        known.places.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                known.places.remove(place)
            else:
                self.leave(tenant)
            raise

    def leave(self, tenant: str) -> None:
        known = self._of(tenant)
        while known.places:
            place = known.places.popleft()
            if not place.done():
                place.set_result(None)
                return
        known.running -= 1
        self._forget(tenant, known)

    @property
    def _limits(self) -> Share:
        return share if self._share is None else self._share

    def _of(self, tenant: str) -> _Tenant:
        known = self._tenants.get(tenant)
        if known is None:
            known = self._tenants[tenant] = _Tenant()
        return known

    def _forget(self, tenant: str, known: _Tenant) -> None:
        if known.is_idle:
            self._tenants.pop(tenant, None)

    async def _wait(self, tenant: str, line: deque[asyncio.Future[None]]) -> None:
        known = self._of(tenant)
        if not (known.turns or known.arriving):
            self._rotation.append(tenant)
        turn = asyncio.get_running_loop().create_future()
        line.append(turn)
        if not self._is_giving:
            self._is_giving = True
            asyncio.get_running_loop().call_soon(self._give)
        await turn

    def _give(self) -> None:
        """Let the next tenant run one slice, and one call that arrives; the others follow in later passes."""
        given = False
        while self._rotation and not given:
            tenant = self._rotation.popleft()
            known = self._of(tenant)
            given = _give_first(known.arriving)
            given = _give_first(known.turns) or given
            if known.turns or known.arriving:
                self._rotation.append(tenant)
            self._forget(tenant, known)
        self._is_giving = given
        if given:
            asyncio.get_running_loop().call_soon(self._give)


def _give_first(line: deque[asyncio.Future[None]]) -> bool:
    while line:
        turn = line.popleft()
        if not turn.done():
            turn.set_result(None)
            return True
    return False


def _too_many(tenant: str, known: _Tenant) -> LimitExceeded:
    return LimitExceeded(
        f"tenant '{tenant}' has {known.running} long reads under way and {len(known.places)} waiting;"
        f" wait {RETRY_SECONDS} s",
        code="RATE_LIMITED",
        hint="make fewer long calls at a time, or narrow them",
        details={"retry_after": RETRY_SECONDS, "status": 429},
    )


share = Share()
"""Of this process; `app` sets it from the settings."""

_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def of_loop() -> Turns:
    """The turns of the running event loop."""
    loop = asyncio.get_running_loop()
    turns = _by_loop.get(loop)
    if turns is None:
        turns = _by_loop[loop] = Turns()
    return turns
