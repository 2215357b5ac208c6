"""What we sign, given to the verifiers of other projects: they accept it, and refuse it when it is altered."""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tallystick.commits.signed_note import WITNESS_KEY, SignerKey, verifier_key
from tallystick.extensions.proofs.signing import Signing
from tallystick.extensions.proofs.witness import Witness
from tallystick.extensions.proofs.witness_request import encode_request
from tallystick.log import Head, tree_directory
from tallystick.log.checkpoint import Known, read_kept
from tallystick.log.files import FilesLog
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place
from tests.commits_by_hand import append, draft, node
from tests.promises import promise

BIN = Path(__file__).parents[2] / ".foreign" / "bin"
ORIGIN = "memory.example/team"
SIZES = (1, 2, 255, 256, 257, 700)

pytestmark = pytest.mark.skipif(
    not (BIN / "aics-tlog").exists(), reason="aics-tlog needs Python 3.12 or newer, which was not found by make"
)


class Signed(msgspec.Struct):
    tiles: Path
    vkey: Path
    earlier: dict[int, Path]
    """By size: the checkpoints that were signed while the log grew."""
    hashes: list[str]
    last: Known


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """A log that was signed at each of the sizes."""
    home, key = tmp_path_factory.mktemp("home"), SignerKey.generate(ORIGIN)
    log = FilesLog(home / "_system")
    earlier: dict[int, Path] = {}
    for size in SIZES:
        append(log, *(draft(node(f"n{number}")) for number in range(log.head().count, size)))
        parts = {"tiles": Signing((key,))}
        worker = Follower(Place(home, LogReader(lambda: FilesLog(home / "_system")), parts=parts)).worker("tiles")
        worker.catch_up()
        worker.close()
        kept = read_kept(home, [key.verifier])
        assert kept is not None
        last = kept
        earlier[size] = home / f"checkpoint-{size}"
        earlier[size].write_bytes(last.written)
    hashes = [entry.commit.record_hash for entry in log.read(Head())]
    log.close()
    vkey = home / "vkey"
    vkey.write_text(f"{key.verifier}\n")
    return Signed(tree_directory(home), vkey, earlier, hashes, last)


def asked(*words: object) -> bool:
    ran = subprocess.run([BIN / "aics-tlog", *map(str, words)], capture_output=True, check=False, text=True)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.returncode == 0


def altered(signed: Signed, to: Path, harm: Callable[[Path], None]) -> Path:
    shutil.copytree(signed.tiles, to)
    harm(to)
    return to


def flipped(path: Path, place: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@promise("proof, foreign", "other people's verifiers accept every checkpoint, and that it was only added to")
@pytest.mark.parametrize("size", SIZES)
def test_every_checkpoint_holds_and_was_only_added_to(signed: Signed, size: int) -> None:
    assert asked("verify-checkpoint", "--vkey-file", signed.vkey, "--note", signed.earlier[size])
    assert asked(
        "verify-consistency", "--old-checkpoint", signed.earlier[size], "--tiles", signed.tiles,
        "--vkey-file", signed.vkey,
    )  # fmt: skip


@pytest.mark.parametrize("index", [0, 255, 256, 511, 699])
def test_a_commit_is_found_in_the_tiles(signed: Signed, tmp_path: Path, index: int) -> None:
    leaf = tmp_path / "leaf"
    leaf.write_bytes(bytes.fromhex(signed.hashes[index]))
    where = ("--index", index, "--tiles", signed.tiles, "--vkey-file", signed.vkey)
    assert asked("verify-inclusion", "--leaf", leaf, *where)
    flipped(leaf)
    assert not asked("verify-inclusion", "--leaf", leaf, *where)


@pytest.mark.parametrize("size", [1, 300])
def test_an_altered_checkpoint_is_refused(signed: Signed, tmp_path: Path, size: int) -> None:
    note = tmp_path / "note"
    note.write_bytes(signed.last.written.replace(b"\n700\n", b"\n%d\n" % size))
    assert not asked("verify-checkpoint", "--vkey-file", signed.vkey, "--note", note)
    other = tmp_path / "vkey"
    other.write_text(f"{SignerKey.generate(ORIGIN).verifier}\n")
    assert not asked("verify-checkpoint", "--vkey-file", other, "--note", signed.earlier[700])


@pytest.mark.parametrize("tile", ["tile/0/001", "tile/0/002.p/188", "tile/1/000.p/2"])
def test_an_altered_tile_is_refused(signed: Signed, tmp_path: Path, tile: str) -> None:
    directory = altered(signed, tmp_path / "tiles", lambda tiles: flipped(tiles / tile))
    leaf = tmp_path / "leaf"
    leaf.write_bytes(bytes.fromhex(signed.hashes[256 if "001" in tile else 699]))
    index = 256 if "001" in tile else 699
    assert not asked(
        "verify-inclusion", "--leaf", leaf, "--index", index, "--tiles", directory, "--vkey-file", signed.vkey
    )


_PYMERKLE = """
import json, sys
from pymerkle import InmemoryTree
tree = InmemoryTree(algorithm="sha256")
roots = {}
asked = json.load(sys.stdin)
for number, leaf in enumerate(asked["leaves"], 1):
    tree.append_entry(bytes.fromhex(leaf))
    if number in asked["sizes"]:
        roots[number] = tree.get_state().hex()
print(json.dumps(roots))
"""


def test_pymerkle_finds_the_same_roots(signed: Signed) -> None:
    question = json.dumps({"leaves": signed.hashes, "sizes": SIZES})
    told = subprocess.run([BIN / "python", "-c", _PYMERKLE], input=question, capture_output=True, check=True, text=True)
    roots = {int(size): b64encode(bytes.fromhex(root)).decode() for size, root in json.loads(told.stdout).items()}
    assert roots == {size: path.read_text().split("\n")[2] for size, path in signed.earlier.items()}


@promise("witness, quorum", "cosignatures count for a quorum, and others do not")
def test_our_cosignatures_count_for_a_quorum_and_others_do_not(signed: Signed, tmp_path: Path) -> None:
    witness = SignerKey.generate("witness.example/ada", WITNESS_KEY)
    key = verifier_key(signed.vkey.read_text())
    line = Witness(tmp_path / "seen", [witness], [key]).add_checkpoint(encode_request(0, [], signed.last.written))
    cosigned, replayed = tmp_path / "cosigned", tmp_path / "replayed"
    cosigned.write_bytes(signed.last.written + line.encode())
    # That of one checkpoint below another.
    replayed.write_bytes(signed.earlier[257].read_bytes() + line.encode())
    trusted = ("--vkey-file", signed.vkey, "--witness-key", str(witness.verifier), "--quorum", 1)
    assert asked("verify-checkpoint", "--note", cosigned, *trusted)
    assert not asked("verify-checkpoint", "--note", signed.earlier[700], *trusted)
    assert not asked("verify-checkpoint", "--note", replayed, *trusted)
