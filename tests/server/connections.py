"""Connections to our protocol without a network: every packet is as the test cuts it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from tallystick.server.connections import Bounds, Connections
from tallystick.server.front import HttpFront
from tallystick.server.http_protocol import HttpProtocol


class Served:
    def __init__(self, app: ASGIApp, bounds: Bounds, *, http: Literal["httptools"] | None = None) -> None:
        """With `http` the protocol is uvicorn's own, to compare with."""
        self.config = uvicorn.Config(app, http=http or "auto", ws="none", log_config=None, access_log=False)
        self.config.load()
        self._is_ours = http is None
        self.state = ServerState()
        self.state.default_headers = [(b"date", b"today")]
        self.connections = Connections(bounds)
        self.opened: list[Connection] = []

    def connect(self) -> Connection:
        given: dict[str, Any] = {"config": self.config, "server_state": self.state, "app_state": {}}
        kind: Any = partial(HttpProtocol, self.connections) if self._is_ours else self.config.http_protocol_class
        protocol = kind(**given)
        self.opened.append(Connection(protocol))
        return self.opened[-1]


@asynccontextmanager
async def running(app: HttpFront, bounds: Bounds | None = None) -> AsyncIterator[Served]:
    async with app.run():
        served = Served(app, bounds or Bounds())
        yield served
        for connection in served.opened:
            connection.drop()


class Connection:
    """The client's end, and the transport of the server's."""

    def __init__(self, protocol: HttpProtocol) -> None:
        self.protocol = protocol
        self.packets: list[bytes] = []
        self.is_closed = False
        self.unread: list[bytes] = []
        self._is_paused = False
        self._change = asyncio.Event()
        protocol.connection_made(cast(asyncio.Transport, self))

    # -- for tests

    @property
    def heard(self) -> bytes:
        return b"".join(self.packets)

    def say(self, *packets: bytes) -> None:
        for packet in packets:
            if self._is_paused or self.unread:
                self.unread.append(packet)
            elif packet and not self.is_closed:
                self.protocol.data_received(packet)

    async def hear(self, answers: int) -> bytes:
        """What was said once there are so many answers, or the connection is closed."""
        while count_answers(self.heard) < answers and not self.is_closed:
            self._change.clear()
            await self._change.wait()
        return self.heard

    def drop(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.protocol.connection_lost(ConnectionResetError())

    # -- for the protocol

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.packets.append(data)
        self._change.set()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._change.set()
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

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
        while self.unread and not self._is_paused and not self.is_closed:
            self.protocol.data_received(self.unread.pop(0))


_STATUS = re.compile(rb"HTTP/1\.1 (\d+)[^\r]*\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


def statuses(heard: bytes) -> list[int]:
    """Of whole answers; `100 Continue` is none."""
    found: list[int] = []
    at = 0
    while (end := heard.find(b"\r\n\r\n", at)) >= 0:
        status = _STATUS.match(heard, at)
        assert status is not None, heard[at : at + 200]
        length = _LENGTH.search(heard, at, end + 2)
        at = end + 4 + (int(length[1]) if length else 0)
        if at > len(heard):
            break
        if status[1] != b"100":
            found.append(int(status[1]))
    return found


def count_answers(heard: bytes) -> int:
    return len(statuses(heard))
