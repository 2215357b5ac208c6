"""The restoration of one entity: an earlier version put back by an ordinary commit."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.commits import EDGE_VERBS, Commit, Draft, Operation, Verb, chain
from tallystick.errors import Conflict, NotFound
from tallystick.operations import OperationContext
from tallystick.policy import Action
from tallystick.projections.content import Contents
from tallystick.state.derivation import entity_of
from tallystick.state.state import State
from tallystick.store import Store

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
    since: it is gone, and what is left of it is not what it was."""
    async with context.open_store() as store:
        found = await _version(context, store, entity, as_of)
        if chain.content_hash(found.payload) != found.content_hash:
            raise Conflict(
                f"the version of '{entity}' at position {found.lamport} was redacted",
                code="REDACTED",
                hint=f"choose another: tallystick lineage {entity}",
            )
        _require_content(context, found)
        newest = await _newest(context, store, entity)
        unchanged = newest.operation is found.operation and newest.payload == found.payload
        written = newest if unchanged else await _write(context, store, found, reason)
    return Restored(
        entity,
        "edge" if found.operation in EDGE_VERBS else "node",
        found.lamport,
        found.timestamp,
        found.actor,
        None if unchanged else written.commit_id,
        written.lamport,
        found.document(),
    )


async def _version(context: OperationContext, store: Store, entity: str, as_of: str | int) -> Commit:
    def look(state: State, read_filter: object) -> tuple[int, bool]:
        at = state.resolve(as_of)
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


async def _write(context: OperationContext, store: Store, version: Commit, reason: str | None) -> Commit:
    because = reason or f"restored from position {version.lamport}"
    operation = Operation(version.operation, version.document())
    draft = Draft((operation,), actor=context.principal.actor, tool=TOOL, reason=because)
    receipt = await store.write(
        context.principal,
        Action.WRITE,
        lambda state, read_filter: draft,
        resource=entity_of(version),
        restoring=True,
    )
    return receipt.commits[-1]
