"""Why a task was done as it was: a part of the page of an entity."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.app.context import Visit
from tallystick.extensions.why.explanation import Task, explain_task, why_context
from tallystick.state import work


class WhyPart(msgspec.Struct, frozen=True):
    why: Task | None
    """Of a task, now: its evidence, its receipt, and what was read for it."""


async def why(visit: Visit, page: Any) -> WhyPart:
    entity, app = page.entity, visit.app
    if entity.type != work.NODE or entity.moment is not None or app.offer is None:
        return WhyPart(None)
    context = why_context(app.settings, app.knowledge.repository if app.knowledge is not None else None)
    return WhyPart(await explain_task(context, app.offer.store, visit.principal, entity.id))
