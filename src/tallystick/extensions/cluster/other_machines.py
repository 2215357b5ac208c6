"""Other machines: whether one has what was written here, so that a session may go back to it.

A machine is asked over the servers and answers when its copy has it, mostly within a millisecond. One that does not
answer is judged by what it says of itself each second, as the leader knows it: either that covers what was written,
or there is nothing new of it for so long that every answer of that machine says how old it is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from hashlib import sha256

import msgspec

from tallystick.extensions.cluster.client import NoAnswer
from tallystick.extensions.cluster.messages import MachineStatus, Message
from tallystick.extensions.cluster.stream import Refused, Stream

DATED_SECONDS = 3.0
"""A machine whose copy was not known to be complete for so long says so; less is what there is between two looks."""
_MARGIN_SECONDS = 0.5
"""For clocks of machines that do not run equally fast."""
_PATIENCE_SECONDS = 15.0
_POLL_SECONDS = 0.05
_QUESTIONS_MAX = 10_000
_DIGITS = 8

logger = logging.getLogger(__name__)


def digits_of(machine: str) -> str:
    """As the ids of its sessions begin."""
    return sha256(machine.encode()).hexdigest()[:_DIGITS]


class Question(msgspec.Struct, frozen=True):
    """Whether the copy of a tenant has come to a lamport."""

    tenant: str
    lamport: int


class OtherMachines:
    """What a process asks of them. For any thread."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._silent: dict[str, tuple[int, float]] = {}
        """Machine → the last that it said of itself when it did not answer, and since when that was known."""

    def wait_for(self, machine: str, tenant: str, lamport: int) -> None:
        """Returns when the machine whose digits these are has it, or says of each of its answers how old it is."""
        if machine not in self._silent and self._is_told(machine, Question(tenant, lamport)):
            return
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            try:
                last = self._stream.last(self._stream.layout.log(tenant))
                if last is None or self._has_settled(machine, last.sequence):
                    return
            except (NoAnswer, Refused) as error:
                logger.info("whether machine %s has what was written is not known: %s", machine, error)
            time.sleep(_POLL_SECONDS)
        logger.warning("whether machine %s has what was written could not be found out", machine)

    def _is_told(self, machine: str, question: Question) -> bool:
        subject = self._stream.layout.question(machine)
        try:
            self._stream.client.request(subject, msgspec.json.encode(question), seconds=DATED_SECONDS)
        except NoAnswer:
            return False
        return True

    def _has_settled(self, machine: str, sequence: int) -> bool:
        """Whether it has the message, or its answers say how old they are, or there is no such machine."""
        found = self._status(machine)
        if found is None:
            return True
        status, said = found
        if not status.troubled and status.adopted >= sequence:
            self._silent.pop(machine, None)
            return True
        # A copy that cannot be brought up to date is dated, however often its machine speaks.
        said = 0 if status.troubled else said
        known, since = self._silent.get(machine, (-1, 0.0))
        if known != said:
            self._silent[machine] = (said, time.monotonic())
            return False
        return time.monotonic() - since > DATED_SECONDS + _MARGIN_SECONDS

    def _status(self, machine: str) -> tuple[MachineStatus, int] | None:
        """With its sequence."""
        for message in self._stream.machines():
            try:
                status = msgspec.json.decode(message.data, type=MachineStatus)
            except msgspec.MsgspecError:
                continue
            if digits_of(status.machine) == machine:
                return status, message.sequence
        return None


class Questions:
    """Those that other machines ask this one, until they are answered or nobody waits any more."""

    def __init__(self, stream: Stream, lamport_of: Callable[[str], int]) -> None:
        """`lamport_of` tells how far the copy of a tenant is; 0 where there is none."""
        self._stream = stream
        self._lamport_of = lamport_of
        self._open: list[tuple[float, Question, str]] = []

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, message: Message) -> None:
        """Whoever may use the stream may ask anything."""
        try:
            question = msgspec.json.decode(message.data, type=Question)
            self._stream.layout.log(question.tenant)
        except (msgspec.MsgspecError, ValueError):
            return
        if len(self._open) < _QUESTIONS_MAX:
            self._open.append((time.monotonic() + DATED_SECONDS, question, message.reply))

    def answer(self) -> None:
        """Those that can be answered now."""
        now = time.monotonic()
        still: list[tuple[float, Question, str]] = []
        for until, question, reply in self._open:
            if self._lamport_of(question.tenant) >= question.lamport:
                self._stream.client.publish(reply)
            elif now < until:
                still.append((until, question, reply))
        self._open = still
