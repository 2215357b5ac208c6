"""An agent at the files tools: a real store over a real home, with its views."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from tallystick.commits import Draft, Operation
from tallystick.engine.partition import Partition
from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.extensions.files.toolset import make_toolset
from tallystick.extensions.ontology.file_edits import FileEdits, adopt
from tallystick.extensions.ontology.views import Views
from tallystick.extensions.ontology.views.content_files import Edit
from tallystick.log import Head
from tallystick.log.files import FilesLog
from tallystick.policy import Action, Policy, Principal
from tallystick.policy.embedded import Embedded
from tallystick.projections.content import Contents
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place
from tallystick.server.dispatch import prepare
from tallystick.toolsets import Answer, error_shape
from tests import timeouts

T = TypeVar("T")


class FilesAgent:
    def __init__(
        self, runner: asyncio.Runner, home: Path, policy: Policy, file_bytes_max: int, reserved: Sequence[Path]
    ) -> None:
        self._runner = runner
        self.home = home
        self.principal = Principal(actor="agent_alpha")
        self.log = FilesLog(home / "_system")
        self.partition = Partition(self.log)
        self.store = Store(self._open, policy)
        self.contents = Contents(home)
        log = LogReader(lambda: FilesLog(home / "_system"))
        self.follower = Follower(Place(home, log)).worker("views")
        self.views = cast(Views, self.follower.projection)
        self.edits = FileEdits(self.views, self.follower, self._adopt)
        toolset = make_toolset(
            lambda tenant: home if tenant == "default" else home / "tenants" / tenant,
            views=lambda tenant: self.edits,
            adopt=lambda tenant, kind, entity_id: self.edits.adopt_one(kind, entity_id),
            published=self._published,
            file_bytes_max=file_bytes_max,
            reserved=reserved,
            base=home,
        )
        self.tools = {tool.name: tool for tool in toolset.tools}

    async def _open(self, tenant: str) -> Partition:
        await self.partition.open()
        return self.partition

    async def _adopt(self, edit: Edit) -> None:
        await adopt(self.store, self.contents, "default", edit)

    async def _published(self, tenant: str, position: int) -> bool:
        return await self.follower.reached(position, timeouts.SECONDS)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def answer(self, tool: str, **arguments: Any) -> Answer:
        async def called() -> Answer:
            return await self.tools[tool].call(self.store, self.principal, prepare(self.tools[tool], arguments))

        return self.run(called())

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.answer(tool, **arguments).data

    def refusal(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What the agent is told. Fails if the call succeeds, or if anything changed."""
        before, head = self.everything(), self.log.head()
        try:
            self.answer(tool, **arguments)
        except TallystickError as error:
            assert self.everything() == before
            assert self.log.head() == head
            return error_shape(error)
        raise AssertionError(f"{tool} accepted {arguments}")

    def write(self, *operations: Operation) -> None:
        """Commit and show, as another toolset would."""

        async def written() -> None:
            draft = Draft(operations, actor="agent_alpha", tool="test")
            await self.store.write(self.principal, Action.WRITE, lambda state, read_filter: draft)
            await asyncio.to_thread(self.follower.catch_up)

        self.run(written())

    def everything(self) -> dict[str, bytes]:
        """Files that tools could reach or damage; without what the store keeps for itself."""
        own = ("views.db", "views.lock", "files.lock", "turnstile.lock", "lock")
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file() and not path.name.startswith(own)
        }

    def history(self, node_id: str) -> list[tuple[str, str, str]]:
        """Actor, tool and text of every version of a node."""
        found = []
        for entry in self.log.read(Head()):
            document = msgspec.json.decode(entry.commit.payload)
            if document.get("id") == node_id:
                found.append((entry.commit.actor, entry.commit.tool, document["content"]["text"]))
        return found


@contextmanager
def working(
    home: Path, policy: Policy | None = None, *, file_bytes_max: int = 10_000, reserved: Sequence[Path] = ()
) -> Iterator[FilesAgent]:
    with asyncio.Runner() as runner:
        agent = FilesAgent(runner, home, policy or Embedded("single-user"), file_bytes_max, reserved)
        yield agent
        agent.follower.close()
        runner.run(agent.store.close())
