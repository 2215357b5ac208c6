"""Checkpoints as a person signs and checks them, with commands; and servers that sign by themselves."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import httpx2
import pytest

import verify_standalone
from tallystick import app
from tallystick.commits.signed_note import SignerKey, parse_checkpoint, parse_note, verifier_key
from tallystick.config import load
from tallystick.errors import Conflict, Corrupt, InvalidArgument, NotFound
from tests.command_line import CommandLine, node
from tests.mcp_client import ServerProcess, clean_environ, serving_http, stopping
from tests.promises import promise

NAME = "memory.example/team"


class Signing(CommandLine):
    """With a key, outside the base."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "base")
        self.key = directory / "checkpoint.key"
        self.run("keys", "new", NAME, "--file", self.key)
        self.base.mkdir()
        (self.base / "tallystick.toml").write_text(f'checkpoint_key = "{self.key}"\n')
        self.vkey = directory / "memory.vkey"
        self.vkey.write_text(self.run("keys", "verifier").out)

    @property
    def kept(self) -> Path:
        return self.base / "_system" / "tiles" / "checkpoint"

    def checkpoint(self, path: Path) -> Path:
        path.write_text(self.run("checkpoint").out)
        return path


@pytest.fixture
def shell(tmp_path: Path) -> Signing:
    return Signing(tmp_path)


def size_of(path: Path) -> int:
    return parse_checkpoint(parse_note(path.read_bytes())).size


def test_a_checkpoint_is_printed_kept_and_found_to_be_continued(shell: Signing, tmp_path: Path) -> None:
    shell.write(node("a"), node("b"))
    kept = shell.checkpoint(tmp_path / "today")
    assert kept.read_bytes() == shell.kept.read_bytes()
    key = verifier_key(shell.vkey.read_text())
    assert parse_note(kept.read_bytes()).signers([key]) == [key]
    shell.write(node("c"))
    found = shell.run("verify", "--checkpoint", kept, "--vkey", shell.vkey)
    assert (found.code, found.out.count("checkpoint: continued, 2 commits")) == (0, 2)
    told = shell.run("verify", "--checkpoint", kept, "--vkey", shell.vkey, "--json").json
    assert [(each["size"], each["problem"]) for each in told["checkpoints"]] == [(2, None), (2, None)]
    assert shell.run("checkpoint", "--json").json["size"] == 3


def test_every_tenant_is_a_log_of_its_own(shell: Signing) -> None:
    shell.write(node("a"), tenant="acme")
    signed = shell.run("checkpoint", "--tenant", "acme", "--json").json
    assert signed["origin"] == f"{NAME}/acme"
    assert signed["signed_by"] == shell.run("keys", "verifier", "--tenant", "acme").out.split()
    assert signed["signed_by"] != shell.run("keys", "verifier").out.split()


def test_without_a_key_or_a_commit_it_is_said_what_to_do(tmp_path: Path, shell: Signing) -> None:
    keyless = CommandLine(tmp_path / "other")
    keyless.write(node("a"))
    for command in (["checkpoint"], ["keys", "verifier"]):
        with pytest.raises(InvalidArgument, match="no key is configured") as refused:
            keyless.run(*command)
        assert "keys new" in (refused.value.hint or "")
        assert str(keyless.base / "tallystick.toml") in (refused.value.hint or "")
    (shell.base / "_system" / "log").mkdir(parents=True)
    with pytest.raises(NotFound, match="no commit yet"):
        shell.run("checkpoint")


@promise("checkpoint, opening", "an older copy of the log is refused by whatever opens it")
@pytest.mark.parametrize("command", [("log",), ("export",), ("snapshot",), ("checkpoint",), ("search", "a")])
def test_an_older_copy_of_the_log_is_refused_by_whatever_opens_it(
    shell: Signing, tmp_path: Path, command: tuple[str, ...]
) -> None:
    shell.write(node("a"))
    shutil.copytree(shell.base / "_system", tmp_path / "older")
    shell.write(node("b"))
    shell.run("checkpoint")
    tiles = shell.base / "_system" / "tiles"
    shutil.move(tiles, tmp_path / "tiles")
    shutil.rmtree(shell.base / "_system")
    shutil.move(tmp_path / "older", shell.base / "_system")
    shutil.move(tmp_path / "tiles", tiles)
    found = shell.main(*command)
    assert found.code == 1
    assert "says 2 commits, and it has 1 commits: its end was cut off, or it is an older copy" in found.err
    assert "restore the log from a backup" in found.err


