"""The claims of a token that is known to be genuine: is it for us, is it now, and whose is it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from tallystick.config import DEFAULT_TENANT, TENANT_PATTERN
from tallystick.errors import Denied
from tallystick.policy import Principal
from tallystick.policy.visible_names import is_visible
from tallystick.server.oauth import Identity

Claims = Mapping[str, Any]

ACTOR_LENGTH_MAX = 255
ROLES_MAX = 200
_TIME_MAX = 253_402_300_799
"""The last second of the year 9999."""
_TENANT = re.compile(TENANT_PATTERN)
_ACCESS_TYPES = frozenset({"at+jwt", "application/at+jwt"})
_COMMON_TYPES = frozenset({"", "jwt", "application/jwt"})
_ID_TOKEN_CLAIMS = frozenset({"nonce", "at_hash", "c_hash", "s_hash"})
_OTHER_TOKEN_CLAIMS = frozenset({"events"})


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    audiences: frozenset[str]
    """Without trailing slashes."""
    tenant_claim: str = "tenant_id"
    roles_claim: str = "roles"
    clock_skew_seconds: int = 10


def check_times(claims: Claims, now: float, skew: int) -> int:
    """When it expires. Raises Denied."""
    expires_at, valid_from = _time(claims, "exp"), max(_time(claims, "nbf", 0), _time(claims, "iat", 0))
    if now >= expires_at + skew:
        raise Denied(f"Access token expired at {_moment(expires_at)}", code="TOKEN_EXPIRED")
    if now < valid_from - skew:
        raise Denied("Access token is not valid yet", code="INVALID_TOKEN")
    return expires_at


def check_audience(claims: Claims, audiences: frozenset[str]) -> None:
    named = claims.get("aud")
    listed = named if isinstance(named, list) else [named]
    if not any(isinstance(one, str) and one.removesuffix("/") in audiences for one in listed):
        raise Denied("Access token was issued for another audience", code="INVALID_TOKEN")


def check_bearer(claims: Claims) -> None:
    """Refuse what is bound to a key (DPoP, mutual TLS): stolen, it would be as good as in its owner's hands,
    since nobody here asks for a proof of that key."""
    if claims.get("cnf") is not None or str(claims.get("token_type", "bearer")).lower() != "bearer":
        raise Denied("Access token is bound to a key and can't be used as Bearer", code="INVALID_TOKEN")


def check_kind(header: Claims, claims: Claims) -> None:
    """Refuse what the issuer signs for other purposes: id tokens, logout tokens, refresh tokens.

    RFC 9068 has a type of its own for access tokens, but many issuers still write JWT on all
    of theirs; then the claims tell.
    """
    kind = header.get("typ", "")
    kind = kind.lower() if isinstance(kind, str) else None
    if kind in _ACCESS_TYPES:
        return
    says = claims.get("typ", claims.get("token_use"))
    is_access = says in ("Bearer", "access", "access_token") or (says is None and not claims.keys() & _ID_TOKEN_CLAIMS)
    if kind not in _COMMON_TYPES or not is_access or claims.keys() & _OTHER_TOKEN_CLAIMS:
        raise Denied("this is not an access token", code="INVALID_TOKEN")


def read_identity(claims: Claims, issuer: str, expires_at: int, expected: Expectations) -> Identity:
    return Identity(
        principal=Principal(
            actor=_actor(claims),
            tenant=_tenant(claims, expected.tenant_claim),
            roles=_roles(claims, expected.roles_claim),
            trusted=False,
        ),
        scopes=frozenset(_words(claims.get("scope", claims.get("scp")), "scope")),
        issuer=issuer,
        client=_client(claims),
        expires_at=expires_at,
    )


def _actor(claims: Claims) -> str:
    actor = claims.get("sub")
    if not isinstance(actor, str) or not 0 < len(actor) <= ACTOR_LENGTH_MAX or not actor.isprintable():
        raise _malformed("sub")
    if not is_visible(actor):
        raise Denied("Access token names nobody: its sub claim is blank", code="INVALID_TOKEN")
    return actor


def _tenant(claims: Claims, name: str) -> str:
    tenant = _find(claims, name, DEFAULT_TENANT)
    if not isinstance(tenant, str) or not _TENANT.fullmatch(tenant):
        raise _malformed("tenant")
    return tenant


def _roles(claims: Claims, name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_words(_find(claims, name, None), "roles")))


def _client(claims: Claims) -> str:
    client = claims.get("client_id", claims.get("azp", ""))
    return client if isinstance(client, str) else ""


def _find(claims: Claims, name: str, default: Any) -> Any:
    """A claim by its name, or by the path to it (`realm_access.roles`): names may have dots in them themselves."""
    if name in claims:
        return claims[name]
    here: Any = claims
    for step in name.split("."):
        if not isinstance(here, Mapping) or step not in here:
            return default
        here = here[step]
    return here


def _words(value: Any, what: str) -> list[str]:
    if value is None:
        return []
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or len(words) > ROLES_MAX or not all(isinstance(word, str) for word in words):
        raise _malformed(what)
    return words


def _time(claims: Claims, name: str, default: int | None = None) -> int:
    value = claims.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _TIME_MAX:
        raise _malformed(name)
    return int(value)


def _moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _malformed(claim: str) -> Denied:
    return Denied(f"Access token has no proper {claim} claim", code="INVALID_TOKEN")
