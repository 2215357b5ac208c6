"""The wiring: everything is built from Settings here, and nowhere else."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from functools import cache, partial
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tallystick import __version__
from tallystick.audit.files import AuditFiles
from tallystick.audit.writer import AuditWriter
from tallystick.clock import from_text
from tallystick.commits import REDACTIONS, Commit
from tallystick.config import CHECKPOINT_KEY_VARIABLE, DEFAULT_TENANT, Settings, named_paths
from tallystick.errors import InvalidArgument, TallystickError
from tallystick.log import Entry, Log
from tallystick.log.files import FilesLog
from tallystick.log.replica import GuardedLog, read_replica, require_restored
from tallystick.log.unopened import is_copy
from tallystick.operations import OperationContext
from tallystick.operations.forget import pending_erasures
from tallystick.operations.tenants import tenants_of
from tallystick.partition import Limits, Partition, Receipt
from tallystick.policy import Principal
from tallystick.policy.cache import Cache
from tallystick.policy.embedded import Embedded
from tallystick.policy.gate import Gate
from tallystick.projections.tiles import CHECKPOINT, directory_of
from tallystick.projections.vectors import model
from tallystick.projections.views.content_files import Edit
from tallystick.server import Offer
from tallystick.server.dispatch import choose, prepare
from tallystick.server.limits import Buckets, Quota, Quotas, SessionQuota, read_overrides
from tallystick.server.oauth import principal_of
from tallystick.sessions import Sessions
from tallystick.snapshots import Snapshots
from tallystick.state.derived_index import DerivedIndex
from tallystick.state.knowledge.catalogue import Knowledge
from tallystick.state.ontology import Ontology
from tallystick.state.secret_scan import screen_of
from tallystick.state.staleness import Stale
from tallystick.state.tasks import Sections, TaskCards
from tallystick.state.trust import Trust
from tallystick.state.work.graph import WorkGraph
from tallystick.store import Store
from tallystick.telemetry import metrics, tracing
from tallystick.tenant_projections import AllProjections
from tallystick.tenants import Tenants, is_tenant
from tallystick.toolsets import Answer, Toolset, files, hooks, knowledge, memory, ontology, tasks, why, work
from tallystick.toolsets.cited_files import CitedFiles
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.files import content_edits
from tallystick.toolsets.knowledge import reverify
from tallystick.toolsets.knowledge.context import ToolContext as KnowledgeContext
from tallystick.toolsets.knowledge.freshness import Repository
from tallystick.toolsets.knowledge.path_context import NodeKnowledge
from tallystick.toolsets.memory.lineage import PlacedCommit
from tallystick.toolsets.tasks.settings import find_file, read_pipelines
from tallystick.toolsets.work.context import Receipts
from tallystick.toolsets.work.context import ToolContext as WorkContext
from tallystick.work_settings import DEFAULT_AGENT, WorkSettings, read_settings
from tallystick.work_settings import named_paths as named_by_work

if TYPE_CHECKING:
    from tallystick.commits.signed_note import SignerKey, VerifierKey
    from tallystick.operations.why import Why, WhyContext
    from tallystick.policy.remote import Remote
    from tallystick.projections.lineage_emitter import Destination
    from tallystick.projections.text import TextIndex
    from tallystick.projections.witnesses import WitnessAddress
    from tallystick.server.oauth.guard import Admission
    from tallystick.server.web.login import Login
    from tallystick.server.web.responses import WebPages
    from tallystick.server.workers import Worker

T = TypeVar("T")
LINEAGE_TOKEN_VARIABLE = "OPENLINEAGE_API_KEY"
"""What an endpoint for lineage wants to see; in no file and in no setting."""


logger = logging.getLogger(__name__)

_COLLECTED_AFTER = 20_000, 20, 50
"""Calls leave next to no cycles behind, and Python's 700 would look for some at every few of them."""


_JSON_BYTES_PER_BYTE = 6
"""As which JSON spells a byte at most: `\\u0000`."""


