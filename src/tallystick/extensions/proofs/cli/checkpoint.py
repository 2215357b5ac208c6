"""Checkpoints on the command line: sign one, and look after the keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.options import Base, Json, Tenant, command_group, existing, settled
from tallystick.cli.output import emit, note, say, table, write
from tallystick.config import FILE_NAME

if TYPE_CHECKING:
    from tallystick.extensions.proofs.keys import KeyFile

commands = command_group("Make, list and rotate the keys that checkpoints are signed with.")
File = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="The key file. [default: the setting checkpoint_key]"),
]


def checkpoint(json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Sign what the log is now, and print it.

    \b
    A checkpoint is three lines and a signature: whose log, how many commits, and the root of the Merkle tree over
    them. Whoever keeps one can tell later whether the log still begins with what was signed:
      tallystick verify --checkpoint FILE --vkey FILE
    The last one is kept in _system/tiles/checkpoint; a log that does not continue it is never signed, and is not
    opened. With a key a server signs by itself, at most once a second.
    The setting witnesses names who is asked to cosign it; with fewer than witness_quorum it leaves with 1.

    \b
    Examples:
      tallystick keys new memory.example/team --file ~/.config/tallystick/checkpoint.key
      tallystick checkpoint > checkpoint-of-today
      tallystick checkpoint --json
    """
    from tallystick import app
    from tallystick.extensions.proofs.checkpoints import sign_checkpoint

    signed = sign_checkpoint(app.operation_context(existing(base=base, tenant=tenant)))
    if json:
        emit(signed)
    else:
        write(signed.note)
        for witness, problem in signed.refused.items():
            note(f"{witness} did not cosign: {problem}")
    if not signed.has_quorum:
        note(f"cosigned by {len(signed.cosigned_by)} of the witnesses, and witness_quorum asks for {signed.quorum}")
        raise typer.Exit(1)


@commands.command("new")
def new(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="What the log is called, such as memory.example/team: no spaces, no plus."),
    ],
    file: File = None,
    witness: Annotated[
        bool, typer.Option("--witness", help="A key to cosign the checkpoints of other logs with.")
    ] = False,
    json: Json = False,
    base: Base = None,
) -> None:
    """Make a key in a file of its own.

    The name is the origin of the log, and stays when keys are rotated. The file must not lie in the base: whoever can
    change the log must not be able to sign it. Prints the verifier key, which is for everybody.

    \b
    Examples:
      tallystick keys new memory.example/team --file ~/.config/tallystick/checkpoint.key
    """
    from tallystick.extensions.proofs.keys import new_key

    settings = settled(base=base)
    made = new_key(settings, name, file, witness=witness)
    _draw_verifiers(made, json)
    if not json and not witness:
        note(f'servers sign with it once {settings.base / FILE_NAME} says checkpoint_key = "{made.file}"')


@commands.command("list")
def list_(file: File = None, json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """List the keys, without what is secret in them.

    \b
    Examples:
      tallystick keys list
      tallystick keys list --file ~/.config/tallystick/checkpoint.key --json
    """
    from tallystick.extensions.proofs.keys import list_keys

    found = list_keys(settled(base=base, tenant=tenant), file)
    if json:
        emit(found)
    else:
        table(
            ("name", "id", "kind", "verifier key"), ((key.name, key.id, key.kind, key.verifier) for key in found.keys)
        )
        if not found.keys:
            note("none is configured: checkpoints are not signed")


@commands.command("rotate")
def rotate(
    finish: Annotated[bool, typer.Option("--finish", help="Keep only the newest key: readers know it by now.")] = False,
    file: File = None,
    json: Json = False,
    base: Base = None,
) -> None:
    """Take up a new key beside the old one, or let the old one go.

    \b
    1. rotate: a new key of the same name is added. After a restart servers sign with both, so that readers who
       know either are satisfied. Give the new verifier key to all who check.
    2. rotate --finish: the old key is removed. Checkpoints that it signed stay valid for who has its verifier key.

    \b
    Examples:
      tallystick keys rotate
      tallystick keys rotate --finish
    """
    from tallystick.extensions.proofs.keys import rotate_keys

    _draw_verifiers(rotate_keys(settled(base=base), file, finish=finish), json)
    if not json:
        note("restart what serves: keys are read at the start")


@commands.command("quantum")
def quantum(file: File = None, json: Json = False, base: Base = None) -> None:
    """Sign with ML-DSA-44, too, which quantum computers do not forge.

    \b
    Adds a second key of the same name to the file: checkpoints then have a second signature line (C2SP type 0x06),
    of 3 KB. Readers who do not know it pass over it, verify_standalone.py among them; who has its verifier key
    has it checked. Receipts are signed with the Ed25519 key alone.

    \b
    Examples:
      tallystick keys quantum
      tallystick keys quantum --file ~/.config/tallystick/checkpoint.key
    """
    from tallystick.extensions.proofs.keys import add_quantum_key

    _draw_verifiers(add_quantum_key(settled(base=base), file), json)
    if not json:
        note("restart what serves: keys are read at the start")


@commands.command("verifier")
def verifier(file: File = None, json: Json = False, base: Base = None, tenant: Tenant = None) -> None:
    """Print the verifier keys: what others need to check our checkpoints.

    \b
    Examples:
      tallystick keys verifier > memory.vkey
      tallystick keys verifier --tenant acme
    """
    from tallystick.extensions.proofs.checkpoints import no_key
    from tallystick.extensions.proofs.keys import list_keys

    settings = settled(base=base, tenant=tenant)
    found = list_keys(settings, file)
    if not found.keys:
        # Whoever redirects this into a file would hand out an empty one.
        raise no_key(settings.base)
    _draw_verifiers(found, json)


def _draw_verifiers(found: KeyFile, json: bool) -> None:
    if json:
        emit(found)
        return
    for key in found.keys:
        say(key.verifier)
