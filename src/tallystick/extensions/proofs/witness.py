"""A witness for the logs of others: it cosigns a checkpoint only where a proof shows that the log was only added to.

What it saw last of each log is durable before it signs anything: a witness that forgot could be led to sign a second
history. It needs no memory of its own, and learns nothing of what the logs hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from tallystick.commits.signed_note import (
    WITNESS_KEY,
    Checkpoint,
    Note,
    SignerKey,
    VerifierKey,
    parse_checkpoint,
    parse_note,
)
from tallystick.commits.tree import EMPTY_ROOT, verify_consistency
from tallystick.errors import Conflict, Corrupt, Denied, InvalidArgument, NotFound, StorageRefused
from tallystick.extensions.proofs.witness_request import WitnessRequest, parse_request
from tallystick.system.file_locks import locked
from tallystick.system.private_files import make_directory, replace_file


class UnknownLog(NotFound):
    code = "UNKNOWN_LOG"


class NotSigned(Denied):
    code = "NOT_SIGNED"


class OtherSize(Conflict):
    """The witness saw another size last: `details` has it."""

    code = "OTHER_SIZE"


class NotContinued(InvalidArgument):
    code = "NOT_CONTINUED"


class Seen(msgspec.Struct, frozen=True):
    """Of one log, the last that was cosigned."""

    origin: str
    size: int = 0
    root: str = EMPTY_ROOT.hex()


class Witness:
    """For any number of threads and processes on one directory."""

    def __init__(
        self,
        directory: Path,
        keys: Sequence[SignerKey],
        logs: Sequence[VerifierKey],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`logs` are the verifier keys of those that are witnessed: the name of a key is the origin."""
        if not keys or any(key.algorithm != WITNESS_KEY for key in keys):
            raise InvalidArgument(
                "a witness signs with a key of its own kind",
                code="WITNESS_KEY_INVALID",
                hint="'tallystick keys new NAME --witness --file FILE' makes one",
            )
        self._directory = directory
        self._keys = keys
        self._logs = logs
        self._now = now

    def add_checkpoint(self, body: bytes) -> str:
        """The cosignature lines. Raises InvalidArgument, UnknownLog, NotSigned, OtherSize or NotContinued."""
        request = parse_request(body)
        note = parse_note(request.note)
        checkpoint = parse_checkpoint(note)
        self._check_signed(note, checkpoint)
        if request.old > checkpoint.size:
            raise InvalidArgument(f"a log of {checkpoint.size} does not continue one of {request.old}")
        path = self._directory / sha256(checkpoint.origin.encode()).hexdigest()
        try:
            make_directory(self._directory)
            with locked(path.with_suffix(".lock")):
                self._note_seen(path.with_suffix(".json"), request, checkpoint)
        except OSError as error:
            raise StorageRefused(f"what was seen could not be kept: {error.strerror}", hint="free some space") from None
        seconds = int(self._now())
        return "".join(key.signature_line(note.text, seconds=seconds) for key in self._keys)

    def _check_signed(self, note: Note, checkpoint: Checkpoint) -> None:
        trusted = [key for key in self._logs if key.name == checkpoint.origin]
        if not trusted:
            raise UnknownLog(f"'{checkpoint.origin}' is not witnessed here")
        # A failing signature of a key that is trusted is refused by `signers` itself.
        try:
            signers = note.signers(trusted)
        except InvalidArgument as error:
            raise NotSigned(error.message) from None
        if not signers:
            raise NotSigned(f"no key that is trusted for '{checkpoint.origin}' signed it")

    def _note_seen(self, path: Path, request: WitnessRequest, new: Checkpoint) -> None:
        seen = _read(path, new.origin)
        old_root = bytes.fromhex(seen.root)
        if request.old != seen.size or (new.size == seen.size and new.root != old_root):
            raise OtherSize(f"{seen.size} was seen last, not {request.old}", details={"size": seen.size})
        if not verify_consistency(seen.size, new.size, request.proof, old_root, new.root):
            raise NotContinued(f"the proof does not show that it continues what was seen at {seen.size}")
        # Before anything is signed. A crash in between leaves a size that nobody has a cosignature for, and the log
        # asks again from there.
        replace_file(path, msgspec.json.encode(Seen(new.origin, new.size, new.root.hex())))


def _read(path: Path, origin: str) -> Seen:
    try:
        seen = msgspec.json.decode(path.read_bytes(), type=Seen)
    except FileNotFoundError:
        return Seen(origin)
    except msgspec.MsgspecError:
        seen = None
    if seen is None or seen.origin != origin or len(seen.root) != 64:
        # To begin anew would be to forget.
        raise Corrupt(f"what was seen of '{origin}' cannot be read", hint=f"restore {path} from a backup")
    return seen
