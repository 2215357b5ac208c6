"""The command that takes trust back: recall."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import emit, note, table
from tallystick.errors import InvalidArgument

if TYPE_CHECKING:
    from tallystick.operations.recall import Recalled, Undone


def recall(
    actor: Annotated[
        str | None, typer.Option("--actor", metavar="NAME", help="What this one wrote, and what came of it.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="With --actor: from then on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="With --actor: before then.")] = None,
    commit: Annotated[
        str | None,
        typer.Option("--commit", metavar="ID", help="What this commit wrote, with all that its call wrote."),
    ] = None,
    hops: Annotated[
        int, typer.Option("--hops", min=0, max=100, help="How far to follow what came of it; 0: not at all.")
    ] = 3,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; readers are told. Needed with --yes.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Mark what was listed as untrusted.")] = False,
    undo: Annotated[
        str | None, typer.Option("--undo", metavar="RECALL", help="Trust again what this recall named.")
    ] = None,
    redo: Annotated[
        str | None, typer.Option("--redo", metavar="RECALL", help="Take it back again: the inverse of --undo.")
    ] = None,
    entity: Annotated[
        list[str] | None,
        typer.Option("--entity", metavar="ID", help="With --undo, --redo: only this; may be given several times."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the recalls there are.")] = False,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Take back trust in what an agent wrote, and in what came of it.

    Lists every entity that the actor or the commit wrote, and what followed: what points to it since, names it
    in evidence or attributes, or was written in the same run or job. Nothing is changed without --yes.
    Then one draft marks all of them: memory.read, memory.search and memory.lineage answer as before, and say
    'untrusted' with the reason, until the recall is undone, as a whole or for single entities.

    \b
    Examples:
      tallystick recall --actor crawler --since 2026-03-01
      tallystick recall --actor crawler --since 2026-03-01 --reason "poisoned pages" --yes
      tallystick recall --commit 3f5a… --hops 0
      tallystick recall --list
      tallystick recall --undo recall_9c1f02ab77d4 --entity page_12 --entity page_14 --reason "checked by hand"
      tallystick recall --redo recall_9c1f02ab77d4 --entity page_14
      tallystick recall --undo recall_9c1f02ab77d4
    """
    _check_asked(
        one_of=(actor, commit, undo, redo, list_ or None), of_actor=actor, since=since or until, yes=yes, reason=reason
    )
    if entity and undo is None and redo is None:
        raise InvalidArgument("--entity goes with --undo and --redo")
    from tallystick import app
    from tallystick.operations import recall as recalls

    context = app.operation_context(existing(base=base, tenant=tenant))
    if list_:
        _draw_recalls(asyncio.run(recalls.list_recalls(context)), json=json)
    elif undo is not None:
        _draw_undone(asyncio.run(recalls.undo(context, undo, entity or [], reason)), json=json)
    elif redo is not None:
        _draw_undone(asyncio.run(recalls.redo(context, redo, entity or [], reason)), json=json)
    else:
        sought = recalls.Sought(actor, since, until, commit)
        found = recalls.recall(context, sought, hops=hops, reason=reason if yes else None)
        _draw(asyncio.run(found), json=json)


def _check_asked(
    *, one_of: tuple[object, ...], of_actor: str | None, since: str | None, yes: bool, reason: str | None
) -> None:
    if sum(each is not None for each in one_of) != 1:
        raise InvalidArgument("one of --actor, --commit, --undo, --redo and --list is needed, and only one")
    if since is not None and of_actor is None:
        raise InvalidArgument("--since and --until go with --actor")
    if yes and not reason:
        raise InvalidArgument("--yes needs a --reason: whoever reads what is untrusted is told why")


def _draw(found: Recalled, *, json: bool) -> None:
    if json:
        emit(found)
        return
    rows = ((each.hops, each.id, each.type, each.because) for each in found.entities)
    table(("hops", "entity", "type", "because"), rows)
    written = sum(1 for each in found.entities if each.hops == 0)
    note(f"{written} written, {len(found.entities) - written} derived")
    if found.recall:
        note(f"all of them are untrusted now; to take that back: tallystick recall --undo {found.recall}")
    elif found.entities:
        note("nothing was changed; to mark them as untrusted add --reason and --yes")


def _draw_undone(done: Undone, *, json: bool) -> None:
    if json:
        emit(done)
    else:
        what = ", ".join(done.entities) or "what it named"
        said = "trusted again, unless another recall names it" if done.trusted else "untrusted again"
        note(f"{done.recall}: {what}: {said}")


def _draw_recalls(found: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        emit({"recalls": found})
        return
    names = ("recall", "status", "entities", "cleared", "reason")
    table(names, ([each.get(name) for name in names] for each in found))
