"""The tree in files: what lies where, what it proves, and what a crash or a flipped bit leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tallystick.commits.tree import (
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root,
    verify_consistency,
    verify_inclusion,
)
from tallystick.errors import Corrupt
from tallystick.extensions.proofs.tiles import Tiles, TilesProjection, entry_of, tile_path
from tallystick.log import Entry, Head, head_after, tree_directory
from tallystick.log.files import FilesLog
from tests.commits_by_hand import append, draft, node
from tests.promises import promise

SIZES = (1, 2, 255, 256, 257, 511, 512, 700)


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    log = FilesLog(tmp_path_factory.mktemp("log") / "_system")
    append(log, *(draft(node(f"n{number}")) for number in range(max(SIZES))))
    found = list(log.read(Head()))
    log.close()
    return found


def applied(home: Path, entries: list[Entry], *ends: int) -> TilesProjection:
    """In several steps, each by a projection of its own, as processes take turns."""
    at, begin = Head(), 0
    for end in ends:
        projection = TilesProjection(home)
        assert projection.position() == at
        at = head_after(entries[begin:end], at)
        projection.apply(entries[begin:end], at)
        begin = end
    return TilesProjection(home)


def leaves(entries: list[Entry], size: int) -> list[bytes]:
    return [leaf_hash(entry_of(entry.commit.record_hash)) for entry in entries[:size]]


def naive_root(hashes: list[bytes]) -> bytes:
    if len(hashes) == 1:
        return hashes[0]
    half = 1 << ((len(hashes) - 1).bit_length() - 1)
    return node_hash(naive_root(hashes[:half]), naive_root(hashes[half:]))


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("number", "width", "path"),
    [
        (0, 256, "tile/0/000"),
        (5, 112, "tile/0/005.p/112"),
        (1234067, 256, "tile/0/x001/x234/067"),
        (1000, 1, "tile/0/x001/000.p/1"),
    ],
)
def test_a_tile_lies_where_the_standard_says(number: int, width: int, path: str) -> None:
    assert tile_path(0, number, width) == path


@promise("tree, entries", "the tree is over the record hashes of commits")
@pytest.mark.parametrize("size", SIZES)
def test_the_root_is_that_of_the_record_hashes(tmp_path: Path, entries: list[Entry], size: int) -> None:
    applied(tmp_path, entries, size)
    assert root(size, Tiles(tree_directory(tmp_path), size).subtree) == naive_root(leaves(entries, size))


def test_what_is_written_in_steps_is_what_is_written_at_once(tmp_path: Path, entries: list[Entry]) -> None:
    applied(tmp_path / "steps", entries, *SIZES)
    applied(tmp_path / "once", entries, SIZES[-1])
    one, other = tree_directory(tmp_path / "steps"), tree_directory(tmp_path / "once")
    assert files(one) == files(other)
    assert {path: (one / path).read_bytes() for path in files(one)} == {
        path: (other / path).read_bytes() for path in files(other)
    }
    assert files(one) >= {"tile/0/000", "tile/0/001", "tile/0/002.p/188", "tile/1/000.p/2", "tile/entries/002.p/188"}


def test_every_commit_and_every_earlier_tree_is_proved_from_the_tiles(tmp_path: Path, entries: list[Entry]) -> None:
    size = SIZES[-1]
    applied(tmp_path, entries, size)
    subtree = Tiles(tree_directory(tmp_path), size).subtree
    expected, hashes = root(size, subtree), leaves(entries, size)
    for index in (0, 1, 254, 255, 256, 300, 511, 512, size - 1):
        assert verify_inclusion(hashes[index], index, size, inclusion_proof(index, size, subtree), expected)
    for old in SIZES:
        proof = consistency_proof(old, size, subtree)
        assert verify_consistency(old, size, proof, naive_root(hashes[:old]), expected)


def test_the_entries_tile_holds_what_the_leaves_hash(tmp_path: Path, entries: list[Entry]) -> None:
    applied(tmp_path, entries, 257)
    tile = (tree_directory(tmp_path) / "tile/entries/000").read_bytes()
    found = [tile[at : at + 34] for at in range(0, len(tile), 34)]
    assert [each[:2] for each in found] == [b"\x00\x20"] * 256
    assert [sha256(b"\x00" + each[2:]).digest() for each in found] == leaves(entries, 256)


@promise("tiles, crash", "tiles that a crash left without a place are written again")
def test_tiles_that_a_crash_left_without_a_place_are_written_again(tmp_path: Path, entries: list[Entry]) -> None:
    applied(tmp_path, entries, 300)
    place = tree_directory(tmp_path) / "place"
    before = place.read_bytes()
    partial = {path: (tree_directory(tmp_path) / path).read_bytes() for path in files(tree_directory(tmp_path))}
    applied(tmp_path / "other", entries, 300)
    projection = TilesProjection(tmp_path)
    projection.apply(entries[300:600], head_after(entries[300:600], projection.position()))
    # As if the process had died before it moved the place on: what it had not removed yet is there, too.
    for path, data in partial.items():
        (tree_directory(tmp_path) / path).parent.mkdir(parents=True, exist_ok=True)
        (tree_directory(tmp_path) / path).write_bytes(data)
    place.write_bytes(before)
    again = TilesProjection(tmp_path)
    assert again.position().count == 300
    again.apply(entries[300:700], head_after(entries[300:700], again.position()))
    assert root(700, Tiles(again.directory, 700).subtree) == naive_root(leaves(entries, 700))


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "pipe"])
def test_a_damaged_end_is_noticed_and_written_again(tmp_path: Path, entries: list[Entry], harm: str) -> None:
    applied(tmp_path, entries, 300)
    path = tree_directory(tmp_path) / "tile/0/001.p/44"
    data = path.read_bytes()
    if harm == "flip":
        path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    elif harm == "cut":
        path.write_bytes(data[:-1])
    else:
        path.unlink()
    if harm == "pipe":
        os.mkfifo(path)
    again = TilesProjection(tmp_path)
    assert again.position() == Head()
    again.apply(entries[:300], head_after(entries[:300], Head()))
    assert path.read_bytes() == data


@pytest.mark.parametrize("harm", [os.mkdir, os.mkfifo])
def test_a_place_that_is_no_file_says_nothing(
    tmp_path: Path, entries: list[Entry], harm: Callable[[Path], None]
) -> None:
    applied(tmp_path, entries, 300)
    place = tree_directory(tmp_path) / "place"
    place.unlink()
    harm(place)
    assert TilesProjection(tmp_path).position() == Head()


def test_a_tile_that_is_not_there_is_said_to_be_missing(tmp_path: Path, entries: list[Entry]) -> None:
    applied(tmp_path, entries, 700)
    (tree_directory(tmp_path) / "tile/0/001").unlink()
    with pytest.raises(Corrupt, match="tile/0/001 is missing"):
        inclusion_proof(300, 700, Tiles(tree_directory(tmp_path), 700).subtree)


@pytest.mark.parametrize("size", [1, 2, 6, 255, 256, 257, 511, 700])
def test_tiles_tell_nothing_of_what_lies_behind_their_end(tmp_path: Path, entries: list[Entry], size: int) -> None:
    """Otherwise a proof would be put together of parts of hashes."""
    applied(tmp_path, entries, size)
    tiles = Tiles(tree_directory(tmp_path), size)
    for level in range(10):
        whole = size >> level
        if whole:
            tiles.subtree(level, whole - 1)
        with pytest.raises(Corrupt):
            tiles.subtree(level, whole)
