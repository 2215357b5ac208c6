"""Signed notes and checkpoints, as transparency logs write them (C2SP signed-note, tlog-checkpoint, tlog-cosignature).

A note is a text and signature lines below it. A checkpoint is a note whose text says: whose log, of what size, with
which root. Readers pass over signatures of keys that they do not know; a signature of a known key that does not hold
refuses the whole note. The only module that knows Ed25519 and ML-DSA.
"""

from __future__ import annotations

import binascii
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from types import ModuleType
from typing import TYPE_CHECKING

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tallystick.commits.tree import HASH_BYTES
from tallystick.errors import InvalidArgument

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA44PrivateKey

LOG_KEY = 0x01
"""Ed25519, by whom the log is."""
WITNESS_KEY = 0x04
"""Ed25519 over the note and a time: a cosignature."""
QUANTUM_KEY = 0x06
"""ML-DSA-44 over the tree and a time, which quantum computers do not forge: a cosignature, or a second signature of the
log's own, which has the log's name."""
SIGNATURES_MAX = 64
NOTE_BYTES_MAX = 64 << 10
SIZE_MAX = (1 << 63) - 1

_PRIVATE = "PRIVATE+KEY+"
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f]")
_DASH = "\N{EM DASH} "
_ID_BYTES = 4
_TIME_BYTES = 8
_TIME_MAX = (1 << 63) - 1
_PUBLIC_BYTES = {LOG_KEY: 32, WITNESS_KEY: 32, QUANTUM_KEY: 1312}
_SEED_BYTES = 32
_SUBTREE = b"subtree/v1\n\0"
_SPKI_PREFIX = bytes.fromhex("302a300506032b6570032100")
"""SubjectPublicKeyInfo of an Ed25519 key, up to the key itself (RFC 8410)."""


class NoteRefused(InvalidArgument):
    """It is no note, or not signed as it must be."""


class VerifierKey(msgspec.Struct, frozen=True):
    """Whom to believe. Written `name+hex(id)+base64(algorithm, public key)`."""

    name: str
    public: bytes
    algorithm: int = LOG_KEY

    @property
    def id(self) -> bytes:
        return sha256(self.name.encode() + b"\n" + bytes([self.algorithm]) + self.public).digest()[:_ID_BYTES]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{b64encode(bytes([self.algorithm]) + self.public).decode()}"

    @property
    def spki_hash(self) -> str:
        """How programs that know nothing of notes name the key: SHA-256 of its SubjectPublicKeyInfo."""
        return sha256(_SPKI_PREFIX + self.public).hexdigest()

    def is_of_log(self, origin: str) -> bool:
        """Whether it signs for that log, and not as its witness."""
        return self.algorithm == LOG_KEY or (self.algorithm == QUANTUM_KEY and self.name == origin)

    def holds(self, text: str, signature: bytes) -> bool:
        """Raises NoteRefused where this installation cannot tell."""
        if self.algorithm == QUANTUM_KEY:
            return self._quantum_holds(text, signature)
        signed = text.encode()
        if self.algorithm == WITNESS_KEY:
            seconds, signature = signature[:_TIME_BYTES], signature[_TIME_BYTES:]
            signed = _timed(int.from_bytes(seconds, "big"), text)
        return self.signed_bytes(signed, signature)

    def _quantum_holds(self, text: str, signature: bytes) -> bool:
        seconds, signature = int.from_bytes(signature[:_TIME_BYTES], "big"), signature[_TIME_BYTES:]
        try:
            signed = _tree_message(self.name, seconds, text)
        except NoteRefused:
            return False
        with _mldsa() as mldsa:
            public = mldsa.MLDSA44PublicKey.from_public_bytes(self.public)
        try:
            public.verify(signature, signed)
        except InvalidSignature:
            return False
        return True

    def signed_bytes(self, signed: bytes, signature: bytes) -> bool:
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, signed)
        except InvalidSignature:
            return False
        return True


