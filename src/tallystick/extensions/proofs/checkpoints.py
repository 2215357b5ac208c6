"""Signed checkpoints: what the log was at a moment, in a note that others can keep and check.

The last one lies in `_system/tiles/checkpoint`, where static servers serve it. Only who holds the lock of the tiles
signs, and only a tree that the tiles prove to begin with the one signed last: nobody who compares two checkpoints of
this log finds that they differ. Whoever opens, proves or restores a log compares it with the checkpoints that are
known: one that ends before a checkpoint lost commits, one that leads to another root was rewritten.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from tallystick.commits.signed_note import (
    NOTE_BYTES_MAX,
    Checkpoint,
    Note,
    NoteRefused,
    SignerKey,
    VerifierKey,
    parse_checkpoint,
    parse_note,
)
from tallystick.commits.tree import Frontier, consistency_proof, leaf_hash, root, verify_consistency
from tallystick.errors import Conflict, Corrupt, InvalidArgument, StorageRefused
from tallystick.extensions.proofs.tiles import (
    CHECKPOINT,
    SIGNED_EVERY_SECONDS,
    Place,
    Tiles,
    TilesProjection,
    directory_of,
    entry_of,
    read_place,
)
from tallystick.extensions.proofs.witnesses import Asked, Witnesses
from tallystick.log import Entry, Head, Log
from tallystick.private_files import replace_file
from tallystick.projections.log_reader import LogReader

WITNESSED_EVERY_SECONDS = 10.0
"""With witnesses a checkpoint stands for so long: most of the time it has their cosignatures."""

logger = logging.getLogger(__name__)

_RESTORE = (
    "restore the log from a backup that has all of it (docs/runbooks/corrupt-log.md); nothing was changed."
    " If you mean to go on with this log, move the checkpoint away: readers will see that it was rewritten"
)


class Known(msgspec.Struct, frozen=True):
    """A checkpoint that a log is compared with."""

    source: str
    checkpoint: Checkpoint
    note: Note
    written: bytes


class Compared(msgspec.Struct, frozen=True):
    source: str
    origin: str
    size: int
    problem: str | None = None


# -- reading


def path_of(home: Path) -> Path:
    return directory_of(home) / CHECKPOINT


def read_kept(home: Path, keys: Sequence[VerifierKey] = ()) -> Known | None:
    """The last that was signed here. Raises Corrupt where it cannot be read, a signature of `keys` fails, or none of
    them signed it although they have its name: whoever can write here could have put it in place of a later one."""
    path = path_of(home)
    try:
        known = _read(path)
        signers = known.note.signers(keys)
    except FileNotFoundError:
        return None
    except (OSError, NoteRefused) as error:
        said = error.strerror if isinstance(error, OSError) else error.message
        raise _unreliable(path, said, "compare with a copy of it elsewhere, then put that in its place") from None
    if not signers and any(key.name == known.checkpoint.origin for key in keys):
        hint = "if it was signed with a key that was replaced, have that sign beside the new one once"
        raise _unreliable(path, "no key that is configured signed it", hint)
    return known


def _unreliable(path: Path, said: str | None, hint: str) -> Corrupt:
    return Corrupt(
        f"the last checkpoint, {path}, cannot be relied upon: {said}",
        hint=f"{hint}; or move this one away",
        details={"file": str(path), "line": 1},
    )


def read_known(path: Path, keys: Sequence[VerifierKey], *, quorum: int = 0) -> Known:
    """One that somebody kept elsewhere. Raises InvalidArgument unless one of the keys signed it, and as many
    witnesses among them cosigned it as the quorum says."""
    try:
        known = _read(path)
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}", code="FILE_UNREADABLE") from None
    signers = known.note.signers(keys)
    # A key signs under its own name: what it signed for another log proves nothing of this one.
    logs = [key for key in signers if key.is_of_log(known.checkpoint.origin)]
    if not any(key.name == known.checkpoint.origin for key in logs):
        raise NoteRefused(
            f"{path} is not signed by any of the keys given",
            hint="give the verifier key of the log with --vkey; 'tallystick keys verifier' prints it",
        )
    witnesses = len(signers) - len(logs)
    if witnesses < quorum:
        raise NoteRefused(
            f"{path} is cosigned by {witnesses} of the witnesses given, and {quorum} are asked for",
            hint="give the verifier keys of the witnesses with --vkey, too",
        )
    return known


def _read(path: Path) -> Known:
    with path.open("rb") as file:
        written = file.read(NOTE_BYTES_MAX + 1)
    note = parse_note(written)
    return Known(str(path), parse_checkpoint(note), note, written)


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
            age = self._now() - path_of(self._home).stat().st_mtime
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
        replace_file(path_of(home), written)
    except OSError as error:
        raise StorageRefused(
            f"the checkpoint could not be kept: {error.strerror}", hint="free some space; nothing was lost"
        ) from error
    return Known(str(path_of(home)), checkpoint, parse_note(written), written)


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
    subtree = Tiles(directory_of(home), new.size).subtree
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


def behind(known: Known, count: int) -> Corrupt:
    return _refused(known, f"it has {count} commits: its end was cut off, or it is an older copy")


def beside(known: Known) -> Corrupt:
    return _refused(known, "its first commits lead to another root: it was rewritten, or is another log")


def _refused(known: Known, problem: str) -> Corrupt:
    return Corrupt(
        f"the log is not the one that was signed: {known.source} says {known.checkpoint.size} commits, and {problem}",
        hint=_RESTORE,
        details={"file": known.source, "line": 2},
    )


class Comparison:
    """A log, fed from its first commit on, held against checkpoints."""

    def __init__(self, known: Iterable[Known]) -> None:
        self._known = sorted(known, key=lambda each: each.checkpoint.size)
        self._roots: dict[int, bytes] = {}
        self._sizes = {each.checkpoint.size for each in self._known}
        self._tree = Frontier()
        self._note_root()

    def feed(self, record_hash: str) -> None:
        if self._sizes:
            self._tree.add(leaf_hash(entry_of(record_hash)))
            self._note_root()

    def compared(self) -> list[Compared]:
        return [
            Compared(each.source, each.checkpoint.origin, each.checkpoint.size, error.message if error else None)
            for each, error in zip(self._known, map(self._error, self._known), strict=True)
        ]

    def check(self) -> None:
        """Raises Corrupt for the first checkpoint that the log does not lead to."""
        for error in map(self._error, self._known):
            if error is not None:
                raise error

    def _error(self, known: Known) -> Corrupt | None:
        found = self._roots.get(known.checkpoint.size)
        if found is None:
            return behind(known, self._tree.size)
        return None if found == known.checkpoint.root else beside(known)

    def _note_root(self) -> None:
        # What lies behind the last of them is not hashed for nothing.
        if self._tree.size in self._sizes:
            self._sizes.remove(self._tree.size)
            self._roots[self._tree.size] = self._tree.root()


def check_opened(home: Path, log: Log, keys: Sequence[VerifierKey] = ()) -> None:
    """Of a log that was just opened: raises Corrupt unless it continues the last checkpoint that was signed here, by
    one of the `keys` where they are known.

    A look at a few tiles, and at one line of the log; where these do not agree, all of it is read.
    """
    known = read_kept(home, keys)
    if known is None:
        return
    count = log.head().count
    if count < known.checkpoint.size:
        raise behind(known, count)
    if is_in_tiles(home, known) and _are_of(home, log):
        return
    comparison = Comparison([known])
    for entry in log.read(Head()):
        comparison.feed(entry.commit.record_hash)
    comparison.check()


def is_in_tiles(home: Path, known: Known) -> bool:
    """Whether the tiles reach as far as the checkpoint, and lead to its root."""
    place, size = read_place(directory_of(home)), known.checkpoint.size
    if place is None or place.head.count < size:
        return False
    try:
        subtree = Tiles(directory_of(home), place.head.count).subtree
        proof = consistency_proof(size, place.head.count, subtree)
        newest = root(place.head.count, subtree)
    except Corrupt:
        return False
    return verify_consistency(size, place.head.count, proof, known.checkpoint.root, newest)


def _are_of(home: Path, log: Log) -> bool:
    place = read_place(directory_of(home))
    return place is not None and LogReader(lambda: log).has(place.head)
