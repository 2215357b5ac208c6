"""What the knowledge tools share: clock, repository, and how they read and write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from tallystick.clock import Clock, to_text, wall_clock
from tallystick.commits import Operation, Verb
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.knowledge.catalogue import Knowledge, Parent
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.toolsets.drafts import Drawn, write_drawn
from tallystick.toolsets.envelope import find_uuid
from tallystick.toolsets.knowledge.freshness import Pin, Repository, describe
from tallystick.toolsets.knowledge.view import View
from tallystick.toolsets.truncation import size_of
from tallystick.toolsets.work.context import ToolContext as WorkContext

if TYPE_CHECKING:
    from tallystick.engine.store import Store
    from tallystick.projections.text import TextIndex

FRESHNESS_BYTES_MAX = 20_000
"""Of an answer; where files were changed wholesale it only says of which atoms."""

T = TypeVar("T")
TaskMaker = Literal["graph_plan", "manage_container"]
_PROJECTS: dict[TaskMaker | None, str] = {
    "graph_plan": "graph_open lists them and makes one",
    "manage_container": "query_container lists them, manage_container makes one",
    None: "no tool of this server makes them: start it with work among its --toolsets, then graph_open does",
}
Operations = list[Operation]
Pins = dict[str, tuple[Sequence[str], Pin]]
"""Atom id → its patterns and its pin."""


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    repository: Repository
    clock: Clock = wall_clock
    pin_knowledge: bool = False
    """Whether atoms are pinned where a call does not say."""
    work: WorkContext = msgspec.field(default_factory=WorkContext)
    """By which it is known what the caller has claimed."""
    tasks_are_made_by: TaskMaker | None = "graph_plan"
    """None where no tool that is offered makes tasks."""
    """Of the tools that are offered, the one to name where a task is needed."""
    stale_makes_work: bool = False
    """Whether finding an atom out of date makes a work node to verify it."""
    text: Callable[[str], TextIndex] | None = None
    """The text index of each tenant. Without it every text is looked through."""

    @property
    def which_project(self) -> str:
        """For whoever names no project, or none that is there."""
        return f"projectId is a project's name or id: {_PROJECTS[self.tasks_are_made_by]}"

    def now(self, state: State) -> str:
        """Never before the head, so that times follow the order of the log."""
        return to_text(state.time_after(self.clock()))

    async def pin(self, patterns: Sequence[str], *, instead_of: Pin | None = None) -> Pin | None:
        at = to_text(self.clock())
        return await asyncio.to_thread(self.repository.pin, patterns, at, instead_of=instead_of)

    async def compare(self, pins: Pins) -> Mapping[str, dict[str, Any]]:
        found = await asyncio.to_thread(self.repository.compare, pins) if pins else {}
        return {atom_id: describe(found[atom_id], pin) for atom_id, (_, pin) in pins.items() if atom_id in found}

    async def freshness(self, pins: Pins, *, bytes_max: int = FRESHNESS_BYTES_MAX) -> Mapping[str, dict[str, Any]]:
        """What an answer says of each atom whose pin could be compared."""
        return compact_freshness(await self.compare(pins), bytes_max)


class Call(msgspec.Struct, frozen=True):
    """One call of a tool: with what it is answered, and who makes it."""

    context: ToolContext
    store: Store
    principal: Principal
    tool: str

    async def read(self, action: Action, look: Callable[[View], T | Breathing[T]], *, resource: str | None = None) -> T:
        """What `look` finds of what the principal may read."""

        def prepared(state: State, read_filter: ReadFilter) -> T | Breathing[T]:
            # Here, and not in a look that pauses: after a start this reads all there is, which may take longer
            # than a question may.
            for derived in (Knowledge, Trust):
                state.derived(derived)
            return look(View(state, read_filter))

        return await self.store.read(self.principal, action, prepared, resource=resource)

    async def write(
        self,
        draw: Callable[[View, Operations], T],
        *,
        action: Action = Action.WRITE,
        resource: str | None = None,
        task: Callable[[], str | None] = lambda: None,
    ) -> T:
        """What `draw` answers at the head, once the operations it lists are durable; without any nothing is written.

        `task` is asked for after `draw`, which may be what finds it out.
        """

        def drawn(state: State, read_filter: ReadFilter) -> Drawn[T]:
            operations: Operations = []
            answer = draw(View(state, read_filter), operations)
            job = task()
            return Drawn(answer, operations, job and (find_uuid(job) or job))

        answer, _ = await write_drawn(self.store, self.principal, self.tool, drawn, action=action, resource=resource)
        return answer


def compact_freshness(
    said: Mapping[str, dict[str, Any]], bytes_max: int = FRESHNESS_BYTES_MAX
) -> Mapping[str, dict[str, Any]]:
    for kept in (("fresh", "matchesNothing", "changedFilesOmitted"), ("fresh", "changedFilesOmitted")):
        if size_of(said) <= bytes_max:
            break
        said = {atom_id: _spared(each, kept) for atom_id, each in said.items()}
    return said


def _spared(said: dict[str, Any], kept: Sequence[str]) -> dict[str, Any]:
    omitted = len(said.get("changedFiles", ())) + said.get("changedFilesOmitted", 0)
    counted = said | ({"changedFilesOmitted": omitted} if omitted else {})
    return {name: counted[name] for name in kept if name in counted}


# -- operations


def put(node_id: str, node_type: str, attrs: dict[str, Any]) -> Operation:
    return Operation(Verb.UPSERT_NODE, {"id": node_id, "type": node_type, "attrs": attrs})


def deletion(state: State, entities: Sequence[tuple[Parent, str]]) -> Operations:
    """Of atoms and molecules with their changelogs, and of what other vocabularies tied to them."""
    knowledge = state.derived(Knowledge)
    nodes: list[str] = []
    for kind, entity_id in entities:
        nodes += [*knowledge.changelog(kind, entity_id), entity_id]
    edges = {tuple(sorted(name.items())): name for node_id in nodes for name in state.edge_names(node_id)}
    return [
        *(Operation(Verb.DELETE_EDGE, name) for name in edges.values()),
        *(Operation(Verb.DELETE_NODE, {"node_id": node_id}) for node_id in nodes),
    ]


def project_deletion(state: State, project_id: str) -> Operations:
    """Everything that is known of a project: for the deletion of the project itself."""
    of_project = state.derived(Knowledge).of_project(project_id)
    return deletion(
        state, [*(("atom", each) for each in of_project.atoms), *(("molecule", each) for each in of_project.molecules)]
    )
