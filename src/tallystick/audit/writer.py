"""The writer: decisions are handed over in a microsecond and written by a thread, many at a time.

What waits is written every `every_ms`; what is urgent (the gate says: denials) at once, and
its future tells when it is durable. An allowed write needs no waiting: its commit, which is
durable before the answer, names the actor, the tool and the policy that allowed it.
A crash may so take the last `every_ms` of allowed reads with it, and nothing else.

A disk that refuses does not stop reads: what could not be written is counted, and the first
line after that says how much. `healthy` is False meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

import msgspec

from tallystick.audit import Event, Lost, encode
from tallystick.audit.files import AuditFiles
from tallystick.clock import Clock, to_text, wall_clock

EVERY_MS = 50.0
PENDING_MAX = 10_000
_TRAILS_OPEN_MAX = 64

logger = logging.getLogger(__name__)


class _Pending(msgspec.Struct):
    tenant: str
    event: Event
    written: Future[bool] | None = None


class AuditWriter:
    def __init__(
        self,
        open_trail: Callable[[str], AuditFiles],
        *,
        every_ms: float = EVERY_MS,
        pending_max: int = PENDING_MAX,
        clock: Clock = wall_clock,
    ) -> None:
        """`open_trail` is told a tenant."""
        self._open_trail = open_trail
        self._every_seconds = every_ms / 1000
        self._pending_max = pending_max
        self._clock = clock
        self._pending: list[_Pending] = []
        self._trails: OrderedDict[str, AuditFiles] = OrderedDict()
        self._lost: dict[str, Lost] = {}
        self._some = threading.Event()
        self._urgent = threading.Event()
        # Held while lines are written, so that they go in the order in which they were handed over.
        self._writing = threading.Lock()
        self._handing = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None

    @property
    def healthy(self) -> bool:
        return not self._lost

    def record(self, tenant: str, event: Event, *, urgent: bool = False) -> Future[bool] | None:
        """Hand over. An urgent event's future gets True when it would survive a power cut, False if it was refused."""
        written: Future[bool] | None = Future() if urgent else None
        with self._handing:
            self._pending.append(_Pending(tenant, event, written))
            waiting = len(self._pending)
        if self._thread is None:
            self._start()
        if urgent:
            self._urgent.set()
        if urgent or waiting == 1:
            self._some.set()
        elif waiting >= self._pending_max:
            # Nothing is dropped: whoever decides faster than the disk writes, waits for it.
            self.flush()
        return written

    def flush(self) -> None:
        """Returns when everything handed over so far was written or refused."""
        with self._writing:
            with self._handing:
                pending, self._pending = self._pending, []
            by_tenant: dict[str, list[_Pending]] = {}
            for each in pending:
                by_tenant.setdefault(each.tenant, []).append(each)
            for tenant, events in by_tenant.items():
                self._write(tenant, events)

    def close(self) -> None:
        self._closed = True
        self._urgent.set()
        self._some.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.flush()
        with self._writing:
            for audit_files in self._trails.values():
                audit_files.close()
            self._trails.clear()

    def _start(self) -> None:
        with self._handing:
            if self._thread is None and not self._closed:
                # A daemon: a server that is killed does not wait for it, one that leaves calls `close`.
                self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._closed:
            self._some.wait()
            self._some.clear()
            self._urgent.wait(self._every_seconds)
            self._urgent.clear()
            self.flush()

    def _write(self, tenant: str, pending: list[_Pending]) -> None:
        lost = self._lost.get(tenant)
        lines = [encode(lost)] if lost else []
        lines += [encode(each.event) for each in pending]
        try:
            self._audit_files(tenant).append(lines)
        except Exception as error:
            # Whatever it is: somebody waits for the answer, and the next lines may fare better.
            self._refused(tenant, len(pending), error)
        else:
            self._lost.pop(tenant, None)
        for each in pending:
            if each.written is not None and each.written.set_running_or_notify_cancel():
                each.written.set_result(tenant not in self._lost)

    def _refused(self, tenant: str, events: int, error: Exception) -> None:
        lost = self._lost.get(tenant)
        now = to_text(self._clock())
        if lost is None:
            logger.error("decisions are being made that cannot be written down: %s", error)
        self._lost[tenant] = Lost(
            timestamp=now, events=events + (lost.events if lost else 0), since=lost.since if lost else now
        )

    def _audit_files(self, tenant: str) -> AuditFiles:
        audit_files = self._trails.pop(tenant, None) or self._open_trail(tenant)
        self._trails[tenant] = audit_files
        while len(self._trails) > _TRAILS_OPEN_MAX:
            self._trails.popitem(last=False)[1].close()
        return audit_files
