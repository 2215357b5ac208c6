"""An agent at the tools: real store, partition, state and memory log behind it, and a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from tallystick.clock import from_text
from tallystick.engine.partition import Partition
from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.log.memory import MemoryLog
from tallystick.policy import Policy, Principal
from tallystick.policy.embedded import Embedded
from tallystick.server.dispatch import prepare
from tallystick.toolsets import Answer
from tallystick.toolsets.memory import TOOLSET

NOON = from_text("2025-01-04T12:00:00Z")
T = TypeVar("T")
TOOLS = {tool.name: tool for tool in TOOLSET.tools}


class Agent:
    def __init__(self, runner: asyncio.Runner, policy: Policy) -> None:
        self._runner = runner
        self.now = NOON
        self.principal = Principal(actor="agent_alpha")
        self.log = MemoryLog()
        self.partition = Partition(self.log, clock=lambda: self.now)
        self.store = Store(self._open, policy)

    async def _open(self, tenant: str) -> Partition:
        await self.partition.open()
        return self.partition

    def answer(self, tool: str, arguments: dict[str, Any]) -> Answer:
        """As a door does it: check the arguments, then call."""
        prepared = prepare(TOOLS[tool], arguments)
        return self.run(TOOLS[tool].call(self.store, self.principal, prepared))

    def run(self, answer: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await answer

        return self._runner.run(awaited())

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        data = self.answer(tool, arguments).data
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(data))
        return found

    def together(self, tool: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        async def all_at_once() -> list[Answer]:
            entry = TOOLS[tool]
            return await asyncio.gather(*(entry.call(self.store, self.principal, prepare(entry, c)) for c in calls))

        return [answer.data for answer in self._runner.run(all_at_once())]

    def refusal(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the agent is told, and what kind of refusal it was. Fails if the call succeeds or the log grows."""
        before = self.log.head()
        try:
            self.answer(tool, arguments)
        except TallystickError as error:
            assert self.log.head() == before, "a refused call wrote something"
            return TOOLSET.error_shape(error)
        raise AssertionError(f"{tool} accepted {arguments}")

    # -- short forms

    def write(self, **arguments: Any) -> dict[str, Any]:
        return self.call("memory.write", **arguments)

    def node(self, node_id: str, kind: str = "note", /, **attrs: Any) -> dict[str, Any]:
        return self.write(op="UPSERT_NODE", node={"id": node_id, "type": kind, "attrs": attrs})

    def edge(self, source: str, rel: str, target: str, /, **attrs: Any) -> dict[str, Any]:
        return self.write(op="UPSERT_EDGE", edge={"from": source, "rel": rel, "to": target, "attrs": attrs})

    def read(self, entity_id: str, **arguments: Any) -> dict[str, Any]:
        return self.call("memory.read", entity_id=entity_id, **arguments)

    def search(self, **arguments: Any) -> dict[str, Any]:
        return self.call("memory.search", **arguments)

    def ids(self, **arguments: Any) -> list[str]:
        return [entity["id"] for entity in self.search(**arguments)["entities"]]

    def lineage(self, entity_id: str, **arguments: Any) -> dict[str, Any]:
        return self.call("memory.lineage", entity_id=entity_id, **arguments)

    def lines(self) -> list[bytes]:
        """Everything the log holds, byte for byte."""
        return list(self.log._lines)


@contextmanager
def working(policy: Policy | None = None) -> Iterator[Agent]:
    with asyncio.Runner() as runner:
        agent = Agent(runner, policy or Embedded("single-user"))
        yield agent
        runner.run(agent.store.close())
