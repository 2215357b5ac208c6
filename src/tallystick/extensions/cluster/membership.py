"""The membership: what one process has of one stream. A connection, whether it may write, and how old its copy is.

It connects and follows in threads of its own, from when the first log needs it until the last is closed. What the
servers refuse it (too few copies, writes that are not synced) is known to whoever opens a log; a stream that does
not answer is not: a machine goes on reading what it has, and joins in when it can.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from tallystick.errors import Corrupt, InvalidArgument, StorageRefused
from tallystick.extensions.cluster.client import Client, NoAnswer, Servers
from tallystick.extensions.cluster.copy import machine_id
from tallystick.extensions.cluster.follower import Follower, Freshness
from tallystick.extensions.cluster.messages import Message
from tallystick.extensions.cluster.other_machines import DATED_SECONDS, OtherMachines
from tallystick.extensions.cluster.stream import ROLLUP, Refused, Stream, Trust, unreachable
from tallystick.system.file_locks import locked
from tallystick.system.private_files import make_directory
from tallystick.telemetry import metrics

START_SECONDS = 10.0
"""How long a start waits for the servers; a machine that has a copy then begins without them."""
CUT_OFF_SECONDS = 15.0
TURN_SECONDS = 0.04
_TURNS_MAX = 25
_DIGITS_MAX = 16
_RETRY_SECONDS = 0.5
_CHECK_EVERY_SECONDS = 60.0

logger = logging.getLogger(__name__)


class Place(msgspec.Struct, frozen=True):
    """Which stream, and where its copies lie on this machine."""

    base: Path
    stream: str
    servers: Servers
    trust: Trust
    system_of: Callable[[str], Path | None]
    """Where the copy of a tenant is; None for a tenant that is not of this stream."""
    segment_bytes_max: int


class Membership:
    def __init__(self, place: Place) -> None:
        """Raises InvalidArgument where the client cannot be made."""
        self.place = place
        self.machine = machine_id(place.base)
        self.client = Client(place.servers, name=f"tallystick {self.machine}")
        self.stream = Stream(self.client, place.stream)
        self.others = OtherMachines(self.stream)
        self._freshness = Freshness(place.base / "_system" / f"follow.{place.stream}")
        self._started = time.monotonic()
        self._settled = threading.Event()
        self._refusal: InvalidArgument | None = None
        self._changed: InvalidArgument | None = None
        """What is wrong with servers that were set up otherwise since the stream was opened."""
        self._problem: object = "no answer yet"
        self._closing = threading.Event()
        self._follower: Follower | None = None
        self._turns: dict[str, tuple[float, str]] = {}
        self._ended: dict[str, int] = {}
        """Tenant → the lamport at which a turn was last said to be over."""
        self._heard_end = threading.Event()
        metrics.STREAM_BEHIND.reading = lambda: [((place.stream,), self.behind_seconds())]
        metrics.STREAM_RECONNECTS.reading = lambda: [((place.stream,), self.client.reconnects)]
        self._thread = threading.Thread(target=self._run, name=f"follow-{place.stream}", daemon=True)
        self._thread.start()
        self._checking = threading.Thread(target=self._check, name=f"check-{place.stream}", daemon=True)
        self._checking.start()

    def close(self) -> None:
        self._closing.set()
        if self._follower is not None:
            self._follower.wake()
        self._thread.join()
        self.client.close()
        self._checking.join()

    # -- for the logs

    @property
    def is_open(self) -> bool:
        return self._settled.is_set() and self._refusal is None

    def wait(self) -> bool:
        """Whether the stream can be used. Raises InvalidArgument where it was looked at and must not be."""
        self._settled.wait(START_SECONDS)
        if self._refusal is not None:
            raise self._refusal
        return self._settled.is_set()

    def require(self) -> None:
        """Raises StorageRefused unless it may be written to."""
        refusal = self._refusal or self._changed
        if refusal is not None:
            raise StorageRefused(
                f"the stream '{self.stream.name}' is not fit for writing: {refusal.message}",
                code="LOG_UNSUITABLE",
                hint=refusal.hint,
            )
        if not self._settled.is_set():
            raise unreachable(self.stream.name, self._problem)

    def behind_seconds(self) -> float:
        known = self._freshness.seconds()
        seconds = time.monotonic() - self._started if known is None else known
        return seconds if seconds >= DATED_SECONDS else 0.0

    def damage(self) -> Corrupt | None:
        """What the stream holds that no copy can take; known to the process that follows."""
        follower = self._follower
        return None if follower is None else follower.damage()

    @property
    def is_cut_off(self) -> bool:
        """For longer than servers need to elect a leader."""
        return self.behind_seconds() > CUT_OFF_SECONDS

    def prove_quorum(self, seconds: float) -> int:
        """A sequence that a quorum stored just now: all that was acknowledged before has a lower one."""
        return self.stream.publish(self.stream.layout.machine(f"{self.machine}-asks"), b"{}", ROLLUP, seconds=seconds)

    # -- taking turns

    def announce(self, tenant: str, losses: int = 1) -> None:
        """Ask the other machines to let us be next: we were too slow, so many times in a row."""
        self.client.publish(self.stream.layout.turn(tenant), f"{self.machine} {losses}".encode())

    def turn_of_another(self, tenant: str) -> float:
        """Until when to wait for another machine; 0 where nobody asked."""
        until, _ = self._turns.get(tenant, (0.0, ""))
        return until if until > time.monotonic() else 0.0

    def forget_turn(self, tenant: str) -> None:
        self._turns.pop(tenant, None)

    def end_turn(self, tenant: str, lamport: int) -> None:
        """Tell the others that they need not wait for more of ours than up to here."""
        self.client.publish(self.stream.layout.turn_end(tenant), str(lamport).encode())

    def await_turn_end(self, seconds: float) -> None:
        """Until the end of some turn is heard, or so long."""
        self._heard_end.wait(seconds)
        self._heard_end.clear()

    def turn_ended_at(self, tenant: str) -> int:
        return self._ended.get(tenant, 0)

    def _heard_turn_end(self, message: Message) -> None:
        if message.data.isdigit() and len(message.data) <= _DIGITS_MAX:
            self._ended[message.subject.rpartition(".")[2]] = int(message.data)
            self._heard_end.set()

    def _heard_turn(self, message: Message) -> None:
        machine, _, losses = message.data.decode("utf-8", "replace").rpartition(" ")
        if machine != self.machine:
            tenant = message.subject.rpartition(".")[2]
            # A machine with little time for itself needs longer for its turn: else it would lose each time.
            turns = min(int(losses), _TURNS_MAX) if losses.isdecimal() else 1
            until = max(time.monotonic() + turns * TURN_SECONDS, self.turn_of_another(tenant))
            self._turns[tenant] = (until, machine)

    # -- the thread

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                if self._open():
                    self._follow()
            except Exception:
                logger.exception("following the stream '%s'", self.stream.name)
            self._closing.wait(_RETRY_SECONDS)

    def _open(self) -> bool:
        if self.is_open:
            return True
        if not self.client.wait(_RETRY_SECONDS):
            self._problem = self.client.problem
            return False
        try:
            self.stream.open(self.place.trust)
            self.client.subscribe(self.stream.layout.turns, self._heard_turn)
            self.client.subscribe(self.stream.layout.turn_ends, self._heard_turn_end)
        except (NoAnswer, Refused) as error:
            self._problem = error
            return False
        except InvalidArgument as error:
            if self._refusal is None:
                logger.error("%s; %s", error.message, error.hint)
            self._refusal = error
            self._settled.set()
            return False
        self._refusal = None
        self._settled.set()
        return True

    def _check(self) -> None:
        """A server that was started anew may sync otherwise than before: looked at again after each connection, and
        now and then for those that we are not connected to."""
        checked, next_check = self.client.reconnects, time.monotonic() + _CHECK_EVERY_SECONDS
        while self.place.trust.sync == "always" and not self._closing.wait(_RETRY_SECONDS):
            reconnects = self.client.reconnects
            is_due = reconnects != checked or self._changed is not None or time.monotonic() > next_check
            if not is_due or not self.is_open:
                continue
            try:
                self.stream.check_synced_still()
            except (NoAnswer, Refused):
                continue
            except InvalidArgument as error:
                if self._changed is None:
                    logger.error("%s; %s", error.message, error.hint)
                self._changed = error
                continue
            if self._changed is not None:
                logger.warning("the servers of the stream '%s' sync every write again", self.stream.name)
            self._changed = None
            checked, next_check = reconnects, time.monotonic() + _CHECK_EVERY_SECONDS

    def _follow(self) -> None:
        """As long as no other process of this machine does."""
        make_directory(self.place.base / "_system")
        with locked(self.place.base / "_system" / f"follow.{self.stream.name}.lock", timeout_seconds=0) as is_ours:
            if not is_ours:
                return
            self._follower = follower = Follower(
                self.stream,
                machine=self.machine,
                system_of=self.place.system_of,
                segment_bytes_max=self.place.segment_bytes_max,
                trust=self.place.trust,
                current=self._freshness.write,
            )
            try:
                follower.listen()
                follower.follow(self._closing.is_set)
            except NoAnswer:
                return
            finally:
                follower.close()


_LOCK = threading.Lock()
_JOINED: dict[tuple[Path, str, Servers], tuple[Membership, int]] = {}


def join(place: Place) -> Membership:
    """The one of this process, shared by all logs of the stream."""
    key = (place.base, place.stream, place.servers)
    with _LOCK:
        membership, users = _JOINED.get(key) or (Membership(place), 0)
        _JOINED[key] = (membership, users + 1)
        return membership


def leave(place: Place) -> None:
    key = (place.base, place.stream, place.servers)
    with _LOCK:
        membership, users = _JOINED[key]
        if users > 1:
            _JOINED[key] = (membership, users - 1)
            return
        del _JOINED[key]
    membership.close()
