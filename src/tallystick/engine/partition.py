"""The writer: check → apply → append, in groups.

One partition is the log of one tenant, its one writer in this process and its one state.
Drafts that wait together are checked one after the other, each against the state as the
earlier ones would leave it, and appended as one group: one sync acknowledges them all.

Always true when nobody waits: the state is what the log's durable head says. While a group
is being appended the state is ahead of the log, so reads wait; if the append fails, the
group is undone and nobody has seen it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from types import GeneratorType
from typing import Any, Generic

import msgspec
from typing_extensions import TypeVar

from tallystick.clock import Clock, from_text, to_text, wall_clock
from tallystick.commits import REDACTIONS, Commit, Draft, chain
from tallystick.commits.canonical import INTEGER_MAX
from tallystick.engine.snapshots import Snapshots
from tallystick.errors import (
    Corrupt,
    HeadMoved,
    InvalidArgument,
    LimitExceeded,
    LogClosed,
    LogError,
    StorageRefused,
    TallystickError,
    Unmasked,
    Unreadable,
    Unsettled,
)
from tallystick.log import Entry, Head, Log
from tallystick.log.health import LogHealth
from tallystick.state.derived_index import DerivedIndex
from tallystick.state.secret_scan import Screen
from tallystick.state.state import State
from tallystick.system.turns import SLICE_SECONDS, Pace, of_loop, paced
from tallystick.telemetry import metrics

T = TypeVar("T")
A = TypeVar("A", default=Any)
Look = Callable[[State], T | Generator[None, None, T]]
"""A question to the state; a generator is driven to its end, with pauses in which others run."""


class Proposal(msgspec.Struct, Generic[A], frozen=True):
    """The judgement of a write at the head: the draft to append, and the answer for its caller."""

    draft: Draft | Commit | None
    """A Commit is one that an earlier call wrote with the same nonce. None writes nothing."""
    answer: A


Proposed = Draft | Commit | Proposal[A]
"""A bare Draft or Commit is a proposal without an answer."""


def proposal_of(proposed: Proposed[A]) -> Proposal[A]:
    return proposed if isinstance(proposed, Proposal) else Proposal(proposed, None)  # type: ignore[arg-type]


Propose = Callable[[State], Proposed[A] | Generator[None, None, Proposed[A]]]
"""Judge a write at the head: return a proposal, or raise. A generator pauses between its steps, so that others run.

