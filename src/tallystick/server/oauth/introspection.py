"""Introspection (RFC 7662): what the issuer says of a token, and whether it has taken it back before its time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from tallystick.errors import Denied, InvalidArgument
from tallystick.server.oauth.claims import Claims
from tallystick.server.oauth.http_client import Unreachable
from tallystick.server.oauth.keys import Issuer, unreachable

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1
REMEMBERED_MAX = 20_000


class Client(msgspec.Struct, frozen=True):
    """As whom we ask."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"Client({self.id!r})"


class IntrospectionResult(msgspec.Struct, frozen=True):
    """What the issuer said."""

    until: float
    """How long it may be relied upon."""
    claims: Claims | None
    """None for a token that is not, or no longer, good."""


class Introspection:
    """Answers are kept for `remember_seconds`, whether yes or no; an issuer that does not answer means no."""

    def __init__(self, issuer: Issuer, client: Client, *, remember_seconds: float, now: Callable[[], float]) -> None:
        self.issuer = issuer
        self._client = client
        self._remember_seconds = remember_seconds
        self._now = now
        self._remembered: dict[bytes, IntrospectionResult] = {}
        self._authorization: dict[bytes, asyncio.Task[IntrospectionResult]] = {}

    async def ask(self, token: bytes, digest: bytes) -> tuple[float, Claims]:
        """The claims, and until when they hold. Raises Denied, or TallystickError(ISSUER_UNREACHABLE)."""
        word = self._remembered.get(digest)
        if word is None or word.until <= self._now():
            word = await self._ask_once(token, digest)
        if word.claims is None:
            raise Denied("Access token was revoked, or is none", code="INVALID_TOKEN")
        return word.until, word.claims

    async def _ask_once(self, token: bytes, digest: bytes) -> IntrospectionResult:
        authorization = self._authorization.get(digest)
        if authorization is None:
            authorization = self._authorization[digest] = asyncio.ensure_future(self._ask(token))
            authorization.add_done_callback(lambda _: self._authorization.pop(digest, None))
        word = await asyncio.shield(authorization)
        if digest not in self._remembered and len(self._remembered) >= REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = word
        return word

    async def _ask(self, token: bytes) -> IntrospectionResult:
        url = await self.issuer.endpoint("introspection_endpoint")
        form = {"token": token.decode("ascii"), "token_type_hint": "access_token"}
        try:
            answer = await self.issuer.http_client.post_form(
                url, form, client=self._client.id, secret=self._client.secret
            )
        except Unreachable as error:
            logger.warning("a token could not be introspected: %s", error)
            raise unreachable(RETRY_SECONDS) from None
        return IntrospectionResult(
            self._now() + self._remember_seconds, answer if answer.get("active") is True else None
        )


def find_client(id: str, secret_file: str) -> Client | None:
    """None if no id is configured. The secret is read from a file, so that no process list or environment shows it."""
    if not id:
        return None
    try:
        return Client(id, Path(secret_file).read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(
            f"cannot read the secret of client '{id}' from '{secret_file}': {error}",
            code="SECRET_UNREADABLE",
            hint="put the client's secret alone into a file, and name it in the settings",
        ) from None
