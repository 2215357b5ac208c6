"""The verifier that stands alone: what it accepts, what it says, and that it needs nothing of ours."""

from __future__ import annotations

import ast
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

import verify_standalone
from tests.promises import promise
from tests.signed_memory import KEY, NEXT_KEY, WITNESS, SignedMemory, signed_memory

PROGRAM = Path(verify_standalone.__file__)
GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("signed")
    signed_memory(directory / "memory").write(directory)
    return directory


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> SignedMemory:
    return signed_memory(tmp_path_factory.mktemp("other") / "memory")


def test_only_the_standard_library_is_imported() -> None:
    tree = ast.parse(PROGRAM.read_text("utf-8"))
    imported = {
        name.split(".")[0]
        for each in ast.walk(tree)
        for name in (
            [alias.name for alias in each.names]
            if isinstance(each, ast.Import)
            else [each.module or ""]
            if isinstance(each, ast.ImportFrom)
            else []
        )
    }
    assert imported - {"__future__"} <= sys.stdlib_module_names


@promise("proof, standalone", "one file with the standard library accepts what is true")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["memory"], "yes: 300 commits up to lamport 300"),
        (["memory/_system"], "yes: 300 commits"),
        (["memory/_system/log"], "yes: 300 commits"),
        (["memory", "--checkpoint", "older.checkpoint"], "yes: 300 commits"),
        (["export.jsonl", "--checkpoint", "checkpoint"], "yes: 300 commits"),
        (["memory/_system/tiles"], "yes: 300 entries"),
        (["commit.tlog-proof"], "yes: entry 5 of 300 of 'shop.example/memory': UPSERT_NODE by 'tester'"),
        (["commit.tlog-proof", "--payload", "payload.json"], "and the payload is the one it speaks of"),
        (["grown.tlog-consistency", "--since", "older.checkpoint"], "yes: the 300 entries"),
    ],
)
def test_what_is_true_is_accepted_by_a_bare_python(files: Path, words: list[str], said: str) -> None:
    command = [sys.executable, "-I", "-S", str(PROGRAM), "--vkey", "vkey", *words]
    ran = subprocess.run(command, cwd=files, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    assert said in ran.stdout


def ask(*words: object) -> int:
    return verify_standalone.main([str(word) for word in words])


def test_an_empty_log_beside_a_snapshot_is_not_accepted(tmp_path: Path) -> None:
    log = tmp_path / "_system" / "log"
    log.mkdir(parents=True)
    (log / f"{1:020d}.jsonl").write_bytes(b"")
    command = [sys.executable, "-I", "-S", str(PROGRAM), "--without-key", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    (tmp_path / "_system" / "snapshots").mkdir()
    (tmp_path / "_system" / "snapshots" / f"{7:020d}.snapshot").write_bytes(b"")
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "a snapshot was made at 7" in ran.stdout + ran.stderr


def test_logs_of_every_released_format_are_accepted() -> None:
    for golden in sorted(GOLDEN.glob("*.jsonl")):
        assert ask("--without-key", golden) == 0


def test_an_export_may_come_from_a_pipe(files: Path) -> None:
    command = [sys.executable, "-I", str(PROGRAM), "--vkey", "vkey", "--checkpoint", "checkpoint", "--json", "-"]
    export = (files / "export.jsonl").read_bytes()
    ran = subprocess.run(command, cwd=files, input=export, capture_output=True, check=False)
    assert json.loads(ran.stdout)["valid"], ran.stdout


def test_without_a_key_it_says_what_it_could_not_see(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("--without-key", files / "export.jsonl") == 0
    assert "nobody's signature was asked for" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--vkey", "k", "--without-key"], ["--without-key", "--checkpoint", "c"]])
def test_to_be_asked_wrongly_is_neither_yes_nor_no(words: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        ask("export.jsonl", *words)
    assert left.value.code == 2


def test_a_log_with_a_key_but_nothing_signed_is_not_accepted(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("--vkey", files / "vkey", files / "export.jsonl") == 1
    assert "no checkpoint to compare with" in capsys.readouterr().out


def test_a_receipt_is_not_taken_for_a_log(tmp_path: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    receipt = tmp_path / "kT4mPzqLw2.receipt.json"
    receipt.write_text('{"payload": "e30=", "payloadType": "application/vnd.in-toto+json", "signatures": []}')
    assert ask("--vkey", files / "vkey", receipt) == 1
    assert "its .tlog-proof is checked here, itself by 'tallystick receipt verify'" in capsys.readouterr().out


def test_while_keys_overlap_either_is_enough(tmp_path: Path, memory: SignedMemory) -> None:
    memory.write(tmp_path)
    (tmp_path / "both").write_bytes(memory.note(None, NEXT_KEY))
    (tmp_path / "vkey").write_text(f"# of the shop\n{NEXT_KEY.verifier}\n")
    export = tmp_path / "export.jsonl"
    assert ask("--vkey", tmp_path / "vkey", "--checkpoint", tmp_path / "both", export) == 0
    assert ask("--vkey", tmp_path / "vkey", "--checkpoint", tmp_path / "checkpoint", export) == 1


def test_a_quorum_of_witnesses_is_counted(
    tmp_path: Path, memory: SignedMemory, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.write(tmp_path)
    (tmp_path / "cosigned").write_bytes(memory.note(None, KEY, WITNESS, WITNESS))
    words = ("--vkey", tmp_path / "vkeys", tmp_path / "export.jsonl", "--checkpoint")
    assert ask(*words, tmp_path / "cosigned", "--quorum", 1) == 0
    assert ask(*words, tmp_path / "cosigned", "--quorum", 2) == 1
    assert ask(*words, tmp_path / "checkpoint", "--quorum", 1) == 1
    assert "0 witnesses cosigned it, not 1" in capsys.readouterr().out


# -- Ed25519


VECTORS = [  # RFC 8032, 7.1
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("public", "message", "signature"), VECTORS)
def test_the_published_signatures_hold(public: str, message: str, signature: str) -> None:
    assert verify_standalone.ed25519_holds(*map(bytes.fromhex, (public, message, signature)))


def test_it_judges_signatures_as_openssl_does() -> None:
    rng = random.Random(8032)
    for _ in range(150):
        private = Ed25519PrivateKey.from_private_bytes(rng.randbytes(32))
        public, message = private.public_key().public_bytes_raw(), rng.randbytes(rng.randrange(80))
        signature = private.sign(message)
        assert verify_standalone.ed25519_holds(public, message, signature)
        altered = bytearray(signature)
        altered[rng.randrange(64)] ^= 1 << rng.randrange(8)
        assert verify_standalone.ed25519_holds(public, message, bytes(altered)) == openssl(public, message, altered)


def openssl(public: bytes, message: bytes, signature: bytes | bytearray) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(bytes(signature), message)
    except InvalidSignature:
        return False
    return True


def test_a_scalar_beyond_the_group_is_refused() -> None:
    """Otherwise each signature would have a second one, which nobody made."""
    public, message, signature = map(bytes.fromhex, VECTORS[1])
    scalar = int.from_bytes(signature[32:], "little") + 2**252 + 27742317777372353535851937790883648493
    assert not verify_standalone.ed25519_holds(public, message, signature[:32] + scalar.to_bytes(32, "little"))
    assert not verify_standalone.ed25519_holds(public, message, signature[:-1])
    assert not verify_standalone.ed25519_holds(bytes([255] * 32), message, signature)
