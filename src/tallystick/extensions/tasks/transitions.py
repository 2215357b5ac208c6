"""advance, revert and terminate: one step at a time, and what follows from it."""

from __future__ import annotations

from typing import Any

from tallystick.errors import Conflict
from tallystick.extensions.tasks.arguments import Advance, Step, Terminate
from tallystick.extensions.tasks.cards import NO_OP, Card
from tallystick.extensions.tasks.context import Call, said
from tallystick.extensions.tasks.entities import entity_of, files_of, named
from tallystick.extensions.tasks.view import View, check_open, invalid_operation
from tallystick.state.work.attributes import ACTIVE, CLOSED, NEW, WILL_NOT_IMPLEMENT
from tallystick.state.work.required_evidence import missing
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.envelope import check, succeeded
from tallystick.toolsets.knowledge.path_context import graph_hints
from tallystick.toolsets.work.update import required_of


async def advance(call: Call, asked: Advance) -> Answer:
    if asked.claim or asked.release:
        return await _take_or_release(call, asked)

    def draw(view: View) -> JsonObject:
        card = _get(view, asked)
        check_open(card, "advance")
        _check_unblocked(view, card)
        status = view.pipelines.after(card.kind, card.status) or CLOSED
        if status == CLOSED and (lacking := _lacking(view, card)):
            raise Conflict(
                f"Cannot advance: {card.kind} needs evidence before it is closed: {', '.join(lacking)}",
                code="EVIDENCE_MISSING",
                hint="graph_update adds evidence, 'tallystick work done ID --check' runs what is called check:NAME",
                details={"missing": lacking},
            )
        data = _step(view, card, status, **(view.claimed(card) if (card.status, status) == (NEW, ACTIVE) else {}))
        if status == CLOSED:
            data |= said(unblockedEntities=named(view, release(view, card)))
        if card.kind == "task":
            data |= _activated(view, card) if card.status == NEW else {}
            data |= _rolled_up(view, card) if status == CLOSED else {}
            if status == CLOSED:
                data["graphHints"] = graph_hints(view.state, card.project, files_of(view, card), view.read_filter)
        return _shown(view, card, data)

    data = await call.write(draw, resource=asked.id)
    return succeeded(data, _told(asked, "advanced", data), exempt=True)


async def _take_or_release(call: Call, asked: Advance) -> Answer:
    """Claim a feature or task at its present step, or give the claim back."""
    check(["claim and release exclude each other"] if asked.claim and asked.release else [])

    def draw(view: View) -> JsonObject:
        card = _get(view, asked)
        check_open(card, "advance")
        if asked.claim:
            _check_unblocked(view, card)
        changes = view.claimed(card) if asked.claim else view.given_back(card)
        if changes:
            view.revise(card, **changes)
        return _shown(view, card, {})

    data = await call.write(draw, resource=asked.id)
    return succeeded(data, f"{asked.containerType} {'claimed' if asked.claim else 'released'}", exempt=True)


async def revert(call: Call, asked: Step) -> Answer:
    def draw(view: View) -> JsonObject:
        card = _get(view, asked)
        check_open(card, "revert")
        status = view.pipelines.before(card.kind, card.status)
        if status is None:
            raise invalid_operation(
                f"Cannot revert: {card.kind} is already at the first pipeline state ({card.status})",
                currentStatus=card.status,
            )
        return _shown(view, card, _step(view, card, status, **view.released(card)))

    data = await call.write(draw, resource=asked.id)
    return succeeded(data, _told(asked, "reverted", data), exempt=True)


async def terminate(call: Call, asked: Terminate) -> Answer:
    def draw(view: View) -> JsonObject:
        card = _get(view, asked)
        check_open(card, "terminate")
        data = _step(view, card, WILL_NOT_IMPLEMENT)
        data |= said(affectedDependents=named(view, _waiting(view, card)))
        if card.kind == "task":
            data |= _rolled_up(view, card)
        return _shown(view, card, data)

    data = await call.write(draw, resource=asked.id, reason=asked.reason or None)
    affected = len(data.get("affectedDependents", ()))
    warning = (
        f". WARNING: {affected} dependent{'' if affected == 1 else 's'} stay blocked by it:"
        " unblock them, or terminate them too"
    )
    message = f"{asked.containerType} terminated: {data['transition']['from']} → {WILL_NOT_IMPLEMENT}"
    return succeeded(data, message + (warning if affected else ""), exempt=True)


def _get(view: View, asked: Step) -> Card:
    card = view.get_at(asked.containerType or "", asked.id, asked.version)
    view.job = card.id
    return card


def _check_unblocked(view: View, card: Card) -> None:
    if not view.blockers(card):
        return
    blockers, reason = view.blockers(card), view.said(card.id).get("blockedReason")
    named_ = ", ".join(f"{each} ({reason})" if each == NO_OP and reason else each for each in blockers)
    raise Conflict(
        f"Cannot advance: {card.kind} is blocked by {named_ or 'what you may not read'}",
        code="BLOCKED",
        hint="finish what it waits for, or unblock it",
        details={"blockedBy": blockers} | said(blockedReason=reason),
    )


def _step(view: View, card: Card, status: str, **changes: Any) -> JsonObject:
    view.set_status(card, status, **changes)
    return {
        "transition": {"from": card.status, "to": status},
        "pipelinePosition": view.pipelines.position(card.kind, status),
    }


def _shown(view: View, card: Card, data: JsonObject) -> JsonObject:
    return {card.kind: entity_of(view, view.get(card.kind, card.id)), **data}


def _told(asked: Step, verb: str, data: JsonObject) -> str:
    moved = data["transition"]
    return f"{asked.containerType} {verb}: {moved['from']} → {moved['to']} (position: {data['pipelinePosition']})"


def _lacking(view: View, card: Card) -> list[str]:
    """Evidence that it must have, and has not."""
    row = view.graph.find(card.id)
    if row is None:
        return []
    return missing(view.builder.attrs(card.id), required_of(view.builder, row))


# -- what follows


def release(view: View, closed: Card) -> list[Card]:
    """Who waited for it and now waits for nothing. Where it was waited for, the reason given goes with it."""
    free = []
    for card in _waiting(view, closed):
        if not card.no_op and view.said(card.id).get("blockedReason") is not None:
            card = view.revise(card, {"blockedReason": None})
        if not view.blockers(card):
            free.append(card)
    return free


def _waiting(view: View, card: Card) -> list[Card]:
    return [each for each in view.dependents(card) if not each.terminal]


def _activated(view: View, task: Card) -> JsonObject:
    feature = view.feature_of(task.id)
    if feature is None or feature.status != NEW:
        return {}
    view.set_status(feature, ACTIVE)
    return _transition(feature, ACTIVE)


def _rolled_up(view: View, task: Card) -> JsonObject:
    """A feature whose tasks are all done is done."""
    feature = view.feature_of(task.id)
    if feature is None or feature.terminal:
        return {}
    tasks = view.below(feature, "task")
    if not all(each.terminal for each in tasks):
        return {}
    if all(each.status == WILL_NOT_IMPLEMENT for each in tasks):
        view.set_status(feature, WILL_NOT_IMPLEMENT)
        return _transition(feature, WILL_NOT_IMPLEMENT) | said(
            featureAffectedDependents=named(view, _waiting(view, feature))
        )
    if _lacking(view, feature):
        return {}
    view.set_status(feature, CLOSED)
    return _transition(feature, CLOSED) | said(featureUnblockedEntities=named(view, release(view, feature)))


def _transition(feature: Card, status: str) -> JsonObject:
    return {"featureTransition": {"featureId": feature.id, "from": feature.status, "to": status}}
