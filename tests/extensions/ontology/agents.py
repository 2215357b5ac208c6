"""An agent with the ontology tools over a real store and real contents, beside the memory tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tallystick.commits import Draft, Operation, Verb
from tallystick.errors import TallystickError
from tallystick.extensions.ontology.toolset import make_toolset
from tallystick.policy import Action, Policy
from tallystick.policy.embedded import Embedded
from tallystick.projections.content import Contents
from tallystick.projections.log_reader import LogReader
from tallystick.projections.text import TextIndex
from tallystick.projections.text.projection import TextProjection
from tallystick.projections.worker import ProjectionWorker
from tallystick.server.dispatch import prepare
from tallystick.state.state import State
from tallystick.toolsets import Answer, Tool, Toolset
from tallystick.toolsets.memory import TOOLSET as MEMORY
from tests.toolsets.agent import Agent

GTD: dict[str, Any] = {
    "node_types": ["Project", "Action", "Context", "Person"],
    "connection_types": [
        {"name": "NextAction", "from_types": ["Project"], "to_types": ["Action"]},
        {"name": "DependsOn", "from_types": ["Action", "Project"], "to_types": ["Action", "Project"]},
        {
            "name": "WaitingFor",
            "from_types": ["Action"],
            "to_types": ["Person"],
            "required_properties": ["since", "follow_up_date"],
        },
    ],
}


class OntologyAgent(Agent):
    def __init__(self, runner: asyncio.Runner, policy: Policy, home: Path) -> None:
        super().__init__(runner, policy)
        self.home = home
        self.contents = Contents(home)
        log = LogReader(lambda: self.log)
        texts = TextProjection(home, log.line)
        self.follower = ProjectionWorker(log, texts)
        self.text = TextIndex(texts, self.follower.catch_up)
        self.use(make_toolset(lambda tenant: self.contents, lambda tenant: self.text))

    def use(self, toolset: Toolset) -> None:
        self.toolsets = (MEMORY, toolset)
        self.tools = {tool.name: (each, tool) for each in self.toolsets for tool in each.tools}

    def answer(self, tool: str, arguments: dict[str, Any]) -> Answer:
        entry = self.tool(tool)
        return self.run(entry.call(self.store, self.principal, prepare(entry, arguments)))

    def tool(self, name: str) -> Tool:
        return self.tools[name][1]

    def together(self, tool: str, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """As parallel calls of one connection; a refusal is answered in its shape."""

        async def each(arguments: dict[str, Any]) -> dict[str, Any]:
            try:
                answer = await self.tool(tool).call(self.store, self.principal, prepare(self.tool(tool), arguments))
            except TallystickError as error:
                return self.tools[tool][0].error_shape(error)
            return answer.data

        async def all_at_once() -> list[dict[str, Any]]:
            return await asyncio.gather(*map(each, calls))

        return self.run(all_at_once())

    def refusal(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the agent is told. Fails if the call succeeds, the log grows or a file is left behind."""
        before, files = self.log.head(), self.files()
        try:
            self.answer(tool, arguments)
        except TallystickError as error:
            assert self.log.head() == before, "a refused call wrote something"
            assert self.files() == files, "a refused call left a file"
            said = self.tools[tool][0].error_shape(error)
            found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(said))
            return found
        raise AssertionError(f"{tool} accepted {arguments}")

    def code(self, tool: str, **arguments: Any) -> str:
        return str(self.refusal(tool, **arguments)["code"])

    def files(self) -> set[str]:
        """Of contents."""
        return {path.name for path in (self.home / "_content").rglob("*") if path.is_file()}

    # -- short forms

    def define(self, **ontology: Any) -> None:
        assert self.call("create_ontology", **(ontology or GTD)) == {"ok": True}

    def make(self, node_type: str, content: str = "", /, **properties: Any) -> str:
        made = self.call("create_node", type=node_type, content=content, format="markdown", properties=properties)
        return str(made["node_id"])

    def join(self, source: str, kind: str, target: str, /, **properties: Any) -> str:
        ends = {"from_node_id": source, "to_node_id": target}
        return str(self.call("create_connection", type=kind, **ends, properties=properties)["connection_id"])

    def nodes(self, **asked: Any) -> list[str]:
        found: list[str] = self.call("query_nodes", **asked)["node_ids"]
        return found

    def connections(self, **asked: Any) -> list[str]:
        found: list[str] = self.call("query_connections", **asked)["connection_ids"]
        return found

    def neighbours(self, node_id: str, direction: str = "out", **asked: Any) -> list[str]:
        found: list[str] = self.call("get_connected_nodes", node_id=node_id, direction=direction, **asked)["node_ids"]
        return found

    def found(self, query: str, **asked: Any) -> list[str]:
        ids: list[str] = self.call("search_content", query=query, **asked)["node_ids"]
        return ids

    def define_elsewhere(self, text: str, count: int) -> None:
        """Nodes with content that are no typed memories, older than what comes after."""

        async def write() -> None:
            for number in range(count):
                content = {"format": "text", "encoding": "utf-8", "text": f"{text} {number}"}
                payload = {"id": f"other-{number}", "type": "other", "attrs": {}, "content": content}
                propose = partial(_proposed, payload)
                await self.store.write(self.principal, Action.WRITE, propose)

        self.run(write())


def _proposed(payload: dict[str, Any], state: State, read_filter: object) -> Draft:
    return Draft((Operation(Verb.UPSERT_NODE, payload),), actor="other", tool="test")


@contextmanager
def keeping(home: Path, policy: Policy | None = None) -> Iterator[OntologyAgent]:
    with asyncio.Runner() as runner:
        agent = OntologyAgent(runner, policy or Embedded("single-user"), home)
        yield agent
        agent.text.close()
        agent.follower.close()
        runner.run(agent.store.close())
