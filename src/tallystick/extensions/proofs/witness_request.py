"""What a log sends to a witness (C2SP tlog-witness): the size that the witness saw last, a proof, and a checkpoint."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

import msgspec

from tallystick.commits.signed_note import NOTE_BYTES_MAX, NoteRefused, decode_base64, decode_size

PROOF_LINES_MAX = 63
BODY_BYTES_MAX = NOTE_BYTES_MAX + 8192


class WitnessRequest(msgspec.Struct, frozen=True):
    old: int
    proof: list[bytes]
    note: bytes


def encode_request(old: int, proof: Sequence[bytes], note: bytes) -> bytes:
    lines = [f"old {old}", *(b64encode(each).decode() for each in proof), "", ""]
    return "\n".join(lines).encode() + note


def parse_request(body: bytes) -> WitnessRequest:
    """Raises NoteRefused."""
    head, blank, note = body.partition(b"\n\n")
    try:
        first, *proof = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        raise NoteRefused("the lines before a checkpoint are ASCII") from None
    if len(body) > BODY_BYTES_MAX or not blank or not first.startswith("old "):
        raise NoteRefused("a request begins with 'old SIZE' and a proof, then comes an empty line and a checkpoint")
    if len(proof) > PROOF_LINES_MAX:
        raise NoteRefused(f"a proof has at most {PROOF_LINES_MAX} lines")
    return WitnessRequest(decode_size(first.removeprefix("old ")), [decode_base64(each) for each in proof], note)
