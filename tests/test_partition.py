"""The write step: what is acknowledged, what is seen, and what a failure leaves."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tallystick.commits import Commit, Draft
from tallystick.engine.partition import Limits, Partition, Propose
from tallystick.errors import (
    Conflict,
    Corrupt,
    HeadMoved,
    InvalidArgument,
    LimitExceeded,
    LogClosed,
    StorageRefused,
    Unsettled,
)
from tallystick.log import Entry, Head
from tallystick.log.files import FilesLog
from tallystick.log.health import LogHealth, Trouble
from tallystick.log.memory import MemoryLog
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.state import State
from tests import timeouts
from tests.commits_by_hand import START, append, draft, entries, node
from tests.promises import promise


class Watched(MemoryLog):
    """A memory log that counts its appends and can be told to wait or to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[int] = []
        self.go = threading.Event()
        self.go.set()
        self.reached = threading.Event()
        self.failures: list[Exception] = []
        self.unreadable: Exception | None = None

    def head(self) -> Head:
        if self.unreadable is not None:
            raise self.unreadable
        return super().head()

    def append(self, entries: Sequence[Entry], *, expected: Head) -> Head:
        self.reached.set()
        assert self.go.wait(timeouts.SECONDS)
        if self.failures:
            raise self.failures.pop(0)
        self.groups.append(len(entries))
        return super().append(entries, expected=expected)


async def checked(partition: Partition) -> None:
    """Run a check to its end: a refused draft waits for it."""
    for _ in range(20):
        await asyncio.sleep(0)  # the writer of the last group ends
    partition.check(writes=True)

    def refuse(state: State) -> Draft:
        raise Conflict("it was only to be waited for")

    with suppress(Conflict, Corrupt):
        await partition.commit(refuse)


def writing(node_id: str, **attrs: Any) -> Propose:
    return lambda state: draft(node(node_id, **attrs))


def ids(state: State) -> set[str]:
    return {name for name in ("a", "b", "c", "d") if state.node(name) is not None}


async def test_a_commit_is_answered_with_what_was_appended() -> None:
    partition = Partition(MemoryLog(), clock=lambda: START)
    receipt = await partition.commit(writing("a", x=1))
    (commit,) = receipt.commits
    assert (commit.lamport, commit.tenant, commit.timestamp) == (1, "default", "2023-11-14T22:13:20.000Z")
    found = await partition.look(lambda state: state.node("a"))
    assert found is not None
    assert found.attrs == {"x": 1}
    assert found.provenance.commit_id == commit.commit_id


@promise("L54", "drafts that wait together are synced together")
async def test_drafts_that_wait_together_are_appended_together() -> None:
    log = Watched()
    partition = Partition(log)
    receipts = await asyncio.gather(*(partition.commit(writing(f"n{number}")) for number in range(64)))
    assert sorted(receipt.commits[0].lamport for receipt in receipts) == list(range(1, 65))
    assert len(log.groups) <= 2


@pytest.mark.parametrize("allowed", [0, 1], ids=["before the claim", "between claim and append"])
async def test_a_log_that_takes_no_writes_any_more_is_not_appended_to(allowed: int) -> None:
    checks = iter([None] * allowed)

    def require_writable() -> None:
        if next(checks, "fenced"):
            raise StorageRefused("taken over", code="TAKEN_OVER")

    log = Watched()
    partition = Partition(log, require_writable=require_writable)
    with pytest.raises(StorageRefused, match="taken over"):
        await partition.commit(writing("a"))
    assert log.groups == []
    assert await partition.look(ids) == set()
    assert log.claim(timeout_seconds=0), "the claim was given back"


async def test_a_group_is_no_longer_than_its_limit() -> None:
    log = Watched()
    partition = Partition(log, limits=Limits(group_drafts_max=10))
    await asyncio.gather(*(partition.commit(writing(f"n{number}")) for number in range(25)))
    assert log.groups == [10, 10, 5]


async def test_a_group_takes_no_draft_after_one_of_many_entries() -> None:
    log = MemoryLog()
    partition = Partition(log)
    drafts = [lambda state, part=part: draft(*(node(f"{part}-{number}") for number in range(500))) for part in "abc"]
    await asyncio.gather(*map(partition.commit, drafts))
    assert [entry.commit.group for entry in log.read(Head())][::500] == [None, None, None]


