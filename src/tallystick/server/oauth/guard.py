"""The guard before every route but the open ones: no token, no answer; and the way to get one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tallystick.errors import Denied, InvalidArgument, TallystickError
from tallystick.server.answers import json_answer
from tallystick.server.guards import is_loopback
from tallystick.server.oauth import Identity
from tallystick.server.oauth.claims import Expectations
from tallystick.server.oauth.http_client import HttpClient
from tallystick.server.oauth.introspection import Client, Introspection
from tallystick.server.oauth.keys import Issuer
from tallystick.server.oauth.tokens import TOKEN_BYTES_MAX, Tokens
from tallystick.telemetry.metrics import refused

logger = logging.getLogger(__name__)

METADATA_PATH = "/.well-known/oauth-protected-resource"
OPEN_PATHS = frozenset({"/health", "/health/live", "/health/ready"})
"""Besides the metadata. Everything else needs a token, whether it exists or not."""

STATUSES = {
    "MISSING_TOKEN": 401,
    "INVALID_TOKEN": 401,
    "INVALID_SIGNATURE": 401,
    "TOKEN_EXPIRED": 401,
    "SESSION_UNKNOWN": 401,
    "SESSION_EXPIRED": 401,
    "SESSION_ENDED": 401,
    "UNTRUSTED_ISSUER": 403,
    "INSUFFICIENT_SCOPE": 403,
    "ISSUER_UNREACHABLE": 503,
}
_RESOURCES = {"/mcp": "/mcp", "/sse": "/sse", "/messages/": "/sse"}
"""By path, the part of us that a client asks a token for: it must be the address the client was given."""
_OAUTH_ERRORS = {401: "invalid_token", 403: "invalid_token"}


class Admission:
    """Who may pass at all. Belongs to one event loop, and holds connections while `run` is entered."""

    def __init__(
        self, tokens: Tokens, issuers: Sequence[Issuer], *, public_url: str, scopes: Sequence[str] = ()
    ) -> None:
        self.public_url = public_url
        self.host = urlsplit(public_url).hostname or ""
        self.scopes = tuple(scopes)
        """Those that every token needs."""
        self._tokens = tokens
        self._issuers = issuers
        self._needed = frozenset(scopes)
        self._metadata_urls = {path: _metadata_url(resource) for path, resource in resources(public_url).items()}
        self.open_prefixes: tuple[str, ...] = ()
        """What begins with one of these is for everybody; who has a token is known there all the same."""
        self.open_paths = OPEN_PATHS | {urlsplit(url).path for url in self._metadata_urls.values()}

    @property
    def login_issuer(self) -> Issuer:
        """Where people log in: the first. A browser that may be sent to several can be told to mix them up."""
        return self._issuers[0]

    @property
    def issuers(self) -> list[str]:
        return [issuer.url for issuer in self._issuers]

    async def admit(self, headers: Iterable[tuple[bytes, bytes]]) -> Identity:
        """Raises Denied, or TallystickError(ISSUER_UNREACHABLE)."""
        return await self.verify(read_bearer(headers))

    async def verify(self, token: bytes) -> Identity:
        """Raises as `admit` does."""
        identity = await self._tokens.verify(token)
        if not self._suffices(identity):
            # All that are needed, not only those that lack: a client asks for what it is told, and no more.
            raise Denied(f"Access token needs the scopes {' '.join(self.scopes)}", code="INSUFFICIENT_SCOPE")
        return identity

    def _suffices(self, identity: Identity) -> bool:
        return self._needed <= identity.scopes

    def refusal(self, path: str, error: TallystickError) -> Response:
        status = STATUSES.get(error.code, 403)
        refused(error.code)
        logger.info("refused %s: %s", path[:200], error.code)
        body = {**error.details, "error": error.code, "message": error.message}
        retry = {"Retry-After": str(error.details["retry_after"])} if "retry_after" in error.details else {}
        challenge = {} if status == 503 else {"WWW-Authenticate": self._challenge(path, status, error)}
        return json_answer(body, status, {**challenge, **retry, "Cache-Control": "no-store"})

    def routes(self) -> list[Route]:
        """RFC 9728: what this resource is called, and whose tokens it takes."""
        return [self._metadata_route(path, resource) for path, resource in resources(self.public_url).items()]

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        warming = [asyncio.ensure_future(issuer.warm_up()) for issuer in self._issuers]
        try:
            yield
        finally:
            for issuer in self._issuers:
                await issuer.close()
            await asyncio.gather(*warming, return_exceptions=True)

    def _challenge(self, path: str, status: int, error: TallystickError) -> str:
        resource = self._metadata_urls[_RESOURCES.get(path, "")]
        said: dict[str, str] = {}
        if error.code != "MISSING_TOKEN":
            # RFC 6750: a client that sent nothing has made no error yet.
            said["error"] = "insufficient_scope" if error.code == "INSUFFICIENT_SCOPE" else _OAUTH_ERRORS[status]
            said["error_description"] = error.message
        if self.scopes:
            said["scope"] = " ".join(self.scopes)
        said["resource_metadata"] = resource
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in said.items())

    def _metadata_route(self, path: str, resource: str) -> Route:
        document: dict[str, Any] = {
            "resource": resource,
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
            "resource_name": "Tallystick",
            **({"scopes_supported": list(self.scopes)} if self.scopes else {}),
        }

        async def metadata(request: Request) -> Response:
            return json_answer(document, headers={"Cache-Control": "max-age=300"})

        return Route(urlsplit(self._metadata_urls[path]).path, metadata, methods=["GET"])


def build_admission(
    issuers: Sequence[str],
    *,
    public_url: str,
    audience: Sequence[str] = (),
    scopes: Sequence[str] = (),
    tenant_claim: str = "tenant_id",
    roles_claim: str = "roles",
    clock_skew_seconds: int = 10,
    token_cache_seconds: int = 60,
    jwks_seconds: int = 300,
    jwks_stale_seconds: int = 3600,
    introspect_as: Client | None = None,
    introspection_seconds: int = 60,
    now: Callable[[], float] = time.time,
    http_client: Callable[[str], HttpClient] = HttpClient,
) -> Admission:
    """`public_url` is where clients find us, without /mcp; tokens must be issued for it or for one of `audience`."""
    trusted = {
        url: Issuer(url, http_client(url), fresh_seconds=jwks_seconds, stale_seconds=jwks_stale_seconds, now=now)
        for url in issuers
    }
    public_url = _checked_url(public_url)
    expected = Expectations(
        audiences=frozenset(url.removesuffix("/") for url in audience or resources(public_url).values()),
        tenant_claim=tenant_claim,
        roles_claim=roles_claim,
        clock_skew_seconds=clock_skew_seconds,
    )
    introspection = None
    if introspect_as is not None:
        introspection = Introspection(
            _only(list(trusted.values())), introspect_as, remember_seconds=introspection_seconds, now=now
        )
    tokens = Tokens(trusted, expected, now=now, remember_seconds=token_cache_seconds, introspection=introspection)
    return Admission(tokens, list(trusted.values()), public_url=public_url, scopes=scopes)


def public_address(configured: str, *, host: str, port: int, tls: bool) -> str:
    """Where clients find us, as tokens name it: it must be known before the first of them comes."""
    if configured:
        return configured
    if host.strip("[]") in ("", "0.0.0.0", "::") or port == 0:
        raise InvalidArgument(
            f"clients cannot call '{host}:{port}', so tokens cannot be issued for it",
            code="PUBLIC_URL_NEEDED",
            hint="say with --public-url how clients reach this server, for example https://memory.example",
        )
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{name}:{port}"


def resources(public_url: str) -> dict[str, str]:
    """By the path they stand for: the names that tokens may be issued for."""
    return {path: public_url + path for path in ("/mcp", "/sse", "")}


def read_bearer(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The token of the one Authorization header; query strings and bodies are not looked at. Raises Denied."""
    given = [value for name, value in headers if name == b"authorization"]
    if not given:
        raise Denied("Authorization header required", code="MISSING_TOKEN")
    scheme, _, token = given[0].partition(b" ")
    token = token.strip(b" ")
    if len(given) > 1 or scheme.lower() != b"bearer" or not 0 < len(token) <= TOKEN_BYTES_MAX:
        raise Denied("Authorization header must be given once, as Bearer and one token", code="INVALID_TOKEN")
    return token


def _metadata_url(resource: str) -> str:
    """RFC 9728 3.1: the well-known path stands between the host and the resource's own path."""
    parts = urlsplit(resource)
    return f"{parts.scheme}://{parts.netloc}{METADATA_PATH}{parts.path}"


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or '"' in url:
        raise InvalidArgument(f"'{url}' is no address that clients could call", code="PUBLIC_URL_INVALID")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        logger.warning("%s is not https: tokens can be read on their way here", url)
    return url.rstrip("/")


def _only(issuers: Sequence[Issuer]) -> Issuer:
    if len(issuers) != 1:
        raise InvalidArgument(
            "introspection needs exactly one issuer: a secret for one must not be told to another",
            code="INTROSPECTION_AMBIGUOUS",
        )
    return issuers[0]
