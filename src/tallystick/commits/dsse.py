"""Statements that other people's programs read: an in-toto Statement in a DSSE envelope, signed with the log's keys.

What is signed is the type and the payload with their lengths (PAE), so that neither can be taken for the other. It
begins with `DSSEv1 `, which no checkpoint does: no signature of one holds for the other. Everything that is read here
may come from a stranger.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from tallystick.commits.canonical import canonical_bytes
from tallystick.commits.signed_note import (
    LOG_KEY,
    SIGNATURES_MAX,
    NoteRefused,
    SignerKey,
    VerifierKey,
    decode_base64,
)
from tallystick.formats.strict_json import JsonFault, parse

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
ENVELOPE_BYTES_MAX = 8 << 20

T = TypeVar("T")

_HEX = re.compile(r"(?:[0-9a-f]{2})+")


class EnvelopeRefused(NoteRefused):
    """It is no signed statement, or not signed as it must be."""


class Subject(msgspec.Struct, frozen=True):
    name: str
    digest: dict[str, str]


class Statement(msgspec.Struct, frozen=True, rename={"type": "_type", "predicate_type": "predicateType"}, kw_only=True):
    type: str = STATEMENT_TYPE
    subject: list[Subject]
    predicate_type: str
    predicate: dict[str, Any]


class Signature(msgspec.Struct, frozen=True):
    keyid: str
    sig: str


class Envelope(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    payload: str
    payload_type: str
    signatures: list[Signature]
    tlog_proof: str | None = None
    """A proof file, where it does not lie beside it. Not signed: it has signatures of its own."""


def pae(payload_type: str, payload: bytes) -> bytes:
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign_statement(statement: Statement, keys: Sequence[SignerKey]) -> bytes:
    """The envelope, signed with each of the keys that sign for the log itself. Raises ValueError without any."""
    if not any(key.algorithm == LOG_KEY for key in keys):
        raise ValueError("a statement is signed with a log's key")
    return sign_payload(PAYLOAD_TYPE, canonical_bytes(msgspec.to_builtins(statement)), keys)


def sign_payload(payload_type: str, payload: bytes, keys: Sequence[SignerKey]) -> bytes:
    """The envelope of a payload of any type; without keys nobody signed it, and no reader with keys will believe it."""
    signed = pae(payload_type, payload)
    signers = [key for key in keys if key.algorithm == LOG_KEY]
    signatures = [Signature(key.verifier.spki_hash, b64encode(key.sign_bytes(signed)).decode()) for key in signers]
    return msgspec.json.encode(Envelope(b64encode(payload).decode(), payload_type, signatures)) + b"\n"


def parse_envelope(data: bytes, *, payload_type: str = PAYLOAD_TYPE, bytes_max: int = ENVELOPE_BYTES_MAX) -> Envelope:
    """Nothing of it is verified. Raises EnvelopeRefused."""
    if len(data) > bytes_max:
        raise EnvelopeRefused(f"an envelope has at most {bytes_max} bytes")
    envelope = _read(data, Envelope, "a DSSE envelope")
    if envelope.payload_type != payload_type:
        raise EnvelopeRefused(f"its payloadType is not {payload_type}")
    if len(envelope.signatures) > SIGNATURES_MAX:
        raise EnvelopeRefused(f"an envelope has at most {SIGNATURES_MAX} signatures")
    return envelope


def verify_envelope(envelope: Envelope, keys: Sequence[VerifierKey]) -> tuple[Statement, list[VerifierKey]]:
    """What it says, and which of the keys signed it: at least one. As with notes, signatures of other keys are passed
    over, and one of these keys that does not hold refuses the whole. Raises NoteRefused."""
    payload, signers = verify_payload(envelope, keys)
    return _statement(payload), signers


def verify_payload(envelope: Envelope, keys: Sequence[VerifierKey]) -> tuple[bytes, list[VerifierKey]]:
    """The same, of a payload of any type."""
    payload = decode_base64(envelope.payload)
    signed = pae(envelope.payload_type, payload)
    known = {key.spki_hash: key for key in keys if key.algorithm == LOG_KEY}
    signers: dict[str, VerifierKey] = {}
    for signature in envelope.signatures:
        key = known.get(signature.keyid)
        if key is None:
            continue
        if not key.signed_bytes(signed, decode_base64(signature.sig)):
            raise EnvelopeRefused(f"the signature of '{key.name}' does not hold")
        signers[signature.keyid] = key
    if not signers:
        raise EnvelopeRefused("no key that is believed signed it")
    return payload, list(signers.values())


def _statement(payload: bytes) -> Statement:
    statement = _read(payload, Statement, "an in-toto Statement")
    if statement.type != STATEMENT_TYPE:
        raise EnvelopeRefused(f"its _type is not {STATEMENT_TYPE}")
    if not statement.subject:
        raise EnvelopeRefused("it is about nothing: it has no subject")
    for subject in statement.subject:
        check_digest(subject.name, subject.digest)
    return statement


def check_digest(named: str, digest: dict[str, str]) -> None:
    if not digest or not all(_HEX.fullmatch(value) for value in digest.values()):
        raise EnvelopeRefused(f"'{named[:80]}' has no digest in hexadecimal digits")


def _read(data: bytes, kind: type[T], called: str) -> T:
    """By the strict reader: another program may take the other one of two keys that are the same."""
    try:
        return msgspec.convert(parse(data), kind)
    except (JsonFault, msgspec.ValidationError) as error:
        raise EnvelopeRefused(f"it is not {called}: {error}") from None
