"""Notes as C2SP publishes them, and notes that nobody should believe."""

from __future__ import annotations

from base64 import b64encode

import pytest

from tallystick.commits.signed_note import (
    NOTE_BYTES_MAX,
    SIGNATURES_MAX,
    SIZE_MAX,
    WITNESS_KEY,
    Checkpoint,
    NoteRefused,
    SignerKey,
    parse_checkpoint,
    parse_note,
    signer_key,
    verifier_key,
)
from tests.promises import promise

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


@promise("checkpoint, vector", "the published signed note is accepted")
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
    assert int.from_bytes(signature[:8], "big") == 1_790_000_000
    later = (1_790_000_001).to_bytes(8, "big") + signature[8:]
    assert not witness.verifier.holds(TEXT, later)
    assert (name, key_id) == ("witness.example", witness.verifier.id)


def test_sixteen_signatures_and_more_are_read(key: SignerKey) -> None:
    strangers = [SignerKey.generate(f"s{number}.example") for number in range(SIGNATURES_MAX - 1)]
    assert parse_note(signed(*strangers, key)).signers([key.verifier]) == [key.verifier]
    with pytest.raises(NoteRefused, match="at most"):
        parse_note(signed(*strangers, key, key))


def said(error: pytest.ExceptionInfo[NoteRefused]) -> str:
    return error.value.message


