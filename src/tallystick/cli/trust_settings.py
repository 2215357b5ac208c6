"""The command that confirms settings files which a clone or an archive may have brought."""

from __future__ import annotations

import json as json_format
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.options import Json
from tallystick.cli.output import emit, say
from tallystick.errors import Denied, InvalidArgument

if TYPE_CHECKING:
    from tallystick.operations.trust_settings import ExaminedFile


def trust_settings(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="[PATH]", help="A base, a repository or a settings file. [default: the base in use]"),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the confirmed files instead.")] = False,
    revoked: Annotated[bool, typer.Option("--revoke", help="Withdraw the confirmation instead.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Confirm the settings of a memory that lies in a repository.

    A clone or an archive may bring a settings file, so only harmless settings count in one that lies in a repository:
    none that names an address, a file or a command. This shows the rest, asks, and records the file by its path and
    hash in your state directory. A file that changes has to be confirmed again. With --json and without --yes it only
    shows.

    \b
    Examples:
      tallystick trust-settings
      tallystick trust-settings ../shop --json
      tallystick trust-settings --list
      tallystick trust-settings --revoke
    """
    from tallystick.operations.trust_settings import examine_files, settings_directory

    if listed:
        if path is not None or revoked or yes:
            raise InvalidArgument("--list takes no path and no other option but --json")
        _list(json)
        return
    base = settings_directory(path)
    if revoked:
        _revoke(base, json)
        return
    files = examine_files(base)
    pending = [each for each in files if each.ignored]
    if not json:
        _draw(base, pending)
    if pending and (yes or (not json and _asked())):
        _confirm(base, pending, json)
    elif json:
        emit({"base": str(base), "confirmed": [], "files": files})


def _draw(base: Path, pending: list[ExaminedFile]) -> None:
    if not pending:
        say(f"nothing to confirm: every setting in {base} counts")
    for each in pending:
        say(f"{each.path} would set")
        for setting in each.settings:
            if not setting.counts:
                say(f"  {setting.name} = {json_format.dumps(setting.value, default=str)}")


def _asked() -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Denied(
            "confirming needs an answer, and there is no terminal to ask at",
            code="CONFIRMATION_NEEDED",
            hint="read the settings above; --yes confirms them without asking",
        )
    return typer.confirm("Let these count, as long as the file does not change?", err=True)


def _confirm(base: Path, pending: list[ExaminedFile], json: bool) -> None:
    from tallystick.operations.trust_settings import confirm_files, examine_files

    confirm_files(pending, base)
    if json:
        emit({"base": str(base), "confirmed": [each.path for each in pending], "files": examine_files(base)})
        return
    for each in pending:
        say(f"confirmed {each.path}")


def _list(json: bool) -> None:
    from tallystick.operations.trust_settings import list_confirmations

    confirmations = list_confirmations()
    if json:
        emit({"files": confirmations})
        return
    for each in confirmations:
        say(f"{each.state:9}  {each.sha256[:12]}  {each.path}")
    if not confirmations:
        say("no settings file is confirmed")


def _revoke(base: Path, json: bool) -> None:
    from tallystick.operations.trust_settings import revoke

    paths = revoke(base)
    if json:
        emit({"base": str(base), "revoked": paths})
        return
    for each in paths:
        say(f"no longer confirmed: {each}")
    if not paths:
        say(f"no settings file of {base} was confirmed")
