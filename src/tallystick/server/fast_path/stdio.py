"""The fast path over stdio: once it is settled how the client speaks, plain calls go past the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson

from tallystick.server import NOBODY, Client, Offer
from tallystick.server.dispatch import Outcome, call
from tallystick.server.fast_path import Era, PlainCall, cancel_key, find_call, write_reply
from tallystick.server.jsonrpc import error_reply
from tallystick.server.progress import Begun, begin, notification, telling
from tallystick.telemetry import tracing

CONNECTION_CLOSED = -32000


class StdioFastPath:
    """Belongs to one connection. `deliver` writes one message, and raises when the client is gone."""

    def __init__(
        self,
        offer: Offer,
        *,
        deliver: Callable[[bytes], Awaitable[None]],
        answered: Callable[[str | int], None],
        envelope: Callable[[bytes], bool],
        session: str | None = None,
    ) -> None:
        self._offer = offer
        self.client = NOBODY if session is None else Client(session=session)
        self._deliver = deliver
        self._answered = answered
        self.envelope = envelope
        """Judges what a request of the modern era says of itself."""
        self._era: Era | None = None
        self._running: dict[str | int, asyncio.Task[None]] = {}
        self._unbegun: set[str | int] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing = False

    def introduced(self, era: Era, name: str | None) -> None:
        """It is settled how the client speaks, and what it calls itself unless a request says otherwise."""
        self._era = era
        if name != self.client.name:
            self.client = Client(name, self.client.session)

    def begun(self, id: str | int | None) -> None:
        """The SDK has begun with a request that went to it, or is done with it."""
        if id is not None:
            self._unbegun.discard(id)

    def takes(self, message: dict[str, Any]) -> bool:
        """Whether it is answered here. Everything must be shown to it, in the order in which it came."""
        plain = None
        if self._era is not None and not self._unbegun:
            # While the SDK has yet to begin with what came before, nothing may overtake it.
            envelope = self.envelope if self._era.is_modern else None
            plain = find_call(message, self._offer.tools, envelope, asks=self._offer.confirms)
        if plain is not None:
            self.serve(plain.id, partial(self._reply, plain, self._era or Era()))
        elif message.get("method") == "notifications/cancelled":
            self._cancel((message.get("params") or {}).get("requestId"))
        elif "method" in message and "id" in message:
            self._unbegun.add(message["id"])
        return plain is not None

    def serve(self, id: str | int, reply: Callable[[], Awaitable[bytes]]) -> None:
        """Deliver the reply when it is there. Until then the request can be cancelled."""
        self._running[cancel_key(id)] = asyncio.create_task(self._serve(id, reply))

    async def watch(self) -> None:
        """Until `close`. Raises what `deliver` raised."""
        await self._failed

    async def close(self) -> None:
        """Whoever still waits is told that there will be no answer."""
        self._closing = True
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if not self._failed.done():
            self._failed.set_result(None)

    def _cancel(self, id: Any) -> None:
        """One who was cancelled gets no answer."""
        if isinstance(id, str | int) and not isinstance(id, bool):
            self._unbegun.discard(id)
            running = self._running.get(cancel_key(id))
            if running is not None:
                running.cancel()

    async def _serve(self, id: str | int, reply: Callable[[], Awaitable[bytes]]) -> None:
        try:
            await self._deliver(await reply())
            self._answered(id)
        except Exception as error:
            if not self._failed.done():
                self._failed.set_exception(error)
        finally:
            key = cancel_key(id)
            if self._running.get(key) is asyncio.current_task():
                del self._running[key]

    async def _reply(self, plain: PlainCall, era: Era) -> bytes:
        offer, entry = self._offer, plain.entry
        if tracing.tracer is not None:
            tracing.arrive()
        client = self.client if plain.client is None else Client(plain.client, self.client.session)
        work = call(entry, plain.arguments, offer.store, lambda: offer.caller(None, entry.tool, client))
        try:
            outcome = begin(work)
            if isinstance(outcome, Begun):
                outcome = await self._told(outcome, plain.progress_token)
        except asyncio.CancelledError:
            if not self._closing:
                raise
            return orjson.dumps(error_reply(plain.id, CONNECTION_CLOSED, "Connection closed"))
        return write_reply(offer, plain, outcome, era)[1]

    def _told(self, work: Begun[Outcome], token: str | int | None) -> Awaitable[Outcome]:
        if token is None:
            return work

        async def tell(seconds: float, words: str) -> None:
            await self._deliver(notification(token, seconds, words))

        return telling(work, tell)