@promise("checkpoint, verify", "a rewritten log is found by verify, doctor and whoever opens it")
def test_a_rewritten_log_is_found_by_verify_doctor_and_whoever_opens_it(shell: Signing, tmp_path: Path) -> None:
    shell.write(node("a"), node("b"))
    kept = shell.checkpoint(tmp_path / "today")
    tiles = shell.base / "_system" / "tiles"
    shutil.move(tiles, tmp_path / "tiles")
    shutil.rmtree(shell.base / "_system")
    shell.write(node("x"), node("y"), node("z"))
    # Whoever rewrote it took away what was known here. What somebody else kept still tells.
    found = shell.run("verify", "--checkpoint", kept, "--vkey", shell.vkey)
    assert found.code == 1
    assert "it was rewritten, or is another log" in found.err
    shutil.move(tmp_path / "tiles", tiles)
    assert shell.run("verify").code == 1
    with pytest.raises(Corrupt, match="rewritten"):
        shell.run("log")
    bad = shell.run("doctor")
    assert (bad.code, "it was rewritten" in bad.out) == (1, True)


def test_doctor_tells_what_is_signed_and_that_a_log_is_behind(shell: Signing) -> None:
    shell.write(node("a"), node("b"))
    shell.run("checkpoint")
    shell.write(node("c"))
    assert "2 of 3 commits signed as 'memory.example/team'" in shell.run("doctor").out
    shutil.rmtree(shell.base / "_system" / "tiles" / "tile")
    odd = shell.run("doctor")
    assert (odd.code, "the tiles do not lead to it" in odd.out) == (0, True)
    (shell.base / "_system" / "head").unlink()
    shutil.rmtree(shell.base / "_system" / "log")
    (shell.base / "_system" / "log").mkdir()
    bad = shell.run("doctor")
    assert (bad.code, "its end was cut off" in bad.out) == (1, True)


def test_an_altered_checkpoint_is_not_relied_upon(shell: Signing) -> None:
    shell.write(node("a"), node("b"))
    shell.run("checkpoint")
    shell.kept.write_bytes(shell.kept.read_bytes().replace(b"\n2\n", b"\n1\n"))
    found = shell.main("verify")
    assert (found.code, "cannot be relied upon" in found.err) == (1, True)


def test_whoever_verifies_need_not_be_able_to_sign(shell: Signing) -> None:
    shell.write(node("a"))
    shell.run("checkpoint")
    shell.key.unlink()
    assert "checkpoint: continued, 1 commit of" in shell.run("verify").out


@promise("checkpoint, restore", "a restored log must lead to the checkpoints")
def test_a_restored_log_must_lead_to_the_checkpoints(shell: Signing, tmp_path: Path) -> None:
    shell.write(node("a"))
    shell.run("export", tmp_path / "early.jsonl")
    shell.write(node("b"))
    shell.run("export", tmp_path / "late.jsonl")
    kept = shell.checkpoint(tmp_path / "today")
    elsewhere = CommandLine(tmp_path / "restored")
    against = ("--checkpoint", kept, "--vkey", shell.vkey)
    with pytest.raises(Corrupt, match="older copy"):
        elsewhere.run("import", tmp_path / "early.jsonl", *against)
    elsewhere.run("import", tmp_path / "late.jsonl", *against)
    # Into the place it was lost from, where the last checkpoint is still known.
    (shell.base / "_system" / "head").unlink()
    shutil.rmtree(shell.base / "_system" / "log")
    with pytest.raises(Corrupt, match="older copy"):
        shell.run("import", tmp_path / "early.jsonl")
    shell.run("import", tmp_path / "late.jsonl")
    assert shell.run("verify").code == 0


def test_a_checkpoint_needs_the_keys_of_who_signed_it(shell: Signing, tmp_path: Path) -> None:
    shell.write(node("a"))
    kept = shell.checkpoint(tmp_path / "today")
    with pytest.raises(InvalidArgument, match="belong together"):
        shell.run("verify", "--checkpoint", kept)
    stranger = tmp_path / "stranger.vkey"
    stranger.write_text(shell.run("keys", "new", NAME, "--file", tmp_path / "stranger.key").out)
    with pytest.raises(InvalidArgument, match="not signed by any"):
        shell.run("verify", "--checkpoint", kept, "--vkey", stranger)


@promise("checkpoint, snapshot", "a snapshot is signed, too")
def test_a_snapshot_is_signed_too(shell: Signing) -> None:
    shell.write(node("a"))
    shell.run("snapshot")
    assert size_of(shell.kept) == 1


# -- keys


