"""The store over a base directory, for servers and for operations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.app.callers import local_user, work_settings
from tallystick.app.guards import audit_files, make_gate
from tallystick.app.logs import build_ahead, checkpoint_keys, load_partition, open_log
from tallystick.app.tenant_projections import AllProjections
from tallystick.app.vocabularies import knowledge_context, toolsets
from tallystick.audit.writer import AuditWriter
from tallystick.commits import REDACTIONS
from tallystick.config import Settings
from tallystick.engine.partition import Partition, Receipt
from tallystick.engine.sessions import Sessions
from tallystick.engine.store import Store
from tallystick.engine.tenants import Tenants
from tallystick.operations import OperationContext
from tallystick.operations.tenants import tenants_of
from tallystick.policy import Principal
from tallystick.server.dispatch import choose, prepare
from tallystick.state.secret_scan import text_screen_of
from tallystick.state.staleness import Stale
from tallystick.system import turns
from tallystick.telemetry import metrics, tracing
from tallystick.toolsets import Answer
from tallystick.toolsets.cited_files import CitedFiles
from tallystick.toolsets.knowledge import reverify

if TYPE_CHECKING:
    pass


logger = logging.getLogger(__name__)


@asynccontextmanager
async def opened(
    settings: Settings,
    projections: AllProjections | None = None,
    *,
    warm: bool = False,
    operator: bool = False,
    owns_database: bool = True,
    sessions: Sessions | None = None,
) -> AsyncIterator[Store]:
    """The store over the base directory; closed with what was handed in safely in the log.

    `warm` is for processes that stay: what the vocabularies make of the graph is built before anybody asks.
    Without `projections`, copies of what was redacted or deleted are erased once, at the end.
    `operator` is for operations: whoever may read and write these files may do everything, whatever the policy of
    the server says, and it is audited all the same.
    """
    turns.share = turns.Share(settings.long_reads_max, settings.long_reads_waiting_max)
    database = work_settings(settings).db_path if owns_database else None
    background: set[asyncio.Task[None]] = set()
    unclean: set[str] = set()

    def begin(work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        background.add(task)
        task.add_done_callback(background.discard)

    async def open_partition(tenant: str) -> Partition:
        partition = await load_partition(
            msgspec.structs.replace(settings, tenant=tenant),
            projections.appended if projections else None,
            projections.keys(tenant) if projections else (),
        )
        if projections is not None:
            begin(projections.resume(tenant))
        if warm:
            begin(build_ahead(partition, settings.toolsets))
        return partition

    audit = AuditWriter(lambda tenant: audit_files(msgspec.structs.replace(settings, tenant=tenant)))
    gate = make_gate(settings, audit, operator=operator)
    tool_context = knowledge_context(settings)

    async def written(principal: Principal, receipt: Receipt) -> None:
        await reverify.follow_up(tool_context, store, principal, receipt)

    async def noticed(principal: Principal, stale: Mapping[str, Stale]) -> None:
        await reverify.notice(tool_context, store, principal, stale)

    async def erase_copies(tenant: str, receipt: Receipt) -> Sequence[str]:
        if projections is None:
            unclean.add(tenant)
        elif any(commit.operation in REDACTIONS for commit in receipt.commits):
            left = await projections.erase(tenant, receipt.commits[-1].lamport)
            # The servers and the other machines need some seconds at least.
            return [*left, "stream"] if settings.log_url else left
        else:
            projections.delete(tenant)
        return ()

    tenants = Tenants(
        open_partition,
        # Without an issuer there is one caller, and one tenant.
        exist=(lambda: tenants_of(settings)) if settings.issuers and not operator else None,
        closed=projections.leave if projections else None,
        kept=frozenset([settings.tenant]),
        idle_seconds=settings.tenant_idle_seconds,
        open_max=settings.tenants_open_max,
    )
    cited = CitedFiles(tool_context.repository)
    makes_work = noticed if tool_context.stale_makes_work else None
    store = _store_class()(
        tenants,
        gate,
        written=written,
        erase=erase_copies,
        files=cited,
        noticed=makes_work,
        elsewhere=partial(_elsewhere, sessions) if sessions and settings.log_url else None,
        screen_text=text_screen_of(settings.secrets),
    )
    tending = asyncio.create_task(tenants.tend())
    metrics.AUDIT.reading = lambda: [((), float(audit.healthy))]
    try:
        yield store
    finally:
        for task in (tending, *background):
            task.cancel()
        await asyncio.gather(tending, *background, return_exceptions=True)
        await store.close()
        for tenant in sorted(unclean):
            await erase(msgspec.structs.replace(settings, tenant=tenant), database)
        await gate.close()
        await asyncio.to_thread(audit.close)


async def erase(settings: Settings, database: Path | None) -> list[str]:
    """Leave no copy of what was redacted or deleted in a tenant, for commands that are about to end. Returns the
    projections that still have one: the next process that opens the tenant goes on."""
    projections = AllProjections(settings, open_log=open_log, database=database)
    try:
        left = await projections.erase(settings.tenant, 0)
    finally:
        await projections.close()
    if left:
        logger.warning("copies of what was erased are still in: %s; see 'tallystick redactions --pending'", left)
    return left


def operation_context(settings: Settings, *, owns_database: bool = True) -> OperationContext:
    """What operations work with: the memory that the settings name, for whoever can start this process.

    A `graph.db` that the settings place elsewhere is of the tenant that they name, and of no other.
    """
    database = work_settings(settings).db_path if owns_database else None
    operator = msgspec.structs.replace(local_user(settings), is_program=True)
    tools = cache(lambda: choose(toolsets(settings)))

    def prepared(name: str, arguments: Mapping[str, Any]) -> Callable[[Store], Awaitable[Answer]]:
        tool = tools().get(name).tool
        call = prepare(tool, arguments)
        return lambda store: tool.call(store, operator, call)

    return OperationContext(
        settings=settings,
        principal=operator,
        open_store=lambda: opened(settings, operator=True, owns_database=owns_database),
        open_store_under_policy=lambda: opened(settings, owns_database=owns_database),
        open_log=lambda: open_log(settings),
        open_audit=lambda: audit_files(settings),
        prepare=prepared,
        erase=lambda: erase(settings, database),
        database=database,
        checkpoint_keys=lambda: checkpoint_keys(settings),
        with_settings=lambda changed: operation_context(
            changed, owns_database=owns_database and changed.tenant == settings.tenant
        ),
    )


def _store_class() -> type[Store]:
    if tracing.tracer is None:
        return Store
    from tallystick.server.traced import TracedStore

    return TracedStore


def _elsewhere(sessions: Sessions, principal: Principal) -> str | None:
    return None if principal.session is None else sessions.elsewhere(principal.session)
