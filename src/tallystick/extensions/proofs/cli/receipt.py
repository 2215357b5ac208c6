"""Receipts on the command line: of a task that is done, and checking one that somebody handed over."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from tallystick.cli.options import HELP, Base, Json, Tenant, VerifierKeys, existing
from tallystick.cli.output import Styled, emit, note, say, visible
from tallystick.errors import InvalidArgument

if TYPE_CHECKING:
    from tallystick.extensions.proofs.receipt import CheckedReceipt, Evidence
    from tallystick.extensions.proofs.receipts import MadeReceipt

_MAKE = "make"


class _TaskFirst(TyperGroup):
    """`tallystick receipt TASK` is `tallystick receipt make TASK`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [_MAKE, *args]
        return super().parse_args(ctx, args)


commands = typer.Typer(
    cls=_TaskFirst,
    help="Hand over that a task was done as a file, and check such files. 'receipt TASK' is 'receipt make TASK'.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    context_settings=HELP,
)


@commands.command(_MAKE)
def make(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The id of a work node that is resolved.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where to write the two files.")
    ] = Path(),
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Write the receipt of a task: TASK.receipt.json and TASK.tlog-proof.

    The receipt is an in-toto Statement in a DSSE envelope, signed with the keys that checkpoints are signed with: the
    task, who did it and when, its evidence, what was read for it while it was claimed (ids, from the audit log), the
    policy that allowed it, and its log entry. The proof shows that entry in the signed log. Nobody needs this memory
    to check them.

    \b
    Examples:
      tallystick receipt kT4mPzqLw2
      tallystick receipt kT4mPzqLw2 -o ./receipts
    """
    from tallystick import app
    from tallystick.extensions.proofs.checkpoints import sign_checkpoint
    from tallystick.extensions.proofs.receipts import make_receipt, write_receipt

    context = app.operation_context(existing(base=base, tenant=tenant))
    # Also says what to do where there is no key.
    sign_checkpoint(context)

    async def made() -> MadeReceipt:
        async with context.open_store() as store:
            audit = context.open_audit().directory
            keys = context.checkpoint_keys()
            return await make_receipt(store, context.principal, context.settings.home, audit, keys, task)

    found = asyncio.run(made())
    files = write_receipt(found, output)
    if json:
        emit({"task": found.task, "files": [str(path) for path in files], "completion": found.completion})
        return
    for path in files:
        say(str(path))
    for reason in found.completion.cites_unknown:
        note(f"what was read for it may be more than it says: {reason}")


@commands.command("verify")
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The receipt.")],
    vkeys: VerifierKeys = None,
    proof: Annotated[
        Path | None,
        typer.Option("--proof", metavar="FILE", help="The proof of its log entry. [default: the file beside it]"),
    ] = None,
    task: Annotated[str | None, typer.Option("--task", metavar="TASK", help="Whose receipt it must be.")] = None,
    quorum: Annotated[int, typer.Option("--quorum", min=0, help="Witnesses that must have cosigned the log.")] = 0,
    json: Json = False,
) -> None:
    """Check a receipt, offline: needs its two files and the verifier key of the log, and no memory.

    \b
    Examples:
      tallystick receipt verify kT4mPzqLw2.receipt.json --vkey memory.vkey
      tallystick receipt verify done.json --proof done.tlog-proof --task kT4mPzqLw2 --vkey memory.vkey
    """
    from tallystick.commits.dsse import ENVELOPE_BYTES_MAX
    from tallystick.commits.signed_note import NoteRefused
    from tallystick.extensions.proofs.proof_file import Trust
    from tallystick.extensions.proofs.prove import read_bounded
    from tallystick.extensions.proofs.receipt import check_receipt
    from tallystick.extensions.proofs.receipts import PROOF, RECEIPT
    from tallystick.log.checkpoint import read_verifier_keys

    if not vkeys:
        raise InvalidArgument(
            "a receipt says something only to who believes a key",
            hint="name it with --vkey; whoever runs the log prints it with 'tallystick keys verifier'",
        )
    trust = Trust(tuple(key for path in vkeys for key in read_verifier_keys(path)), quorum)
    data = read_bounded(file, ENVELOPE_BYTES_MAX)
    beside = proof or file.with_name(file.name.removesuffix(RECEIPT) + PROOF)
    shown = read_bounded(beside) if proof is not None or beside.exists() else None
    try:
        found = check_receipt(data, shown, trust, task=task)
    except NoteRefused as error:
        if json:
            emit({"sound": False, "problem": error.message})
        else:
            say(Styled("FALSE", fg="red", bold=True), f" {file}: {error.message}")
            if error.hint:
                note(error.hint)
        raise typer.Exit(1) from None
    emit({"sound": True, **_fields(found)}) if json else _draw(found)


def _fields(found: CheckedReceipt) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(found)


def _draw(found: CheckedReceipt) -> None:
    said = found.completion
    say(f"sound: entry {said.log.index} (counted from 0) of the {found.size} that '{said.log.origin}' signed")
    say(Styled(said.task.summary, bold=True), f"  {said.task.id}")
    claimed = f", claimed at {said.claimed_on}" if said.claimed_on else ""
    say(f"  resolved by {said.agent} at {said.resolved_on}{claimed}, allowed by {said.policy.version}")
    for each in said.evidence:
        say(f"  {_evidence(each)}")
    for cited in said.cites:
        say(f"  read {cited.id} as of position {cited.position}")
    for reason in said.cites_unknown:
        say(f"  more may have been read: {reason}")


def _evidence(each: Evidence) -> str:
    digest = "".join(f" {name}:{value}" for name, value in (each.digest or {}).items())
    result = f" {each.result}" if each.result else ""
    return visible(f"{each.type}: {each.ref}{result}{digest}")
