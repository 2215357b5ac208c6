"""Agents at the work tools: real store, partition, state and memory log behind them, and one clock for all."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec

from tallystick.clock import from_text
from tallystick.engine.partition import Partition
from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.log.memory import MemoryLog
from tallystick.policy import DistantPolicy, Policy, Principal
from tallystick.policy.cache import Cache
from tallystick.policy.embedded import Embedded
from tallystick.policy.gate import Gate
from tallystick.server.dispatch import prepare
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer, Toolset
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.work import toolset_with
from tallystick.toolsets.work.context import Knowledge, ToolContext
from tallystick.work_settings import WorkSettings

T = TypeVar("T")
NOON = from_text("2026-02-10T12:00:00Z")
MINUTE = 60_000


class Links:
    """Knows of the links of a node that they are there, and that this is fresh."""

    def find(
        self, state: State, project_id: str, links: Any, sections: Any, *, read_filter: ReadFilter
    ) -> SimpleNamespace:
        return SimpleNamespace(data={"links": list(links)} if links else {})

    async def add_freshness(self, found: Any) -> None:
        for each in found:
            each.data["fresh"] = True


class WorkAgent:
    """`call` speaks as `self.me`; each call is a second after the one before."""

    def __init__(
        self,
        runner: asyncio.Runner,
        *,
        policy: Policy | DistantPolicy | None = None,
        settings: WorkSettings | None = None,
        knowledge: Knowledge | None = None,
        claims: Claims | None = None,
    ) -> None:
        self._runner = runner
        self.now = NOON
        self.me = "ann"
        self.session: str | None = None
        self.log = MemoryLog()
        self.partition = Partition(self.log, clock=lambda: self.now)
        gate = Gate(policy, cache=Cache(seconds=0)) if isinstance(policy, DistantPolicy) else policy
        self.store = Store(self._open, gate or Embedded("single-user"))
        self.tool_context = ToolContext(clock=lambda: self.now, settings=settings, knowledge=knowledge, claims=claims)
        self.toolset: Toolset = toolset_with(self.tool_context)
        self.tools = {tool.name: tool for tool in self.toolset.tools}

    async def _open(self, tenant: str) -> Partition:
        await self.partition.open()
        return self.partition

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self.now += 1_000
        return self._told(self._run(tool, arguments))

    def refusal(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the agent is told. Fails if the call succeeds or the log grows."""
        before = self.log.head()
        try:
            self._run(tool, arguments)
        except TallystickError as error:
            assert self.log.head() == before, "a refused call wrote something"
            return self.toolset.error_shape(error)
        raise AssertionError(f"{tool} accepted {arguments}")

    def together(self, calls: list[tuple[str, str, dict[str, Any]]]) -> list[dict[str, Any]]:
        """(agent, tool, arguments) each, all under way at once."""

        async def all_at_once() -> list[Answer]:
            return await asyncio.gather(*(self._call(tool, asked, actor) for actor, tool, asked in calls))

        return [self._told(answer) for answer in self._runner.run(all_at_once())]

    def run(self, doing: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(doing)

    @contextmanager
    def as_(self, actor: str, session: str | None = None) -> Iterator[None]:
        before = self.me, self.session
        self.me, self.session = actor, session
        try:
            yield
        finally:
            self.me, self.session = before

    def _run(self, tool: str, arguments: dict[str, Any]) -> Answer:
        return self._runner.run(self._call(tool, arguments, self.me))

    async def _call(self, tool: str, arguments: dict[str, Any], actor: str) -> Answer:
        prepared = prepare(self.tools[tool], arguments)
        return await self.tools[tool].call(self.store, Principal(actor=actor, session=self.session), prepared)

    @staticmethod
    def _told(answer: Answer) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(answer.data))
        return found

    # -- short forms

    def open(self, project: str = "p", **arguments: Any) -> str:
        """The id of the root."""
        return str(self.call("graph_open", project=project, **arguments)["root"]["id"])

    def plan(self, *nodes: dict[str, Any]) -> dict[str, str]:
        """Ref → id. A node without a summary is called by its ref."""
        told = self.call("graph_plan", nodes=[{"summary": node["ref"], **node} for node in nodes])
        return {each["ref"]: each["id"] for each in told["created"]}

    def next(self, project: str = "p", **arguments: Any) -> list[str]:
        return [each["node"]["summary"] for each in self.call("graph_next", project=project, **arguments)["nodes"]]

    def resolve(self, node_id: str, **changes: Any) -> dict[str, Any]:
        evidence = [{"type": "note", "ref": "done"}]
        return self.update(node_id, **{"resolved": True, "add_evidence": evidence, **changes})

    def update(self, node_id: str, **changes: Any) -> dict[str, Any]:
        return self.call("graph_update", updates=[{"node_id": node_id, **changes}])

    def connect(self, source: str, to: str, type: str = "depends_on", **arguments: Any) -> dict[str, Any]:
        return self.call("graph_connect", edges=[{"from": source, "to": to, "type": type, **arguments}])

    def restructure(self, op: str, **arguments: Any) -> dict[str, Any]:
        return self.call("graph_restructure", operations=[{"op": op, **arguments}])

    def node(self, node_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("graph_context", node_id=node_id, depth=0)["node"]
        return found

    def query(self, project: str = "p", **arguments: Any) -> dict[str, Any]:
        return self.call("graph_query", project=project, **arguments)

    def found(self, project: str = "p", **wanted: Any) -> list[str]:
        """Summaries of what a filter finds, in the order of creation."""
        told = self.query(project, filter=wanted, sort="created", limit=100)
        assert told["total"] == len(told["nodes"])
        return [node["summary"] for node in told["nodes"]]

    def events(self, node_id: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("graph_history", node_id=node_id, limit=100)["events"]
        return found

    def counts(self, project: str = "p") -> dict[str, int]:
        found: dict[str, int] = self.call("graph_open", project=project)["summary"]
        return found


@contextmanager
def working(**arguments: Any) -> Iterator[WorkAgent]:
    with asyncio.Runner() as runner:
        agent = WorkAgent(runner, **arguments)
        yield agent
        runner.run(agent.store.close())


def summaries(nodes: list[dict[str, Any]]) -> list[str]:
    return [node["summary"] for node in nodes]
