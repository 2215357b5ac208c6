"""Signed checkpoints: each continues the last, whoever signs, and a log that does not is told apart."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tallystick.commits.signed_note import (
    WITNESS_KEY,
    Checkpoint,
    NoteRefused,
    SignerKey,
    VerifierKey,
    parse_checkpoint,
    parse_note,
)
from tallystick.commits.tree import EMPTY_ROOT, Frontier, leaf_hash, node_hash
from tallystick.errors import Conflict, Corrupt, StorageRefused
from tallystick.extensions.proofs.checkpoints import SignedTiles, is_shown, sign
from tallystick.extensions.proofs.keys import write_key_file
from tallystick.extensions.proofs.signing import Signing
from tallystick.extensions.proofs.tiles import entry_of, read_place
from tallystick.log import Entry, Head, checkpoint_path, tree_directory
from tallystick.log.checkpoint import Comparison, Known, check_opened, read_kept, read_known
from tallystick.log.files import FilesLog
from tallystick.projections import Settling
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place
from tallystick.projections.worker import ProjectionWorker
from tests.commits_by_hand import append, draft, node
from tests.promises import promise

ORIGIN = "memory.example/team"


@pytest.fixture(scope="module")
def key() -> SignerKey:
    return SignerKey.generate(ORIGIN)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FilesLog]:
    log = FilesLog(tmp_path / "_system")
    grow(log, 3)
    yield log
    log.close()


def grow(log: FilesLog, count: int, name: str = "n") -> None:
    append(log, *(draft(node(f"{name}{log.head().count + number}")) for number in range(count)))


def worker(home: Path, *keys: SignerKey) -> ProjectionWorker:
    parts = {"tiles": Signing(keys)} if keys else {}
    return Follower(Place(home, LogReader(lambda: FilesLog(home / "_system")), parts=parts)).worker("tiles")


def reopened(home: Path, log: FilesLog, keys: Sequence[VerifierKey] = ()) -> None:
    """Compare as a server does that opens the log."""
    check_opened(home, log, keys, lambda known: is_shown(home, log, known))


def signed(home: Path, *keys: SignerKey) -> Known:
    """At the head, by a process that ends then."""
    worker(home, *keys).close()
    following = worker(home, *keys)
    following.catch_up()
    following.close()
    known = read_kept(home, [key.verifier for key in keys])
    assert known is not None
    return known


def aged(home: Path) -> None:
    """As if the last checkpoint had not been signed a moment ago."""
    os.utime(checkpoint_path(home), (0, 0))


def expected_root(entries: list[Entry]) -> bytes:
    tree = Frontier()
    for entry in entries:
        tree.add(leaf_hash(entry_of(entry.commit.record_hash)))
    return tree.root()


def rewritten(home: Path, count: int) -> None:
    """Another log takes its place, sound in itself."""
    for name in ("log", "head", "snapshots"):
        target = home / "_system" / name
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    log = FilesLog(home / "_system")
    grow(log, count, "other")
    log.close()


# -- the tree while it grows


def test_a_frontier_has_the_root_of_every_size() -> None:
    def naive(hashes: list[bytes]) -> bytes:
        if len(hashes) == 1:
            return hashes[0]
        half = 1 << ((len(hashes) - 1).bit_length() - 1)
        return node_hash(naive(hashes[:half]), naive(hashes[half:]))

    tree, leaves = Frontier(), [leaf_hash(bytes([number])) for number in range(130)]
    assert tree.root() == EMPTY_ROOT
    for size, leaf in enumerate(leaves, 1):
        tree.add(leaf)
        assert (tree.size, tree.root()) == (size, naive(leaves[:size]))


# -- signing


def test_the_head_is_signed_with_the_root_over_all_commits(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    known = signed(tmp_path, key)
    assert known.checkpoint == Checkpoint(ORIGIN, 3, expected_root(list(log.read(Head()))))
    assert known.note.signers([key.verifier]) == [key.verifier]
    assert checkpoint_path(tmp_path).read_bytes() == known.written
    grow(log, 300)
    assert signed(tmp_path, key).checkpoint.size == 303


def test_nothing_is_signed_without_a_key_or_a_commit(tmp_path: Path, key: SignerKey) -> None:
    following = worker(tmp_path, key)
    following.catch_up()
    following.close()
    log = FilesLog(tmp_path / "_system")
    grow(log, 1)
    log.close()
    following = worker(tmp_path)
    following.catch_up()
    assert not isinstance(following.projection, Settling)
    following.close()
    assert read_kept(tmp_path) is None


@promise("checkpoint, when", "it is signed at most once a second, and at the end")
def test_it_is_signed_at_most_once_a_second_and_at_the_end(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    first = signed(tmp_path, key)
    grow(log, 1)
    now = checkpoint_path(tmp_path).stat().st_mtime
    tiles = SignedTiles(tmp_path, [key], now=lambda: now + 0.25)
    tiles.apply(list(log.read(tiles.position())), log.head())
    assert tiles.settle() == pytest.approx(0.75, abs=0.01)
    assert read_kept(tmp_path) == first
    now += 1
    assert tiles.settle() is None
    assert read_kept(tmp_path) != first
    grow(log, 1)
    tiles.apply(list(log.read(tiles.position())), log.head())
    now = checkpoint_path(tmp_path).stat().st_mtime
    assert tiles.settle(final=True) is None
    kept = read_kept(tmp_path)
    assert kept is not None
    assert kept.checkpoint.size == 5


def test_a_clock_that_was_put_back_does_not_stop_the_signing(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    signed(tmp_path, key)
    os.utime(checkpoint_path(tmp_path), (4_000_000_000, 4_000_000_000))
    grow(log, 1)
    assert signed(tmp_path, key).checkpoint.size == 4


def test_what_is_signed_already_is_not_written_again(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    signed(tmp_path, key)
    before = checkpoint_path(tmp_path).stat()
    signed(tmp_path, key)
    assert checkpoint_path(tmp_path).stat().st_ino == before.st_ino


def test_a_second_key_signs_beside_the_first_and_alone_when_that_is_gone(
    tmp_path: Path, log: FilesLog, key: SignerKey
) -> None:
    other = SignerKey.generate(ORIGIN)
    signed(tmp_path, key)
    both = signed(tmp_path, key, other)
    assert both.checkpoint.size == 3
    assert both.note.signers([key.verifier, other.verifier]) == [key.verifier, other.verifier]
    grow(log, 1)
    alone = signed(tmp_path, other)
    assert alone.note.signers([key.verifier, other.verifier]) == [other.verifier]


def test_what_witnesses_signed_of_it_stays_when_a_key_comes(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    first, witness = signed(tmp_path, key), SignerKey.generate("witness.example", WITNESS_KEY)
    line = witness.signature_line(first.note.text, seconds=1_790_000_000)
    checkpoint_path(tmp_path).write_bytes(first.written + line.encode())
    both = signed(tmp_path, key, SignerKey.generate(ORIGIN))
    assert both.note.signers([witness.verifier]) == [witness.verifier]
    assert len(both.note.signatures) == 3


def test_a_key_of_another_name_does_not_go_on_with_this_log(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    first = signed(tmp_path, key)
    place = read_place(tree_directory(tmp_path))
    assert place is not None
    with pytest.raises(Conflict, match=r"other\.example"):
        sign(tmp_path, place, [SignerKey.generate("other.example")])
    assert read_kept(tmp_path) == first


@promise("checkpoint, continued", "another history is never signed, whatever its length")
@pytest.mark.parametrize("count", [2, 3, 9])
def test_another_history_is_never_signed_whatever_its_length(
    tmp_path: Path, log: FilesLog, key: SignerKey, count: int
) -> None:
    first = signed(tmp_path, key)
    rewritten(tmp_path, count)
    aged(tmp_path)
    following = worker(tmp_path, key)
    with pytest.raises(Corrupt, match="not the one that was signed"):
        following.catch_up()
    following.close()
    assert read_kept(tmp_path) == first


def test_a_checkpoint_whose_signature_fails_is_not_gone_on_from(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    written = signed(tmp_path, key).written
    checkpoint_path(tmp_path).write_bytes(written.replace(b"\n3\n", b"\n2\n"))
    aged(tmp_path)
    grow(log, 1)
    following = worker(tmp_path, key)
    with pytest.raises(Corrupt, match="cannot be relied upon"):
        following.catch_up()
    following.close()


@promise("checkpoint, whose", "a checkpoint that none of our keys signed is not gone on from")
def test_a_checkpoint_that_none_of_our_keys_signed_is_not_gone_on_from(
    tmp_path: Path, log: FilesLog, key: SignerKey
) -> None:
    """An older one in place of the last would let another history be signed from there."""
    signed(tmp_path, key)
    stranger, place = SignerKey.generate(ORIGIN), read_place(tree_directory(tmp_path))
    assert place is not None
    text = Checkpoint(ORIGIN, 0, EMPTY_ROOT).text()
    checkpoint_path(tmp_path).write_text(f"{text}\n{stranger.signature_line(text)}")
    reopened(tmp_path, log)
    with pytest.raises(Corrupt, match="no key that is configured signed it"):
        reopened(tmp_path, log, [key.verifier])
    with pytest.raises(Corrupt, match="no key that is configured signed it"):
        sign(tmp_path, place, [key])
    # The one that did sign it beside ours makes a rotation of it.
    assert sign(tmp_path, place, [stranger, key]).checkpoint.size == 3


def test_a_full_disk_leaves_the_last_checkpoint(
    tmp_path: Path, log: FilesLog, key: SignerKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = signed(tmp_path, key)
    grow(log, 1)
    tiles = SignedTiles(tmp_path, [key])
    tiles.apply(list(log.read(tiles.position())), log.head())

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tallystick.extensions.proofs.checkpoints.replace_file", full)
    with pytest.raises(StorageRefused, match="No space left"):
        tiles.settle(final=True)
    assert read_kept(tmp_path) == first


def test_tiles_of_a_signed_tree_stay_until_full_ones_take_their_place(
    tmp_path: Path, log: FilesLog, key: SignerKey
) -> None:
    signed(tmp_path, key)
    directory = tree_directory(tmp_path) / "tile" / "0"
    grow(log, 4)
    worker_without_keys = worker(tmp_path)
    worker_without_keys.catch_up()
    grow(log, 4)
    worker_without_keys.catch_up()
    worker_without_keys.close()
    assert sorted(path.name for path in (directory / "000.p").iterdir()) == ["11", "3"]
    grow(log, 256)
    signed(tmp_path, key)
    assert sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()) == [
        "000",
        "001.p/11",
    ]


_SIGNING = """
import sys
from pathlib import Path
from tallystick.log.files import FilesLog
from tallystick.extensions.proofs.keys import read_key_file
from tallystick.extensions.proofs.signing import Signing
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place
from tests.commits_by_hand import append, draft, node
home, keys = Path(sys.argv[1]), tuple(read_key_file(Path(sys.argv[2]), base=Path(sys.argv[1])))
log = FilesLog(home / "_system")
for number in range(20):
    log.claim(timeout_seconds=30)
    append(log, draft(node(f"{sys.argv[3]}-{number}")))
    log.release()
    parts = {"tiles": Signing(keys)}
    worker = Follower(Place(home, LogReader(lambda: FilesLog(home / "_system")), parts=parts)).worker("tiles")
    worker.catch_up()
    worker.close()
    print((home / "_system/tiles/checkpoint").read_text(), flush=True)
