"""The NATS client, on an event loop in a thread of its own: any thread may ask it, and waits for the answer.

Nothing is kept while there is no connection: a request then fails at once and was not sent.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.extensions.cluster.credentials import read_credentials, read_nkey
from tallystick.extensions.cluster.messages import Message

if TYPE_CHECKING:
    from nats.aio.client import Client as NatsClient
    from nats.aio.msg import Msg

T = TypeVar("T")
CONNECT_SECONDS = 2
RECONNECT_SECONDS = 0.25
PING_SECONDS = 2
PINGS_MAX = 2
_MARGIN_SECONDS = 5.0
"""How much longer than its own time-out a request is waited for: only for a loop that is too busy."""

_DENIED = re.compile(r'permissions violation for publish to "([^"]+)"', re.IGNORECASE)

logger = logging.getLogger(__name__)


class NoAnswer(Exception):
    """`was_sent` tells whether a server may have got it all the same."""

    def __init__(self, why: str, *, was_sent: bool) -> None:
        super().__init__(why)
        self.was_sent = was_sent


class Forbidden(NoAnswer):
    """The servers do not let us publish there: it was not stored."""


class Servers(msgspec.Struct, frozen=True):
    """Where the servers are, and who we are to them."""

    urls: tuple[str, ...]
    credentials: Path | None = None
    nkey: Path | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None


class Client:
    def __init__(self, servers: Servers, *, name: str) -> None:
        """Raises InvalidArgument where nats-py is missing or a file cannot be used. Connects in the background."""
        try:
            from nats.aio.client import Client as NatsClient
        except ImportError as error:
            raise InvalidArgument(
                "a log on NATS needs the package nats-py",
                code="EXTRA_MISSING",
                hint="install it with: pip install 'tallystick[cluster]'",
            ) from error
        self._make: Callable[[], NatsClient] = NatsClient
        self._nats: NatsClient = NatsClient()
        self._options = _connect_options(servers, name)
        self._subscribed: list[tuple[str, Callable[[Message], None]]] = []
        self._reconnects_before = 0
        """Those of connections that servers have ended for good."""
        self._denied: dict[str, float] = {}
        """Subject → when it was last said that we may not publish there."""
        self._loop = _new_loop()
        self._connected = threading.Event()
        self._is_closing = False
        self.problem = "not connected yet"
        """Why there is no connection."""
        self._thread = threading.Thread(target=self._run, name="nats", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._stay_connected(), self._loop)

    # -- from any thread but its own

    @property
    def is_connected(self) -> bool:
        return self._nats.is_connected

    @property
    def reconnects(self) -> int:
        return self._reconnects_before + int(self._nats.stats["reconnects"])

    @property
    def payload_bytes_max(self) -> int:
        return self._nats.max_payload

    @property
    def server_version(self) -> tuple[int, int]:
        version = self._nats.connected_server_version
        return version.major, version.minor

    def wait(self, seconds: float) -> bool:
        """Whether it was connected in time."""
        return self._connected.wait(seconds) and self.is_connected

    def request(
        self, subject: str, data: bytes = b"", *, headers: Mapping[str, str] | None = None, seconds: float
    ) -> Message:
        """Raises NoAnswer."""
        return self._ask(lambda: self._request(subject, data, headers, seconds), seconds)

    def gather(self, subject: str, data: bytes, *, seconds: float) -> list[Message]:
        """All answers up to the one that says that there are no more. Raises NoAnswer."""
        return self._ask(lambda: self._gather(subject, data, seconds), seconds * 2)

    def survey(self, subject: str, *, seconds: float) -> list[Message]:
        """Return the answers that come in that time; none if the servers report no responder. Raises NoAnswer if there
        is one and none answers."""
        return self._ask(lambda: self._survey(subject, seconds), seconds * 2)

    def publish(self, subject: str, data: bytes = b"") -> None:
        """At most once, before whatever is asked afterwards. Returns at once; nobody says whether it arrived."""
        if self.is_connected:
            asyncio.run_coroutine_threadsafe(self._nats.publish(subject, data), self._loop)

    def subscribe(self, subject: str, heard: Callable[[Message], None]) -> None:
        """`heard` is called on the client's thread, must be quick and must not raise. Goes on over reconnections."""
        self._ask(lambda: self._subscribe(subject, heard), _MARGIN_SECONDS)

    def close(self) -> None:
        self._is_closing = True
        if not self._loop.is_running():
            return
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_MARGIN_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_MARGIN_SECONDS)

    # -- on its own

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _stay_connected(self) -> None:
        """The library gives up where servers end a connection with an error, as when a user is removed or expires,
        and does not always say so: who may not connect now may be allowed to later."""
        while not self._is_closing:
            try:
                await self._nats.connect(
                    **self._options,
                    error_cb=self._failed,
                    reconnected_cb=self._reconnected,
                    disconnected_cb=self._disconnected,
                )
                for subject, heard in self._subscribed:
                    await self._listen(subject, heard)
                self._connected.set()
                while not self._nats.is_closed:  # noqa: ASYNC110  # its callback is skipped where closing fails
                    await asyncio.sleep(RECONNECT_SECONDS)
                await self._failed(self._nats.last_error or ConnectionError("the servers ended the connection"))
            except Exception as error:
                self.problem = _reason(error)
                logger.error("there is no connection to NATS: %s", self.problem)
                await asyncio.sleep(RECONNECT_SECONDS)
            self._reconnects_before = self.reconnects + 1
            self._nats = self._make()

    async def _subscribe(self, subject: str, heard: Callable[[Message], None]) -> None:
        await self._listen(subject, heard)
        self._subscribed.append((subject, heard))

    async def _listen(self, subject: str, heard: Callable[[Message], None]) -> None:
        async def pass_on(message: Msg) -> None:
            heard(_message(message))

        await self._nats.subscribe(subject, cb=pass_on)

    async def _close(self) -> None:
        await self._nats.close()
        # Those of a connection that never came about are still trying.
        mine = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _failed(self, error: Exception) -> None:
        said = _reason(error)
        # A server that refuses us says why, and then the connection is gone: the former is worth telling.
        if not isinstance(error, ConnectionResetError | BrokenPipeError):
            self.problem = said
        if denied := _DENIED.search(said):
            self._denied[denied[1]] = self._loop.time()
        logger.info("NATS: %s", said)

    async def _disconnected(self) -> None:
        if not self._is_closing:
            logger.warning("the connection to NATS is lost: %s", self.problem)

    async def _reconnected(self) -> None:
        logger.warning("connected to NATS again")

    async def _request(self, subject: str, data: bytes, headers: Mapping[str, str] | None, seconds: float) -> Message:
        began = self._loop.time()
        try:
            answer = await self._nats.request(subject, data, timeout=seconds, headers=dict(headers or {}) or None)
        except TimeoutError:
            self._check_denied(subject, began)
            raise
        return _message(answer)

    def _check_denied(self, subject: str, began: float) -> None:
        """Raises Forbidden if the servers have refused to take a message for the subject since `began`."""
        # The library knows subjects in errors in lower case only.
        if self._denied.get(subject.lower(), 0.0) >= began:
            raise Forbidden(f"this user may not publish to {subject}", was_sent=False) from None

    async def _gather(self, subject: str, data: bytes, seconds: float) -> list[Message]:
        inbox = self._nats.new_inbox()
        subscription = await self._nats.subscribe(inbox)
        found: list[Message] = []
        try:
            await self._nats.publish(subject, data, reply=inbox)
            while True:
                answer = await subscription.next_msg(timeout=seconds)
                status = (answer.headers or {}).get("Status")
                if status == "503":
                    raise NoAnswer("no server answers for the stream", was_sent=False)
                if status is not None:
                    return found
                found.append(_message(answer))
        except TimeoutError:
            if not found:
                raise
            # They come in order: the first of them are worth having.
            return found
        finally:
            with suppress(Exception):
                await subscription.unsubscribe()

    async def _survey(self, subject: str, seconds: float) -> list[Message]:
        began = self._loop.time()
        inbox = self._nats.new_inbox()
        subscription = await self._nats.subscribe(inbox)
        found: list[Message] = []
        try:
            await self._nats.publish(subject, b"", reply=inbox)
            while True:
                answer = await subscription.next_msg(timeout=seconds)
                if (answer.headers or {}).get("Status") is not None:
                    return found
                found.append(_message(answer))
        except TimeoutError:
            if not found:
                self._check_denied(subject, began)
                raise
            return found
        finally:
            with suppress(Exception):
                await subscription.unsubscribe()

    def _ask(self, make: Callable[[], Awaitable[T]], seconds: float) -> T:
        from nats import errors

        if not self.is_connected:
            raise NoAnswer(f"there is no connection to NATS: {self.problem}", was_sent=False)
        asked: Future[T] = asyncio.run_coroutine_threadsafe(_awaited(make), self._loop)
        try:
            return asked.result(seconds + _MARGIN_SECONDS)
        except (errors.NoRespondersError, errors.OutboundBufferLimitError) as error:
            raise NoAnswer(_reason(error), was_sent=False) from None
        except (errors.Error, TimeoutError, OSError) as error:
            asked.cancel()
            raise NoAnswer(_reason(error), was_sent=True) from None


