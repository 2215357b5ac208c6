"""The lineage feed, as the core registers it. Most processes forward nothing, so the rest is imported when used."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from tallystick.commits import Commit
from tallystick.config import Settings
from tallystick.projections.registry import OpenedStore, Place, Registered

if TYPE_CHECKING:
    from tallystick.extensions.openlineage.lineage_emitter import Destination, LineageEmitter
    from tallystick.operations.doctor import Finding

TOKEN_VARIABLE = "OPENLINEAGE_API_KEY"
"""Has the token for an endpoint, which is in no file and in no setting."""


@contextmanager
def _prepared(settings: Settings, store: OpenedStore | None) -> Iterator[Callable[[str], Destination | None]]:
    """With one sink for all tenants, in a process that serves and is to hand lineage on."""
    if store is None or not settings.lineage_to:
        yield lambda tenant: None
        return
    from tallystick.extensions.openlineage.emit import kind_before
    from tallystick.extensions.openlineage.lineage_emitter import Destination, SharedSink, sink_for

    loop = asyncio.get_running_loop()
    token = os.environ.get(TOKEN_VARIABLE) or None

    def destination(tenant: str) -> Destination:
        def kind_of(commit: Commit) -> str:
            return asyncio.run_coroutine_threadsafe(kind_before(store(), tenant, commit), loop).result()

        return Destination(sink, kind_of)

    with closing(SharedSink(sink_for(settings.lineage_to, token=token, patience_seconds=0))) as sink:
        yield destination


def _emitter(place: Place) -> LineageEmitter:
    from tallystick.extensions.openlineage.lineage_emitter import LineageEmitter

    if "lineage" not in place.parts:
        raise ValueError("no place is named for events to go to")
    return LineageEmitter(place.home / "_system", place.log, place.parts["lineage"])


LINEAGE = Registered(
    name="lineage",
    make=_emitter,
    closing_seconds=3.0,
    prepare=_prepared,
    hands_on=True,
    hands_on_closed=True,
)


def check_lineage(settings: Settings) -> Iterator[Finding]:
    """Yield what `doctor` reports."""
    if not settings.lineage_to or not settings.has_log:
        return
    from tallystick.extensions.openlineage.lineage_emitter import shown, sink_for, standing
    from tallystick.log.unopened import unopened
    from tallystick.operations.doctor import Finding

    with unopened(settings.system) as log:
        head = log.head
    at, trouble = standing(settings.system, sink_for(settings.lineage_to).target)
    found = f"position {at.lamport} of {head.lamport}, to {shown(settings.lineage_to)}"
    if trouble is not None:
        advice = "nothing is lost: a running server tries again by itself, the next start goes on where it was"
        yield Finding("lineage", f"{found}: {trouble}", "odd", advice)
    else:
        yield Finding("lineage", found)
