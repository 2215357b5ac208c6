"""Notes as C2SP publishes them, and notes that nobody should believe."""

from __future__ import annotations

import pytest

from tallystick.commits.signed_note import (
    SIGNATURES_MAX,
    WITNESS_KEY,
    Checkpoint,
    NoteRefused,
    SignerKey,
    cosignature_seconds,
    parse_checkpoint,
    parse_note,
    verifier_key,
)

VECTOR_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
VECTOR = """This is an example message.

— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=
"""
ROOT = bytes(range(32))
TEXT = Checkpoint("shop.example/memory", 70_000, ROOT).text()


@pytest.fixture(scope="module")
def key() -> SignerKey:
    return SignerKey.generate("shop.example/memory")


def signed(*signers: SignerKey, text: str = TEXT) -> bytes:
    return (text + "\n" + "".join(each.signature_line(text) for each in signers)).encode()


def test_the_published_vector_is_accepted() -> None:
    key = verifier_key(VECTOR_KEY)
    assert str(key) == VECTOR_KEY
    assert parse_note(VECTOR.encode()).signers([key]) == [key]


def test_every_altered_byte_of_the_published_text_is_refused() -> None:
    key = verifier_key(VECTOR_KEY)
    data = VECTOR.encode()
    for place in range(len("This is an example message.")):
        altered = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(NoteRefused, match="does not hold"):
            parse_note(altered).signers([key])


def test_a_checkpoint_is_read_as_it_was_signed(key: SignerKey) -> None:
    note = parse_note(signed(key))
    assert note.signers([key.verifier]) == [key.verifier]
    assert parse_checkpoint(note) == Checkpoint("shop.example/memory", 70_000, ROOT)


def test_signatures_of_strangers_are_passed_over(key: SignerKey) -> None:
    stranger = SignerKey.generate("someone.example")
    same_name = SignerKey.generate(key.name)
    note = parse_note(signed(stranger, key, same_name))
    assert note.signers([key.verifier]) == [key.verifier]
    assert parse_note(signed(stranger)).signers([key.verifier]) == []


def test_a_bad_signature_of_a_known_key_refuses_the_note_whatever_else_holds(key: SignerKey) -> None:
    other = SignerKey.generate("other.example")
    elsewhere = key.signature_line("another text\n")
    data = signed(other) + elsewhere.encode()
    with pytest.raises(NoteRefused, match="does not hold"):
        parse_note(data).signers([key.verifier, other.verifier])


def test_a_cosignature_says_when_and_holds_for_that_time_only() -> None:
    witness = SignerKey.generate("witness.example", WITNESS_KEY)
    line = witness.signature_line(TEXT, seconds=1_790_000_000)
    note = parse_note(f"{TEXT}\n{line}".encode())
    assert note.signers([witness.verifier]) == [witness.verifier]
    name, key_id, signature = note.signatures[0]
    assert cosignature_seconds(signature) == 1_790_000_000
    later = (1_790_000_001).to_bytes(8, "big") + signature[8:]
    assert not witness.verifier.holds(TEXT, later)
    assert (name, key_id) == ("witness.example", witness.verifier.id)


def test_sixteen_signatures_and_more_are_read(key: SignerKey) -> None:
    strangers = [SignerKey.generate(f"s{number}.example") for number in range(SIGNATURES_MAX - 1)]
    assert parse_note(signed(*strangers, key)).signers([key.verifier]) == [key.verifier]
    with pytest.raises(NoteRefused, match="at most"):
        parse_note(signed(*strangers, key, key))


@pytest.mark.parametrize(
    "written",
    [
        b"",
        b"no signatures\n",
        b"text\n\n",
        "text\n\n— name\n".encode(),
        "text\n\n— name AAAA\n".encode(),
        "text\n\n— name AAAAAAAAAA==".encode(),
        "text\n\n— na+me AAAAAAAAAAA=\n".encode(),
        "text\n\n— name AAAAAAAAAAB=\n".encode(),
        "text\x00\n\n— name AAAAAAAAAAA=\n".encode(),
        b"\xff\n\n",
        b"x" * (65 << 10),
    ],
)
def test_what_is_no_note_is_refused(written: bytes) -> None:
    with pytest.raises(NoteRefused):
        parse_note(written)


@pytest.mark.parametrize(
    "text",
    [
        "origin\n5\n",
        "\n5\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "origin\n05\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "origin\n-5\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "origin\n٥\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "origin\n99999999999999999999999999\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        "origin\n5\nAAEC\n",
        "origin\n5\nnot base64\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(key: SignerKey, text: str) -> None:
    with pytest.raises(NoteRefused):
        parse_checkpoint(parse_note(signed(key, text=text)))


@pytest.mark.parametrize(
    "written",
    [
        "",
        "name",
        "name+id",
        VECTOR_KEY.replace("530d903a", "530d903b"),
        "a b+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKa",
    ],
)
def test_what_is_no_key_is_refused(written: str) -> None:
    with pytest.raises(NoteRefused):
        verifier_key(written)
