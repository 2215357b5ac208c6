"""What the task tools share: pipelines, claims, and how they read and write."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tallystick.clock import Clock, to_text, wall_clock
from tallystick.extensions.tasks.cards import Pipelines, TaskCards
from tallystick.extensions.tasks.view import View
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.knowledge.catalogue import Knowledge
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.state.work.graph import WorkGraph
from tallystick.state.work.sections import Sections
from tallystick.toolsets.claims import Claims
from tallystick.toolsets.drafts import Drawn, write_drawn
from tallystick.toolsets.envelope import find_uuid
from tallystick.toolsets.knowledge.context import ToolContext as KnowledgeContext

if TYPE_CHECKING:
    from tallystick.engine.store import Store

T = TypeVar("T")


def new_id() -> str:
    return uuid.uuid4().hex


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    pipelines: Pipelines = Pipelines()
    """Until the first feature or task is written; from then on those that were written with it."""
    clock: Clock = wall_clock
    ids: Callable[[], str] = new_id
    knowledge: KnowledgeContext | None = None
    """Tells whether what is known of files is fresh."""
    claims: Claims = msgspec.field(default_factory=Claims)


class Call(msgspec.Struct, frozen=True):
    """One call of a tool: with what it is answered, and who makes it."""

    context: ToolContext
    store: Store
    principal: Principal
    tool: str

    async def write(
        self,
        draw: Callable[[View], T],
        *,
        action: Action = Action.WRITE,
        resource: str | None = None,
        reason: str | None = None,
    ) -> T:
        """What `draw` answers at the head, once what it drew is durable; nothing is written where it drew nothing."""

        def drawn(state: State, read_filter: ReadFilter) -> Drawn[tuple[T, View]]:
            with DraftBuilder(state) as builder:
                now = state.time_after(self.context.clock())
                claimant = self.context.claims.claimant(self.principal, now)
                view = View(state, self.context.pipelines, claimant, builder, read_filter=read_filter, now=to_text(now))
                return Drawn((draw(view), view), builder.operations, view.job)

        (answer, view), receipt = await write_drawn(
            self.store, self.principal, self.tool, drawn, action=action, resource=_known_as(resource), reason=reason
        )
        if receipt is not None:
            view.stamp(receipt.commits[0].timestamp, self.principal.actor)
        if view.warnings and isinstance(answer, dict):
            answer["warnings"] = view.warnings
        return answer

    async def read(self, action: Action, look: Callable[[View], T | Breathing[T]], *, resource: str | None = None) -> T:
        """What `look` finds of what the principal may read."""

        def prepared(state: State, read_filter: ReadFilter) -> T | Breathing[T]:
            # Here, and not in a look that pauses: after a start they read all there is.
            for derived in (WorkGraph, TaskCards, Sections, Knowledge, Trust):
                state.derived(derived)
            claimant = self.context.claims.claimant(self.principal, state.time_after(self.context.clock()))
            return look(View(state, self.context.pipelines, claimant, read_filter=read_filter))

        return await self.store.read(self.principal, action, prepared, resource=_known_as(resource))


def _known_as(reference: str | None) -> str | None:
    """The id itself, so that the policy knows whose it is, however it was spelt."""
    return None if reference is None else find_uuid(reference) or reference


def said(**fields: Any) -> dict[str, Any]:
    """Without what there is nothing to say of."""
    return {name: value for name, value in fields.items() if value}
