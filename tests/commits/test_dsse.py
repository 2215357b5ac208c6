"""Statements in envelopes: what is signed, by whom it is believed, and why the others are refused."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import msgspec
import pytest

from tallystick.commits.dsse import (
    ENVELOPE_BYTES_MAX,
    PAYLOAD_TYPE,
    STATEMENT_TYPE,
    Envelope,
    Signature,
    Statement,
    Subject,
    check_digest,
    pae,
    parse_envelope,
    sign_statement,
    verify_envelope,
)
from tallystick.commits.signed_note import SIGNATURES_MAX, NoteRefused, SignerKey
from tests.signed_memory import KEY, NEXT_KEY, STRANGER, WITNESS

STATEMENT = Statement(subject=[Subject("task/a", {"sha256": "ab"})], predicate_type="x", predicate={"b": 1, "a": "ü"})


def enveloped(statement: Any, *keys: SignerKey) -> Envelope:
    payload = msgspec.json.encode(statement)
    signatures = [
        Signature(key.verifier.spki_hash, b64encode(key.sign_bytes(pae(PAYLOAD_TYPE, payload))).decode())
        for key in keys or (KEY,)
    ]
    return Envelope(b64encode(payload).decode(), PAYLOAD_TYPE, signatures)


def test_what_is_signed_names_the_type_and_both_lengths_in_bytes() -> None:
    assert pae("ü", "é".encode()) == "DSSEv1 2 ü 2 é".encode()


def test_a_statement_is_read_as_it_was_signed() -> None:
    data = sign_statement(STATEMENT, [KEY, WITNESS, NEXT_KEY])
    assert data.endswith(b"}\n")
    envelope = parse_envelope(data)
    assert b64decode(envelope.payload).startswith(b'{"_type":"https://in-toto.io/Statement/v1","predicate":{"a"')
    keys = [KEY.verifier, NEXT_KEY.verifier]
    assert verify_envelope(envelope, keys) == (STATEMENT, keys)
    assert verify_envelope(envelope, [NEXT_KEY.verifier, STRANGER.verifier]) == (STATEMENT, [NEXT_KEY.verifier])
    assert [each.keyid for each in envelope.signatures] == [key.spki_hash for key in keys], (
        "no witness signs statements"
    )


def test_who_signed_twice_signed_once() -> None:
    assert verify_envelope(enveloped(STATEMENT, STRANGER, KEY, KEY), [KEY.verifier]) == (STATEMENT, [KEY.verifier])


def test_without_a_key_of_a_log_nothing_is_signed() -> None:
    for keys in ([], [WITNESS]):
        with pytest.raises(ValueError, match=r"^a statement is signed with a log.s key$"):
            sign_statement(STATEMENT, keys)


def test_an_envelope_may_be_as_long_as_is_allowed() -> None:
    data = sign_statement(STATEMENT, [KEY])
    assert parse_envelope(data.ljust(ENVELOPE_BYTES_MAX)) == parse_envelope(data)
    with pytest.raises(NoteRefused) as error:
        parse_envelope(data.ljust(ENVELOPE_BYTES_MAX + 1))
    assert error.value.message == f"an envelope has at most {ENVELOPE_BYTES_MAX} bytes"


def test_an_envelope_may_have_as_many_signatures_as_a_note() -> None:
    envelope = enveloped(STATEMENT, *[KEY] * SIGNATURES_MAX)
    assert parse_envelope(msgspec.json.encode(envelope)) == envelope
    with pytest.raises(NoteRefused) as error:
        parse_envelope(msgspec.json.encode(enveloped(STATEMENT, *[KEY] * (SIGNATURES_MAX + 1))))
    assert error.value.message == "an envelope has at most 64 signatures"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is not a DSSE envelope: "),
        (b"{}", "it is not a DSSE envelope: "),
        (b'{"payload":"","payload":"","payloadType":"","signatures":[]}', "it is not a DSSE envelope: "),
        (b'{"payload":"","payloadType":"x","signatures":[]}', f"its payloadType is not {PAYLOAD_TYPE}"),
    ],
)
def test_what_is_no_envelope_is_refused_and_why_is_said(data: bytes, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        parse_envelope(data)
    assert error.value.message.startswith(problem)


GOOD: dict[str, Any] = msgspec.to_builtins(STATEMENT)


@pytest.mark.parametrize(
    ("envelope", "problem"),
    [
        (enveloped(STATEMENT, STRANGER), "no key that is believed signed it"),
        (enveloped(STATEMENT, WITNESS), "no key that is believed signed it"),
        (Envelope("!", PAYLOAD_TYPE, []), "'!' is not base64"),
        (
            msgspec.structs.replace(enveloped(STATEMENT), payload=b64encode(b"{}").decode()),
            f"the signature of '{KEY.name}' does not hold",
        ),
        (enveloped([]), "it is not an in-toto Statement: "),
        (enveloped(GOOD | {"_type": "x"}), f"its _type is not {STATEMENT_TYPE}"),
        (enveloped(GOOD | {"subject": []}), "it is about nothing: it has no subject"),
        (enveloped(GOOD | {"subject": [{"name": "a", "digest": {}}]}), "'a' has no digest in hexadecimal digits"),
        (
            enveloped(GOOD | {"subject": [GOOD["subject"][0], {"name": "b", "digest": {"sha256": "AB"}}]}),
            "'b' has no digest in hexadecimal digits",
        ),
    ],
)
def test_what_is_not_signed_or_no_statement_is_refused_and_why_is_said(envelope: Envelope, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        verify_envelope(envelope, [KEY.verifier, WITNESS.verifier])
    assert error.value.message.startswith(problem)


@pytest.mark.parametrize("digest", [{}, {"sha256": ""}, {"sha256": "abc"}, {"sha256": "ab", "other": "passed"}])
def test_a_digest_has_only_hexadecimal_digits(digest: dict[str, str]) -> None:
    check_digest("x", {"sha256": "ab", "gitCommit": "0123456789abcdef"})
    with pytest.raises(NoteRefused) as error:
        check_digest("x" * 90, digest)
    assert error.value.message == f"'{'x' * 80}' has no digest in hexadecimal digits"
