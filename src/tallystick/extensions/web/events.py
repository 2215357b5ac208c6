"""What arrives, as it arrives: commits that the visitor may read, as server-sent events.

The log is followed once for all streams of a visitor, from the first to the last of them: where nobody listens nothing
is done. What waits for a stream is bounded, and shared with the others; who reads too slowly is told that something
was left out. A stream ends after some minutes, and browsers come back, so that who they are is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tallystick.commits import EDGE_VERBS, Commit
from tallystick.commits.payloads import read_edge
from tallystick.engine.store import Store
from tallystick.errors import InvalidArgument, LimitExceeded, TallystickError
from tallystick.extensions.web.actors import ActorKinds, Kind
from tallystick.extensions.web.addresses import entity_address
from tallystick.extensions.web.commit_rows import CommitRow, commit_row
from tallystick.extensions.web.drawing import initials
from tallystick.extensions.web.security import HEADERS
from tallystick.extensions.web.visit import Visit
from tallystick.log import Entry
from tallystick.operations.log_tail import find_created
from tallystick.policy import Principal

logger = logging.getLogger(__name__)

PATH = "/events"
WAITING_MAX = 64
"""Of one stream: what was not sent yet, and what it missed before it began."""
HEARTBEAT_SECONDS = 15.0
"""So that both sides notice when the other is gone."""
LOOK_SECONDS = 1.0
"""Between two looks whether the visitor logged out through another process."""
STREAM_SECONDS = 600.0
_POSITION_MAX = 10**18
_RETRY = b"retry: 5000\n\n"
_HEARTBEAT = b": still here\n\n"
_MISSED = b"event: missed\ndata: {}\n\n"
_HEADERS = [
    (name.lower().encode(), value.encode())
    for name, value in {
        **HEADERS,
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "private, no-store, no-transform",
        "X-Accel-Buffering": "no",
    }.items()
]


class Arrival(msgspec.Struct, frozen=True):
    """What one event says."""

    commit: CommitRow
    type: str | None
    """Of the entity, or the relation; None for what was deleted or redacted."""
    address: str
    """Of the entity, now."""
    initials: str
    """Of the author."""
    kind: Kind | None
    """Of the author; None where nobody knows."""
    moment: str
    """Of the entity, as it was by this commit."""


class Message(msgspec.Struct, frozen=True):
    position: int
    data: bytes


class Events:
    """All streams of one server."""

    def __init__(self, store: Store, kinds_in: Callable[[str], ActorKinds], *, streams_max: int) -> None:
        """Half of them are for one caller at most."""
        self._store = store
        self._kinds_in = kinds_in
        self._streams_max = streams_max
        self._by_caller: Counter[tuple[str, str]] = Counter()
        self._feeds: dict[Principal, Feed] = {}
        self._by_session: dict[str, set[Stream]] = {}
        """Of visitors who logged in."""
        self._is_closed = False

    async def open(self, visit: Visit) -> Response:
        """Raises Denied, InvalidArgument, and LimitExceeded."""
        principal = msgspec.structs.replace(visit.principal, session=None)
        caller = principal.tenant, principal.actor
        self._check(caller)
        self._by_caller[caller] += 1
        stream = Stream()
        feed = self._feeds.get(principal)
        if feed is None:
            feed = self._feeds[principal] = Feed(self._store, principal, self._kinds_in(principal.tenant))
        feed.add(stream)
        of_session = self._by_session.setdefault(visit.session, set())
        of_session.add(stream)

        def leave() -> None:
            of_session.discard(stream)
            if not of_session and self._by_session.get(visit.session) is of_session:
                del self._by_session[visit.session]
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
            feed.remove(stream)
            if not feed and self._feeds.get(principal) is feed:
                del self._feeds[principal]

        try:
            after = _after(visit, await _position(self._store, principal))
            # What was written between the page and its stream; the feed is joined already, so there is no gap.
            stream.begin(after, await feed.missed(after))
        except BaseException:
            leave()
            raise
        sessions = visit.context.offer.sessions
        return EventStream(stream, leave, lambda: bool(visit.session) and sessions.has_ended(visit.session))

    def end_session(self, session: str) -> None:
        """Its visitor logged out: pages that are still open hear nothing more."""
        for stream in self._by_session.get(session, ()):
            stream.end()

    def close(self) -> None:
        """The server ends: so do all streams, and there will be no others."""
        self._is_closed = True
        for feed in list(self._feeds.values()):
            feed.end()

    @property
    def listening(self) -> int:
        return self._by_caller.total()

    def _check(self, caller: tuple[str, str]) -> None:
        is_full = self._by_caller.total() >= self._streams_max
        if self._is_closed or is_full or self._by_caller[caller] >= max(1, self._streams_max // 2):
            raise LimitExceeded(
                "too many pages are listening for what arrives", code="RATE_LIMITED", hint="close some of them"
            )


class Feed:
    """The commits that one caller may read, handed to all their streams."""

    def __init__(self, store: Store, principal: Principal, kinds: ActorKinds) -> None:
        self._store = store
        self._principal = principal
        self._kinds = kinds
        self._streams: dict[Stream, None] = {}
        self._following: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: Stream) -> None:
        self._streams[stream] = None
        if self._following is None:
            self._following = asyncio.create_task(self._follow(), name="web events")

    def remove(self, stream: Stream) -> None:
        self._streams.pop(stream, None)
        if not self._streams and self._following is not None:
            self._following.cancel()
            self._following = None

    def end(self) -> None:
        for stream in self._streams:
            stream.end()

    async def missed(self, after: int) -> list[Message]:
        """At most one more than fits, by which it is known that something is left out."""
        entries: AsyncGenerator[Entry] = self._store.commits(self._principal, after=after)
        found: list[Message] = []
        async with aclosing(entries):
            async for entry in entries:
                found.append(await self._message_of(entry))
                if len(found) > WAITING_MAX:
                    break
        return found

    async def _message_of(self, entry: Entry) -> Message:
        created = await find_created(self._store, self._principal, [entry.commit])
        return message_of(entry, await self._kinds.learn(entry.commit.actor), is_new=bool(created))

    async def _follow(self) -> None:
        try:
            async with aclosing(self._store.watch(self._principal)) as entries:
                async for entry in entries:
                    message = await self._message_of(entry)
                    for stream in self._streams:
                        stream.put(message)
        except TallystickError as error:
            logger.info("what arrives cannot be followed: %s", error.message)
        except Exception:
            logger.exception("what arrives cannot be followed")
        # A policy that says no may say yes again: browsers come back, and are told then.
        self.end()


class Stream:
    """What waits to be sent to one page."""

    __slots__ = ("_is_over", "_left_out", "_position", "_waiting", "_wake")

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque(maxlen=WAITING_MAX)
        self._left_out = False
        self._position = 0
        self._is_over = False
        self._wake = asyncio.Event()

    def begin(self, position: int, missed: list[Message]) -> None:
        """What the feed brought meanwhile may be among these."""
        arrived = list(self._waiting)
        self._waiting.clear()
        self._position = position
        if len(missed) > WAITING_MAX:
            missed, self._left_out = [], True
            self._wake.set()
        for message in [*missed, *arrived]:
            self.put(message)

    def put(self, message: Message) -> None:
        if message.position <= self._position:
            return
        self._position = message.position
        self._left_out = self._left_out or len(self._waiting) == WAITING_MAX
        self._waiting.append(message)
        self._wake.set()

    def end(self) -> None:
        self._is_over = True
        self._wake.set()

    async def take(self, has_ended: Callable[[], bool] = lambda: False) -> bytes | None:
        """All that waits; a heartbeat where nothing came for long; None at the end, which `has_ended` may bring."""
        looks = max(1, round(HEARTBEAT_SECONDS / LOOK_SECONDS))
        for _ in range(looks):
            if self._wake.is_set() or has_ended():
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS / looks):
                    await self._wake.wait()
        if self._is_over or has_ended():
            return None
        self._wake.clear()
        said = _MISSED if self._left_out else b""
        said += b"".join(each.data for each in self._waiting)
        self._waiting.clear()
        self._left_out = False
        return said or _HEARTBEAT


class EventStream(Response):
    def __init__(self, stream: Stream, leave: Callable[[], None], has_ended: Callable[[], bool]) -> None:
        """`has_ended` returns whether its visitor logged out, by any process: it is called before each event, and every
        second."""
        super().__init__()
        self._stream = stream
        self._leave = leave
        self._has_ended = has_ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            self._stream.end()
        leaving = asyncio.create_task(self._until_left(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
            await send({"type": "http.response.body", "body": _RETRY, "more_body": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(STREAM_SECONDS):
                    while (data := await self._stream.take(self._has_ended)) is not None:
                        await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()
            self._leave()

    async def _until_left(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._stream.end()


def message_of(entry: Entry, kind: Kind | None, *, is_new: bool) -> Message:
    row = commit_row(entry.commit, is_new=is_new)
    said = Arrival(
        commit=row,
        type=_type_of(entry.commit),
        address=entity_address(row.entity_id),
        initials=initials(row.actor),
        kind=kind,
        moment=entity_address(row.entity_id, as_of=row.position),
    )
    data = b"id: %d\nevent: commit\ndata: %b\n\n" % (row.position, msgspec.json.encode(said))
    return Message(row.position, data)


def _type_of(commit: Commit) -> str | None:
    if commit.operation in EDGE_VERBS:
        return read_edge(commit.payload).rel
    return commit.document().get("type")


def _after(visit: Visit, position: int) -> int:
    """Up to where the page knows the log; a browser that comes back says so by itself."""
    last = visit.request.headers.get("last-event-id", "")
    if last:
        if not (last.isascii() and last.isdigit() and len(last) < 19):
            raise InvalidArgument("the header 'Last-Event-ID' must be a position")
        return min(int(last), position)
    return min(visit.number("after", position, most=_POSITION_MAX), position)


async def _position(store: Store, principal: Principal) -> int:
    await store.partition(principal)
    return store.position(principal)
