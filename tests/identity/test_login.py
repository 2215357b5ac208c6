"""Logging in for real: an MCP client, this server, and a certified identity provider, over sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tallystick.server.http import http_app, run_http
from tallystick.server.oauth import principal_of
from tallystick.server.oauth.guard import build_admission
from tests.identity.provider import CALLBACK, INSTALLED, log_in, obtain, provider, register
from tests.nats_cluster import free_ports
from tests.promises import promise
from tests.server.sample import offer

pytestmark = pytest.mark.skipif(not INSTALLED, reason="npm packages not installed: run make test")

ALGORITHMS = ("RS256", "ES256")


@pytest.fixture(scope="module", params=ALGORITHMS)
def issuer(request: pytest.FixtureRequest) -> Iterator[str]:
    with provider(algorithm=request.param) as url:
        yield url


class Server:
    """Serves the sample tools to whoever has a token for it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.mcp = f"{self.url}/mcp"
        self.ahead_seconds = 0.0

    def now(self) -> float:
        return time.time() + self.ahead_seconds


@asynccontextmanager
async def serving(
    issuer: str, *, port: int = 0, scopes: tuple[str, ...] = ("memory",), **settings: Any
) -> AsyncIterator[Server]:
    server = Server(port or free_port())
    admission = build_admission([issuer], public_url=server.url, scopes=scopes, now=server.now, **settings)
    listening = asyncio.Event()
    running = asyncio.ensure_future(
        run_http(
            http_app(offer(principal_of=principal_of), admission=admission),
            host="127.0.0.1",
            port=server.port,
            announce=lambda host, port: listening.set(),
        )
    )
    await listening.wait()
    try:
        yield server
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        await running


def free_port() -> int:
    (port,) = free_ports(1)
    return port


