"""An agent with the tasks tools, and with those of work and knowledge: one real store, one clock."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tallystick.clock import from_text
from tallystick.engine.partition import Partition
from tallystick.engine.sessions import Sessions
from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.extensions.tasks import toolset as tasks
from tallystick.extensions.tasks.cards import Pipelines
from tallystick.log.memory import MemoryLog
from tallystick.policy import Action, Policy, Principal
from tallystick.policy.embedded import Embedded
from tallystick.server.dispatch import prepare
from tallystick.state.derived_index import DerivedIndex
from tallystick.toolsets import Answer, knowledge, memory, work
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.knowledge.path_context import NodeKnowledge

NOON = from_text("2026-02-10T12:00:00Z")
Said = dict[str, Any]
A = TypeVar("A", bound=DerivedIndex)


class TasksAgent:
    """Each call is a second after the one before."""

    def __init__(self, runner: asyncio.Runner, *, policy: Policy | None = None, pipelines: Pipelines | None = None):
        self._runner = runner
        self.now = NOON
        self.me = "ann"
        self.session: str | None = None
        self.is_program = False
        self.claims = Claims(sessions=Sessions())
        self.log = MemoryLog()
        self.partition = Partition(self.log, clock=lambda: self.now)
        self.store = Store(self._open, policy or Embedded("single-user"))
        tool_context = knowledge.make_tool_context(repo=Path(os.devnull), clock=lambda: self.now)
        self.use(pipelines)
        self._toolsets = {
            "work": work.toolset(clock=lambda: self.now, knowledge=NodeKnowledge(tool_context), claims=self.claims),
            "knowledge": knowledge.make_toolset(tool_context),
            "memory": memory.TOOLSET,
        }

    def use(self, pipelines: Pipelines | None) -> None:
        """As after a restart with another configuration."""
        self.toolset = tasks.toolset(pipelines=pipelines, claims=self.claims, clock=lambda: self.now)

    async def _open(self, tenant: str) -> Partition:
        await self.partition.open()
        return self.partition

    # -- calls

    def told(self, tool: str, **arguments: Any) -> Said:
        """The whole envelope of a call that succeeds."""
        self.now += 1_000
        said = _plain(self._run(tool, arguments))
        assert said["success"] is True
        return said

    def data(self, tool: str, **arguments: Any) -> Any:
        return self.told(tool, **arguments)["data"]

    def beside(self, tool: str, **arguments: Any) -> Said:
        """A call of another toolset."""
        self.now += 1_000
        return _plain(self._run(tool, arguments))

    def refusal(self, tool: str, **arguments: Any) -> Said:
        """The error of a call that does not succeed; nothing was written."""
        before = self.log.head()
        try:
            answer = self._run(tool, arguments)
        except TallystickError as error:
            assert self.log.head() == before, "a refused call wrote something"
            said = self.toolset.error_shape(error)
            assert (said["success"], said["message"]) == (False, said["error"]["message"])
            return dict(said["error"])
        raise AssertionError(f"{tool} answered {answer.data}")

    def together(self, calls: list[tuple[str, Said]]) -> list[Said]:
        async def each(tool: str, arguments: Said) -> Said:
            try:
                return (await self._call(tool, arguments)).data
            except TallystickError as error:
                return self.toolset.error_shape(error)

        async def all_at_once() -> list[Said]:
            return await asyncio.gather(*(each(*call) for call in calls))

        return self._runner.run(all_at_once())

    def _run(self, tool: str, arguments: Said) -> Answer:
        return self._runner.run(self._call(tool, arguments))

    async def _call(self, tool: str, arguments: Said) -> Answer:
        toolsets = (self.toolset, *self._toolsets.values())
        found = next(each for toolset in toolsets for each in toolset.tools if each.name == tool)
        principal = Principal(actor=self.me, session=self.session, is_program=self.is_program)
        return await found.call(self.store, principal, prepare(found, arguments))

    @contextmanager
    def as_(self, actor: str, session: str | None = None) -> Iterator[None]:
        before = self.me, self.session
        self.me, self.session = actor, session
        try:
            yield
        finally:
            self.me, self.session = before

    def derived(self, kind: type[A]) -> A:
        look = self.store.read(Principal(actor=self.me), Action.READ, lambda state, read_filter: state.derived(kind))
        return self._runner.run(look)

    # -- short forms

    def project(self, name: str = "Shop", **arguments: Any) -> Said:
        return self._made("project", name=name, summary="Sell things", **arguments)

    def feature(self, name: str = "Checkout", **arguments: Any) -> Said:
        return self._made("feature", **{"name": name, "summary": "Pay", "priority": "MEDIUM", **arguments})

    def task(self, title: str = "Form", **arguments: Any) -> Said:
        values = {"title": title, "summary": f"Build {title}", "priority": "MEDIUM", "complexity": 3}
        return self._made("task", **values | arguments)

    def _made(self, kind: str, **arguments: Any) -> Said:
        found: Said = self.data("manage_container", operation="create", containerType=kind, **arguments)[kind]
        return found

    def get(self, entity: Said | str, kind: str | None = None) -> Said:
        entity_id = entity if isinstance(entity, str) else entity["id"]
        kind = kind or (kind_of(entity) if isinstance(entity, dict) else "task")
        found: Said = self.data("query_container", operation="get", containerType=kind, id=entity_id)[kind]
        return found

    def update(self, entity: Said, **changes: Any) -> Said:
        kind = kind_of(entity)
        values = {"id": entity["id"], "version": self.get(entity)["version"]}
        found: Said = self.data("manage_container", operation="update", containerType=kind, **values | changes)[kind]
        return found

    def step(self, tool: str, entity: Said | str, **arguments: Any) -> Said:
        """advance, revert, terminate, block or unblock, at the version it has now."""
        now = self.get(entity)
        values = {"containerType": kind_of(now), "id": now["id"], "version": now["version"]}
        return self.told(tool, **values | arguments)

    def close(self, entity: Said | str) -> Said:
        while True:
            data: Said = self.step("advance", entity)["data"]
            if data["transition"]["to"] == "CLOSED":
                return data

    def section(self, entity: Said, title: str = "Notes", content: str = "words", **arguments: Any) -> Said:
        values = {"entityType": kind_of(entity).upper(), "entityId": entity["id"], "usageDescription": "for all"}
        data = self.data("manage_sections", operation="add", title=title, content=content, **values | arguments)
        found: Said = data["section"]
        return found

    def sections(self, entity: Said, **arguments: Any) -> list[Said]:
        found: list[Said] = self.data("query_sections", entityType=kind_of(entity), entityId=entity["id"], **arguments)[
            "sections"
        ]
        return found

    def node(self, node_id: str) -> Said:
        """As work sees it."""
        found: Said = self.beside("graph_context", node_id=node_id, depth=0)["node"]
        return found


def kind_of(entity: Said) -> str:
    if "complexity" in entity:
        return "task"
    return "feature" if "status" in entity else "project"


def _plain(answer: Answer) -> Said:
    found: Said = msgspec.json.decode(msgspec.json.encode(answer.data))
    return found


@contextmanager
def gathered(**arguments: Any) -> Iterator[TasksAgent]:
    with asyncio.Runner() as runner:
        agent = TasksAgent(runner, **arguments)
        yield agent
        runner.run(agent.store.close())
