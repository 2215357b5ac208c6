"""Who we are to NATS servers: a credentials file (a JWT and the seed of its key), or an NKey alone.

A seed is base32 of a two-byte prefix, 32 bytes of an Ed25519 key and a checksum.
"""

from __future__ import annotations

import base64
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tallystick.errors import InvalidArgument

_JWT = re.compile(rb"-+BEGIN NATS USER JWT-+\s+(\S+)\s+-+END NATS USER JWT-+")
_SEED = re.compile(rb"-+BEGIN USER NKEY SEED-+\s+(\S+)\s+-+END USER NKEY SEED-+")
_PREFIX_SEED = 18 << 3


def read_credentials(path: Path) -> dict[str, Any]:
    """What the client is to be given. The file is read again at each connection: it may have been renewed."""
    _read_pair(path)
    return {
        "user_jwt_cb": lambda: _read_again(path)[0],
        "signature_cb": lambda nonce: sign(_read_again(path)[1], nonce),
    }


def read_nkey(path: Path) -> dict[str, Any]:
    if find_spec("nkeys") is None:
        raise InvalidArgument(
            "an NKey without a JWT needs the package nkeys",
            code="EXTRA_MISSING",
            hint="install it with: pip install nkeys",
        )
    seed = _read(path).strip()
    _private_key(seed, path)
    # Not the file: the client would read it at each connection, and end for good over one that is damaged by then.
    return {"nkeys_seed_str": seed.decode()}


def sign(seed: bytes, nonce: str) -> bytes:
    return base64.b64encode(_private_key(seed).sign(nonce.encode()))


def _read_again(path: Path) -> tuple[bytes, bytes]:
    """While it is being renewed it may be away or half written: as an OSError, after which the client tries again."""
    try:
        return _read_pair(path)
    except InvalidArgument as error:
        raise OSError(error.message) from error


def _read_pair(path: Path) -> tuple[bytes, bytes]:
    content = _read(path)
    jwt, seed = _JWT.search(content), _SEED.search(content)
    if jwt is None or seed is None:
        raise _unusable(path, "it has no NATS user JWT and seed")
    _private_key(seed[1], path)
    return jwt[1], seed[1]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def _private_key(seed: bytes, path: Path | None = None) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        raw = base64.b32decode(seed + b"=" * (-len(seed) % 8))
        if len(raw) != 36 or raw[0] & 0xF8 != _PREFIX_SEED or _crc16(raw[:-2]) != int.from_bytes(raw[-2:], "little"):
            raise ValueError("it is no seed of an NKey")
        return Ed25519PrivateKey.from_private_bytes(raw[2:34])
    except ValueError as error:
        # Never with the seed itself.
        raise _unusable(path, "the seed in it is damaged") from error


def _crc16(data: bytes) -> int:
    """XMODEM, as NKeys have it."""
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def _unusable(path: Path | None, why: str) -> InvalidArgument:
    return InvalidArgument(
        f"the credentials for NATS{f' in {path}' if path else ''} cannot be used: {why}",
        code="SETTING_INVALID",
        hint="log_credentials names a .creds file as 'nsc' or 'nats' make it, log_nkey a file with a user's seed",
    )