The partition calls it again if another writer was first, so it has no side effects.
"""

LOOK_SECONDS_MAX = 1.0
"""Of its own time, without the time in which other work had its turn."""
_CLAIM_SECONDS = 30.0
_CHECK_CLAIM_SECONDS = 0.5
_ENTRIES_AT_ONCE = 200
_GROUP_ENTRIES = 500
"""A group with so many entries takes no further draft: no other tenant is served while one is checked."""
_OPERATIONS_AT_ONCE = 200
"""A draft with more of them is sealed and applied in slices."""
_POSITION_WAIT_SECONDS = 1.0
_CONFIRM_SECONDS = 10.0
_CONFIRM_PAUSE_SECONDS = 0.05
_APPENDS_MAX = 2
_REPEAT = "repeat it with the same nonce: it is answered as a duplicate if it was written"
_VERIFY = (
    "run 'tallystick verify': if it finds the log sound, restart this process, else restore what it names from a"
    " backup; nothing was changed"
)

logger = logging.getLogger(__name__)


class Receipt(msgspec.Struct, Generic[A], frozen=True):
    commits: list[Commit]
    """Empty if nothing had to be written."""
    duplicate: bool = False
    erasure_pending: tuple[str, ...] = ()
    """What still holds a copy of what was redacted."""
    answer: A = None  # type: ignore[assignment]
    """The answer of the proposal; None if it has none."""


class Limits(msgspec.Struct, frozen=True):
    group_drafts_max: int = 256
    group_bytes_max: int = 8 << 20


class _Waiting(msgspec.Struct):
    propose: Propose[Any]
    answer: asyncio.Future[Receipt[Any]]
    since: float


class _Group(msgspec.Struct):
    """Drafts that were accepted together and are on their way into the log."""

    before: Head
    entries: list[Entry]
    outcomes: list[tuple[_Waiting, Receipt | Exception]]
    """Refusals too, of what was judged behind drafts of the group: nobody may hear of those before they are durable."""
    redacts: bool = False
    is_sliced: bool = False
    """Whether its one draft was applied in slices."""
    bytes: int = 0

    def erasure_pending(self, where: str) -> None:
        """Note in every receipt that copies of what was redacted are left."""
        self.outcomes = [
            (waiting, _with_pending(outcome, where) if isinstance(outcome, Receipt) else outcome)
            for waiting, outcome in self.outcomes
        ]


def _no_line(offset: int, *, checked: bool = True) -> bytes:
    raise LogClosed("the log was closed")


class Partition:
    def __init__(
        self,
        log: Log,
        *,
        tenant: str = "default",
        snapshots: Snapshots | None = None,
        clock: Clock = wall_clock,
        limits: Limits | None = None,
        appended: Callable[[str, Sequence[Entry]], None] | None = None,
        screen: Screen | None = None,
        try_storage: Callable[[int], None] | None = None,
        require_writable: Callable[[], None] = lambda: None,
    ) -> None:
        """`appended` is told what is in the log now, of each group and of what others appended. It does not raise.
        `screen` is shown every draft before it is sealed, and gives the one to seal, or raises.
        `try_storage` raises OSError unless so many bytes could be stored beside the log.
        `require_writable` is called before each claim and each append, and raises if the log takes no writes now."""
        self.tenant = tenant
        self._appended = appended
        self._screen = screen
        self._log = log
        self._snapshots = snapshots
        self.clock = clock
        self._limits = limits or Limits()
        self._broken = False
        self.health = LogHealth()
        self._try_storage = try_storage
        self._require_writable = require_writable
        self._observed = 0
        # The log's head, the very object, when the state was last found to be there: a quick look at most reads.
        self._looked_at: Head | None = None
        self._queue: deque[_Waiting] = deque()
        self._writer: asyncio.Task[None] | None = None
        # Those who wait, while the state is ahead of the log or on its way to the head.
        self._moving: list[asyncio.Future[None]] | None = None
        # Lines of the group under way, by offset: the state may ask for them before the log has them.
        self._pending: dict[int, bytes] = {}
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"log-{tenant}")
        self._state = self._begin()

    # -- for everybody

    @property
    def position(self) -> int:
        return self._log.head().lamport

    @property
    def log_bytes(self) -> int:
        return self._log.head().end

    @property
    def waiting(self) -> int:
        """Drafts that wait to be appended."""
        return len(self._queue)

    async def commit(self, propose: Propose[A]) -> Receipt[A]:
        """Returns when the draft is durable; raises what `propose` raised, or LogError, and then it is not there."""
        waiting = _Waiting(propose, asyncio.get_running_loop().create_future(), time.perf_counter())
        self._queue.append(waiting)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write())
        return await waiting.answer

    async def look(self, ask: Look[T], *, min_position: int | None = None) -> T:
        try:
            await of_loop().arrive(self.tenant)
            if not self._is_at_head():
                await self._settled()
            if min_position is not None:
                await self._reach(min_position)
            found = ask(self._state)
            # Not the abstract Generator: whether something is of that kind takes long to find out.
            return await _drive(found, self.tenant) if isinstance(found, GeneratorType) else found  # type: ignore[return-value]
        except Corrupt as error:
            raise self._reported(error) from None

    async def confirm(self) -> None:
        """What is looked at next has all that was acknowledged before, on whatever machine. Raises StorageRefused."""
        # Not by the thread that appends: a group that waits for an answer must not hold up a question.
        await asyncio.to_thread(self._log.confirm)

    async def confirm_or_date(self) -> None:
        """As `confirm`; where the others cannot be asked, `behind_seconds` afterwards says how old it may be.

        Raises StorageRefused only where neither can be said.
        """
        deadline = time.monotonic() + _CONFIRM_SECONDS
        while not self.behind_seconds():
            try:
                return await self.confirm()
            except StorageRefused:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_CONFIRM_PAUSE_SECONDS)

    async def await_copy(self, machine: str, lamport: int) -> None:
        """Returns when another machine has this, or says how old what it reads is."""
        await asyncio.to_thread(self._log.await_copy, machine, lamport)

    def check(self, *, writes: bool) -> None:
        """Start to read and to lock the log, for `health`; a group that is under way shows as much by itself."""
        if self._writer is None:
            self._writer = asyncio.create_task(self._check_and_write(writes))

    def behind_seconds(self) -> float:
        """For how long it has not been known whether other machines wrote more."""
        return self._log.behind_seconds()

    async def entries(self, after: int = 0, *, newest_first: bool = False) -> AsyncIterator[list[Entry]]:
        """What the log holds behind a position, up to now, in slices between which others run.

        In order they are verified against the chain; newest first each by itself. Raises Corrupt.
        """
        found: Iterator[Entry]
        if newest_first:
            offsets = await self.look(lambda state: state.offsets(state.head_at(after)))
            found = map(self._entry, reversed(offsets))
        else:
            found = self._log.read(await self.look(lambda state: state.head_at(after)))
        try:
            # Most who ask for the newest want no more than a few.
            size = _ENTRIES_AT_ONCE // 8 if newest_first else _ENTRIES_AT_ONCE
            pace = Pace(self.tenant)
            damage = None
            while damage is None:
                entries, damage = _taken(found, size, pace)
                if entries:
                    yield entries
                elif damage is None:
                    return
                size = min(2 * size, _ENTRIES_AT_ONCE)
                await pace.rest()
            raise damage
        except Corrupt as error:
            raise self._reported(error) from None

    def knows(self, entity_id: str) -> bool:
        """Whether it is known for certain, dead or alive, without a look at the log: what is known stays known."""
        return self._moving is None and self._state.knows(entity_id)

    def observe(self, lamport: int) -> None:
        """A foreign commit was seen: the next one of ours comes after it."""
        if not 0 <= lamport < INTEGER_MAX:
            raise InvalidArgument(f"lamport {lamport} is not between 0 and 2^53−2")
        self._observed = max(self._observed, lamport)

    async def open(self) -> None:
        """Bring the state to the head of the log. Raises Corrupt, and then nothing may be read or written."""
        known, at = self._state.redactions(), self._state.head
        await self._on_disk(lambda: self._log.prepare(known, at))
        await self._settled()
        await self._on_disk(self._check_tenant)
        self._grown()

    def _check_tenant(self) -> None:
        """A directory that was renamed, copied or swapped: a commit of ours behind those of another tenant would make
        a sound log false for good."""
        if self._log.head().count == 0:
            return
        try:
            theirs = chain.decode(self._log.line(0, checked=False)).tenant
        except Corrupt:
            # Damage is told to whoever reads that line; the rest is served.
            return
        if theirs != self.tenant:
            raise Corrupt(
                f"this is the log of tenant {theirs!r}, and stands where that of {self.tenant!r} belongs",
                hint="nothing was changed: put the directory back where it was; into the memory of another tenant"
                " 'tallystick export' and 'tallystick import --replay' bring it",
            )

    async def warm(self, kind: type[DerivedIndex]) -> None:
        """Build a derived index in slices, with pauses in which others run; who needs it earlier builds the rest."""
        pace = Pace(self.tenant)
        for _ in self._state.warmed(kind):
            if pace.elapsed() > SLICE_SECONDS:
                await pace.rest()

    async def save_snapshot(self) -> Path:
        """Of the state as it is now, whatever is written meanwhile."""
        if self._snapshots is None:
            raise ValueError("this partition keeps no snapshots")
        # Not while it is ahead of the log: what is in a snapshot counts as durable.
        await self._still()
        # The indexes are taken here and now: they change with the next commit.
        indexes = list(self._state.dump_indexes())
        save = partial(self._save, self._snapshots, self._state.head, self._state.dump(), indexes)
        return await self._on_disk(save)

    def _save(
        self, snapshots: Snapshots, head: Head, dumped: Iterator[bytes], indexes: Sequence[tuple[str, bytes]]
    ) -> Path:
        path = snapshots.save(head.lamport, dumped, indexes)
        # What was redacted since this state was read is still in it. A redaction after this look forgets it itself.
        if any(entry.commit.operation in REDACTIONS for entry in self._log.read(head)):
            snapshots.forget()
        return path

    def rest(self) -> None:
        """Nobody has asked for a while: have a snapshot taken if the next start is quicker by it."""
        indexes = self._state.storable_indexes()
        if self._snapshots is not None and self._snapshots.is_worth(self._state.head, indexes):
            self._snapshots.take(self._state.count, indexes)

    async def close(self) -> None:
        """Waits for the drafts that were handed in; none is lost."""
        while self._writer is not None:
            await asyncio.shield(self._writer)
        await self._leave_snapshot()
        self._disk.shutdown()
        self._log.close()
        # The state and its reader of lines know each other, and what was frozen is never collected: let go of it here.
        self._state = State(_no_line)

    async def _leave_snapshot(self) -> None:
        """So that the next start is quick. Without one it is only slower: no reason to fail an end."""
        if self._snapshots is None or self._broken:
            return
        if not self._snapshots.is_worth(self._state.head, self._state.storable_indexes()):
            return
        try:
            await self.save_snapshot()
        except (TallystickError, OSError) as error:
            logger.info("no snapshot of %s was kept: %s", self.tenant, error)

    # -- reading

    def _is_at_head(self) -> bool:
        try:
            return self._moving is None and self._log.head() is self._looked_at
        except LogError:
            return False

    async def _settled(self) -> None:
        try:
            await self._reach_head()
        except Exception as error:
            self.health.cannot_read(error)
            raise
        self.health.can_read()

    async def _reach_head(self) -> None:
        while True:
            await self._still()
            head = self._log.head()
            if head == self._state.head:
                self._looked_at = head
                return
            await self._catch_up()

    async def _still(self) -> None:
        """Each has a future of its own, and so goes on at once: by way of a shared one it would be overtaken."""
        while self._moving is not None:
            waiting = asyncio.get_running_loop().create_future()
            self._moving.append(waiting)
            await waiting

    async def _catch_up(self) -> None:
        """Apply what other processes appended, in slices. Between two of them the state is at no head: reads wait."""
        if self._log.head() == self._state.head:
            return
        pace = Pace(self.tenant)
        followed: list[Entry] = []
        try:
            for entry in self._log.read(self._state.head):
                self._follow(entry)
                followed.append(entry)
                if pace.elapsed() > SLICE_SECONDS:
                    if entry.commit.ends_draft:
                        self._hand_over(followed)
                        followed = []
                    self._moving = self._moving or []
                    await pace.rest()
            self._hand_over(followed)
        finally:
            self._moved()

    def _hand_over(self, entries: list[Entry]) -> None:
        """Whole drafts: nobody here need read them again."""
        if self._appended is not None and entries:
            self._appended(self.tenant, entries)

    def _follow(self, entry: Entry) -> None:
        self._state.apply(entry.commit, entry.offset, entry.end)
        if self._snapshots is not None and entry.commit.redacts is not None:
            # Its writer may have died before it got to the snapshots, or have those of another machine.
            self._snapshots.forget(before=entry.commit.lamport)

    async def _reach(self, position: int) -> None:
        deadline = time.monotonic() + _POSITION_WAIT_SECONDS
        while self._state.position < position:
            if time.monotonic() > deadline:
                raise LimitExceeded(
                    f"position {position} was not reached; the head is at {self._state.position}",
                    code="POSITION_NOT_REACHED",
                    hint="ask again later, or without min_lamport",
                    details={"position": self._state.position},
                )
            await asyncio.sleep(0.01)
            await self._settled()

    def _entry(self, offset: int) -> Entry:
        line = self._log.line(offset)
        return Entry(offset, chain.decode(line), line)

    def _begin(self) -> State:
        state = State(self._line) if self._snapshots is None else self._snapshots.begin(self._log, self._line)
        state.expects(self._log.expect)
        if self._snapshots is not None:
            state.finds_stored(self._snapshots.stored_index)
        return state

    def _grown(self) -> None:
        if self._snapshots is not None:
            self._snapshots.grown(self._state.count)

    def _line(self, offset: int, *, checked: bool = True) -> bytes:
        pending = self._pending.get(offset)
        return self._log.line(offset, checked=checked) if pending is None else pending

    def _reported(self, error: Corrupt) -> Corrupt:
        """Log it for the operator, and make the caller's answer of it. Other entities can be read as before."""
        if isinstance(error, Unreadable):
            logger.error("the log of %s cannot be read: %s %s", self.tenant, error.message, error.details)
        else:
            logger.error("the log of %s is damaged: %s %s", self.tenant, error.message, error.details)
            metrics.DAMAGE.add()
        # Callers are not shown paths of this machine.
        details = {name: Path(value).name if name == "file" else value for name, value in error.details.items()}
        return type(error)(error.message, hint=error.hint or _VERIFY, details=details)

    # -- writing

    async def _check_and_write(self, writes: bool) -> None:
        # As the writer: the claim of another task would be released with ours.
        try:
            await self._settled()
            if writes:
                await self._check_writing()
        except Exception as error:
            self.health.cannot_write(error)
        finally:
            await self._write()

    async def _check_writing(self) -> None:
        self._require_writable()
        if not await self._on_disk(lambda: self._log.claim(timeout_seconds=_CHECK_CLAIM_SECONDS)):
            self.health.lock_is_held(self._log.head())
            return
        try:
            if self._try_storage is not None:
                await self._on_disk(partial(self._try_storage, self.health.refused_bytes))
            if self.health.refused_bytes:
                await self.confirm()
            self.health.can_write()
        finally:
            self._log.release()

    async def _write(self) -> None:
        try:
            while self._queue:
                await self._write_group()
                # Reads that waited for this group go before the next one starts.
                await asyncio.sleep(0)
        finally:
            self._writer = None

    async def _write_group(self) -> None:
        try:
            self.health.begin("waiting for the log's lock")
            await self._claim()
        except Exception as error:
            self.health.cannot_write(error)
            self.health.end()
            self._refuse_queue(error)
            return
        try:
            self.health.begin("appending to the log")
            await self._still()
            # Under the claim: what is decided on from here is what the log holds, unless the claim is advisory and
            # another writer comes in between. Then the append says HeadMoved, and all of this is done again.
            await self._catch_up()
            self.health.can_read()
            group = await self._check_group()
            if group.entries and not self._broken:
                await self._append(group)
            if self._broken:
                await self._begin_anew(group)
            # Durable by now. A process that dies before this line leaves commits that nobody was told of: their
            # callers repeat them with the same nonce and get these.
            for waiting, outcome in group.outcomes:
                _settle(waiting, outcome)
            if group.outcomes:
                self._hand_over(group.entries)
        except Exception as error:
            self.health.cannot_write(error)
            self._refuse_queue(error)
        finally:
            self.health.end()
            self._log.release()

    async def _claim(self) -> None:
        self._require_writable()
        if self._log.claim(timeout_seconds=0):
            return
        claiming = asyncio.ensure_future(self._on_disk(lambda: self._log.claim(timeout_seconds=_CLAIM_SECONDS)))
        while not claiming.done():
            # What others write meanwhile is applied now: once we have the claim, they wait for us. What cannot be
            # read is told of then.
            with suppress(Exception):
                await self._settled()
            await asyncio.wait([claiming], timeout=SLICE_SECONDS)
        if not claiming.result():
            raise StorageRefused(
                "another process has held this log's lock for too long", hint="'tallystick doctor' says which"
            )

    async def _check_group(self) -> _Group:
        """Take drafts off the queue, judge each where the ones before it lead, and apply what is accepted."""
        group = _Group(self._state.head, [], [])
        while self._queue and len(group.outcomes) < self._limits.group_drafts_max:
            if group.redacts or group.is_sliced or group.bytes > self._limits.group_bytes_max:
                break
            if len(group.entries) >= _GROUP_ENTRIES:
                break
            waiting = self._queue.popleft()
            if waiting.answer.done():
                continue
            try:
                proposal = await self._judged(waiting.propose, group)
                draft = proposal.draft
                if proposal is _LATER or (group.entries and isinstance(draft, Draft) and _goes_alone(draft)):
                    self._queue.appendleft(waiting)
                    break
                if isinstance(draft, Draft) and _is_large(draft):
                    receipt = await self._accept_in_slices(draft, group)
                else:
                    receipt = self._accept(draft, group)
                receipt = msgspec.structs.replace(receipt, answer=proposal.answer)
            except HeadMoved:
                self._queue.appendleft(waiting)
                break
            except Exception as error:
                refusal = self._reported(error) if isinstance(error, Corrupt) else error
                if group.entries and not self._broken:
                    group.outcomes.append((waiting, refusal))
                else:
                    _settle(waiting, refusal)
                if self._broken:
                    break
            else:
                group.outcomes.append((waiting, receipt))
        return group

    async def _judged(self, propose: Propose[Any], group: _Group) -> Proposal[Any]:
        """Return the proposal, or `_LATER` for a long judgement that has to begin a group of its own.

        A long judgement pauses only while nothing of the group is applied: the state is at the durable head then, and
        reads go on. Raises what `propose` raises, and HeadMoved if another writer came in between.
        """
        proposed = propose(self._state)
        if isinstance(proposed, Draft | Commit | Proposal):
            return proposal_of(proposed)
        pace = Pace(self.tenant)
        try:
            while True:
                next(proposed)
                if pace.elapsed() > SLICE_SECONDS:
                    if group.entries:
                        return _LATER
                    await self._rest(pace, group)
        except StopIteration as done:
            return proposal_of(done.value)
        finally:
            pace.end()
            proposed.close()

    async def _rest(self, pace: Pace, group: _Group) -> None:
        await pace.rest()
        await self._still()
        if self._state.head != group.before:
            raise HeadMoved(f"the log is at {self._state.position}, not at {group.before.lamport}")

    def _accept(self, proposed: Draft | Commit | None, group: _Group) -> Receipt:
        if not isinstance(proposed, Draft):
            return Receipt([] if proposed is None else [proposed], duplicate=proposed is not None)
        draft = proposed if self._screen is None else self._screen(proposed)
        entries = list(self._sealed(draft, group))
        for _ in self._applied(entries):
            pass
        return _accepted(draft, entries, group)

    async def _accept_in_slices(self, draft: Draft, group: _Group) -> Receipt:
        """As `_accept`, with pauses: reads go on while it is sealed, and wait while it is applied, as they do until it
        is durable. Raises HeadMoved if another writer came in between: then it is judged again."""
        draft = draft if self._screen is None else self._screen(draft)
        entries = [entry async for entry in paced(self._sealed(draft, group), self.tenant)]
        await self._still()
        if self._state.head != group.before:
            raise HeadMoved(f"the log is at {self._state.position}, not at {group.before.lamport}")
        self._moving, group.is_sliced = [], True
        try:
            async for _ in paced(self._applied(entries), self.tenant):
                pass
        except BaseException:
            self._moved()
            raise
        return _accepted(draft, entries, group)

    def _applied(self, entries: Sequence[Entry]) -> Iterator[None]:
        """Apply each in turn; all of them or, where one is refused, none."""
        # If applying fails half-way, which is a bug of ours, the state cannot be trusted any more.
        self._broken = True
        applied = 0
        try:
            for entry in entries:
                self._pending[entry.offset] = entry.line
                self._state.apply(entry.commit, entry.offset, entry.end)
                applied += 1
                yield
        except Corrupt:
            # What it follows on is damaged in the log. Such a commit changes nothing: those before it are taken back.
            self._state.undo(applied)
            for entry in entries:
                self._pending.pop(entry.offset, None)
            self._broken = False
            raise
        self._broken = False

    def _sealed(self, draft: Draft, group: _Group) -> Iterator[Entry]:
        """The commits of a draft, as they follow on the state when the first of them is asked for."""
        head = self._state.head
        timestamp = to_text(max(self.clock(), from_text(head.timestamp) if head.timestamp else 0))
        total = len(draft.operations)
        lamport, offset = max(head.lamport, self._observed), head.end
        prev, prev_record_hash = head.commit_id, head.record_hash
        for number, operation in enumerate(draft.operations, 1):
            lamport += 1
            try:
                commit, line = chain.seal_line(
                    draft,
                    operation,
                    tenant=self.tenant,
                    lamport=lamport,
                    timestamp=timestamp,
                    prev=prev,
                    prev_record_hash=prev_record_hash,
                    batch=(number, total) if total > 1 else None,
                    group=group.entries[0].commit.lamport if group.entries else None,
                )
            except TallystickError as error:
                raise error.at(operation.place) from None
            entry = Entry(offset, commit, line)
            yield entry
            offset = entry.end
            prev, prev_record_hash = commit.commit_id, commit.record_hash

    async def _append(self, group: _Group) -> None:
        """On failure nothing of the group remains, in the state or in `group.outcomes`."""
        started = time.perf_counter()
        # The state is ahead of the log until this is over: reads wait, so that none shows what may be undone.
        if self._moving is None:
            self._moving = []
        try:
            await self._put_into_log(group)
            self.health.can_write()
        except Exception as error:
            if not isinstance(error, HeadMoved):
                self.health.cannot_write(error, size=group.bytes)
            self._take_back(group)
            for waiting, outcome in reversed(group.outcomes):
                # What was refused because of drafts that are not there is judged again, too.
                if isinstance(error, HeadMoved) or isinstance(outcome, Exception):
                    self._queue.appendleft(waiting)
                else:
                    _settle(waiting, error)
            group.outcomes.clear()
        else:
            self._tidy_after(group, started)
        finally:
            self._pending.clear()
            self._moved()

    def _tidy_after(self, group: _Group, started: float) -> None:
        """Does not raise: the group is durable, and is answered as such."""
        try:
            _count(group, started)
            if group.redacts and self._snapshots is not None:
                self._snapshots.forget()
            self._grown()
        except Exception:
            logger.exception("what follows an append to the log of %s failed", self.tenant)
            if group.redacts:
                group.erasure_pending("snapshots")

    async def _put_into_log(self, group: _Group) -> None:
        """Returns when the group is in the log and durable, raises when it is not, or Unsettled when nobody knows."""
        unsettled: Unsettled | None = None
        for _ in range(_APPENDS_MAX):
            try:
                await self._on_disk(lambda: self._append_to_log(group))
                return
            except Unmasked as error:
                self.health.cannot_write(error)
                group.erasure_pending("log")
                return
            except LogClosed:
                raise
            except Unsettled as error:
                unsettled = error
            except StorageRefused:
                # That is so of this try; the one before may arrive yet.
                if unsettled is None:
                    raise
            except HeadMoved:
                # After an unsettled try it may be our own group that moved it.
                if unsettled is None or not await self._on_disk(lambda: self._is_in_log(group)):
                    raise
                return
            if await self._on_disk(lambda: self._is_in_log(group)):
                return
        # Undone here. Should it be in the log after all, it is applied like any other process's, and its
        # nonces are known then: that is why the caller can repeat it.
        raise Unsettled(unsettled.message if unsettled else "", hint=_REPEAT)

    def _append_to_log(self, group: _Group) -> None:
        # Another machine may have taken the memory over since the claim.
        self._require_writable()
        self._log.append(group.entries, expected=group.before)

    def _is_in_log(self, group: _Group) -> bool:
        """Whether the log goes on from where the group began with this very group. Not for the event loop."""
        found = islice(self._log.read(group.before), len(group.entries))
        hashes = [entry.commit.record_hash for entry in found]
        return hashes == [entry.commit.record_hash for entry in group.entries]

    def _take_back(self, group: _Group) -> None:
        try:
            self._state.undo(len(group.entries))
        except Corrupt as error:
            logger.error("what was not appended for %s cannot be taken back: %s", self.tenant, error.message)
            self._broken = True

    async def _begin_anew(self, group: _Group) -> None:
        """The log is right: read the state from it again, then try the drafts of the group once more."""
        logger.error("the state of %s could not apply a draft and is read anew from the log", self.tenant)
        self._pending.clear()
        self._queue.extendleft(waiting for waiting, _ in reversed(group.outcomes))
        group.outcomes.clear()
        self._state = self._begin()
        self._broken = False
        await self._catch_up()

    def _moved(self) -> None:
        waiting, self._moving = self._moving or [], None
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def _refuse_queue(self, error: Exception) -> None:
        error = self._reported(error) if isinstance(error, Corrupt) else error
        while self._queue:
            _settle(self._queue.popleft(), error)

    async def _on_disk(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, work)


