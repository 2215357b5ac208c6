"""What a real identity provider says of the tokens it gave: opaque ones, revoked ones, and while it is away."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
import pytest

from tallystick.server.oauth.introspection import Client
from tests.identity.provider import CLIENT, INSTALLED, obtain, provider, revoke
from tests.identity.test_login import ask, serving
from tests.promises import promise

pytestmark = pytest.mark.skipif(not INSTALLED, reason="npm packages not installed: run make test")

Format = Literal["jwt", "opaque"]
ANSWER_SECONDS = 60
ASKING: dict[str, Any] = {"introspect_as": CLIENT, "introspection_seconds": ANSWER_SECONDS}


def told(answer: httpx2.Response) -> tuple[int, str]:
    said = answer.json()
    return answer.status_code, said.get("error") or said["said"]


@promise("FR-003, introspection", "an opaque token is taken at its issuer's word")
async def test_an_opaque_token_is_taken_at_its_issuers_word() -> None:
    with provider(tokens="opaque") as issuer:
        async with serving(issuer, **ASKING) as server:
            bob = await obtain(issuer, "bob", scope="memory", resource=server.mcp)
            assert "." not in bob["access_token"]
            assert told(await ask(server.url, bob["access_token"])) == (200, "bob in acme")


@promise("attack: opaque tokens", "what a real provider says of one is checked like claims")
async def test_what_opaque_tokens_are_for_counts_as_with_any_other() -> None:
    with provider(tokens="opaque") as issuer:
        async with serving(issuer, **ASKING) as server:
            own = await obtain(issuer, "alice", scope="openid offline_access memory", resource=server.mcp)
            elsewhere = await obtain(issuer, "alice", scope="memory", resource="http://127.0.0.1:2/mcp")
            unaddressed = await obtain(issuer, "alice", scope="openid")
            too_little = await obtain(issuer, "alice", scope="other", resource=server.mcp)
            tokens = {
                "for another server": elsewhere["access_token"],
                "for nobody": unaddressed["access_token"],
                "another scope": too_little["access_token"],
                "a refresh token": own["refresh_token"],
                "an id token": own["id_token"],
                "made up": "x" * 43,
                "no token at all": "a token",
            }
            answers = {name: told(await ask(server.url, token)) for name, token in tokens.items()}
            server.ahead_seconds = 24 * 3600
            answers["expired"] = told(await ask(server.url, own["access_token"]))
    refused = (401, "INVALID_TOKEN")
    assert answers == dict.fromkeys(tokens, refused) | {
        "another scope": (403, "INSUFFICIENT_SCOPE"),
        "expired": (401, "TOKEN_EXPIRED"),
    }


@promise("attack: revoked tokens", "a revoked token is refused once the provider's word is old")
@pytest.mark.parametrize("tokens", ["jwt", "opaque"])
async def test_a_revoked_token_is_refused_once_the_issuers_word_is_old(tokens: Format) -> None:
    with provider(tokens=tokens) as issuer:
        async with serving(issuer, **ASKING) as server:
            alice = await obtain(issuer, "alice", scope="memory", resource=server.mcp)
            token = alice["access_token"]
            assert told(await ask(server.url, token)) == (200, "alice in default")
            await revoke(issuer, alice)
            server.ahead_seconds = ANSWER_SECONDS - 1
            assert told(await ask(server.url, token)) == (200, "alice in default")
            server.ahead_seconds = ANSWER_SECONDS + 1
            assert told(await ask(server.url, token)) == (401, "INVALID_TOKEN")


async def test_without_introspection_a_revoked_signed_token_serves_on() -> None:
    """That it is refused is introspection's doing, and nothing else's."""
    with provider() as issuer:
        async with serving(issuer, token_cache_seconds=0) as server:
            alice = await obtain(issuer, "alice", scope="memory", resource=server.mcp)
            await revoke(issuer, alice)
            assert told(await ask(server.url, alice["access_token"])) == (200, "alice in default")


@promise("attack: an issuer that goes away", "nobody new is let in on its word until it is back")
@pytest.mark.parametrize("tokens", ["jwt", "opaque"])
async def test_while_the_issuer_is_away_nobody_new_is_let_in_and_then_all_is_well_again(tokens: Format) -> None:
    async with AsyncExitStack() as servers:
        with provider(tokens=tokens) as issuer:
            server = await servers.enter_async_context(serving(issuer, **ASKING, jwks_seconds=3600))
            known = await obtain(issuer, "alice", scope="memory", resource=server.mcp)
            new = await obtain(issuer, "bob", scope="memory", resource=server.mcp)
            assert told(await ask(server.url, known["access_token"])) == (200, "alice in default")

        assert told(await ask(server.url, known["access_token"])) == (200, "alice in default")
        unjudged = await ask(server.url, new["access_token"])
        assert told(unjudged) == (503, "ISSUER_UNREACHABLE")
        assert int(unjudged.headers["retry-after"]) > 0
        assert "www-authenticate" not in unjudged.headers
        server.ahead_seconds = ANSWER_SECONDS + 1
        assert told(await ask(server.url, known["access_token"])) == (503, "ISSUER_UNREACHABLE")

        with provider(port=urlsplit(issuer).port or 0, tokens=tokens):
            server.ahead_seconds += 1
            again = await obtain(issuer, "alice", scope="memory", resource=server.mcp)
            assert told(await ask(server.url, again["access_token"])) == (200, "alice in default")


async def test_a_wrong_secret_lets_nobody_in_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    with provider(tokens="opaque") as issuer:
        async with serving(issuer, introspect_as=Client(CLIENT.id, "guessed")) as server:
            alice = await obtain(issuer, "alice", scope="memory", resource=server.mcp)
            with caplog.at_level(logging.WARNING):
                assert told(await ask(server.url, alice["access_token"])) == (503, "ISSUER_UNREACHABLE")
    assert "401 invalid_client" in caplog.text
    assert "guessed" not in caplog.text
    assert alice["access_token"] not in caplog.text
