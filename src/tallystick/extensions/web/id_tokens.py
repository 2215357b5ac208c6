"""The id token of a login: does it answer the question that this browser asked, and was it made for us."""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256

from tallystick.errors import Denied
from tallystick.server.oauth.claims import Claims, check_times
from tallystick.server.oauth.keys import Issuer
from tallystick.server.oauth.tokens import check_signature, read_compact


async def check_id_token(
    token: str, issuer: Issuer, *, client: str, nonce: str, access_token: str, now: float, skew: int
) -> None:
    """Raises Denied, or TallystickError(ISSUER_UNREACHABLE)."""
    encoded = token.encode()
    read = read_compact(encoded)
    if read.issuer != issuer.url:
        raise _invalid("it is of another issuer")
    await check_signature(encoded, read, issuer)
    check_times(read.claims, now, skew)
    _check_audience(read.claims, client)
    if not _is_same(read.claims.get("nonce"), nonce):
        raise _invalid("it answers another login")
    # Not every provider says which access token belongs to it; one that does must mean this one.
    if "at_hash" in read.claims and not _is_same(read.claims["at_hash"], _half_hash(access_token)):
        raise _invalid("it belongs to another access token")


def _check_audience(claims: Claims, client: str) -> None:
    named = claims.get("aud")
    listed = named if isinstance(named, list) else [named]
    presenter = claims.get("azp", client if len(listed) == 1 else None)
    if client not in listed or presenter != client:
        raise _invalid("it is for another client")


def _is_same(said: object, expected: str) -> bool:
    return isinstance(said, str) and hmac.compare_digest(said.encode(), expected.encode())


def _half_hash(access_token: str) -> str:
    """OpenID Connect Core 3.1.3.6, for RS256 and ES256."""
    return urlsafe_b64encode(sha256(access_token.encode()).digest()[:16]).decode().rstrip("=")


def _invalid(why: str) -> Denied:
    return Denied(f"the id token is not valid: {why}", code="LOGIN_INVALID")
