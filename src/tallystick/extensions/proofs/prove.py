"""Proofs for outsiders: that a commit is in the signed log, that the signed log continues an older one; and checking
them with nothing but the file and a key.

A proof is put together from the tiles and the checkpoint that was signed last. Before it is handed out it is verified:
tiles are only files, and a proof that does not hold would look like a lie of the log's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from tallystick.commits import Commit, chain
from tallystick.commits.signed_note import Checkpoint, parse_checkpoint, parse_note
from tallystick.commits.tree import (
    Subtrees,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    verify_consistency,
    verify_inclusion,
)
from tallystick.engine.store import Store, may_read
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound
from tallystick.extensions.proofs.proof_file import (
    PROOF_BYTES_MAX,
    ConsistencyProof,
    InclusionProof,
    ProofRefused,
    Trust,
    consistency_file,
    extra_of,
    inclusion_file,
    parse_proof,
    trusted_checkpoint,
    verify_consistency_file,
    verify_inclusion_file,
)
from tallystick.extensions.proofs.tiles import Tiles, entry_of, read_place
from tallystick.log import checkpoint_path, tree_directory
from tallystick.policy import Action, Principal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

_TRIES = 5
_DIGITS = frozenset("0123456789abcdef")
_ID_DIGITS_MIN, _ID_DIGITS_MAX = 8, 64
_LAMPORT_DIGITS_MAX = 16

T = TypeVar("T")


class LocatedCommit(msgspec.Struct, frozen=True):
    commit: Commit
    index: int
    """Counted from 0, as entries of the tree are."""
    prev_record_hash: str


class MadeInclusion(msgspec.Struct, frozen=True):
    origin: str
    size: int
    index: int
    lamport: int
    commit_id: str
    record_hash: str
    content_hash: str
    proof: bytes
    payload: bytes
    """As it is stored; after a redaction it is no longer the one that was committed."""

    @property
    def is_redacted(self) -> bool:
        return chain.content_hash(self.payload) != self.content_hash


class MadeConsistency(msgspec.Struct, frozen=True):
    origin: str
    size: int
    old: int
    proof: bytes


class CheckedProof(msgspec.Struct, frozen=True):
    """What a file proved, to whoever believes the keys."""

    origin: str
    size: int
    index: int | None = None
    old: int | None = None
    record_hash: str | None = None
    commit: Commit | None = None
    payload_matches: bool | None = None
    """None where no payload was given to compare."""


# -- making them


async def prove_commit(store: Store, principal: Principal, home: Path, named: str) -> MadeInclusion:
    """Of a commit, by its id (eight digits suffice) or its position, or the newest one on an entity.

    Raises NotFound, also for what the principal may not read, and Conflict where it is not signed yet.
    """
    located = await find_commit(store, principal, named)
    return await asyncio.to_thread(_made_inclusion, home, located)


async def find_commit(store: Store, principal: Principal, named: str) -> LocatedCommit:
    found = await store.read(principal, Action.SEARCH, partial(_by_position, named))
    if found is None:
        found = await store.read(principal, Action.READ, partial(_newest_on, named), resource=named)
    return found


def prove_continuation(home: Path, older: bytes) -> MadeConsistency:
    """That what was signed last begins with an older checkpoint. Raises Corrupt where it does not."""
    old = parse_checkpoint(parse_note(older))
    note, new = _last_signed(home)
    if old.origin != new.origin:
        raise InvalidArgument(f"that checkpoint is of '{old.origin}', this log is '{new.origin}'")
    hashes = _continued(home, old.size, new.size)
    if not verify_consistency(old.size, new.size, hashes, old.root, new.root):
        raise Corrupt(
            f"what was signed last does not begin with the {old.size} commits of that checkpoint",
            hint="one of the two histories was rewritten: keep both checkpoints, and compare with a backup",
        )
    return _made_consistency(note, new, old.size, hashes)


def prove_since(home: Path, size: int) -> MadeConsistency:
    """The same for who knows the older root, and says only of what size it was."""
    note, new = _last_signed(home)
    return _made_consistency(note, new, size, _continued(home, size, new.size))


def _continued(home: Path, old: int, size: int) -> list[bytes]:
    if old > size:
        raise Conflict(
            f"that checkpoint has {old} commits, the last one that was signed here {size}",
            code="NOT_SIGNED_YET",
            hint="'tallystick checkpoint' signs what is there now; if that has fewer commits, this is an old copy",
        )
    return _from_tiles(home, partial(consistency_proof, old, size))


def _made_consistency(note: bytes, new: Checkpoint, old: int, hashes: list[bytes]) -> MadeConsistency:
    return MadeConsistency(new.origin, new.size, old, consistency_file(ConsistencyProof(old, tuple(hashes), note)))


def prove_stored(home: Path, commit: Commit, index: int, prev_record_hash: str) -> MadeInclusion:
    """Of a commit that is known, and where it stands."""
    return _made_inclusion(home, LocatedCommit(commit, index, prev_record_hash))


def prove_signed(home: Path, commits: Sequence[tuple[Commit, int, str]]) -> list[str | None]:
    """Of commits, each with its place and the record_hash before it: None for one that is not signed yet. Raises
    NotFound where nothing was signed."""
    _, signed = _last_signed(home)
    return [
        prove_stored(home, commit, index, before).proof.decode() if index < signed.size else None
        for commit, index, before in commits
    ]


def _made_inclusion(home: Path, located: LocatedCommit) -> MadeInclusion:
    note, signed = _last_signed(home)
    commit = located.commit
    if located.index >= signed.size:
        raise Conflict(
            f"the commit is number {located.index + 1}, and only {signed.size} are signed so far",
            code="NOT_SIGNED_YET",
            hint="a server signs once a second; 'tallystick checkpoint' signs what is there now",
        )
    hashes = _from_tiles(home, partial(inclusion_proof, located.index, signed.size))
    leaf = leaf_hash(entry_of(commit.record_hash))
    if not verify_inclusion(leaf, located.index, signed.size, hashes, signed.root):
        raise Corrupt(
            f"the commit at position {commit.lamport} is not in the tree that was signed",
            hint="run 'tallystick verify': the log, the tiles or the checkpoint was changed",
        )
    extra = extra_of(commit, located.prev_record_hash)
    return MadeInclusion(
        origin=signed.origin,
        size=signed.size,
        index=located.index,
        lamport=commit.lamport,
        commit_id=commit.commit_id,
        record_hash=commit.record_hash,
        content_hash=commit.content_hash,
        proof=inclusion_file(InclusionProof(located.index, tuple(hashes), note, extra)),
        payload=commit.payload,
    )


def _by_position(named: str, state: State, read_filter: ReadFilter) -> LocatedCommit | None:
    """None where it is the name of an entity."""
    if state.knows(named):
        return None
    at = 0
    if named.isascii() and named.isdecimal() and len(named) <= _LAMPORT_DIGITS_MAX:
        at = state.head_at(int(named)).count
        if at and state.commit(at).lamport != int(named):
            at = 0
    if not at and _ID_DIGITS_MIN <= len(named) <= _ID_DIGITS_MAX and _DIGITS.issuperset(named):
        whole = state.commit_id(named)
        at = state.resolve(whole) if whole else 0
    found = _located(state, at) if at else None
    if found is None or not may_read(read_filter, found.commit):
        raise _unknown(named)
    return found


def _newest_on(named: str, state: State, read_filter: ReadFilter) -> LocatedCommit:
    known = state.lineage(named, "direct", 0, 0, read_filter)
    found = state.lineage(named, "direct", known.total - 1, 1, read_filter) if known else None
    if found is None or not found.steps:
        raise _unknown(named)
    return _located(state, state.head_at(found.steps[0].commit.lamport).count)


def _located(state: State, at: int) -> LocatedCommit:
    return LocatedCommit(state.commit(at), at - 1, state.commit(at - 1).record_hash if at > 1 else "")


def _unknown(named: str) -> NotFound:
    return NotFound(
        f"'{named[:80]}' is neither a commit nor an entity", hint="'tallystick log' shows commits, with their ids"
    )


def _last_signed(home: Path) -> tuple[bytes, Checkpoint]:
    try:
        note = checkpoint_path(home).read_bytes()
    except FileNotFoundError:
        raise NotFound(
            "nothing was signed yet, and so nothing can be proved to others",
            code="NO_CHECKPOINT",
            hint="'tallystick keys new' makes a key; name it in the setting checkpoint_key",
        ) from None
    return note, parse_checkpoint(parse_note(note))


def _from_tiles(home: Path, prove: Callable[[Subtrees], T]) -> T:
    """Tiles may be larger than what is signed: the hash of a complete subtree is the same in both."""
    directory = tree_directory(home)
    for tried in range(_TRIES):
        place = read_place(directory)
        try:
            return prove(Tiles(directory, place.head.count if place else 0).subtree)
        except Corrupt:
            # While it was read, a partial tile may have made room for a wider one.
            if read_place(directory) == place or tried == _TRIES - 1:
                break
    raise Corrupt(
        "the tiles do not reach as far as what was signed, or are damaged",
        hint="'tallystick checkpoint' writes them again from the log",
    )


# -- checking them


def check_proof(data: bytes, trust: Trust, *, older: bytes | None = None, payload: bytes | None = None) -> CheckedProof:
    """Needs no memory. Raises NoteRefused for whatever does not hold."""
    proof = parse_proof(data)
    if isinstance(proof, ConsistencyProof):
        if older is None:
            raise ProofRefused(
                "it says that a log continues an older checkpoint, and that was not given", hint="name it with --since"
            )
        old, new = verify_consistency_file(proof, older, trust)
        return CheckedProof(new.origin, new.size, old=old.size)
    shown = verify_inclusion_file(proof, trust, payload=payload)
    return CheckedProof(
        origin=shown.checkpoint.origin,
        size=shown.checkpoint.size,
        index=shown.index,
        record_hash=shown.record_hash,
        commit=shown.commit,
        payload_matches=None if payload is None else True,
    )


def refuse_split_view(data: bytes, trust: Trust, others: Sequence[bytes]) -> None:
    """Raises NoteRefused where the log signed another history of the same size for somebody else."""
    shown = trusted_checkpoint(parse_proof(data).note, trust)
    for each in others:
        other = trusted_checkpoint(each, msgspec.structs.replace(trust, quorum=0))
        if (other.origin, other.size) == (shown.origin, shown.size) and other.root != shown.root:
            raise ProofRefused(f"the same log signed another history of {shown.size} commits")


def read_bounded(path: Path, most: int = PROOF_BYTES_MAX) -> bytes:
    """Raises InvalidArgument."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}", code="FILE_UNREADABLE") from None
    if len(data) > most:
        raise InvalidArgument(f"{path} is larger than {most} bytes", code="FILE_UNREADABLE")
    return data
