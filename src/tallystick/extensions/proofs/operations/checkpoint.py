"""A checkpoint on request: the log's tree brought to the head, signed, and kept."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

import msgspec

from tallystick.config import FILE_NAME
from tallystick.errors import InvalidArgument, NotFound
from tallystick.extensions.proofs.checkpoints import cosign, sign
from tallystick.extensions.proofs.tiles import read_place
from tallystick.extensions.proofs.witnesses import Witnesses, parse_witnesses
from tallystick.log import tree_directory
from tallystick.log.checkpoint import read_kept
from tallystick.operations import OperationContext
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place


class SignedCheckpoint(msgspec.Struct, frozen=True):
    origin: str
    size: int
    root: str
    """In base64, as the note has it."""
    signed_by: list[str]
    """Verifier keys."""
    file: str
    note: str
    cosigned_by: list[str] = []
    """Witnesses."""
    refused: dict[str, str] = {}
    """By witness: why it did not cosign."""
    quorum: int = 0

    @property
    def has_quorum(self) -> bool:
        return len(self.cosigned_by) >= self.quorum


def sign_checkpoint(context: OperationContext) -> SignedCheckpoint:
    """Of all that is durable now. Backfills the tiles of a log that has none yet. Servers may go on writing.

    Raises InvalidArgument without a key, Corrupt where the log does not continue what was signed last.
    """
    keys = context.checkpoint_keys()
    if not keys:
        raise no_key(context.settings.base)
    home = context.settings.home
    witnesses = Witnesses(parse_witnesses(context.settings.witnesses))
    log = LogReader(context.open_log)
    worker = Follower(Place(home, log)).worker("tiles")
    try:
        with worker.at_head():
            place = read_place(tree_directory(home))
            if place is None:
                raise NotFound("there is no commit yet, and so nothing to sign", code="NO_COMMIT")
            signed = sign(home, place, keys)
            asked = cosign(home, signed, witnesses)
            signed = read_kept(home, [key.verifier for key in keys]) or signed
    finally:
        worker.close()
    return SignedCheckpoint(
        origin=signed.checkpoint.origin,
        size=signed.checkpoint.size,
        root=b64encode(signed.checkpoint.root).decode(),
        signed_by=[str(key.verifier) for key in keys],
        file=signed.source,
        note=signed.written.decode(),
        cosigned_by=[key.name for key in signed.note.signers(witnesses.keys)],
        refused={each.witness: each.problem for each in asked if each.problem is not None},
        quorum=context.settings.witness_quorum,
    )


def no_key(base: Path | None = None) -> InvalidArgument:
    """Where the base lies is told to who sits at the machine, not to agents."""
    file = FILE_NAME if base is None else base / FILE_NAME
    return InvalidArgument(
        "no key is configured to sign with",
        code="NO_CHECKPOINT_KEY",
        hint=f"'tallystick keys new NAME --file FILE' makes one; then name the file by checkpoint_key in {file}",
    )


def sign_if_configured(context: OperationContext) -> SignedCheckpoint | None:
    """Beside something else that was asked for."""
    return sign_checkpoint(context) if context.checkpoint_keys() else None
