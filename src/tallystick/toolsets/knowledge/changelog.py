"""manage_changelog: what changed and why, for good."""

from __future__ import annotations

import uuid

from tallystick.policy import Action
from tallystick.state.knowledge import CHANGELOG
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.drafts import check_unused
from tallystick.toolsets.envelope import clamped, page, succeeded
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX, entry_of
from tallystick.toolsets.knowledge.arguments import PAGE_DEFAULT, ChangelogArguments, check_changelog
from tallystick.toolsets.knowledge.context import Call, Operations, put
from tallystick.toolsets.knowledge.lookup import get_entity
from tallystick.toolsets.knowledge.query import OFFSET_MAX
from tallystick.toolsets.knowledge.task_reference import get_task, how_tasks_are_made
from tallystick.toolsets.knowledge.view import View
from tallystick.toolsets.truncation import room_for, within_budget

FIELDS = ("parentType", "parentId", "taskId", "summary", "createdAt")


async def manage_changelog(call: Call, asked: ChangelogArguments) -> Answer:
    check_changelog(asked, f"name the task that this comes from; {how_tasks_are_made(call.context)}")
    return await (_append if asked.operation == "append" else _search)(call, asked)


async def _append(call: Call, asked: ChangelogArguments) -> Answer:
    entry_id, parent_id = uuid.uuid4().hex, asked.parentId or ""

    def draw(view: View, operations: Operations) -> JsonObject:
        get_entity(view, asked.parentType, parent_id)
        check_unused(view.state, [entry_id])
        values = (
            asked.parentType,
            parent_id,
            get_task(call.context, view, asked.taskId or ""),
            (asked.summary or "").strip(),
        )
        attrs = dict(zip(FIELDS, (*values, call.context.now(view.state)), strict=True))
        operations.append(put(entry_id, CHANGELOG, attrs))
        return {"id": entry_id, **attrs}

    entry = await call.write(draw, resource=parent_id, task=lambda: asked.taskId)
    return succeeded({"entry": entry}, "Changelog entry appended")


async def _search(call: Call, asked: ChangelogArguments) -> Answer:
    def look(view: View) -> JsonObject:
        return _page(view, asked, room_for(call.principal, ANSWER_BYTES_MAX))

    return succeeded(await call.read(Action.SEARCH, look, resource=asked.parentId))


def _page(view: View, asked: ChangelogArguments, bytes_max: int) -> JsonObject:
    limit = clamped(asked.limit, PAGE_DEFAULT)
    offset = clamped(asked.offset, 0, least=0, most=OFFSET_MAX)
    ids = view.readable(view.knowledge.changelog(asked.parentType, asked.parentId or ""))
    nodes = (node for node in map(view.state.node, ids[offset : offset + limit]) if node is not None)
    entries = within_budget((entry_of(view, node, FIELDS) for node in nodes), bytes_max)
    return page("entries", entries, total=len(ids), limit=limit, offset=offset)