NO_END = "a note ends with an empty line and signatures"
NO_LINE = "a signature line is a dash, a name and base64"


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (b"", NO_END),
        (b"no signatures\n", NO_END),
        (b"text\n\n", NO_END),
        ("text\n\n— name AAAAAAAAAA==".encode(), NO_END),
        ("text\n\n— name\n".encode(), NO_LINE),
        (b"text\n\n- name AAAAAAAAAAA=\n", NO_LINE),
        ("text\n\n— two names AAAAAAAAAAA=\n".encode(), NO_LINE),
        ("text\n\n— name AAAAAA==\n".encode(), "the signature of 'name' is too short"),
        ("text\n\n— na+me AAAAAAAAAAA=\n".encode(), "the name of a key has no spaces and no plus sign"),
        ("text\n\n—  AAAAAAAAAAA=\n".encode(), "the name of a key has no spaces and no plus sign"),
        ("text\n\n— n\u2003e AAAAAAAAAAA=\n".encode(), "the name of a key has no spaces and no plus sign"),
        ("text\n\n— name AAAAAAAAAAB=\n".encode(), "'AAAAAAAAAAB=' is not base64 as it is written"),
        ("text\n\n— name AAAA-AAAAAAA=\n".encode(), "'AAAA-AAAAAAA=' is not base64"),
        (f"text\n\n— name {'A' * 25}\n".encode(), f"'{'A' * 20}' is not base64"),
        (f"text\n\n— name {'A' * 26}B=\n".encode(), f"'{'A' * 20}' is not base64 as it is written"),
        ("text\x00\n\n— name AAAAAAAAAAA=\n".encode(), "a note has no control characters"),
        (b"\xff\n\n", "a note is UTF-8 text"),
        (b"x" * (NOTE_BYTES_MAX + 1), "a note has at most 65536 bytes"),
    ],
)
def test_what_is_no_note_is_refused_and_why_is_said(written: bytes, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        parse_note(written)
    assert said(error) == problem


def test_what_comes_before_the_last_empty_line_is_the_text() -> None:
    note = parse_note("one\n\ntwo\n\n— name AAAAAAAAAAA=\n".encode())
    assert (note.text, note.signatures) == ("one\n\ntwo\n", (("name", bytes(4), bytes(4)),))


def test_a_note_may_be_as_long_as_is_allowed() -> None:
    end = "\n\n— name AAAAAAAAAAA=\n".encode()
    assert parse_note(b"x" * (NOTE_BYTES_MAX - len(end)) + end).signatures


ROOT_LINE = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
NO_CHECKPOINT = "a checkpoint says its origin, its size and its root"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("origin\n5\n", NO_CHECKPOINT),
        (f"\n5\n{ROOT_LINE}\n", NO_CHECKPOINT),
        (f"origin\n05\n{ROOT_LINE}\n", "'05' is not a decimal number"),
        (f"origin\n-5\n{ROOT_LINE}\n", "'-5' is not a decimal number"),
        (f"origin\n٥\n{ROOT_LINE}\n", "'٥' is not a decimal number"),
        (f"origin\n9223372036854775808\n{ROOT_LINE}\n", "'9223372036854775808' is not a decimal number"),
        (f"origin\n{'9' * 26}\n{ROOT_LINE}\n", f"'{'9' * 20}' is not a decimal number"),
        ("origin\n5\nAAEC\n", "the root of a checkpoint has 32 bytes"),
        ("origin\n5\nnot base64\n", "'not base64' is not base64"),
    ],
)
def test_what_is_no_checkpoint_is_refused_and_why_is_said(key: SignerKey, text: str, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        parse_checkpoint(parse_note(signed(key, text=text)))
    assert said(error) == problem


def test_a_checkpoint_may_be_of_any_size_and_say_more(key: SignerKey) -> None:
    for size in (0, 1, 9, 10, SIZE_MAX):
        text = f"origin\n{size}\n{ROOT_LINE}\nmore\n"
        assert parse_checkpoint(parse_note(signed(key, text=text))) == Checkpoint("origin", size, ROOT)


def test_what_is_read_is_written_again(key: SignerKey) -> None:
    assert f"shop.example/memory\n70000\n{ROOT_LINE}\n" == TEXT
    assert parse_checkpoint(parse_note(signed(key))).text() == TEXT


# -- keys


def encoded(*parts: bytes) -> str:
    return b64encode(b"".join(parts)).decode()


WITNESS = SignerKey("witness.example", bytes([251] * 31 + [1]), WITNESS_KEY)
"""Its encoded keys have plus signs, as base64 may."""


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", "a verifier key is written name+id+key"),
        ("name+id", "a verifier key is written name+id+key"),
        ("a b+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKa", "the name of a key has no spaces and no plus sign"),
        ("name+530d903a+A", "'A' is not base64"),
        (f"name+530d903a+{encoded(bytes([1]), bytes(31))}", "the key of 'name' is not an Ed25519 key"),
        (f"name+530d903a+{encoded(bytes([2]), bytes(32))}", "the key of 'name' is not an Ed25519 key"),
        (
            VECTOR_KEY.replace("530d903a", "530d903b"),
            "the key of 'example.com/foo' does not have the id 530d903b",
        ),
    ],
)
def test_what_is_no_key_is_refused_and_why_is_said(written: str, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        verifier_key(written)
    assert said(error) == problem


@pytest.mark.parametrize("made", [SignerKey("shop.example", bytes(range(32))), WITNESS], ids=["log", "witness"])
def test_keys_are_read_as_they_were_written(made: SignerKey) -> None:
    assert made.written().startswith("PRIVATE+KEY+")
    assert signer_key(f"{made.written()}\n") == made
    assert verifier_key(f" {made.verifier}\n") == made.verifier
    assert (str(WITNESS.verifier).count("+"), WITNESS.written().count("+")) > (2, 4)


SECRET = bytes([255] * 32)


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", "a private key is written PRIVATE+KEY+name+id+key"),
        ("PRIVATE+KEY+name+id", "a private key is written PRIVATE+KEY+name+id+key"),
        (f"name+00000000+{encoded(bytes([1]), SECRET)}", "a private key is written PRIVATE+KEY+name+id+key"),
        (
            f"PRIVATE+KEY+a b+00000000+{encoded(bytes([1]), SECRET)}",
            "the name of a key has no spaces and no plus sign",
        ),
        (f"PRIVATE+KEY+name+00000000+{encoded(bytes([1]), SECRET)}A", "the private key of 'name' is not base64"),
        (f"PRIVATE+KEY+name+00000000+-{encoded(bytes([1]), SECRET)}", "the private key of 'name' is not base64"),
        (
            f"PRIVATE+KEY+name+00000000+{encoded(bytes([1]), SECRET[1:])}",
            "the private key of 'name' is not an Ed25519 key",
        ),
        (
            f"PRIVATE+KEY+name+00000000+{encoded(bytes([3]), SECRET)}",
            "the private key of 'name' is not an Ed25519 key",
        ),
        (
            f"PRIVATE+KEY+name+00000000+{encoded(bytes([1]), SECRET)}",
            "the private key of 'name' does not have the id it says",
        ),
    ],
)
def test_a_private_key_is_refused_without_telling_it(written: str, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        signer_key(written)
    assert said(error) == problem


def test_bytes_of_another_format_are_signed_with_the_same_key(key: SignerKey) -> None:
    assert key.verifier.signed_bytes(b"DSSEv1 ", key.sign_bytes(b"DSSEv1 "))
    assert not key.verifier.signed_bytes(b"DSSEv2 ", key.sign_bytes(b"DSSEv1 "))


def test_who_signed_twice_is_one_signer_and_two_are_two(key: SignerKey) -> None:
    other = SignerKey.generate("other.example")
    assert parse_note(signed(key, other, key)).signers([key.verifier, other.verifier]) == [key.verifier, other.verifier]