async def test_a_later_draft_of_a_group_is_judged_where_the_earlier_ones_lead() -> None:
    partition = Partition(MemoryLog())

    def only_once(state: State) -> Draft:
        if state.node("a") is not None:
            raise Conflict("it is there already")
        return draft(node("a"))

    outcomes = await asyncio.gather(*(partition.commit(only_once) for _ in range(5)), return_exceptions=True)
    assert [isinstance(outcome, Conflict) for outcome in outcomes] == [False, True, True, True, True]
    assert await partition.look(lambda state: state.count) == 1


async def test_a_refused_draft_does_not_hold_up_the_others_of_its_group() -> None:
    log = Watched()
    partition = Partition(log)

    def refuse(state: State) -> Draft:
        raise Conflict("no")

    outcomes = await asyncio.gather(
        partition.commit(writing("a")), partition.commit(refuse), partition.commit(writing("b")), return_exceptions=True
    )
    assert isinstance(outcomes[1], Conflict)
    assert await partition.look(ids) == {"a", "b"}


async def test_a_read_waits_until_what_it_would_see_is_durable() -> None:
    log = Watched()
    partition = Partition(log)
    await partition.commit(writing("a"))
    log.go.clear()
    log.reached.clear()
    write = asyncio.create_task(partition.commit(writing("b")))
    await asyncio.to_thread(log.reached.wait, 10)
    read = asyncio.create_task(partition.look(ids))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not read.done()
    log.go.set()
    await write
    assert await read == {"a", "b"}


async def test_a_read_that_waited_for_a_group_does_not_wait_for_the_next() -> None:
    log = Watched()
    partition = Partition(log)
    log.go.clear()
    first = asyncio.create_task(partition.commit(writing("a")))
    await asyncio.to_thread(log.reached.wait, 10)
    read = asyncio.create_task(partition.look(ids))
    second = asyncio.create_task(partition.commit(writing("b")))
    for _ in range(20):
        await asyncio.sleep(0)
    log.go.set()
    assert await read == {"a"}
    await asyncio.gather(first, second)
    assert log.groups == [1, 1]


async def test_a_failed_append_is_seen_by_nobody_and_writing_goes_on() -> None:
    log = Watched()
    partition = Partition(log)
    await partition.commit(writing("a", version=1))
    log.failures.append(StorageRefused("no space"))
    outcomes = await asyncio.gather(
        partition.commit(writing("a", version=2)), partition.commit(writing("b")), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [StorageRefused, StorageRefused]
    found = await partition.look(lambda state: state.node("a"))
    assert found is not None
    assert found.attrs == {"version": 1}
    assert await partition.look(ids) == {"a"}
    await partition.commit(writing("c"))
    assert await partition.look(ids) == {"a", "c"}


async def test_a_refused_write_is_in_the_health_until_one_succeeds_and_a_closed_log_until_a_restart() -> None:
    log = Watched()
    partition = Partition(log)
    log.failures.append(StorageRefused("no space"))
    with pytest.raises(StorageRefused):
        await partition.commit(writing("a"))
    assert partition.health.trouble == Trouble("the log cannot be written", "STORAGE_REFUSED")
    await partition.commit(writing("a"))
    assert [partition.health.trouble] == [None]
    log.failures.append(LogClosed("the sync failed"))
    with pytest.raises(LogClosed):
        await partition.commit(writing("b"))
    await partition.commit(writing("b"))
    assert partition.health.trouble == Trouble("the sync failed", "LOG_CLOSED", restart_helps=True)


async def test_a_check_clears_a_refusal_only_when_as_much_could_be_stored() -> None:
    log = Watched()
    free = 10

    def try_storage(size: int) -> None:
        if size > free:
            raise OSError(errno.ENOSPC, "No space left on device")

    partition = Partition(log, try_storage=try_storage)
    log.failures.append(StorageRefused("no space"))
    with pytest.raises(StorageRefused):
        await partition.commit(writing("a"))
    await checked(partition)
    assert partition.health.trouble == Trouble("the log cannot be used: No space left on device", "STORAGE_REFUSED")
    free = 10_000
    await checked(partition)
    assert partition.health.trouble is None


async def test_a_log_that_cannot_be_read_is_in_the_health_until_it_can() -> None:
    log = Watched()
    partition = Partition(log)
    await partition.commit(writing("a"))
    log.unreadable = Corrupt("the log ends at byte 7")
    await checked(partition)
    assert partition.health.trouble == Trouble("the log is damaged", "LOG_CORRUPT")
    log.unreadable = None
    await checked(partition)
    assert partition.health.trouble is None


def test_a_lock_that_is_held_while_the_head_stands_still_is_trouble_after_a_while() -> None:
    now = 0.0
    health = LogHealth(lambda: now)
    health.lock_is_held(Head())
    now = 20.0
    assert health.trouble == Trouble("waiting for the log's lock for 20 s", "LOG_STUCK")
    health.lock_is_held(Head(lamport=1))
    assert [health.trouble] == [None]
    health.begin("appending to the log")
    now = 40.0
    health.can_write()
    assert health.trouble == Trouble("appending to the log for 20 s", "LOG_STUCK")
    health.end()
    assert health.trouble is None


@pytest.mark.parametrize("newest_first", [False, True])
async def test_commits_before_a_damaged_one_are_read_whatever_slice_they_are_in(
    tmp_path: Path, newest_first: bool
) -> None:
    partition = Partition(FilesLog(tmp_path))
    for number in range(1, 6):
        await partition.commit(writing(f"n{number}", word=f"word-{number}"))
    (segment,) = (tmp_path / "log").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b"word-3", b"WORD-3"))
    lamports: list[int] = []

    async def read() -> None:
        async for group in partition.entries(newest_first=newest_first):
            lamports.extend(entry.commit.lamport for entry in group)

    with pytest.raises(Corrupt):
        await read()
    assert lamports == ([5, 4] if newest_first else [1, 2])
    await partition.close()


