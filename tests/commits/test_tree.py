"""The Merkle tree against RFC 6962's own definition, written out naively here, and against altered proofs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import sha256

import pytest

from tallystick.commits.tree import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    fold,
    inclusion_proof,
    leaf_hash,
    leaf_hashes,
    root,
    verify_consistency,
    verify_inclusion,
)
from tests.promises import promise

LARGEST = 130
LEAVES = [leaf_hash(str(number).encode()) for number in range(LARGEST)]


def mth(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962 §2.1, word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha256(b"\x01" + mth(leaves[:k]) + mth(leaves[k:])).digest()


ROOTS = [mth(LEAVES[:size]) for size in range(LARGEST + 1)]


def subtrees(level: int, index: int) -> bytes:
    return mth(LEAVES[index << level : (index + 1) << level])


_KEPT: dict[tuple[int, int], bytes] = {}


def kept(level: int, index: int) -> bytes:
    if (level, index) not in _KEPT:
        _KEPT[level, index] = subtrees(level, index)
    return _KEPT[level, index]


def test_the_hashes_of_nothing_are_the_published_ones() -> None:
    assert sha256().digest() == EMPTY_ROOT
    assert leaf_hash(b"").hex().startswith("6e340b9c")
    assert leaf_hash(b"").hex().endswith("a01d")


def test_every_root_is_the_definition_s() -> None:
    assert [root(size, kept) for size in range(LARGEST + 1)] == ROOTS


def test_many_hashes_at_once_are_those_of_one_after_the_other() -> None:
    assert leaf_hashes(str(number).encode() for number in range(LARGEST)) == b"".join(LEAVES)
    assert leaf_hashes([]) == b""
    for size in (1, 2, 4, 64, 128):
        assert fold(b"".join(LEAVES[:size])) == ROOTS[size]


def test_a_tree_that_grows_has_the_same_roots() -> None:
    frontier = Frontier()
    for size, leaf in enumerate(LEAVES):
        assert (frontier.size, frontier.root()) == (size, ROOTS[size])
        frontier.add(leaf)


@promise("tree, inclusion", "every leaf of every tree up to 130 is proved, and no other in its place")
def test_every_inclusion_is_proved_for_its_leaf_and_for_no_other() -> None:
    for size in range(1, LARGEST + 1):
        for index in range(size):
            proof = inclusion_proof(index, size, kept)
            assert verify_inclusion(LEAVES[index], index, size, proof, ROOTS[size])
            other = (index + 1) % size
            if other != index:
                assert not verify_inclusion(LEAVES[other], index, size, proof, ROOTS[size])
                assert not verify_inclusion(LEAVES[index], other, size, proof, ROOTS[size])


@promise("tree, consistency", "every continuation of every tree up to 130 is proved, and no other history")
def test_every_consistency_is_proved_and_holds_for_no_other_history() -> None:
    for size in range(LARGEST + 1):
        for old in range(size + 1):
            proof = consistency_proof(old, size, kept)
            assert verify_consistency(old, size, proof, ROOTS[old], ROOTS[size])
            if old:
                assert not verify_consistency(old, size, proof, leaf_hash(b"another"), ROOTS[size])
            if 0 < old < size:
                assert not verify_consistency(old, size, proof, ROOTS[old], leaf_hash(b"another"))


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_what_is_not_in_the_tree_has_no_proof(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="no leaf"):
        inclusion_proof(index, size, kept)
    assert not verify_inclusion(LEAVES[0], index, size, [], ROOTS[size])


def test_a_smaller_tree_continues_no_larger_one() -> None:
    with pytest.raises(ValueError, match="no older one"):
        consistency_proof(4, 3, kept)
    assert not verify_consistency(4, 3, [], ROOTS[4], ROOTS[3])


SHORT = b"not a hash"


@pytest.mark.parametrize(
    ("index", "size", "leaf"),
    [(1, 1, LEAVES[0]), (-1, 1, LEAVES[0]), (0, 1, SHORT)],
    ids=["behind the end", "before the start", "no hash"],
)
def test_that_the_root_is_the_leaf_is_not_enough(index: int, size: int, leaf: bytes) -> None:
    assert not verify_inclusion(leaf, index, size, [], leaf)


@pytest.mark.parametrize(
    ("old", "size", "root_of_both"), [(2, 1, ROOTS[1]), (-1, -1, ROOTS[1]), (1, 1, SHORT), (3, 4, ROOTS[4])]
)
def test_that_the_roots_are_the_same_is_not_enough(old: int, size: int, root_of_both: bytes) -> None:
    assert not verify_consistency(old, size, [], root_of_both, root_of_both)


@promise("tree, altered", "20,000 altered proofs are refused")
def test_twenty_thousand_altered_proofs_are_refused() -> None:
    rng = random.Random(20)
    for _ in range(10_000):
        size = rng.randrange(2, LARGEST + 1)
        index = rng.randrange(size)
        altered = alter(rng, inclusion_proof(index, size, kept))
        assert not verify_inclusion(LEAVES[index], index, size, altered, ROOTS[size])
        old = rng.randrange(1, size)
        altered = alter(rng, consistency_proof(old, size, kept))
        assert not verify_consistency(old, size, altered, ROOTS[old], ROOTS[size])


def alter(rng: random.Random, proof: list[bytes]) -> list[bytes]:
    """A proof that is not the one given."""
    while True:
        found = list(proof)
        place = rng.randrange(len(found))
        kind = rng.randrange(6)
        if kind == 0:
            bit = rng.randrange(256)
            changed = bytearray(found[place])
            changed[bit // 8] ^= 1 << (bit % 8)
            found[place] = bytes(changed)
        elif kind == 1:
            del found[place]
        elif kind == 2:
            found.insert(place, rng.randbytes(32))
        elif kind == 3:
            found[place] = found[place][: rng.randrange(32)]
        elif kind == 4:
            found.append(found[place])
        else:
            other = rng.randrange(len(found))
            found[place], found[other] = found[other], found[place]
        if found != proof:
            return found
