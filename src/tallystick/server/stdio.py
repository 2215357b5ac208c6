"""The process's own stdin and stdout, as bytes, without ever blocking the loop.

Each has a thread of its own, since a pipe may be full or empty for as long as the client
likes: a client that writes a large request before it reads our large answer must not stop us.
Plain reads and writes, so files and terminals work as pipes do.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
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


class Inlet:
    """The chunks that arrive on a descriptor, until its end or `stop`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_AHEAD)
        threading.Thread(target=self._pump, name="stdin", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await self._chunks.get():
            self._room.release()
            yield chunk

    def stop(self) -> None:
        """As if the stream had ended here. Call it on the loop."""
        self._chunks.put_nowait(b"")

    def _pump(self) -> None:
        chunk = b"-"
        while chunk:
            self._room.acquire()
            chunk = _read(self._descriptor)
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed: nobody listens any more
                return


class Outlet:
    """Writes whole messages to a descriptor, in the order they are given."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        threading.Thread(target=self._pump, name="stdout", daemon=True).start()

    def post(self, data: bytes) -> asyncio.Future[None]:
        """Done when the client's pipe has taken all of it; fails with OSError when the client is gone."""
        written: asyncio.Future[None] = self._loop.create_future()
        self._waiting.put((data, written))
        return written

    def _pump(self) -> None:
        while True:
            data, written = self._waiting.get()
            failure = _write(self._descriptor, data)
            try:
                self._loop.call_soon_threadsafe(_settle, written, failure)
            except RuntimeError:  # the loop is closed
                return


def _settle(written: asyncio.Future[None], failure: OSError | None) -> None:
    if written.done():
        return
    if failure is None:
        written.set_result(None)
    else:
        written.set_exception(failure)
        written.exception()  # a post nobody waits for is no unhandled error


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK_BYTES)
    except OSError:
        return b""


def _write(descriptor: int, data: bytes) -> OSError | None:
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError as error:
        return error
    return None