"""


@promise("checkpoint, processes", "processes that sign together never sign two histories")
def test_processes_that_sign_together_never_sign_two_histories(tmp_path: Path, key: SignerKey) -> None:
    home, keys = tmp_path / "home", tmp_path / "key"
    write_key_file(keys, [key], base=home)
    running = [
        subprocess.Popen([sys.executable, "-c", _SIGNING, str(home), str(keys), name], stdout=subprocess.PIPE)
        for name in ("a", "b", "c")
    ]
    printed = [process.communicate()[0].decode() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    log = FilesLog(home / "_system")
    hashes = [entry.commit.record_hash for entry in log.read(Head())]
    log.close()
    notes = [f"{note.strip()}\n" for text in printed for note in text.split(f"{ORIGIN}\n") if note.strip()]
    seen = [parse_note(f"{ORIGIN}\n{note}".encode()) for note in notes if "\u2014 " in note]
    assert len(hashes) == len(seen) == 60
    for note in seen:
        assert note.signers([key.verifier]) == [key.verifier]
        checkpoint = parse_checkpoint(note)
        tree = Frontier()
        for record_hash in hashes[: checkpoint.size]:
            tree.add(leaf_hash(entry_of(record_hash)))
        assert tree.root() == checkpoint.root


# -- comparing


def test_a_log_that_continues_its_checkpoint_is_opened_by_a_look_at_tiles(
    tmp_path: Path, log: FilesLog, key: SignerKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed(tmp_path, key)
    grow(log, 300)

    def unread(comparison: Comparison, record_hash: str) -> None:
        raise AssertionError("all of the log was read")

    monkeypatch.setattr(Comparison, "feed", unread)
    reopened(tmp_path, log)


@pytest.mark.parametrize("count", [1, 3, 9])
def test_a_log_behind_or_beside_its_checkpoint_is_refused(
    tmp_path: Path, log: FilesLog, key: SignerKey, count: int
) -> None:
    signed(tmp_path, key)
    rewritten(tmp_path, count)
    other = FilesLog(tmp_path / "_system")
    with pytest.raises(Corrupt, match="older copy" if count < 3 else "rewritten") as refused:
        reopened(tmp_path, other)
    assert refused.value.hint is not None
    assert "restore the log from a backup" in refused.value.hint
    other.close()


def test_without_its_tiles_all_of_the_log_is_compared(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    signed(tmp_path, key)
    shutil.rmtree(tree_directory(tmp_path) / "tile")
    (tree_directory(tmp_path) / "place").unlink()
    reopened(tmp_path, log)
    rewritten(tmp_path, 5)
    other = FilesLog(tmp_path / "_system")
    with pytest.raises(Corrupt, match="rewritten"):
        reopened(tmp_path, other)
    other.close()


def test_a_comparison_finds_each_checkpoint_that_differs(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    hashes = [entry.commit.record_hash for entry in log.read(Head())]
    good = signed(tmp_path, key)

    def known(size: int, root: bytes) -> Known:
        return Known(f"of {size}", Checkpoint(ORIGIN, size, root), good.note, b"")

    comparison = Comparison(
        [good, known(0, EMPTY_ROOT), known(1, leaf_hash(entry_of(hashes[0]))), known(2, bytes(32)), known(4, bytes(32))]
    )
    for record_hash in hashes:
        comparison.feed(record_hash)
    found = {each.size: each.problem for each in comparison.compared()}
    assert [size for size, problem in found.items() if problem is None] == [0, 1, 3]
    assert "rewritten" in (found[2] or "")
    assert "older copy" in (found[4] or "")
    with pytest.raises(Corrupt, match="of 2"):
        comparison.check()


def test_a_checkpoint_of_nobody_we_know_is_refused(tmp_path: Path, log: FilesLog, key: SignerKey) -> None:
    path = tmp_path / "kept"
    path.write_bytes(signed(tmp_path, key).written)
    assert read_known(path, [key.verifier]).checkpoint.size == 3
    with pytest.raises(NoteRefused, match="not signed by any"):
        read_known(path, [SignerKey.generate(ORIGIN).verifier])
    path.write_bytes(path.read_bytes().replace(b"\n3\n", b"\n4\n"))
    with pytest.raises(NoteRefused, match="does not hold"):
        read_known(path, [key.verifier])
