"""The tenants: which partitions are open, which may be closed again, and which tenant knows an id.

A partition is opened at its first use and closed after a while without one. Of a closed one
the ids stay known, eight bytes each: a call for an id of another tenant must be refused,
and that must not open every log each time. So each tenant is opened at most once for it.
What another process wrote for a tenant that is closed here is not seen until it is opened.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from array import array
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2b

from tallystick.commits.payloads import edge_triple
from tallystick.engine.partition import Partition
from tallystick.errors import InvalidArgument, TallystickError

_TENANT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_REST_SECONDS = 5.0
"""A partition that was used so lately is not closed to make room: its tools may not be done with it."""

logger = logging.getLogger(__name__)


def is_tenant(name: str) -> bool:
    """Whether it could be the id of one: what is none must not become a path."""
    return _TENANT.fullmatch(name) is not None


class _Opened:
    """The partition of a tenant, open or about to be. A use of it ends with the `with` that it is entered by."""

    def __init__(self, opening: asyncio.Future[Partition], now: Callable[[], float]) -> None:
        self.opening = opening
        self.users = 0
        self.used = now()
        self._now = now
        self._partition: Partition | None = None

    def __enter__(self) -> Partition:
        return self._partition or self.opening.result()

    def __exit__(self, *error: object) -> None:
        self.users -= 1
        self.used = self._now()

    @property
    def partition(self) -> Partition | None:
        """Once it is open."""
        if self._partition is None:
            opening = self.opening
            is_open = opening.done() and not opening.cancelled() and opening.exception() is None
            self._partition = opening.result() if is_open else None
        return self._partition


class Tenants:
    def __init__(
        self,
        open_partition: Callable[[str], Awaitable[Partition]],
        *,
        exist: Callable[[], Iterable[str]] | None = None,
        closed: Callable[[str], Awaitable[None]] | None = None,
        kept: frozenset[str] = frozenset(),
        idle_seconds: float = 600.0,
        open_max: int = 100,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`exist` lists those on disk; without it nobody has neighbours. `kept` are never closed before the end."""
        self._open_partition = open_partition
        self._exist = exist
        self._closed = closed
        self._kept = kept
        self._idle_seconds = idle_seconds
        self._open_max = open_max
        self._now = now
        self._opened: dict[str, _Opened] = {}
        self._closing: dict[str, asyncio.Future[None]] = {}
        self._ids: dict[str, array[int]] = {}

    async def using(self, tenant: str) -> _Opened:
        """To be entered at once, by `with`: it is not closed before that ends. Raises InvalidArgument for what is no
        tenant id."""
        opened = self._opened.get(tenant)
        if opened is None or opened.partition is None:
            return await self._open(tenant)
        opened.users += 1
        return opened

    def find(self, tenant: str) -> Partition | None:
        """If it is open."""
        opened = self._opened.get(tenant)
        return None if opened is None else opened.partition

    @property
    def open_now(self) -> list[str]:
        return [tenant for tenant, opened in self._opened.items() if opened.partition is not None]

    @property
    def have_neighbours(self) -> bool:
        return self._exist is not None

    async def find_owner(self, entity_id: str, *, other_than: str) -> str | None:
        """Another tenant that has a living entity of this id."""
        if self._exist is None:
            return None
        for tenant in [name for name in self._exist() if name != other_than]:
            if await self._knows(tenant, entity_id):
                return tenant
        return None

    async def close_idle(self) -> None:
        """Those without a use for a while, and the longest unused of too many."""
        now = self._now()
        free = sorted(
            (opened.used, tenant)
            for tenant, opened in self._opened.items()
            if opened.users == 0 and opened.partition is not None and tenant not in self._kept
        )
        surplus = len(self._opened) - self._open_max
        for number, (used, tenant) in enumerate(free):
            if now - used >= (_REST_SECONDS if number < surplus else self._idle_seconds):
                await self._close(tenant)

    def rest(self) -> None:
        """Let those that nobody uses see to their next start."""
        for opened in self._opened.values():
            if opened.users == 0 and opened.partition is not None and self._now() - opened.used >= _REST_SECONDS:
                opened.partition.rest()

    async def tend(self) -> None:
        """Look after what is idle, until cancelled."""
        while True:
            await asyncio.sleep(max(min(self._idle_seconds / 4, _REST_SECONDS), 0.05))
            try:
                await self.close_idle()
                self.rest()
            except (TallystickError, OSError):
                logger.exception("a tenant could not be closed")

    async def close(self) -> None:
        for tenant in list(self._opened):
            await self._close(tenant)

    # -- below

    async def _open(self, tenant: str) -> _Opened:
        while tenant in self._closing:
            await asyncio.shield(self._closing[tenant])
        opened = self._opened.get(tenant)
        if opened is None:
            if not is_tenant(tenant):
                raise InvalidArgument(f"{tenant!r} is not a tenant id: lower-case letters, digits, - and _ only")
            opened = _Opened(asyncio.ensure_future(self._open_partition(tenant)), self._now)
            self._opened[tenant] = opened
        # Counted before anything is awaited: from here on nobody closes it.
        opened.users += 1
        try:
            if not opened.opening.done():
                await asyncio.shield(opened.opening)
            opened.opening.result()
        except BaseException as error:
            opened.users -= 1
            if isinstance(error, Exception) and self._opened.get(tenant) is opened:
                # Not remembered: what stood against it (a lock, a full disk) may be gone next time.
                del self._opened[tenant]
            raise
        return opened

    async def _close(self, tenant: str) -> None:
        opened = self._opened.pop(tenant)
        partition = opened.partition
        if partition is None:
            return
        closing = self._closing[tenant] = asyncio.get_running_loop().create_future()
        try:
            if self._exist is not None:
                self._ids[tenant] = await partition.look(lambda state: _marks(state.living_ids()))
            await partition.close()
            if self._closed is not None:
                await self._closed(tenant)
        finally:
            del self._closing[tenant]
            closing.set_result(None)

    async def _knows(self, tenant: str, entity_id: str) -> bool:
        if tenant not in self._opened and tenant in self._ids:
            return _is_among(self._ids[tenant], entity_id)
        try:
            with await self.using(tenant) as partition:
                return await partition.look(
                    lambda state: (state.owner(entity_id) or state.edge_owner(entity_id)) is not None
                )
        except (TallystickError, OSError) as error:
            # A neighbour whose log cannot be read is no reason to refuse anybody else.
            logger.warning("tenant %s could not be asked for an id: %s", tenant, error)
            return False


def _mark(entity_id: str) -> int:
    return int.from_bytes(blake2b(entity_id.encode("utf-8", "surrogatepass"), digest_size=8).digest())


def _marks(ids: Iterable[str]) -> array[int]:
    return array("Q", sorted(map(_mark, ids)))


def _is_among(marks: array[int], entity_id: str) -> bool:
    """An edge that is named by its ends is taken to be there if they are: that says no more than asking for them."""
    ends = edge_triple(entity_id)
    return _has(marks, _mark(entity_id)) or (
        ends is not None and _has(marks, _mark(ends[0])) and _has(marks, _mark(ends[2]))
    )


def _has(marks: array[int], mark: int) -> bool:
    at = bisect_left(marks, mark)
    return at < len(marks) and marks[at] == mark
