"""What keeps other pages away from ours: headers, the origin of a request, and the token that each change needs.

Other programs on this machine serve pages too, on other ports. They may call tools, as the operator allows, but they
neither read these pages nor act through them.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.requests import Request

from tallystick.errors import Denied, StorageRefused
from tallystick.policy import Principal

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # With `no-referrer` browsers would send forms with the Origin `null`.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
SESSION_KEY = "tallystick.web_session"
"""Where the session of a visitor who logged in stands in the ASGI scope."""
TOKEN_SECONDS = 12 * 3600
_ELSEWHERE = frozenset({"cross-site", "same-site"})
_PURPOSE = b"tallystick page tokens"


def check_origin(request: Request) -> None:
    """Raises Denied for what another page asks for, unless somebody follows a link of it."""
    headers = request.headers
    origin = headers.get("origin")
    is_foreign = origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    if headers.get("sec-fetch-site") in _ELSEWHERE:
        is_link = request.method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
        is_foreign = is_foreign or not is_link or headers.get("sec-fetch-dest", "document") != "document"
    if is_foreign:
        raise Denied("other pages may not ask for this one", code="ORIGIN_NOT_ALLOWED")


class PageTokens:
    """Made by a page and given back by its forms: an end, and a signature of it and of whom it was made for,
    in which session. Every process that has the key accepts it."""

    def __init__(self, key: Callable[[], bytes], now: Callable[[], float] = time.time) -> None:
        """`key` is called at first use and may raise StorageRefused: then only this process accepts its tokens."""
        self._shared_key = key
        self._now = now

    def make(self, principal: Principal, session: str = "") -> str:
        end = f"{int(self._now()) + TOKEN_SECONDS:x}"
        return f"{end}.{self._sign(principal, session, end)}"

    def check(self, principal: Principal, token: str, session: str = "") -> None:
        """Raises Denied."""
        end, _, signature = token.partition(".")
        is_ours = hmac.compare_digest(signature.encode(), self._sign(principal, session, end).encode())
        if not is_ours or int(end, 16) < self._now():
            raise Denied("this page is too old to change anything", code="PAGE_EXPIRED", hint="load it again")

    def _sign(self, principal: Principal, session: str, end: str) -> str:
        said = "\0".join((end, session, principal.tenant, principal.actor))
        return hmac.new(self._key, said.encode(), sha256).hexdigest()

    @cached_property
    def _key(self) -> bytes:
        try:
            return hmac.digest(self._shared_key(), _PURPOSE, sha256)
        except StorageRefused:
            return secrets.token_bytes(32)
