"""The tail of the log: the newest commits, and those that follow."""

from __future__ import annotations

from collections.abc import Callable

from tallystick.commits import Commit
from tallystick.log import Entry
from tallystick.operations import OperationContext
from tallystick.store import Store


async def newest(
    context: OperationContext, store: Store, *, limit: int, wanted: Callable[[Commit], bool]
) -> tuple[list[Entry], int]:
    """The last `limit` that are wanted, oldest first, and the position up to which it looked. Reads back until it has
    them."""
    await store.partition(context.principal)
    position = store.position(context.principal)
    found: list[Entry] = []
    if limit:
        async for entry in store.commits(context.principal, newest_first=True):
            if entry.commit.lamport <= position and wanted(entry.commit):
                found.append(entry)
                if len(found) == limit:
                    break
    return found[::-1], position


async def follow(
    context: OperationContext,
    store: Store,
    position: int,
    *,
    wanted: Callable[[Commit], bool],
    show: Callable[[Entry], None],
) -> None:
    """What is written behind a position, by any process. Ends only when it is cancelled."""
    async for entry in store.watch(context.principal, after=position):
        if wanted(entry.commit):
            show(entry)
