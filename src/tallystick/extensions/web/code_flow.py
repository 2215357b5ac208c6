"""Logging in for people: the authorization code flow with PKCE, with this server as the client.

What the provider sends back by way of the browser may have been swapped, replayed or made up by anybody, so all of it
is compared with what this browser was sent away with (`Pending`), and only the provider's own word, fetched directly
from it, lets somebody in. Tokens are not kept here.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import msgspec

from tallystick.errors import Denied, TallystickError
from tallystick.extensions.web.id_tokens import check_id_token
from tallystick.server.oauth import Identity
from tallystick.server.oauth.guard import Admission
from tallystick.server.oauth.http_client import Rejected, Unreachable, reason_of
from tallystick.server.oauth.introspection import Client
from tallystick.server.oauth.keys import unreachable

logger = logging.getLogger(__name__)

PENDING_SECONDS = 600
CODE_CHARACTERS_MAX = 4096
CLOCK_SKEW_SECONDS = 10
EXCHANGES_MAX = 16
"""At a time: whoever is not known yet can make us ask the provider."""
RETRY_SECONDS = 5
_AGAIN = "begin the login again"


class Pending(msgspec.Struct, frozen=True, array_like=True):
    """What a browser that was sent to the provider must come back with, or is asked for by us."""

    state: str
    nonce: str
    verifier: str
    began_at: int
    back: str
    """Where the visitor wanted to go."""


class Granted(msgspec.Struct, frozen=True):
    access_token: str
    refresh_token: str
    """Empty where the provider gave none."""
    identity: Identity


class CodeFlow:
    """Belongs to one event loop."""

    def __init__(
        self,
        admission: Admission,
        client: Client,
        *,
        redirect_uri: str,
        resource: str,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._admission = admission
        self._issuer = admission.login_issuer
        self._client = client
        self._redirect_uri = redirect_uri
        self._resource = resource
        self._now = now
        self._exchanging = asyncio.Semaphore(EXCHANGES_MAX)

    async def begin(self, back: str) -> tuple[str, Pending]:
        """Where to send the browser. Raises TallystickError(ISSUER_UNREACHABLE)."""
        pending = Pending(_random(), _random(), _random(), int(self._now()), back)
        endpoint = await self._issuer.endpoint("authorization_endpoint")
        offered = (await self._issuer.metadata()).get("scopes_supported")
        # OpenID Connect Core 11: a refresh token is given to those who were asked whether they agree.
        is_refreshable = isinstance(offered, list) and "offline_access" in offered
        wanted = ["openid", *self._admission.scopes, *(["offline_access"] if is_refreshable else [])]
        query = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(dict.fromkeys(wanted)),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": _encoded(sha256(pending.verifier.encode()).digest()),
            "code_challenge_method": "S256",
            "resource": self._resource,
            **({"prompt": "consent"} if is_refreshable else {}),
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", pending

    async def finish(self, pending: Pending, answer: Mapping[str, str]) -> Granted:
        """`answer` is what the browser brings. Raises Denied, or TallystickError(ISSUER_UNREACHABLE)."""
        is_late = self._now() - pending.began_at > PENDING_SECONDS
        if is_late or not hmac.compare_digest(answer.get("state", "").encode(), pending.state.encode()):
            raise unknown_login()
        await self._check_sender(answer)
        if "error" in answer:
            raise _refused(f"the identity provider does not let you in{_named(reason_of(answer))}")
        code = answer.get("code", "")
        if not 0 < len(code) <= CODE_CHARACTERS_MAX:
            raise _refused("the identity provider sent no code")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": pending.verifier,
        }
        tokens = await self._obtain(form)
        access_token, id_token = tokens.get("access_token"), tokens.get("id_token")
        if not isinstance(access_token, str) or not isinstance(id_token, str):
            raise _invalid("there is no access token, or no id token")
        await self._check_id_token(id_token, pending, access_token)
        return await self._granted(access_token, tokens.get("refresh_token"))

    async def refresh(self, refresh_token: str) -> Granted:
        """Raises Denied when it is not taken any longer, or TallystickError(ISSUER_UNREACHABLE)."""
        tokens = await self._obtain({"grant_type": "refresh_token", "refresh_token": refresh_token})
        access_token = tokens.get("access_token")
        if not isinstance(access_token, str):
            raise _invalid("there is no access token")
        return await self._granted(access_token, tokens.get("refresh_token", refresh_token))

    async def verify(self, access_token: str) -> Identity:
        """As for every caller with a token. Raises Denied, or TallystickError(ISSUER_UNREACHABLE)."""
        return await self._admission.verify(access_token.encode())

    async def revoke(self, *tokens: str) -> None:
        """Where the provider takes tokens back; one that does not answer now keeps nobody from logging out."""
        try:
            endpoint = await self._issuer.find_endpoint("revocation_endpoint")
        except TallystickError:
            endpoint = None
        if endpoint is not None:
            await asyncio.gather(*(self._revoke(endpoint, token) for token in tokens if token))

    async def logout_address(self, back: str) -> str | None:
        """Where the browser ends its session at the provider, which then sends it `back`; None where it offers none."""
        try:
            endpoint = await self._issuer.find_endpoint("end_session_endpoint")
        except TallystickError:
            return None
        query = urlencode({"client_id": self._client.id, "post_logout_redirect_uri": back})
        return None if endpoint is None else f"{endpoint}{'&' if '?' in endpoint else '?'}{query}"

    async def _check_sender(self, answer: Mapping[str, str]) -> None:
        """RFC 9207: who answers says who it is, else a code of one provider could be taken to another."""
        is_said = (await self._issuer.metadata()).get("authorization_response_iss_parameter_supported") is True
        if answer.get("iss", "" if is_said else self._issuer.url) != self._issuer.url:
            raise Denied(
                "this answer is not from the identity provider that was asked", code="LOGIN_MIXED_UP", hint=_AGAIN
            )

    async def _check_id_token(self, id_token: str, pending: Pending, access_token: str) -> None:
        try:
            await check_id_token(
                id_token,
                self._issuer,
                client=self._client.id,
                nonce=pending.nonce,
                access_token=access_token,
                now=self._now(),
                skew=CLOCK_SKEW_SECONDS,
            )
        except Denied as error:
            raise _invalid(error.message) from None

    async def _obtain(self, form: dict[str, str]) -> dict[str, Any]:
        url = await self._issuer.endpoint("token_endpoint")
        try:
            async with self._exchanging:
                return await self._post(url, {**form, "resource": self._resource})
        except Rejected as error:
            logger.warning("the login of a person: %s", error)
            raise _refused(f"the identity provider does not grant this{_named(error.reason)}") from None
        except Unreachable as error:
            logger.warning("the login of a person: %s", error)
            raise unreachable(RETRY_SECONDS) from None

    async def _post(self, url: str, form: dict[str, str]) -> dict[str, Any]:
        ways = (await self._issuer.metadata()).get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        http, client = self._issuer.http_client, self._client
        if client.secret and "client_secret_basic" not in ways and "client_secret_post" in ways:
            return await http.post_form(url, {**form, "client_secret": client.secret}, client=client.id, secret="")
        return await http.post_form(url, form, client=client.id, secret=client.secret)

    async def _granted(self, access_token: str, refresh_token: Any) -> Granted:
        try:
            identity = await self.verify(access_token)
        except Denied as error:
            words = f"the token of the identity provider opens nothing here: {error.message}"
            hint = f"tell whoever runs this server; tokens must be issued for {self._resource}"
            raise Denied(words, code="LOGIN_REFUSED", hint=hint) from None
        return Granted(access_token, refresh_token if isinstance(refresh_token, str) else "", identity)

    async def _revoke(self, endpoint: str, token: str) -> None:
        try:
            await self._post(endpoint, {"token": token})
        except Unreachable as error:
            # RFC 7009: it answers 200 with nothing, which is no JSON.
            logger.debug("a token was given back: %s", error)


def unknown_login() -> Denied:
    words = "this login was not begun in this browser, was used before, or took too long"
    return Denied(words, code="LOGIN_UNKNOWN", hint=_AGAIN)


def _refused(words: str) -> Denied:
    return Denied(words, code="LOGIN_REFUSED", hint=f"{_AGAIN}, or ask whoever gives out accounts there")


def _invalid(why: str) -> Denied:
    words = f"what the identity provider answered does not hold: {why}"
    return Denied(words, code="LOGIN_INVALID", hint=f"{_AGAIN}; if it stays so, tell whoever runs this server")


def _named(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _random() -> str:
    return _encoded(secrets.token_bytes(32))


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
