"""HTTP: all doors behind one address, and the process that serves it."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import uvicorn
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp

from tallystick.server import Offer
from tallystick.server.answers import json_answer
from tallystick.server.connections import Bounds, Connections
from tallystick.server.front import MCP_PATH, MESSAGES_PATH, SSE_PATH, HttpFront, tend
from tallystick.server.guards import Names
from tallystick.server.http_protocol import HttpProtocol
from tallystick.server.http_sessions import HttpSessions
from tallystick.server.listening import listen
from tallystick.server.mcp import HttpTransports, http_transports
from tallystick.server.rest import not_served, rest_calls, rest_routes

if TYPE_CHECKING:
    from tallystick.server.oauth.guard import Admission
    from tallystick.server.pages import Pages

GRACE_SECONDS = 3


def http_app(
    offer: Offer,
    *,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    admission: Admission | None = None,
    more: Sequence[Route] = (),
    pages: Pages | None = None,
    fast_path: bool = True,
    one_process: bool = True,
) -> HttpFront:
    """`hosts` are the names, besides loopback, that clients may call us by; `origins` the web pages that may.

    With an `admission` nobody is answered without a token, and `offer.principal_of` should be that of `oauth`.
    `pages` are for people. Without the `fast_path` everything takes the long way: the answers are the same.
    Where others serve the same address (not `one_process`) there is no SSE: its messages would reach any of them.
    """
    transports = http_transports(offer, messages_path=MESSAGES_PATH)
    sessions = HttpSessions(offer.sessions, quota=offer.session_quota, seconds=offer.session_seconds)

    @asynccontextmanager
    async def lifespan(app: Router) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            if admission is not None:
                await running.enter_async_context(admission.run())
            await running.enter_async_context(transports.run())
            tasks = [asyncio.create_task(tend(sessions)), asyncio.create_task(front.watch())]
            if pages is not None:
                tasks.append(asyncio.create_task(pages.run()))
            yield
            for task in tasks:
                task.cancel()
            # Processes that they began end before this one does.
            await asyncio.gather(*tasks, return_exceptions=True)

    router = Router(
        [
            # Never reached by these methods: for whoever tries another one.
            Route(MCP_PATH, _Endpoint(transports.streamable), methods=["POST", "DELETE"]),
            *(_sse_routes(transports) if one_process else [Route(SSE_PATH, _no_sse, methods=["GET"])]),
            *rest_routes(offer, admission, more),
            *more,
            *(admission.routes() if admission is not None else []),
            *(pages.routes if pages is not None else []),
        ],
        lifespan=lifespan,
    )
    front = HttpFront(
        offer,
        ExceptionMiddleware(router, {HTTPException: _not_served(pages)}),
        run=lambda: lifespan(router),
        sdk=transports.streamable,
        protocols=transports.protocols,
        sessions=sessions,
        names=Names(
            hosts=[*hosts, admission.host] if admission is not None else hosts, origins=_own(admission, origins)
        ),
        origins=origins,
        admission=admission,
        direct=rest_calls(offer),
        fast_path=fast_path,
        pages=pages,
    )
    return front


def _own(admission: Admission | None, origins: Sequence[str]) -> Sequence[str]:
    """Ours too under the public address: a proxy may call us by another name than browsers do."""
    if admission is None:
        return origins
    parts = urlsplit(admission.public_url)
    return [*origins, f"{parts.scheme}://{parts.netloc}"]


def _sse_routes(transports: HttpTransports) -> list[Route]:
    return [
        Route(SSE_PATH, _Endpoint(transports.sse), methods=["GET"]),
        Route(MESSAGES_PATH, _Endpoint(transports.messages), methods=["POST"]),
    ]


async def _no_sse(request: Request) -> Response:
    words = f"SSE needs a server with one worker; connect to {MCP_PATH} (streamable HTTP) instead"
    return json_answer({"error": "SSE_NOT_OFFERED", "message": words}, 501)


def _not_served(pages: Pages | None) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        page = None if pages is None else pages.not_served(request, error)
        return page or not_served(request, error)

    return answer


async def run_http(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    announce: Callable[[str, int], None],
    listening: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
    bounds: Bounds | None = None,
    drain: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. `announce` is told the real address once connections are accepted; `drain` is
    called when the end begins: what would be answered without end is to end. Who is connected then is answered once
    more (`Bounds.drain_seconds`). `listening` is there where somebody else made the socket.

    Raises OSError when the address can't be had, RuntimeError when the application does not start.
    """
    connections = Connections(bounds or Bounds())
    config = uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(HttpProtocol, connections)),
        ws="none",
        proxy_headers=False,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_context_factory=None if tls is None else lambda config, default: tls,
    )
    sockets = [listening if listening is not None else await asyncio.to_thread(listen, host, port)]
    watching = asyncio.create_task(connections.watch())
    try:
        await _Server(config, announce, drain, connections).serve(sockets=sockets)
    finally:
        watching.cancel()


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        announce: Callable[[str, int], None],
        drain: Callable[[], None] | None,
        connections: Connections,
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._drain = drain
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:  # so that whoever called us can close what they opened
            raise RuntimeError("the HTTP application did not start; its log says why") from None
        if sockets:
            address = sockets[0].getsockname()
            self._announce(address[0], address[1])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._drain is not None:
            self._drain()

        def stop_listening() -> None:
            for each in (*self.servers, *(sockets or ())):
                each.close()

        await self._connections.drain(stop_listening)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but a signal that was obeyed is not raised again: ending when asked is no failure."""
        loop = asyncio.get_running_loop()
        caught: list[signal.Signals] = []
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self.handle_exit, number, None)
                caught.append(number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)


class _Endpoint:
    """An ASGI application as a route's endpoint: Starlette takes a bare function for a request handler."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)
