"""Several processes that serve one address, and the one that began them.

Each worker is a whole server of the base: processes on one base are the normal case, and a session is checked by
any of them. The process that was started serves nobody: it makes the listening sockets, forks, begins anew what
died, and hands on the request to end. It keeps the sockets open, so that who connects while a worker is begun anew
waits instead of being refused. A worker that cannot start gets no connections until it can.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import msgspec

from tallystick.server.limits import SharedBuckets
from tallystick.server.listening import bind_shared, listen
from tallystick.telemetry import metrics
from tallystick.telemetry.readings import Reading, read_figures
from tallystick.telemetry.worker_readings import WorkerReadings

if TYPE_CHECKING:
    from tallystick.telemetry.prometheus import Published

logger = logging.getLogger(__name__)

_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
_LIFE_SECONDS_MIN = 5.0
"""What dies sooner is begun anew after a pause: a fault that comes back at once must not fill the log."""
_PAUSE_SECONDS = 1.0
_PUBLISH_SECONDS = 5.0
"""How old what the other workers counted may be."""


class Worker(msgspec.Struct, frozen=True):
    """What a worker has from the process that began it, and shares with the others."""

    number: int
    count: int
    listening: socket.socket
    ready: Callable[[], None]
    buckets: SharedBuckets
    readings: WorkerReadings

    def share(self, whole: int) -> int:
        """Its part of what all of them together may have."""
        return max(1, -(-whole // self.count))

    @asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        """What this one counted is there for the others, should one of them be asked."""
        task = asyncio.create_task(self._go_on_publishing())
        try:
            yield
        finally:
            task.cancel()

    def render_metrics(self) -> bytes:
        """Of all workers."""
        from tallystick.telemetry.prometheus import render_workers

        self._publish()
        return render_workers(self._published())

    def read_figures(self) -> dict[int, Reading]:
        """Of all workers, by their numbers: of this one until now, of the others until a few seconds ago."""
        others = {number: published.reading for number, published in self._published().items()}
        return {**others, self.number: read_figures()}

    async def _go_on_publishing(self) -> None:
        while True:
            self._publish()
            await asyncio.sleep(_PUBLISH_SECONDS)

    def _publish(self) -> None:
        from tallystick.telemetry.prometheus import publish

        self.readings.publish(self.number, publish())

    def _published(self) -> dict[int, Published]:
        from tallystick.telemetry.prometheus import Published

        found = self.readings.read().items()
        return {number: msgspec.msgpack.decode(each, type=Published) for number, each in found}


def begin_workers(count: int, *, host: str, port: int, announce: Callable[[str, int], None]) -> Worker:
    """Returns in each worker, once. In the process that calls it never returns: it raises SystemExit when all ended.

    `announce` is told the address once the first of them serves; what reaches the others sooner waits for them. Raises
    OSError when the address can't be had. To be called before there is a thread or a loop: forking copies neither.
    """
    return _Supervisor(count, host, port).run(announce)


class _Life(msgspec.Struct):
    """One process of a worker."""

    number: int
    begun: float
    ready: int
    """The end of a pipe: the worker writes a byte once it serves."""
    has_served: bool = False

    def wait(self) -> bool:
        """Return whether it serves; False if it ended first."""
        self.has_served = bool(os.read(self.ready, 1))
        return self.has_served

    def end(self) -> None:
        """Close the pipe of a process that has ended."""
        # A process that the worker left may hold the other end open.
        os.set_blocking(self.ready, False)
        with suppress(BlockingIOError):
            self.has_served = self.has_served or self.wait()
        os.close(self.ready)


class _Supervisor:
    def __init__(self, count: int, host: str, port: int) -> None:
        self._count = count
        self._listening = _listen_for_all(count, host, port)
        self._buckets = SharedBuckets()
        self._readings = WorkerReadings(count)
        self._workers: dict[int, _Life] = {}
        """By process."""
        self._life = os.pipe()
        """Nothing is ever written: who reads from it learns that this process has ended, however it did."""

    def run(self, announce: Callable[[str, int], None]) -> Worker:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        # The first alone: what cannot be served is told once.
        for number in range(self._count):
            worker = self._begin(number, wait=number == 0)
            if worker is not None:
                return worker
        address = self._listening[0].getsockname()
        announce(address[0], address[1])
        while True:
            if signal.sigwait(_SIGNALS) != signal.SIGCHLD:
                self._end(0)
            for number in self._dead():
                worker = self._begin(number, wait=False)
                if worker is not None:
                    return worker

    def _begin(self, number: int, *, wait: bool) -> Worker | None:
        """The worker in its own process, None here."""
        ready = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(ready[0])
            return self._become(number, ready[1])
        os.close(ready[1])
        life = self._workers[process] = _Life(number, time.monotonic(), ready[0])
        if wait and not life.wait():
            self._end(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
        return None

    def _become(self, number: int, ready: int) -> Worker:
        os.close(self._life[1])
        metrics.STARTED = time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        threading.Thread(target=_end_with, args=(self._life[0],), daemon=True).start()
        mine = self._listening[number]
        for other in self._listening:
            if other is not mine:
                other.close()
        for life in self._workers.values():
            os.close(life.ready)

        def say_ready() -> None:
            with suppress(OSError):
                os.write(ready, b"r")

        return Worker(number, self._count, mine, say_ready, self._buckets, self._readings)

    def _dead(self) -> list[int]:
        """The numbers of the workers that ended unasked."""
        numbers = []
        for process in list(self._workers):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                life = self._workers.pop(process)
                life.end()
                self._report(process, life, os.waitstatus_to_exitcode(status))
                if time.monotonic() - life.begun < _LIFE_SECONDS_MIN:
                    time.sleep(_PAUSE_SECONDS)
                numbers.append(life.number)
        return numbers

    def _report(self, process: int, life: _Life, code: int) -> None:
        number = life.number
        if life.has_served:
            logger.error("worker %d (process %d) ended with %d and is begun anew", number, process, code)
            return
        self._listening[number] = _unlistened(self._listening[number])
        logger.error("worker %d (process %d) could not start (%d) and is begun anew", number, process, code)

    def _end(self, code: int) -> None:
        """Nobody new is accepted; what runs is answered by the workers."""
        for each in self._listening:
            each.close()
        for process in self._workers:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGTERM)
        for process in self._workers:
            with suppress(ChildProcessError):
                os.waitpid(process, 0)
        sys.exit(code)


def _listen_for_all(count: int, host: str, port: int) -> list[socket.socket]:
    """A socket each, among which Linux deals out connections evenly; elsewhere all accept from one."""
    # Alone at first: another server's workers would share with ours what arrives, and serve another memory.
    first = listen(host, port)
    if sys.platform != "linux":
        return [first] * count
    port = first.getsockname()[1]
    first.close()
    return [listen(host, port, shared=True) for _ in range(count)]


def _unlistened(listening: socket.socket) -> socket.socket:
    """Close the socket of a worker that cannot start, whose connections would wait for as long as it cannot; the others
    get them. Return one that listens once the worker serves. Where all accept from one socket, return that one."""
    if sys.platform != "linux":
        return listening
    bound = bind_shared(listening)
    listening.close()
    return bound


def _end_with(life: int) -> None:
    os.read(life, 1)
    os.kill(os.getpid(), signal.SIGTERM)
