"""The lineage feed: hands the OpenLineage events of commits on, to a file or to an endpoint.

Each place has a position of its own under `_system/lineage`. It moves when events were
received for good, so each arrives at least once and in order; after a crash or a lost
answer the last ones arrive again, the same to the letter.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from email.utils import parsedate_to_datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from tallystick.errors import InvalidArgument, StorageRefused, TallystickError
from tallystick.extensions.openlineage.events import Event, EventBuilder, KindOf, is_in_named_run, run_of
from tallystick.log import Entry, Head, head_after
from tallystick.projections.log_reader import LogReader
from tallystick.projections.worker import Backoff, trouble_of
from tallystick.system.private_files import make_directory, replace_file, sync_data, write_all

if TYPE_CHECKING:
    import httpx2

TOGETHER_COMMITS = 100
PATIENCE_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.5
_PAUSE_SECONDS_MAX = 30.0
_ANSWER_SECONDS = 30.0
_PIECE_BYTES = 1 << 16
_FIRST_LINE_BYTES = 64 << 10
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Where events go."""

    target: str
    """Names the place."""

    def send(self, events: Sequence[Event]) -> None:
        """Returns when they were received for good. Raises, and then any number of them were."""
        ...

    def close(self) -> None: ...


class Destination(msgspec.Struct, frozen=True):
    sink: Sink
    kind_of_other: KindOf


class LineageEmitter:
    """A projection that keeps nothing but its position. Whoever made the sink closes it."""

    def __init__(self, system: Path, log: LogReader, to: Destination) -> None:
        self.path = position_path(system, to.sink.target)
        self.name = f"lineage/{self.path.stem}"
        self.emitted = 0
        """Events handed on by this process."""
        self._log = log
        self._sink = to.sink
        self._kind_of_other = to.kind_of_other
        # Where it was at the end of what it told last: another process may have gone on since.
        self._telling: tuple[Head, EventBuilder] | None = None

    def position(self) -> Head:
        return _kept_at(self.path)

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        at = self.position()
        telling = self._telling_from(at)
        for some in _whole_drafts(entries, TOGETHER_COMMITS):
            self._telling = None
            events = [event for entry in some for event in telling.tell(entry.commit)]
            self._sink.send(events)
            self.emitted += len(events)
            at = head_after(some, at)
            self._keep(at)
            self._telling = (at, telling)

    def reset(self) -> None:
        """Everything is told again."""
        self._telling = None
        self.path.unlink(missing_ok=True)

    def close(self) -> None: ...

    def _telling_from(self, at: Head) -> EventBuilder:
        if self._telling is not None and self._telling[0] == at:
            return self._telling[1]
        return EventBuilder(self._kind_of_other, self._started_before(at))

    def _started_before(self, at: Head) -> Iterator[UUID]:
        """Runs that earlier processes started. Only the log knows them: it is read up to here, once."""
        if at == Head():
            return
        before = Head()
        while entries := self._log.drafts(before):
            for entry in entries:
                if entry.commit.lamport > at.lamport:
                    return
                if is_in_named_run(entry.commit):
                    yield run_of(entry.commit)
            before = head_after(entries, before)

    def _keep(self, head: Head) -> None:
        make_directory(self.path.parent)
        replace_file(self.path, msgspec.json.encode(_Kept(shown(self._sink.target), head)))


class _Kept(msgspec.Struct):
    target: str
    """For people who look."""
    head: Head


def standing(system: Path, target: str) -> tuple[Head, str | None]:
    """How far a place has got, and what keeps it from moving on."""
    path = position_path(system, target)
    trouble = trouble_of(path.with_suffix(".lock"))
    return _kept_at(path), trouble.problem if trouble else None


def position_path(system: Path, target: str) -> Path:
    return system / "lineage" / f"{sha256(target.encode()).hexdigest()[:16]}.position"


def _kept_at(path: Path) -> Head:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Kept).head
    except (FileNotFoundError, msgspec.MsgspecError):
        return Head()


def _whole_drafts(entries: Sequence[Entry], commits: int) -> Iterator[list[Entry]]:
    some: list[Entry] = []
    for entry in entries:
        some.append(entry)
        if entry.commit.ends_draft and len(some) >= commits:
            yield some
            some = []
    if some:
        yield some


# -- places


def sink_for(
    target: str,
    *,
    token: str | None = None,
    together: int = 1,
    patience_seconds: float = PATIENCE_SECONDS,
    pause: Callable[[float], None] = time.sleep,
) -> Sink:
    """A file, or an endpoint that takes POST: `together` events at a time, in an array when that is more than one."""
    scheme = urlsplit(target).scheme
    if scheme in ("http", "https"):
        return HttpSink(target, token=token, together=together, patience_seconds=patience_seconds, pause=pause)
    if "://" in target:
        raise InvalidArgument(
            f"events cannot be sent to '{scheme}:' addresses", hint="name a file, or an http or https address"
        )
    return FileSink(Path(target))


