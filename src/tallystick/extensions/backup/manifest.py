"""The manifest: what one backup is made of, every piece with its size and hash, signed with the keys of checkpoints.

Everything here may have been written by somebody else: it is checked before it is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from tallystick.commits.dsse import Envelope, parse_envelope, sign_payload, verify_payload
from tallystick.commits.signed_note import NoteRefused, SignerKey, VerifierKey, decode_base64
from tallystick.errors import Corrupt, InvalidArgument
from tallystick.log import Head

FORMAT = 1
PAYLOAD_TYPE = "application/vnd.tallystick.backup+json"
BYTES_MAX = 256 << 20
PIECE_BYTES_MAX = 32 << 20
_PIECE_BYTES_LIMIT = 1 << 30
"""A piece of a log ends with a draft, and may be larger than others by that draft."""

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Meta(ge=0)]


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    object: Digest
    """The digest that the object is named by."""
    bytes: Annotated[int, Meta(ge=0, le=_PIECE_BYTES_LIMIT)]
    sha256: Digest
    """Of what is in it, before it is encrypted."""
    key: str | None = None
    """The id of the key that it is encrypted with."""


class LogPart(msgspec.Struct, frozen=True):
    """Whole lines of a log. It begins where the part before it ends."""

    piece: Piece
    first: Count
    """Lamport of its first commit."""
    head: Head
    """Where the log stood behind its last commit."""

    @property
    def start(self) -> int:
        return self.head.end - self.piece.bytes


class StoredFile(msgspec.Struct, frozen=True, omit_defaults=True):
    path: str
    """Below the tenant's home."""
    pieces: list[Piece]
    changed: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] = 0
    """When it was changed last, in nanoseconds; of files that may change."""

    @property
    def bytes(self) -> int:
        return sum(piece.bytes for piece in self.pieces)


class AuditBackup(msgspec.Struct, frozen=True):
    head: Head
    files: list[StoredFile]


class RedactionNote(msgspec.Struct, frozen=True):
    at: int
    """Its position."""
    lowest: int
    """The lowest position that it masks: no copy from there up to it can be whole and hold what it erased."""


class TenantBackup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    tenant: str
    first: str
    """record_hash of its first commit: whose log it is."""
    head: Head
    log: list[LogPart]
    redactions: list[RedactionNote] = []
    blobs: list[StoredFile] = []
    missing: list[Digest] = []
    """Blobs that commits name and that were nowhere to be found."""
    audit: AuditBackup | None = None
    snapshot: StoredFile | None = None
    checkpoint: str = ""
    """The last that was signed of what is in it."""
    files: list[StoredFile] = []

    def pieces(self) -> Iterator[Piece]:
        yield from (part.piece for part in self.log)
        audit = self.audit.files if self.audit else []
        for file in (*self.blobs, *audit, *([self.snapshot] if self.snapshot else []), *self.files):
            yield from file.pieces


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    number: Count
    at: str
    memory: str
    """Which memory it is of: carried on from one backup to the next."""
    epoch: Count
    host: str
    tallystick: str
    tenants: list[TenantBackup]
    stream: str = ""
    """Which memory of a stream it is a backup of, where the log is in one."""

    def pieces(self) -> Iterator[Piece]:
        for tenant in self.tenants:
            yield from tenant.pieces()

    @property
    def objects(self) -> set[str]:
        return {piece.object for piece in self.pieces()}

    @property
    def bytes(self) -> int:
        return sum({piece.object: piece.bytes for piece in self.pieces()}.values())

    def find(self, tenant: str) -> TenantBackup | None:
        return next((each for each in self.tenants if each.tenant == tenant), None)


class Signed(msgspec.Struct, frozen=True):
    manifest: Manifest
    signed_by: tuple[str, ...]
    """Verifier keys that were asked for and signed it; none where nobody was asked for."""
    is_signed: bool
    """By anybody."""


def sign_manifest(manifest: Manifest, keys: Sequence[SignerKey]) -> bytes:
    return sign_payload(PAYLOAD_TYPE, msgspec.json.encode(manifest), keys)


def read_manifest(data: bytes, name: str, keys: Sequence[VerifierKey]) -> Signed:
    """With `keys`, one of them must have signed it. Raises Corrupt, and InvalidArgument for another format."""
    try:
        envelope = parse_envelope(data, payload_type=PAYLOAD_TYPE, bytes_max=BYTES_MAX)
        payload, signers = _believed(envelope, keys)
    except NoteRefused as error:
        raise _refused(f"{name}: {error.message}", _UNSIGNED if keys else _DAMAGED) from None
    _require_format(payload, name)
    try:
        manifest = msgspec.json.decode(payload, type=Manifest)
    except msgspec.MsgspecError as error:
        raise _refused(f"{name} is no manifest: {error}", _DAMAGED) from None
    return Signed(manifest, tuple(map(str, signers)), bool(envelope.signatures))


def _believed(envelope: Envelope, keys: Sequence[VerifierKey]) -> tuple[bytes, list[VerifierKey]]:
    if keys:
        return verify_payload(envelope, keys)
    return decode_base64(envelope.payload), []


_DAMAGED = "nothing was changed; take another backup: 'tallystick backup list'"
_UNSIGNED = "it is not ours, or was signed with another key: name its verifier key by --vkey, or take another backup"


def _refused(problem: str, hint: str) -> Corrupt:
    return Corrupt(problem, code="MANIFEST_REFUSED", hint=hint)


class _Format(msgspec.Struct):
    format: int


def _require_format(payload: bytes, name: str) -> None:
    try:
        found = msgspec.json.decode(payload, type=_Format).format
    except msgspec.MsgspecError as error:
        raise _refused(f"{name} is no manifest: {error}", _DAMAGED) from None
    if found != FORMAT:
        newer = found > FORMAT
        raise InvalidArgument(
            f"{name} has format {found}, and this version reads {FORMAT}",
            code="BACKUP_FORMAT",
            hint="use the version of tallystick that wrote it" + (", or a newer one" if newer else ""),
        )