class SignerKey(msgspec.Struct, frozen=True):
    """Its seed is in no representation: what is logged or raised does not tell it."""

    name: str
    seed: bytes
    algorithm: int = LOG_KEY

    def __repr__(self) -> str:
        return f"SignerKey({self.verifier})"

    @classmethod
    def generate(cls, name: str, algorithm: int = LOG_KEY) -> SignerKey:
        _check_name(name)
        return cls(name, secrets.token_bytes(_SEED_BYTES), algorithm)

    @property
    def verifier(self) -> VerifierKey:
        return VerifierKey(self.name, _public_key(self.seed, self.algorithm == QUANTUM_KEY), self.algorithm)

    def written(self) -> str:
        """`PRIVATE+KEY+name+hex(id)+base64(algorithm, seed)`: the secret itself, for a file of its owner's."""
        encoded = b64encode(bytes([self.algorithm]) + self.seed).decode()
        return f"{_PRIVATE}{self.name}+{self.verifier.id.hex()}+{encoded}"

    def signature_line(self, text: str, *, seconds: int | None = None) -> str:
        """With its newline. `seconds`: of a cosignature, when it is made. Raises NoteRefused for a text that is no
        checkpoint, where the key signs only these."""
        at = (seconds or 0).to_bytes(_TIME_BYTES, "big")
        if self.algorithm == QUANTUM_KEY:
            signature = at + _quantum_key(self.seed).sign(_tree_message(self.name, seconds or 0, text))
        elif seconds is None:
            signature = self._private.sign(text.encode())
        else:
            signature = at + self._private.sign(_timed(seconds, text))
        return f"{_DASH}{self.name} {b64encode(self.verifier.id + signature).decode()}\n"

    def sign_bytes(self, data: bytes) -> bytes:
        """For another format than notes. No two formats may sign the same bytes: a checkpoint begins with a name that
        has no spaces, whatever else is signed with the key must begin otherwise."""
        return self._private.sign(data)

    @property
    def _private(self) -> Ed25519PrivateKey:
        return _private_key(self.seed)


@lru_cache(maxsize=64)
def _private_key(seed: bytes) -> Ed25519PrivateKey:
    """To make one of a seed takes as long as to sign with it."""
    return Ed25519PrivateKey.from_private_bytes(seed)


@lru_cache(maxsize=64)
def _public_key(seed: bytes, is_quantum: bool) -> bytes:
    return (_quantum_key(seed) if is_quantum else _private_key(seed)).public_key().public_bytes_raw()


@lru_cache(maxsize=64)
def _quantum_key(seed: bytes) -> MLDSA44PrivateKey:
    with _mldsa() as mldsa:
        key: MLDSA44PrivateKey = mldsa.MLDSA44PrivateKey.from_seed_bytes(seed)
    return key


@contextmanager
def _mldsa() -> Iterator[ModuleType]:
    """Newer versions of the library have it, if their OpenSSL does. Raises NoteRefused."""
    try:
        from cryptography.hazmat.primitives.asymmetric import mldsa

        yield mldsa
    except (ImportError, UnsupportedAlgorithm):
        raise NoteRefused(
            "signatures of type ML-DSA-44 cannot be made or checked with the cryptography library that is installed",
            hint="a newer one can; Ed25519 keys alone work with any",
        ) from None


def _tree_message(name: str, seconds: int, text: str) -> bytes:
    """What ML-DSA-44 signs of a checkpoint. Raises NoteRefused for another text, and for names that do not fit."""
    checkpoint = parse_checkpoint(Note(text, ()))
    names = [name.encode(), checkpoint.origin.encode()]
    if checkpoint.text() != text or seconds > _TIME_MAX or any(len(each) > 255 for each in names):
        raise NoteRefused("only a checkpoint without extensions, and with short names, is signed with ML-DSA-44")
    cosigner, origin = (bytes([len(each)]) + each for each in names)
    numbers = [each.to_bytes(8, "big") for each in (seconds, 0, checkpoint.size)]
    return b"".join((_SUBTREE, cosigner, numbers[0], origin, *numbers[1:], checkpoint.root))


class Note(msgspec.Struct, frozen=True):
    text: str
    """With its last newline: what is signed."""
    signatures: tuple[tuple[str, bytes, bytes], ...]
    """Name, key id and signature of each."""

    def signers(self, keys: Sequence[VerifierKey]) -> list[VerifierKey]:
        """Those of the keys that signed it. Raises NoteRefused where a signature of one of them does not hold."""
        known = {(key.name, key.id): key for key in keys}
        found: dict[str, VerifierKey] = {}
        for name, key_id, signature in self.signatures:
            key = known.get((name, key_id))
            if key is None:
                continue
            if not key.holds(self.text, signature):
                raise NoteRefused(f"the signature of '{name}' does not hold")
            found[str(key)] = key
        return list(found.values())


class Checkpoint(msgspec.Struct, frozen=True):
    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{b64encode(self.root).decode()}\n"


