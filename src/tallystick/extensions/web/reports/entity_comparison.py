"""Two versions of an entity, compared: what differs between what it said at one moment and at another."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.engine.store import Store
from tallystick.errors import NotFound
from tallystick.extensions.web.reports.entity_report import Change, changes_between, count_until
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State


class Version(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    """Of the commit that made it what it was; 0 where there was none yet."""
    timestamp: str | None
    actor: str | None
    exists: bool


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    older: Version
    newer: Version
    commits: int
    """By how many the newer came of the older."""
    changes: list[Change]


async def compare_entity(
    store: Store, principal: Principal, entity_id: str, one: str | int, other: str | int | None
) -> Comparison:
    """`one` and `other` in any order; None is now. Raises NotFound, also for what may not be read, and InvalidArgument
    for a moment that is none."""

    def look(state: State, read_filter: ReadFilter) -> Breathing[Comparison]:
        known = state.lineage(entity_id, "direct", 0, 1, read_filter)
        if known is None:
            raise NotFound(f"no entity '{entity_id}' was ever written")
        ends = sorted((state.moment(one), state.count if other is None else state.moment(other)))
        counts = []
        for at in ends:
            lamport = state.commit(at).lamport if at else 0
            counts.append((yield from count_until(state, read_filter, entity_id, known.total, lamport)))
        said = [_document(state, entity_id, at) for at in ends]
        versions = [
            _version(state, read_filter, entity_id, count, document)
            for count, document in zip(counts, said, strict=True)
        ]
        changes = changes_between(said[0] or {}, said[1] or {})
        return Comparison(older=versions[0], newer=versions[1], commits=counts[1] - counts[0], changes=changes)

    return await store.read(principal, Action.READ, look, resource=entity_id)


def _document(state: State, entity_id: str, at: int) -> dict[str, Any] | None:
    if not at:
        return None
    node = state.node(entity_id, at)
    if node is not None:
        return {"type": node.type, "attrs": node.attrs, "content": node.content}
    edge = state.edge_by_id(entity_id, at)
    return None if edge is None else {"attrs": edge.attrs, "content": edge.content}


def _version(
    state: State, read_filter: ReadFilter, entity_id: str, count: int, document: dict[str, Any] | None
) -> Version:
    page = state.lineage(entity_id, "direct", count - 1, 1, read_filter) if count else None
    if page is None or not page.steps:
        return Version(position=0, timestamp=None, actor=None, exists=False)
    commit = page.steps[0].commit
    exists = document is not None
    return Version(position=commit.lamport, timestamp=commit.timestamp, actor=commit.actor, exists=exists)
