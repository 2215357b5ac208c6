"""The pages, and the operations that people begin there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.app.callers import claims_of, system_user
from tallystick.app.context import AppContext
from tallystick.app.guards import audit_files, shipped_policy
from tallystick.app.stores import operation_context
from tallystick.app.vocabularies import knowledge_context
from tallystick.config import Settings
from tallystick.engine.store import Store
from tallystick.operations import OperationContext
from tallystick.operations.child_command import run_command
from tallystick.operations.forget import pending_erasures
from tallystick.policy import Principal
from tallystick.server import Offer
from tallystick.server.dispatch import choose, prepare
from tallystick.toolsets import Answer

if TYPE_CHECKING:
    from tallystick.extensions.web.login import Login
    from tallystick.extensions.web.responses import WebPages
    from tallystick.server.oauth.guard import Admission
    from tallystick.server.workers import Worker


def web_pages(app: AppContext) -> WebPages | None:
    """None if they are switched off. With issuers but without `web_client_id` a caller needs a token for each."""
    settings, offer, admission, worker = app.settings, app.offer, app.admission, app.worker
    if not settings.web:
        return None
    assert offer is not None
    from tallystick.extensions.web.chain import Chains
    from tallystick.extensions.web.context import WebContext
    from tallystick.extensions.web.responses import WebPages

    def of(tenant: str) -> Settings:
        return msgspec.structs.replace(settings, tenant=tenant)

    claims = claims_of(settings, offer.sessions)
    knowledge = knowledge_context(settings, claims)
    return WebPages(
        WebContext(
            app=msgspec.structs.replace(app, knowledge=knowledge),
            offer=offer,
            tools=choose(offer.tools.known),
            policy=settings.policy_url or Path(settings.policy).name or shipped_policy(settings),
            home_of=lambda tenant: of(tenant).home,
            audit_of=lambda tenant: audit_files(of(tenant)).directory,
            # Who listens keeps a connection: half of them are for everybody else.
            streams_max=max(1, settings.http_connections_max // 2),
            operations=lambda principal: _served_operations(settings, offer, principal),
            policy_source=None if settings.policy_url else settings.policy or shipped_policy(settings),
            claims=claims,
            knowledge=knowledge,
            is_read_only=settings.read_only,
            person=settings.web_actor or system_user(),
            chains=Chains(lambda tenant, seconds: _verify(settings, tenant, seconds)),
            figures_for=settings.tenant if settings.issuers else None,
            **({} if worker is None else _of_workers(worker)),
        ),
        _login(settings, offer, admission) if admission is not None and settings.web_client_id else None,
    )


def _of_workers(worker: Worker) -> dict[str, Any]:
    from tallystick.extensions.web.context import WorkerPlace
    from tallystick.extensions.web.reports.history import History
    from tallystick.telemetry.readings import together

    return {
        "worker": WorkerPlace(worker.number + 1, worker.count),
        "readings": worker.read_figures,
        "history": History(read=lambda: together(list(worker.read_figures().values()))),
    }


async def _verify(settings: Settings, tenant: str, seconds: float) -> None:
    """The log, the audit log and the last checkpoint; blobs are not of the chain, and may be many."""
    where = (f"--base={settings.base}", f"--tenant={tenant}")
    await run_command("verify", "--no-blobs", "--json", f"--older-than={seconds}", *where, waits=True)


def _login(settings: Settings, offer: Offer, admission: Admission) -> Login:
    from tallystick.extensions.web.login import Login
    from tallystick.server.oauth.introspection import Client, find_client

    id, secret_file = settings.web_client_id, settings.web_client_secret_file
    client = find_client(id, secret_file) if secret_file else None
    return Login(
        admission,
        client or Client(id, ""),
        offer.sessions,
        audience=settings.audience,
        idle_seconds=settings.web_idle_seconds,
        session_seconds=settings.web_session_seconds,
    )


def _served_operations(settings: Settings, offer: Offer, principal: Principal) -> OperationContext:
    """For who asks a server that runs: by its store, as themselves, and as its policy allows."""
    tools = choose(offer.tools.known)
    context = operation_context(settings).for_tenant(principal.tenant)

    def prepared(name: str, arguments: Mapping[str, Any]) -> Callable[[Store], Awaitable[Answer]]:
        tool = tools.get(name).tool
        call = prepare(tool, arguments)
        return lambda store: tool.call(store, principal, call)

    async def left() -> list[str]:
        """What is redacted in a store that is served is erased with it; it is told what could not be."""
        return [each.where for each in await asyncio.to_thread(pending_erasures, context)]

    return msgspec.structs.replace(
        context,
        principal=principal,
        open_store=lambda: nullcontext(offer.store),
        open_store_under_policy=lambda: nullcontext(offer.store),
        prepare=prepared,
        erase=left,
    )
