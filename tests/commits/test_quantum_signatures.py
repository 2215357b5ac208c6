"""A second signature line: ML-DSA-44 (C2SP tlog-cosignature), and kinds of signatures that nobody here knows."""

from __future__ import annotations

import sys
from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PublicKey

from tallystick.commits.signed_note import (
    QUANTUM_KEY,
    Checkpoint,
    NoteRefused,
    SignerKey,
    VerifierKey,
    parse_note,
    signer_key,
    verifier_key,
)
from tallystick.extensions.proofs.proof_file import Trust, trusted_checkpoint
from tests.promises import promise

ORIGIN = "shop.example/memory"
KEY = SignerKey(ORIGIN, bytes(range(32)))
SECOND = SignerKey(ORIGIN, bytes(range(32)), QUANTUM_KEY)
CHECKPOINT = Checkpoint(ORIGIN, 300, bytes(range(32)))


def noted(*keys: SignerKey, text: str = CHECKPOINT.text(), seconds: int | None = None) -> bytes:
    return f"{text}\n{''.join(key.signature_line(text, seconds=seconds) for key in keys)}".encode()


def accepts(note: bytes, *keys: VerifierKey, quorum: int = 0) -> bool:
    try:
        return trusted_checkpoint(note, Trust(keys, quorum)) == CHECKPOINT
    except NoteRefused:
        return False


@promise("checkpoint, second line", "a second signature of ML-DSA-44 satisfies who knows either key, or both")
def test_who_knows_either_key_or_both_is_satisfied() -> None:
    both = noted(KEY, SECOND)
    assert accepts(both, KEY.verifier)
    assert accepts(both, SECOND.verifier)
    assert accepts(both, KEY.verifier, SECOND.verifier)
    assert not accepts(noted(KEY), SECOND.verifier)
    assert not accepts(noted(SECOND), KEY.verifier)


def test_what_is_signed_is_what_the_standard_says() -> None:
    (_, _, signature), *_ = parse_note(noted(SECOND, seconds=1_790_000_000)).signatures
    name, seconds = ORIGIN.encode(), (1_790_000_000).to_bytes(8, "big")
    message = b"subtree/v1\n\0" + bytes([len(name)]) + name + seconds + bytes([len(name)]) + name
    message += (0).to_bytes(8, "big") + (300).to_bytes(8, "big") + bytes(range(32))
    assert signature[:8] == seconds
    MLDSA44PublicKey.from_public_bytes(SECOND.verifier.public).verify(signature[8:], message)


def test_a_bad_second_signature_refuses_the_note_for_who_knows_its_key() -> None:
    _, _, signature = parse_note(noted(SECOND)).signatures[0]
    for altered in (
        b"\0" * 7 + b"\1" + signature[8:],
        b"\xff" * 8 + signature[8:],
        signature[:-1] + bytes([signature[-1] ^ 1]),
        signature[:8],
        signature[:3],
    ):
        line = f"\u2014 {ORIGIN} {b64encode(SECOND.verifier.id + altered).decode()}\n"
        note = noted(KEY) + line.encode()
        assert accepts(note, KEY.verifier)
        assert not accepts(note, KEY.verifier, SECOND.verifier)


def test_of_another_name_it_is_a_witness_s() -> None:
    witness = SignerKey.generate("witness.example", QUANTUM_KEY)
    note = noted(KEY, witness, seconds=None)
    assert accepts(note, KEY.verifier, witness.verifier, quorum=1)
    assert not accepts(note, witness.verifier)
    assert not accepts(noted(KEY, SECOND), KEY.verifier, SECOND.verifier, quorum=1)


@pytest.mark.parametrize(
    "text", ["no checkpoint\n", f"{CHECKPOINT.text()}extension\n", Checkpoint("o" * 256, 1, bytes(32)).text()]
)
def test_only_a_checkpoint_is_signed_with_it(text: str) -> None:
    with pytest.raises(NoteRefused) as error:
        SECOND.signature_line(text)
    if text != "no checkpoint\n":
        assert error.value.message == (
            "only a checkpoint without extensions, and with short names, is signed with ML-DSA-44"
        )
    line = SECOND.signature_line(CHECKPOINT.text())
    with pytest.raises(NoteRefused, match="does not hold"):
        parse_note(f"{text}\n{line}".encode()).signers([SECOND.verifier])


def test_names_may_be_as_long_as_their_length_can_be_said() -> None:
    longest = SignerKey("n" * 255, KEY.seed, QUANTUM_KEY)
    text = Checkpoint("o" * 255, 1, bytes(32)).text()
    note = parse_note(noted(longest, text=text, seconds=(1 << 63) - 1))
    assert note.signers([longest.verifier]) == [longest.verifier]
    for key, seconds in ((SignerKey("n" * 256, KEY.seed, QUANTUM_KEY), 1), (longest, 1 << 63)):
        with pytest.raises(NoteRefused, match="only a checkpoint"):
            key.signature_line(text, seconds=seconds)


def test_keys_are_read_as_they_were_written() -> None:
    assert verifier_key(str(SECOND.verifier)) == SECOND.verifier
    assert signer_key(SECOND.written()) == SECOND
    assert len(SECOND.verifier.public) == 1312
    short = f"{ORIGIN}+{SECOND.verifier.id.hex()}+{b64encode(bytes([QUANTUM_KEY]) + bytes(32)).decode()}"
    with pytest.raises(NoteRefused, match="not an ML-DSA-44 key"):
        verifier_key(short)


@promise("checkpoint, unknown lines", "kinds of signatures that nobody knows are kept and passed over")
def test_kinds_of_signatures_that_nobody_knows_are_kept_and_passed_over() -> None:
    unknown = f"\u2014 {ORIGIN} {b64encode(b'abcd' + bytes(5000)).decode()}\n"
    note = noted(KEY) + unknown.encode()
    assert accepts(note, KEY.verifier, SECOND.verifier)
    assert parse_note(note).signatures[1] == (ORIGIN, b"abcd", bytes(5000))


def test_an_older_library_is_said_to_be_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    note = noted(KEY, SECOND)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.mldsa", None)
    monkeypatch.delattr("cryptography.hazmat.primitives.asymmetric.mldsa")
    assert accepts(note, KEY.verifier)
    with pytest.raises(NoteRefused) as error:
        parse_note(note).signers([SECOND.verifier])
    assert (error.value.message, error.value.hint) == (
        "signatures of type ML-DSA-44 cannot be made or checked with the cryptography library that is installed",
        "a newer one can; Ed25519 keys alone work with any",
    )
