"""How a tool writes: it draws operations at the head, and answers once they are durable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from tallystick.commits import Draft, Operation
from tallystick.errors import Conflict
from tallystick.partition import Receipt
from tallystick.policy import Action, Principal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

if TYPE_CHECKING:
    from tallystick.store import Store

T = TypeVar("T")


class Drawn(msgspec.Struct, Generic[T], frozen=True):
    answer: T
    operations: Sequence[Operation]
    job: str | None = None
    """The task that it is done for."""


class _NothingToWrite(Exception):
    """Leaves the head without a commit, and is no error."""


async def write_drawn(
    store: Store,
    principal: Principal,
    tool: str,
    draw: Callable[[State, ReadFilter], Drawn[T]],
    *,
    action: Action = Action.WRITE,
    resource: str | None = None,
    reason: str | None = None,
) -> tuple[T, Receipt | None]:
    """What `draw` answers at the head, and the receipt of its operations; None where it drew none.

    `draw` may be called several times; the last one counts.
    """
    drawn: list[Drawn[T]] = []

    def propose(state: State, read_filter: ReadFilter) -> Draft:
        drawn[:] = [last := draw(state, read_filter)]
        if not last.operations:
            raise _NothingToWrite
        context = {"job_id": last.job} if last.job else None
        return Draft(tuple(last.operations), actor=principal.actor, tool=tool, reason=reason, run_context=context)

    try:
        receipt = await store.write(principal, action, propose, resource=resource)
    except _NothingToWrite:
        return drawn[0].answer, None
    return drawn[0].answer, receipt


def check_unused(state: State, ids: Iterable[str]) -> None:
    """Of ids that were just made up. One that was ever used keeps its history, so it is not used again."""
    if any(state.summary(entity_id) is not None for entity_id in ids):
        raise Conflict("a new id turned out to be taken", hint="nothing was written: call again")
