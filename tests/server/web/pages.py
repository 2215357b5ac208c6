"""The pages of a real memory, asked for without a socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from tallystick import app
from tallystick.app.context import AppContext
from tallystick.config import Settings
from tallystick.extensions.web.context import WebContext
from tallystick.extensions.web.responses import WebPages
from tallystick.extensions.web.wiring import web_pages
from tallystick.operations import OperationContext
from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.front import HttpFront
from tallystick.server.http import http_app
from tallystick.server.oauth.guard import Admission
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.knowledge import make_tool_context
from tests.multi_tenant import MultiTenantStore
from tests.sample_memory import outcome_of, told

SITE = "http://127.0.0.1:8765"
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
JSON = {"Accept": "application/json"}


class Pages(msgspec.Struct):
    offer: Offer
    http: httpx2.AsyncClient

    async def write(self, actor: str, tool: str, /, **arguments: Any) -> Any:
        who = msgspec.structs.replace(self.offer.principal_of(None), actor=actor)
        return told(await outcome_of(self.offer, who, tool, arguments))

    async def node(self, entity_id: str, kind: str = "note", actor: str = "ada", /, **more: Any) -> Any:
        attrs = more.pop("attrs", {"title": f"about {entity_id}"})
        node = {"id": entity_id, "type": kind, "attrs": attrs}
        said = await self.write(actor, "memory.write", op="UPSERT_NODE", node=node, **more)
        assert "commit_id" in said, said
        return said

    async def edge(self, source: str, rel: str, target: str, /, **more: Any) -> Any:
        edge = {"from": source, "rel": rel, "to": target, **more}
        said = await self.write("ada", "memory.write", op="UPSERT_EDGE", edge=edge)
        assert "commit_id" in said, said
        return said

    async def html(self, address: str, status: int = 200) -> str:
        answer = await self.http.get(address, headers=HTML)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.text

    async def json(self, address: str, status: int = 200) -> Any:
        answer = await self.http.get(address, headers=JSON)
        assert answer.status_code == status, answer.text
        return answer.json()


def by_tools(pages: Pages) -> Pages:
    """Who writes does so by a tool, as agents do."""
    who = msgspec.structs.replace(pages.offer.principal_of(None), tool="memory.write")
    return Pages(msgspec.structs.replace(pages.offer, principal_of=lambda scope: who), pages.http)


@asynccontextmanager
async def serving_store(
    base: MultiTenantStore, principal: Principal, figures_for: str | None = None
) -> AsyncIterator[Pages]:
    """As this principal sees it, whose tenant and policy the store knows."""
    offer = Offer(tools=base.tools, store=base.store, principal_of=lambda scope: principal, version="1")
    context = WebContext(
        app=AppContext(settings=Settings(base=base.home, tenant=principal.tenant), offer=offer),
        offer=offer,
        tools=base.tools,
        policy="rule",
        home_of=lambda tenant: base.home / tenant,
        audit_of=lambda tenant: base.home / tenant / "audit",
        policy_source=None,
        operations=lambda principal: _operations(base, principal),
        claims=Claims(),
        knowledge=make_tool_context(repo=base.home),
        figures_for=figures_for,
    )
    async with _client(http_app(offer, pages=WebPages(context))) as http:
        yield Pages(offer, http)


def _operations(base: MultiTenantStore, principal: Principal) -> OperationContext:
    settings = Settings(base=base.home, tenant=principal.tenant)
    return msgspec.structs.replace(
        app.operation_context(settings), principal=principal, open_store=lambda: nullcontext(base.store)
    )


def _client(front: HttpFront) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(front), base_url=SITE)


def pages_of(settings: Settings, offer: Offer, admission: Admission | None = None) -> WebPages | None:
    return web_pages(AppContext(settings=settings, offer=offer, admission=admission))


@asynccontextmanager
async def serving_pages(base: Path, **settings: Any) -> AsyncIterator[Pages]:
    chosen = Settings(base=base, toolsets=("all",), **settings)
    async with app.served(chosen) as offer, _client(http_app(offer, pages=pages_of(chosen, offer))) as http:
        yield Pages(offer, http)
