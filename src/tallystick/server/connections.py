"""All connections of one server, and what each of them may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import Protocol

import msgspec

_TURNS_PER_DEADLINE = 10
TURNED_AWAY_MAX = 32
"""Connections past the bound that wait for their request, to be answered that there are too many."""
_ACCEPTING_SECONDS = 0.05
"""Until a connection that was just accepted is among those that are open."""


class Bounds(msgspec.Struct, frozen=True):
    head_bytes: int = 64 * 1024
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    """For a body to arrive, and for a client to take what it is answered."""
    rest_seconds: float = 5.0
    """Between an answer and the next request."""
    connections: int = 512
    drain_seconds: float = 0.0
    """How long, when the server ends, open connections are waited for: each is answered once more, and then closed."""


class Doing(IntEnum):
    """What a connection does; when there are too many, the first of these goes first."""

    NOTHING_YET = 0
    RESTING = 1
    SENDING = 2
    WORKING = 3


class Connection(Protocol):
    def doing(self) -> Doing: ...

    def check(self, now: float) -> None:
        """End it if it is late."""
        ...

    def abort(self) -> None: ...

    def turn_away(self) -> None:
        """Answer its first request with a refusal, and close it."""
        ...


class Connections:
    """A connection too many takes the place of another that waits for its client; while all work, it is refused."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.is_draining = False
        self._open: dict[Connection, None] = {}
        """The longest unused first."""
        self._turned_away: dict[Connection, None] = {}
        self._one_left = asyncio.Event()

    def add(self, connection: Connection) -> None:
        if len(self._open) >= self.bounds.connections:
            oldest = min(self._open, key=lambda each: each.doing())
            if oldest.doing() is Doing.WORKING:
                self._turn_away(connection)
                return
            oldest.abort()
        self._open[connection] = None

    def _turn_away(self, connection: Connection) -> None:
        if len(self._turned_away) >= TURNED_AWAY_MAX:
            next(iter(self._turned_away)).abort()
        self._turned_away[connection] = None
        connection.turn_away()

    def use(self, connection: Connection) -> None:
        if self._open.pop(connection, self) is None:
            self._open[connection] = None

    def remove(self, connection: Connection) -> None:
        self._open.pop(connection, None)
        self._turned_away.pop(connection, None)
        self._one_left.set()

    async def drain(self, stop_listening: Callable[[], None]) -> None:
        """Until all are closed, each by the answer that says so. A client whose connection is closed while its request
        is on the way cannot know whether that was read: so nobody is closed who may be about to ask, but for those who
        asked nothing for all of the time. Until those who were there have left, others are still let in."""
        self.is_draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(self.bounds.drain_seconds):
                await self._left(list(self._open))
                stop_listening()
                await asyncio.sleep(_ACCEPTING_SECONDS)
                await self._left(list(self._open))

    async def _left(self, connections: list[Connection]) -> None:
        while any(each in self._open for each in connections):
            self._one_left.clear()
            await self._one_left.wait()

    async def watch(self) -> None:
        """One task for all, since a timer for each request costs more than the bounds."""
        seconds = min(self.bounds.head_seconds, self.bounds.body_seconds) / _TURNS_PER_DEADLINE
        while True:
            await asyncio.sleep(seconds)
            now = asyncio.get_running_loop().time()
            for connection in [*self._open, *self._turned_away]:
                connection.check(now)
