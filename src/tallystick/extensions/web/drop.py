"""`/drop`: the step before a task is given up, with all that is open below it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from tallystick.engine.store import Target
from tallystick.errors import NotFound
from tallystick.extensions.web.addresses import with_query
from tallystick.extensions.web.forms import confirmed_reason
from tallystick.extensions.web.reports.work_board import DroppedTasks, list_dropped
from tallystick.extensions.web.visit import Redirect, Visit
from tallystick.policy import Action


class DropView(msgspec.Struct, frozen=True, kw_only=True):
    tasks: DroppedTasks
    digest: str
    """Of all of it: what is confirmed is what was shown."""
    is_changed: bool = False
    """Whether it is not what was confirmed."""


async def drop_step(visit: Visit) -> DropView:
    """Raises NotFound, also for who may not."""
    view = await _view(visit, visit.said("task") or "")
    if not (await visit.may(Target(Action.WRITE, view.tasks.task.id)))[0]:
        raise NotFound("there is nothing to drop")
    return view


async def drop(visit: Visit, form: Mapping[str, str]) -> DropView | Redirect:
    visit.check_may_act()
    reason = confirmed_reason(form)
    view = await _view(visit, form.get("task", ""))
    if view.digest != form.get("digest"):
        return msgspec.structs.replace(view, is_changed=True)
    task = view.tasks.task.id
    await visit.act("graph_restructure", operations=[{"op": "drop", "node_id": task, "reason": reason}])
    return Redirect(with_query("/work", project=view.tasks.project))


async def _view(visit: Visit, task: str) -> DropView:
    if not task:
        raise NotFound("an address of this page names a task")
    tasks = await list_dropped(visit.context.offer.store, visit.principal, task)
    listed = [tasks.task.id, *(each.id for each in tasks.below)]
    return DropView(tasks=tasks, digest=sha256(msgspec.json.encode(listed)).hexdigest())
