"""Id tokens: only the one that answers this login, made for this client, by this issuer."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any

import httpx2
import pytest

from tallystick.errors import Denied
from tallystick.extensions.web.id_tokens import check_id_token
from tallystick.server.oauth.http_client import HttpClient
from tallystick.server.oauth.keys import Issuer as TrustedIssuer
from tests.server.issuing import ISSUER, Issuer, rsa_key

pytestmark = pytest.mark.anyio

ACCESS_TOKEN = "an access token"
AT_HASH = urlsafe_b64encode(sha256(ACCESS_TOKEN.encode()).digest()[:16]).decode().rstrip("=")


async def check(issuer: Issuer, token: str) -> None:
    http = HttpClient(ISSUER, transport=httpx2.MockTransport(issuer.answer))
    trusted = TrustedIssuer(ISSUER, http, fresh_seconds=300, stale_seconds=300, now=lambda: issuer.now)
    try:
        await check_id_token(
            token, trusted, client="us", nonce="a nonce", access_token=ACCESS_TOKEN, now=issuer.now, skew=10
        )
    finally:
        await trusted.close()


@pytest.mark.parametrize(
    "changes",
    [{}, {"at_hash": AT_HASH}, {"azp": "us"}, {"aud": ["us"]}, {"aud": ["us", "them"], "azp": "us"}],
)
async def test_the_answer_to_this_login_is_taken(changes: dict[str, Any]) -> None:
    issuer = Issuer()
    claims = issuer.claims(**{"aud": "us", "nonce": "a nonce", **changes})
    await check(issuer, issuer.token(claims, typ="JWT"))
    await check(issuer, issuer.token(claims, key=issuer.ec, typ=None))


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"nonce": ["a nonce"]},
        {"aud": "them"},
        {"aud": None},
        {"aud": {"us": 1}},
        {"aud": ["us", "them"]},
        {"azp": "them"},
        {"iss": "https://evil.example"},
        {"exp": 1},
        {"exp": None},
        {"at_hash": "x"},
        {"at_hash": None, "nonce": "A NONCE"},
    ],
)
async def test_any_other_is_refused(changes: dict[str, Any]) -> None:
    issuer = Issuer()
    claims = issuer.claims(**{"aud": "us", "nonce": "a nonce", **changes})
    with pytest.raises(Denied):
        await check(issuer, issuer.token(claims, typ="JWT"))


async def test_one_that_is_signed_by_somebody_else_is_refused() -> None:
    issuer = Issuer()
    claims = issuer.claims(aud="us", nonce="a nonce")
    for token in (issuer.token(claims, key=rsa_key("evil")), issuer.token(claims, alg="none"), "a.b.c", "", "é"):
        with pytest.raises(Denied):
            await check(issuer, token)