def _new_loop() -> asyncio.AbstractEventLoop:
    """Groups of commits come back to whoever wrote them, and this reads them for less: a twelfth more writes."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _awaited(make: Callable[[], Awaitable[T]]) -> T:
    return await make()


def _message(message: Msg) -> Message:
    headers = message.headers or {}
    return Message(
        subject=headers.get("Nats-Subject", message.subject),
        sequence=int(headers.get("Nats-Sequence", 0)),
        headers=headers,
        data=message.data,
        reply=message.reply,
    )


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _connect_options(servers: Servers, name: str) -> dict[str, Any]:
    options: dict[str, Any] = {
        "servers": list(servers.urls),
        "name": name,
        "connect_timeout": CONNECT_SECONDS,
        "reconnect_time_wait": RECONNECT_SECONDS,
        "max_reconnect_attempts": -1,
        "ping_interval": PING_SECONDS,
        "max_outstanding_pings": PINGS_MAX,
        # What could not be sent must not be sent later, when its caller was told otherwise.
        "pending_size": -1,
    }
    if servers.credentials is not None:
        options |= read_credentials(servers.credentials)
    if servers.nkey is not None:
        options |= read_nkey(servers.nkey)
    if any(url.startswith("tls://") for url in servers.urls) or servers.tls_ca or servers.tls_cert:
        options["tls"] = _tls_context(servers)
    return options


def _tls_context(servers: Servers) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=servers.tls_ca)
        if servers.tls_cert is not None:
            context.load_cert_chain(servers.tls_cert, servers.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgument(
            f"the certificates for NATS cannot be used: {error}",
            code="SETTING_INVALID",
            hint="log_tls_ca, log_tls_cert and log_tls_key name PEM files",
        ) from error
    return context