def toolsets(
    settings: Settings, projections: AllProjections | None = None, sessions: Sessions | None = None
) -> tuple[Toolset, ...]:
    """Every vocabulary, offered or not. Without `projections` they can be shown, not all be called."""
    claims = claims_of(settings, sessions)
    tool_context = knowledge_context(settings, claims, projections.text if projections else None)
    return (
        memory.toolset(
            hops_max=settings.max_hops,
            text=projections.text if projections else None,
            vectors=projections.vectors if projections and settings.vectors else None,
            walks=projections.walks if projections and settings.cypher_url else None,
            prove=partial(_prove, settings),
        ),
        work.toolset(
            settings=_work_settings(settings),
            knowledge=NodeKnowledge(tool_context),
            claims=claims,
            receipts=_receipts(settings, projections) if projections else None,
        ),
        knowledge.make_toolset(tool_context),
        tasks.toolset(pipelines=read_pipelines(os.environ), knowledge=tool_context, claims=claims),
        ontology.make_toolset(
            projections.contents if projections else None,
            projections.text if projections else None,
            published=projections.published if projections else None,
            adopt=projections.adopted if projections else None,
            content_bytes_max=settings.content_bytes_max,
        ),
        files.make_toolset(
            projections.path if projections else None,
            views=projections.views if projections else lambda tenant: None,
            adopt=projections.adopted if projections else None,
            published=projections.published if projections else None,
            reserved=_named_paths(settings),
            base=settings.base,
        ),
        why.make_toolset(partial(_explain, settings, tool_context.repository, projections)),
        hooks.make_toolset(settings, _work_settings(settings)),
    )


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
    database = _work_settings(settings).db_path if owns_database else None
    background: set[asyncio.Task[None]] = set()
    unclean: set[str] = set()

    def begin(work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        background.add(task)
        task.add_done_callback(background.discard)

    async def open_partition(tenant: str) -> Partition:
        partition = await _open_partition(
            msgspec.structs.replace(settings, tenant=tenant),
            projections.appended if projections else None,
            projections.keys(tenant) if projections else (),
        )
        if projections is not None:
            begin(projections.resume(tenant))
        if warm:
            begin(_warm(partition, settings.toolsets))
        return partition

    audit = AuditWriter(lambda tenant: _audit_files(msgspec.structs.replace(settings, tenant=tenant)))
    gate = _gate(settings, audit, operator=operator)
    tool_context = knowledge_context(settings)

    async def written(principal: Principal, receipt: Receipt) -> None:
        await reverify.follow_up(tool_context, store, principal, receipt)

    async def noticed(principal: Principal, stale: Mapping[str, Stale]) -> None:
        await reverify.notice(tool_context, store, principal, stale)

    async def erase_copies(tenant: str, receipt: Receipt) -> Sequence[str]:
        if projections is None:
            unclean.add(tenant)
        elif any(commit.operation in REDACTIONS for commit in receipt.commits):
            return await projections.erase(tenant, receipt.commits[-1].lamport)
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
        began_elsewhere=partial(_began_elsewhere, sessions) if sessions and settings.log_url else None,
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


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[Offer]:
    """The store with everything that follows it, offered to agents."""
    _check_user(settings)
    if settings.vectors:
        model.require()
    adopts = settings.adopt_file_edits == "on" or (settings.adopt_file_edits == "auto" and not settings.http)

    async def adopt(tenant: str, edit: Edit) -> None:
        await content_edits.adopt(store, projections.contents, tenant, edit)

    database = _work_settings(settings).db_path
    sessions = open_sessions(settings)
    metrics.SESSIONS.reading = lambda: [((), float(sessions.open_count))]
    with _lineage(settings, lambda: store) as lineage:
        projections = AllProjections(
            settings,
            open_log=open_log,
            adopt=adopt if adopts else None,
            repairs=not adopts,
            database=database,
            lineage=lineage,
            keys=_checkpoint_keys(settings),
            witnesses=_witnesses(settings),
        )
        async with opened(settings, projections, warm=True, sessions=sessions) as store:
            # A log that cannot be opened is said now, not at the first call.
            await store.partition(local_user(settings))
            if settings.log_url:
                # Asked of the other machines: not when the first session begins, on the loop of all others.
                await asyncio.to_thread(sessions.signing_key)
            projections.of(settings.tenant).serve()
            if settings.issuers:
                # Without one there is one tenant, whoever else has a log here.
                projections.hand_on_for(lambda: tenants_of(settings))
            try:
                async with _backing_up(settings):
                    with _watched(settings, store, projections):
                        yield _offer(settings, store, projections, sessions)
            finally:
                sessions.close()
                await projections.close()


async def publish(settings: Settings) -> None:
    """Bring the views to the head of the log, for commands that wrote and are about to end."""
    projections = AllProjections(settings, open_log=open_log)
    await asyncio.to_thread(projections.of(settings.tenant).publish)
    await projections.close()


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


def open_log(settings: Settings) -> Log:
    """The log of the tenant that the settings name: here, and nowhere else, it is said which kind it is."""
    require_restored(settings.base)
    if settings.log_url:
        from tallystick.log.jetstream import JetStreamLog
        from tallystick.log.jetstream.places import place_of

        return GuardedLog(JetStreamLog(place_of(settings), settings.tenant), settings.base)
    if is_copy(settings.system) and read_replica(settings.base) is not None:
        from tallystick.log.jetstream.copy import open_followed

        return GuardedLog(open_followed(settings.system, segment_bytes_max=settings.segment_bytes_max), settings.base)
    if is_copy(settings.system):
        raise InvalidArgument(
            f"{settings.system} is this machine's copy of a stream, and log_url names no servers",
            code="LOG_IS_A_COPY",
            hint="set log_url as before; 'tallystick migrate --to file' makes it a log of its own",
        )
    return GuardedLog(FilesLog(settings.system, segment_bytes_max=settings.segment_bytes_max), settings.base)


def operation_context(settings: Settings, *, owns_database: bool = True) -> OperationContext:
    """What operations work with: the memory that the settings name, for whoever can start this process.

    A `graph.db` that the settings place elsewhere is of the tenant that they name, and of no other.
    """
    database = _work_settings(settings).db_path if owns_database else None
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
        open_audit=lambda: _audit_files(settings),
        prepare=prepared,
        erase=lambda: erase(settings, database),
        database=database,
        checkpoint_keys=lambda: checkpoint_keys(settings),
        with_settings=lambda changed: operation_context(
            changed, owns_database=owns_database and changed.tenant == settings.tenant
        ),
    )


