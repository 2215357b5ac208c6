"""An issuer in memory that can be made to fail, and forgers who know everything but its private keys."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from urllib.parse import parse_qs

import httpx2
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry

from tallystick.server.front import HttpFront
from tallystick.server.http import http_app
from tallystick.server.oauth import principal_of
from tallystick.server.oauth.guard import Admission, build_admission
from tallystick.server.oauth.http_client import HttpClient
from tests.server.sample import offer

ISSUER = "https://issuer.example"
HERE = "https://memory.example"
NOW = 1_760_000_000


@cache
def rsa_key(id: str) -> RSAKey:
    return RSAKey.generate_key(2048, parameters={"kid": id})


@cache
def ec_key(id: str, curve: str = "P-256") -> ECKey:
    return ECKey.generate_key(curve, parameters={"kid": id})


class Issuer:
    """Also the clock, so that its tokens and the server agree on the time until a test says otherwise."""

    def __init__(self) -> None:
        self.now = float(NOW)
        self.rsa, self.ec = rsa_key("rsa-1"), ec_key("ec-1")
        self.keys: list[dict[str, Any]] = [public(self.rsa), public(self.ec)]
        self.metadata: dict[str, Any] = {
            "issuer": ISSUER,
            "jwks_uri": f"{ISSUER}/jwks",
            "introspection_endpoint": f"{ISSUER}/introspect",
        }
        self.is_down = False
        self.revoked: set[str] = set()
        self.asked: list[httpx2.Request] = []

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        if self.is_down:
            raise httpx2.ConnectError("nobody there")
        match request.url.path:
            case "/.well-known/openid-configuration":
                return httpx2.Response(200, json=self.metadata)
            case "/jwks":
                return httpx2.Response(200, json={"keys": self.keys})
            case "/introspect":
                token = parse_qs(request.content.decode())["token"][0]
                return httpx2.Response(200, json={"active": token not in self.revoked})
        return httpx2.Response(404)

    def times_asked(self, path: str) -> int:
        return sum(request.url.path == path for request in self.asked)

    def admission(self, **settings: Any) -> Admission:
        return self.admission_over(httpx2.MockTransport(self.answer), **settings)

    def admission_over(self, transport: httpx2.MockTransport, **settings: Any) -> Admission:
        chosen = {"issuers": [ISSUER], "public_url": HERE, "now": lambda: self.now, **settings}
        return build_admission(http_client=lambda url: HttpClient(url, transport=transport), **chosen)

    @asynccontextmanager
    async def client(self, **settings: Any) -> AsyncIterator[httpx2.AsyncClient]:
        async with self.client_of(self.app(**settings)) as http:
            yield http

    def client_of(self, app: HttpFront) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=HERE)

    def app(self, **settings: Any) -> HttpFront:
        return http_app(
            offer(principal_of=principal_of), admission=self.admission(**settings), origins=["https://app.example"]
        )

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Of a good token for alice; a change to None leaves the claim out."""
        usual = {"iss": ISSUER, "sub": "alice", "aud": f"{HERE}/mcp", "exp": int(self.now) + 300, "iat": int(self.now)}
        return {name: value for name, value in {**usual, **changes}.items() if value is not None}

    def token(self, claims: dict[str, Any] | None = None, *, key: RSAKey | ECKey | None = None, **header: Any) -> str:
        """Properly signed, whatever it says."""
        key = key or self.rsa
        algorithm = "RS256" if isinstance(key, RSAKey) else "ES256"
        usual = {"alg": algorithm, "kid": key.kid, "typ": "at+jwt"}
        full = {name: value for name, value in {**usual, **header}.items() if value is not None}
        payload = json.dumps(self.claims() if claims is None else claims)
        return forged(full, payload.encode(), key)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def forged(header: dict[str, Any], payload: bytes, key: RSAKey | ECKey | bytes = b"") -> str:
    """Any header at all: with bytes for a key it is an HMAC, with none it has no signature."""
    signed = f"{encoded(json.dumps(header).encode())}.{encoded(payload)}"
    if isinstance(key, bytes):
        return f"{signed}.{encoded(hmac.digest(key, signed.encode(), 'sha256')) if key else ''}"
    algorithm = "RS256" if isinstance(key, RSAKey) else "ES256"
    return f"{signed}.{encoded(_raw_signature(signed.encode(), key, algorithm))}"


def public_pem(key: RSAKey) -> bytes:
    pem: bytes = key.as_pem(private=False)
    return pem


def _raw_signature(data: bytes, key: RSAKey | ECKey, algorithm: str) -> bytes:
    signature: bytes = JWSRegistry.algorithms[algorithm].sign(data, key)
    return signature


def public(key: RSAKey | ECKey) -> dict[str, Any]:
    return dict(key.as_dict(private=False))
