"""The follower: a projection that only counts shows what it is handed."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tallystick.errors import Corrupt
from tallystick.log import Entry, Head, Log, head_after
from tallystick.log.files import FilesLog
from tallystick.log.memory import MemoryLog
from tallystick.projections import log_reader as module
from tallystick.projections import worker
from tallystick.projections.log_reader import LogReader
from tallystick.projections.worker import ProjectionWorker, Trouble, trouble_of
from tests import timeouts
from tests.commits_by_hand import append, draft, filled, node


class Counting:
    """Remembers what it was handed; can be told to fail, to begin again, or to be slow."""

    name = "counting"

    def __init__(self) -> None:
        self.at = Head()
        self.applied: list[list[int]] = []
        self.settled: list[bool] = []
        self.settled_often = threading.Event()
        self.again: float | None = None
        self.begin_again_at = 0
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.closed = False
        self.is_clean = True

    def position(self) -> Head:
        return self.at

    def apply(self, entries: Sequence[Entry], head: Head) -> None:
        self.gate.wait()
        if self.error is not None:
            raise self.error
        lamports = [entry.commit.lamport for entry in entries]
        if self.begin_again_at in lamports:
            self.begin_again_at, self.at = 0, Head()
            return
        self.applied.append(lamports)
        self.at = head

    def settle(self, *, final: bool = False) -> float | None:
        self.settled.append(final)
        if len(self.settled) == 3:
            self.settled_often.set()
        return self.again

    def erase(self) -> bool:
        return self.is_clean

    def reset(self) -> None:
        self.at, self.applied = Head(), []

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def follower(log: MemoryLog, counting: Counting) -> Iterator[ProjectionWorker]:
    made = ProjectionWorker(LogReader(lambda: log), counting)
    yield made
    counting.error = None
    counting.gate.set()
    made.close()


def test_it_hands_over_everything_once_and_in_order(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker
) -> None:
    filled(log, 3)
    assert follower.catch_up()
    filled(log, 2)
    assert follower.catch_up()
    assert follower.catch_up()
    assert counting.applied == [[1, 2, 3], [4, 5]]
    assert counting.at == log.head() == follower.position


def test_a_draft_is_never_cut_in_two(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_COMMITS", 2)
    append(log, draft(node("a")), draft(node("b"), node("c"), node("d")), draft(node("e")))
    follower.catch_up()
    assert counting.applied == [[1, 2, 3, 4], [5]]


def test_it_settles_only_at_the_head(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_COMMITS", 1)
    filled(log, 3)
    follower.catch_up()
    assert (len(counting.applied), counting.settled) == (3, [False])


def test_one_that_begins_again_is_replayed(log: MemoryLog, counting: Counting, follower: ProjectionWorker) -> None:
    filled(log, 2)
    follower.catch_up()
    counting.begin_again_at = 3
    filled(log, 1)
    follower.catch_up()
    assert counting.applied == [[1, 2], [1, 2, 3]]


ELSEWHERE = {
    "ahead of the log": Head(9, 9, 999, "ab" * 32, "cd" * 32, "2030-01-01T00:00:00.000Z"),
    "at a place that says something else": Head(1, 1, 10, "ab" * 32, "cd" * 32, "2020-01-01T00:00:00.000Z"),
    "at the same length with another hash": Head(3, 3, 10, "ab" * 32, "cd" * 32, "2020-01-01T00:00:00.000Z"),
}


@pytest.mark.parametrize("where", ELSEWHERE)
def test_one_that_followed_another_log_is_rebuilt(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker, where: str
) -> None:
    filled(log, 3)
    counting.at = ELSEWHERE[where]
    follower.catch_up()
    assert counting.applied == [[1, 2, 3]]


@pytest.mark.parametrize("damaged", [("n3",), ("n0", "n3")])
def test_a_damaged_log_does_not_cost_a_projection(tmp_path: Path, counting: Counting, damaged: tuple[str, ...]) -> None:
    log = FilesLog(tmp_path)
    filled(log, 5)
    entries = list(log.read(Head()))
    counting.apply(entries[:3], head_after(entries[:3], Head()))
    at = counting.at
    segment = next((tmp_path / "log").iterdir())
    for name in damaged:
        segment.write_bytes(segment.read_bytes().replace(f'"id":"{name}"'.encode(), b'"id":"x0"'))
    with pytest.raises(Corrupt):
        ProjectionWorker(LogReader(lambda: log), counting).catch_up()
    assert counting.at == at
    log.close()


def test_it_skips_when_another_process_is_at_it_and_need_not_wait(
    log: MemoryLog, counting: Counting, tmp_path: Path
) -> None:
    follower = ProjectionWorker(LogReader(lambda: log), counting, lock=tmp_path / "a" / "lock")
    filled(log, 1)
    follower.catch_up()
    filled(log, 1)
    other = os.open(tmp_path / "a" / "lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    assert not follower.catch_up(wait=False)
    assert counting.applied == [[1]]
    os.close(other)
    assert follower.catch_up(wait=False)
    assert counting.applied == [[1], [2]]
    follower.close()


async def test_closing_does_not_wait_for_a_process_that_keeps_the_lock(
    log: MemoryLog, counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tallystick.projections.worker._LAST_PATIENCE_SECONDS", 0.01)
    follower = ProjectionWorker(LogReader(lambda: log), counting, lock=tmp_path / "lock")
    filled(log, 1)
    assert await follower.reached(1, timeouts.SECONDS)
    other = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    filled(log, 1)
    assert not await follower.reached(2, 0.05)
    await asyncio.to_thread(follower.close)
    assert (counting.applied, counting.closed) == ([[1]], True)
    os.close(other)


async def test_who_waits_is_told_when_it_is_applied(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker
) -> None:
    filled(log, 2)
    assert await follower.reached(2, timeouts.SECONDS)
    assert counting.applied == [[1, 2]]
    assert await follower.reached(1, 0)


async def test_who_waits_too_long_is_told_so(log: MemoryLog, counting: Counting, follower: ProjectionWorker) -> None:
    counting.gate.clear()
    filled(log, 1)
    assert not await follower.reached(1, 0.05)
    counting.gate.set()
    assert await follower.reached(1, timeouts.SECONDS)


async def test_who_will_not_wait_for_the_head_is_told_that_it_is_not_there_yet(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker
) -> None:
    counting.gate.clear()
    filled(log, 1)
    assert not await follower.reached(1, 0.01)
    assert not follower.catch_up_within(0.01)
    counting.gate.set()
    assert await follower.reached(1, timeouts.SECONDS)
    filled(log, 1)
    assert follower.catch_up_within(timeouts.SECONDS)
    assert counting.applied == [[1], [2]]


async def test_who_waits_a_while_gets_as_far_as_that_goes(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker
) -> None:
    filled(log, 1)
    assert await follower.reached(1, timeouts.SECONDS)
    counting.gate.clear()
    filled(log, 1)
    assert not follower.catch_up_within(-1.0)
    counting.gate.set()
    assert await follower.reached(2, timeouts.SECONDS)


def test_where_no_thread_follows_the_head_is_waited_for(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker
) -> None:
    filled(log, 2)
    assert follower.catch_up_within(0)
    assert counting.applied == [[1, 2]]


def test_a_group_that_is_being_appended_is_not_read_in_part(log: MemoryLog) -> None:
    filled(log, 1)
    before = log.head()
    filled(log, 3)
    log._head = before  # As another thread finds it while the lines are added one by one.
    assert [entry.commit.lamport for entry in log.read(Head())] == [1]


async def test_many_who_wait_are_served_by_few_looks(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker
) -> None:
    counting.gate.clear()
    filled(log, 1)
    follower.start()
    waiting = [asyncio.ensure_future(follower.reached(1 + number, timeouts.SECONDS)) for number in range(50)]
    filled(log, 49)
    for _ in range(50):
        follower.notify()
    counting.gate.set()
    assert await asyncio.gather(*waiting) == [True] * 50
    assert len(counting.applied) <= 3


async def test_one_that_failed_is_tried_again(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker, caplog: pytest.LogCaptureFixture
) -> None:
    counting.error = OSError("no room")
    filled(log, 1)
    assert not await follower.reached(1, 0.05)
    counting.error = None
    assert await follower.reached(1, timeouts.SECONDS)
    assert "does not move on" in caplog.text


def test_what_keeps_one_from_moving_on_can_be_seen_from_outside_until_it_moves_on(
    log: MemoryLog, counting: Counting, tmp_path: Path
) -> None:
    lock = tmp_path / "counting.lock"
    follower, other = (
        ProjectionWorker(LogReader(lambda: log), counting, lock=lock),
        ProjectionWorker(LogReader(lambda: log), counting, lock=lock),
    )
    filled(log, 2)
    follower.catch_up()
    assert trouble_of(lock) is None
    filled(log, 1)
    counting.error = ValueError("what somebody wrote")
    with pytest.raises(ValueError, match="what somebody wrote"):
        follower.catch_up()
    assert trouble_of(lock) == Trouble("a bug of ours: ValueError", position=2)
    counting.error = None
    other.catch_up()
    assert trouble_of(lock) is None
    follower.close()
    other.close()


async def test_one_that_put_something_off_is_called_again(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker
) -> None:
    counting.again = 0.001
    filled(log, 1)
    await follower.reached(1, timeouts.SECONDS)
    assert await asyncio.to_thread(counting.settled_often.wait)
    assert counting.applied == [[1]]


def test_closing_applies_what_is_there_and_settles_for_good(log: MemoryLog, counting: Counting) -> None:
    follower = ProjectionWorker(LogReader(lambda: log), counting)
    filled(log, 1)
    follower.catch_up()
    filled(log, 1)
    follower.close()
    follower.close()
    assert (counting.at, counting.settled[-1], counting.closed) == (log.head(), True, True)


def test_closing_does_not_wait_for_the_end_of_a_long_log(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_COMMITS", 2)
    monkeypatch.setattr(worker, "_LAST_SECONDS", -1.0)
    filled(log, 10)
    counting.gate.clear()
    follower.start()
    follower.end_soon()
    counting.gate.set()
    follower.close()
    assert counting.at.lamport < 10
    assert counting.closed
    assert counting.settled == []
    again = ProjectionWorker(LogReader(lambda: log), counting)
    assert again.catch_up()
    assert counting.at == log.head()
    monkeypatch.undo()
    again.close()


def test_one_that_was_never_used_opens_nothing_and_is_closed(counting: Counting, tmp_path: Path) -> None:
    ProjectionWorker(LogReader(lambda: FilesLog(tmp_path / "_system")), counting, lock=tmp_path / "lock").close()
    assert counting.closed
    assert list(tmp_path.iterdir()) == []


def test_a_handle_of_its_own_sees_what_others_append(tmp_path: Path, counting: Counting) -> None:
    writer: Log = FilesLog(tmp_path / "_system")
    follower = ProjectionWorker(LogReader(lambda: FilesLog(tmp_path / "_system")), counting, lock=tmp_path / "lock")
    filled(writer, 1)
    follower.catch_up()
    filled(writer, 2)
    follower.catch_up()
    assert counting.applied == [[1], [2, 3]]
    follower.close()
    writer.close()
    shutil.rmtree(tmp_path)


async def test_who_waits_for_an_erasure_waits_until_no_copy_is_left(
    log: MemoryLog, counting: Counting, follower: ProjectionWorker
) -> None:
    counting.is_clean = False
    filled(log, 1)
    assert await follower.reached(1, timeouts.SECONDS)
    waiting = asyncio.create_task(follower.reached(1, timeouts.SECONDS, erased=True))
    assert not await follower.reached(1, 0.05, erased=True)
    assert not waiting.done()
    counting.is_clean = True
    assert await waiting


# -- far to go


def _process(code: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code])


async def test_what_has_far_to_go_is_left_to_another_process(
    log: MemoryLog, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "FAR_COMMITS", 10)
    filled(log, 20)

    def elsewhere() -> subprocess.Popen[bytes]:
        counting.at = log.head()
        return _process("")

    made = ProjectionWorker(LogReader(lambda: log), counting, elsewhere=elsewhere)
    made.start()
    assert await made.reached(20, timeouts.SECONDS)
    assert counting.applied == []
    filled(log, 9)
    made.notify()
    assert await made.reached(29, timeouts.SECONDS)
    made.close()
    assert counting.applied == [list(range(21, 30))]


def _at_head(made: ProjectionWorker) -> None:
    with made.at_head():
        pass


@pytest.mark.parametrize(
    "asked", [ProjectionWorker.erase, ProjectionWorker.catch_up, _at_head], ids=["erase", "catch up", "at the head"]
)
async def test_whoever_waits_for_it_begins_no_second_process(
    log: MemoryLog, counting: Counting, monkeypatch: pytest.MonkeyPatch, asked: Callable[[ProjectionWorker], object]
) -> None:
    monkeypatch.setattr(worker, "FAR_COMMITS", 10)
    filled(log, 20)
    begun = []

    def elsewhere() -> subprocess.Popen[bytes]:
        begun.append(_process("import time; time.sleep(0.2)"))
        counting.at = log.head()
        return begun[0]

    made = ProjectionWorker(LogReader(lambda: log), counting, elsewhere=elsewhere)
    await asyncio.gather(*(asyncio.to_thread(asked, made) for _ in range(3)))
    made.start()
    made.close()
    assert len(begun) == 1
    assert counting.applied == []


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "import os; os.abort()", "no process"])
async def test_what_another_process_left_undone_is_applied_here(
    log: MemoryLog, counting: Counting, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(worker, "FAR_COMMITS", 10)
    filled(log, 20)

    def elsewhere() -> subprocess.Popen[bytes]:
        if code == "no process":
            raise OSError("too many of them")
        return _process(code)

    made = ProjectionWorker(LogReader(lambda: log), counting, elsewhere=elsewhere)
    made.start()
    assert await made.reached(20, timeouts.SECONDS)
    made.close()
    assert counting.at == log.head()


def test_who_is_closed_ends_the_process_that_it_waits_for(
    log: MemoryLog, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "FAR_COMMITS", 10)
    filled(log, 20)
    begun, running = threading.Event(), []

    def elsewhere() -> subprocess.Popen[bytes]:
        running.append(_process("import signal; signal.pause()"))
        begun.set()
        return running[0]

    made = ProjectionWorker(LogReader(lambda: log), counting, elsewhere=elsewhere)
    made.start()
    assert begun.wait(timeouts.SECONDS)
    made.close()
    assert running[0].returncode is not None
    assert counting.closed


def test_no_second_process_is_begun_beside_one_that_is_at_it(
    tmp_path: Path, log: MemoryLog, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "FAR_COMMITS", 10)
    monkeypatch.setattr(worker, "_LAST_PATIENCE_SECONDS", 0.0)
    filled(log, 20)
    begun = []

    def elsewhere() -> subprocess.Popen[bytes]:
        begun.append(_process(""))
        return begun[0]

    made = ProjectionWorker(LogReader(lambda: log), counting, lock=tmp_path / "lock", elsewhere=elsewhere)
    with (tmp_path / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        made.start()
        made.close()
    assert begun == []
