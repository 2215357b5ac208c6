"""The follower: one process of a machine keeps all of its copies up to date, for all processes.

It adopts what the servers say was just stored. Each second it publishes what this machine knows of itself:
that a quorum stored it proves that there is one, and its sequence tells what was missed. A tenant whose
log another process of this machine holds is left alone: that one adopts what it meets, and is looked at again.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from tallystick.errors import Corrupt, TallystickError
from tallystick.extensions.cluster.catching_up import adopt, catch_up, fill_copy, missing
from tallystick.extensions.cluster.client import NoAnswer
from tallystick.extensions.cluster.contents import fetch, fetch_missing, names_in
from tallystick.extensions.cluster.copy import Copy, Unexplained, boot_id, is_empty
from tallystick.extensions.cluster.erasure import Waits, carry_out
from tallystick.extensions.cluster.messages import Group, MachineStatus, Message, end_of, is_foreign, machine_of
from tallystick.extensions.cluster.other_machines import Questions, digits_of
from tallystick.extensions.cluster.stream import ROLLUP, Refused, Stream, Trust
from tallystick.system.private_files import place_file
from tallystick.telemetry import metrics

BEAT_SECONDS = 1.0
_BEAT_PATIENCE_SECONDS = 3.0
_FRESH_SECONDS = 0.25
_SYNC_EVERY_BEATS = 5
_MISSING_EVERY_BEATS = 60
_BUSY_PAUSE_SECONDS = 0.005
_COPIES_MAX = 64
_CLAIM_SECONDS = 0.001
_EVERYTHING = 1 << 62

logger = logging.getLogger(__name__)


class Follower:
    """For the thread that holds the machine's lock."""

    def __init__(
        self,
        stream: Stream,
        *,
        machine: str,
        system_of: Callable[[str], Path | None],
        segment_bytes_max: int,
        trust: Trust,
        current: Callable[[float], None],
    ) -> None:
        """`system_of` is None for a tenant of another stream; `current` is told since when nothing was missed."""
        self._stream = stream
        self._machine = machine
        self._system_of = system_of
        self._segment_bytes_max = segment_bytes_max
        self._trust = trust
        self._current = current
        self._new: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._position: int | None = None
        """All messages up to here were adopted, or are of a tenant that waits below."""
        self._adopted = 0
        """All messages up to here were adopted."""
        self._waiting: dict[str, tuple[int, float]] = {}
        """Tenant → the lamport that its copy has to reach, and since when."""
        self._troubled: dict[str, Exception] = {}
        self._copies: dict[str, Copy] = {}
        self._unsynced: set[str] = set()
        self._grown: set[str] = set()
        """Tenants in whose copies there may be redactions that the stream does not know of."""
        self._erasing: dict[str, Waits] = {}
        """Tenant → which servers may still hold what was erased there."""
        self._foreign: dict[str, tuple[int, int]] = {}
        """Subject → how many messages of other programs were skipped, and the last of them."""
        self._question = stream.layout.question(digits_of(machine))
        self._questions = Questions(stream, self._lamport_of)
        self._beats = 0

    def listen(self) -> None:
        self._stream.client.subscribe(self._stream.layout.new, self._new.put)
        self._stream.client.subscribe(self._question, self._new.put)

    def follow(self, is_over: Callable[[], bool]) -> None:
        """Until it is over. Raises nothing that goes away by itself."""
        next_beat = 0.0
        while not is_over():
            now = time.monotonic()
            if now >= next_beat:
                next_beat = now + BEAT_SECONDS
                self._try(self._beat)
            is_busy = self._waiting or self._questions
            pause = _BUSY_PAUSE_SECONDS if is_busy else max(0.0, next_beat - time.monotonic())
            try:
                self._heard(self._new.get(timeout=min(pause, BEAT_SECONDS)))
            except queue.Empty:
                self._adopt_waiting()
            if self._questions:
                self._try(self._questions.answer)

    def damage(self) -> Corrupt | None:
        """From any thread: what the stream holds that no copy can take."""
        return next((error for error in list(self._troubled.values()) if isinstance(error, Corrupt)), None)

    def wake(self) -> None:
        """From any thread: look whether it is over."""
        self._new.put(None)

    def close(self) -> None:
        self._try(self._sync)
        for copy in self._copies.values():
            copy.close()
        self._copies.clear()

    # -- what was stored

    def _heard(self, message: Message | None) -> None:
        if message is not None and message.subject == self._question:
            self._questions.add(message)
            return
        if message is None or self._position is None or message.sequence <= self._position:
            return
        if message.sequence == self._position + 1:
            self._position = message.sequence
        # Else something was missed: the next beat fetches it. What is here is adopted all the same.
        self._meet(message)

    def _meet(self, message: Message) -> None:
        tenant = self._stream.layout.tenant_of(message.subject)
        if tenant is None or self._system_of(tenant) is None:
            return
        if is_foreign(message):
            self._skip(message)
            return
        try:
            self._await(tenant, end_of(message))
        except Corrupt as error:
            self._trouble(tenant, error)
            return
        # What a process of this machine wrote it adopts itself; looked at again soon, should it have died.
        if machine_of(message) != self._machine:
            self._adopt(tenant, message)

    def _skip(self, message: Message) -> None:
        count, last = self._foreign.get(message.subject, (0, 0))
        if message.sequence > last:
            self._foreign[message.subject] = (count + 1, message.sequence)
            metrics.STREAM_FOREIGN.add()
            logger.warning("message %d of %s is another program's and is skipped", message.sequence, message.subject)

    def _await(self, tenant: str, lamport: int) -> None:
        until, since = self._waiting.get(tenant, (0, time.monotonic()))
        self._waiting[tenant] = (max(until, lamport), since)

    def _adopt_waiting(self) -> None:
        for tenant in list(self._waiting):
            self._adopt(tenant)

    def _adopt(self, tenant: str, message: Message | None = None) -> None:
        """Bring a tenant's copy to where it has to be, unless another process is at it."""
        try:
            copy = self._opened(tenant)
            while copy.log.head().lamport < self._waiting[tenant][0]:
                # Before the claim: whoever writes here must not wait for our network.
                groups = missing(self._stream, copy, message)
                if not groups:
                    break
                for group in groups:
                    fetch(self._stream, copy.system, tenant, names_in(group.lines))
                if not self._append(copy, groups):
                    return
                message = None
            self._unsynced.add(tenant)
            self._grown.add(tenant)
            self._waiting.pop(tenant, None)
            self._troubled.pop(tenant, None)
        except NoAnswer:
            # Asked again soon.
            return
        except (TallystickError, Refused, OSError) as error:
            self._trouble(tenant, error)

    def _append(self, copy: Copy, groups: Sequence[Group]) -> bool:
        """Whether nobody else was at it."""
        # Not at once: only who waits, however shortly, settles what a dead process left.
        if not copy.log.claim(timeout_seconds=_CLAIM_SECONDS):
            return False
        try:
            adopt(self._stream, copy, groups)
        except Unexplained:
            catch_up(self._stream, copy)
        finally:
            copy.log.release()
        return True

    def _trouble(self, tenant: str, error: Exception) -> None:
        self._waiting.pop(tenant, None)
        if str(self._troubled.get(tenant)) != str(error):
            logger.error("the copy of %s cannot be brought up to date: %s", tenant, error)
        self._troubled[tenant] = error

    def _lamport_of(self, tenant: str) -> int:
        """0 where there is no copy: it is made when something of that tenant is heard of."""
        system = self._system_of(tenant)
        return 0 if system is None or is_empty(system) else self._opened(tenant).log.head().lamport

    def _opened(self, tenant: str) -> Copy:
        if tenant not in self._copies:
            while len(self._copies) >= _COPIES_MAX:
                self._sync()
                self._copies.pop(next(iter(self._copies))).close()
            system = self._system_of(tenant)
            assert system is not None
            if is_empty(system):
                fill_copy(self._stream, system, tenant, segment_bytes_max=self._segment_bytes_max)
            self._copies[tenant] = Copy(
                system,
                tenant,
                memory=self._stream.memory,
                stream=self._stream.name,
                segment_bytes_max=self._segment_bytes_max,
            )
        return self._copies[tenant]

    # -- what was missed

    def _beat(self) -> None:
        began = time.monotonic()
        stored = self._say()
        if self._position is None:
            self._begin()
        else:
            self._fetch(stored)
        self._position = max(stored, self._position or 0)
        self._adopt_waiting()
        if not self._troubled:
            self._current(min([began, *(since for _, since in self._waiting.values())]))
        self._carry_out_redactions()
        self._beats += 1
        if self._beats % _SYNC_EVERY_BEATS == 0:
            self._sync()
            for tenant in list(self._troubled):
                self._await(tenant, _EVERYTHING)
        if self._beats % _MISSING_EVERY_BEATS == 0:
            for tenant, copy in self._copies.items():
                fetch_missing(self._stream, copy.system, tenant)

    def _say(self) -> int:
        """What this machine knows of itself. Returns the sequence that it is stored as."""
        if not self._waiting:
            self._adopted = self._position or 0
        status = MachineStatus(
            self._machine, time.time(), self._adopted, sorted(self._troubled), self._erasing, self._foreign
        )
        subject = self._stream.layout.machine(self._machine)
        return self._stream.publish(subject, msgspec.json.encode(status), ROLLUP, seconds=_BEAT_PATIENCE_SECONDS)

    def _begin(self) -> None:
        """Nothing is known of what was stored before: look at every tenant there is."""
        for tenant in self._stream.tenants():
            if self._system_of(tenant) is not None:
                self._await(tenant, _EVERYTHING)
                self._adopt(tenant)

    def _fetch(self, stored: int) -> None:
        """What was heard of need not be fetched; most of the time that is all of it."""
        while self._position is not None and self._position < stored and not self._new.empty():
            self._heard(self._new.get())
        if self._position is None or self._position >= stored - 1:
            return
        for message in self._stream.messages(">", self._position, through=stored):
            self._meet(message)

    def _carry_out_redactions(self) -> None:
        for tenant in sorted(self._grown | self._erasing.keys()):
            if self._system_of(tenant) is not None:
                self._try(partial(self._carry_out, tenant))

    def _carry_out(self, tenant: str) -> None:
        self._note_erasing(tenant, carry_out(self._stream, self._opened(tenant), self._trust, self._sayer(tenant)))
        self._grown.discard(tenant)

    def _sayer(self, tenant: str) -> Callable[[Waits], None]:
        def say(waits: Waits) -> None:
            self._note_erasing(tenant, waits)
            self._say()

        return say

    def _note_erasing(self, tenant: str, waits: Waits) -> None:
        if waits:
            self._erasing[tenant] = waits
        else:
            self._erasing.pop(tenant, None)

    def _sync(self) -> None:
        while self._unsynced:
            tenant = self._unsynced.pop()
            if tenant in self._copies:
                self._copies[tenant].sync()

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (NoAnswer, Refused) as error:
            logger.info("the stream '%s' does not answer: %s", self._stream.name, error)
        except (TallystickError, OSError) as error:
            logger.error("following the stream '%s': %s", self._stream.name, error)


class Freshness:
    """Since when this machine's copies were last known to be complete, for all of its processes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at = -_FRESH_SECONDS
        self._since: float | None = None

    def write(self, since: float) -> None:
        """`since` by the clock of `time.monotonic`, which all processes of a boot share."""
        ago = time.monotonic() - since
        place_file(self._path, f"{boot_id()} {since} {time.time() - ago}\n".encode())

    def seconds(self) -> float | None:
        """None where it was never known. Asked for with every answer: the file is read a few times a second."""
        now = time.monotonic()
        if now - self._read_at >= _FRESH_SECONDS:
            self._read_at, self._since = now, self._read(now)
        return None if self._since is None else max(0.0, now - self._since)

    def _read(self, now: float) -> float | None:
        try:
            boot, since, at = self._path.read_text().split()
            return float(since) if boot == boot_id() else now - (time.time() - float(at))
        except (OSError, ValueError):
            return None
