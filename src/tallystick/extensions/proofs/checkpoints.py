"""Sign checkpoints: what the log was at a moment, in a note that others can keep and check.

The last one lies in `_system/tiles/checkpoint`, where static servers serve it. Only who holds the lock of the tiles
signs, and only a tree that the tiles prove to begin with the one signed last: nobody who compares two checkpoints of
this log finds that they differ. `tallystick.log.checkpoint` reads them, and compares a log with them.
"""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from tallystick.commits.signed_note import Checkpoint, Note, SignerKey, parse_note
from tallystick.commits.tree import consistency_proof, root, verify_consistency
from tallystick.config import FILE_NAME
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound, StorageRefused
from tallystick.extensions.proofs.tiles import SIGNED_EVERY_SECONDS, Place, Tiles, TilesProjection, read_place
from tallystick.extensions.proofs.witnesses import Asked, Witnesses, parse_witnesses
from tallystick.log import Entry, Head, Log, checkpoint_path, tree_directory
from tallystick.log.checkpoint import Known, behind, beside, read_kept
from tallystick.operations import OperationContext
from tallystick.projections import registry
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.system.private_files import replace_file

WITNESSED_EVERY_SECONDS = 10.0
"""With witnesses a checkpoint stands for so long: most of the time it has their cosignatures."""

logger = logging.getLogger(__name__)

# -- signing


class SignedTiles:
    """The tiles, with a checkpoint of them. Whoever calls holds their lock."""

    def __init__(
        self,
        home: Path,
        keys: Sequence[SignerKey],
        witnesses: Witnesses | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._tiles = TilesProjection(home)
        self.name = self._tiles.name
        self._home = home
        self._keys = keys
        self._witnesses = witnesses
        self._every_seconds = SIGNED_EVERY_SECONDS if witnesses is None else WITNESSED_EVERY_SECONDS
        self._asked_at = -WITNESSED_EVERY_SECONDS
        self._problems: dict[str, str | None] = {}
        self._now = now

    def position(self) -> Head:
        return self._tiles.position()

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        self._tiles.apply(entries, head)

    def reset(self) -> None:
        self._tiles.reset()

    def close(self) -> None:
        self._tiles.close()

    def settle(self, *, final: bool = False) -> float | None:
        """Signs what is new, unless that was done a moment ago, by whichever process. Raises as `sign` does."""
        place = read_place(self._tiles.directory)
        if place is None:
            return None
        wait = 0.0 if final else self._wait_seconds()
        if wait > 0:
            return wait
        known = sign(self._home, place, self._keys)
        if self._witnesses is not None and (final or self._now() - self._asked_at >= WITNESSED_EVERY_SECONDS):
            self._asked_at = self._now()
            self._tell(cosign(self._home, known, self._witnesses))
        return None

    def _tell(self, asked: Sequence[Asked]) -> None:
        """Once, and not with every checkpoint."""
        for each in asked:
            if each.problem is not None and self._problems.get(each.witness) != each.problem:
                logger.warning("the witness %s did not cosign: %s", each.witness, each.problem)
            self._problems[each.witness] = each.problem

    def erase(self) -> bool:
        """Hashes and signatures say nothing of what was committed."""
        return True

    def _wait_seconds(self) -> float:
        try:
            age = self._now() - checkpoint_path(self._home).stat().st_mtime
        except FileNotFoundError:
            return 0.0
        # A clock that was put back is no reason to sign nothing until it is where it was.
        return self._every_seconds - age if 0 <= age < self._every_seconds else 0.0


def sign(home: Path, place: Place, keys: Sequence[SignerKey]) -> Known:
    """What the tiles hold, signed with each of the keys and kept. The lock of the tiles is held.

    Raises Corrupt, and signs nothing, where that does not continue what was signed last.
    """
    last = read_kept(home, [key.verifier for key in keys])
    checkpoint = Checkpoint(keys[0].name, place.head.count, bytes.fromhex(place.root))
    if last is not None:
        _check_continues(home, last, checkpoint)
        if last.checkpoint == checkpoint and _have_signed(last.note, keys):
            return last
    written = _signed(checkpoint, keys, last).encode()
    return _keep(home, checkpoint, written)


def cosign(home: Path, known: Known, witnesses: Witnesses) -> list[Asked]:
    """Have what was signed last cosigned, and keep the cosignatures with it. The lock of the tiles is held."""
    asked = witnesses.ask(home, known.note.text, known.checkpoint.size, known.written)
    lines = "".join(each.lines for each in asked)
    if lines:
        _keep(home, known.checkpoint, known.written + lines.encode())
    return asked


def _keep(home: Path, checkpoint: Checkpoint, written: bytes) -> Known:
    try:
        # Whole and durable before anybody sees it: what was seen and is gone after a power cut might be signed anew.
        replace_file(checkpoint_path(home), written)
    except OSError as error:
        raise StorageRefused(
            f"the checkpoint could not be kept: {error.strerror}", hint="free some space; nothing was lost"
        ) from error
    return Known(str(checkpoint_path(home)), checkpoint, parse_note(written), written)


def _check_continues(home: Path, last: Known, new: Checkpoint) -> None:
    old = last.checkpoint
    if old.origin != new.origin:
        raise Conflict(
            f"the last checkpoint here is of '{old.origin}', and the key is of '{new.origin}'",
            code="CHECKPOINT_ORIGIN",
            hint=f"sign with a key of that name; or move {last.source} away to begin as another log",
        )
    if new.size < old.size:
        raise behind(last, new.size)
    subtree = Tiles(tree_directory(home), new.size).subtree
    if not verify_consistency(old.size, new.size, consistency_proof(old.size, new.size, subtree), old.root, new.root):
        raise beside(last)


def _have_signed(note: Note, keys: Sequence[SignerKey]) -> bool:
    return len(note.signers([key.verifier for key in keys])) == len(keys)


def _signed(checkpoint: Checkpoint, keys: Sequence[SignerKey], last: Known | None) -> str:
    text = checkpoint.text()
    lines = [key.signature_line(text) for key in keys]
    if last is not None and last.note.text == text:
        # The same once more, after a key came: what witnesses signed of it holds as before.
        kept = last.written.decode().removeprefix(f"{text}\n").splitlines(keepends=True)
        ours = {(key.name, key.verifier.id) for key in keys}
        signed = zip(kept, last.note.signatures, strict=True)
        lines += [line for line, (name, key_id, _) in signed if (name, key_id) not in ours]
    return f"{text}\n{''.join(lines)}"


# -- comparing


def is_in_tiles(home: Path, known: Known) -> bool:
    """Whether the tiles reach as far as the checkpoint, and lead to its root."""
    place, size = read_place(tree_directory(home)), known.checkpoint.size
    if place is None or place.head.count < size:
        return False
    try:
        subtree = Tiles(tree_directory(home), place.head.count).subtree
        proof = consistency_proof(size, place.head.count, subtree)
        newest = root(place.head.count, subtree)
    except Corrupt:
        return False
    return verify_consistency(size, place.head.count, proof, known.checkpoint.root, newest)


def is_shown(home: Path, log: Log, known: Known) -> bool:
    """Whether the tiles show that the log leads to the checkpoint: a look at a few of them, and at one line of it."""
    place = read_place(tree_directory(home))
    return is_in_tiles(home, known) and place is not None and LogReader(lambda: log).has(place.head)


# -- on request


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
    worker = Follower(registry.Place(home, log)).worker("tiles")
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
