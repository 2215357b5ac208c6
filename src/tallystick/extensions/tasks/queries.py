"""The questions: containers by id or search, what is next, what is blocked, and the step of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tallystick.commits.mask import REDACTED
from tallystick.extensions.tasks.arguments import (
    KNOWN,
    PAGE_DEFAULT,
    Blocked,
    NextFeature,
    NextTask,
    QueryContainer,
    WorkflowState,
    missing,
    split_words,
)
from tallystick.extensions.tasks.cards import Card
from tallystick.extensions.tasks.context import Call
from tallystick.extensions.tasks.entities import counts_of, entity_of, files_of, sections_of, title_of
from tallystick.extensions.tasks.view import View, invalid
from tallystick.policy import Action
from tallystick.state import Breathing
from tallystick.state.attributes import text_of
from tallystick.state.work.attributes import ACTIVE, NEW
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.envelope import OUTPUT, check, clamped, page, succeeded
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX
from tallystick.toolsets.knowledge.arguments import INLINE_DEFAULT
from tallystick.toolsets.knowledge.path_context import Context, add_freshness, context
from tallystick.toolsets.truncation import listing, room_for, within_budget

OFFSET_MAX = 1 << 53
_BREATH = 50
NULLABLE: dict[str, Any] = {**OUTPUT, "properties": {**OUTPUT["properties"], "data": {"type": ["object", "null"]}}}
"""Where there may be nothing to hand out."""


async def query_container(call: Call, asked: QueryContainer) -> Answer:
    check(_problems(asked))
    if asked.operation == "search" or asked.id is None:
        room = room_for(call.principal, ANSWER_BYTES_MAX)
        found: JsonObject = await call.read(Action.SEARCH, lambda view: _found(view, asked, room))
        return succeeded(found)
    if asked.operation == "overview":
        return succeeded(await call.read(Action.READ, lambda view: _overview(view, asked), resource=asked.id))
    return await _get(call, asked)


def _problems(asked: QueryContainer) -> Iterator[str]:
    if asked.operation == "get":
        yield from missing(asked, ("id",), "get operation")
    for field, known in KNOWN.items():
        unknown = split_words(getattr(asked, field), known)[2]
        if unknown:
            yield f"{field} must be of {', '.join(known)}: there is no {', '.join(unknown)}"


# -- get


async def _get(call: Call, asked: QueryContainer) -> Answer:
    def look(view: View) -> Breathing[tuple[JsonObject, Context | None]]:
        card = view.get(asked.containerType or "", asked.id)
        data: JsonObject = {card.kind: entity_of(view, card)}
        if asked.includeSections:
            data["sections"] = sections_of(view, view.sections(card.id))
        if card.kind != "task":
            data["taskCounts"] = counts_of(view.readable_below(card, "task"))
        if card.kind != "task" or not asked.includeGraphContext:
            return data, None
        known = yield from _known(view, card)
        return data | {"graphContext": known.data}, known

    found: tuple[JsonObject, Context | None] = await call.read(Action.READ, look, resource=asked.id)
    data, known = found
    if call.context.knowledge is not None and known is not None:
        add_freshness(known, await call.context.knowledge.freshness(known.pins))
    return succeeded(data, exempt=True)


def _known(view: View, card: Card) -> Breathing[Context]:
    """Always all three lists: an empty one says that nothing is known."""
    files = files_of(view, card)
    if card.project is None:
        return Context({"molecules": [], "orphanAtoms": [], "unmatchedPaths": files})
    found = yield from context(view.state, card.project, files, view.read_filter, changelog=INLINE_DEFAULT)
    return found


# -- overview


def _overview(view: View, asked: QueryContainer) -> JsonObject:
    card = view.get(asked.containerType or "", asked.id)
    data: JsonObject = {card.kind: entity_of(view, card)}
    if card.kind == "task":
        return data
    data["taskCounts"] = counts_of(view.readable_below(card, "task"))
    within = "feature" if card.kind == "project" else "task"
    cards = view.readable_below(card, within)
    lines, hint = (_line(view, each) for each in cards), "search pages through all of them"
    return data | listing(f"{within}s", lines, len(cards), ANSWER_BYTES_MAX, hint=hint)


def _line(view: View, card: Card) -> JsonObject:
    counts = {"taskCounts": counts_of(view.readable_below(card, "task"))} if card.kind == "feature" else {}
    return entity_of(view, card) | counts


# -- search


def _found(view: View, asked: QueryContainer, bytes_max: int) -> Breathing[JsonObject]:
    limit = clamped(asked.limit, PAGE_DEFAULT)
    offset = clamped(asked.offset, 0, least=0, most=OFFSET_MAX)
    fitting_cards = [card for card in _candidates(view, asked) if _fits(card, asked)]
    fitting_cards.sort(key=lambda card: card.updated if card.kind == "project" else card.created, reverse=True)
    holding = yield from _holding(view, fitting_cards, (asked.query or "").strip().casefold())
    hits = view.readable(holding)
    items = within_budget((entity_of(view, card) for card in hits[offset : offset + limit]), bytes_max)
    return page("items", items, total=len(hits), limit=limit, offset=offset)


def _candidates(view: View, asked: QueryContainer) -> Iterable[Card]:
    kind = asked.containerType or ""
    if asked.featureId is not None:
        feature = view.get("feature", asked.featureId)
        project = view.get_project(asked.projectId).id if asked.projectId is not None else feature.project
        return view.readable_below(feature, kind) if feature.project == project else []
    if asked.projectId is not None:
        return view.readable_below(view.get_project(asked.projectId), kind)
    cards = (view.card(each) for each in view.task_cards.by_kind[kind])
    return [card for card in cards if card is not None]


def _fits(card: Card, asked: QueryContainer) -> bool:
    for value, words in ((card.status, asked.status), (card.priority, asked.priority)):
        wanted, excluded, _ = split_words(words, KNOWN["status"] + KNOWN["priority"])
        if (wanted and value not in wanted) or value in excluded:
            return False
    return _fits_tags(card, asked.tags)


def _fits_tags(card: Card, words: list[str] | None) -> bool:
    """All of them for projects, any of them for the rest."""
    wanted, excluded, _ = split_words(words)
    tags = set(card.tags)
    if excluded & tags:
        return False
    return not wanted or (wanted <= tags if card.kind == "project" else bool(wanted & tags))


def _holding(view: View, cards: list[Card], sought: str) -> Breathing[list[Card]]:
    if not sought:
        return cards
    found = []
    for number, card in enumerate(cards):
        if sought in _words(view, card).casefold():
            found.append(card)
        if number % _BREATH == 0:
            yield
    return found


def _words(view: View, card: Card) -> str:
    described: Any = view.said(card.id)
    return "\n".join((title_of(view, card), text_of(view.attrs(card.id), "summary"), text_of(described, "description")))


# -- what is next, and what is blocked


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
