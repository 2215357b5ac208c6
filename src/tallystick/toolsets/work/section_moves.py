"""The sections of nodes that are merged: they go to the node that stays, behind those it has."""

from __future__ import annotations

from tallystick.state.state import State
from tallystick.state.tasks import SECTION, Sections, said_of
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.toolsets import JsonObject
from tallystick.toolsets.knowledge.lookup import version_of
from tallystick.toolsets.work.answers import get_node


class SectionMoves:
    """Of one draft: what was merged into a node is merged on with it."""

    def __init__(self, builder: DraftBuilder) -> None:
        self._builder = builder
        self._moved: dict[str, list[str]] = {}
        self._attrs: dict[str, JsonObject] = {}

    def move(self, source_id: str, target_id: str) -> int:
        """How many there were."""
        moving, there = self._of(source_id), self._of(target_id)
        kind = "FEATURE" if said_of(self._builder.attrs(target_id)).get("kind") == "feature" else "TASK"
        last = max((_ordinal(self._said(each)) for each in there), default=-1)
        for ordinal, section_id in enumerate(moving, last + 1):
            attrs = self._said(section_id)
            place = {"entityType": kind, "entityId": target_id, "ordinal": ordinal, "version": version_of(attrs) + 1}
            self._attrs[section_id] = {**attrs, **place}
            self._builder.put_beside(section_id, SECTION, self._attrs[section_id])
        self._moved[source_id], self._moved[target_id] = [], [*there, *moving]
        return len(moving)

    def _of(self, entity_id: str) -> list[str]:
        if entity_id in self._moved:
            return self._moved[entity_id]
        return self._state.derived(Sections).of(entity_id)

    def _said(self, section_id: str) -> JsonObject:
        return self._attrs.get(section_id) or get_node(self._state, section_id).attrs

    @property
    def _state(self) -> State:
        return self._builder.state


def _ordinal(attrs: JsonObject) -> int:
    said = attrs.get("ordinal")
    return said if isinstance(said, int) and not isinstance(said, bool) else 0
