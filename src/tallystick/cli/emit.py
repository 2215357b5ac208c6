"""The command that hands lineage on: emit."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import emit as print_json
from tallystick.cli.output import note
from tallystick.errors import TallystickError
from tallystick.operations import counted

if TYPE_CHECKING:
    from tallystick.commits import Commit
    from tallystick.config import Settings
    from tallystick.projections.follower import Follower
    from tallystick.projections.lineage_emitter import Sink

_POLL_SECONDS = 0.2
_TRY_AGAIN_SECONDS = 5.0


def emit(
    to: Annotated[
        str, typer.Option("--to", metavar="FILE|URL", help="A file to append to, or an endpoint to POST to.")
    ],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Begin with the first commit, whatever was emitted before.")
    ] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, max=1000, help="Events in a POST; more than one are sent as an array.")
    ] = 1,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Hand every commit on as OpenLineage events.

    Goes on where it ended last time: each place has a position of its own. An event arrives at least once; after a
    crash the last ones arrive again. Events tell who, what, when and in which run; they never carry attributes.
    An endpoint that wants a token finds it in the environment: OPENLINEAGE_API_KEY.

    \b
    Examples:
      tallystick emit --to lineage.jsonl
      tallystick emit --to http://localhost:5000/api/v1/lineage --follow
      tallystick emit --to lineage.jsonl --again
    """
    from tallystick import app
    from tallystick.projections.lineage_emitter import shown, sink_for

    settings = existing(base=base, tenant=tenant)
    stop = threading.Event()

    def pause(seconds: float) -> None:
        if stop.wait(seconds):
            raise _Stopped

    sink = sink_for(to, token=os.environ.get(app.LINEAGE_TOKEN_VARIABLE) or None, together=batch, pause=pause)
    emitted, position = asyncio.run(_emit(settings, sink, stop, follow=follow, again=again))
    if json:
        print_json({"events": emitted, "position": position, "target": shown(sink.target)})
    else:
        note(f"{counted(emitted, 'event')} to {shown(sink.target)}, up to position {position}")


async def _emit(settings: Settings, sink: Sink, stop: threading.Event, *, follow: bool, again: bool) -> tuple[int, int]:
    from tallystick import app
    from tallystick.log.files import FilesLog
    from tallystick.projections.lineage_emitter import follow as follow_with

    loop = asyncio.get_running_loop()
    async with app.opened(settings) as store:

        def kind_of(commit: Commit) -> str:
            return asyncio.run_coroutine_threadsafe(app.kind_before(store, settings.tenant, commit), loop).result()

        emitter, follower = follow_with(settings.system, lambda: FilesLog(settings.system), sink, kind_of)
        try:
            if again:
                emitter.reset()
            await asyncio.to_thread(follower.catch_up)
            while follow:
                await asyncio.sleep(_POLL_SECONDS)
                await _go_on(follower)
        finally:
            stop.set()
            sink.close()
        return emitter.emitted, emitter.position().lamport


async def _go_on(follower: Follower) -> None:
    """An endpoint that is away for long ends nothing: there is nobody to start it again."""
    try:
        await asyncio.to_thread(follower.catch_up)
    except TallystickError as error:
        note(f"{error.message} [{error.code}]; trying again")
        await asyncio.sleep(_TRY_AGAIN_SECONDS)


class _Stopped(Exception):
    """While it waited to try again."""
