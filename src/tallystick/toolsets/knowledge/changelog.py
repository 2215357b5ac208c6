"""manage_changelog: what changed and why, for good."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from tallystick.policy import Action, Principal
from tallystick.state.knowledge import CHANGELOG
from tallystick.state.knowledge.catalogue import Knowledge
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.discretion import Discretion, itself
from tallystick.toolsets.envelope import clamped, succeeded
from tallystick.toolsets.fitting import cut_short, fitting, room_for
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX, Said, entry_of
from tallystick.toolsets.knowledge.arguments import PAGE_DEFAULT, ChangelogArguments, check_changelog
from tallystick.toolsets.knowledge.desk import Desk, Operations, put
from tallystick.toolsets.knowledge.lookup import check_unused, get_entity
from tallystick.toolsets.knowledge.query import OFFSET_MAX
from tallystick.toolsets.knowledge.task_reference import get_task

if TYPE_CHECKING:
    from tallystick.store import Sight, Store

TOOL = "manage_changelog"
FIELDS = ("parentType", "parentId", "taskId", "summary", "createdAt")


async def manage_changelog(desk: Desk, store: Store, principal: Principal, asked: ChangelogArguments) -> Answer:
    check_changelog(asked)
    return await (_append if asked.operation == "append" else _search)(desk, store, principal, asked)


async def _append(desk: Desk, store: Store, principal: Principal, asked: ChangelogArguments) -> Answer:
    entry_id, parent_id = uuid.uuid4().hex, asked.parentId or ""

    def draw(state: State, operations: Operations, discretion: Discretion) -> Said:
        get_entity(state, discretion, asked.parentType, parent_id)
        check_unused(state, entry_id)
        values = (
            asked.parentType,
            parent_id,
            get_task(desk, state, discretion, asked.taskId or ""),
            (asked.summary or "").strip(),
        )
        attrs = dict(zip(FIELDS, (*values, desk.now(state)), strict=True))
        operations.append(put(entry_id, CHANGELOG, attrs))
        return {"id": entry_id, **attrs}

    entry = await desk.write(store, principal, TOOL, draw, resource=parent_id, task=lambda: asked.taskId)
    return succeeded({"entry": entry}, "Changelog entry appended")


async def _search(desk: Desk, store: Store, principal: Principal, asked: ChangelogArguments) -> Answer:
    def look(state: State, sight: Sight) -> Said:
        return _page(state, Discretion(state, sight), asked, room_for(principal, ANSWER_BYTES_MAX))

    return succeeded(await desk.narrowed(store, principal, Action.SEARCH, look, resource=asked.parentId))


def _page(state: State, discretion: Discretion, asked: ChangelogArguments, bytes_max: int) -> Said:
    limit = clamped(asked.limit, PAGE_DEFAULT)
    offset = clamped(asked.offset, 0, least=0, most=OFFSET_MAX)
    ids = discretion.seen(state.aspect(Knowledge).changelog(asked.parentType, asked.parentId or ""), itself)
    nodes = (node for node in map(state.node, ids[offset : offset + limit]) if node is not None)
    entries = fitting((entry_of(discretion, node, FIELDS) for node in nodes), bytes_max)
    data: Said = {"entries": entries, "count": len(entries), "total": len(ids), "limit": limit, "offset": offset}
    data |= cut_short(len(entries), limit=limit, left=len(ids) - offset)
    if entries and offset + len(entries) < len(ids):
        data["nextOffset"] = offset + len(entries)
    return data
