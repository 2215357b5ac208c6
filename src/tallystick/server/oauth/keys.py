"""The keys an issuer signs with: found through its metadata, kept, renewed, and trusted a while if it falls silent."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from tallystick.errors import InvalidArgument, TallystickError
from tallystick.server.guards import is_loopback
from tallystick.server.oauth.http_client import HttpClient, Unreachable

logger = logging.getLogger(__name__)

RETRY_SECONDS = 10
"""At least this long between two questions to the issuer, however many tokens name keys that nobody knows."""
RSA_BITS_MIN = 2048
KEYS_MAX = 64


class Key(msgspec.Struct, frozen=True):
    id: str | None
    algorithm: str
    jwk: RSAKey | ECKey


class Issuer:
    """One trusted issuer. Belongs to one event loop."""

    def __init__(
        self,
        url: str,
        http_client: HttpClient,
        *,
        fresh_seconds: float,
        stale_seconds: float,
        now: Callable[[], float],
    ) -> None:
        self.url = _checked(url)
        self.http_client = http_client
        self._fresh_seconds = fresh_seconds
        self._stale_seconds = stale_seconds
        self._now = now
        self._keys: list[Key] = []
        self._metadata: dict[str, Any] = {}
        self._renewed_at = -math.inf
        self._tried_at = -math.inf
        self._renewing: asyncio.Task[None] | None = None

    async def keys(self, algorithm: str, id: str | None) -> Sequence[Key]:
        """The keys that a token with this header may be signed with: none if the issuer has no such key.

        Raises TallystickError(ISSUER_UNREACHABLE) when that can't be said.
        """
        if self._age() > self._fresh_seconds:
            await self._renew()
        found = self._find(algorithm, id)
        if not found:
            # Signed with a key made since, perhaps.
            await self._renew()
            found = self._find(algorithm, id)
        is_guess = not found and self._renewed_at < self._tried_at
        if is_guess or self._age() > self._fresh_seconds + self._stale_seconds:
            raise unreachable(RETRY_SECONDS)
        return found

    async def endpoint(self, name: str) -> str:
        """Raises TallystickError(ISSUER_UNREACHABLE) when the issuer names none, or can't be asked."""
        if name not in self._metadata:
            await self._renew()
        url = self._metadata.get(name)
        if not isinstance(url, str) or not self._is_safe(url):
            raise unreachable(RETRY_SECONDS)
        return url

    async def find_endpoint(self, name: str) -> str | None:
        """None where the issuer offers none. Raises as `endpoint` does where it was never heard."""
        return await self.endpoint(name) if name in await self.metadata() else None

    async def metadata(self) -> Mapping[str, Any]:
        """What it says of itself. Raises TallystickError(ISSUER_UNREACHABLE) where it was never heard."""
        if not self._metadata:
            await self._renew()
        if not self._metadata:
            raise unreachable(RETRY_SECONDS)
        return self._metadata

    async def warm_up(self) -> None:
        """Ask once before the first token comes, so that the log tells early what is set up wrongly."""
        await self._renew()

    async def close(self) -> None:
        """An issuer that keeps silent does not hold up the end."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        await self.http_client.close()

    def _find(self, algorithm: str, id: str | None) -> list[Key]:
        candidates = [key for key in self._keys if key.algorithm == algorithm]
        return candidates if id is None else [key for key in candidates if key.id == id]

    def _age(self) -> float:
        return self._now() - self._renewed_at

    async def _renew(self) -> None:
        """Ask the issuer, unless it was asked just now; everybody who waits, waits for the same question."""
        if self._renewing is None:
            if self._now() - self._tried_at < RETRY_SECONDS:
                return
            self._tried_at = self._now()
            self._renewing = asyncio.ensure_future(self._ask())
        # Shielded: one caller that hangs up must not cancel the others' answer.
        await asyncio.shield(self._renewing)

    async def _ask(self) -> None:
        try:
            metadata = await self._fetch_metadata()
            keys = await self._fetch_keys(metadata)
        except Unreachable as error:
            logger.warning("the keys of issuer %s could not be renewed: %s", self.url, error)
        else:
            self._metadata, self._keys, self._renewed_at = metadata, keys, self._now()
        finally:
            self._renewing = None

    async def _fetch_metadata(self) -> dict[str, Any]:
        for url in metadata_urls(self.url):
            metadata = await self.http_client.find_json(url)
            if metadata is None:
                continue
            if metadata.get("issuer") != self.url:
                itself = str(metadata.get("issuer"))[:200]
                raise Unreachable(f"{url} calls its issuer {itself!r}: if that is meant, configure exactly that")
            return metadata
        raise Unreachable(f"there is no metadata at {', '.join(metadata_urls(self.url))}")

    async def _fetch_keys(self, metadata: dict[str, Any]) -> list[Key]:
        url = metadata.get("jwks_uri")
        if not isinstance(url, str) or not self._is_safe(url):
            raise Unreachable("its metadata names no jwks_uri that may be asked")
        document = await self.http_client.find_json(url)
        listed = (document or {}).get("keys")
        keys = [key for jwk in listed[:KEYS_MAX] if (key := read_key(jwk))] if isinstance(listed, list) else []
        if not keys:
            raise Unreachable(f"{url} lists no key for RS256 or ES256")
        return keys

    def _is_safe(self, url: str) -> bool:
        """An issuer that is asked over TLS may not send us elsewhere without it."""
        parts = urlsplit(url)
        return parts.scheme == "https" or (parts.scheme == "http" and self.url.startswith("http:"))


def read_key(jwk: Any) -> Key | None:
    """None for what must not check signatures here: other kinds, curves, uses, weak keys, and secrets."""
    if not isinstance(jwk, dict):
        return None
    algorithm = {"RSA": "RS256", "EC": "ES256"}.get(str(jwk.get("kty")))
    id, operations = jwk.get("kid"), jwk.get("key_ops", ["verify"])
    if (
        algorithm is None
        or jwk.get("alg", algorithm) != algorithm
        or jwk.get("use", "sig") != "sig"
        or not (isinstance(operations, list) and "verify" in operations)
        or not (id is None or isinstance(id, str))
    ):
        return None
    try:
        key = _import_rsa(jwk) if algorithm == "RS256" else _import_ec(jwk)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return None if key is None else Key(id, algorithm, key)


def metadata_urls(issuer: str) -> list[str]:
    """OpenID Connect Discovery appends its well-known path, RFC 8414 puts it before the issuer's own."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    origin = f"{parts.scheme}://{parts.netloc}"
    urls = [
        f"{origin}{path}/.well-known/openid-configuration",
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
    ]
    return list(dict.fromkeys(urls))


def unreachable(retry_after: int) -> TallystickError:
    return TallystickError(
        "the issuer of the access token cannot be asked now",
        code="ISSUER_UNREACHABLE",
        details={"retry_after": retry_after},
    )


def _import_rsa(jwk: dict[str, Any]) -> RSAKey | None:
    if len(jwk["n"]) * 6 < RSA_BITS_MIN:
        return None
    key = RSAKey.import_key({name: jwk[name] for name in ("kty", "n", "e")})
    return key if key.public_key.key_size >= RSA_BITS_MIN else None


def _import_ec(jwk: dict[str, Any]) -> ECKey | None:
    if jwk.get("crv") != "P-256":
        return None
    return ECKey.import_key({name: jwk[name] for name in ("kty", "crv", "x", "y")})


def _checked(url: str) -> str:
    parts = urlsplit(url)
    is_private = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    if not is_private or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise InvalidArgument(
            f"'{url}' cannot be an issuer",
            code="ISSUER_INVALID",
            hint="an issuer is an https URL, exactly as its metadata and its tokens spell it",
        )
    return url