async def test_a_log_that_cannot_be_read_is_reported_until_it_can_be_read_again(tmp_path: Path) -> None:
    partition = Partition(FilesLog(tmp_path))
    await partition.commit(writing("a"))
    assert [partition.health.trouble] == [None]
    sound = (tmp_path / "head").read_bytes()
    (tmp_path / "head").write_bytes(bytes(len(sound)))
    with pytest.raises(Corrupt):
        await partition.look(ids)
    assert partition.health.trouble == Trouble("the log is damaged", "LOG_CORRUPT")
    with pytest.raises(Corrupt):
        await partition.commit(writing("b"))
    assert partition.health.trouble == Trouble("the log is damaged", "LOG_CORRUPT")
    (tmp_path / "head").write_bytes(sound)
    assert await partition.look(ids) == {"a"}
    await checked(partition)
    assert [partition.health.trouble] == [None]
    await partition.close()


async def test_a_draft_is_judged_again_when_another_writer_was_first() -> None:
    log = Watched()
    partition = Partition(log)
    seen: list[int] = []

    def propose(state: State) -> Draft:
        seen.append(state.count)
        return draft(node("b"))

    await partition.commit(writing("a"))
    log.failures.append(HeadMoved("moved"))
    MemoryLog.append(log, entries(log.head(), draft(node("foreign"))), expected=log.head())
    receipt = await partition.commit(propose)
    assert seen[-1] == 2
    assert receipt.commits[0].lamport == 3


@pytest.mark.parametrize("failure", [HeadMoved("moved"), StorageRefused("no space")])
async def test_nobody_is_refused_because_of_a_draft_that_did_not_reach_the_log(failure: Exception) -> None:
    """The second is refused only while the first stands; what became of the first is not known before the append."""
    log = Watched()
    partition = Partition(log)
    tries: list[str] = []

    def first(state: State) -> Draft:
        tries.append("first")
        if tries.count("first") > 1:
            raise Conflict("it is too late")
        return draft(node("a"))

    def second(state: State) -> Draft:
        if state.node("a") is not None:
            raise Conflict("it is there already")
        return draft(node("a"))

    log.failures.append(failure)
    outcomes = await asyncio.gather(partition.commit(first), partition.commit(second), return_exceptions=True)
    assert type(outcomes[0]) is (Conflict if isinstance(failure, HeadMoved) else StorageRefused)
    assert not isinstance(outcomes[1], BaseException)
    assert await partition.look(ids) == {"a"}


async def test_a_refusal_that_rests_on_a_draft_of_its_group_waits_until_that_is_durable() -> None:
    log = Watched()
    partition = Partition(log)

    def refuse(state: State) -> Draft:
        raise Conflict("it is there already")

    log.go.clear()
    first, second = (asyncio.create_task(partition.commit(each)) for each in (writing("a"), refuse))
    await asyncio.to_thread(log.reached.wait, timeouts.SECONDS)
    await asyncio.sleep(0)
    assert not second.done()
    log.go.set()
    await first
    with pytest.raises(Conflict):
        await second