class SharedSink:
    """One place for the events of many tenants: they take turns, and while it is away none of them tries."""

    def __init__(self, sink: Sink, *, now: Callable[[], float] = time.monotonic) -> None:
        self.target = sink.target
        self._sink = sink
        self._now = now
        self._turn = threading.Lock()
        self._backoff = Backoff()
        self._away: tuple[float, TallystickError] | None = None

    def send(self, events: Sequence[Event]) -> None:
        with self._turn:
            if self._away is not None and (rest := self._away[0] - self._now()) > 0:
                error = self._away[1]
                raise TallystickError(error.message, code=error.code, details={"retry_after": rest}, hint=error.hint)
            try:
                self._sink.send(events)
            except TallystickError as error:
                if error.code == "LINEAGE_NOT_RECEIVED":
                    self._away = self._now() + self._backoff.failed(error.details["retry_after"]), error
                raise
            self._backoff.succeeded()
            self._away = None

    def close(self) -> None:
        # Who is at it has been left behind by the end of the process, which is not held up.
        if self._turn.acquire(blocking=False):
            self._sink.close()


class FileSink:
    """One event a line, appended. What a crash cut off in the middle of a line is taken off again and sent anew."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.target = str(self.path)
        self._fd = -1

    def send(self, events: Sequence[Event]) -> None:
        data = b"".join(msgspec.json.encode(event) + b"\n" for event in events)
        try:
            if self._fd < 0:
                self._fd = _opened_at_line_end(self.path)
            write_all(self._fd, data)
            sync_data(self._fd)
        except OSError as error:
            self.close()
            raise StorageRefused(f"{self.path} could not be written: {error.strerror}") from error

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class HttpSink:
    """One answer for each request: anything from 200 to 299 means received."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        together: int = 1,
        patience_seconds: float = PATIENCE_SECONDS,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.target = address
        self._together = together
        self._patience_seconds = patience_seconds
        self._pause = pause
        self._headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
        self._client: httpx2.Client | None = None

    def send(self, events: Sequence[Event]) -> None:
        for start in range(0, len(events), self._together):
            some = events[start : start + self._together]
            self._post(msgspec.json.encode(some if self._together > 1 else some[0]))

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _post(self, body: bytes) -> None:
        pause, waited = _FIRST_PAUSE_SECONDS, 0.0
        while True:
            problem, wish = self._try(body)
            if problem is None:
                return
            wait = min(max(pause, wish), _PAUSE_SECONDS_MAX)
            if waited + wait > self._patience_seconds:
                raise TallystickError(
                    f"{shown(self.target)} does not take events: {problem}",
                    code="LINEAGE_NOT_RECEIVED",
                    details={"retry_after": wish},
                    hint="what was received is kept in mind; run it again when the endpoint is back",
                )
            logger.warning("%s: %s; again in %.1f s", shown(self.target), problem, wait)
            self._pause(wait)
            waited, pause = waited + wait, pause * 2

    def _try(self, body: bytes) -> tuple[str | None, float]:
        """What stands against it, and for how many seconds it wants to be left alone. Raises when trying is no use."""
        import httpx2

        if self._client is None:
            self._client = httpx2.Client(timeout=_ANSWER_SECONDS, follow_redirects=False)
        try:
            answer = self._client.post(self.target, content=body, headers=self._headers)
        except httpx2.TransportError as error:
            return f"{type(error).__name__}: {error}", 0.0
        if 200 <= answer.status_code < 300:
            return None, 0.0
        if answer.status_code in _TRY_AGAIN:
            return f"status {answer.status_code}", _wish(answer.headers.get("retry-after"))
        raise TallystickError(
            f"{shown(self.target)} refused an event with status {answer.status_code}: {answer.text[:300]}",
            code="LINEAGE_REFUSED",
            hint="look at the address and the token; nothing is passed over, it goes on with the same event",
        )


def shown(target: str) -> str:
    """A place without what may be a secret in its name."""
    parts = urlsplit(target)
    if not parts.scheme:
        return target
    return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _wish(retry_after: str | None) -> float:
    if retry_after is None:
        return 0.0
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0


def _line_end(fd: int, size: int) -> int:
    """Where the last whole line ends."""
    while size:
        start = max(0, size - _PIECE_BYTES)
        newline = os.pread(fd, size - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        size = start
    return 0


def _opened_at_line_end(path: Path) -> int:
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(fd).st_size
        if size and b'"schemaURL":"https://openlineage.io/' not in os.pread(fd, _FIRST_LINE_BYTES, 0):
            raise InvalidArgument(f"{path} holds something else than events", hint="name another file")
        end = _line_end(fd, size)
        if end != size:
            os.ftruncate(fd, end)
        return fd
    except BaseException:
        os.close(fd)
        raise
