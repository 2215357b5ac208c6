"""The commands for outsiders: prove, and how a proof that was checked is drawn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.options import Base, Json, Tenant, existing
from tallystick.cli.output import Styled, emit, note, require_new, say, write, write_new
from tallystick.errors import InvalidArgument
from tallystick.operations import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallystick.extensions.proofs.prove import CheckedProof, MadeConsistency, MadeInclusion


def prove(
    named: Annotated[
        str | None,
        typer.Argument(metavar="[COMMIT|ENTITY]", help="A commit by id or position, or an entity: its newest commit."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write it. [default: standard output]"),
    ] = None,
    since: Annotated[
        Path | None,
        typer.Option("--since", metavar="CHECKPOINT", help="Prove that the log continues this older checkpoint."),
    ] = None,
    payload: Annotated[
        Path | None,
        typer.Option("--payload", metavar="FILE", help="Also write what the commit says, to be handed over with it."),
    ] = None,
    json: Json = False,
    base: Base = None,
    tenant: Tenant = None,
) -> None:
    """Make a file that shows others that a commit is in this log, or that nothing of it was rewritten since.

    It is checked offline, with the key that the log is signed with, by 'tallystick verify --proof', by
    verify_standalone.py (one file, no installation), or by any program that reads C2SP tlog-proof. It tells who wrote
    the commit, when, how and why, and the hash of what was written: what was written itself only with --payload.

    \b
    Examples:
      tallystick prove task-7 -o task-7.tlog-proof
      tallystick prove 3f9a61c2 -o done.tlog-proof --payload done.json
      tallystick prove --since last-year.checkpoint -o grown.tlog-consistency
    """
    from tallystick import app
    from tallystick.extensions.proofs.checkpoints import sign_if_configured
    from tallystick.extensions.proofs.prove import prove_commit, prove_continuation, read_bounded

    if (named is None) == (since is None) or (since is not None and payload is not None):
        raise InvalidArgument(
            "a proof is of one commit, or since one checkpoint", hint="tallystick prove --help shows both"
        )
    require_new(output)
    require_new(payload)
    context = app.operation_context(existing(base=base, tenant=tenant))
    home = context.settings.home
    sign_if_configured(context)

    async def proved(what: str) -> MadeInclusion:
        async with context.open_store() as store:
            return await prove_commit(store, context.principal, home, what)

    made = asyncio.run(proved(named)) if named is not None else prove_continuation(home, read_bounded(since or Path()))
    _hand_over(made, output, payload, json=json)


def _hand_over(made: MadeInclusion | MadeConsistency, output: Path | None, payload: Path | None, *, json: bool) -> None:
    if payload is not None:
        _write_payload(made, payload)
    if output is not None:
        write_new(output, made.proof)
    if json:
        emit(_shown(made))
    elif output is None:
        write(made.proof.decode())
    else:
        note(f"{output}: {len(made.proof)} bytes, signed by '{made.origin}' over {counted(made.size, 'commit')}")


def _shown(made: Any) -> dict[str, Any]:
    import msgspec

    fields = {name: value for name, value in msgspec.structs.asdict(made).items() if name != "payload"}
    return {**fields, "proof": made.proof.decode()}


def _write_payload(made: Any, path: Path) -> None:
    if made.is_redacted:
        raise InvalidArgument(
            "what this commit wrote was redacted: nobody can show it any more",
            code="REDACTED",
            hint="without --payload the proof says that the commit was made, by whom and when",
        )
    write_new(path, made.payload)


def check(
    proof: Path,
    vkeys: Sequence[Path],
    *,
    since: Path | None,
    checkpoints: Sequence[Path],
    payload: Path | None,
    quorum: int,
    json: bool,
) -> None:
    """`tallystick verify --proof`: needs no memory."""
    from tallystick.commits.signed_note import NoteRefused
    from tallystick.extensions.proofs.proof_file import Trust
    from tallystick.extensions.proofs.prove import check_proof, read_bounded, refuse_split_view
    from tallystick.log.checkpoint import read_verifier_keys

    if not vkeys:
        raise InvalidArgument(
            "a proof says something only to who believes a key",
            hint="name it with --vkey; whoever runs the log prints it with 'tallystick keys verifier'",
        )
    trust = Trust(tuple(key for path in vkeys for key in read_verifier_keys(path)), quorum)
    data = read_bounded(proof)
    said = None if payload is None else read_bounded(payload, _PAYLOAD_BYTES_MAX)
    older = None if since is None else read_bounded(since)
    others = [read_bounded(path) for path in checkpoints]
    try:
        found = check_proof(data, trust, older=older, payload=said)
        refuse_split_view(data, trust, others)
    except NoteRefused as error:
        if json:
            emit({"sound": False, "problem": error.message})
        else:
            say(Styled("FALSE", fg="red", bold=True), f" {proof}: {error.message}")
        raise typer.Exit(1) from None
    emit({"sound": True, **_fields(found)}) if json else _draw(found)


_PAYLOAD_BYTES_MAX = 256 << 20


def _fields(found: CheckedProof) -> dict[str, Any]:
    import msgspec

    fields: dict[str, Any] = {**msgspec.structs.asdict(found)}
    if found.commit is not None:
        # What it wrote is not in the proof.
        fields["commit"] = {
            name: value
            for name, value in msgspec.structs.asdict(found.commit).items()
            if name != "payload" and value is not None
        }
    return fields


def _draw(found: CheckedProof) -> None:
    if found.old is not None:
        say(f"sound: the {found.size} commits of '{found.origin}' begin with the {found.old} of before")
        return
    say(f"sound: commit {found.index} (counted from 0) of the {found.size} that '{found.origin}' signed")
    say(f"record_hash {found.record_hash}")
    if found.commit is not None:
        commit = found.commit
        why = f", because {commit.reason}" if commit.reason else ""
        say(f"{commit.operation} by {commit.actor} at {commit.timestamp}, with {commit.tool}{why}")
        matches = ", which is the payload that was given" if found.payload_matches else ""
        say(f"content_hash {commit.content_hash}{matches}")
