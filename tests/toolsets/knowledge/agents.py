"""An agent with the knowledge tools: a real store behind them, a project, two tasks, and perhaps a repository."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from tallystick.commits import Draft, Operation, Verb
from tallystick.errors import TallystickError
from tallystick.policy import Action, Policy
from tallystick.policy.embedded import Embedded
from tallystick.server.dispatch import prepare
from tallystick.state.state import State
from tallystick.state.work import NODE, PROJECT
from tallystick.toolsets import Answer, Toolset
from tallystick.toolsets.knowledge import make_tool_context, make_toolset
from tests.toolsets.agent import Agent

SHOP = "5" * 32
OTHER = "6" * 32
TASK = "a" * 32
LATER = "b" * 32
PLANNED = "nodeK7xQ2m"
"""A task that was planned with graph_plan: its id is no UUID."""

Said = dict[str, Any]


class KnowledgeAgent(Agent):
    def __init__(self, runner: asyncio.Runner, policy: Policy, toolset: Toolset) -> None:
        super().__init__(runner, policy)
        self.toolset = toolset
        self.tools = {tool.name: tool for tool in toolset.tools}

    def answer(self, tool: str, arguments: Said) -> Answer:
        return self.run(self.tools[tool].call(self.store, self.principal, prepare(self.tools[tool], arguments)))

    def told(self, tool: str, **arguments: Any) -> Said:
        """The whole envelope of a call that succeeds."""
        said: Said = msgspec.json.decode(msgspec.json.encode(self.answer(tool, arguments).data))
        assert said["success"] is True
        return said

    def refusal(self, tool: str, **arguments: Any) -> Said:
        """The error of a call that does not; nothing was written."""
        before = self.log.head()
        try:
            answer = self.answer(tool, arguments)
        except TallystickError as error:
            assert self.log.head() == before, "a refused call wrote something"
            said = self.toolset.error_shape(error)
            assert said["success"] is False
            assert said["message"] == said["error"]["message"]
            return dict(said["error"])
        raise AssertionError(f"{tool} answered {answer.data}")

    def together(self, tool: str, calls: list[Said]) -> list[Said]:
        async def each(arguments: Said) -> Said:
            try:
                prepared = prepare(self.tools[tool], arguments)
                return (await self.tools[tool].call(self.store, self.principal, prepared)).data
            except TallystickError as error:
                return self.toolset.error_shape(error)

        async def all_at_once() -> list[Said]:
            return await asyncio.gather(*map(each, calls))

        return self.run(all_at_once())

    # -- short forms

    def query(self, operation: str, **arguments: Any) -> Said:
        data: Said = self.told("query_graph", operation=operation, **arguments)["data"]
        return data

    def context(self, paths: Any, **arguments: Any) -> Said:
        return self.query("context", projectId=SHOP, paths=paths, **arguments)

    def manage(self, operation: str, kind: str, **arguments: Any) -> Said:
        data: Said = self.told("manage_graph", operation=operation, entityType=kind, **arguments)["data"]
        return data

    def atom(self, name: str = "Checkout", *paths: str, **arguments: Any) -> Said:
        values = {"projectId": SHOP, "createdByTaskId": TASK, "paths": list(paths) or ["src/checkout/**"]}
        found: Said = self.manage("create", "atom", name=name, **values | arguments)["atom"]
        return found

    def molecule(self, name: str = "Pages", **arguments: Any) -> Said:
        values = {"projectId": SHOP, "createdByTaskId": TASK}
        found: Said = self.manage("create", "molecule", name=name, **values | arguments)["molecule"]
        return found

    def update(self, entity: Said, **arguments: Any) -> Said:
        kind = kind_of(entity)
        values = {"id": entity["id"], "version": entity["version"]}
        found: Said = self.manage("update", kind, **values | arguments)[kind]
        return found

    def delete(self, entity: Said, **arguments: Any) -> Said:
        return self.manage("delete", kind_of(entity), id=entity["id"], version=entity["version"], **arguments)

    def get(self, entity: Said, **arguments: Any) -> Said:
        return self.query("get", entityType=kind_of(entity), id=entity["id"], **arguments)

    def append(self, entity: Said, summary: str, **arguments: Any) -> Said:
        values = {"parentType": kind_of(entity), "parentId": entity["id"], "taskId": TASK}
        said = self.told("manage_changelog", operation="append", summary=summary, **values | arguments)
        found: Said = said["data"]["entry"]
        return found

    def history(self, entity: Said, **arguments: Any) -> Said:
        values = {"parentType": kind_of(entity), "parentId": entity["id"]}
        data: Said = self.told("manage_changelog", operation="search", **values | arguments)["data"]
        return data

    def node(self, node_id: str, kind: str = "note", /, **attrs: Any) -> Said:
        """Written past the tools."""
        return self.put(Operation(Verb.UPSERT_NODE, {"id": node_id, "type": kind, "attrs": attrs}))

    def put(self, *operations: Operation) -> Said:
        def propose(state: State, read_filter: object) -> Draft:
            return Draft(operations, actor="tester", tool="test")

        self.run(self.store.write(self.principal, Action.WRITE, propose))
        return {}

    def found(self) -> None:
        """What the other toolsets have made before."""
        for project in (SHOP, OTHER):
            self.node(project, PROJECT, name=f"project {project[0]}", root=f"root{project[0]}", summary="")
        for task in (TASK, LATER, PLANNED):
            self.node(task, NODE, project=SHOP, parent=None, summary="a task", resolved=False, rev=1)


def kind_of(entity: Said) -> str:
    return "atom" if "paths" in entity else "molecule"


@contextmanager
def keeping(policy: Policy | None = None, *, repo: Path | None = None, **settings: Any) -> Iterator[KnowledgeAgent]:
    with asyncio.Runner() as runner:
        tool_context = make_tool_context(repo=repo or Path(os.devnull), clock=lambda: agent.now, **settings)
        agent = KnowledgeAgent(runner, policy or Embedded("single-user"), make_toolset(tool_context))
        agent.found()
        yield agent
        runner.run(agent.store.close())


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "tester")
        self.git("config", "user.email", "tester@example.org")
        self.git("config", "commit.gpgsign", "false")
        self.write("src/checkout/page.ts", "one")
        self.write("src/checkout/cart.ts", "one")
        self.write("README.md", root.name)
        self.commit()

    def git(self, *arguments: str) -> str:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, check=True, capture_output=True, text=True, env=environ
        )
        return done.stdout.strip()

    def write(self, path: str, content: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "work")
