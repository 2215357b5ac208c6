"""The door on stdio: one client on two pipes, from its first line to its last.

What is plain is answered here (`fast_path`). The SDK is loaded when something else is asked, told
what was said before, and answers from then on whatever the fast path declines.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import orjson

from tallystick.server import Offer
from tallystick.server.fast_path import cancel_key
from tallystick.server.fast_path.handshake import Handshake, is_plain_envelope
from tallystick.server.fast_path.stdio import StdioFastPath
from tallystick.server.jsonrpc import Lines, Overlong, WireFault, parse_message
from tallystick.server.stdio_streams import StdinReader, StdoutWriter, claimed_stdio
from tallystick.system.processes import client_tag

if TYPE_CHECKING:
    from tallystick.server.mcp import Peer

DRAIN_SECONDS = 5.0


async def serve_stdio(offer: Offer) -> None:
    """Serve this process's stdin and stdout until stdin ends, the client is gone, or SIGINT or SIGTERM."""
    with claimed_stdio() as (source, sink):
        await serve_pipes(offer, source, sink)


async def serve_pipes(
    offer: Offer, source: int, sink: int, *, drain_seconds: float = DRAIN_SECONDS, fast_path: bool = True
) -> None:
    """What was asked before the end is still answered, for at most `drain_seconds`.

    Without the `fast_path` the SDK answers everything.
    """
    stdin_reader, stdout_writer = StdinReader(source), StdoutWriter(sink)
    client = _Client(offer, stdout_writer, fast_path=fast_path)

    async def read() -> None:
        async for message in _messages(stdin_reader, stdout_writer, limit=offer.line_bytes_max):
            await client.hear(message)
        await client.drain(drain_seconds)
        await client.end()

    try:
        with suppress(_ClientGone), _stopping(stdin_reader.stop):
            await _together(read, client.answer_by_sdk, client.answer_by_fast_path)
    finally:
        client.leave()


class _Client:
    """Who answers what."""

    def __init__(self, offer: Offer, stdout_writer: StdoutWriter, *, fast_path: bool) -> None:
        self._offer = offer
        self._outlet = stdout_writer
        self._asked = _Asked()
        self._session = offer.sessions.begin(client_tag=client_tag())
        self._fast_path = StdioFastPath(
            offer,
            deliver=self._deliver,
            answered=self._asked.see_reply,
            envelope=is_plain_envelope,
            session=self._session,
        )
        self._has_fast_path = fast_path
        self._handshake = Handshake(offer, self._fast_path) if fast_path else None
        self._peer: asyncio.Future[Peer | None] = asyncio.get_running_loop().create_future()
        """The SDK's side, or None when the conversation ended without it."""

    async def hear(self, message: dict[str, Any]) -> None:
        self._asked.see_request(message)
        if self._handshake is not None and self._handshake.takes(message):
            return
        peer = self._peer.result() if self._peer.done() else await self._call_sdk()
        assert peer is not None
        if not (self._has_fast_path and self._fast_path.takes(message)):
            await peer.hear(message)

    async def answer_by_sdk(self) -> None:
        peer = await self._peer
        if peer is None:
            return
        try:
            await _together(peer.serve, peer.write)
        finally:
            peer.end()

    async def answer_by_fast_path(self) -> None:
        await self._fast_path.watch()

    async def drain(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._asked.all_answered()

    async def end(self) -> None:
        if not self._peer.done():
            self._peer.set_result(None)
        peer = self._peer.result()
        if peer is not None:
            peer.end()
        await self._fast_path.close()

    def leave(self) -> None:
        """However the conversation ended: nobody goes on with what was claimed in it."""
        self._offer.sessions.end(self._session)

    async def _call_sdk(self) -> Peer:
        # In a thread, since it takes a while: whoever is being served meanwhile should not wait for it.
        peer = (await asyncio.to_thread(_load_peer))(
            self._offer, deliver=self._deliver, answered=self._asked.see_reply, fast_path=self._fast_path
        )
        self._peer.set_result(peer)
        if self._handshake is not None:
            await peer.catch_up(self._handshake.replay())
            self._handshake = None
        return peer

    async def _deliver(self, message: bytes) -> None:
        try:
            await self._outlet.post(message + b"\n")
        except OSError:
            raise _ClientGone from None


def _load_peer() -> type[Peer]:
    from tallystick.server.mcp import Peer

    return Peer


async def _messages(
    stdin_reader: StdinReader, stdout_writer: StdoutWriter, *, limit: int
) -> AsyncIterator[dict[str, Any]]:
    """The good messages; the bad ones are answered here and now."""
    lines = Lines(limit)
    async for chunk in stdin_reader:
        for message in _understood(lines.feed(chunk), stdout_writer):
            yield message
    for message in _understood(lines.close(), stdout_writer):
        yield message


def _understood(lines: list[bytes | Overlong], stdout_writer: StdoutWriter) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            if isinstance(line, Overlong):
                raise line.fault()
            yield parse_message(line)
        except WireFault as fault:
            # Not awaited: a client that reads nothing until it has written everything must not stop us reading.
            stdout_writer.post(orjson.dumps(fault.reply()) + b"\n")


class _ClientGone(Exception):
    """Nobody reads our stdout any more."""


class _Asked:
    """The requests that are still to be answered."""

    def __init__(self) -> None:
        self._ids: set[str | int] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def see_request(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            return
        if "id" in message:
            self._ids.add(cancel_key(message["id"]))
            self._none_left.clear()
        elif message["method"] == "notifications/cancelled":
            self.see_reply((message.get("params") or {}).get("requestId"))

    async def all_answered(self) -> None:
        await self._none_left.wait()

    def see_reply(self, id: Any) -> None:
        if type(id) in (str, int):  # not True, which is no id though it equals one
            self._ids.discard(cancel_key(id))
        if not self._ids:
            self._none_left.set()


async def _together(*jobs: Callable[[], Any]) -> None:
    """All of them, until all are done; the first failure ends the rest and is raised as itself."""
    tasks = [asyncio.ensure_future(job()) for job in jobs]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _stopping(stop: Callable[[], None]) -> Iterator[None]:
    """While inside, the signals that ask a process to end call `stop`, where the platform allows."""
    loop = asyncio.get_running_loop()
    caught: list[signal.Signals] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, stop)
            caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
