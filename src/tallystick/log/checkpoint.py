"""The last signed checkpoint of a log: where it lies, what it says, and whether a log continues it.

Signing is the matter of an extension. Whoever opens, proves or restores a log compares it with the checkpoints that
are known: one that ends before a checkpoint lost commits, one that leads to another root was rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from tallystick.commits.signed_note import (
    NOTE_BYTES_MAX,
    Checkpoint,
    Note,
    NoteRefused,
    VerifierKey,
    parse_checkpoint,
    parse_note,
    verifier_key,
)
from tallystick.commits.tree import Frontier, leaf_hash
from tallystick.errors import Corrupt, InvalidArgument
from tallystick.log import Head, Log, checkpoint_path

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


def signed_size(home: Path) -> int:
    """Return the number of commits in the last checkpoint that was signed here, 0 if there is none."""
    try:
        return _read(checkpoint_path(home)).checkpoint.size
    except FileNotFoundError:
        return 0


def read_kept(home: Path, keys: Sequence[VerifierKey] = ()) -> Known | None:
    """The last that was signed here. Raises Corrupt where it cannot be read, a signature of `keys` fails, or none of
    them signed it although they have its name: whoever can write here could have put it in place of a later one."""
    path = checkpoint_path(home)
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


def read_verifier_keys(path: Path) -> list[VerifierKey]:
    """A verifier key a line, as `tallystick keys verifier` prints them. Raises InvalidArgument."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidArgument(f"cannot read {path}: {said}", code="FILE_UNREADABLE") from None
    lines = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
    if not lines:
        raise NoteRefused(f"there is no verifier key in {path}", hint="'tallystick keys verifier' prints ours")
    return [verifier_key(line) for line in lines]


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
            self._tree.add(leaf_hash(bytes.fromhex(record_hash)))
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
        # Commits past the last of them are not hashed.
        if self._tree.size in self._sizes:
            self._sizes.remove(self._tree.size)
            self._roots[self._tree.size] = self._tree.root()


def check_opened(
    home: Path, log: Log, keys: Sequence[VerifierKey] = (), is_shown: Callable[[Known], bool] = lambda known: False
) -> None:
    """Raise Corrupt unless a log that was just opened continues the last checkpoint that was signed here, by one of
    the `keys` if they are known.

    Reads the whole log, unless `is_shown` finds quickly that it leads to the checkpoint.
    """
    known = read_kept(home, keys)
    if known is None:
        return
    count = log.head().count
    if count < known.checkpoint.size:
        raise behind(known, count)
    if is_shown(known):
        return
    comparison = Comparison([known])
    for entry in log.read(Head()):
        comparison.feed(entry.commit.record_hash)
    comparison.check()