def _settle(waiting: _Waiting, outcome: Receipt | Exception) -> None:
    if waiting.answer.done():
        return  # The caller went away meanwhile.
    if isinstance(outcome, Receipt):
        waiting.answer.set_result(outcome)
    else:
        waiting.answer.set_exception(outcome)


_LATER: Proposal[Any] = Proposal(None, None)


def _is_large(draft: Draft) -> bool:
    return len(draft.operations) > _OPERATIONS_AT_ONCE


def _goes_alone(draft: Draft) -> bool:
    """A redaction is a group of its own, so that its note and its commit stand or fall together, and so that it is
    decided on lines that are in the log: it names them by the hash of the bytes that are left of them. A large draft
    is one, too: reads go on while it is sealed, as nothing is applied yet."""
    return draft.redacts or _is_large(draft)


def _accepted(draft: Draft, entries: Sequence[Entry], group: _Group) -> Receipt:
    group.entries.extend(entries)
    group.bytes += sum(len(entry.line) for entry in entries)
    group.redacts = group.redacts or draft.redacts
    return Receipt([entry.commit for entry in entries])


def _with_pending(receipt: Receipt, where: str) -> Receipt:
    return msgspec.structs.replace(receipt, erasure_pending=(*receipt.erasure_pending, where))


def _count(group: _Group, started: float) -> None:
    accepted = [waiting for waiting, outcome in group.outcomes if isinstance(outcome, Receipt)]
    for waiting in accepted:
        metrics.WAIT_SECONDS.observe(started - waiting.since)
    metrics.appended(
        (entry.commit.operation for entry in group.entries),
        drafts=len(accepted),
        size=group.entries[-1].end - group.entries[0].offset,
        seconds=time.perf_counter() - started,
    )


def _taken(entries: Iterator[Entry], most: int, pace: Pace) -> tuple[list[Entry], Corrupt | None]:
    """The next ones, as many as a slice has time for; at least one, if there is one. And the damage that follows them:
    a caller who needs no more than these is not refused because the slice is longer."""
    found: list[Entry] = []
    try:
        for entry in islice(entries, most):
            found.append(entry)
            if pace.elapsed() > SLICE_SECONDS:
                break
    except Corrupt as error:
        return found, error
    return found, None


async def _drive(answer: Generator[None, None, T], tenant: str) -> T:
    pace = Pace(tenant)
    try:
        while True:
            next(answer)
            elapsed = pace.elapsed()
            if pace.seconds + elapsed > LOOK_SECONDS_MAX:
                raise LimitExceeded(
                    f"the question took longer than {LOOK_SECONDS_MAX:g} s",
                    code="QUERY_TIMEOUT",
                    hint="narrow it by id, type, an attribute or a time window, or take fewer hops",
                )
            if elapsed > SLICE_SECONDS:
                await pace.rest(is_read=True)
    except StopIteration as done:
        found: T = done.value
        return found
    finally:
        pace.end()
        answer.close()
