"""Emission: every commit handed on as OpenLineage events, from where it ended last time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import cast

import msgspec

from tallystick.commits import Commit
from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.extensions.openlineage.lineage_emitter import Destination, LineageEmitter, shown, sink_for
from tallystick.operations import OperationContext
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place
from tallystick.state.state import State

_POLL_SECONDS = 0.2
_RETRY_SECONDS = 5.0


class Emitted(msgspec.Struct, frozen=True):
    events: int
    position: int
    target: str


async def emit(
    context: OperationContext,
    to: str,
    *,
    token: str | None = None,
    batch: int = 1,
    follows: bool = False,
    again: bool = False,
    retrying: Callable[[TallystickError], None] = lambda error: None,
) -> Emitted:
    """Up to the head; with `follows` without end: an endpoint that is away is told to `retrying` and tried again.

    With `again` from the first commit on. An event arrives at least once.
    """
    stop = threading.Event()

    def pause(seconds: float) -> None:
        if stop.wait(seconds):
            raise _Stopped

    sink = sink_for(to, token=token, together=batch, pause=pause)
    loop = asyncio.get_running_loop()
    async with context.open_store() as store:

        def kind_of(commit: Commit) -> str:
            return asyncio.run_coroutine_threadsafe(kind_before(store, context.settings.tenant, commit), loop).result()

        parts = {"lineage": Destination(sink, kind_of)}
        worker = Follower(Place(context.settings.home, LogReader(context.open_log), parts=parts)).worker("lineage")
        emitter = cast(LineageEmitter, worker.projection)
        try:
            if again:
                emitter.reset()
            await asyncio.to_thread(worker.catch_up)
            while follows:
                await asyncio.sleep(_POLL_SECONDS)
                try:
                    await asyncio.to_thread(worker.catch_up)
                except TallystickError as error:
                    retrying(error)
                    await asyncio.sleep(_RETRY_SECONDS)
        finally:
            stop.set()
            sink.close()
        return Emitted(emitter.emitted, emitter.position().lamport, shown(sink.target))


async def kind_before(store: Store, tenant: str, commit: Commit) -> str:
    """The type of a node when this commit deleted or redacted it. No policy is asked: nobody asks for the node."""

    def look(state: State) -> str:
        node_id = commit.document()["node_id"]
        before = state.node(node_id, state.resolve(commit.lamport) - 1)
        if before is not None:
            return before.type
        known = state.lineage(node_id, "direct", 0, 0)
        return known.type if known is not None else "node"

    with await store.tenants.using(tenant) as partition:
        return await partition.look(look, min_position=commit.lamport)


class _Stopped(Exception):
    """While it waited to try again."""
