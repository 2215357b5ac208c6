"""What goes wrong after a commit is durable does not make its answer an error (X27)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from pathlib import Path

import pytest

from tallystick.commits import Draft, Operation, Verb
from tallystick.engine.partition import Partition, Receipt
from tallystick.engine.snapshots import Snapshots
from tallystick.engine.store import Store
from tallystick.log.files import FilesLog
from tallystick.log.memory import MemoryLog
from tallystick.log.proof import prove
from tallystick.log.recovery import PendingMasks
from tallystick.policy import Action, Decision, Principal, Request
from tallystick.policy.embedded import Embedded
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.system.turns import finished
from tests.commits_by_hand import draft, node
from tests.extensions.tasks.agents import TasksAgent
from tests.files_with import files_with

ME = Principal(actor="me")


def redacting(state: State) -> Draft:
    said = {"node_id": "a", "reason": "asked"}
    return draft(Operation(Verb.REDACT_NODE, said, redacts=finished(state.redaction("a", None))))


async def test_a_failing_disk_behind_a_redaction_is_told_as_pending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = Partition(FilesLog(tmp_path))
    await partition.open()
    await partition.commit(lambda state: draft(node("a", email="ada@example.org")))

    def broken(self: PendingMasks, segments: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(PendingMasks, "carry_out", broken)
        receipt = await partition.commit(redacting)
    assert (receipt.commits[0].lamport, receipt.erasure_pending) == (2, ("log",))
    assert partition.health.trouble is not None
    assert partition.health.trouble.restart_helps
    found = await partition.look(lambda state: state.node("a"))
    assert found is not None
    assert found.attrs == {"email": "[REDACTED]"} or "ada" not in str(found.attrs)
    await partition.close()
    FilesLog(tmp_path).close()
    assert prove(tmp_path).sound
    assert files_with(b"ada@example.org", tmp_path) == []


async def test_snapshots_that_cannot_be_forgotten_do_not_undo_what_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots = Snapshots(tmp_path / "snapshots", every=10)
    partition = Partition(MemoryLog(), snapshots=snapshots)
    await partition.commit(lambda state: draft(node("a", email="ada@example.org")))

    def broken(*, before: int | None = None) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(snapshots, "forget", broken)
    receipt = await partition.commit(redacting)
    assert receipt.erasure_pending == ("snapshots",)
    assert await partition.look(lambda state: state.position) == 2


async def test_what_follows_a_write_may_fail() -> None:
    async def written(principal: Principal, receipt: Receipt) -> None:
        raise OSError("git is gone")

    async def erase(tenant: str, receipt: Receipt) -> Sequence[str]:
        raise OSError("graph.db is gone")

    partition = Partition(MemoryLog())

    async def opened(tenant: str) -> Partition:
        return partition

    store = Store(opened, Embedded("single-user"), written=written, erase=erase)

    def propose(state: State, read_filter: ReadFilter) -> Draft:
        return draft(node("a", email="ada@example.org"))

    receipt = await store.write(ME, Action.WRITE, propose, resource="a")
    assert (receipt.commits[0].lamport, receipt.erasure_pending) == (1, ())
    receipt = await store.write(ME, Action.DELETE, lambda state, _: redacting(state), resource="a")
    assert (receipt.commits[0].lamport, receipt.erasure_pending) == (2, ("projections",))
    await store.close()


class OthersOnly:
    """Nobody may read what is their own, and what is there is withheld one by one."""

    def decide(self, request: Request) -> Decision:
        own = request.resource_owner == request.principal.actor
        return Decision(not (request.action is Action.READ and own), "by the rule", "local@1")


def test_a_project_whose_author_may_not_read_it_is_answered_as_made() -> None:
    with asyncio.Runner() as runner:
        agent = TasksAgent(runner, policy=OthersOnly())
        answer = agent.beside("graph_open", project="p")
        assert answer == {"project": "p", "created": True}
        assert agent.log.head().lamport == 2
        runner.run(agent.store.close())
