"""The command that hands lineage on: emit."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import typer

from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import emit as print_json
from tallystick.cli.output import note
from tallystick.operations import counted


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
    from tallystick.extensions.openlineage.emit import emit as emitted
    from tallystick.extensions.openlineage.registered import TOKEN_VARIABLE

    context = app.operation_context(existing(base=base, tenant=tenant))
    token = os.environ.get(TOKEN_VARIABLE) or None
    done = asyncio.run(
        emitted(
            context,
            to,
            token=token,
            batch=batch,
            follows=follow,
            again=again,
            retrying=lambda error: note(f"{error.message} [{error.code}]; trying again"),
        )
    )
    if json:
        print_json(done)
    else:
        note(f"{counted(done.events, 'event')} to {done.target}, up to position {done.position}")
