"""The issuer's endpoints, asked over HTTP: bounded in time and size, redirects not followed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus, urlsplit

import httpx2

from tallystick.formats import strict_json
from tallystick.server.guards import is_loopback

TIMEOUT_SECONDS = 5.0
ANSWER_BYTES_MAX = 512 * 1024
_WORD = re.compile(r"[a-z_]{1,64}")


class Unreachable(Exception):
    """The issuer does not answer, or not with what it should. Never holds what was sent."""


class Rejected(Unreachable):
    """It answered, and does not grant what was asked for."""

    def __init__(self, words: str, reason: str) -> None:
        super().__init__(words)
        self.reason = reason
        """OAuth's word for it, such as `invalid_grant`."""


class HttpClient:
    """One connection pool per issuer, opened at first use."""

    def __init__(self, issuer: str, *, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        self._issuer = issuer
        self._transport = transport
        self._client: httpx2.AsyncClient | None = None

    async def find_json(self, url: str) -> dict[str, Any] | None:
        """The object at `url`, None if there is none. Raises Unreachable."""
        status, body = await self._ask("GET", url)
        if 300 <= status < 500:
            return None
        return _object(url, status, body)

    async def post_form(self, url: str, form: Mapping[str, str], *, client: str, secret: str) -> dict[str, Any]:
        """The object that is answered. Raises Unreachable or Rejected. Without a secret the client only says its id."""
        if not secret:
            return _object(url, *await self._ask("POST", url, data={**form, "client_id": client}))
        # RFC 6749 2.3.1: both are form-encoded before they are joined, else a colon would move the border.
        credentials = (quote_plus(client), quote_plus(secret))
        return _object(url, *await self._ask("POST", url, data=dict(form), auth=credentials))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _ask(self, method: str, url: str, **content: Any) -> tuple[int, bytes]:
        headers = {"accept": "application/json"}
        try:
            async with self._opened().stream(method, url, headers=headers, **content) as answer:
                body = b""
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > ANSWER_BYTES_MAX:
                        raise Unreachable(f"{url} answers with more than {ANSWER_BYTES_MAX} bytes")
                return answer.status_code, body
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unreachable(f"{url} does not answer ({type(error).__name__})") from None

    def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                timeout=TIMEOUT_SECONDS,
                follow_redirects=False,
                transport=self._transport,
                # A proxy of the environment is for the network, never for this machine.
                trust_env=not is_loopback(urlsplit(self._issuer).hostname or ""),
            )
        return self._client


def _object(url: str, status: int, body: bytes) -> dict[str, Any]:
    try:
        value = strict_json.parse(body)
    except strict_json.JsonFault:
        value = None
    if status in (400, 401, 403) and (reason := reason_of(value)):
        raise Rejected(f"{url} answers {status} {reason}", reason)
    if status != 200:
        raise Unreachable(f"{url} answers {status}")
    if not isinstance(value, dict):
        raise Unreachable(f"{url} answers with something else than a JSON object")
    return value


def reason_of(value: Any) -> str:
    """OAuth's word for it (`invalid_client`, `unsupported_token_type`), and only if it is one."""
    word = value.get("error") if isinstance(value, Mapping) else None
    return word if isinstance(word, str) and _WORD.fullmatch(word) else ""
