"""The identity provider as a process, and a person without a browser who logs in there."""

from __future__ import annotations

import re
import subprocess
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx2

from tallystick.server.oauth.introspection import Client
from tests.nats_cluster import free_ports

HERE = Path(__file__).parent
NODE = HERE / "node_modules/.bin/node"
INSTALLED = NODE.exists() and (HERE / "node_modules/oidc-provider").exists()
CALLBACK = "http://127.0.0.1:1/callback"
"""Nobody listens there: the person reads the code off the last redirect."""


CLIENT = Client("memory-server", "a:secret/+% of its own")
"""Whom the provider tells of tokens."""


@contextmanager
def provider(port: int = 0, algorithm: str = "RS256", tokens: Literal["jwt", "opaque"] = "jwt") -> Iterator[str]:
    """Its issuer. Each start has new keys, and knows nothing of the one before."""
    process = subprocess.Popen(
        [str(NODE), "provider.js", str(port or free_ports(1)[0]), algorithm, tokens],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=HERE,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def log_in(url: str, name: str) -> dict[str, str]:
    """Follow the provider's pages from its authorization endpoint, agreeing to all; what it calls back with."""
    async with httpx2.AsyncClient(timeout=None) as http:
        answer = await http.get(url)
        for _ in range(20):
            if answer.is_redirect:
                url = urljoin(str(answer.url), answer.headers["location"])
                if url.startswith(CALLBACK):
                    return {key: values[0] for key, values in parse_qs(urlsplit(url).query).items()}
                answer = await http.get(url)
            else:
                answer = await submit(http, answer, name)
    raise AssertionError("the login leads nowhere")


async def obtain(issuer: str, name: str, *, scope: str, resource: str | None = None) -> dict[str, Any]:
    """Tokens, the way any OAuth client gets them."""
    client = (await register(issuer))["client_id"]
    verifier = "v" * 43
    indicated = {"resource": resource} if resource else {}
    async with httpx2.AsyncClient(timeout=None) as http:
        asked = {
            "client_id": client,
            "response_type": "code",
            "redirect_uri": CALLBACK,
            "scope": scope,
            "code_challenge": urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("="),
            "code_challenge_method": "S256",
            # Only one who was asked gets a token to refresh with.
            "prompt": "consent",
            **indicated,
        }
        called_back = await log_in(f"{issuer}/auth?{urlencode(asked)}", name)
        exchange = {
            "grant_type": "authorization_code",
            "code": called_back["code"],
            "client_id": client,
            "code_verifier": verifier,
            "redirect_uri": CALLBACK,
            **indicated,
        }
        tokens: dict[str, Any] = (await http.post(f"{issuer}/token", data=exchange)).json()
    return {**tokens, "client_id": client}


async def revoke(issuer: str, tokens: dict[str, Any]) -> None:
    """The way any OAuth client gives its access token back."""
    async with httpx2.AsyncClient(timeout=None) as http:
        form = {"token": tokens["access_token"], "client_id": tokens["client_id"]}
        assert (await http.post(f"{issuer}/token/revocation", data=form)).status_code == 200


async def register(issuer: str) -> dict[str, Any]:
    """A client that may ask for any scope: one that registers itself is held to those it named then."""
    metadata = {
        "redirect_uris": [CALLBACK],
        "application_type": "native",
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
    }
    async with httpx2.AsyncClient(timeout=None) as http:
        client: dict[str, Any] = (await http.post(f"{issuer}/reg", json=metadata)).json()
    return client


async def submit(http: httpx2.AsyncClient, page: httpx2.Response, name: str) -> httpx2.Response:
    """The form of one of the provider's pages."""
    action = re.search(r'<form[^>]* action="([^"]+)"', page.text)
    prompt = re.search(r'name="prompt" value="(\w+)"', page.text)
    assert action, page.text
    assert prompt, page.text
    form = {"prompt": prompt[1], "login": name, "password": "any"}
    return await http.post(urljoin(str(page.url), unescape(action[1])), data=form)
