"""Whether the chain of hashes was verified: what the last whole verification found, for the bar of every page.

A verification reads the whole log, so it is done by a process of its own, begun when somebody looks at a page and the
last one is too old. A memory that nobody looks at costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from tallystick.operations.last_verification import LastVerification, is_due, last_verification

OLD_SECONDS = 86_400.0
BROKEN_SECONDS = 600.0
"""Somebody is mending it."""
TRIED_SECONDS = 600.0
"""Between two tries, also where what was found could not be kept."""
_TRIED_MAX = 256

Status = Literal["verified", "unverified", "broken"]

logger = logging.getLogger(__name__)


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    status: Status
    position: int | None = None
    """Up to which it was found sound."""
    finished: str | None = None
    problem: str | None = None
    file: str | None = None
    line: int | None = None


class Chains:
    """Of all tenants; verifies one at a time."""

    def __init__(self, verify: Callable[[str, float], Awaitable[None]] | None = None) -> None:
        """`verify` takes a tenant, and how many seconds old the last one must be; without it, what is kept is told."""
        self._verify = verify
        self._is_open = False
        self._task: asyncio.Task[None] | None = None
        self._tried: OrderedDict[str, float] = OrderedDict()

    def of(self, tenant: str, system: Path, position: int) -> Chain:
        found = last_verification(system)
        if self._is_open and position:
            self._begin(tenant, found)
        return _chain(found, position)

    async def run(self) -> None:
        """Until it is cancelled: only meanwhile anything is verified."""
        self._is_open = True
        try:
            await asyncio.Event().wait()
        finally:
            self._is_open = False
            if self._task is not None:
                self._task.cancel()
                with suppress(asyncio.CancelledError):
                    await self._task

    def _begin(self, tenant: str, found: LastVerification | None) -> None:
        old = OLD_SECONDS if found is None or found.sound else BROKEN_SECONDS
        if self._verify is None or not is_due(found, old):
            return
        if self._task is not None and not self._task.done():
            return
        now = time.monotonic()
        if now - self._tried.get(tenant, -TRIED_SECONDS) < TRIED_SECONDS:
            return
        self._tried[tenant] = now
        self._tried.move_to_end(tenant)
        if len(self._tried) > _TRIED_MAX:
            self._tried.popitem(last=False)
        self._task = asyncio.create_task(self._run(self._verify, tenant, old), name="verification")

    @staticmethod
    async def _run(verify: Callable[[str, float], Awaitable[None]], tenant: str, old: float) -> None:
        try:
            await verify(tenant, old)
        except OSError as error:
            logger.error("a verification could not be begun: %s", error.strerror)


def _chain(found: LastVerification | None, position: int) -> Chain:
    # A log that is shorter than what was verified is another one: put back from a backup, perhaps.
    if found is None or (found.sound and (found.position > position or not found.position)):
        return Chain(status="unverified")
    return Chain(
        status="verified" if found.sound else "broken",
        position=found.position,
        finished=found.finished,
        problem=found.problem,
        file=found.file,
        line=found.line,
    )
