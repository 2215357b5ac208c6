"""The recall: trust taken back from what an agent wrote and from what followed of it, marked in one draft."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from tallystick.clock import from_text, to_text
from tallystick.commits import Commit, Draft
from tallystick.engine.store import Store
from tallystick.errors import Conflict, InvalidArgument, NotFound
from tallystick.operations import OperationContext
from tallystick.policy import Action, Principal
from tallystick.state import trust
from tallystick.state.asof import COMMIT_ID
from tallystick.state.derivation import Derivation, Trace
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust

TOOL = "recall"
_ATTEMPTS_MAX = 50


class Sought(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to distrust: what an actor wrote, in a window of time, or what one commit wrote with its whole draft."""

    actor: str | None = None
    since: str | None = None
    until: str | None = None
    commit: str | None = None


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    recall: str | None = None
    """None when nothing was marked."""
    commit_id: str | None = None
    entities: list[Trace]


class Undone(msgspec.Struct, frozen=True, omit_defaults=True):
    recall: str
    commit_id: str
    position: int
    trusted: bool
    entities: list[str] = []
    """Empty: everything that the recall named."""


async def recall(context: OperationContext, sought: Sought, *, hops: int, reason: str | None) -> Recalled:
    """Finds what was written and what followed of it, reading the whole log; marks it when there is a reason to."""
    async with context.open_store() as store:
        derivation = Derivation(await _roots(store, context.principal, sought), hops_max=hops)
        position = await _follow(store, context.principal, derivation, 0)
        if reason is None or not derivation.found:
            return Recalled(position=position, entities=list(derivation.found.values()))
        return await _mark(store, context.principal, derivation, position, reason, sought)


async def undo(context: OperationContext, recall_id: str, entities: list[str], reason: str | None) -> Undone:
    return await _change(
        context, recall_id, entities, reason, lambda state: trust.undo(state, recall_id, reason, entities), trusted=True
    )


async def redo(context: OperationContext, recall_id: str, entities: list[str], reason: str | None) -> Undone:
    """Takes back what was undone."""
    return await _change(
        context, recall_id, entities, reason, lambda state: trust.redo(state, recall_id, entities), trusted=False
    )


async def list_recalls(context: OperationContext) -> list[dict[str, Any]]:
    def look(state: State, read_filter: ReadFilter) -> list[dict[str, Any]]:
        return [{"recall": each.id, "active": each.active, **each.attrs} for each in state.derived(Trust).recalls()]

    async with context.open_store() as store:
        return await store.read(context.principal, Action.READ, look)


# -- finding


async def _roots(store: Store, principal: Principal, sought: Sought) -> Callable[[Commit], bool]:
    if sought.commit is not None:
        draft = await _draft_of(store, principal, sought.commit)
        return lambda commit: commit.lamport in draft
    since, until = _time(sought.since), _time(sought.until)

    def is_root(commit: Commit) -> bool:
        return (
            commit.actor == sought.actor
            and (since is None or commit.timestamp >= since)
            and (until is None or commit.timestamp < until)
        )

    return is_root


def _time(text: str | None) -> str | None:
    """As timestamps are written, so that texts compare as times do."""
    if text is None:
        return None
    try:
        return to_text(from_text(text))
    except (ValueError, OverflowError):
        raise InvalidArgument(f"'{text}' is not an ISO 8601 time") from None


async def _draft_of(store: Store, principal: Principal, commit_id: str) -> range:
    """The lamports of the draft that a commit belongs to."""
    is_id = COMMIT_ID.fullmatch(commit_id) is not None
    whole = await store.read(principal, Action.SEARCH, lambda state, _: state.commit_id(commit_id) if is_id else None)
    async for entry in store.commits(principal):
        if entry.commit.commit_id == whole:
            place, total = entry.commit.batch or (1, 1)
            first = entry.commit.lamport - place + 1
            return range(first, first + total)
    raise NotFound(f"there is no commit '{commit_id}'", code="COMMIT_NOT_FOUND", hint="'tallystick log' lists them")


async def _follow(store: Store, principal: Principal, derivation: Derivation, position: int) -> int:
    """Feed what lies behind `position`."""
    async for entry in store.commits(principal, after=position):
        position = entry.commit.lamport
        for node_id in derivation.feed(entry.commit):

            def look(
                state: State, read_filter: ReadFilter, node_id: str = node_id, lamport: int = position
            ) -> list[str]:
                return [edge.source for edge in state.edges(node_id, "in", at=state.resolve(lamport))]

            for source in await store.read(principal, Action.READ, look, resource=node_id, min_position=position):
                derivation.points(source, node_id)
    return position


# -- marking


class _Moved(Exception):
    """Something was written since the log was read."""


async def _mark(
    store: Store, principal: Principal, derivation: Derivation, position: int, reason: str, sought: Sought
) -> Recalled:
    """In one draft, at the very position up to which the log was read, so that nothing slips through."""
    recall_id = f"recall_{secrets.token_hex(6)}"

    def propose(state: State, read_filter: ReadFilter) -> Draft:
        if state.position != position:
            raise _Moved
        written = sum(1 for trace in derivation.found.values() if trace.hops == 0)
        counts = {"written": written, "derived": len(derivation.found) - written}
        about = {"sought": msgspec.to_builtins(sought), **counts}
        operations = trust.recall(recall_id, reason, derivation.found, about)
        return Draft(operations, actor=principal.actor, tool=TOOL, reason=reason)

    for _ in range(_ATTEMPTS_MAX):
        try:
            receipt = await store.write(principal, Action.WRITE, propose, resource=recall_id)
        except _Moved:
            position = await _follow(store, principal, derivation, position)
            continue
        last = receipt.commits[-1]
        return Recalled(
            recall=recall_id,
            commit_id=last.commit_id,
            position=last.lamport,
            entities=list(derivation.found.values()),
        )
    raise Conflict("others write faster than this can read", hint="try again when there is less going on")


async def _change(
    context: OperationContext,
    recall_id: str,
    entities: list[str],
    reason: str | None,
    operations: Callable[[State], Any],
    *,
    trusted: bool,
) -> Undone:
    actor = context.principal.actor
    async with context.open_store() as store:
        receipt = await store.write(
            context.principal,
            Action.WRITE,
            lambda state, _: Draft(operations(state), actor=actor, tool=TOOL, reason=reason),
            resource=recall_id,
        )
    last = receipt.commits[-1]
    return Undone(recall_id, last.commit_id, last.lamport, trusted, entities)
