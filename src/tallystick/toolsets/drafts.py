"""How a tool writes: it draws operations at the head, and answers once they are durable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from tallystick.commits import Draft, Operation
from tallystick.commits.canonical import canonical_bytes
from tallystick.engine.partition import Proposal, Receipt
from tallystick.errors import Conflict, Unsettled
from tallystick.policy import Action, Principal
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State

if TYPE_CHECKING:
    from tallystick.engine.store import Propose, Store
    from tallystick.projections.content import Prepared

logger = logging.getLogger(__name__)

T = TypeVar("T")
_ATTEMPTS = 10


class Drawn(msgspec.Struct, Generic[T], frozen=True):
    answer: T
    operations: Sequence[Operation]
    job: str | None = None
    """The task that it is done for."""


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
    """Return the answer of `draw` at the head, and the receipt of its operations; None if it drew none.

    `draw` may be called several times; the last one counts.
    """

    def propose(state: State, read_filter: ReadFilter) -> Proposal[T]:
        drawn = draw(state, read_filter)
        if not drawn.operations:
            return Proposal(None, drawn.answer)
        context = {"job_id": drawn.job} if drawn.job else None
        operations = tuple(drawn.operations)
        draft = Draft(operations, actor=principal.actor, tool=tool, reason=reason, run_context=context)
        return Proposal(draft, drawn.answer)

    receipt = await store.write(principal, action, propose, resource=resource)
    return receipt.answer, receipt if receipt.commits else None


class Outdated(Exception):
    """What was prepared outside does not fit the head any more: look again, and prepare anew."""


async def repeated(attempt: Callable[[], Awaitable[T]]) -> T:
    for _ in range(_ATTEMPTS):
        try:
            return await attempt()
        except Outdated:
            continue
    raise Conflict("others changed it each time before this could be written", hint="try again")


async def write_prepared(
    store: Store,
    principal: Principal,
    action: Action,
    propose: Propose,
    prepared: Prepared | None,
    *,
    resource: str,
    written_type: str | None = None,
) -> Receipt:
    """What was prepared on disk goes with the commit, or is taken back. Shielded: a caller that goes away must not
    take back content that is being committed."""

    async def write() -> Receipt:
        try:
            receipt = await store.write(principal, action, propose, resource=resource, written_type=written_type)
        except Unsettled:
            raise  # Whether it was written is unknown: a commit in the log must not name a blob that is gone.
        except BaseException:
            if prepared is not None:
                await asyncio.to_thread(prepared.discard)
            raise
        if prepared is not None and not _carries(receipt, prepared):
            await after_commit(asyncio.to_thread(prepared.discard))
        return receipt

    return await asyncio.shield(write())


async def after_commit(work: Awaitable[object]) -> None:
    """Await work that a durable write does not depend on. A failure is logged: the write is answered as a success."""
    try:
        await work
    except Exception:
        logger.exception("a write is durable, but what follows it failed")


def _carries(receipt: Receipt, prepared: Prepared) -> bool:
    """Not where a secret in it was masked: then the views write the file from the commit."""
    text = prepared.content.get("text")
    return text is None or any(canonical_bytes(text) in commit.payload for commit in receipt.commits)


def check_unused(state: State, ids: Iterable[str]) -> None:
    """Of ids that were just made up. One that was ever used keeps its history, so it is not used again."""
    if any(map(state.knows, ids)):
        raise Conflict("a new id turned out to be taken", hint="nothing was written: call again")
