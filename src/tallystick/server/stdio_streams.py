"""The process's own stdin and stdout, as bytes, without ever blocking the loop.

A pipe may be full or empty for as long as the client likes: a client that writes a large
request before it reads our large answer must not stop us. The loop reads and writes by itself
what it can without waiting; a thread for each does the rest, so files and terminals work as
pipes do. The descriptors are left blocking: that is a property of the pipe, which others hold too.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import stat
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

CHUNK_BYTES = 64 * 1024
CHUNKS_AHEAD = 16


@contextmanager
def claimed_stdio() -> Iterator[tuple[int, int]]:
    """Descriptors for the wire. Meanwhile 0 reads nothing and 1 is stderr, so that a stray print breaks no frame."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    try:
        yield source, sink
    finally:
        # The duplicates stay open: a thread may still be waiting on one, and a new file must not take its number.
        os.dup2(source, 0)
        os.dup2(sink, 1)


class StdinReader:
    """The chunks that arrive on a descriptor, until its end or `stop`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._watching = False
        try:
            self._watch()
        except (NotImplementedError, OSError):  # a file, or a platform whose loop watches no pipes
            self._room = threading.Semaphore(CHUNKS_AHEAD)
            threading.Thread(target=self._pump, name="stdin", daemon=True).start()
            self._make_room: Callable[[], None] = self._room.release
        else:
            self._make_room = self._watch_again

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await self._chunks.get():
                self._make_room()
                yield chunk
        finally:
            self._unwatch()

    def stop(self) -> None:
        """As if the stream had ended here. Call it on the loop."""
        self._unwatch()
        self._make_room = _nothing
        self._chunks.put_nowait(b"")

    def _watch(self) -> None:
        self._loop.add_reader(self._descriptor, self._read)
        self._watching = True

    def _unwatch(self) -> None:
        if self._watching:
            self._loop.remove_reader(self._descriptor)
            self._watching = False

    def _watch_again(self) -> None:
        if not self._watching and self._chunks.qsize() < CHUNKS_AHEAD:
            self._watch()

    def _read(self) -> None:
        chunk = _read(self._descriptor)
        if chunk is None:
            return
        self._chunks.put_nowait(chunk)
        if not chunk:
            self._make_room = _nothing
        if not chunk or self._chunks.qsize() >= CHUNKS_AHEAD:
            self._unwatch()

    def _pump(self) -> None:
        chunk = b"-"
        while chunk:
            self._room.acquire()
            while (read := _read(self._descriptor)) is None:
                select.select([self._descriptor], [], [])
            chunk = read
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed: nobody listens any more
                return


class StdoutWriter:
    """Writes whole messages to a descriptor, in the order they are given."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._write_now = _writer_without_waiting(descriptor)
        self._queued = 0
        """How many the thread has yet to write; only the loop counts."""
        self._waiting: SimpleQueue[tuple[memoryview, asyncio.Future[None]]] | None = None

    def post(self, data: bytes) -> asyncio.Future[None]:
        """Done when the client's pipe has taken all of it; fails with OSError when the client is gone."""
        written: asyncio.Future[None] = self._loop.create_future()
        try:
            # Nothing overtakes what the thread has yet to write.
            taken = 0 if self._queued else self._write_now(data)
        except OSError as error:
            _settle(written, error)
            return written
        if taken == len(data):
            written.set_result(None)
        else:
            self._leave_to_thread(memoryview(data)[taken:], written)
        return written

    def _leave_to_thread(self, rest: memoryview, written: asyncio.Future[None]) -> None:
        if self._waiting is None:
            self._waiting = SimpleQueue()
            threading.Thread(target=self._pump, args=(self._waiting,), name="stdout", daemon=True).start()
        self._queued += 1
        self._waiting.put((rest, written))

    def _pump(self, waiting: SimpleQueue[tuple[memoryview, asyncio.Future[None]]]) -> None:
        while True:
            rest, written = waiting.get()
            failure = _write(self._descriptor, rest)
            try:
                self._loop.call_soon_threadsafe(self._written, written, failure)
            except RuntimeError:  # the loop is closed
                return

    def _written(self, written: asyncio.Future[None], failure: OSError | None) -> None:
        self._queued -= 1
        _settle(written, failure)


def _nothing() -> None: ...


def _settle(written: asyncio.Future[None], failure: OSError | None) -> None:
    if written.done():
        return
    if failure is None:
        written.set_result(None)
    else:
        written.set_exception(failure)
        written.exception()  # a post nobody waits for is no unhandled error


def _writer_without_waiting(descriptor: int) -> Callable[[bytes], int]:
    """Writes as much as can be written at once, and says how much that was."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) and hasattr(select, "poll"):
        return _pipe_writer(descriptor)
    if stat.S_ISSOCK(mode) and hasattr(socket, "MSG_DONTWAIT"):
        return _socket_writer(descriptor)
    return lambda data: 0


def _pipe_writer(descriptor: int) -> Callable[[bytes], int]:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)

    def write(data: bytes) -> int:
        # A pipe that is ready takes this much at once.
        if len(data) > select.PIPE_BUF or not poll.poll(0):
            return 0
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            return 0

    return write


def _socket_writer(descriptor: int) -> Callable[[bytes], int]:
    # Some clients, those on Node for one, connect their children by sockets. A duplicate: this one is closed with us.
    client = socket.socket(fileno=os.dup(descriptor))

    def write(data: bytes) -> int:
        try:
            return client.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    return write


def _read(descriptor: int) -> bytes | None:
    """None: nothing yet. A client may have made its pipe one that nobody waits at."""
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _write(descriptor: int, rest: memoryview) -> OSError | None:
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except OSError as error:
            return error
    return None