def verifier_key(written: str) -> VerifierKey:
    """Raises NoteRefused."""
    parts = written.strip().split("+", 2)
    if len(parts) != 3:
        raise NoteRefused("a verifier key is written name+id+key")
    name, key_id, encoded = parts
    _check_name(name)
    data = decode_base64(encoded)
    if not data or len(data) - 1 != _PUBLIC_BYTES.get(data[0]):
        raise NoteRefused(f"the key of '{name}' is not an {_called(data)} key")
    key = VerifierKey(name, data[1:], data[0])
    if key.id.hex() != key_id:
        raise NoteRefused(f"the key of '{name}' does not have the id {key_id}")
    return key


def signer_key(written: str) -> SignerKey:
    """What `SignerKey.written` wrote. Raises NoteRefused, which quotes nothing of it but the name."""
    parts = written.strip().removeprefix(_PRIVATE).split("+", 2)
    if not written.strip().startswith(_PRIVATE) or len(parts) != 3:
        raise NoteRefused("a private key is written PRIVATE+KEY+name+id+key")
    name, key_id, encoded = parts
    _check_name(name)
    try:
        data = b64decode(encoded, validate=True)
    except ValueError:
        raise NoteRefused(f"the private key of '{name}' is not base64") from None
    if len(data) != 1 + _SEED_BYTES or data[0] not in _PUBLIC_BYTES:
        raise NoteRefused(f"the private key of '{name}' is not an {_called(data)} key")
    key = SignerKey(name, data[1:], data[0])
    if key.verifier.id.hex() != key_id:
        raise NoteRefused(f"the private key of '{name}' does not have the id it says")
    return key


def _called(data: bytes) -> str:
    return "ML-DSA-44" if data[:1] == bytes([QUANTUM_KEY]) else "Ed25519"


def parse_note(data: bytes) -> Note:
    """Raises NoteRefused."""
    if len(data) > NOTE_BYTES_MAX:
        raise NoteRefused(f"a note has at most {NOTE_BYTES_MAX} bytes")
    try:
        written = data.decode()
    except UnicodeDecodeError:
        raise NoteRefused("a note is UTF-8 text") from None
    if _CONTROL.search(written):
        raise NoteRefused("a note has no control characters")
    text, blank, signatures = written.rpartition("\n\n")
    if not blank or not signatures.endswith("\n"):
        raise NoteRefused("a note ends with an empty line and signatures")
    lines = signatures.split("\n")[:-1]
    if len(lines) > SIGNATURES_MAX:
        raise NoteRefused(f"a note has at most {SIGNATURES_MAX} signatures")
    return Note(text + "\n", tuple(_signature(line) for line in lines))


def parse_checkpoint(note: Note) -> Checkpoint:
    """Raises NoteRefused. Lines behind the third are extensions, and passed over."""
    lines = note.text.split("\n")
    if len(lines) < 4 or not lines[0]:
        raise NoteRefused("a checkpoint says its origin, its size and its root")
    origin, size, root = lines[:3]
    found = decode_base64(root)
    if len(found) != HASH_BYTES:
        raise NoteRefused("the root of a checkpoint has 32 bytes")
    return Checkpoint(origin, decode_size(size), found)


def decode_size(written: str) -> int:
    """Of a log, or a place in it: decimal, written in the one way there is. Raises NoteRefused."""
    if not (written.isascii() and written.isdecimal() and str(int(written[:20])) == written) or int(written) > SIZE_MAX:
        raise NoteRefused(f"'{written[:20]}' is not a decimal number")
    return int(written)


def _signature(line: str) -> tuple[str, bytes, bytes]:
    if not line.startswith(_DASH) or line.count(" ") != 2:
        raise NoteRefused("a signature line is a dash, a name and base64")
    _, name, encoded = line.split(" ")
    _check_name(name)
    data = decode_base64(encoded)
    if len(data) <= _ID_BYTES:
        raise NoteRefused(f"the signature of '{name}' is too short")
    return name, data[:_ID_BYTES], data[_ID_BYTES:]


def _timed(seconds: int, text: str) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()


def decode_base64(encoded: str) -> bytes:
    """Raises NoteRefused, also for another spelling of the same bytes."""
    try:
        data = b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise NoteRefused(f"'{encoded[:20]}' is not base64") from None
    if b64encode(data).decode() != encoded:
        raise NoteRefused(f"'{encoded[:20]}' is not base64 as it is written")
    return data


def _check_name(name: str) -> None:
    if not name or "+" in name or any(character.isspace() for character in name):
        raise NoteRefused("the name of a key has no spaces and no plus sign")