async def test_a_refusal_of_the_disk_says_nothing_of_a_try_before_it_that_may_still_arrive() -> None:
    log = Watched()
    partition = Partition(log)
    log.failures += [Unsettled("no answer"), StorageRefused("no server answers")]
    with pytest.raises(Unsettled):
        await partition.commit(writing("a"))


async def test_what_was_written_before_is_answered_and_not_written_again() -> None:
    log = Watched()
    partition = Partition(log)
    first = await partition.commit(writing("a"))

    def again(state: State) -> Commit:
        return first.commits[0]

    receipt = await partition.commit(again)
    assert receipt.duplicate
    assert receipt.commits == first.commits
    assert log.groups == [1]


@promise("L8, partition", "a commit comes after every foreign commit that was observed")
async def test_a_foreign_lamport_that_was_observed_comes_before_the_next_commit() -> None:
    partition = Partition(MemoryLog())
    await partition.commit(writing("a"))
    partition.observe(10)
    receipt = await partition.commit(writing("b"))
    assert receipt.commits[0].lamport == 11
    assert await partition.look(lambda state: (state.count, state.position)) == (2, 11)


@pytest.mark.parametrize("foreign", [-1, 2**53 - 1, 2**64])
async def test_a_foreign_lamport_that_leaves_no_room_is_refused(foreign: int) -> None:
    partition = Partition(MemoryLog())
    with pytest.raises(InvalidArgument):
        partition.observe(foreign)
    assert (await partition.commit(writing("a"))).commits[0].lamport == 1


async def test_time_never_goes_backwards_in_a_log() -> None:
    times = iter([START + 5_000, START, START + 9_000])
    partition = Partition(MemoryLog(), clock=lambda: next(times))
    stamps = [(await partition.commit(writing(name))).commits[0].timestamp for name in "abc"]
    assert stamps[0] == stamps[1] < stamps[2]


@promise("L63", "a state that fails to apply is read anew from the log")
async def test_a_state_that_fails_to_apply_is_read_anew_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Watched()
    partition = Partition(log)
    await partition.commit(writing("a"))
    real = State.apply

    def apply(self: State, commit: Commit, offset: int, end: int) -> None:
        real(self, commit, offset, end)
        if commit.document()["id"] == "b":
            raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(State, "apply", apply)
        outcomes = await asyncio.gather(
            partition.commit(writing("c")),
            partition.commit(writing("b")),
            partition.commit(writing("d")),
            return_exceptions=True,
        )
    assert isinstance(outcomes[1], ZeroDivisionError)
    assert await partition.look(ids) == {"a", "c", "d"}
    assert [entry.commit.document()["id"] for entry in log.read(Head())] == ["a", "c", "d"]


async def test_a_question_that_takes_too_long_is_stopped_and_others_run_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partition = Partition(MemoryLog())
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    def endless(state: State) -> Any:
        while True:
            if ticks > 20:
                monkeypatch.setattr("tallystick.engine.partition.LOOK_SECONDS_MAX", -1.0)
            yield

    ticking = asyncio.create_task(tick())
    with pytest.raises(LimitExceeded) as caught:
        await partition.look(endless)
    ticking.cancel()
    assert caught.value.code == "QUERY_TIMEOUT"


async def test_a_position_that_is_not_reached_in_time_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.engine.partition._POSITION_WAIT_SECONDS", 0.05)
    partition = Partition(MemoryLog())
    await partition.commit(writing("a"))
    assert await partition.look(ids, min_position=1) == {"a"}
    with pytest.raises(LimitExceeded) as caught:
        await partition.look(ids, min_position=2)
    assert caught.value.code == "POSITION_NOT_REACHED"


async def test_a_cancelled_caller_does_not_stop_the_writer() -> None:
    log = Watched()
    partition = Partition(log)
    log.go.clear()
    gone = asyncio.create_task(partition.commit(writing("a")))
    await asyncio.to_thread(log.reached.wait, 10)
    waiting = asyncio.create_task(partition.commit(writing("b")))
    gone.cancel()
    log.go.set()
    assert (await waiting).commits[0].lamport == 2
    assert await partition.look(ids) == {"a", "b"}


