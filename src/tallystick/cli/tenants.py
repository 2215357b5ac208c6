"""The tenants on the command line: list them, look at one, delete one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tallystick.cli.options import Base, Json, command_group, settled
from tallystick.cli.output import emit, note, say, table
from tallystick.errors import InvalidArgument

if TYPE_CHECKING:
    from tallystick.operations.tenants import Tenant

commands = command_group("List, look at and delete the memories of tenants.")
Name = Annotated[str, typer.Argument(metavar="TENANT", help="Its name; 'tallystick tenants list' tells them.")]


@commands.command("list")
def list_(json: Json = False, base: Base = None) -> None:
    """List the tenants that have a memory in this base.

    \b
    Examples:
      tallystick tenants list
      tallystick tenants list --base ./memory --json
    """
    from tallystick import app
    from tallystick.operations.tenants import contexts_of, describe

    found = [describe(context) for context in contexts_of(app.operation_context(settled(base=base)))]
    if json:
        emit({"tenants": found})
        return
    names = ("tenant", "commits", "position", "bytes", "open_in", "home")
    rows = ([each[name] for name in names] for each in map(_cells, found))
    table([name.replace("_", " ") for name in names], rows)
    if not found:
        note("there is none yet: a tenant begins with its first write")


@commands.command("show")
def show(tenant: Name, json: Json = False, base: Base = None) -> None:
    """Tell what the memory of one tenant holds and who has it open.

    \b
    Examples:
      tallystick tenants show acme
    """
    from tallystick import app
    from tallystick.operations.tenants import describe

    found = describe(app.operation_context(settled(base=base, tenant=tenant)))
    if json:
        emit(found)
    else:
        table(("", tenant), ((name.replace("_", " "), value) for name, value in _cells(found).items()))


@commands.command("delete")
def delete(
    tenant: Name,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="For the audit log.")] = "deleted by operator",
    yes: Annotated[bool, typer.Option("--yes", help="Do it, and do not ask. It cannot be brought back.")] = False,
    json: Json = False,
    base: Base = None,
) -> None:
    """Erase everything of one tenant: log, snapshots, indexes, contents, audit log.

    Refused while a server has it open. The audit log of the default tenant keeps that it was done, by whom and why.
    Backups are not touched; the report names those that 'tallystick export' made.

    \b
    Examples:
      tallystick tenants delete acme
      tallystick tenants delete acme --reason "contract ended" --yes --json
    """
    from tallystick import app
    from tallystick.operations import tenants

    # Without the database that the settings place elsewhere: that is of the tenant they name.
    context = app.operation_context(settled(base=base)).for_tenant(settled(base=base, tenant=tenant).tenant)
    found = tenants.describe(context)
    if not yes:
        note(f"{tenant}: {found.commits} commits, {found.files} files, {found.bytes} bytes in {found.home}")
        if typer.prompt("To erase all of it, type its name", default="", show_default=False, err=True) != tenant:
            raise InvalidArgument("nothing was erased", hint="type the name as it is, or add --yes")
    done = tenants.delete(context, reason=reason)
    if json:
        emit(done)
        return
    say(f"{done.tenant} is erased: {done.commits} commits, {done.files} files, {done.bytes} bytes")
    for backup in done.backups_left:
        note(f"still in the backup {backup.target} of {backup.at} ({backup.id})")
    if done.graph_left:
        note(f"left: {done.graph_left}; delete it there")
    if done.database_left:
        note(f"{done.database_left} is not below the base and was left: remove it if it is this tenant's")


def _cells(tenant: Tenant) -> dict[str, object]:
    return msgspec.structs.asdict(tenant) | {"open_in": ", ".join(map(str, tenant.open_in)) or "none seen"}
