"""Moving a memory on the command line: into a stream of NATS, to another stream, or back to files."""

from __future__ import annotations

from typing import Annotated

import typer

from tallystick.cli.options import Base, Json, settled
from tallystick.cli.output import emit, note, progress, say, table
from tallystick.errors import InvalidArgument


def migrate(
    to: Annotated[
        str, typer.Option("--to", metavar="URL|file", help="nats://… of the servers, or 'file' for files of this base.")
    ],
    stream: Annotated[
        str | None, typer.Option("--stream", metavar="NAME", help="Which stream there; log_stream by default.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="Only this one; by default all of the base.")
    ] = None,
    json: Json = False,
    base: Base = None,
) -> None:
    """Move this memory to NATS servers that several machines share, to another stream of them, or back to files.

    Stop the servers of this base before. Everything is compared when it is there; until then nothing here changes,
    and a try that was cut off is continued by the next. The target must be empty, or hold the beginning of this very
    log. Afterwards set log_url (and log_streams) to where the memory is, on every machine.

    \b
    Examples:
      tallystick migrate --to nats://n1:4222,nats://n2:4222,nats://n3:4222
      tallystick migrate --to nats://n1:4222 --tenant acme --stream tally-1
      tallystick migrate --to file
    """
    from tallystick import app
    from tallystick.extensions.cluster.migrate import FILE, migrate, migrate_all

    if to != FILE and not to.startswith(("nats://", "tls://")):
        raise InvalidArgument(f"--to is {to!r}: expected nats://…, tls://… or 'file'")
    with progress() as tell:
        if tenant is None:
            found = migrate_all(app.operation_context(settled(base=base)), to, stream=stream, progress=tell)
        else:
            context = app.operation_context(settled(base=base, tenant=tenant))
            found = [migrate(context, to, stream=stream, progress=tell)]
    if json:
        emit({"migrated": found})
        return
    rows = ([each.tenant, each.source, each.target, each.commits, each.position, each.bytes] for each in found)
    table(("tenant", "from", "to", "commits", "position", "bytes"), rows)
    if not found:
        note("there is nothing to move")
    elif to == FILE:
        say("now take log_url out of the settings")
    else:
        say("now set log_url to these servers in the settings of every machine")
