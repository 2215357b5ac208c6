"""A server: the store with everything that follows it, offered over stdio or HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from tallystick import __version__
from tallystick.app.callers import check_user, local_user, open_sessions, work_settings
from tallystick.app.context import AppContext
from tallystick.app.gauges import behind_seconds, watched
from tallystick.app.guards import find_admission, with_quotas
from tallystick.app.health import checked, not_live, not_ready
from tallystick.app.logs import check_signer, open_log
from tallystick.app.stores import opened
from tallystick.app.tenant_projections import AllProjections
from tallystick.app.vocabularies import toolsets
from tallystick.config import Settings
from tallystick.engine.sessions import Sessions
from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.extension import installed
from tallystick.operations.child_command import start_command
from tallystick.operations.tenants import tenants_of
from tallystick.server import Offer
from tallystick.server.dispatch import choose
from tallystick.server.limits import SessionQuota
from tallystick.telemetry import metrics
from tallystick.work_settings import DEFAULT_AGENT

if TYPE_CHECKING:
    from subprocess import Popen

    from tallystick.server.workers import Worker

FILES_MAX = 65_536
"""That a server has open: a client has one, an open tenant a dozen and one for each segment of its log."""
FILES_RESERVED_MIN = 64
"""That connections leave for the log, projections and clients that are turned away, besides what is open."""
CONNECTIONS_MIN = 4
_JSON_BYTES_PER_BYTE = 6
"""As which JSON spells a byte at most: `\\u0000`."""

Around = Callable[[AppContext], AbstractAsyncContextManager[None]]

logger = logging.getLogger(__name__)


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[Offer]:
    """The store with everything that follows it, offered to agents."""
    check_user(settings)
    check_signer(settings)
    database = work_settings(settings).db_path
    sessions = open_sessions(settings)
    metrics.SESSIONS.reading = lambda: [((), float(sessions.open_count))]
    projections = AllProjections(
        settings,
        open_log=open_log,
        database=database,
        store=lambda: store,
        elsewhere=partial(_catch_up_elsewhere, settings),
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
            offer = _offer(settings, store, projections, sessions)
            context = AppContext(
                settings=settings, projections=projections, sessions=sessions, store=lambda: store, offer=offer
            )
            with watched(settings, store, projections):
                async with AsyncExitStack() as stack:
                    for around in installed().load("around_serving"):
                        await _enter(stack, around, context)
                    yield offer
        finally:
            sessions.close()
            await projections.close()


async def _enter(stack: AsyncExitStack, around: Around, context: AppContext) -> None:
    """Go on without what fails, unless the error says what the user can change."""
    try:
        await stack.enter_async_context(around(context))
    except TallystickError:
        raise
    except Exception:
        logger.exception("%s.%s is left out", around.__module__, around.__qualname__)


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
        answer_bytes_max=settings.answer_bytes_max,
        body_bytes_max=settings.body_bytes_max,
        line_bytes_max=settings.body_bytes_max + _JSON_BYTES_PER_BYTE * settings.content_bytes_max,
        position=lambda: store.position(user),
        not_live=partial(not_live, store),
        not_ready=partial(not_ready, store, settings.tenant),
        behind_seconds=partial(behind_seconds, store) if settings.log_url else float,
    )


def _catch_up_elsewhere(settings: Settings, tenant: str, name: str) -> Popen[bytes]:
    """By a process of its own: what has far to go would share the interpreter with every caller of this one."""
    return start_command("catch-up", name, "--base", str(settings.base), "--tenant", tenant)


def _exporting() -> AbstractAsyncContextManager[None]:
    if not any(name.startswith("OTEL_") for name in os.environ):
        return nullcontext()
    from tallystick.telemetry.otlp import exporting

    return exporting(__version__)


def _allow_files() -> None:
    """As many as may be allowed: most shells begin with a thousand."""
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if most == resource.RLIM_INFINITY else min(FILES_MAX, most)
    if allowed != resource.RLIM_INFINITY and allowed < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def serve_stdio(settings: Settings) -> None:
    from tallystick.server.stdio import serve_stdio as serve

    _allow_files()

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
    from tallystick.server.tls import tls_context

    _allow_files()
    if worker is not None:
        settings = _part_of(settings, worker)
    tls = tls_context(settings.tls_cert, settings.tls_key) if settings.tls_cert else None
    admission = find_admission(settings, host, port)
    if admission is not None and settings.metrics == "open":
        admission.open_paths |= {METRICS_PATH}
    if admission is not None:
        admission.open_prefixes = tuple(
            path for paths_of in installed().load("open_paths") for path in paths_of(settings)
        )

    async def run() -> None:
        async with _exporting(), served(settings) as offer:
            is_ending = asyncio.Event()
            of_the_log = offer.not_ready
            offer = msgspec.structs.replace(offer, not_ready=lambda: _not_ready(settings, is_ending) or of_the_log())
            guarded = (
                offer if admission is None else with_quotas(settings, offer, None if worker is None else worker.buckets)
            )
            context = AppContext(settings=settings, offer=guarded, admission=admission, worker=worker)
            site = installed().site()
            pages = None if site is None else site(context)
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
                    *(route for make in installed().load("routes") for route in make(context)),
                ],
                pages=pages,
                one_process=worker is None,
            )
            bounds = Bounds(
                head_seconds=settings.http_head_seconds,
                body_seconds=settings.http_body_seconds,
                connections=_connections_max(settings),
                drain_seconds=settings.drain_seconds,
            )

            def drain() -> None:
                is_ending.set()
                if pages is not None:
                    pages.drain()

            async with (
                worker.publishing() if worker is not None else nullcontext(),
                checked(settings, offer.store, None if worker is None else _end_worker),
            ):
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


def _connections_max(settings: Settings) -> int:
    """The setting, or what the limit of open files leaves if that is less."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return settings.http_connections_max
    room = allowed - len(os.listdir("/dev/fd")) - max(FILES_RESERVED_MIN, allowed // 4)
    if room >= settings.http_connections_max:
        return settings.http_connections_max
    bound = max(room, CONNECTIONS_MIN)
    logger.warning(
        "at most %d connections are served, not http_connections_max = %d: this process may have %d files open",
        bound,
        settings.http_connections_max,
        allowed,
    )
    return bound


def _not_ready(settings: Settings, is_ending: asyncio.Event) -> str | None:
    if is_ending.is_set():
        return "this server is about to end"
    if settings.audit_strict and not all(value for _, value in metrics.AUDIT.read()):
        return "decisions cannot be written down, so everything is denied"
    return None


def _end_worker() -> None:
    """So that the process that started it starts another."""
    logger.error("this worker cannot write its log any more and stops")
    os.kill(os.getpid(), signal.SIGTERM)


def _part_of(settings: Settings, worker: Worker) -> Settings:
    """What counts for each process, dealt out among the workers."""
    return msgspec.structs.replace(
        settings,
        http_connections_max=worker.share(settings.http_connections_max),
        sessions_per_subject=worker.share(settings.sessions_per_subject),
        sessions_per_tenant=worker.share(settings.sessions_per_tenant),
    )
