"""Drafts with many operations are sealed and applied in slices; readers see all of one or nothing."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tallystick.commits import Draft
from tallystick.engine.partition import Partition, Proposal, Propose
from tallystick.errors import Conflict, StorageRefused
from tallystick.log.files import FilesLog
from tallystick.log.memory import MemoryLog
from tallystick.log.proof import prove
from tallystick.state.state import State
from tests.commits_by_hand import append, draft, node
from tests.test_partition import Watched

MANY = 500


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every step, so that others run wherever they could."""
    monkeypatch.setattr("tallystick.system.turns.SLICE_SECONDS", 0.0)
    monkeypatch.setattr("tallystick.engine.partition.SLICE_SECONDS", 0.0)


def many(state: State) -> Draft:
    return draft(*(node(f"n{number}") for number in range(MANY)))


async def test_reads_go_on_while_a_large_draft_is_sealed_and_see_no_half_of_it() -> None:
    partition = Partition(MemoryLog())
    (first,) = (await partition.commit(lambda state: draft(node("first")))).commits
    writing = asyncio.create_task(partition.commit(many))
    seen: list[int] = []
    while not writing.done():
        seen.append(await partition.look(lambda state: state.count))
        await asyncio.sleep(0)
    receipt = await writing
    assert set(seen) <= {1, 1 + MANY}
    assert seen.count(1) > MANY // 2
    assert [commit.lamport for commit in receipt.commits] == list(range(first.lamport + 1, first.lamport + 1 + MANY))


async def test_a_large_draft_is_judged_again_when_another_writer_was_first() -> None:
    log = MemoryLog()
    partition = Partition(log)
    heads: list[int] = []

    def propose(state: State) -> Draft:
        heads.append(state.count)
        if state.node("foreign") is not None and len(heads) > 5:
            raise Conflict("asked too often")
        return many(state)

    writing = asyncio.create_task(partition.commit(propose))
    for _ in range(20):
        await asyncio.sleep(0)
    append(log, draft(node("foreign")))
    assert await partition.look(lambda state: state.count) == 1
    receipt = await writing
    assert heads == [0, 1]
    assert receipt.commits[0].lamport == 2


async def test_a_large_draft_that_is_not_appended_leaves_nothing() -> None:
    log = Watched()
    partition = Partition(log)
    await partition.commit(lambda state: draft(node("first")))
    log.failures.append(StorageRefused("no space"))
    writing = asyncio.create_task(partition.commit(many))
    with pytest.raises(StorageRefused):
        await writing
    assert await partition.look(lambda state: (state.count, state.node("n0"))) == (1, None)
    assert len((await partition.commit(many)).commits) == MANY


async def test_small_drafts_that_wait_behind_a_large_one_are_written_after_it() -> None:
    partition = Partition(MemoryLog())
    receipts = await asyncio.gather(
        partition.commit(lambda state: draft(node("a"))),
        partition.commit(many),
        partition.commit(lambda state: draft(node("z"))),
    )
    assert [receipt.commits[0].lamport for receipt in receipts] == [1, 2, 2 + MANY]


_DYING = """
import asyncio, os, signal, sys
from pathlib import Path
import tallystick.engine.partition as partitions
from tallystick.system import turns
from tallystick.log.files import FilesLog
from tests.test_large_drafts import many
from tests.commits_by_hand import draft, node

turns.SLICE_SECONDS = 0.0

async def die() -> None:
    partition = partitions.Partition(FilesLog(Path(sys.argv[1])))
    await partition.open()
    await partition.commit(lambda state: draft(node("first")))
    asyncio.create_task(partition.commit(many))
    for _ in range(int(sys.argv[2])):
        await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(die())
"""


@pytest.mark.parametrize("pauses_taken", [5, MANY // 2, MANY + MANY // 2])
async def test_a_process_killed_in_the_middle_of_a_large_draft_leaves_nothing_of_it(
    tmp_path: Path, pauses_taken: int
) -> None:
    """While it is sealed, and while it is applied."""
    died = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", _DYING, str(tmp_path), str(pauses_taken)], check=False
    )
    assert died.returncode == -signal.SIGKILL
    partition = Partition(FilesLog(tmp_path))
    await partition.open()
    assert await partition.look(lambda state: state.count) == 1
    assert len((await partition.commit(many)).commits) == MANY
    await partition.close()
    assert prove(tmp_path).sound


# -- a judgement that takes long


def slowly(seen: list[int]) -> Propose[str]:
    """A proposal of many steps that notes the count of commits at which each judgement began."""

    def propose(state: State) -> Generator[None, None, Proposal[str]]:
        seen.append(state.count)
        for _ in range(MANY):
            yield
        return Proposal(draft(node("slow")), f"judged at {state.count}")

    return propose


async def test_reads_go_on_while_a_long_judgement_is_made_and_its_answer_comes_with_the_receipt() -> None:
    partition = Partition(MemoryLog())
    judged: list[int] = []
    writing = asyncio.create_task(partition.commit(slowly(judged)))
    reads = 0
    while not writing.done():
        assert await partition.look(lambda state: state.count) in (0, 1)
        reads += 1
        await asyncio.sleep(0)
    receipt = await writing
    assert receipt.answer == "judged at 0"
    assert reads > 10
    assert judged == [0]


async def test_a_long_judgement_waits_for_the_drafts_before_it_and_then_begins_anew() -> None:
    partition = Partition(MemoryLog())
    judged: list[int] = []
    first = asyncio.create_task(partition.commit(lambda state: draft(node("first"))))
    second = asyncio.create_task(partition.commit(slowly(judged)))
    third = asyncio.create_task(partition.commit(lambda state: draft(node("third"))))
    receipts = await asyncio.gather(first, second, third)
    assert [receipt.commits[0].lamport for receipt in receipts] == [1, 2, 3]
    assert receipts[1].answer == "judged at 1"
    assert judged == [1, 1]


async def test_a_long_judgement_is_made_again_when_another_writer_was_first() -> None:
    log = MemoryLog()
    partition = Partition(log)
    judged: list[int] = []
    writing = asyncio.create_task(partition.commit(slowly(judged)))
    for _ in range(20):
        await asyncio.sleep(0)
    append(log, draft(node("foreign")))
    assert await partition.look(lambda state: state.count) == 1
    receipt = await writing
    assert judged == [0, 1]
    assert receipt.answer == "judged at 1"


async def test_a_long_judgement_that_refuses_leaves_the_writer_in_order() -> None:
    partition = Partition(MemoryLog())

    def refuse(state: State) -> Generator[None, None, Proposal[None]]:
        yield
        yield
        raise Conflict("refused")

    with pytest.raises(Conflict, match="refused"):
        await partition.commit(refuse)
    assert len((await partition.commit(many)).commits) == MANY


async def test_a_proposal_of_nothing_is_answered_and_writes_nothing() -> None:
    partition = Partition(MemoryLog())
    receipt = await partition.commit(lambda state: Proposal(None, "nothing to do"))
    assert (receipt.commits, receipt.duplicate, receipt.answer) == ([], False, "nothing to do")
    assert partition.position == 0
