"""Introspection (RFC 7662): whether the issuer has taken a token back before its time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from tallystick.errors import Denied, InvalidArgument
from tallystick.server.oauth.keys import Issuer, unreachable
from tallystick.server.oauth.outside import Unreachable

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1
REMEMBERED_MAX = 20_000


class Client(msgspec.Struct, frozen=True):
    """As whom we ask."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"Client({self.id!r})"


class Introspection:
    """Answers are kept for `remember_seconds`, whether yes or no; an issuer that does not answer means no."""

    def __init__(self, issuer: Issuer, client: Client, *, remember_seconds: float, now: Callable[[], float]) -> None:
        self._issuer = issuer
        self._client = client
        self._remember_seconds = remember_seconds
        self._now = now
        self._remembered: dict[bytes, tuple[float, bool]] = {}
        self._asking: dict[bytes, asyncio.Task[tuple[float, bool]]] = {}

    async def check_active(self, token: bytes, digest: bytes) -> float:
        """Until when the answer may be relied upon. Raises Denied, or TallystickError(ISSUER_UNREACHABLE)."""
        known = self._remembered.get(digest)
        if known is None or known[0] <= self._now():
            known = await self._ask_once(token, digest)
        until, active = known
        if not active:
            raise Denied("Access token was revoked", code="INVALID_TOKEN")
        return until

    async def _ask_once(self, token: bytes, digest: bytes) -> tuple[float, bool]:
        asking = self._asking.get(digest)
        if asking is None:
            asking = self._asking[digest] = asyncio.ensure_future(self._ask(token))
            asking.add_done_callback(lambda _: self._asking.pop(digest, None))
        known = await asyncio.shield(asking)
        if digest not in self._remembered and len(self._remembered) >= REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = known
        return known

    async def _ask(self, token: bytes) -> tuple[float, bool]:
        url = await self._issuer.endpoint("introspection_endpoint")
        form = {"token": token.decode("ascii"), "token_type_hint": "access_token"}
        try:
            answer = await self._issuer.outside.post_form(url, form, client=self._client.id, secret=self._client.secret)
        except Unreachable as error:
            logger.warning("a token could not be introspected: %s", error)
            raise unreachable(RETRY_SECONDS) from None
        return self._now() + self._remember_seconds, answer.get("active") is True


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
            hint="put the client's secret alone into a file and name it in introspection_secret_file",
        ) from None