def serve_stdio(settings: Settings) -> None:
    from tallystick.server.stdio import serve_stdio as serve

    async def run() -> None:
        async with _exporting(), served(settings) as offer:
            await serve(offer)

    asyncio.run(run())


def serve_http(
    settings: Settings,
    *,
    host: str,
    port: int,
    announce: Callable[[str, int], None],
    worker: Worker | None = None,
) -> None:
    """Until SIGINT or SIGTERM. `announce` is called with the address once clients can connect. A `worker` has its
    socket from the process that began it."""
    import uvloop

    from tallystick.server.connections import Bounds
    from tallystick.server.http import http_app, run_http
    from tallystick.server.metrics import PATH as METRICS_PATH
    from tallystick.server.metrics import metrics_routes
    from tallystick.server.proofs import proof_routes
    from tallystick.server.tlog import PATH as TLOG_PATH
    from tallystick.server.tlog import tlog_routes
    from tallystick.server.tls import tls_context

    if worker is not None:
        settings = _part_of(settings, worker)
    tls = tls_context(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
    admission = _admission(settings, host, port)
    if admission is not None and settings.metrics == "open":
        admission.open_paths |= {METRICS_PATH}
    if admission is not None and settings.tlog == "open":
        admission.open_prefixes = (f"{TLOG_PATH}/",)

    async def run() -> None:
        async with _exporting(), served(settings) as offer:
            is_ending = asyncio.Event()
            offer = msgspec.structs.replace(offer, not_ready=lambda: _not_ready(settings, is_ending))
            guarded = (
                offer if admission is None else _guarded(settings, offer, None if worker is None else worker.buckets)
            )
            pages = web_pages(settings, guarded, admission, worker)
            application = http_app(
                guarded,
                hosts=[host, *settings.http_hosts],
                origins=settings.http_origins,
                admission=admission,
                more=[
                    *metrics_routes(
                        settings.metrics,
                        tenant=settings.tenant,
                        render=None if worker is None else worker.render_metrics,
                    ),
                    *tlog_routes(settings.tlog, lambda tenant: _tiles_of(settings, tenant)),
                    *proof_routes(guarded, lambda tenant: msgspec.structs.replace(settings, tenant=tenant).home),
                ],
                pages=pages,
                one_process=worker is None,
            )
            bounds = Bounds(
                head_seconds=settings.http_head_seconds,
                body_seconds=settings.http_body_seconds,
                connections=settings.http_connections_max,
                drain_seconds=settings.drain_seconds,
            )

            def drain() -> None:
                is_ending.set()
                if pages is not None:
                    pages.drain()

            async with worker.publishing() if worker is not None else nullcontext():
                await run_http(
                    application,
                    host=host,
                    port=port,
                    announce=announce,
                    listening=None if worker is None else worker.listening,
                    tls=tls,
                    bounds=bounds,
                    drain=drain,
                )

    uvloop.run(run())


def _not_ready(settings: Settings, is_ending: asyncio.Event) -> str | None:
    if is_ending.is_set():
        return "this server is about to end"
    if settings.audit_strict and not all(value for _, value in metrics.AUDIT.read()):
        return "decisions cannot be written down, so everything is denied"
    return None


def _part_of(settings: Settings, worker: Worker) -> Settings:
    """What counts for each process, dealt out among the workers."""
    return msgspec.structs.replace(
        settings,
        http_connections_max=worker.share(settings.http_connections_max),
        sessions_per_subject=worker.share(settings.sessions_per_subject),
        sessions_per_tenant=worker.share(settings.sessions_per_tenant),
    )


def web_pages(
    settings: Settings, offer: Offer, admission: Admission | None = None, worker: Worker | None = None
) -> WebPages | None:
    """None where they are switched off, and where tokens are asked for but nobody could log in."""
    if not settings.web or (settings.issuers and not settings.web_client_id):
        return None
    from tallystick.operations.why import explain_task
    from tallystick.server.web.context import WebContext, WorkerPlace
    from tallystick.server.web.responses import WebPages

    def of(tenant: str) -> Settings:
        return msgspec.structs.replace(settings, tenant=tenant)

    claims = claims_of(settings, offer.sessions)
    knowledge = knowledge_context(settings, claims)
    reasons = why_context(settings, knowledge.repository)
    return WebPages(
        WebContext(
            offer=offer,
            tools=choose(offer.tools.known),
            policy=settings.policy_url or Path(settings.policy).name or _shipped_policy(settings),
            home_of=lambda tenant: of(tenant).home,
            audit_of=lambda tenant: _audit_files(of(tenant)).directory,
            # Who listens keeps a connection: half of them are for everybody else.
            streams_max=max(1, settings.http_connections_max // 2),
            operations=lambda principal: _served_operations(settings, offer, principal),
            policy_source=None if settings.policy_url else settings.policy or _shipped_policy(settings),
            claims=claims,
            explain=lambda principal, task: explain_task(reasons, offer.store, principal, task),
            knowledge=knowledge,
            is_read_only=settings.read_only,
            person=settings.web_actor or system_user(),
            figures_for=settings.tenant if settings.issuers else None,
            worker=None if worker is None else WorkerPlace(worker.number + 1, worker.count),
        ),
        None if admission is None else _login(settings, offer, admission),
    )


def _login(settings: Settings, offer: Offer, admission: Admission) -> Login:
    from tallystick.server.oauth.introspection import Client, find_client
    from tallystick.server.web.login import Login

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


@contextmanager
def _lineage(settings: Settings, store: Callable[[], Store]) -> Iterator[Callable[[str], Destination] | None]:
    """By tenant: where its lineage is handed on to, if the settings say so."""
    if not settings.lineage_to:
        yield None
        return
    from tallystick.operations.emit import kind_before
    from tallystick.projections.lineage_emitter import Destination, SharedSink, sink_for

    loop = asyncio.get_running_loop()
    token = os.environ.get(LINEAGE_TOKEN_VARIABLE) or None
    sink = SharedSink(sink_for(settings.lineage_to, token=token, patience_seconds=0))

    def of(tenant: str) -> Destination:
        def kind_of(commit: Commit) -> str:
            return asyncio.run_coroutine_threadsafe(kind_before(store(), tenant, commit), loop).result()

        return Destination(sink, kind_of)

    try:
        yield of
    finally:
        sink.close()


async def _open_partition(
    settings: Settings, appended: Callable[[str, Sequence[Entry]], None] | None, keys: Sequence[SignerKey]
) -> Partition:
    # After a crash, or damage, it reads the whole log: other tenants are served meanwhile.
    log = await asyncio.to_thread(open_log, settings)
    try:
        await asyncio.to_thread(_compare_with_checkpoint, settings, log, keys)
        partition = Partition(
            log,
            tenant=settings.tenant,
            snapshots=Snapshots(
                settings.system / "snapshots", every=settings.snapshot_every, take=lambda: _snapshot_elsewhere(settings)
            ),
            limits=Limits(settings.group_drafts_max, settings.group_bytes_max),
            appended=appended,
            screen=screen_of(settings.secrets),
        )
        await partition.open()
    except BaseException:
        # A damaged log is tried again at every call for its tenant.
        log.close()
        raise
    # What was loaded stays: a full collection over it would stop the world for seconds.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    return partition


def _tiles_of(settings: Settings, tenant: str) -> Path | None:
    """Without an issuer there is one tenant, whoever else has a log here."""
    if tenant != settings.tenant and not (settings.issuers and is_tenant(tenant)):
        return None
    return directory_of(msgspec.structs.replace(settings, tenant=tenant).home)


def _compare_with_checkpoint(settings: Settings, log: Log, keys: Sequence[SignerKey]) -> None:
    """Raises Corrupt where the log does not continue what was signed here."""
    if (directory_of(settings.home) / CHECKPOINT).exists():
        from tallystick.projections.checkpoints import check_opened

        check_opened(settings.home, log, [key.verifier for key in keys])


def checkpoint_keys(settings: Settings) -> tuple[SignerKey, ...]:
    """Of the tenant that the settings name; none where none are configured."""
    if not (settings.checkpoint_key or settings.checkpoint_key_command or os.environ.get(CHECKPOINT_KEY_VARIABLE)):
        return ()
    from tallystick.projections.checkpoint_keys import load_keys

    return load_keys(settings, environ=os.environ)


def _checkpoint_keys(settings: Settings) -> Callable[[str], tuple[SignerKey, ...]]:
    """By tenant, of keys that are read once: a server that cannot sign as it was told to does not start."""
    keys = checkpoint_keys(msgspec.structs.replace(settings, tenant=DEFAULT_TENANT))
    if not keys:
        return lambda tenant: ()
    from tallystick.projections.checkpoint_keys import keys_of_tenant

    return lambda tenant: keys_of_tenant(keys, tenant)


def _witnesses(settings: Settings) -> tuple[WitnessAddress, ...]:
    if not settings.witnesses:
        return ()
    from tallystick.projections.witnesses import parse_witnesses

    return parse_witnesses(settings.witnesses)


async def _warm(partition: Partition, offered: Sequence[str]) -> None:
    """Build what the offered vocabularies make of the graph, so that no first caller has to wait for all of it."""
    names = _DERIVED_INDEXES if "all" in offered else [name for name in _DERIVED_INDEXES if name in offered]
    try:
        for kind in dict.fromkeys(kind for name in names for kind in _DERIVED_INDEXES[name]):
            await partition.warm(kind)
        gc.freeze()
    except Exception:
        # What is not built now is built at its first use; if the log cannot be read, that says so to whoever asks.
        logger.info("not everything was built ahead for %s", partition.tenant, exc_info=True)


_DERIVED_INDEXES: dict[str, tuple[type[DerivedIndex], ...]] = {
    "memory": (Ontology, Trust),
    "work": (WorkGraph, Sections, Knowledge, Ontology),
    "knowledge": (Knowledge, WorkGraph, Ontology),
    "tasks": (WorkGraph, TaskCards, Sections, Knowledge, Ontology),
    "ontology": (Ontology,),
    "files": (Ontology,),
}
"""What the tools of each toolset look at."""


def _snapshot_elsewhere(settings: Settings) -> None:
    """By a process of its own: encoding a large state would hold up every caller of this one."""
    command = [sys.executable, "-m", "tallystick", "snapshot", "--base", str(settings.base)]
    subprocess.Popen(
        [*command, "--tenant", settings.tenant],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _backing_up(settings: Settings) -> AbstractAsyncContextManager[None]:
    if not settings.backup_to:
        return nullcontext()
    from tallystick.operations.backups.schedule import backing_up

    return backing_up(settings)


def _exporting() -> AbstractAsyncContextManager[None]:
    if not any(name.startswith("OTEL_") for name in os.environ):
        return nullcontext()
    from tallystick.telemetry.otlp import exporting

    return exporting(__version__)


def _store_class() -> type[Store]:
    if tracing.tracer is None:
        return Store
    from tallystick.server.traced import TracedStore

    return TracedStore


@contextmanager
def _watched(settings: Settings, store: Store, projections: AllProjections) -> Iterator[None]:
    """While inside, metrics look at these when they are asked for."""
    named = settings.metrics_tenants or (() if settings.issuers else (settings.tenant,))

    partitions = partial(_partitions, store)

    def lags() -> Iterable[tuple[tuple[str], float]]:
        worst: dict[str, int] = {}
        for tenant, partition in partitions().items():
            for projection, lag in projections.lags(tenant, partition.position).items():
                worst[projection] = max(lag, worst.get(projection, 0))
        return [((projection,), lag) for projection, lag in worst.items()]

    readings: dict[metrics.Gauge, metrics.Reading] = {
        metrics.QUEUE: lambda: [((), sum(each.waiting for each in partitions().values()))],
        metrics.TENANTS_OPEN: lambda: [((), len(partitions()))],
        metrics.LOG_BYTES: lambda: [((), sum(each.log_bytes for each in partitions().values()))],
        metrics.DISK_BYTES: lambda: _disk_bytes(
            msgspec.structs.replace(settings, tenant=tenant) for tenant in partitions()
        ),
        metrics.DISK_FREE: lambda: [((), shutil.disk_usage(settings.base).free)],
        metrics.POSITION: lambda: [((name,), each.position) for name, each in partitions().items() if name in named],
        metrics.LAG: lags,
        **_backup_readings(settings),
        metrics.BUILD: lambda: [((__version__, sys.version.partition(" ")[0]), 1)],
    }
    for gauge, reading in readings.items():
        gauge.reading = reading
    try:
        yield
    finally:
        for gauge in readings:
            gauge.reading = tuple


def _disk_bytes(tenants: Iterable[Settings]) -> Iterable[tuple[tuple[str], float]]:
    """By database, and by directory of few files: what is as many files as there are entities would take too long."""
    sizes: Counter[str] = Counter()
    for each in tenants:
        for directory in (each.home, each.system):
            for path in directory.glob("*.db*"):
                sizes[path.name.partition(".")[0]] += _size(path)
        for part in ("snapshots", "audit"):
            sizes[part] += sum(map(_size, (each.system / part).glob("*")))
    return [((part,), size) for part, size in sizes.items()]


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def _partitions(store: Store) -> dict[str, Partition]:
    """Those that are open."""
    found = {tenant: store.tenants.find(tenant) for tenant in store.tenants.open_now}
    return {tenant: partition for tenant, partition in found.items() if partition is not None}


def _backup_readings(settings: Settings) -> dict[metrics.Gauge, metrics.Reading]:
    if not settings.backup_to:
        return {}
    from tallystick.operations.backups.inspect import TargetStatus, backup_status

    def configured() -> list[TargetStatus]:
        with suppress(TallystickError):
            return [each for each in backup_status(settings) if each.is_configured]
        return []

    return {
        metrics.BACKUP: lambda: [((), from_text(each.last) / 1000) for each in configured() if each.last],
        metrics.BACKUP_WAITING: lambda: [((), each.waiting) for each in configured()],
        metrics.BACKUP_FAILING: lambda: [((), float(each.failed is not None)) for each in configured()],
    }


def _offer(settings: Settings, store: Store, projections: AllProjections, sessions: Sessions) -> Offer:
    user = local_user(settings)

    return Offer(
        tools=choose(
            toolsets(settings, projections, sessions),
            names=settings.toolsets,
            tools=settings.tools or None,
            read_only=settings.read_only,
        ),
        store=store,
        principal_of=lambda scope: user,
        sessions=sessions,
        session_seconds=settings.session_seconds,
        session_quota=SessionQuota(settings.sessions_per_subject, settings.sessions_per_tenant),
        names_clients=user.actor == DEFAULT_AGENT,
        version=__version__,
        tool_names=settings.tool_names,
        validation_errors=settings.validation_errors,
        confirms=settings.confirm_redactions,
        body_bytes_max=settings.body_bytes_max,
        line_bytes_max=settings.body_bytes_max + _JSON_BYTES_PER_BYTE * settings.content_bytes_max,
        position=lambda: store.position(user),
        not_live=lambda: next((each.stopped for each in _partitions(store).values() if each.stopped), None),
        behind_seconds=partial(_behind_seconds, store) if settings.log_url else float,
    )


def _began_elsewhere(sessions: Sessions, principal: Principal) -> bool:
    return principal.session is not None and sessions.began_elsewhere(principal.session)


def _behind_seconds(store: Store) -> float:
    found = [store.tenants.find(tenant) for tenant in store.tenants.open_now]
    return max((partition.behind_seconds() for partition in found if partition is not None), default=0.0)


def _gate(settings: Settings, audit: AuditWriter, *, operator: bool) -> Gate:
    """Without a policy, whoever started the process may do everything, and nobody else anything."""
    engine: Embedded | Remote
    if operator:
        engine = Embedded("single-user", timeout_ms=settings.policy_timeout_ms)
    elif settings.policy_url:
        from tallystick.policy.remote import Remote

        engine = Remote(settings.policy_url, path=settings.policy_path, timeout_ms=settings.policy_timeout_ms)
    else:
        engine = Embedded(settings.policy or _shipped_policy(settings), timeout_ms=settings.policy_timeout_ms)
    return Gate(
        engine,
        audit=audit,
        cache=Cache(seconds=settings.policy_cache_seconds),
        slo_ms=float("inf") if operator else settings.policy_slo_ms,
        strict_audit=settings.audit_strict,
    )


def _shipped_policy(settings: Settings) -> str:
    return "closed" if settings.issuers else "single-user"


def _audit_files(settings: Settings) -> AuditFiles:
    return AuditFiles(
        settings.system / "audit",
        retention_days=settings.audit_retention_days,
        archive=Path(settings.audit_archive) / settings.tenant if settings.audit_archive else None,
    )


def _admission(settings: Settings, host: str, port: int) -> Admission | None:
    if not settings.issuers:
        return None
    from tallystick.server.oauth.guard import build_admission, public_address
    from tallystick.server.oauth.introspection import find_client

    return build_admission(
        settings.issuers,
        public_url=public_address(settings.public_url, host=host, port=port, tls=bool(settings.tls_cert)),
        audience=settings.audience,
        scopes=settings.scopes,
        tenant_claim=settings.tenant_claim,
        roles_claim=settings.roles_claim,
        clock_skew_seconds=settings.clock_skew_seconds,
        token_cache_seconds=settings.token_cache_seconds,
        jwks_seconds=settings.jwks_seconds,
        jwks_stale_seconds=settings.jwks_stale_seconds,
        introspect_as=find_client(settings.introspection_client, settings.introspection_secret_file),
        introspection_seconds=settings.introspection_seconds,
    )


def _guarded(settings: Settings, offer: Offer, buckets: Buckets | None) -> Offer:
    """What is offered to callers who prove who they are, each tenant within its quota."""
    quota = Quota(settings.quota_writes, settings.quota_reads)
    return msgspec.structs.replace(
        offer,
        principal_of=principal_of,
        names_clients=False,
        quotas=Quotas(quota, read_overrides(settings.quota_overrides), buckets=buckets),
        # Anybody may ask /health: how much a tenant has written is not for them.
        position=None,
    )


def system_user() -> str:
    """By name; some containers have users without one."""
    try:
        return getuser()
    except (KeyError, OSError, ImportError):
        return "operator"


def local_user(settings: Settings) -> Principal:
    """Whoever can start this process. The name is that of the settings, else that of `graph.config.yaml`."""
    named = settings.agent_identity != DEFAULT_AGENT
    actor = settings.agent_identity if named else _work_settings(settings).agent_identity
    return Principal(actor=actor, tenant=settings.tenant)


def open_sessions(settings: Settings) -> Sessions:
    """In the base, and not with a tenant: processes that serve one tenant and processes that serve all meet there."""
    kept = max(
        _work_settings(settings).claim_ttl_milliseconds / 1000, settings.session_seconds, settings.web_session_seconds
    )
    directory = settings.base / "_system" / "sessions"
    if not settings.log_url:
        return Sessions(directory, kept_seconds=kept)
    from tallystick.log.jetstream.copy import machine_id
    from tallystick.log.jetstream.places import place_of
    from tallystick.log.jetstream.shared_key import shared_key

    place = place_of(msgspec.structs.replace(settings, tenant=DEFAULT_TENANT))
    return Sessions(
        directory,
        kept_seconds=kept,
        machine=machine_id(settings.base),
        shared_key=cache(lambda: shared_key(place, "sessions")),
    )


def claims_of(settings: Settings, sessions: Sessions | None = None) -> Claims:
    ttl = _work_settings(settings).claim_ttl_milliseconds
    return Claims(ttl=ttl, sessions=sessions or open_sessions(settings))


def knowledge_context(
    settings: Settings, claims: Claims | None = None, text: Callable[[str], TextIndex] | None = None
) -> KnowledgeContext:
    _check_repo(settings)
    return knowledge.make_tool_context(
        repo=Path(settings.repo) if settings.repo else None,
        base=settings.base,
        repo_falls_back=not settings.issuers,
        pin_knowledge=settings.pin_knowledge,
        stale_makes_work=settings.stale_makes_work and not settings.read_only,
        work=WorkContext(settings=_work_settings(settings), claims=claims or claims_of(settings)),
        tasks_are_made_by="graph_plan" if {"work", "all"} & {*settings.toolsets} else "manage_container",
        text=text,
    )


def _prove(settings: Settings, tenant: str, commits: Sequence[PlacedCommit]) -> list[str | None]:
    from tallystick.operations.proofs import prove_signed

    home = msgspec.structs.replace(settings, tenant=tenant).home
    return prove_signed(home, [(each.commit, each.index, each.prev_record_hash) for each in commits])


async def _explain(
    settings: Settings,
    repository: Repository,
    projections: AllProjections | None,
    store: Store,
    principal: Principal,
    file: str,
    line: int | None,
) -> Why:
    from tallystick.operations.why import explain

    context = why_context(settings, repository, projections.keys if projections else None)
    return await explain(context, store, principal, file, line)


def _receipts(settings: Settings, projections: AllProjections) -> Receipts:
    """For agents on this machine they are files, where a directory is named for them."""
    directory = Path(settings.receipts).expanduser().absolute() if settings.receipts and not settings.issuers else None

    def require(tenant: str) -> None:
        if not projections.keys(tenant):
            from tallystick.operations.checkpoint import no_key

            raise no_key()

    async def make(store: Store, principal: Principal, tasks: Sequence[str]) -> tuple[list[dict[str, Any]], list[str]]:
        from tallystick.operations.receipts import make_receipt, with_proof, write_receipt

        of = msgspec.structs.replace(settings, tenant=principal.tenant)
        found: list[dict[str, Any]] = []
        problems: list[str] = []
        for task in tasks:
            try:
                if not found and not problems:
                    await projections.sign(principal.tenant)
                audit, keys = _audit_files(of).directory, projections.keys(principal.tenant)
                made = await make_receipt(store, principal, of.home, audit, keys, task)
                shown = (
                    {"receipt": with_proof(made)}
                    if directory is None
                    else {"files": [str(path) for path in await asyncio.to_thread(write_receipt, made, directory)]}
                )
                found.append({"node_id": task, **shown})
            except TallystickError as error:
                problems.append(f"'{task}' is resolved, but there is no receipt of it: {error.message}; ask again")
        return found, problems

    return Receipts(require, make)


def why_context(
    settings: Settings,
    repository: Repository | None = None,
    signers: Callable[[str], tuple[SignerKey, ...]] | None = None,
) -> WhyContext:
    """`signers`: the keys of each tenant, where they were read already."""
    from tallystick.operations.why import WhyContext

    def of(tenant: str) -> Settings:
        return msgspec.structs.replace(settings, tenant=tenant)

    def keys(tenant: str) -> tuple[VerifierKey, ...]:
        # Whoever asks need not be who may sign.
        with suppress(InvalidArgument):
            found = checkpoint_keys(of(tenant)) if signers is None else signers(tenant)
            return tuple(key.verifier for key in found)
        return ()

    return WhyContext(
        repository=repository or knowledge_context(settings).repository,
        base=settings.base,
        home=lambda tenant: of(tenant).home,
        keys=keys,
        audit=lambda tenant: _audit_files(of(tenant)).directory,
    )


def _check_user(settings: Settings) -> None:
    if settings.refuse_root and hasattr(os, "geteuid") and os.geteuid() == 0:
        raise InvalidArgument(
            "will not serve as root: whoever found a way into this process would own the machine",
            code="RUN_AS_ROOT",
            hint="start it as another user, such as 'docker run --user 10001:10001', or set refuse_root = false",
        )


def _check_repo(settings: Settings) -> None:
    """Who has tokens of an issuer is not who started the server here: its working directory is not for them."""
    wanted = [name for name in ("pin_knowledge", "stale_makes_work") if getattr(settings, name)]
    if settings.issuers and not settings.repo and wanted:
        raise InvalidArgument(
            f"{' and '.join(wanted)} looks at files, and 'repo' names no work tree to look at",
            code="SETTING_INVALID",
            hint="with an issuer, name the directory in 'repo'; the working directory is not taken for it",
        )


def _named_paths(settings: Settings) -> list[Path]:
    """All that any settings name, or are read from: out of reach for tools, wherever it lies."""
    pipelines = find_file(os.environ)
    return [
        *named_paths(settings),
        *named_by_work(_work_settings(settings), base=settings.base, working=Path.cwd()),
        *([] if pipelines is None else [pipelines]),
    ]


def _work_settings(settings: Settings) -> WorkSettings:
    return read_settings(base=settings.base, working=Path.cwd(), environ=os.environ)
