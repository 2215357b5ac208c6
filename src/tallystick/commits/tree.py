"""The Merkle tree over a log (RFC 6962): its root, and proofs that outsiders can check.

Entry i of the tree is the `record_hash` of the log's commit i, counted from 0. Nothing is kept here: a proof is put
together from hashes of complete subtrees, which a `Subtrees` looks up. What verifies is what RFC 9162 describes, and
never raises: a proof is a stranger's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from hashlib import sha256

HASH_BYTES = 32
EMPTY_ROOT = sha256(b"").digest()

Subtrees = Callable[[int, int], bytes]
"""(level, index) → the hash of the complete subtree over the leaves [index << level, index + 1 << level)."""


def leaf_hash(entry: bytes) -> bytes:
    return sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def leaf_hashes(entries: Iterable[bytes]) -> bytes:
    """Of many, one behind the other: a call for each would take longer than to hash it."""
    return b"".join([sha256(b"\x00" + entry).digest() for entry in entries])


def fold(hashes: bytes) -> bytes:
    """The root over 1, 2, 4 … of them, one behind the other."""
    pair = 2 * HASH_BYTES
    while len(hashes) > HASH_BYTES:
        hashes = b"".join([sha256(b"\x01" + hashes[at : at + pair]).digest() for at in range(0, len(hashes), pair)])
    return hashes


class Frontier:
    """The root of a tree while leaves are added in order: at any time a hash a level is kept, and no more."""

    def __init__(self) -> None:
        self.size = 0
        self._complete: list[bytes] = []
        """Of the complete subtrees that cover the leaves, the largest first."""

    def add(self, leaf: bytes) -> None:
        found, place = leaf, self.size
        while place & 1:
            found = node_hash(self._complete.pop(), found)
            place >>= 1
        self._complete.append(found)
        self.size += 1

    def root(self) -> bytes:
        return reduce(lambda right, left: node_hash(left, right), reversed(self._complete)) if self.size else EMPTY_ROOT


# -- proofs


def root(size: int, subtrees: Subtrees) -> bytes:
    return _range_root(0, size, subtrees) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, subtrees: Subtrees) -> list[bytes]:
    """That leaf `index` is in the tree of this size: sibling hashes, the leaf's own first."""
    if not 0 <= index < size:
        raise ValueError(f"there is no leaf {index} in a tree of {size}")
    start, end, found = 0, size, []
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            found.append(_range_root(middle, end, subtrees))
            end = middle
        else:
            found.append(_range_root(start, middle, subtrees))
            start = middle
    return found[::-1]


def consistency_proof(old: int, size: int, subtrees: Subtrees) -> list[bytes]:
    """That the tree of `size` begins with the tree of `old`."""
    if not 0 <= old <= size:
        raise ValueError(f"a tree of {size} has no older one of {old}")
    if old in (0, size):
        return []
    start, end, found = 0, size, []
    while old != end:
        middle = start + _split(end - start)
        if old <= middle:
            found.append(_range_root(middle, end, subtrees))
            end = middle
        else:
            found.append(_range_root(start, middle, subtrees))
            start = middle
    # The old tree itself is known to whoever asks; a part of it is not.
    return ([_range_root(start, end, subtrees)] if start else []) + found[::-1]


def _range_root(start: int, end: int, subtrees: Subtrees) -> bytes:
    width = end - start
    if width & (width - 1) == 0:
        level = width.bit_length() - 1
        return subtrees(level, start >> level)
    middle = start + _split(width)
    return node_hash(_range_root(start, middle, subtrees), _range_root(middle, end, subtrees))


def _split(width: int) -> int:
    """The largest power of two that is smaller."""
    return 1 << ((width - 1).bit_length() - 1)


# -- checking them


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], expected_root: bytes) -> bool:
    if not 0 <= index < size or not _are_hashes((leaf, *proof)):
        return False
    place, last, found = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            found = node_hash(sibling, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and found == expected_root


def verify_consistency(old: int, size: int, proof: Sequence[bytes], old_root: bytes, new_root: bytes) -> bool:
    if not 0 <= old <= size or not _are_hashes((*proof, old_root, new_root)):
        return False
    if old in (0, size):
        return not proof and old_root == (new_root if old else EMPTY_ROOT)
    # A complete old tree is its own first hash, and is not sent.
    hashes = list(proof) if old & (old - 1) else [old_root, *proof]
    if not hashes:
        return False
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    older = newer = hashes[0]
    for sibling in hashes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            older, newer = node_hash(sibling, older), node_hash(sibling, newer)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            newer = node_hash(newer, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and older == old_root and newer == new_root


def _are_hashes(values: Iterable[bytes]) -> bool:
    return all(len(value) == HASH_BYTES for value in values)