class Person:
    """Somebody at an MCP client: its token store, and their own way through the provider's pages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.logins = 0
        self.tokens: OAuthToken | None = None
        self._client: OAuthClientInformationFull | None = None
        self._called_back: dict[str, str] = {}

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info

    async def go_to(self, url: str) -> None:
        self.logins += 1
        self._called_back = await log_in(url, self.name)

    async def come_back(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**self._called_back)

    def provider_for(self, server: str) -> OAuthClientProvider:
        return OAuthClientProvider(
            server_url=server,
            client_metadata=OAuthClientMetadata(
                client_name="a test", redirect_uris=[AnyUrl(CALLBACK)], token_endpoint_auth_method="none"
            ),
            storage=self,
            redirect_handler=self.go_to,
            callback_handler=self.come_back,
        )


@asynccontextmanager
async def connected(login: OAuthClientProvider, url: str) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(auth=login, timeout=None) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def said(client: Client) -> str:
    answer = await client.call_tool("sample.whoami", {})
    assert answer.structured_content is not None
    return str(answer.structured_content["said"])


async def ask(url: str, token: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=None) as http:
        return await http.post(f"{url}/v1/tools/sample.whoami", json={}, headers={"authorization": f"Bearer {token}"})


@promise("FR-003, login", "the SDK's client logs in by itself")
async def test_the_sdks_client_logs_in_by_itself_and_is_known_by_its_name(issuer: str) -> None:
    alice, bob = Person("alice"), Person("bob")
    async with serving(issuer) as server:
        async with connected(alice.provider_for(server.mcp), server.mcp) as client:
            assert await said(client) == "alice in default"
            assert await said(client) == "alice in default"
        async with connected(bob.provider_for(server.mcp), server.mcp) as client:
            assert await said(client) == "bob in acme"
    assert (alice.logins, bob.logins) == (1, 1)


async def test_an_expired_token_is_told_so_and_refreshed_without_a_login(issuer: str) -> None:
    alice = Person("alice")
    async with serving(issuer) as server:
        login = alice.provider_for(server.mcp)
        async with connected(login, server.mcp) as client:
            await said(client)
            first = alice.tokens
            assert first is not None
            assert first.refresh_token is not None

            server.ahead_seconds = 3600
            expired = await ask(server.url, first.access_token)
            assert (expired.status_code, expired.json()["error"]) == (401, "TOKEN_EXPIRED")
            assert 'error="invalid_token"' in expired.headers["www-authenticate"]

            server.ahead_seconds = 0
            login.context.token_expiry_time = time.time() - 1
            assert await said(client) == "alice in default"
    assert alice.tokens is not None
    assert alice.tokens.access_token != first.access_token
    assert alice.tokens.refresh_token != first.refresh_token
    assert alice.logins == 1


@promise("attack: what was signed for others", "a real provider's id tokens and tokens for others open nothing")
async def test_what_the_provider_signs_for_others_or_other_ends_opens_nothing(issuer: str) -> None:
    async with serving(issuer) as server:
        own = await obtain(issuer, "alice", scope="openid memory", resource=server.mcp)
        elsewhere = await obtain(issuer, "alice", scope="memory", resource="http://127.0.0.1:2/mcp")
        unaddressed = await obtain(issuer, "alice", scope="openid")
        too_little = await obtain(issuer, "alice", scope="other", resource=server.mcp)
        answers = {
            "for us": await ask(server.url, own["access_token"]),
            "an id token": await ask(server.url, own["id_token"]),
            "for another server": await ask(server.url, elsewhere["access_token"]),
            "opaque": await ask(server.url, unaddressed["access_token"]),
            "another scope": await ask(server.url, too_little["access_token"]),
        }
    assert {name: (answer.status_code, answer.json().get("error")) for name, answer in answers.items()} == {
        "for us": (200, None),
        "an id token": (401, "INVALID_TOKEN"),
        "for another server": (401, "INVALID_TOKEN"),
        "opaque": (401, "INVALID_TOKEN"),
        "another scope": (403, "INSUFFICIENT_SCOPE"),
    }


async def test_a_client_that_is_told_of_a_missing_scope_asks_for_it(issuer: str) -> None:
    alice = Person("alice")
    await alice.set_client_info(OAuthClientInformationFull.model_validate(await register(issuer)))
    async with serving(issuer) as server, connected(alice.provider_for(server.mcp), server.mcp) as client:
        await said(client)
    more = serving(issuer, port=server.port, scopes=("memory", "other"))
    async with more as server, connected(alice.provider_for(server.mcp), server.mcp) as client:
        assert await said(client) == "alice in default"
    assert alice.logins == 2


@promise("attack: a JWKS that goes away", "keys serve on for a while, then nobody is judged, then new ones are found")
async def test_keys_outlive_their_issuer_for_a_while_and_new_ones_are_found() -> None:
    async with AsyncExitStack() as servers:
        with provider() as issuer:
            server = await servers.enter_async_context(
                serving(issuer, token_cache_seconds=0, jwks_seconds=10, jwks_stale_seconds=100)
            )
            token = (await obtain(issuer, "alice", scope="memory", resource=server.mcp))["access_token"]
            assert (await ask(server.url, token)).status_code == 200

        server.ahead_seconds = 50
        assert (await ask(server.url, token)).status_code == 200
        server.ahead_seconds = 150
        unjudged = await ask(server.url, token)
        assert (unjudged.status_code, unjudged.json()["error"]) == (503, "ISSUER_UNREACHABLE")
        assert int(unjudged.headers["retry-after"]) > 0

        with provider(port=urlsplit(issuer).port or 0):
            server.ahead_seconds = 200
            with_old_key = await ask(server.url, token)
            assert (with_old_key.status_code, with_old_key.json()["error"]) == (401, "INVALID_SIGNATURE")
            token = (await obtain(issuer, "alice", scope="memory", resource=server.mcp))["access_token"]
            assert (await ask(server.url, token)).status_code == 200
