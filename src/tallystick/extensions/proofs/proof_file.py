"""Proof files: that a commit is in a signed log, and that a signed log continues an older one.

The first is C2SP's tlog-proof: an index, hashes, and the checkpoint. Its `extra` line is the text whose SHA-256 is the
commit's record_hash (the record_hash before it, then the commit's head), so that anyone recomputes the entry and reads
what was proved. The second is what C2SP's witnesses are sent: the old size, hashes, and the newer checkpoint.
Everything here may come from a stranger.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256

import msgspec

from tallystick.commits import Commit, chain
from tallystick.commits.signed_note import (
    NOTE_BYTES_MAX,
    Checkpoint,
    NoteRefused,
    VerifierKey,
    decode_base64,
    decode_size,
    parse_checkpoint,
    parse_note,
)
from tallystick.commits.tree import HASH_BYTES, leaf_hash, verify_consistency, verify_inclusion
from tallystick.errors import Corrupt

HEADER = "c2sp.org/tlog-proof@v1"
HASHES_MAX = 63
PROOF_BYTES_MAX = 4 * NOTE_BYTES_MAX

_EXTRA = "extra "
_INDEX = "index "
_OLD = "old "
_HEX = re.compile(rb"[0-9a-f]{64}")


class ProofRefused(NoteRefused):
    """It is no proof, or it does not prove what it should."""


class Trust(msgspec.Struct, frozen=True):
    """Whose word is believed: one of the log's keys, and as many witnesses as the quorum says."""

    keys: tuple[VerifierKey, ...]
    quorum: int = 0
    origin: str | None = None
    """Whose log it must be; by default that of the key's name."""


class InclusionProof(msgspec.Struct, frozen=True):
    index: int
    hashes: tuple[bytes, ...]
    note: bytes
    extra: bytes | None = None


class ConsistencyProof(msgspec.Struct, frozen=True):
    old: int
    hashes: tuple[bytes, ...]
    note: bytes


class Included(msgspec.Struct, frozen=True):
    """What an inclusion proof showed."""

    checkpoint: Checkpoint
    index: int
    record_hash: str
    commit: Commit | None
    """Its payload is not known; None where the proof does not carry it."""


# -- writing


def inclusion_file(proof: InclusionProof) -> bytes:
    extra = [] if proof.extra is None else [_EXTRA + b64encode(proof.extra).decode()]
    return _written([HEADER, *extra, f"{_INDEX}{proof.index}"], proof.hashes, proof.note)


def consistency_file(proof: ConsistencyProof) -> bytes:
    return _written([f"{_OLD}{proof.old}"], proof.hashes, proof.note)


def extra_of(commit: Commit, prev_record_hash: str) -> bytes:
    """What its record_hash is the SHA-256 of."""
    return prev_record_hash.encode() + chain.head_of(commit)


def _written(top: list[str], hashes: Sequence[bytes], note: bytes) -> bytes:
    return "".join(f"{line}\n" for line in (*top, *(b64encode(each).decode() for each in hashes), "")).encode() + note


# -- reading


def parse_proof(data: bytes) -> InclusionProof | ConsistencyProof:
    """Raises NoteRefused. The checkpoint in it is left as it is: whoever verifies it reads it."""
    top, blank, note = data.partition(b"\n\n")
    if not blank or len(data) > PROOF_BYTES_MAX or not top.isascii():
        raise ProofRefused("a proof is text with an empty line and a checkpoint at its end")
    first, *lines = top.decode().split("\n")
    if first.startswith(_OLD):
        return ConsistencyProof(decode_size(first.removeprefix(_OLD)), _hashes(lines), note)
    if first != HEADER:
        raise ProofRefused(f"a proof begins with '{HEADER}' or with 'old'")
    has_extra = bool(lines) and lines[0].startswith(_EXTRA)
    extra = decode_base64(lines.pop(0).removeprefix(_EXTRA)) if has_extra else None
    if not lines or not lines[0].startswith(_INDEX):
        raise ProofRefused("the proof does not say the index")
    return InclusionProof(decode_size(lines[0].removeprefix(_INDEX)), _hashes(lines[1:]), note, extra)


