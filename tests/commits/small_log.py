"""A log of five commits, in memory, with what is signed of it and proved from it."""

from __future__ import annotations

from tallystick.commits import Commit, Operation, Verb
from tallystick.commits.signed_note import Checkpoint
from tallystick.commits.tree import consistency_proof, inclusion_proof, leaf_hash, node_hash, root
from tallystick.extensions.proofs.proof_file import ConsistencyProof, InclusionProof, extra_of
from tallystick.log import Head
from tests.commits_by_hand import draft, entries, node
from tests.signed_memory import ORIGIN, signed

EDGE = 4
"""Index of the commit that is about an edge."""
_LINK = Operation(Verb.UPSERT_EDGE, {"from": "n0", "rel": "r", "to": "n1", "attrs": {}})
COMMITS: list[Commit] = [
    entry.commit for entry in entries(Head(), *(draft(node(f"n{number}")) for number in range(EDGE)), draft(_LINK))
]
SIZE = len(COMMITS)


def subtree(level: int, index: int) -> bytes:
    if level == 0:
        return leaf_hash(bytes.fromhex(COMMITS[index].record_hash))
    return node_hash(subtree(level - 1, 2 * index), subtree(level - 1, 2 * index + 1))


def checkpoint(size: int = SIZE, origin: str = ORIGIN) -> Checkpoint:
    return Checkpoint(origin, size, root(size, subtree))


def inclusion(index: int, size: int = SIZE, note: bytes | None = None) -> InclusionProof:
    before = COMMITS[index - 1].record_hash if index else ""
    hashes = tuple(inclusion_proof(index, size, subtree))
    return InclusionProof(index, hashes, note or signed(checkpoint(size)), extra_of(COMMITS[index], before))


def consistency(old: int, note: bytes | None = None) -> ConsistencyProof:
    return ConsistencyProof(old, tuple(consistency_proof(old, SIZE, subtree)), note or signed(checkpoint()))
