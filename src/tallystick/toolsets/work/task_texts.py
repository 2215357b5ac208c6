"""What tasks say of a node beyond the work graph: its title, description and sections, as far as they fit."""

from __future__ import annotations

from tallystick.state import Node
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.tasks import Sections, said_of
from tallystick.toolsets import JsonObject
from tallystick.toolsets.truncation import that_fit
from tallystick.toolsets.work.answers import PART_BYTES_MAX, get_node

_DESCRIPTION_BYTES_MAX = PART_BYTES_MAX // 4
_SECTIONS_BYTES_MAX = PART_BYTES_MAX
_SECTIONS_READ = 200


def sections_of(state: State, node_id: str, read_filter: ReadFilter) -> list[Node]:
    """In order, as far as they may be read."""
    ids = state.derived(Sections).of(node_id)[:_SECTIONS_READ]
    return [get_node(state, each) for each in read_filter.readable(ids)]


def task_of(node: Node, sections: list[Node], read_filter: ReadFilter) -> JsonObject:
    """The key only for a node that was made, or is described, as a task."""
    said = said_of(node.attrs)
    answer: JsonObject = {"title": said["title"]} if isinstance(said.get("title"), str) else {}
    answer |= _cut("description", said.get("description"), _DESCRIPTION_BYTES_MAX)
    shown = _shown(sections, read_filter)
    if shown:
        answer["sections"] = shown
    if len(shown) < len(sections):
        answer["sections_omitted"] = len(sections) - len(shown)
    return {"task": answer} if answer else {}


def _shown(sections: list[Node], read_filter: ReadFilter) -> list[JsonObject]:
    """The first ones whole; from where the room ends, what is left of it."""
    shown: list[JsonObject] = []
    left = _SECTIONS_BYTES_MAX
    for section in sections:
        content = _cut("content", section.attrs.get("content"), left)
        left = max(0, left - len(content.get("content", "").encode()))
        shown.append(read_filter.warned(section.id, {"id": section.id, "title": section.attrs.get("title"), **content}))
    return that_fit(shown, 2 * _SECTIONS_BYTES_MAX) if shown else []


def _cut(name: str, text: object, bytes_max: int) -> JsonObject:
    if not isinstance(text, str) or not text:
        return {}
    whole = text.encode("utf-8", "replace")
    if len(whole) <= bytes_max:
        return {name: text}
    return {name: whole[:bytes_max].decode(errors="ignore") + "…", f"{name}_truncated": True}
