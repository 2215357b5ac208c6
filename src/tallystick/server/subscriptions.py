"""Subscriptions: a client is told that a resource changed, whichever process wrote it.

One follower a client, from its first wish to its last: who subscribes to nothing costs nothing. Of the log it sees
what the caller may read, so nothing hidden can be noticed by the silence or noise around it. What waits to be told is
a set of what was subscribed to, so a client that reads slowly, or not at all, holds no more than that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

import msgspec
import orjson

from tallystick.commits import Commit
from tallystick.commits.payloads import name_of_edge
from tallystick.errors import LimitExceeded, TallystickError
from tallystick.policy import Action, Principal
from tallystick.server import Offer
from tallystick.server.resources import Address, Caller, NoSuchResource, ResourceBroken, Resources, parse_uri

logger = logging.getLogger(__name__)

SUBSCRIPTIONS_MAX = 1_000
"""Of one client."""
COMPARED_MAX = 50
"""Of these, works and knowledge: they are read again to see whether they changed."""
STREAMS_MAX = 128
STREAMS_PER_CALLER_MAX = 32
_GATHER_SECONDS = 0.05
_COMPARE_SECONDS = 1.0
_REST = 10
"""Comparing takes at most one part in so many of the time."""
_RETRY_SECONDS = 5.0

UPDATED = "notifications/resources/updated"
LIST_CHANGED = "notifications/resources/list_changed"
Send = Callable[[str, dict[str, Any]], Awaitable[None]]
"""Called with a method and its params."""


class Subscriber:
    """What one client wants to be told of, and who tells it. Used on the loop; `send` may raise when it is gone."""

    def __init__(self, offer: Offer, resources: Resources, send: Send) -> None:
        self._offer = offer
        self._resources = resources
        self._send = send
        self._entities: dict[str, set[str]] = {}
        """By id: the URIs that it was subscribed to by."""
        self._compared: dict[str, bytes | None] = {}
        """By URI: what it was when it was last looked at; None before that."""
        self._watches_list = False
        self._listed: bytes | None = None
        self._changed: dict[str, None] = {}
        self._is_moved = False
        self._wake = asyncio.Event()
        self._principal: Principal | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def subscribe(self, uri: str, caller: Caller) -> None:
        """From the answer on every change is told. Raises NoSuchResource for what can be no resource here, and
        LimitExceeded. What is not there yet may come."""
        if uri in self:
            return
        address = self._checked(uri)
        await self.begin(caller)
        if address.kind == "entity":
            self._entities.setdefault(address.name, set()).add(uri)
        else:
            self._compared[uri] = None
            now = await self._digest(uri)
            if uri in self._compared:
                self._compared[uri] = now

    async def watch_list(self, caller: Caller, page: dict[str, Any]) -> None:
        """From now on it is told when the list is another than on this page, the first one."""
        self._watches_list = True
        self._listed = _list_digest(page)
        await self.begin(caller)

    def relisted(self, page: dict[str, Any]) -> None:
        """It has seen this page, the first one."""
        self._listed = _list_digest(page)

    @property
    def watches_list(self) -> bool:
        return self._watches_list

    def unsubscribe(self, uri: str) -> None:
        address = parse_uri(uri)
        self._compared.pop(uri, None)
        self._changed.pop(uri, None)
        if address is not None and address.name in self._entities:
            self._entities[address.name].discard(uri)
            if not self._entities[address.name]:
                del self._entities[address.name]
        if not len(self):
            self._watches_list = False
            self.close()

    def __contains__(self, uri: str) -> bool:
        address = parse_uri(uri)
        return uri in self._compared or (address is not None and uri in self._entities.get(address.name, ()))

    def __len__(self) -> int:
        return len(self._compared) + sum(map(len, self._entities.values()))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    async def wait(self) -> None:
        """Until it is closed, or the client is gone."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    # -- below

    def _checked(self, uri: str) -> Address:
        address = parse_uri(uri)
        if address is None or not self._resources.offers(address.kind):
            raise NoSuchResource
        if len(self) >= SUBSCRIPTIONS_MAX:
            raise LimitExceeded(f"a client may have at most {SUBSCRIPTIONS_MAX} subscriptions")
        if address.kind != "entity" and len(self._compared) >= COMPARED_MAX:
            raise LimitExceeded(f"a client may subscribe to at most {COMPARED_MAX} projects and paths")
        return address

    async def begin(self, caller: Caller) -> None:
        """Follow the log, if it is not followed yet."""
        if self._principal is None:
            self._principal = caller(self._resources.first_tool())
        if not self._tasks:
            self._tasks = [asyncio.create_task(self._lasting(self._tell()))]
            after = await self._position(self._principal)
            self._tasks.append(asyncio.create_task(self._lasting(self._follow(after))))

    async def _lasting(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            # Whoever reads no more is not told why it hears no more.
            logger.debug("a subscriber is gone", exc_info=True)
            self.close()

    async def _position(self, principal: Principal) -> int | None:
        """Where the log stands for whoever reads it now; None where that may not be known."""
        try:
            return await self._offer.store.read(principal, Action.SEARCH, lambda state, read_filter: state.position)
        except TallystickError:
            return None

    async def _follow(self, after: int | None) -> None:
        assert self._principal is not None
        while True:
            try:
                async for entry in self._offer.store.watch(self._principal, after=after):
                    after = entry.commit.lamport
                    self._note(entry.commit)
            except TallystickError as error:
                # A policy that says no may say yes again, and so may a disk.
                logger.info("changes cannot be followed: %s", error.message)
            await asyncio.sleep(_RETRY_SECONDS)

    def _note(self, commit: Commit) -> None:
        said = commit.document()
        names = (
            (said["from"], said["to"], name_of_edge(said)) if "from" in said else (said.get("node_id") or said["id"],)
        )
        for name in names:
            self._changed.update(dict.fromkeys(self._entities.get(name, ())))
        self._is_moved = True
        self._wake.set()

    async def _tell(self) -> None:
        loop = asyncio.get_running_loop()
        compare_at = 0.0
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            self._wake.clear()
            changed, self._changed = self._changed, {}
            for uri in changed:
                await self._send(UPDATED, {"uri": uri})
            if not self._is_moved or not (self._compared or self._watches_list):
                continue
            await asyncio.sleep(max(0.0, compare_at - loop.time()))
            started = loop.time()
            self._is_moved = False
            await self._compare()
            compare_at = loop.time() + max(_COMPARE_SECONDS, _REST * (loop.time() - started))

    async def _compare(self) -> None:
        for uri in list(self._compared):
            now = await self._digest(uri)
            before = self._compared.get(uri)
            if uri in self._compared:
                self._compared[uri] = now
                if before is not None and before != now:
                    await self._send(UPDATED, {"uri": uri})
        if self._watches_list:
            with suppress(TallystickError):
                before, self._listed = self._listed, _list_digest(await self._resources.page(self._call_as))
                if before != self._listed:
                    await self._send(LIST_CHANGED, {})

    async def _digest(self, uri: str) -> bytes:
        try:
            read = await self._resources.read(self._call_as, uri)
            return sha256(read["contents"][0]["text"].encode()).digest()
        except (NoSuchResource, ResourceBroken, TallystickError):
            return b"-"

    def _call_as(self, entry: Any) -> Principal:
        """Without being counted against the quota: nobody asked."""
        assert self._principal is not None
        return msgspec.structs.replace(self._principal, tool=entry.tool.name)


class Streams:
    """How many clients are listening, so that they leave connections to others."""

    def __init__(self) -> None:
        self._by_caller: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def listening(self, principal: Principal) -> Iterator[None]:
        """Raises LimitExceeded."""
        who = principal.tenant, principal.actor
        if self._by_caller.total() >= STREAMS_MAX or self._by_caller[who] >= STREAMS_PER_CALLER_MAX:
            raise LimitExceeded("too many streams of notifications are open", hint="listen to several things by one")
        self._by_caller[who] += 1
        try:
            yield
        finally:
            self._by_caller[who] -= 1
            if not self._by_caller[who]:
                del self._by_caller[who]


def _list_digest(page: dict[str, Any]) -> bytes:
    """Of what is listed, in whatever order."""
    return sha256(orjson.dumps(sorted(each["uri"] for each in page["resources"]))).digest()