async def test_closing_waits_for_what_was_handed_in(tmp_path: Path) -> None:
    partition = Partition(FilesLog(tmp_path))
    writes = [asyncio.create_task(partition.commit(writing(name))) for name in "abcd"]
    await asyncio.sleep(0)
    await partition.close()
    assert [(await write).commits[0].lamport for write in writes] == [1, 2, 3, 4]


async def test_two_partitions_on_one_base_see_each_other_and_lose_nothing(tmp_path: Path) -> None:
    one, other = Partition(FilesLog(tmp_path)), Partition(FilesLog(tmp_path))
    await asyncio.gather(
        *(one.commit(writing(f"one{number}")) for number in range(50)),
        *(other.commit(writing(f"other{number}")) for number in range(50)),
    )
    for partition in (one, other):
        assert await partition.look(lambda state: state.count) == 100
        assert await partition.look(lambda state: state.node("one49") and state.node("other49")) is not None
    await one.close()
    await other.close()


async def test_what_others_write_while_a_draft_waits_for_them_is_applied_meanwhile(tmp_path: Path) -> None:
    other, partition = FilesLog(tmp_path), Partition(FilesLog(tmp_path))
    assert other.claim(timeout_seconds=0)
    write = asyncio.create_task(partition.commit(writing("own")))
    append(other, draft(node("another's")))
    await asyncio.to_thread(timeouts.wait_until, lambda: partition.knows("another's"))
    assert not write.done()
    other.release()
    assert (await write).commits[0].lamport == 2
    await partition.close()
    other.close()


class Notes:
    """An aspect that counts how often it was made."""

    types: ClassVar[frozenset[str]] = frozenset({"note"})
    made = 0

    def __init__(self) -> None:
        Notes.made += 1
        self.ids: set[str] = set()

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        self.ids ^= {each.id for each in (before, after) if each is not None} if not (before and after) else set()

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None: ...


async def test_an_aspect_is_built_ahead_in_slices_while_others_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.engine.partition.SLICE_SECONDS", 0.0)
    monkeypatch.setattr(Notes, "made", 0)
    partition = Partition(MemoryLog(), clock=lambda: START)
    await partition.commit(lambda state: draft(*(node(f"n{number}") for number in range(1_000))))
    warming = asyncio.create_task(partition.warm(Notes))
    await asyncio.sleep(0)
    assert Notes.made == 1
    assert not warming.done()
    await partition.commit(writing("late"))
    await warming
    found = await partition.look(lambda state: state.derived(Notes).ids)
    assert found == {"late", *(f"n{number}" for number in range(1_000))}
    assert Notes.made == 1


async def test_whoever_cannot_wait_for_an_aspect_builds_the_rest_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.engine.partition.SLICE_SECONDS", 0.0)
    monkeypatch.setattr(Notes, "made", 0)
    partition = Partition(MemoryLog(), clock=lambda: START)
    await partition.commit(lambda state: draft(*(node(f"n{number}") for number in range(1_000))))
    warming = asyncio.create_task(partition.warm(Notes))
    await asyncio.sleep(0)
    found = await partition.look(lambda state: len(state.derived(Notes).ids))
    assert (found, warming.done()) == (1_000, False)
    await warming
    assert Notes.made == 1


async def test_catching_up_lets_others_run_and_reads_see_all_of_it_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tallystick.engine.partition.SLICE_SECONDS", 0.0)
    log = MemoryLog()
    partition = Partition(log)
    for number in range(100):
        MemoryLog.append(log, entries(log.head(), draft(node(f"n{number}"))), expected=log.head())
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    counts = await asyncio.gather(*(partition.look(lambda state: state.count) for _ in range(3)))
    ticking.cancel()
    assert counts == [100] * 3
    assert turns >= 100


async def test_what_other_processes_wrote_is_handed_on_as_it_is_read_whole_drafts_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.engine.partition.SLICE_SECONDS", 0.0)
    handed: list[list[Entry]] = []
    ours = Partition(FilesLog(tmp_path), appended=lambda tenant, group: handed.append(list(group)))
    theirs = Partition(FilesLog(tmp_path))
    await ours.commit(writing("a"))
    await theirs.commit(writing("b"))
    await theirs.commit(lambda state: draft(node("c"), node("d"), node("e")))
    assert await ours.look(ids) == {"a", "b", "c", "d"}
    assert [[entry.commit.lamport for entry in group] for group in handed] == [[1], [2], [3, 4, 5]]
    await ours.close()
    await theirs.close()
