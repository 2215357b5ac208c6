"""A snapshot on request, so that the next start is quick. Only a cache: any may be deleted."""

from __future__ import annotations

import asyncio

import msgspec

from tallystick.extensions.proofs.operations.checkpoint import sign_if_configured
from tallystick.operations import OperationContext
from tallystick.toolsets.derived_indexes import indexes_of


class Snapshot(msgspec.Struct, frozen=True):
    file: str
    bytes: int


async def take_snapshot(context: OperationContext) -> Snapshot:
    """With the derived indexes of the toolsets that are offered. Where a key is configured, what the log is then is
    signed, too."""
    # Opening must not start another one in the background.
    quiet = context.with_settings(msgspec.structs.replace(context.settings, snapshot_every=0))
    async with quiet.open_store() as store:
        partition = await store.partition(quiet.principal)
        for kind in indexes_of(context.settings.toolsets):
            await partition.warm(kind)
        path = await partition.save_snapshot()
    await asyncio.to_thread(sign_if_configured, context)
    return Snapshot(str(path), path.stat().st_size)