@promise("checkpoint, rotation", "keys are rotated with overlap")
def test_keys_are_rotated_with_overlap(shell: Signing, tmp_path: Path) -> None:
    shell.write(node("a"))
    (old,) = shell.vkey.read_text().split()
    both = shell.run("keys", "rotate").out.split()
    assert both[0] == old
    assert [key["verifier"] for key in shell.run("keys", "list", "--json").json["keys"]] == both
    during = shell.checkpoint(tmp_path / "during")
    assert shell.run("verify", "--checkpoint", during, "--vkey", shell.vkey).code == 0
    assert shell.run("keys", "rotate", "--finish").out.split() == both[1:]
    after = shell.checkpoint(tmp_path / "after")
    shell.write(node("b"))
    later = shell.checkpoint(tmp_path / "later")
    with pytest.raises(InvalidArgument, match="not signed by any"):
        shell.run("verify", "--checkpoint", later, "--vkey", shell.vkey)
    shell.vkey.write_text(both[1])
    for each in (during, after, later):
        assert shell.run("verify", "--checkpoint", each, "--vkey", shell.vkey).code == 0
    with pytest.raises(Conflict, match="one key only"):
        shell.run("keys", "rotate", "--finish")


@promise("checkpoint, old key", "an old key stays until the new one has signed in every tenant")
def test_an_old_key_stays_until_the_new_one_has_signed_in_every_tenant(shell: Signing, tmp_path: Path) -> None:
    for tenant in ("default", "acme"):
        shell.write(node("a"), tenant=tenant)
        shell.run("checkpoint", "--tenant", tenant)
    shell.run("keys", "rotate")
    for words in ((), ("--tenant", "acme")):
        with pytest.raises(Conflict, match="has not signed yet") as refused:
            shell.run("keys", "rotate", "--finish")
        assert refused.value.hint is not None
        assert " ".join(("'tallystick checkpoint", *words)) + "'" in refused.value.hint
        shell.run("checkpoint", *words)
    shell.run("keys", "rotate", "--finish")
    shell.write(node("b"))
    shell.run("checkpoint")
    assert shell.run("verify").code == 0


def test_a_second_signature_that_quantum_computers_do_not_forge(shell: Signing, tmp_path: Path) -> None:
    shell.write(node("a"))
    first, second = shell.run("keys", "quantum").out.split()
    assert [key["kind"] for key in shell.run("keys", "list", "--json").json["keys"]] == ["log", "log, ML-DSA-44"]
    with pytest.raises(Conflict, match="already"):
        shell.run("keys", "quantum")
    signed = shell.checkpoint(tmp_path / "signed")
    assert len(parse_note(signed.read_bytes()).signatures) == 2
    both = tmp_path / "both.vkey"
    for keys in (first, second, f"{first}\n{second}"):
        both.write_text(keys)
        assert shell.run("verify", "--checkpoint", signed, "--vkey", both).code == 0
    shell.run("prove", "a", "-o", tmp_path / "a.tlog-proof")
    # Who has only the standard library believes the first, and passes over the second.
    assert verify_standalone.main(["--vkey", str(both), str(tmp_path / "a.tlog-proof")]) == 0
    # Signed again, nothing stands there twice.
    shell.run("keys", "rotate")
    assert len(parse_note(shell.checkpoint(tmp_path / "rotated").read_bytes()).signatures) == 4
    assert len(shell.run("keys", "rotate", "--finish").out.split()) == 2
    shell.write(node("b"))
    assert len(parse_note(shell.checkpoint(tmp_path / "later").read_bytes()).signatures) == 2
    assert shell.run("verify").code == 0
    shell.key.write_text(shell.key.read_text().splitlines()[1] + "\n")
    with pytest.raises(InvalidArgument, match="no Ed25519 key"):
        shell.run("checkpoint")


def test_a_checkpoint_of_somebody_else_is_not_relied_upon(shell: Signing) -> None:
    shell.write(node("a"))
    shell.run("checkpoint")
    text = parse_note(shell.kept.read_bytes()).text
    shell.kept.write_text(f"{text}\n{SignerKey.generate(NAME).signature_line(text)}")
    for words in (("verify",), ("doctor",), ("checkpoint",)):
        found = shell.main(*words)
        assert (found.code, "cannot be relied upon" in found.err + found.out) == (1, True), words
    with pytest.raises(Corrupt, match="cannot be relied upon"):
        asyncio.run(opened_once(shell.base))


async def opened_once(base: Path) -> None:
    async with app.served(load({"base": base}, environ={})):
        pass


