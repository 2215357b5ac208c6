"""block, unblock, manage_dependency and query_dependencies: who waits for whom.

A block is the work graph's `depends_on`, read from the other end: there is one edge, in
both vocabularies. Waiting for something outside (NO_OP) is an attribute.
"""

from __future__ import annotations

from tallystick.errors import Conflict
from tallystick.extensions.tasks.arguments import Block, ManageDependency, QueryDependencies, Unblock
from tallystick.extensions.tasks.cards import NO_OP, Card
from tallystick.extensions.tasks.context import Call
from tallystick.extensions.tasks.entities import entity_of
from tallystick.extensions.tasks.view import RELATES_TO, View, check_open, invalid
from tallystick.policy import Action
from tallystick.state.work.cycles import find_way
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.envelope import check, not_found, succeeded
from tallystick.toolsets.knowledge.answers import ANSWER_BYTES_MAX
from tallystick.toolsets.truncation import listing, room_for
from tallystick.toolsets.work.errors import shortened


async def block(call: Call, asked: Block) -> Answer:
    references = _references(asked)
    if NO_OP in references and not asked.blockedReason:
        raise invalid("blockedReason is required when blockedBy is NO_OP")

    def draw(view: View) -> JsonObject:
        card = view.get_at(asked.containerType or "", asked.id, asked.version)
        view.job = card.id
        check_open(card, "block")
        wanted = [NO_OP if each == NO_OP else _blocker(view, card, each).id for each in references]
        added = [each for each in dict.fromkeys(wanted) if each not in view.blockers(card)]
        for each in added:
            if each != NO_OP:
                _wait(view, card, each)
        card = _note_block(view, card, added, asked.blockedReason)
        entity = entity_of(view, card)
        return {card.kind: entity, "addedBlockers": added, "totalBlockers": len(entity["blockedBy"])}

    data = await call.write(draw, resource=asked.id)
    return succeeded(data, f"{asked.containerType} blocked by {data['totalBlockers']}", exempt=True)


def _references(asked: Block | Unblock) -> list[str]:
    references = [NO_OP if each.upper() == NO_OP else each for each in asked.blockedBy or ()]
    check([] if references else ["blockedBy must name a blocker, or be NO_OP"])
    return references


def _blocker(view: View, card: Card, reference: str) -> Card:
    blocker = view.find(reference)
    if blocker is None or blocker.kind == "project":
        raise invalid(f"Blocker entity not found: {reference}", id=reference)
    if blocker.id == card.id:
        raise invalid(f"a {card.kind} cannot block itself", id=card.id)
    if blocker.terminal:
        raise invalid(f"Blocker is in terminal state {blocker.status}: {blocker.id}", id=blocker.id)
    return blocker


def _wait(view: View, card: Card, blocker_id: str) -> None:
    blocker = view.row(blocker_id)
    if not blocker.belongs:
        raise invalid(f"Blocker belongs to no project any more, and blocks nobody: {blocker_id}", id=blocker_id)
    way = find_way(view.graph, blocker, view.row(card.id))
    if way is not None:
        path = shortened(view.read_filter.readable([card.id, *(row.id for row in way)]))
        raise Conflict(
            f"this would close a circle: {' waits for '.join(path)}", code="CIRCULAR_DEPENDENCY", details={"path": path}
        )
    view.block(card, blocker_id)


def _note_block(view: View, card: Card, added: list[str], reason: str | None) -> Card:
    changes: JsonObject = {"noOp": True} if NO_OP in added else {}
    if reason and reason != view.said(card.id).get("blockedReason"):
        changes["blockedReason"] = reason
    # Nobody works on what waits.
    return view.revise(card, changes, **(view.released(card) if added else {})) if added or changes else card


async def unblock(call: Call, asked: Unblock) -> Answer:
    references = _references(asked)

    def draw(view: View) -> JsonObject:
        card = view.get_at(asked.containerType or "", asked.id, asked.version)
        view.job = card.id
        before = view.blockers(card)
        found = (each if each == NO_OP else getattr(view.find(each), "id", each) for each in references)
        removed = [each for each in dict.fromkeys(found) if each in before]
        card = _release(view, card, removed)
        return {
            card.kind: entity_of(view, card),
            "removedBlockers": removed,
            "remainingBlockers": view.blockers(card),
            "isFullyUnblocked": not view.blockers(card),
        }

    data = await call.write(draw, resource=asked.id)
    left = "fully unblocked" if data["isFullyUnblocked"] else f"still blocked by {len(data['remainingBlockers'])}"
    return succeeded(data, f"{asked.containerType} {left}", exempt=True)


