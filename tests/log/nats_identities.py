"""Operators, accounts and users of NATS, made as an operator's tool makes them."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

OPERATOR, ACCOUNT, USER, SEED = 14 << 3, 0, 20 << 3, 18 << 3


def crc16(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def encoded(raw: bytes) -> str:
    return base64.b32encode(raw + crc16(raw).to_bytes(2, "little")).decode().rstrip("=")


class Signer:
    def __init__(self, kind: int) -> None:
        self.key = Ed25519PrivateKey.generate()
        self._kind = kind
        self.public = encoded(bytes([kind]) + self.key.public_key().public_bytes_raw())

    @property
    def seed(self) -> str:
        prefix = bytes([SEED | self._kind >> 5, (self._kind & 31) << 3])
        return encoded(prefix + self.key.private_bytes_raw())

    def jwt(self, subject: Signer, name: str, said: dict[str, Any], *, expires: int | None = None) -> str:
        claims = {"jti": name, "iat": 1_700_000_000, "iss": self.public, "name": name, "sub": subject.public}
        claims |= {} if expires is None else {"exp": expires}
        parts = [{"typ": "JWT", "alg": "ed25519-nkey"}, {**claims, "nats": {"version": 2, **said}}]
        body = ".".join(b64(json.dumps(part).encode()) for part in parts)
        return f"{body}.{b64(self.key.sign(body.encode()))}"


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


UNLIMITED = dict.fromkeys(
    [
        "subs",
        "data",
        "payload",
        "imports",
        "exports",
        "conn",
        "leaf",
        "mem_storage",
        "disk_storage",
        "streams",
        "consumer",
    ],
    -1,
) | {"wildcards": True}


class Identities:
    """An operator with an account for a memory and a user of it."""

    def __init__(self) -> None:
        self._operator, self._system = Signer(OPERATOR), Signer(ACCOUNT)
        self._account, self._user = Signer(ACCOUNT), Signer(USER)

    def configured(self) -> str:
        """For a server."""
        operator, system, account = self._operator, self._system, self._account
        said = {"type": "account", "limits": UNLIMITED, "default_permissions": {"pub": {}, "sub": {}}}
        without_streams = ("subs", "data", "payload", "imports", "exports", "conn", "leaf", "wildcards")
        system_limits = {name: UNLIMITED[name] for name in without_streams}
        return f"""
operator: {operator.jwt(operator, "operator", {"type": "operator", "system_account": system.public})}
system_account: {system.public}
resolver: MEMORY
resolver_preload {{
  {system.public}: {operator.jwt(system, "SYS", {**said, "limits": system_limits})}
  {account.public}: {operator.jwt(account, "memory", said)}
}}
"""

    def credentials(self, *, expires: int | None = None) -> str:
        """The user's .creds file."""
        permits = {"type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1}
        return (
            "-----BEGIN NATS USER JWT-----\n"
            f"{self._account.jwt(self._user, 'tallystick', permits, expires=expires)}\n"
            "------END NATS USER JWT------\n\n"
            "-----BEGIN USER NKEY SEED-----\n"
            f"{self._user.seed}\n"
            "------END USER NKEY SEED------\n"
        )
