"""Who calls over HTTP: the bearer tokens of trusted issuers, turned into principals.

An OAuth 2.1 resource server. It checks tokens and says where they are to be had; logging in,
refreshing and revoking is the issuer's part. Knows tokens and claims, nothing of what a
principal may do. A token is never kept, logged or repeated in an answer: caches know it by
its hash, and refusals say what is wrong in words of our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tallystick.errors import Denied
from tallystick.policy import Principal

SCOPE_KEY = "tallystick.identity"
"""Where the guard leaves the Identity in the ASGI scope."""
COOKIES_KEY = "tallystick.cookies"
"""Where the headers stand in the ASGI scope that the answer is to set cookies with."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a token proves."""

    principal: Principal
    scopes: frozenset[str] = frozenset()
    issuer: str
    client: str = ""
    """The program that acts for the principal, where the token says so."""
    expires_at: int


def principal_of(scope: Mapping[str, Any] | None) -> Principal:
    """For Offer: who the guard found to be calling. Raises Denied where no guard stood before the route."""
    identity: Identity | None = None if scope is None else scope.get(SCOPE_KEY)
    if identity is None:
        raise Denied("Authorization header required", code="MISSING_TOKEN")
    return identity.principal