def test_a_key_is_never_overwritten_nor_made_in_the_base(shell: Signing, tmp_path: Path) -> None:
    before = shell.key.read_bytes()
    with pytest.raises(Conflict, match="is there already"):
        shell.run("keys", "new", NAME, "--file", shell.key)
    assert shell.key.read_bytes() == before
    with pytest.raises(InvalidArgument, match="lies in the base"):
        shell.run("keys", "new", NAME, "--file", shell.base / "key")
    with pytest.raises(InvalidArgument, match="no spaces"):
        shell.run("keys", "new", "two words", "--file", tmp_path / "key")
    with pytest.raises(InvalidArgument, match="no key file"):
        CommandLine(tmp_path / "other").run("keys", "new", NAME)
    assert not (tmp_path / "key").exists()


def test_what_is_secret_is_printed_by_no_command(shell: Signing) -> None:
    secret = shell.key.read_text().strip().split("+", 4)[4]
    for words in (("list",), ("list", "--json"), ("verifier",), ("rotate",), ("rotate", "--finish", "--json")):
        found = shell.run("keys", *words)
        assert secret not in found.out + found.err
        assert "PRIVATE" not in found.out + found.err


# -- servers


def test_a_server_signs_by_itself_and_at_its_end(shell: Signing) -> None:
    with (
        serving_http(shell.base, environ={"TALLYSTICK_TLOG": "guarded"}) as server,
        httpx2.Client(base_url=server.url, timeout=None) as http,
    ):
        assert http.post("/v1/tools/memory.write", json=node("a")).status_code == 200
        while http.get("/tlog/default/checkpoint").status_code != 200:
            """Nobody asked for it: it comes within a second."""
        assert http.get("/tlog/default/checkpoint").content == shell.kept.read_bytes()
        for name in "bcd":
            assert http.post("/v1/tools/memory.write", json=node(name)).status_code == 200
    assert size_of(shell.kept) == 4
    assert shell.run("verify").code == 0


def test_a_server_that_cannot_sign_as_it_was_told_does_not_start(shell: Signing) -> None:
    shell.key.chmod(0o644)
    found = shell.main("serve")
    assert found.code == 2
    assert "can be read or written by others [CHECKPOINT_KEY_INVALID]" in found.err


@promise("checkpoint, none", "without a key nothing is written for it")
def test_without_a_key_nothing_is_written_for_it(tmp_path: Path) -> None:
    keyless = CommandLine(tmp_path / "base")
    keyless.write(node("a"))
    keyless.run("snapshot")
    assert not (keyless.base / "_system" / "tiles").exists()
    assert json.loads(keyless.run("verify", "--json").out)["checkpoints"] == []


# -- witnesses


@promise("witness, laptop", "a colleague's machine is a witness")
def test_a_colleagues_machine_is_a_witness(shell: Signing, tmp_path: Path) -> None:
    """Two programs, and HTTP between them."""
    key = tmp_path / "witness.key"
    vkey = shell.run("keys", "new", "witness.example/ada", "--witness", "--file", key).out.strip()
    words = ["witness", "--key", key, "--logs", shell.vkey, "--state", tmp_path / "seen", "--http", "127.0.0.1:0"]
    command = [sys.executable, "-m", "tallystick", *map(str, words)]
    with stopping(ServerProcess(command, environ=clean_environ())) as witness:
        witness.wait_for("verifier key")
        address = next(line for line in witness.lines if "/add-checkpoint" in line).split()[-1]
        (shell.base / "tallystick.toml").write_text(
            f'checkpoint_key = "{shell.key}"\nwitness_quorum = 1\n'
            f'witnesses = ["{vkey} {address.removesuffix("/add-checkpoint")}"]\n'
        )
        for name in "ab":
            shell.write(node(name))
            signed = shell.run("checkpoint", "--json")
            assert (signed.code, signed.json["cosigned_by"]) == (0, ["witness.example/ada"])
    shell.vkey.write_text(f"{shell.vkey.read_text()}{vkey}\n")
    kept = tmp_path / "kept"
    kept.write_bytes(shell.kept.read_bytes())
    asked = ("verify", "--checkpoint", kept, "--vkey", shell.vkey, "--quorum")
    assert shell.run(*asked, 1).code == 0
    with pytest.raises(InvalidArgument, match="and 2 are asked for"):
        shell.run(*asked, 2)
    # The witness is gone: what is new is signed, and it is said that nobody saw it.
    shell.write(node("c"))
    alone = shell.run("checkpoint")
    assert alone.code == 1
    assert "witness.example/ada did not cosign: it does not answer" in alone.err
    assert size_of(shell.kept) == 3
