"""The shapes of projects, features, tasks and sections as they are answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from tallystick.extensions.tasks.cards import Card
from tallystick.extensions.tasks.view import View
from tallystick.state.attributes import integer_of, list_of, text_of
from tallystick.toolsets import JsonObject
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX
from tallystick.toolsets.knowledge.context_files import files_in
from tallystick.toolsets.knowledge.path_context import repository_paths
from tallystick.toolsets.truncation import size_of


def entity_of(view: View, card: Card) -> JsonObject:
    return _SHAPES[card.kind](view, card)


def _project(view: View, card: Card) -> JsonObject:
    attrs = view.attrs(card.id)
    return _framed(view, card, {"id": card.id, "name": text_of(attrs, "name")}, attrs)


def _feature(view: View, card: Card) -> JsonObject:
    attrs = view.attrs(card.id)
    answer = {"id": card.id, "projectId": view.read_filter.reference(card.project), "name": title_of(view, card)}
    return _framed(view, card, answer, attrs, status=card.status, priority=card.priority, **_ties(view, card))


def _task(view: View, card: Card) -> JsonObject:
    attrs = view.attrs(card.id)
    feature = view.feature_of(card.id)
    answer = {
        "id": card.id,
        "projectId": view.read_filter.reference(card.project),
        "featureId": view.read_filter.reference(feature.id) if feature else None,
        "title": title_of(view, card),
    }
    steps = {"status": card.status, "priority": card.priority, "complexity": card.complexity}
    node = view.state.node(card.id)
    by = {"lastModifiedBy": node.provenance.updated_by if node else None}
    return _framed(view, card, answer, attrs, **steps, **_ties(view, card), **by)


_SHAPES = {"project": _project, "feature": _feature, "task": _task}


def _framed(view: View, card: Card, answer: JsonObject, attrs: JsonObject, **more: Any) -> JsonObject:
    answer |= {"summary": text_of(attrs, "summary"), "description": view.said(card.id).get("description")}
    answer |= more | {"tags": list(card.tags), "version": view.version(card)}
    return stamped(view, card.id, answer)


def stamped(view: View, entity_id: str, answer: JsonObject) -> JsonObject:
    """With its times, and whether it was recalled. In place: the times of what is being written come later."""
    answer |= view.read_filter.warned(entity_id, {})
    view.times(entity_id, answer)
    return answer


def _ties(view: View, card: Card) -> JsonObject:
    return {
        "blockedBy": view.blockers(card),
        "blockedReason": view.said(card.id).get("blockedReason") if view.blockers(card) else None,
        "relatedTo": view.related(card.id),
    }


def title_of(view: View, card: Card) -> str:
    """A node that was planned as work is called by its summary."""
    attrs = view.attrs(card.id)
    if card.kind == "project":
        return text_of(attrs, "name")
    return text_of(view.said(card.id), "title") or text_of(attrs, "summary")


def named(view: View, cards: Iterable[Card]) -> list[JsonObject]:
    """As far as they may be read."""
    return [view.read_filter.warned(card.id, {"id": card.id, "type": card.kind}) for card in view.readable(cards)]


def counts_of(cards: Iterable[Card]) -> JsonObject:
    by_status = Counter(card.status for card in cards)
    return {"total": by_status.total(), "byStatus": dict(by_status)}


# -- sections


def section_of(view: View, section_id: str, *, with_content: bool = True) -> JsonObject:
    attrs = view.attrs(section_id)
    answer: JsonObject = {
        "id": section_id,
        **{name: attrs.get(name) for name in ("entityType", "entityId", "title", "usageDescription")},
        "content": text_of(attrs, "content") if with_content else "",
        **{name: attrs.get(name) for name in ("contentFormat", "ordinal", "tags")},
        "version": integer_of(attrs, "version", 1),
    }
    return stamped(view, section_id, answer)


def sections_of(view: View, section_ids: Iterable[str], *, with_content: bool = True) -> list[JsonObject]:
    """Contents as far as they fit; of the others it is said that they are left out."""
    found: list[JsonObject] = []
    left = ANSWER_BYTES_MAX
    for section_id in section_ids:
        section = section_of(view, section_id, with_content=with_content)
        size = size_of(section)
        if found and size > left and with_content:
            section |= {"content": "", "contentOmitted": True}
            size = size_of(section)
        left -= size
        found.append(section)
    return found


# -- the files of a task


def files_of(view: View, card: Card) -> list[str]:
    """What its Context Files section names, and what its links point to in the repository."""
    linked = [link for link in list_of(view.attrs(card.id), "context_links") if isinstance(link, str)]
    return list(dict.fromkeys([*_written(view, card), *repository_paths(linked)]))


def _written(view: View, card: Card) -> list[str]:
    sections = map(view.attrs, view.sections(card.id))
    return files_in((text_of(attrs, "title"), text_of(attrs, "content")) for attrs in sections)
