"""A snapshot on request, so that the next start is quick. Only a cache: any may be deleted."""

from __future__ import annotations

import msgspec

from tallystick.operations import OperationContext
from tallystick.toolsets.derived_indexes import indexes_of


class Snapshot(msgspec.Struct, frozen=True):
    file: str
    bytes: int


async def take_snapshot(context: OperationContext) -> Snapshot:
    """With the derived indexes of the toolsets that are offered."""
    # Opening must not start another one in the background.
    quiet = context.with_settings(msgspec.structs.replace(context.settings, snapshot_every=0))
    async with quiet.open_store() as store:
        partition = await store.partition(quiet.principal)
        for kind in indexes_of(context.settings.toolsets):
            await partition.warm(kind)
        path = await partition.save_snapshot()
    return Snapshot(str(path), path.stat().st_size)
