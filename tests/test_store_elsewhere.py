"""A session that began on another machine: what it wrote there is known before it is answered or refused here."""

from __future__ import annotations

from tallystick.commits import Draft
from tallystick.engine.partition import Partition, Receipt
from tallystick.engine.store import Store
from tallystick.errors import NotFound, StorageRefused
from tallystick.log.memory import MemoryLog
from tallystick.policy import Action, Principal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tests.commits_by_hand import append, draft, node
from tests.policy.gated_partition import Counting

VISITOR = Principal(actor="ann", tenant="default", session="elsewhere")
RESIDENT = Principal(actor="ann", tenant="default", session="here")


class LaggingLog(MemoryLog):
    """Has what another machine wrote once the others were asked."""

    def __init__(self) -> None:
        super().__init__()
        self.is_cut_off = False
        self.asked = 0
        self.awaited: list[tuple[str, int]] = []

    def confirm(self) -> None:
        self.asked += 1
        if self.is_cut_off:
            raise StorageRefused("nobody answers")
        if self.asked == 1:
            append(self, draft(node("from elsewhere")))

    def behind_seconds(self) -> float:
        return 4.0 if self.is_cut_off and self.asked else 0.0

    def await_copy(self, machine: str, lamport: int) -> None:
        self.awaited.append((machine, lamport))


def store_on(log: LaggingLog) -> Store:
    async def opened(tenant: str) -> Partition:
        return Partition(log, tenant=tenant)

    return Store(
        opened, Counting("single-user"), elsewhere=lambda who: "machine" if who.session == "elsewhere" else None
    )


async def knows(store: Store, principal: Principal) -> bool:
    def look(state: State, read_filter: ReadFilter) -> bool:
        return state.knows("from elsewhere")

    return await store.read(principal, Action.READ, look)


async def annotate(store: Store, principal: Principal) -> Receipt:
    """Only what is there can be."""

    def propose(state: State, read_filter: ReadFilter) -> Draft:
        if not state.knows("from elsewhere"):
            raise NotFound("there is no such thing")
        return draft(node("from elsewhere", read=True))

    return await store.write(principal, Action.WRITE, propose)


async def test_what_a_session_wrote_elsewhere_is_read_here() -> None:
    store = store_on(LaggingLog())
    assert not await knows(store, RESIDENT)
    assert await knows(store, VISITOR)


async def test_a_refusal_is_judged_again_with_what_the_session_wrote_elsewhere() -> None:
    log = LaggingLog()
    receipt = await annotate(store_on(log), VISITOR)
    assert receipt.commits[-1].lamport == 2
    assert log.asked == 1
    assert log.awaited == [("machine", 2)]


async def test_who_stays_on_one_machine_waits_for_no_other() -> None:
    log = LaggingLog()
    append(log, draft(node("from elsewhere")))
    await annotate(store_on(log), RESIDENT)
    assert log.asked == 0
    assert log.awaited == []


async def test_a_machine_that_is_cut_off_reads_on_for_a_session_of_another() -> None:
    log = LaggingLog()
    log.is_cut_off = True
    store = store_on(log)
    assert not await knows(store, VISITOR)
    assert log.behind_seconds() == 4.0
