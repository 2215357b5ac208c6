"""Connections to our protocol without a network: every packet is as the test cuts it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.types import Scope
from uvicorn.server import ServerState

from tallystick.server.fast_path.http import Call, ShortCut, Way
from tallystick.server.protocol import Protocol


class Counted:
    """The short cut, and how far requests came in it."""

    def __init__(self, short_cut: ShortCut) -> None:
        self._short_cut = short_cut
        self.body_bytes_max = short_cut.body_bytes_max
        self.admitted = 0
        self.taken = 0

    def way(self, scope: Scope) -> Way | None:
        way = self._short_cut.way(scope)
        return way and msgspec.structs.replace(way, begin=lambda *given: self._begin(way, *given))

    def admit(self, way: Way) -> Scope | None:
        admitted = self._short_cut.admit(way)
        self.admitted += admitted is not None
        return admitted

    def _begin(self, way: Way, admitted: Scope, body: bytes) -> Call | None:
        call = way.begin(admitted, body)
        self.taken += call is not None
        return call


class Served:
    def __init__(self, app: Starlette, **settings: Any) -> None:
        self._config = uvicorn.Config(app, ws="none", log_config=None, access_log=False, **settings)
        self._config.load()
        self.state = ServerState()
        self.state.default_headers = [(b"date", b"today")]
        self.short_cut = Counted(app.state.short_cut)

    def connect(self, *, short: bool = True) -> Connection:
        """Without `short` all of it is uvicorn's."""
        protocol = Protocol(
            config=self._config,
            server_state=self.state,
            app_state={},
            _loop=asyncio.get_running_loop(),
            short_cut=cast(ShortCut, self.short_cut) if short else None,
        )
        return Connection(protocol)


@asynccontextmanager
async def running(app: Starlette, **settings: Any) -> AsyncIterator[Served]:
    async with app.router.lifespan_context(app):
        served = Served(app, **settings)
        yield served
        for protocol in list(served.state.connections):
            cast(Protocol, protocol).connection_lost(None)


class Connection:
    """The client's end, and the transport of the server's."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.heard = b""
        self.is_closed = False
        self._is_paused = False
        self._unread: list[bytes] = []
        self._change = asyncio.Event()
        protocol.connection_made(cast(asyncio.Transport, self))

    # -- for tests

    def say(self, *packets: bytes) -> None:
        for packet in packets:
            if self.is_closed:
                return
            if self._is_paused:
                self._unread.append(packet)
            elif packet:
                self.protocol.data_received(packet)

    async def hear(self, answers: int) -> bytes:
        """What was said once there are so many answers, or the connection is closed."""
        while count_answers(self.heard) < answers and not self.is_closed:
            self._change.clear()
            await self._change.wait()
        return self.heard

    async def closed(self) -> bytes:
        return await self.hear(1_000_000)

    def drop(self) -> None:
        self.is_closed = True
        self.protocol.connection_lost(ConnectionResetError())

    # -- for the protocol

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.heard += data
        self._change.set()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._change.set()
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        asyncio.get_running_loop().call_soon(self._deliver)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": ("127.0.0.1", 80), "peername": ("127.0.0.1", 1)}.get(name, default)

    def _deliver(self) -> None:
        while self._unread and not self._is_paused and not self.is_closed:
            self.protocol.data_received(self._unread.pop(0))


_STATUS = re.compile(rb"HTTP/1\.1 (\d+)[^\r]*\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


def count_answers(heard: bytes) -> int:
    """Whole ones; `100 Continue` is none."""
    count = at = 0
    while (end := heard.find(b"\r\n\r\n", at)) >= 0:
        status = _STATUS.match(heard, at)
        assert status is not None, heard[at : at + 200]
        length = _LENGTH.search(heard, at, end + 2)
        if status[1] == b"100":
            at = end + 4
            continue
        at = end + 4 + (int(length[1]) if length else 0)
        if at > len(heard):
            break
        count += 1
    return count
