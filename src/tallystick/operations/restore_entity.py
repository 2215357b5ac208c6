"""The restoration of one entity: an earlier version put back by an ordinary commit."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.clock import to_text, wall_clock
from tallystick.commits import EDGE_VERBS, Commit, Draft, Operation, Verb, chain
from tallystick.engine.partition import Receipt
from tallystick.engine.store import Store
from tallystick.errors import Conflict, NotFound, TallystickError
from tallystick.operations import OperationContext
from tallystick.policy import Action
from tallystick.projections.content import Contents
from tallystick.state.derivation import entity_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets.entity_rules import judge

TOOL = "restore-entity"
_UPSERTS = (Verb.UPSERT_NODE, Verb.UPSERT_EDGE)


class Restored(msgspec.Struct, frozen=True):
    entity: str
    kind: str
    """node or edge"""
    from_position: int
    """Of the commit whose version is back."""
    written_at: str
    """When that version was written first."""
    written_by: str
    commit_id: str | None
    """None when the entity is that version already, and nothing was written."""
    position: int
    document: dict[str, Any]


async def restore_entity(
    context: OperationContext, entity: str, as_of: str | int, *, reason: str | None = None
) -> Restored:
    """Reads the log up to that version. Raises NotFound where there was none then, and Conflict for what was redacted
    since, or for what a rule of its vocabulary forbids now."""
    async with context.open_store() as store:
        found = await _version(context, store, entity, as_of)
        if chain.content_hash(found.payload) != found.content_hash:
            raise Conflict(
                f"the version of '{entity}' at position {found.lamport} was redacted",
                code="REDACTED",
                hint=f"choose another: tallystick lineage {entity}",
            )
        _require_content(context, found)
        receipt = await _write(context, store, found, await _newest(context, store, entity), reason)
    written = receipt.commits[-1]
    return Restored(
        entity,
        "edge" if found.operation in EDGE_VERBS else "node",
        found.lamport,
        found.timestamp,
        found.actor,
        None if receipt.duplicate else written.commit_id,
        written.lamport,
        (written if written.operation in _UPSERTS else found).document(),
    )


async def _version(context: OperationContext, store: Store, entity: str, as_of: str | int) -> Commit:
    def look(state: State, read_filter: object) -> tuple[int, bool]:
        at = state.moment(as_of)
        return at, (state.node(entity, at) or state.edge_by_id(entity, at)) is not None

    at, was_there = await store.read(context.principal, Action.READ, look, resource=entity)
    found: Commit | None = None
    number = 0
    async for entry in store.commits(context.principal):
        number += 1
        if number > at:
            break
        if entry.commit.operation in _UPSERTS and entity_of(entry.commit) == entity:
            found = entry.commit
    if found is None or not was_there:
        raise NotFound(f"there was no '{entity}' as of {as_of}", hint=f"its history: tallystick lineage {entity}")
    return found


async def _newest(context: OperationContext, store: Store, entity: str) -> Commit:
    async for entry in store.commits(context.principal, newest_first=True):
        if entity_of(entry.commit) == entity:
            return entry.commit
    raise NotFound(f"there is no '{entity}'")


def _require_content(context: OperationContext, commit: Commit) -> None:
    content = commit.document().get("content")
    if content is None or "blob" not in content:
        return
    try:
        Contents(context.settings.home).read(content)
    except Exception as error:
        raise Conflict(
            f"the content of that version is no longer there: {error}",
            code="CONTENT_GONE",
            hint="put its blob back from a backup, then try again",
        ) from error


async def _write(
    context: OperationContext, store: Store, version: Commit, newest: Commit, reason: str | None
) -> Receipt:
    """A duplicate, without a new commit, where the entity is that version already."""
    entity, because = entity_of(version), reason or f"restored from position {version.lamport}"

    def propose(state: State, read_filter: ReadFilter) -> Draft | Commit:
        operation = Operation(version.operation, version.document())
        try:
            judged = judge(state, read_filter, operation, to_text(state.time_after(wall_clock())))
        except TallystickError as error:
            raise _refusal(entity, error) from error
        if judged is None:
            return newest
        return Draft((judged,), actor=context.principal.actor, tool=TOOL, reason=because)

    return await store.write(context.principal, Action.WRITE, propose, resource=entity, restoring=True)


def _refusal(entity: str, error: TallystickError) -> TallystickError:
    return type(error)(
        f"'{entity}' cannot be restored: {error.message}", code=error.code, hint=error.hint, details=error.details
    )
