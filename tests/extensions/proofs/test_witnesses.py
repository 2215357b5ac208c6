"""Cosignatures are collected from those who give them; what others answer, or do not, breaks nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tallystick.commits.signed_note import WITNESS_KEY, SignerKey
from tallystick.errors import InvalidArgument, TallystickError
from tallystick.extensions.proofs.checkpoints import WITNESSED_EVERY_SECONDS, SignedTiles, cosign, sign
from tallystick.extensions.proofs.tiles import TilesProjection, read_place
from tallystick.extensions.proofs.witness import NotContinued, OtherSize, Witness
from tallystick.extensions.proofs.witnesses import Post, Reply, WitnessAddress, Witnesses, parse_witnesses
from tallystick.log import checkpoint_path, tree_directory
from tallystick.log.checkpoint import Known, read_kept, read_known
from tallystick.log.files import FilesLog
from tests.commits_by_hand import append, draft, node
from tests.promises import promise

ORIGIN = "memory.example/team"
KEY = SignerKey.generate(ORIGIN)
ADA, BOB = (SignerKey.generate(f"witness.example/{name}", WITNESS_KEY) for name in ("ada", "bob"))


class Wire:
    """To witnesses in this process, by the host of their address; counts the questions."""

    def __init__(self, **witnesses: Witness | Post) -> None:
        self.witnesses = witnesses
        self.questions = 0

    def __call__(self, url: str, body: bytes) -> Reply:
        self.questions += 1
        assert url.endswith("/add-checkpoint")
        witness = self.witnesses[url.split("/")[2]]
        if not isinstance(witness, Witness):
            return witness(url, body)
        try:
            return Reply(200, witness.add_checkpoint(body).encode())
        except OtherSize as error:
            return Reply(409, f"{error.details['size']}\n".encode())
        except NotContinued as error:
            return Reply(422, error.message.encode())


@pytest.fixture
def log(tmp_path: Path) -> Iterator[FilesLog]:
    log = FilesLog(tmp_path / "home" / "_system")
    yield log
    log.close()


def grown(log: FilesLog, count: int, name: str = "n") -> Known:
    """And signed."""
    append(log, *(draft(node(f"{name}{log.head().count + number}")) for number in range(count)))
    home = log.system.parent
    tiles = TilesProjection(home)
    tiles.apply(list(log.read(tiles.position())), log.head())
    place = read_place(tree_directory(home))
    assert place is not None
    return sign(home, place, [KEY])


def witness(directory: Path, key: SignerKey) -> Witness:
    return Witness(directory, [key], [KEY.verifier])


def addresses(**keys: SignerKey) -> list[WitnessAddress]:
    return [WitnessAddress(key.verifier, f"http://{name}") for name, key in keys.items()]


def test_cosignatures_are_kept_with_the_checkpoint(tmp_path: Path, log: FilesLog) -> None:
    wire = Wire(ada=witness(tmp_path / "ada", ADA), bob=witness(tmp_path / "bob", BOB))
    witnesses, home = Witnesses(addresses(ada=ADA, bob=BOB), wire), log.system.parent
    everybody = [KEY.verifier, ADA.verifier, BOB.verifier]
    kept: Known | None = None
    for count in (3, 300, 1):
        assert [each.problem for each in cosign(home, grown(log, count), witnesses)] == [None, None]
        kept = read_kept(home, everybody)
        assert kept is not None
        assert kept.note.signers(everybody) == everybody
        assert read_known(checkpoint_path(home), everybody, quorum=2) == kept
    # What they have seen is remembered: nobody was asked twice. And what is cosigned is not asked for again.
    assert wire.questions == 6
    assert kept is not None
    assert cosign(home, kept, witnesses) == []
    # Another process does not know, and asks once more.
    assert [each.problem for each in cosign(home, grown(log, 5), Witnesses(addresses(ada=ADA), wire))] == [None]
    assert wire.questions == 8


def test_one_that_does_not_answer_takes_nothing_from_the_others(tmp_path: Path, log: FilesLog) -> None:
    def silent(url: str, body: bytes) -> Reply:
        raise TallystickError("it does not answer")

    wire = Wire(ada=silent, bob=witness(tmp_path / "bob", BOB))
    home = log.system.parent
    asked = cosign(home, grown(log, 3), Witnesses(addresses(ada=ADA, bob=BOB), wire))
    assert [(each.witness, each.problem) for each in asked] == [(ADA.name, "it does not answer"), (BOB.name, None)]
    kept = read_known(checkpoint_path(home), [KEY.verifier, ADA.verifier, BOB.verifier], quorum=1)
    with pytest.raises(InvalidArgument, match="cosigned by 1 of the witnesses given, and 2"):
        read_known(checkpoint_path(home), [KEY.verifier, ADA.verifier, BOB.verifier], quorum=2)
    # Later it does.
    wire.witnesses["ada"] = witness(tmp_path / "ada", ADA)
    cosign(home, kept, Witnesses(addresses(ada=ADA, bob=BOB), wire))
    read_known(checkpoint_path(home), [KEY.verifier, ADA.verifier, BOB.verifier], quorum=2)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (Reply(200, b""), "signatures"),
        (Reply(200, b"\xff\n"), "UTF-8"),
        (Reply(200, "\u2014 x AAAA\n".encode()), "too short"),
        (Reply(200, BOB.signature_line("text\n", seconds=1).encode()), "no cosignature of the key"),
        (Reply(200, ADA.signature_line("another text\n", seconds=1).encode()), "does not hold"),
        (Reply(404, b"unknown \x1b[31m log"), "it answered 404"),
        (Reply(500, b""), "it answered 500"),
        (Reply(409, b"many\n"), "not a decimal number"),
        (Reply(409, b"7\n"), "commits were lost"),
        (Reply(409, b"2\n"), "it answered 409"),
    ],
)
def test_what_is_no_cosignature_is_not_kept(log: FilesLog, reply: Reply, problem: str) -> None:
    known = grown(log, 3)
    (asked,) = cosign(log.system.parent, known, Witnesses(addresses(ada=ADA), lambda url, body: reply))
    assert asked.problem is not None
    assert problem in asked.problem
    assert read_kept(log.system.parent) == known


@promise("witness, split view", "a log with two histories finds no witness for the second")
def test_a_log_with_two_histories_finds_no_witness_for_the_second(tmp_path: Path, log: FilesLog) -> None:
    ada = witness(tmp_path / "ada", ADA)
    cosign(log.system.parent, grown(log, 3), Witnesses(addresses(ada=ADA), Wire(ada=ada)))
    other = FilesLog(tmp_path / "other" / "_system")
    for count in (3, 2):
        (asked,) = cosign(tmp_path / "other", grown(other, count, "x"), Witnesses(addresses(ada=ADA), Wire(ada=ada)))
        assert asked.problem is not None
    other.close()


def test_a_server_asks_with_what_it_signs_and_not_all_the_time(tmp_path: Path, log: FilesLog) -> None:
    wire, home = Wire(ada=witness(tmp_path / "ada", ADA)), log.system.parent
    now = 4_000_000_000.0
    tiles = SignedTiles(home, [KEY], Witnesses(addresses(ada=ADA), wire), now=lambda: now)
    append(log, draft(node("a")))
    tiles.apply(list(log.read(tiles.position())), log.head())
    tiles.settle()
    read_known(checkpoint_path(home), [KEY.verifier, ADA.verifier], quorum=1)
    append(log, draft(node("b")))
    tiles.apply(list(log.read(tiles.position())), log.head())
    now = checkpoint_path(home).stat().st_mtime + 1
    assert tiles.settle() == pytest.approx(WITNESSED_EVERY_SECONDS - 1)
    assert wire.questions == 1
    tiles.settle(final=True)
    assert read_known(checkpoint_path(home), [KEY.verifier, ADA.verifier], quorum=1).checkpoint.size == 2


def test_a_witness_alone_does_not_make_a_checkpoint(tmp_path: Path, log: FilesLog) -> None:
    known = grown(log, 1)
    path = tmp_path / "kept"
    path.write_text(f"{known.note.text}\n{ADA.signature_line(known.note.text, seconds=1)}")
    with pytest.raises(InvalidArgument, match="not signed by any"):
        read_known(path, [KEY.verifier, ADA.verifier])


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", "names no address"),
        (str(ADA.verifier), "names no address"),
        (f"{ADA.verifier} ftp://witness.example", "names no address"),
        (f"{ADA.verifier} http://witness.example?x=1", "names no address"),
        ("key http://witness.example", "name\\+id\\+key"),
        (f"{KEY.verifier} http://witness.example", "not that of a witness"),
    ],
    ids=["nothing", "no address", "no HTTP", "a query", "no key", "the key of a log"],
)
def test_a_witness_that_is_written_wrongly_is_said_to_be(written: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        parse_witnesses([written])


def test_a_witness_is_a_key_and_an_address() -> None:
    (found,) = parse_witnesses([f"{ADA.verifier} https://witness.example/prefix/"])
    assert found == WitnessAddress(ADA.verifier, "https://witness.example/prefix")
