"""The tail of the log: the newest commits, and those that follow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing

from tallystick.commits import Commit
from tallystick.engine.store import Store
from tallystick.log import Entry
from tallystick.operations import OperationContext
from tallystick.policy import Principal


async def newest(
    store: Store,
    principal: Principal,
    *,
    limit: int,
    wanted: Callable[[Commit], bool],
    seconds_max: float | None = None,
) -> tuple[list[Entry], int, bool]:
    """Return the last `limit` that are wanted, oldest first, the position up to which it looked, and whether time was
    up before it had them."""
    await store.partition(principal)
    position = store.position(principal)
    found: list[Entry] = []
    is_cut = False
    if limit:
        try:
            async with asyncio.timeout(seconds_max), aclosing(store.commits(principal, newest_first=True)) as entries:
                async for entry in entries:
                    if entry.commit.lamport <= position and wanted(entry.commit):
                        found.append(entry)
                        if len(found) == limit:
                            break
        except TimeoutError:
            is_cut = True
    return found[::-1], position, is_cut


async def find_created(store: Store, principal: Principal, commits: Sequence[Commit]) -> set[int]:
    """The positions of those, of commits that the principal was let read, that made what they are about."""
    with await store.tenants.using(principal.tenant) as partition:
        return await partition.look(lambda state: {each.lamport for each in commits if state.creates(each)})


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
