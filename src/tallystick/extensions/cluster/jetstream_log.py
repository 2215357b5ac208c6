"""The log on NATS JetStream: one memory on several machines.

The servers order groups and keep them, each machine keeps what it read from them as a files log. Always true: what
`append` returns from is stored by a quorum of the servers, synced, and in this machine's copy; a copy holds a prefix
of what the stream holds, byte for byte; two groups never follow on the same one, since the servers store a group
only behind the message that it names.

A process that dies between the answer of the servers and its copy leaves a group that the machine's follower adopts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tallystick.errors import HeadMoved, InvalidArgument, LogClosed, StorageRefused, Unsettled
from tallystick.extensions.cluster.catching_up import catch_up, check_continues, fill_copy, sequence_at
from tallystick.extensions.cluster.client import Forbidden, NoAnswer
from tallystick.extensions.cluster.contents import names_in, store
from tallystick.extensions.cluster.copy import Copy, is_empty
from tallystick.extensions.cluster.membership import Membership, Place, join, leave
from tallystick.extensions.cluster.messages import (
    Message,
    end_of,
    group_headers,
    group_lines,
    group_of,
    read_group,
    taken_over,
)
from tallystick.extensions.cluster.moving import fenced_by
from tallystick.extensions.cluster.stream import Refused, WrongSequence, unreachable
from tallystick.extensions.cluster.turns import WAIT_SECONDS_MAX, Turns
from tallystick.log import Entry, Head
from tallystick.log.unopened import is_copy
from tallystick.telemetry import metrics

PATIENCE_SECONDS = 15.0
"""Longer than servers need to elect a leader. The partition asks twice, so a caller waits for twice as long."""
CONFIRM_SECONDS = 5.0
_ATTEMPT_SECONDS = 2.0
_PAUSE_SECONDS = 0.05
_INFLIGHT_PAUSE_SECONDS = 0.002
_POLL_SECONDS = 0.001
_CLAIM_SECONDS = 30.0
_FULL = {10023, 10047, 10077}
"""What servers say whose disk or whose limits are full."""


class JetStreamLog:
    def __init__(self, place: Place, tenant: str) -> None:
        """Waits for the servers, a while; where they do not answer, a machine that has a copy goes on reading it.

        Raises InvalidArgument for servers or a base that do not fit, StorageRefused where there is nothing to read.
        """
        system = place.system_of(tenant)
        if system is None:
            raise InvalidArgument(f"tenant '{tenant}' is not kept in the stream '{place.stream}'")
        self.system: Path = system
        self._place = place
        self._tenant = tenant
        self._is_closed = False
        self._claimed = False
        self._losses = 0
        """How many groups in a row another machine was faster than."""
        self._turns = Turns()
        self._stored: set[str] = set()
        """The contents of the last group that had any, which may have to be published again."""
        self._membership = join(place)
        try:
            self._copy = self._open_copy()
        except BaseException:
            leave(place)
            raise

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._copy.close()
            leave(self._place)

    # -- reading: all of it from the copy

    def head(self) -> Head:
        return self._copy.log.head()

    def prepare(self, redactions: Sequence[tuple[int, int]], after: Head) -> None:
        self._copy.log.prepare(redactions, after)

    def read(self, after: Head) -> Iterator[Entry]:
        return self._copy.log.read(after)

    def expect(self, offsets: Iterable[int]) -> None:
        self._copy.log.expect(offsets)

    def line(self, offset: int, *, checked: bool = True) -> bytes:
        return self._copy.log.line(offset, checked=checked)

    def behind_seconds(self) -> float:
        return self._membership.behind_seconds()

    def confirm(self) -> None:
        """Costs one message that a quorum stores: a leader that was deposed and does not know it cannot answer.

        Takes no claim, which belongs to the writer of this log: the follower adopts what is missing.
        """
        self._membership.require()
        stream = self._membership.stream
        deadline = time.monotonic() + CONFIRM_SECONDS
        try:
            self._membership.prove_quorum(CONFIRM_SECONDS)
            last = stream.last_group(stream.layout.log(self._tenant))
        except (NoAnswer, Refused, WrongSequence) as error:
            raise unreachable(stream.name, error) from None
        while last is not None and end_of(last) > self.head().lamport:
            if time.monotonic() > deadline:
                raise unreachable(stream.name, "this machine's copy is behind it")
            time.sleep(0.001)

    def await_copy(self, machine: str, lamport: int) -> None:
        self._membership.others.wait_for(machine, self._tenant, lamport)

    # -- writing

    def claim(self, *, timeout_seconds: float = _CLAIM_SECONDS) -> bool:
        """Another process of this machine waits for us; another machine is asked to, and we let one pass that asked."""
        if not self._let_another_pass(timeout_seconds):
            return False
        self._claimed = self._copy.log.claim(timeout_seconds=timeout_seconds)
        return self._claimed

    def release(self) -> None:
        self._claimed = False
        self._copy.log.release()

    def append(self, entries: Sequence[Entry], *, expected: Head) -> Head:
        if self._is_closed:
            raise LogClosed("the log was closed")
        if not self._claimed:
            if not self.claim(timeout_seconds=_CLAIM_SECONDS):
                raise StorageRefused("another process has held the log's lock for too long")
            try:
                return self.append(entries, expected=expected)
            finally:
                self.release()
        self._copy.log.check(entries, expected)
        self._membership.require()
        self._copy.require_memory(self._membership.stream.memory)
        self._store_contents(entries)
        if self._turns.publishing(expected, time.monotonic()):
            # Said before, so that the other begins as soon as it has this group.
            self._membership.end_turn(self._tenant, entries[-1].commit.lamport)
        sequence = self._publish(entries, expected)
        self._losses = 0
        try:
            head = self._copy.append(entries, expected, sequence)
            self._turns.written(head, time.monotonic())
            return head
        except StorageRefused as error:
            # It is in the stream, and whoever asks again finds it there.
            raise Unsettled(f"it is stored, but not on this machine: {error.message}", hint=error.hint) from error

    # -- below

    def _open_copy(self) -> Copy:
        reached = self._membership.wait()
        stream = self._membership.stream
        if not reached and (is_empty(self.system) or not is_copy(self.system)):
            raise unreachable(stream.name, self._membership.client.problem)
        if reached and is_empty(self.system):
            self._fill_copy()
        copy = Copy(
            self.system,
            self._tenant,
            memory=stream.memory or None,
            stream=stream.name,
            segment_bytes_max=self._place.segment_bytes_max,
        )
        try:
            if reached:
                self._meet_stream(copy)
        except BaseException:
            copy.close()
            raise
        return copy

    def _fill_copy(self) -> None:
        """Tried for a while: a stream that was just made, or that elects a leader, answers nobody."""
        stream = self._membership.stream
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                fill_copy(stream, self.system, self._tenant, segment_bytes_max=self._place.segment_bytes_max)
                return
            except (NoAnswer, Refused) as error:
                if time.monotonic() > deadline:
                    raise unreachable(stream.name, error) from None
            time.sleep(_PAUSE_SECONDS)

    def _meet_stream(self, copy: Copy) -> None:
        """As far as it answers; what it does not say now, the follower hears."""
        stream = self._membership.stream
        try:
            last = stream.last_group(stream.layout.log(self._tenant))
            check_continues(last, copy.log.head(), stream.name)
            if last is None or end_of(last) <= copy.log.head().lamport:
                return
            if copy.log.claim(timeout_seconds=PATIENCE_SECONDS):
                try:
                    catch_up(stream, copy)
                finally:
                    copy.log.release()
        except (NoAnswer, Refused):
            return

    def _let_another_pass(self, timeout_seconds: float) -> bool:
        """One that asked to be next; and one that writes all the time as we do, so that neither loses."""
        until = max(self._membership.turn_of_another(self._tenant), self._turns.until(self.head()))
        if until < time.monotonic():
            return True
        if timeout_seconds == 0:
            return False
        self._await_turn(until)
        return True

    def _await_turn(self, until: float) -> None:
        """The other may write several groups, until it says that its turn is over or is silent; but not for ever."""
        before = head = self.head()
        now = moved = time.monotonic()
        latest = max(until, now + WAIT_SECONDS_MAX)
        while now < min(until, latest) and not self._is_turn_over(head):
            self._membership.await_turn_end(_POLL_SECONDS)
            now, found = time.monotonic(), self.head()
            if found != head:
                head, until, moved = found, self._turns.seen(now - moved, now), now
        self._turns.waited(now, is_met=head != before or self._is_turn_over(head))
        self._membership.forget_turn(self._tenant)

    def _is_turn_over(self, head: Head) -> bool:
        """Whether another said so, after our own was over, and what it wrote is here."""
        return self._turns.own_lamport < self._membership.turn_ended_at(self._tenant) <= head.lamport

    def _store_contents(self, entries: Sequence[Entry]) -> None:
        """Before the commits that name them. Raises StorageRefused."""
        blobs = names_in(group_lines(entries)) - self._stored
        deadline = time.monotonic() + PATIENCE_SECONDS
        while blobs:
            try:
                store(self._membership.stream, self.system, self._tenant, sorted(blobs))
                self._stored = blobs
                return
            except (NoAnswer, Refused) as error:
                if time.monotonic() > deadline:
                    raise unreachable(self._membership.stream.contents.name, error) from None
            except InvalidArgument as error:
                raise StorageRefused(error.message, code=error.code, hint=error.hint) from None
            time.sleep(_PAUSE_SECONDS)

    def _publish(self, entries: Sequence[Entry], expected: Head) -> int:
        """The sequence that the group is stored as. Raises HeadMoved, StorageRefused, Unsettled, Corrupt."""
        stream = self._membership.stream
        subject, lines = stream.layout.log(self._tenant), group_lines(entries)
        headers = group_headers(entries, expected, self._membership.machine)
        if len(lines) > self._membership.client.payload_bytes_max - 4096:
            raise StorageRefused(
                f"{len(lines)} bytes are more than the NATS servers take at once",
                code="TOO_MUCH",
                hint="write less in one call, or raise max_payload of the servers",
            )
        patience = _ATTEMPT_SECONDS if self._membership.is_cut_off else PATIENCE_SECONDS
        deadline = time.monotonic() + patience
        was_sent = False
        while True:
            pause = _PAUSE_SECONDS
            try:
                stored = self._try_to_publish(entries, expected, subject, lines, headers)
                if stored is not None:
                    return stored
                # Another group is on its way through the servers, and cannot be read yet.
                problem: object = "another group is before it, and does not arrive"
                pause = _INFLIGHT_PAUSE_SECONDS
            except Refused as error:
                if error.code in _FULL and not was_sent:
                    raise StorageRefused(
                        f"the NATS servers could not store it: {error}",
                        hint="free space on the servers, or raise their limits; nothing was lost and reads go on",
                    ) from None
                problem = error
            except NoAnswer as error:
                was_sent = was_sent or error.was_sent
                if isinstance(error, Forbidden) and not was_sent:
                    raise StorageRefused(
                        f"the NATS servers do not let this machine write: {error}",
                        code="LOG_FORBIDDEN",
                        hint=f"allow its user to publish to '{stream.name}.>'; reads go on, and writes when it may",
                    ) from None
                problem = error
            if was_sent and time.monotonic() > deadline:
                raise Unsettled(f"the NATS servers did not say whether they stored it: {problem}")
            # What is unsettled is asked for once more by the partition; this is not.
            if time.monotonic() > deadline + patience:
                raise unreachable(stream.name, problem)
            metrics.STREAM_RETRIES.add()
            time.sleep(pause)

    def _try_to_publish(
        self, entries: Sequence[Entry], expected: Head, subject: str, lines: bytes, headers: Mapping[str, str]
    ) -> int | None:
        """None where it can be neither stored nor seen what stands in its way, yet."""
        stream = self._membership.stream
        sequence = sequence_at(stream, self._copy)
        if sequence is None:
            raise self._overtaken(None)
        try:
            if expected == Head():
                self._require_unfenced()
            stored = stream.publish(subject, lines, headers, seconds=_ATTEMPT_SECONDS, expected=sequence)
        except WrongSequence:
            return self._look_behind(entries, expected, sequence)
        if expected == Head():
            # Taken over meanwhile, by one who did not see this tenant yet: it is not the memory's any more.
            self._require_unfenced()
        return stored

    def _require_unfenced(self) -> None:
        """A tenant that was there when the memory was taken over ends in its stream; a new one has to ask."""
        by = fenced_by(self._membership.stream)
        if by is not None:
            raise taken_over(by)

    def _look_behind(self, entries: Sequence[Entry], expected: Head, sequence: int) -> int | None:
        """Who stored what behind `expected`: we, when we sent it before, or another; None where it is not seen yet."""
        stream = self._membership.stream
        subject = stream.layout.log(self._tenant)
        found = stream.next_group(subject, sequence)
        if found is None:
            last = stream.last_group(subject)
            check_continues(last, expected, stream.name)
            group = None if last is None else group_of(last)
            if last is not None and group is not None and group.after_hash == expected.record_hash:
                # Nothing but messages of other programs is after it: the next try is published on the last of them.
                self._copy.note(last.sequence)
            return None
        if read_group(found).after_hash == entries[-1].commit.record_hash:
            return found.sequence
        raise self._overtaken(found)

    def _overtaken(self, found: Message | None) -> HeadMoved:
        """Takes what another machine stored, and asks to be the next."""
        metrics.STREAM_CONFLICTS.add()
        before = self.head()
        catch_up(self._membership.stream, self._copy, found)
        if self.head() == before:
            raise NoAnswer("no server has what another machine stored", was_sent=False)
        self._losses += 1
        self._turns.lost()
        self._membership.announce(self._tenant, self._losses)
        return HeadMoved(f"the log is at {self.head().lamport}, not at {before.lamport}")


__all__ = ["JetStreamLog", "Membership", "Place"]
