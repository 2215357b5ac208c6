"""Pages behind a login, and people with a browser: no script, but cookies, redirects and forms."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import msgspec

from tallystick import app
from tallystick.app.context import AppContext
from tallystick.config import Settings
from tallystick.extensions.web.context import WebContext
from tallystick.extensions.web.login import CALLBACK_PATH, LOGGED_OUT_PATH, Login
from tallystick.extensions.web.responses import WebPages
from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.http import http_app
from tallystick.server.oauth import principal_of
from tallystick.server.oauth.guard import build_admission
from tallystick.server.oauth.http_client import HttpClient
from tallystick.server.oauth.introspection import Client
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.knowledge import make_tool_context
from tests.identity.provider import submit
from tests.sample_memory import outcome_of, told

SITE = "http://127.0.0.1:8765"
"""Nobody listens there: what is asked of it is handed to the application."""
HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
JSON = {"accept": "application/json"}


class Listening(HttpClient):
    """As any other, and what the provider answers is heard."""

    def __init__(self, issuer: str, heard: list[dict[str, Any]]) -> None:
        super().__init__(issuer)
        self._heard = heard

    async def post_form(self, url: str, form: Mapping[str, str], *, client: str, secret: str) -> dict[str, Any]:
        answer = await super().post_form(url, form, client=client, secret=secret)
        self._heard.append(answer)
        return answer


class Site:
    """The server, its clock, and what it was told by the provider."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.ahead_seconds = 0.0
        self.heard: list[dict[str, Any]] = []
        self.front: Any = None
        self.offer: Offer | None = None

    def now(self) -> float:
        return time.time() + self.ahead_seconds

    def exchanges(self) -> list[dict[str, Any]]:
        return [answer for answer in self.heard if "access_token" in answer]

    async def write(self, entity_id: str, tenant: str = "default") -> None:
        assert self.offer is not None
        who = Principal(actor="ada", tenant=tenant, roles=("admin",), trusted=False)
        node = {"id": entity_id, "type": "note", "attrs": {"title": f"about {entity_id}"}}
        said = told(await outcome_of(self.offer, who, "memory.write", {"op": "UPSERT_NODE", "node": node}))
        assert "commit_id" in said, said


class Browser:
    def __init__(self, site: Site, name: str) -> None:
        self.name = name
        self.site = site
        self.visited: list[httpx2.Response] = []
        # Browsers take loopback for a safe place, and keep cookies that are for such.
        self.jar = CookieJar(DefaultCookiePolicy(secure_protocols=("https", "http")))
        self.http = httpx2.AsyncClient(
            mounts={site.site: httpx2.ASGITransport(site.front)}, cookies=self.jar, timeout=None, headers=HTML
        )

    async def get(self, address: str, **headers: str) -> httpx2.Response:
        """One step: what it leads to is not followed."""
        answer = await self.http.get(urljoin(self.site.site, address), headers=headers)
        self.visited.append(answer)
        return answer

    async def follow(self, answer: httpx2.Response, *, until: str = "\0") -> httpx2.Response:
        """Through redirects and the provider's forms, agreeing to all, to a page of the server or the address
        `until`, which is not gone to."""
        for _ in range(30):
            if answer.is_redirect:
                address = urljoin(str(answer.url), answer.headers["location"])
                if address.startswith(until):
                    return answer
                answer = await self.get(address)
            elif str(answer.url).startswith(self.site.site):
                return answer
            else:
                answer = await submit(self.http, answer, self.name)
        raise AssertionError("this leads nowhere")

    async def visit(self, address: str = "/") -> httpx2.Response:
        return await self.follow(await self.get(address))

    async def come_back(self, address: str = "/") -> str:
        """Log in as far as the provider sends the browser back with a code: that address, which is not gone to."""
        answer = await self.follow(await self.get(address), until=self.site.site + CALLBACK_PATH)
        return urljoin(str(answer.url), answer.headers["location"])

    async def post(self, address: str, /, **fields: str) -> httpx2.Response:
        return await self.http.post(urljoin(self.site.site, address), data=fields, headers={"origin": self.site.site})

    def cookies(self) -> dict[str, Cookie]:
        return {cookie.name: cookie for cookie in self.jar}

    def keep(self) -> list[Cookie]:
        """What it has now, to be put into another browser."""
        return list(self.jar)

    def take(self, cookies: list[Cookie]) -> None:
        self.jar.clear()
        for cookie in cookies:
            self.jar.set_cookie(cookie)


async def register(issuer: str, *sites: str, has_secret: bool = True) -> Client:
    metadata = {
        "redirect_uris": [site + CALLBACK_PATH for site in sites],
        "post_logout_redirect_uris": [site + LOGGED_OUT_PATH for site in sites],
        "token_endpoint_auth_method": "client_secret_basic" if has_secret else "none",
        "grant_types": ["authorization_code", "refresh_token"],
    }
    async with httpx2.AsyncClient(timeout=None) as http:
        answer = await http.post(f"{issuer}/reg", json=metadata)
    said: dict[str, Any] = answer.json()
    return Client(said["client_id"], said.get("client_secret", ""))


@asynccontextmanager
async def serving(
    issuer: str,
    base: Path,
    *,
    site: str = SITE,
    client: Client | None = None,
    login: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Site]:
    """Pages of a memory in `base` that people see who log in at `issuer`."""
    here = Site(site)
    chosen = Settings(base=base, toolsets=("all",), policy="rbac", issuers=(issuer,))
    admission = build_admission(
        [issuer],
        public_url=site,
        scopes=("memory",),
        now=here.now,
        http_client=lambda url: Listening(url, here.heard),
        **settings,
    )
    async with app.served(chosen) as offer:
        here.offer = offer
        guarded = msgspec.structs.replace(offer, principal_of=principal_of, names_clients=False)
        entry = Login(admission, client or await register(issuer, site), offer.sessions, now=here.now, **(login or {}))
        context = WebContext(
            app=AppContext(settings=chosen, offer=guarded),
            claims=Claims(),
            knowledge=make_tool_context(repo_falls_back=False),
            offer=guarded,
            tools=guarded.tools,
            policy="rbac",
            home_of=lambda tenant: base,
            audit_of=lambda tenant: msgspec.structs.replace(chosen, tenant=tenant).system / "audit",
            policy_source="rbac",
            operations=lambda principal: msgspec.structs.replace(
                app.operation_context(chosen).for_tenant(principal.tenant),
                principal=principal,
                open_store=lambda: nullcontext(offer.store),
            ),
        )
        here.front = http_app(guarded, admission=admission, pages=WebPages(context, entry))
        async with here.front.run():
            yield here
