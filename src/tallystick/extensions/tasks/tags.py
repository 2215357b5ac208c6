"""list_tags, get_tag_usage and rename_tag."""

from __future__ import annotations

from tallystick.extensions.tasks.arguments import TAG_CHARACTERS_MAX, ListTags, RenameTag, TagUsage
from tallystick.extensions.tasks.cards import Card
from tallystick.extensions.tasks.context import Call
from tallystick.extensions.tasks.entities import title_of
from tallystick.extensions.tasks.view import View
from tallystick.policy import Action
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.envelope import check, succeeded
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX
from tallystick.toolsets.truncation import listing, room_for

_SEARCH = "query_container search with tags pages through all of them"


async def list_tags(call: Call, asked: ListTags) -> Answer:
    room = room_for(call.principal, ANSWER_BYTES_MAX)

    def look(view: View) -> JsonObject:
        kind = asked.entityType.lower() if asked.entityType else None
        counts = {tag: len(_bearers(view, tag, kind)) for tag in view.task_cards.tagged}
        tags = [{"tag": tag, "count": count} for tag, count in counts.items() if count]
        tags.sort(key=lambda each: (-counts[str(each["tag"])], each["tag"]))
        hint = "entityType narrows it; get_tag_usage tells of one tag"
        return listing("tags", tags, len(tags), room, hint=hint) | {"count": len(tags)}

    return succeeded(await call.read(Action.SEARCH, look))


async def get_tag_usage(call: Call, asked: TagUsage) -> Answer:
    tag, room = (asked.tag or "").lower(), room_for(call.principal, ANSWER_BYTES_MAX)

    def look(view: View) -> JsonObject:
        cards = _bearers(view, tag)
        lines = ({**_line(view, card), "title": title_of(view, card)} for card in cards)
        return {"tag": tag, "count": len(cards), **listing("entities", lines, len(cards), room, hint=_SEARCH)}

    return succeeded(await call.read(Action.SEARCH, look))


async def rename_tag(call: Call, asked: RenameTag) -> Answer:
    old, new = (asked.oldTag or "").lower(), (asked.newTag or "").lower()
    check(_problems(old, new))
    room = room_for(call.principal, ANSWER_BYTES_MAX)

    def draw(view: View) -> JsonObject:
        cards = _bearers(view, old)
        if not asked.dryRun:
            for card in cards:
                view.revise(card, {"tags": list(dict.fromkeys(new if tag == old else tag for tag in card.tags))})
        lines = (_line(view, card) for card in cards)
        return {"affected": len(cards), **listing("entities", lines, len(cards), room, hint=_SEARCH)}

    if asked.dryRun:
        data = await call.read(Action.SEARCH, draw)
        return succeeded(data, f"{data['affected']} would be changed")
    data = await call.write(draw)
    return succeeded(data, f"Tag '{old}' renamed to '{new}' on {data['affected']}")


def _problems(old: str, new: str) -> list[str]:
    found = [f"{name} must not be blank" for name, tag in (("oldTag", old), ("newTag", new)) if not tag]
    found += [f"newTag must not have more than {TAG_CHARACTERS_MAX} characters"] * (len(new) > TAG_CHARACTERS_MAX)
    found += ["newTag must not hold a comma"] * ("," in new)
    return found + ["oldTag and newTag are the same"] * (old == new != "")


def _bearers(view: View, tag: str, kind: str | None = None) -> list[Card]:
    """Oldest first."""
    cards = (view.card(each) for each in view.task_cards.tagged.get(tag, ()))
    found = [card for card in cards if card is not None and kind in (None, card.kind)]
    return sorted(view.readable(found), key=lambda card: card.created)


def _line(view: View, card: Card) -> JsonObject:
    return view.read_filter.warned(card.id, {"id": card.id, "entityType": card.kind.upper()})
