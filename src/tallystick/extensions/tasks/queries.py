"""query_container: one project, feature or task, those that fit, or what there is at a glance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tallystick.extensions.tasks.arguments import KNOWN, PAGE_DEFAULT, QueryContainer, missing, split_words
from tallystick.extensions.tasks.cards import Card
from tallystick.extensions.tasks.context import Call
from tallystick.extensions.tasks.entities import counts_of, entity_of, files_of, sections_of, title_of
from tallystick.extensions.tasks.view import View
from tallystick.policy import Action
from tallystick.state import Breathing
from tallystick.state.attributes import text_of
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.envelope import check, clamped, page, succeeded
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX
from tallystick.toolsets.knowledge.arguments import INLINE_DEFAULT
from tallystick.toolsets.knowledge.path_context import Context, add_freshness, context
from tallystick.toolsets.truncation import listing, room_for, within_budget

OFFSET_MAX = 1 << 53
_BREATH = 50


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