def _release(view: View, card: Card, removed: list[str]) -> Card:
    for each in removed:
        if each != NO_OP:
            view.unblock(card, each)
    if not removed:
        return card
    changes: JsonObject = {"noOp": None} if NO_OP in removed else {}
    if not card.no_op or NO_OP in removed:
        changes["blockedReason"] = None
    return view.revise(card, changes)


# -- dependencies


async def manage_dependency(call: Call, asked: ManageDependency) -> Answer:
    kind = asked.type or "BLOCKS"

    def draw(view: View) -> JsonObject:
        source, target = (_end(view, each) for each in (asked.fromId, asked.toId))
        if source.id == target.id:
            raise invalid(f"a {source.kind} cannot depend on itself", id=source.id)
        creates = asked.operation == "create"
        if creates:
            for card in (source, target):
                if card.terminal:
                    raise invalid(f"{card.kind} '{card.id}' is in terminal state {card.status}", id=card.id)
        changed = (_blocks if kind == "BLOCKS" else _relates)(view, source, target, creates)
        answer = {"dependency": _line(kind, view.get(source.kind, source.id), view.get(target.kind, target.id))}
        return answer | {"changed": changed}

    data = await call.write(draw, resource=asked.toId)
    return succeeded(data, "Dependency created" if asked.operation == "create" else "Dependency deleted")


def _end(view: View, reference: str | None) -> Card:
    card = view.find(reference)
    if card is None or card.kind == "project":
        raise not_found("feature or task", reference or "")
    return card


def _blocks(view: View, source: Card, target: Card, creates: bool) -> bool:
    """The version of the one that waits goes up."""
    waits = source.id in {each.id for each in view.row(target.id).depends_on}
    if waits == creates:
        return False
    if creates:
        _wait(view, target, source.id)
        view.revise(target, {}, **view.released(target))
    else:
        _release(view, target, [source.id])
    return True


def _relates(view: View, source: Card, target: Card, creates: bool) -> bool:
    if (target.id in view.related(source.id)) == creates:
        return False
    if creates:
        view.builder.link({"from": source.id, "rel": RELATES_TO, "to": target.id})
    else:
        view.unlink(source.id, RELATES_TO, target.id)
        view.unlink(target.id, RELATES_TO, source.id)
    for card in (source, target):
        view.revise(card, {})
    return True


async def query_dependencies(call: Call, asked: QueryDependencies) -> Answer:
    def look(view: View) -> JsonObject:
        card = view.get(asked.containerType or "", asked.id)
        found: list[JsonObject] = []
        if asked.direction != "dependents":
            blockers = (view.card(each) for each in view.blockers(card) if each != NO_OP)
            found += [_warned(view, each, _line("BLOCKS", each, card)) for each in blockers if each is not None]
        if asked.direction != "dependencies" and card.status != "CLOSED":
            dependents = view.dependents(card)
            found += [_warned(view, each, _line("BLOCKS", card, each)) for each in dependents]
        related = (view.card(each) for each in view.related(card.id))
        found += [_warned(view, each, _line("RELATES_TO", card, each)) for each in related if each is not None]
        room = room_for(call.principal, ANSWER_BYTES_MAX)
        return listing("dependencies", found, len(found), room, hint="direction narrows it") | {"count": len(found)}

    return succeeded(await call.read(Action.READ, look, resource=asked.id))


def _warned(view: View, other: Card, line: JsonObject) -> JsonObject:
    """Of the one that was asked about its readers know; of the other end this is all they see."""
    return view.read_filter.warned(other.id, line)


def _line(kind: str, source: Card, target: Card) -> JsonObject:
    return {
        "type": kind,
        "fromId": source.id,
        "toId": target.id,
        "fromEntityType": source.kind,
        "toEntityType": target.kind,
    }
