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

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from tallystick.server import Offer
from tallystick.server.fast_path.http import FastPath, FastPathEndpoint, ShortCut
from tallystick.server.guards import BodyGuard, BugGuard, NameGuard, Names, PageGuard
from tallystick.server.mcp import http_transports
from tallystick.server.protocol import Protocol
from tallystick.server.rest import not_served, rest_calls, rest_routes

if TYPE_CHECKING:
    from tallystick.server.oauth.guard import Admission

MCP_PATH, SSE_PATH, MESSAGES_PATH = "/mcp", "/sse", "/messages/"
RPC_PATHS = frozenset({MCP_PATH, MESSAGES_PATH})
GRACE_SECONDS = 3
_LOOPBACK_ORIGIN = r"https?://(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?"


def http_app(
    offer: Offer,
    *,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    admission: Admission | None = None,
    more: Sequence[Route] = (),
    fast_path: bool = True,
) -> Starlette:
    """`hosts` are the names, besides loopback, that clients may call us by; `origins` the web pages that may.

    With an `admission` nobody is answered without a token, and `offer.principal_of` should be that of `oauth`.
    Without the `fast_path` everything takes the long way: the answers are the same.
    """
    doors = http_transports(offer, messages_path=MESSAGES_PATH)
    names = Names(hosts=[*hosts, admission.host] if admission is not None else hosts, origins=origins)
    fast, direct = FastPath(offer, doors.protocols), rest_calls(offer)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as running:
            if admission is not None:
                await running.enter_async_context(admission.run())
            await running.enter_async_context(doors.run())
            yield

    app = Starlette(
        routes=[
            Route(MCP_PATH, _Endpoint(doors.streamable), methods=["GET", "POST", "DELETE"]),
            Route(SSE_PATH, _Endpoint(doors.sse), methods=["GET"]),
            Route(MESSAGES_PATH, _Endpoint(doors.messages), methods=["POST"]),
            *rest_routes(offer, admission),
            *more,
            *(admission.routes() if admission is not None else []),
        ],
        middleware=[
            Middleware(BugGuard),
            Middleware(NameGuard, names=names, rpc=RPC_PATHS),
            Middleware(
                PageGuard,
                allow_origins=list(origins),
                allow_origin_regex=_LOOPBACK_ORIGIN,
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["*"],
                expose_headers=["Mcp-Session-Id", "WWW-Authenticate"],
            ),
            # Before the guard of bodies: of a caller who is not known nothing is read.
            *([admission.middleware()] if admission is not None else []),
            Middleware(BodyGuard, bytes_max=offer.body_bytes_max, rpc=RPC_PATHS),
            # Innermost: which lane a request takes is chosen when all guards are behind it.
            *([Middleware(FastPathEndpoint, fast_path=fast, path=MCP_PATH, direct=direct)] if fast_path else []),
        ],
        exception_handlers={HTTPException: not_served},
        lifespan=lifespan,
    )
    if fast_path:
        app.state.short_cut = ShortCut(
            fast,
            path=MCP_PATH,
            direct=direct,
            names=names,
            admission=admission,
            body_bytes_max=offer.body_bytes_max,
        )
    return app


async def run_http(
    app: Starlette,
    *,
    host: str,
    port: int,
    announce: Callable[[str, int], None],
    access_log: bool = False,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. `announce` is told the real address once connections are accepted.

    Raises OSError when the address can't be had, RuntimeError when the application does not start.
    """
    config = uvicorn.Config(
        app,
        http=cast(type[asyncio.Protocol], partial(Protocol, short_cut=_short_cut(app))),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=access_log,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_context_factory=None if tls is None else lambda config, default: tls,
    )
    listening = await _listen(host, port)
    await _Server(config, announce).serve(sockets=listening)


def _short_cut(app: Any) -> ShortCut | None:
    """Only an application that was built with guards and a lane has one."""
    return getattr(getattr(app, "state", None), "short_cut", None)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, announce: Callable[[str, int], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:  # so that whoever called us can close what they opened
            raise RuntimeError("the HTTP application did not start; its log says why") from None
        if sockets:
            address = sockets[0].getsockname()
            self._announce(address[0], address[1])

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


async def _listen(host: str, port: int) -> list[socket.socket]:
    family, *_, address = (await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
    return [socket.create_server(address[:2], family=family, backlog=2048)]
