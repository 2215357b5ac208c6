"""OpenLineage events as a form of `memory.lineage`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from tallystick.extensions.openlineage.events import EventBuilder
from tallystick.state import Lineage
from tallystick.state.state import State
from tallystick.toolsets.memory.lineage import Form, Page, gathered
from tallystick.toolsets.truncation import size_of, while_fitting

_COMMITS_BYTES_MAX = 16 << 20
"""The limit for the payloads of the commits that a page is written from."""


async def _as_events(page: Page) -> dict[str, Any]:
    event_builder: EventBuilder = page.earlier
    events = ({"events": event_builder.tell(commit)} for commit in page.items)
    commits = await gathered(while_fitting(events, page.wanted.bytes_max - size_of(page.entity)))
    return {
        "entity": page.entity,
        "events": [event for commit in commits for event in commit["events"]],
        "pagination": page.pagination(len(commits)),
        "export_format": "openlineage_v1",
    }


def _earlier(state: State, found: Lineage, seqs: Sequence[int]) -> Generator[None, None, EventBuilder]:
    """A run starts with its first commit on this entity, also when that is on an earlier page."""
    event_builder = EventBuilder(lambda commit: found.type)
    for seq in seqs:
        event_builder.skip(state.commit(seq))
        yield
    return event_builder


FORM = Form(
    item=lambda entity_id, step, bytes_max: step.commit,
    size=lambda commit: len(commit.payload),
    room=lambda bytes_max, entity: max(bytes_max, _COMMITS_BYTES_MAX),
    answer=_as_events,
    earlier=_earlier,
)
