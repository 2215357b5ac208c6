"""The law of projections: after any calls, with redactions and deletions among them, each says what the log says.

A projection that follows commit by commit has seen what was redacted since; one that is built anew from the log has
not. Both must come to the same.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tallystick import app
from tallystick.commits import Draft, Operation, Verb
from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.operations import OperationContext
from tallystick.operations.restore_entity import restore_entity
from tallystick.policy import Action
from tallystick.projections.consistency_check import compare
from tallystick.projections.follower import Follower
from tallystick.projections.log_reader import LogReader
from tallystick.projections.registry import Place
from tallystick.state.state import State
from tests.fuzz.budget import tries
from torture import writer

Step = tuple[str, int, int]

FOLLOWED = ("views", "sql", "text")
TYPES = {"project": "work/project", "node": "work/node", "molecule": "knowledge/molecule", "atom": "knowledge/atom"}
FIELDS = (None, ["attrs.task"], ["attrs.project", "attrs.root"], ["attrs.parent", "attrs.name"], ["attrs.cites"])


class Story:
    """A memory, and what is known of it when the next step is taken."""

    def __init__(self, context: OperationContext, store: Store, follower: Follower) -> None:
        self._context = context
        self._store = store
        self._follower = follower
        self._number = 0

    async def take(self, step: Step) -> None:
        """What is refused is left out."""
        name, first, second = step
        try:
            await getattr(self, name)(first, second)
        except TallystickError:
            return

    async def call(self, tool: str, **arguments: Any) -> None:
        await self._context.prepare(tool, arguments)(self._store)

    async def ids(self, *types: str) -> list[str]:
        def look(state: State, read_filter: object) -> list[str]:
            known = types or tuple(sorted(state.known_types()))
            return [each for name in known for each in sorted(state.nodes_of_type(name))]

        return await self._store.read(self._context.principal, Action.READ, look)

    async def one(self, number: int, *types: str) -> str:
        ids = await self.ids(*types)
        return ids[number % len(ids)] if ids else "nothing"

    def word(self) -> str:
        self._number += 1
        return f"word{self._number}"

    async def follow(self, first: int, second: int) -> None:
        for name in FOLLOWED:
            self._follower.worker(name).catch_up()

    # -- calls

    async def note(self, first: int, second: int) -> None:
        attrs = {"text": self.word(), "supersedes": [f"n{second % 4}"], "cites": [f"f{second % 3}"], "n": second}
        await self.call("memory.write", op="UPSERT_NODE", node={"id": f"n{first % 4}", "type": "note", "attrs": attrs})

    async def join(self, first: int, second: int) -> None:
        edge = {
            "from": await self.one(first),
            "rel": "about",
            "to": await self.one(second),
            "attrs": {"t": self.word()},
        }
        await self.call("memory.write", op="UPSERT_EDGE", edge=edge)

    async def idea(self, first: int, second: int) -> None:
        about = {"name": "about", "from_types": ["idea"], "to_types": ["idea"]}
        await self.take_call("create_ontology", node_types=["idea"], connection_types=[about])
        content = {"format": "markdown", "encoding": "utf-8", "text": self.word()}
        document = {"id": f"i{first % 3}", "type": "idea", "attrs": {"p": self.word()}, "content": content}
        draft = Draft((Operation(Verb.UPSERT_NODE, document),), actor="a", tool="create_node")
        await self._store.write(self._context.principal, Action.WRITE, lambda state, read_filter: draft)

    async def open(self, first: int, second: int) -> None:
        await self.call("graph_open", project=f"p{first % 3}", goal=self.word())

    async def plan(self, first: int, second: int) -> None:
        parent, waits = await self.one(first, "work/node"), await self.one(second, "work/node")
        nodes: list[dict[str, Any]] = [{"ref": "a", "parent_ref": parent, "summary": self.word()}]
        nodes.append({"ref": "b", "parent_ref": "a", "summary": self.word(), "depends_on": [waits]})
        await self.call("graph_plan", nodes=nodes[: 1 + second % 2])

    async def update(self, first: int, second: int) -> None:
        evidence = [{"type": ("dropped", "test")[second % 2], "ref": self.word()}]
        change = {"node_id": await self.one(first, "work/node"), "resolved": second % 3 == 0, "add_evidence": evidence}
        await self.call("graph_update", updates=[change])

    async def move(self, first: int, second: int) -> None:
        ends = {"node_id": await self.one(first, "work/node"), "new_parent": await self.one(second, "work/node")}
        await self.call("graph_restructure", operations=[{"op": "move", **ends}])

    async def project(self, first: int, second: int) -> None:
        said = {"operation": "create", "containerType": "project", "name": self.word(), "summary": self.word()}
        await self.call("manage_container", **said, tags=["t"])

    async def feature(self, first: int, second: int) -> None:
        place = {"projectId": await self.one(first, "work/project")} if second % 2 else {}
        said = {"containerType": "feature", "name": self.word(), "summary": self.word(), "priority": "HIGH"}
        await self.call("manage_container", operation="create", **said, **place)

    async def task(self, first: int, second: int) -> None:
        place = {"featureId": await self.one(first, "work/node")} if second % 3 else {}
        said = {"containerType": "task", "title": self.word(), "summary": self.word(), "priority": "LOW"}
        await self.call("manage_container", operation="create", complexity=3, **said, **place)

    async def rename(self, first: int, second: int) -> None:
        kind = ("project", "feature", "task")[second % 3]
        entity = await self.one(first, "work/project" if kind == "project" else "work/node")
        for version in (1, 2, 3):
            said = {"containerType": kind, "id": entity, "version": version, "summary": self.word()}
            await self.take_call("manage_container", operation="update", **said)

    async def take_call(self, tool: str, **arguments: Any) -> None:
        try:
            await self.call(tool, **arguments)
        except TallystickError:
            return

    async def section(self, first: int, second: int) -> None:
        entity = await self.one(first, "work/node", "work/project")
        said = {"title": self.word(), "usageDescription": "u", "content": self.word()}
        for kind in ("PROJECT", "FEATURE", "TASK"):
            await self.take_call("manage_sections", operation="add", entityType=kind, entityId=entity, **said)

    async def know(self, first: int, second: int) -> None:
        said = {
            "projectId": await self.one(first, "work/project"),
            "createdByTaskId": await self.one(second, "work/node"),
        }
        said |= {"name": self.word(), "knowledge": self.word()}
        if second % 2:
            await self.call("manage_graph", operation="create", entityType="molecule", **said)
        else:
            molecules = await self.ids("knowledge/molecule")
            place = {"moleculeId": molecules[0]} if molecules else {}
            await self.call("manage_graph", operation="create", entityType="atom", paths=["src/*.py"], **said, **place)

    async def change(self, first: int, second: int) -> None:
        kind = ("atom", "molecule")[second % 2]
        parent, task = await self.one(first, f"knowledge/{kind}"), await self.one(second, "work/node")
        said = {"parentType": kind, "parentId": parent, "taskId": task, "summary": self.word()}
        await self.call("manage_changelog", operation="append", **said)

    # -- what goes

    async def remove(self, first: int, second: int) -> None:
        kind = ("project", "feature", "task")[second % 3]
        entity = await self.one(first, "work/project" if kind == "project" else "work/node")
        await self.call("manage_container", operation="delete", containerType=kind, id=entity, cascade=True)

    async def unlearn(self, first: int, second: int) -> None:
        kind = ("atom", "molecule")[second % 2]
        entity = await self.one(first, f"knowledge/{kind}")
        await self.call("manage_graph", operation="delete", entityType=kind, id=entity, version=1)

    async def delete(self, first: int, second: int) -> None:
        await self.call("memory.write", op="DELETE_NODE", node_id=await self.one(first))

    async def redact(self, first: int, second: int) -> None:
        fields = FIELDS[second % len(FIELDS)]
        extent = {} if fields is None else {"redacted_fields": fields}
        node_id = await self.one(first)
        await self.call("memory.write", op="REDACT_NODE", node_id=node_id, reason="asked for", **extent)

    async def redact_work(self, first: int, second: int) -> None:
        """What others are told by: projects, features, molecules."""
        fields = FIELDS[second % 3]
        extent = {} if fields is None else {"redacted_fields": fields}
        node_id = await self.one(first, *TYPES.values())
        await self.call("memory.write", op="REDACT_NODE", node_id=node_id, reason="asked for", **extent)

    async def restore(self, first: int, second: int) -> None:
        await restore_entity(self._context, await self.one(first), max(second % 40, 1))


STEPS = (
    "follow", "note", "join", "idea", "open", "plan", "update", "move", "project", "feature", "task", "task", "rename",
    "section", "know", "change", "remove", "unlearn", "delete", "redact", "redact_work", "redact_work", "restore",
    "follow",
)  # fmt: skip
STORIES = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 60), st.integers(0, 60)), min_size=8, max_size=40)


async def told(context: OperationContext, story: list[Step]) -> None:
    place = Place(context.settings.home, LogReader(context.open_log))
    with closing(Follower(place)) as follower:
        async with context.open_store() as store:
            telling = Story(context, store, follower)
            for step in [*story, ("follow", 0, 0)]:
                await telling.take(step)


def check_story(story: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as base:
        context = app.operation_context(writer.settled(Path(base)))
        asyncio.run(told(context, story))
        if not context.settings.has_log:
            return
        compared = compare(context.settings.home, context.open_log)
        assert [each for each in compared.findings if each.status == "differs"] == []
        assert [(each.name, each.behind, each.not_compared) for each in compared.projections] == [
            (name, 0, None) for name in ("views", "sql", "text")
        ]


BEGUN: list[Step] = [("project", 0, 0), ("feature", 0, 1), ("task", 1, 1), ("task", 2, 1), ("follow", 0, 0)]


@tries(12)
@given(STORIES)
@example([*BEGUN, ("redact_work", 0, 0)])
@example([*BEGUN, ("redact_work", 1, 0)])
@example([*BEGUN, ("redact_work", 2, 0)])
@example([*BEGUN, ("redact_work", 3, 1), ("rename", 0, 0)])
@example([*BEGUN, ("redact_work", 2, 2), ("rename", 0, 0), ("remove", 0, 0)])
def test_every_projection_agrees_with_the_log_after_redactions_and_deletions(story: list[Step]) -> None:
    check_story(story)
