"""The wiring: everything is built from Settings here, and nowhere else."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tallystick import __version__
from tallystick.config import Settings
from tallystick.log.files import FilesLog
from tallystick.partition import Limits, Partition
from tallystick.policy import Principal
from tallystick.policy.single_user import SingleUser
from tallystick.server import Offer
from tallystick.server.dispatch import choose
from tallystick.snapshots import Snapshots
from tallystick.store import Store
from tallystick.toolsets import Toolset, memory


def toolsets(settings: Settings) -> tuple[Toolset, ...]:
    """Every vocabulary there is, whether it is offered or not."""
    return (memory.toolset(hops_max=settings.max_hops),)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Store]:
    """The store over the base directory; closed with what was handed in safely in the log."""

    async def open_partition(tenant: str) -> Partition:
        return await _open_partition(msgspec.structs.replace(settings, tenant=tenant))

    store = Store(open_partition, SingleUser())
    try:
        yield store
    finally:
        await store.close()


def serve_stdio(settings: Settings) -> None:
    from tallystick.server.mcp import serve_stdio as serve

    async def run() -> None:
        async with opened(settings) as store:
            await serve(_offer(settings, store))

    asyncio.run(run())


def serve_http(settings: Settings, *, host: str, port: int, announce: Callable[[str, int], None]) -> None:
    """Until SIGINT or SIGTERM. `announce` is told the address once clients can connect."""
    import uvloop

    from tallystick.server.http import http_app, run_http

    async def run() -> None:
        async with opened(settings) as store:
            # A log that cannot be opened is said now, not at the first call.
            await store.partition(_local_user(settings))
            application = http_app(
                _offer(settings, store), hosts=[host, *settings.http_hosts], origins=settings.http_origins
            )
            await run_http(application, host=host, port=port, announce=announce)

    uvloop.run(run())


async def take_snapshot(settings: Settings) -> Path:
    async with opened(msgspec.structs.replace(settings, snapshot_every=0)) as store:
        return (await store.partition(_local_user(settings))).save_snapshot()


async def _open_partition(settings: Settings) -> Partition:
    log = FilesLog(settings.system, segment_bytes_max=settings.segment_bytes_max)
    partition = Partition(
        log,
        tenant=settings.tenant,
        snapshots=Snapshots(
            settings.system / "snapshots", every=settings.snapshot_every, take=lambda: _snapshot_elsewhere(settings)
        ),
        limits=Limits(settings.group_drafts_max, settings.group_bytes_max),
    )
    await partition.open()
    # What was loaded stays: a full collection over it would stop the world for seconds.
    gc.collect()
    gc.freeze()
    return partition


def _snapshot_elsewhere(settings: Settings) -> None:
    """By a process of its own: encoding a large state would hold up every caller of this one."""
    command = [sys.executable, "-m", "tallystick", "snapshot", "--base", str(settings.base)]
    subprocess.Popen(
        [*command, "--tenant", settings.tenant],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _offer(settings: Settings, store: Store) -> Offer:
    user = _local_user(settings)

    def principal_of(request: Any) -> Principal:
        return user

    return Offer(
        tools=choose(
            toolsets(settings),
            names=settings.toolsets,
            tools=settings.tools or None,
            read_only=settings.read_only,
        ),
        store=store,
        principal_of=principal_of,
        version=__version__,
        tool_names=settings.tool_names,
        validation_errors=settings.validation_errors,
        body_bytes_max=settings.body_bytes_max,
        position=lambda: store.position(user),
    )


def _local_user(settings: Settings) -> Principal:
    return Principal(actor=settings.agent_identity, tenant=settings.tenant)
