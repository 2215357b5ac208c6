"""The command that connects the clients of a repository to its memory, and takes them off again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.options import Json
from tallystick.cli.output import Styled, emit, note, say, table, write
from tallystick.errors import InvalidArgument
from tallystick.operations import counted

if TYPE_CHECKING:
    from tallystick.extensions.clients.init import FileChange, Machine, Plan, Request

_DOES = {
    "create": "is made",
    "add": "one entry added",
    "update": "our entry brought up to date",
    "present": "is there already",
    "differs": "stays as it is",
    "refused": "is left alone",
    "cut": "our entry taken out",
    "delete": "is removed, as init made it",
    "restore": "as it was before, byte for byte",
    "changed": "is left alone",
}
_LEFT = ("differs",)
"""What is no trouble where something is to be put in, and is where it is to go."""


def init(
    client: Annotated[
        list[str] | None,
        typer.Option("--client", metavar="NAME", help="Only this client; may be repeated. [default: all found]"),
    ] = None,
    user: Annotated[
        bool, typer.Option("--user/--project", help="Your own files, for all projects; or this repository's.")
    ] = False,
    shared: Annotated[
        bool, typer.Option("--shared", help="Use the one memory in your data directory, not one for this repository.")
    ] = False,
    hooks: Annotated[
        bool, typer.Option("--hooks/--no-hooks", help="Also let clients call tallystick-hook, or not.")
    ] = True,
    http: Annotated[
        str, typer.Option("--http", metavar="URL", help="Connect to a server that runs there, instead of starting one.")
    ] = "",
    print_: Annotated[
        bool, typer.Option("--print", help="Print what would be written, for copying, and write nothing.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Take out what was put in. The memory stays.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With --remove: also what somebody has changed since.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Connect the clients that are found to a memory for this repository.

    \b
    Finds Claude Code, Codex, Cursor, VS Code with Copilot, Copilot CLI, Gemini CLI, Antigravity, Windsurf, Zed,
    OpenCode and Claude Desktop; shows the files it would touch, and asks. To each it adds one entry, at its place
    in the text: comments, order and indentation stay. What cannot be read is left alone. A second run changes
    nothing; --remove takes out again exactly what was put in.

    \b
    The memory is made in the directory that git shares between work trees, outside of version control. AGENTS.md,
    and CLAUDE.md where there is one, get a few lines that tell agents to use it.
    With --json nothing is written unless --yes is given too. Leaves with 1 when a file had to be left alone.

    \b
    Examples:
      tallystick init
      tallystick init --client claude --client codex --yes
      tallystick init --print --client zed
      tallystick init --user --no-hooks
      tallystick init --http http://127.0.0.1:8765/mcp
      tallystick init --remove
    """
    from tallystick.extensions.clients.init import Request, carry_out, prepare, this_machine

    if http and not http.startswith(("http://", "https://")):
        raise InvalidArgument(f"'{http}' is no address", hint="for example --http http://127.0.0.1:8765/mcp")
    if force and not remove:
        raise InvalidArgument("--force goes with --remove")
    if print_ and remove:
        raise InvalidArgument("--print shows what would be put in, and goes not with --remove")
    request = Request(
        scope="user" if user else "project", clients=tuple(client or ()), shared=shared, hooks=hooks, url=http
    )
    machine = this_machine()
    if remove:
        _remove(request, machine, force=force, yes=yes, json=json)
        return
    prepared = prepare(request, machine)
    if print_:
        _print(prepared.plan)
        return
    if json:
        _leave(_emitted(carry_out(prepared) if yes else prepared.plan, written=yes))
        return
    _draw(prepared.plan)
    if not prepared.plan.writes:
        say("nothing to do")
    elif _agreed(yes):
        done = carry_out(prepared)
        _draw_done(done)
        _draw_next(done)
        _leave(done)
        return
    _leave(prepared.plan)


def _remove(request: Request, machine: Machine, *, force: bool, yes: bool, json: bool) -> None:
    from tallystick.extensions.clients.init import carry_out_removal, prepare_removal

    prepared = prepare_removal(request, machine)
    edited = [change for change in prepared.plan.changes if change.action == "differs"]
    agreed = {change.file for change in edited if force or (not json and not yes and _agreed_to_lose(change))}
    if agreed:
        prepared = prepare_removal(request, machine, forced=frozenset(agreed))
    if json:
        _leave(_emitted(carry_out_removal(prepared) if yes else prepared.plan, written=yes), *_LEFT)
        return
    _draw(prepared.plan)
    if not prepared.plan.writes:
        say("nothing of ours is here" if not edited else "nothing was taken out")
    if not prepared.plan.writes or _agreed(yes):
        done = carry_out_removal(prepared)
        _draw_done(done)
        if any(change.action == "differs" for change in done.changes):
            say("next: what somebody has changed since stays; 'tallystick init --remove --force' takes it out, too")
        if Path(done.memory).is_dir():
            say(f"the memory itself stays in {done.memory}")
        _leave(done, *_LEFT)


def _agreed(yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidArgument("nothing was written: nobody is there to ask", hint="say --yes, or --print to only look")
    return typer.confirm("Write this?", err=True)


def _agreed_to_lose(change: FileChange) -> bool:
    if not sys.stdin.isatty():
        return False
    note(f"{change.file} was changed since:")
    for line in change.difference.splitlines():
        note(f"  {line}")
    return typer.confirm("Take it out all the same?", err=True)


def _draw(plan: Plan) -> None:
    if plan.found:
        say("found: ", ", ".join(f"{each.title} ({each.because})" for each in plan.found))
    if plan.makes_memory:
        say(f"memory: {plan.memory} is made")
    rows = [(change.file, _DOES[change.action], ", ".join(change.clients), change.reason) for change in plan.changes]
    if rows:
        table(("file", "what", "for", "why"), rows)
    for change in plan.changes:
        for line in change.difference.splitlines() if change.action == "differs" else ():
            say(f"  {line}")
    for each in plan.notes:
        say(f"note: {each}")


def _print(plan: Plan) -> None:
    for change in plan.changes:
        if change.text:
            say(Styled(f"--- {change.file} ({', '.join(change.clients)})", bold=True))
            write(change.text.rstrip("\n") + "\n\n")
        else:
            say(f"--- {change.file}: {_DOES[change.action]} {change.reason}")
    for each in plan.notes:
        note(f"note: {each}")


def _draw_done(plan: Plan) -> None:
    from tallystick.extensions.clients.init import WRITING

    written = sum(change.action in WRITING for change in plan.changes)
    if written:
        say(f"{counted(written, 'file')} written")
    for change in plan.changes:
        if change.action in ("refused", "changed"):
            say(Styled("left alone:", fg="yellow"), f" {change.file}: {change.reason}", err=True)


def _draw_next(plan: Plan) -> None:
    from tallystick.extensions.clients.table import CLIENTS

    touched = {name for change in plan.changes for name in change.clients}
    left = {name for change in plan.changes if change.action in ("refused", "changed") for name in change.clients}
    if left:
        say("next: put right what was left alone, then run 'tallystick init' again")
    for each in CLIENTS:
        if each.name in touched - left and each.next_step and (plan.scope == "project" or each.project is None):
            say(f"next: {each.title}: {each.next_step}")
    say("'tallystick doctor' looks whether all of it is in place")


def _emitted(plan: Plan, *, written: bool) -> Plan:
    import msgspec

    emit({**msgspec.to_builtins(plan), "written": written})
    return plan


def _leave(plan: Plan, *bad: str) -> None:
    if any(change.action in ("refused", "changed", *bad) for change in plan.changes):
        raise typer.Exit(1)
