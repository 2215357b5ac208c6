"""Proofs made of a memory, and checked by two verifiers that share no code."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx2
import pytest

import verify_standalone
from tallystick.cli.tool_client import ask
from tallystick.config import load
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound
from tallystick.extensions.proofs.proof_file import Trust, parse_proof
from tallystick.extensions.proofs.prove import CheckedProof, check_proof, prove_continuation
from tallystick.log import tree_directory
from tests.command_line import CommandLine
from tests.mcp_client import serving_http
from tests.promises import promise
from tests.signed_memory import KEY, OLDER, PLAIN, SECRET, SignedMemory, signed, signed_memory

TRUST = Trust((KEY.verifier,))


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> SignedMemory:
    return signed_memory(tmp_path_factory.mktemp("memory") / "memory")


@pytest.fixture
def command(memory: SignedMemory) -> CommandLine:
    return CommandLine(memory.home)


def checked(files: Path, proof: Path, *words: object) -> CheckedProof:
    """By ours, and by the one that stands alone."""
    (files / "vkey").write_text(f"{KEY.verifier}\n")
    assert verify_standalone.main(["--vkey", str(files / "vkey"), str(proof), *map(str, words)]) == 0
    given = dict(zip(words[::2], words[1::2], strict=True))
    read = {name: Path(str(given[name])).read_bytes() for name in given}
    return check_proof(proof.read_bytes(), TRUST, older=read.get("--since"), payload=read.get("--payload"))


@promise("proof, commit", "a commit is proved by its id, its position, or what it is about")
def test_a_commit_is_proved_by_its_id_its_position_or_what_it_is_about(
    tmp_path: Path, memory: SignedMemory, command: CommandLine
) -> None:
    commit = memory.entries[PLAIN].commit
    for named in (commit.commit_id, commit.commit_id[:8], commit.lamport, f"n{PLAIN}"):
        proof = tmp_path / f"{named}.tlog-proof"
        command.run("prove", named, "-o", proof)
        shown = checked(tmp_path, proof)
        assert (shown.index, shown.record_hash, shown.size) == (PLAIN, commit.record_hash, memory.size)
        assert shown.commit is not None
        assert (shown.commit.actor, shown.commit.commit_id) == ("tester", commit.commit_id)


@pytest.mark.parametrize("index", [0, 1, 255, 256, 298, 299])
def test_every_place_in_the_log_can_be_proved(
    tmp_path: Path, memory: SignedMemory, command: CommandLine, index: int
) -> None:
    made = command.run("prove", memory.entries[index].commit.commit_id, "--json").json
    (tmp_path / "x").write_text(made["proof"])
    assert checked(tmp_path, tmp_path / "x").index == made["index"] == index
    assert len(made["proof"]) < 4096


def test_what_a_commit_wrote_is_handed_over_with_its_proof(tmp_path: Path, command: CommandLine) -> None:
    proof, payload = tmp_path / "x.tlog-proof", tmp_path / "x.json"
    command.run("prove", f"n{PLAIN}", "-o", proof, "--payload", payload)
    assert checked(tmp_path, proof, "--payload", payload).payload_matches
    payload.write_bytes(payload.read_bytes().replace(b"text 5", b"text 6"))
    with pytest.raises(InvalidArgument, match="the payload is not the one"):
        check_proof(proof.read_bytes(), TRUST, payload=payload.read_bytes())


@promise("tree, redaction", "what was redacted stays proved")
def test_what_was_redacted_stays_proved_and_cannot_be_shown(
    tmp_path: Path, memory: SignedMemory, command: CommandLine
) -> None:
    named = memory.entries[SECRET].commit.commit_id
    command.run("prove", named, "-o", tmp_path / "x")
    assert checked(tmp_path, tmp_path / "x").index == SECRET
    with pytest.raises(InvalidArgument, match="was redacted"):
        command.run("prove", named, "-o", tmp_path / "z", "--payload", tmp_path / "y")
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize("option", ["-o", "--payload"])
def test_a_file_that_is_there_is_not_written_over(tmp_path: Path, command: CommandLine, option: str) -> None:
    (tmp_path / "x").write_text("a proof of last year")
    with pytest.raises(Conflict, match="already there"):
        command.run("prove", f"n{PLAIN}", option, tmp_path / "x")
    assert (tmp_path / "x").read_text() == "a proof of last year"


def test_the_newest_commit_on_an_entity_may_be_the_one_that_redacted_it(tmp_path: Path, command: CommandLine) -> None:
    command.run("prove", f"n{SECRET}", "-o", tmp_path / "x")
    shown = checked(tmp_path, tmp_path / "x")
    assert shown.commit is not None
    assert shown.commit.operation == "REDACT_NODE"


@promise("proof, since", "an older checkpoint is shown to be continued")
def test_an_older_checkpoint_is_shown_to_be_continued(
    tmp_path: Path, memory: SignedMemory, command: CommandLine
) -> None:
    memory.write(tmp_path)
    older, proof = tmp_path / "older.checkpoint", tmp_path / "grown"
    command.run("prove", "--since", older, "-o", proof)
    shown = checked(tmp_path, proof, "--since", older)
    assert (shown.old, shown.size) == (OLDER, memory.size)


def test_a_history_that_is_not_continued_is_not_proved(tmp_path: Path, memory: SignedMemory) -> None:
    other = signed_memory(tmp_path / "other", tag="another ")
    with pytest.raises(Corrupt, match="does not begin with the 260 commits"):
        prove_continuation(memory.home, other.note(OLDER))
    with pytest.raises(Conflict, match="has 301 commits"):
        prove_continuation(memory.home, signed(signed_memory(tmp_path / "longer", count=301).checkpoint()))


@pytest.mark.parametrize("named", ["nobody", "ffffffff", "0", "301", "9" * 30, "zz", "-1"])
def test_what_is_not_there_is_not_proved(command: CommandLine, named: str) -> None:
    with pytest.raises(NotFound, match="neither a commit nor an entity"):
        command.run("prove", "--", named)


def test_without_a_signature_nothing_is_proved(tmp_path: Path, memory: SignedMemory) -> None:
    shutil.copytree(memory.home, tmp_path / "memory")
    (tree_directory(tmp_path / "memory") / "checkpoint").unlink()
    with pytest.raises(NotFound, match="nothing was signed yet"):
        CommandLine(tmp_path / "memory").run("prove", "n1")


def test_what_came_after_the_last_signature_is_said_to_wait(tmp_path: Path, memory: SignedMemory) -> None:
    shutil.copytree(memory.home, tmp_path / "memory")
    (tree_directory(tmp_path / "memory") / "checkpoint").write_bytes(memory.note(OLDER))
    command = CommandLine(tmp_path / "memory")
    with pytest.raises(Conflict, match="only 260 are signed so far"):
        command.run("prove", "last")
    made = command.run("prove", "n1", "--json").json
    assert made["size"] == OLDER, "the tiles are ahead of what is signed"


@promise("proof, lineage", "a history has the proof of each commit that is signed")
def test_a_history_has_the_proof_of_each_commit_that_is_signed(tmp_path: Path, memory: SignedMemory) -> None:
    shutil.copytree(memory.home, tmp_path / "memory")
    (tree_directory(tmp_path / "memory") / "checkpoint").write_bytes(memory.note(OLDER))
    settings = load({"base": tmp_path / "memory"}, environ={})
    first, redaction = ask(settings, "memory.lineage", {"entity_id": f"n{SECRET}", "proof": True})["lineage"]
    # What was redacted since stays proved; the redaction is not signed yet.
    assert check_proof(first["proof"].encode(), TRUST).index == SECRET
    assert redaction["proof"] is None
    (plain,) = ask(settings, "memory.lineage", {"entity_id": f"n{PLAIN}"})["lineage"]
    assert "proof" not in plain
    page = ask(settings, "memory.lineage", {"entity_id": f"n{PLAIN}", "proof": True, "limit": 1000})
    assert page["pagination"]["limit"] == 50


def test_changed_tiles_make_no_proof(tmp_path: Path, memory: SignedMemory) -> None:
    shutil.copytree(memory.home, tmp_path / "memory")
    tile = tree_directory(tmp_path / "memory") / "tile/0/000"
    tile.write_bytes(b"\0" * 32 + tile.read_bytes()[32:])
    with pytest.raises(Corrupt, match="is not in the tree that was signed"):
        CommandLine(tmp_path / "memory").run("prove", "n1")
    tile.unlink()
    with pytest.raises(Corrupt, match="do not reach as far"):
        CommandLine(tmp_path / "memory").run("prove", "n1")


@promise("proof, http", "proofs are served")
def test_proofs_are_served(tmp_path: Path, memory: SignedMemory) -> None:
    shutil.copytree(memory.home, tmp_path / "memory")
    with serving_http(tmp_path / "memory") as server, httpx2.Client(base_url=server.url) as client:
        found = client.get(f"/v1/proof/entry/n{PLAIN}")
        assert (found.status_code, found.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        assert check_proof(found.content, TRUST).index == PLAIN
        grown = client.get(f"/v1/proof/since/{OLDER}")
        assert check_proof(grown.content, TRUST, older=memory.note(OLDER)).old == OLDER
        missing = client.get("/v1/proof/entry/nobody")
        assert (missing.status_code, missing.json()["error"]) == (404, "ENTITY_NOT_FOUND")
        assert client.get("/v1/proof/since/x").status_code == 400
        assert client.get("/v1/proof/since/99999").status_code == 409
        assert parse_proof(found.content).note == memory.note()


@promise("proof, command", "whoever gets a proof checks it by a command")
def test_whoever_gets_a_proof_checks_it_by_a_command(
    tmp_path: Path, memory: SignedMemory, command: CommandLine
) -> None:
    memory.write(tmp_path)
    words = ("verify", "--vkey", tmp_path / "vkey", "--proof")
    nowhere = {"BASE_PATH": str(tmp_path / "nowhere")}
    found = command.main(*words, tmp_path / "commit.tlog-proof", "--payload", tmp_path / "payload.json", **nowhere)
    assert (found.code, found.err) == (0, "")
    assert "commit 5 (counted from 0) of the 300 that 'shop.example/memory' signed" in found.out
    assert "UPSERT_NODE by tester" in found.out
    grown = command.run(*words, tmp_path / "grown.tlog-consistency", "--since", tmp_path / "older.checkpoint", "--json")
    assert grown.json["sound"]
    assert (grown.json["old"], grown.json["size"]) == (OLDER, memory.size)
    alone = command.main(*words, tmp_path / "commit.tlog-proof", "--quorum", 1)
    assert (alone.code, "0 witnesses cosigned it, not 1" in alone.out) == (1, True)
    assert command.main("verify", "--proof", tmp_path / "commit.tlog-proof").code == 2
    assert command.main("verify", "--quorum", 1).code == 2


def test_a_key_a_write_and_a_proof(tmp_path: Path) -> None:
    """All of it by commands: what is proved is signed then and there."""
    command = CommandLine(tmp_path / "memory")
    key = {"TALLYSTICK_CHECKPOINT_KEY": str(tmp_path / "key")}
    command.run("keys", "new", KEY.name, "--file", tmp_path / "key", **key)
    (tmp_path / "vkey").write_text(command.run("keys", "verifier", **key).out)
    command.write({"op": "UPSERT_NODE", "node": {"id": "ada", "type": "Person", "attrs": {"born": 1815}}})
    command.run("prove", "ada", "-o", tmp_path / "x", "--payload", tmp_path / "y", **key)
    words = ["--vkey", str(tmp_path / "vkey"), str(tmp_path / "x"), "--payload", str(tmp_path / "y")]
    assert verify_standalone.main(words) == 0
    assert verify_standalone.main(["--vkey", str(tmp_path / "vkey"), str(tmp_path / "memory")]) == 0
