"""What tasks keep on a work node: its title, description and sections, in answers and when nodes are merged."""

from __future__ import annotations

from tallystick.state import Node
from tallystick.state.attributes import integer_of
from tallystick.state.work.attributes import said_of
from tallystick.state.work.draft_builder import DraftBuilder
from tallystick.state.work.sections import SECTION, Sections
from tallystick.toolsets import JsonObject
from tallystick.toolsets.truncation import within_budget
from tallystick.toolsets.work.answers import PART_BYTES_MAX
from tallystick.toolsets.work.view import View

_DESCRIPTION_BYTES_MAX = PART_BYTES_MAX // 4
_SECTIONS_BYTES_MAX = PART_BYTES_MAX
_SECTIONS_READ = 200


def sections_of(view: View, node_id: str) -> list[Node]:
    """In order, as far as they may be read."""
    ids = view.state.derived(Sections).of(node_id)[:_SECTIONS_READ]
    return [view.node(each) for each in view.readable(ids)]


def task_of(view: View, node: Node, sections: list[Node]) -> JsonObject:
    """The key only for a node that was made, or is described, as a task."""
    said = said_of(node.attrs)
    answer: JsonObject = {"title": said["title"]} if isinstance(said.get("title"), str) else {}
    answer |= _cut("description", said.get("description"), _DESCRIPTION_BYTES_MAX)
    shown = _shown(view, sections)
    if shown:
        answer["sections"] = shown
    if len(shown) < len(sections):
        answer["sections_omitted"] = len(sections) - len(shown)
    return {"task": answer} if answer else {}


def _shown(view: View, sections: list[Node]) -> list[JsonObject]:
    """The first ones whole; from where the room ends, what is left of it."""
    shown: list[JsonObject] = []
    left = _SECTIONS_BYTES_MAX
    for section in sections:
        content = _cut("content", section.attrs.get("content"), left)
        left = max(0, left - len(content.get("content", "").encode()))
        shown.append(view.warned(section.id, {"id": section.id, "title": section.attrs.get("title"), **content}))
    return within_budget(shown, 2 * _SECTIONS_BYTES_MAX) if shown else []


def _cut(name: str, text: object, bytes_max: int) -> JsonObject:
    if not isinstance(text, str) or not text:
        return {}
    whole = text.encode("utf-8", "replace")
    if len(whole) <= bytes_max:
        return {name: text}
    return {name: whole[:bytes_max].decode(errors="ignore") + "…", f"{name}_truncated": True}


class SectionMoves:
    """Of one draft: the sections of a merged node go to the node that stays, behind those it has."""

    def __init__(self, builder: DraftBuilder, view: View) -> None:
        self._builder = builder
        self._view = view
        self._moved: dict[str, list[str]] = {}
        self._attrs: dict[str, JsonObject] = {}

    def move(self, source_id: str, target_id: str) -> int:
        """How many there were."""
        moving, there = self._of(source_id), self._of(target_id)
        kind = "FEATURE" if said_of(self._builder.attrs(target_id)).get("kind") == "feature" else "TASK"
        last = max((integer_of(self._said(each), "ordinal", 0) for each in there), default=-1)
        for ordinal, section_id in enumerate(moving, last + 1):
            attrs = self._said(section_id)
            place = {
                "entityType": kind,
                "entityId": target_id,
                "ordinal": ordinal,
                "version": integer_of(attrs, "version", 1) + 1,
            }
            self._attrs[section_id] = {**attrs, **place}
            self._builder.put_beside(section_id, SECTION, self._attrs[section_id])
        self._moved[source_id], self._moved[target_id] = [], [*there, *moving]
        return len(moving)

    def _of(self, entity_id: str) -> list[str]:
        if entity_id in self._moved:
            return self._moved[entity_id]
        return self._view.state.derived(Sections).of(entity_id)

    def _said(self, section_id: str) -> JsonObject:
        return self._attrs.get(section_id) or self._view.node(section_id).attrs