def _hashes(lines: list[str]) -> tuple[bytes, ...]:
    found = tuple(decode_base64(line) for line in lines)
    if len(found) > HASHES_MAX or any(len(each) != HASH_BYTES for each in found):
        raise ProofRefused(f"a proof has at most {HASHES_MAX} hashes, of {HASH_BYTES} bytes")
    return found


# -- verifying


def trusted_checkpoint(note: bytes, trust: Trust) -> Checkpoint:
    """Raises NoteRefused unless it is signed as it must be."""
    parsed = parse_note(note)
    checkpoint = parse_checkpoint(parsed)
    signers = parsed.signers(trust.keys)
    logs = [key for key in signers if key.is_of_log(checkpoint.origin)]
    if not any(checkpoint.origin == (trust.origin or key.name) for key in logs):
        raise NoteRefused(f"no key that is believed signed it as the log '{checkpoint.origin}'")
    witnesses = len(signers) - len(logs)
    if witnesses < trust.quorum:
        raise NoteRefused(f"{witnesses} witnesses cosigned it, not {trust.quorum}")
    return checkpoint


def verify_inclusion_file(
    proof: InclusionProof, trust: Trust, *, record_hash: str | None = None, payload: bytes | None = None
) -> Included:
    """Raises NoteRefused. `record_hash` is needed where the proof does not carry its commit; `payload` is what the
    commit is said to have written."""
    checkpoint = trusted_checkpoint(proof.note, trust)
    if proof.extra is not None:
        entry = sha256(proof.extra).digest()
    elif record_hash is not None:
        entry = bytes.fromhex(record_hash)
    else:
        raise ProofRefused("it does not carry its commit", hint="name its record_hash")
    if record_hash not in (None, entry.hex()):
        raise ProofRefused(f"it is about the commit {entry.hex()}")
    if not verify_inclusion(leaf_hash(entry), proof.index, checkpoint.size, proof.hashes, checkpoint.root):
        raise ProofRefused(f"the commit is not entry {proof.index} of the tree that was signed")
    commit = None if proof.extra is None else _commit_in(proof.extra)
    if payload is not None:
        _check_payload(commit, payload)
    return Included(checkpoint, proof.index, entry.hex(), commit)


def verify_consistency_file(proof: ConsistencyProof, older: bytes, trust: Trust) -> tuple[Checkpoint, Checkpoint]:
    """The older checkpoint and the newer one. Raises NoteRefused. Witnesses are asked for at the newer one alone."""
    old = trusted_checkpoint(older, msgspec.structs.replace(trust, quorum=0))
    new = trusted_checkpoint(proof.note, trust)
    if old.origin != new.origin:
        raise ProofRefused(f"it is of '{new.origin}', the older checkpoint is of '{old.origin}'")
    if old.size != proof.old:
        raise ProofRefused(f"it begins at size {proof.old}, the older checkpoint has {old.size}")
    if not verify_consistency(old.size, new.size, proof.hashes, old.root, new.root):
        raise ProofRefused(f"the tree of {new.size} entries does not begin with that of {old.size}")
    return old, new


def _commit_in(extra: bytes) -> Commit:
    start = 0 if extra.startswith(b"{") else 2 * HASH_BYTES
    if start and not _HEX.fullmatch(extra[:start]):
        raise ProofRefused("what comes before the commit is not a record_hash")
    try:
        return chain.decode_head(extra[start:], sha256(extra).hexdigest())
    except Corrupt as error:
        raise ProofRefused(f"what was proved is no commit: {error.message}") from None


def _check_payload(commit: Commit | None, payload: bytes) -> None:
    if commit is None:
        raise ProofRefused("it does not carry its commit, which alone could tell of the payload")
    if chain.content_hash(payload) != commit.content_hash:
        raise ProofRefused("the payload is not the one of this commit")
    if chain.commit_id(payload, commit.lamport, commit.actor, commit.operation) != commit.commit_id:
        raise ProofRefused("commit_id does not match payload, lamport, actor and operation")
