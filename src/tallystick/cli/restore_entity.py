"""The command that puts an earlier version of one entity back: restore-entity."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from tallystick.cli.filters import parse_moment
from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import emit, note, say


def restore_entity(
    id: Annotated[str, typer.Argument(metavar="ID", help="Of a node or an edge, also of a deleted one.")],
    as_of: Annotated[
        str,
        typer.Option("--as-of", metavar="MOMENT", help="The version of then: a commit id, a position or a time."),
    ],
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Goes into the log.")] = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Put an earlier version of one entity back.

    By an ordinary commit: what was written since stays in its history, and can be put back in the same way. Edges
    are restored one by one. A version that was redacted is refused, and so is one that a rule of its vocabulary
    forbids now: what it refers to must be there first, and its name free. The version of an atom or a task goes up.

    \b
    Examples:
      tallystick lineage task-7
      tallystick restore-entity task-7 --as-of 41
      tallystick restore-entity task-7 --as-of 2026-03-01T12:00:00Z --reason "deleted by mistake"
    """
    from tallystick import app
    from tallystick.operations.restore_entity import restore_entity as restored

    context = app.operation_context(existing(base=base, tenant=tenant))
    done = asyncio.run(restored(context, id, parse_moment(as_of) or as_of, reason=reason))
    if json:
        emit(done)
        return
    origin = f"the version of position {done.from_position}, written by {done.written_by} at {done.written_at}"
    if done.commit_id is None:
        note(f"{done.kind} '{done.entity}' is {origin}; nothing was changed")
    else:
        say(f"{done.kind} '{done.entity}' is again {origin}; position {done.position}, commit {done.commit_id}")
