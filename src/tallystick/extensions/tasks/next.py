"""What to do next, what is blocked, and where in its pipeline something stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tallystick.commits.mask import REDACTED
from tallystick.extensions.tasks.arguments import Blocked, NextFeature, NextTask, WorkflowState
from tallystick.extensions.tasks.cards import Card
from tallystick.extensions.tasks.context import Call
from tallystick.extensions.tasks.entities import entity_of, title_of
from tallystick.extensions.tasks.view import View, invalid
from tallystick.policy import Action
from tallystick.state.work.attributes import ACTIVE, NEW
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.envelope import OUTPUT, succeeded
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX
from tallystick.toolsets.truncation import listing, room_for

NULLABLE: dict[str, Any] = {**OUTPUT, "properties": {**OUTPUT["properties"], "data": {"type": ["object", "null"]}}}
"""Where there may be nothing to hand out."""


async def get_next_task(call: Call, asked: NextTask) -> Answer:
    def look(view: View) -> JsonObject | None:
        within = _within(view, asked.projectId, asked.featureId)
        # In their order: the first that fits is the one.
        fresh = (view.card(task_id) for _, task_id in view.task_cards.fresh)
        return _first(view, (card for card in fresh if card is not None and within(card)), asked.priority)

    return _handed_out("task", await call.read(Action.READ, look))


async def get_next_feature(call: Call, asked: NextFeature) -> Answer:
    def look(view: View) -> JsonObject | None:
        within = _within(view, asked.projectId, None)
        open_ = [card for card in view.task_cards.by_kind["feature"].values() if card.status in (NEW, ACTIVE)]
        open_.sort(key=lambda card: (card.status != ACTIVE, card.order[0], card.created))
        return _first(view, (card for card in open_ if within(card)), asked.priority)

    return _handed_out("feature", await call.read(Action.READ, look))


def _within(view: View, project_id: str | None, feature_id: str | None) -> Callable[[Card], bool]:
    project = view.get_project(project_id).id if project_id is not None else None
    feature = view.get("feature", feature_id).id if feature_id is not None else None

    def is_within(card: Card) -> bool:
        # Of one whose project was redacted nothing is left to be done.
        if card.project == REDACTED or (project is not None and card.project != project):
            return False
        above = view.feature_of(card.id) if feature is not None else None
        return feature is None or (above is not None and above.id == feature)

    return is_within


def _first(view: View, cards: Iterator[Card], priority: str | None) -> JsonObject | None:
    wanted = (each for each in cards if priority is None or each.priority == priority)
    fits = (each for each in wanted if not view.is_taken(each) and not view.blockers(each))
    for card in view.read_filter.first(fits, lambda each: view.read_filter.allows(each.id), 1):
        return {card.kind: entity_of(view, card)}
    return None


def _handed_out(kind: str, data: JsonObject | None) -> Answer:
    if data is not None:
        return succeeded(data, exempt=True)
    message = f"No available {kind}s found matching the criteria"
    return Answer({"success": True, "message": message, "data": None})


# -- blocked


async def get_blocked_tasks(call: Call, asked: Blocked) -> Answer:
    return await _blocked(call, asked, "task")


async def get_blocked_features(call: Call, asked: Blocked) -> Answer:
    return await _blocked(call, asked, "feature")


async def _blocked(call: Call, asked: Blocked, kind: str) -> Answer:
    def look(view: View) -> JsonObject:
        within = _within(view, asked.projectId, asked.featureId if kind == "task" else None)
        cards = (view.card(each) for each in view.task_cards.by_kind[kind])
        open_ = (card for card in cards if card is not None and not card.terminal and within(card))
        found = view.readable([card for card in open_ if view.blockers(card)])
        found.sort(key=lambda card: (card.order[0], card.created))
        entities = (entity_of(view, card) for card in found)
        hint = "projectId narrows it" + (", and featureId" if kind == "task" else "")
        room = room_for(call.principal, ANSWER_BYTES_MAX)
        return listing(f"{kind}s", entities, len(found), room, hint=hint) | {"count": len(found)}

    return succeeded(await call.read(Action.SEARCH, look))


# -- workflow


async def query_workflow_state(call: Call, asked: WorkflowState) -> Answer:
    if asked.containerType == "project":
        raise invalid("projects have no workflow: ask for a feature or a task")

    def look(view: View) -> JsonObject:
        card = view.get(asked.containerType or "", asked.id)
        blockers = view.blockers(card)
        related = (view.card(each) for each in view.related(card.id))
        entry: JsonObject = {
            "currentStatus": card.status,
            "nextStatus": view.pipelines.after(card.kind, card.status),
            "prevStatus": view.pipelines.before(card.kind, card.status),
            "isTerminal": card.terminal,
            "isBlocked": bool(blockers),
            "blockedBy": view.blockers(card),
            "blockedReason": view.said(card.id).get("blockedReason") if blockers else None,
            "pipelinePosition": view.pipelines.position(card.kind, card.status),
            "relatedEntities": [_related(view, each) for each in related if each is not None],
        }
        return view.read_filter.warned(card.id, entry)

    return succeeded(await call.read(Action.READ, look, resource=asked.id))


def _related(view: View, card: Card) -> JsonObject:
    entry = {"id": card.id, "type": card.kind, "title": title_of(view, card), "status": card.status}
    return view.read_filter.warned(card.id, entry)
