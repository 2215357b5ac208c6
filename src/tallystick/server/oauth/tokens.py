"""The tokens: read, traced to a trusted issuer, checked, and remembered for a short while.

Checked in the order of L26: issuer (before the signature, since it says whose keys to ask
for), key and signature, times, audience, kind. The first fault is told, the rest is not looked at.
Of a token that says nothing itself the issuer is asked, if it may be; its answer is checked alike.
"""

from __future__ import annotations

import math
import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry, deserialize_compact

from tallystick.errors import Denied
from tallystick.server.jsonrpc import WireFault, parse
from tallystick.server.oauth import Identity
from tallystick.server.oauth.claims import (
    Claims,
    Expectations,
    check_audience,
    check_bearer,
    check_kind,
    check_times,
    read_identity,
)
from tallystick.server.oauth.introspection import Introspection
from tallystick.server.oauth.keys import Issuer

ALGORITHMS = ("RS256", "ES256")
TOKEN_BYTES_MAX = 16 * 1024
REMEMBERED_MAX = 20_000
_COMPACT = re.compile(rb"[\w-]+\.[\w-]+\.[\w-]*", re.ASCII)
_OPAQUE = re.compile(rb"[\w.~+/-]+=*", re.ASCII)


class Tokens:
    def __init__(
        self,
        issuers: Mapping[str, Issuer],
        expected: Expectations,
        *,
        now: Callable[[], float],
        remember_seconds: float,
        introspection: Introspection | None = None,
    ) -> None:
        self._issuers = issuers
        self._expected = expected
        self._now = now
        self._remember_seconds = remember_seconds
        self._introspection = introspection
        self._remembered: dict[bytes, tuple[float, Identity]] = {}
        """By the token's hash, until when. The oldest are forgotten first."""

    async def verify(self, token: bytes) -> Identity:
        """Raises Denied, or TallystickError(ISSUER_UNREACHABLE) when it can't be judged now."""
        digest = sha256(token).digest()
        known = self.find(digest)
        if known is not None:
            return known
        self._remembered.pop(digest, None)
        until, identity = await self._judge(token, digest)
        ends = min(identity.expires_at + self._expected.clock_skew_seconds, self._now() + self._remember_seconds)
        self._remember(digest, min(until, ends), identity)
        return identity

    def find(self, digest: bytes) -> Identity | None:
        """By the token's SHA-256: what was found of it lately, while that holds."""
        known = self._remembered.get(digest)
        return known[1] if known is not None and self._now() < known[0] else None

    async def _judge(self, token: bytes, digest: bytes) -> tuple[float, Identity]:
        """Who it is, and until when the issuer's word on it holds."""
        if self._introspection is None:
            return math.inf, await self._read_signed(token)
        if _COMPACT.fullmatch(token):
            # First what we can tell ourselves: with a forged token nobody is bothered.
            identity = await self._read_signed(token)
            until, claims = await self._introspection.ask(token, digest)
            check_bearer(claims)
            return until, identity
        if len(token) > TOKEN_BYTES_MAX or not _OPAQUE.fullmatch(token):
            raise _unreadable()
        until, claims = await self._introspection.ask(token, digest)
        return until, self._read_told(claims, self._introspection.issuer)

    def _read_told(self, claims: Claims, issuer: Issuer) -> Identity:
        if claims.get("iss", issuer.url) != issuer.url:
            raise _untrusted()
        return self._checked({}, claims, issuer)

    async def _read_signed(self, token: bytes) -> Identity:
        read = read_compact(token)
        issuer = self._issuers.get(read.issuer)
        if issuer is None:
            raise _untrusted()
        await check_signature(token, read, issuer)
        return self._checked(read.header, read.claims, issuer)

    def _checked(self, header: Claims, claims: Claims, issuer: Issuer) -> Identity:
        expires_at = check_times(claims, self._now(), self._expected.clock_skew_seconds)
        check_audience(claims, self._expected.audiences)
        check_kind(header, claims)
        check_bearer(claims)
        return read_identity(claims, issuer.url, expires_at, self._expected)

    def _remember(self, digest: bytes, until: float, identity: Identity) -> None:
        if len(self._remembered) >= REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = (until, identity)


class CompactToken(msgspec.Struct, frozen=True):
    """What a token says, nothing of it proven."""

    header: dict[str, Any]
    claims: dict[str, Any]

    @property
    def issuer(self) -> str:
        issuer = self.claims.get("iss")
        return issuer if isinstance(issuer, str) else ""


def read_compact(token: bytes) -> CompactToken:
    """Raises Denied."""
    if len(token) > TOKEN_BYTES_MAX or not _COMPACT.fullmatch(token):
        raise _unreadable()
    header, claims, _ = token.split(b".")
    return CompactToken(_part(header), _part(claims))


def _part(encoded: bytes) -> dict[str, Any]:
    try:
        # Strictly read: a key given twice could mean one thing to us and another to the issuer's next library.
        value = parse(urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4)))
    except (WireFault, Base64Error):
        raise _unreadable() from None
    if not isinstance(value, dict):
        raise _unreadable()
    return value


async def check_signature(token: bytes, read: CompactToken, issuer: Issuer) -> None:
    """Raises Denied, or TallystickError(ISSUER_UNREACHABLE)."""
    algorithm, id = read.header.get("alg"), read.header.get("kid")
    if algorithm not in ALGORITHMS:
        raise Denied("Access token must be signed with RS256 or ES256", code="INVALID_SIGNATURE")
    if not (id is None or isinstance(id, str)) or "crit" in read.header:
        raise Denied("Access token has a header that is not understood", code="INVALID_SIGNATURE")
    # Keys come from the issuer alone: whatever jwk, jku or x5c in the header says is not looked at.
    keys = await issuer.keys(algorithm, id)
    if not any(_is_signed_by(token, key.jwk, algorithm) for key in keys):
        raise Denied("Access token is not signed by its issuer", code="INVALID_SIGNATURE")


def _is_signed_by(token: bytes, key: Any, algorithm: str) -> bool:
    try:
        deserialize_compact(token, key, registry=_REGISTRIES[algorithm])
    except (JoseError, ValueError):
        return False
    return True


def _registry(algorithm: str) -> JWSRegistry:
    registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    registry.max_header_length = registry.max_signature_length = TOKEN_BYTES_MAX
    return registry


_REGISTRIES = {algorithm: _registry(algorithm) for algorithm in ALGORITHMS}


def _untrusted() -> Denied:
    return Denied("the issuer of the access token is not trusted here", code="UNTRUSTED_ISSUER")


def _unreadable() -> Denied:
    return Denied("this is no access token that can be read here", code="INVALID_TOKEN")
