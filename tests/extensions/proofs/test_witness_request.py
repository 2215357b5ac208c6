"""What is sent to a witness, and what none should take."""

from __future__ import annotations

import pytest

from tallystick.commits.signed_note import NoteRefused
from tallystick.extensions.proofs.witness_request import BODY_BYTES_MAX, WitnessRequest, encode_request, parse_request

HASH = bytes(range(32))
LINE = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
NOTE = "origin\n5\nroot\n\n— name AAAA\n".encode()


def test_a_request_is_written_as_witnesses_read_it() -> None:
    assert encode_request(7, [HASH, HASH], NOTE) == f"old 7\n{LINE}\n{LINE}\n\n".encode() + NOTE


@pytest.mark.parametrize("count", [0, 1, 63])
def test_a_request_is_read_as_it_was_written(count: int) -> None:
    assert parse_request(encode_request(7, [HASH] * count, NOTE)) == WitnessRequest(7, [HASH] * count, NOTE)


def test_a_request_may_be_as_long_as_is_allowed() -> None:
    body = b"old 0\n\n".ljust(BODY_BYTES_MAX, b"x")
    assert parse_request(body).note == body[7:]
    with pytest.raises(NoteRefused):
        parse_request(body + b"x")


NO_REQUEST = "a request begins with 'old SIZE' and a proof, then comes an empty line and a checkpoint"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", NO_REQUEST),
        (b"old 7\n", NO_REQUEST),
        (b"new 7\n\n", NO_REQUEST),
        ("old ٧\n\n".encode(), "the lines before a checkpoint are ASCII"),
        (b"old 07\n\n", "'07' is not a decimal number"),
        (b"old 7\nAAA\n\n", "'AAA' is not base64"),
        (encode_request(7, [HASH] * 64, NOTE), "a proof has at most 63 lines"),
    ],
)
def test_what_is_no_request_is_refused_and_why_is_said(body: bytes, problem: str) -> None:
    with pytest.raises(NoteRefused) as error:
        parse_request(body)
    assert error.value.message == problem
