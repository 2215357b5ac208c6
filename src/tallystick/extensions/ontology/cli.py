"""The ontology on the command line: show it, or begin with a preset."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.options import Base, Json, Tenant, existing, settled
from tallystick.cli.output import emit, note, say, table
from tallystick.cli.tool_client import principal
from tallystick.operations import counted

if TYPE_CHECKING:
    from tallystick.config import Settings

commands = typer.Typer(rich_markup_mode=None, add_completion=False)


@commands.callback(invoke_without_command=True)
def show(context: typer.Context, json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Show the ontology: which types of memories and connections there are.

    \b
    Examples:
      tallystick ontology
      tallystick ontology --json
      tallystick ontology use gtd
      tallystick ontology use software --base ./memory
    """
    if context.invoked_subcommand is not None:
        context.obj = {"base": base, "tenant": tenant, "json": json}
        return
    found = asyncio.run(_defined(existing(base=base, tenant=tenant)))
    if json:
        emit(found)
        return
    say(f"node types: {', '.join(found['node_types']) or '(none)'}")
    rows = [
        (kind["name"], ", ".join(kind["from_types"]), ", ".join(kind["to_types"]), _required(kind))
        for kind in found["connection_types"]
    ]
    if rows:
        table(("connection type", "from", "to", "requires"), rows)


@commands.command("use")
def use(
    context: typer.Context,
    preset: Annotated[str, typer.Argument(metavar="PRESET", help="gtd, research or software.")],
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Define the types of a preset.

    gtd: tasks, states and contexts. software: components, decisions, work. research: questions, sources, claims.
    What the memory has already is kept, what is missing is added; nothing is ever changed.

    \b
    Examples:
      tallystick ontology use gtd
      tallystick ontology use research --base ./memory --json
    """
    outer: dict[str, Any] = context.obj or {}
    settings = settled(base=base or outer.get("base"), tenant=tenant or outer.get("tenant"))
    found = asyncio.run(_used(settings, preset))
    added = found["added"]
    if json or outer.get("json"):
        emit({"preset": preset, **found})
        return
    if added:
        say(f"added {counted(len(added), 'type')}: {', '.join(added)}")
    else:
        say("nothing to add: every type of this preset is there")
    _warn(found)


def _warn(found: dict[str, Any]) -> None:
    """Of what was there before and violates it."""
    rows = [
        (each.get("node_id") or each["connection_id"], each["code"], each["reason"])
        for each in found.get("violations", ())
    ]
    if rows:
        note(f"{found['total']} of what was there before violates it:")
        table(("entity", "code", "reason"), rows)
    if "unchecked" in found:
        note("not everything that was there before could be checked")


async def _defined(settings: Settings) -> dict[str, Any]:
    from tallystick import app
    from tallystick.extensions.ontology.definitions import described
    from tallystick.extensions.ontology.lookup import get_ontology
    from tallystick.policy import Action

    async with app.opened(settings) as store:
        return await store.read(principal(settings), Action.READ, lambda state, _: described(get_ontology(state)))


async def _used(settings: Settings, preset: str) -> dict[str, Any]:
    from tallystick import app
    from tallystick.extensions.ontology.definitions import use_preset
    from tallystick.operations.catch_up import catch_up

    async with app.opened(settings) as store:
        found = await use_preset(store, principal(settings), preset)
    await asyncio.to_thread(catch_up, app.operation_context(settings), ["views"])
    return found


def _required(kind: dict[str, Any]) -> str:
    return ", ".join(kind.get("required_properties", ()))
