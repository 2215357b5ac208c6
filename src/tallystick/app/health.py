"""Whether this process can serve, from what its open logs have observed.

A log that only a new process can write again (`restart_helps`) makes the process not live. Any other trouble of the
server's own tenant makes it not ready, and so does trouble of all other open tenants at once: damage to the log of
one tenant must not take the server from the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from tallystick.app.gauges import open_partitions
from tallystick.config import Settings
from tallystick.engine.partition import Partition
from tallystick.engine.store import Store
from tallystick.log.health import STUCK_SECONDS, Trouble

CHECK_SECONDS = 5.0


def not_live(store: Store) -> str | None:
    troubles = (each.health.trouble for each in open_partitions(store).values())
    return next((_told(each) for each in troubles if each is not None and each.restart_helps), None)


def not_ready(store: Store, tenant: str) -> str | None:
    partitions = open_partitions(store)
    own = partitions.pop(tenant, None)
    others = [_trouble(each) for each in partitions.values()]
    trouble = None if own is None else _trouble(own)
    if trouble is None and others and all(others):
        trouble = others[0]
    return None if trouble is None else _told(trouble)


@asynccontextmanager
async def checked(settings: Settings, store: Store, ended: Callable[[], None] | None = None) -> AsyncIterator[None]:
    """While inside, check the open logs every few seconds. `ended` is called once the process is not live."""
    task = asyncio.create_task(_check(settings, store, ended))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _check(settings: Settings, store: Store, ended: Callable[[], None] | None) -> None:
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        for partition in open_partitions(store).values():
            partition.check(writes=not settings.read_only)
        if ended is not None and not_live(store) is not None:
            ended()
            return


def _trouble(partition: Partition) -> Trouble | None:
    seconds = partition.behind_seconds()
    if seconds > STUCK_SECONDS:
        return Trouble(f"the stream of the log has not been reached for {seconds:.0f} s", "LOG_UNREACHABLE")
    return partition.health.trouble


def _told(trouble: Trouble) -> str:
    return f"{trouble.reason} ({trouble.code})"
