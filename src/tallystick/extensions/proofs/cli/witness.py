"""The command that witnesses the logs of others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from tallystick.cli.options import settled
from tallystick.cli.output import note


def witness(
    key: Annotated[
        Path, typer.Option("--key", metavar="FILE", help="Our key, made with 'tallystick keys new --witness'.")
    ],
    logs: Annotated[
        Path, typer.Option("--logs", metavar="FILE", help="The verifier keys of the logs to witness, one a line.")
    ],
    state: Annotated[
        Path, typer.Option("--state", metavar="DIR", help="Where to keep what was seen last of each log.")
    ],
    http: Annotated[str, typer.Option("--http", metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:8766",
) -> None:
    """Cosign the checkpoints of other memories, if they were only added to.

    \b
    A witness remembers the last checkpoint of each log and cosigns a later one only with a proof that it continues
    that one. So nobody can be shown another history than everybody else, unless witnesses and log are in league.
    It holds nothing of what the logs say; any machine that is not the log's will do. It speaks C2SP tlog-witness,
    at POST /add-checkpoint. Do not restore --state from an old copy: a witness must not forget.

    \b
    Examples:
      tallystick keys new witness.example/ada --witness --file ~/.config/tallystick/witness.key
      tallystick witness --key ~/.config/tallystick/witness.key --logs team.vkey --state ~/witness
      tallystick witness --key witness.key --logs team.vkey --state ./seen --http 0.0.0.0:8766
    """
    from tallystick.cli.serving import parse_address
    from tallystick.extensions.proofs.keys import read_key_file
    from tallystick.extensions.proofs.routes.witness import PATH, serve_witness
    from tallystick.extensions.proofs.witness import Witness
    from tallystick.log.checkpoint import read_verifier_keys

    settled()
    keys = read_key_file(key.expanduser().absolute(), base=state)
    witness = Witness(state, keys, read_verifier_keys(logs))
    host, port = parse_address(http)

    def announce(host: str, port: int) -> None:
        note(f"witness at http://{f'[{host}]' if ':' in host else host}:{port}{PATH}")
        for each in keys:
            note(f"  verifier key  {each.verifier}")

    asyncio.run(serve_witness(witness, host=host, port=port, announce=announce))
