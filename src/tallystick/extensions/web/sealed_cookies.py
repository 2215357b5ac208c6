"""Cookies that only this server can read: AES-GCM, with a key of each day that is derived from the one of the base.

A browser takes some 4 KB for a cookie, and tokens can be longer: what is sealed is spread over a few.
"""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

PART_CHARACTERS_MAX = 3_800
PARTS_MAX = 4
DAYS_MAX = 2
"""How long a key opens what it sealed: longer than any session lasts."""
_DAY_SECONDS = 86_400
_DAY_BYTES, _NONCE_BYTES = 4, 12
_ATTRIBUTES = "; Path=/; Secure; HttpOnly; SameSite=Lax"

Header = tuple[bytes, bytes]


class TooLarge(Exception):
    """For a browser to keep."""


class SealedCookie:
    def __init__(
        self,
        name: str,
        key: Callable[[], bytes],
        *,
        context: str,
        now: Callable[[], float],
        seconds: int | None = None,
    ) -> None:
        """`key` is had at first use. What was sealed under another name or `context` is not opened. `seconds` is how
        long the browser keeps it; None means until it is closed."""
        self._name = name
        self._key = key
        self._context = f"{name}\0{context}".encode()
        self._now = now
        self._age = "" if seconds is None else f"; Max-Age={seconds}"
        self._ciphers: dict[int, AESGCM] = {}

    def is_in(self, cookies: Mapping[str, str]) -> bool:
        return self._name in cookies

    def read(self, cookies: Mapping[str, str]) -> bytes | None:
        """None for what is not there, is not ours, or is too old."""
        sealed = "".join(cookies.get(part, "") for part in self._parts())
        if not 0 < len(sealed) <= PARTS_MAX * PART_CHARACTERS_MAX:
            return None
        try:
            data = urlsafe_b64decode(sealed.encode("ascii") + b"=" * (-len(sealed) % 4))
        except (Base64Error, ValueError):
            return None
        day, rest = int.from_bytes(data[:_DAY_BYTES]), data[_DAY_BYTES:]
        if not 0 <= self._today() - day <= DAYS_MAX:
            return None
        try:
            return self._cipher(day).decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], self._context)
        except (InvalidTag, ValueError):
            return None

    def write(self, data: bytes, cookies: Mapping[str, str]) -> list[Header]:
        """The headers that set it in a browser that has `cookies`. Raises TooLarge."""
        day, nonce = self._today(), secrets.token_bytes(_NONCE_BYTES)
        sealed = nonce + self._cipher(day).encrypt(nonce, data, self._context)
        text = urlsafe_b64encode(day.to_bytes(_DAY_BYTES) + sealed).decode().rstrip("=")
        pieces = [text[at : at + PART_CHARACTERS_MAX] for at in range(0, len(text), PART_CHARACTERS_MAX)]
        if len(pieces) > PARTS_MAX:
            raise TooLarge
        names = self._parts()
        left = [name for name in names[len(pieces) :] if name in cookies]
        return [
            *(_header(f"{name}={piece}", self._age) for name, piece in zip(names, pieces, strict=False)),
            *_gone(left),
        ]

    def remove(self, cookies: Mapping[str, str]) -> list[Header]:
        return _gone([name for name in self._parts() if name in cookies])

    def _parts(self) -> list[str]:
        return [self._name, *(f"{self._name}.{number}" for number in range(1, PARTS_MAX))]

    def _today(self) -> int:
        return int(self._now()) // _DAY_SECONDS

    def _cipher(self, day: int) -> AESGCM:
        if day not in self._ciphers:
            self._ciphers = {known: self._ciphers[known] for known in self._ciphers if day - known <= DAYS_MAX}
            info = b"tallystick sealed cookie\0" + day.to_bytes(_DAY_BYTES)
            self._ciphers[day] = AESGCM(HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(self._key()))
        return self._ciphers[day]


def _gone(names: list[str]) -> list[Header]:
    return [_header(f"{name}=", "; Max-Age=0") for name in names]


def _header(pair: str, age: str) -> Header:
    return b"set-cookie", f"{pair}{_ATTRIBUTES}{age}".encode("latin-1")
