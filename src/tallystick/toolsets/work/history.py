"""graph_history: what happened to a node, newest first, with before and after.

Read from the log: what each commit did to the node's document, and the edges it got and lost.
A place in a node's history never changes, because history only grows at its end; so a cursor
loses nothing and shows nothing twice, whatever happens between two pages.
"""

from __future__ import annotations

from typing import Any

from tallystick.commits import EDGE_VERBS, Verb
from tallystick.commits.reserved_attributes import CITES, STALE_AFTER, SUPERSEDES, VERIFIED
from tallystick.policy import Action, Principal
from tallystick.state import Breathing, Step
from tallystick.state.attributes import list_of
from tallystick.state.conditions import is_same
from tallystick.state.work import NODE
from tallystick.state.work.attributes import is_dropped, said_of, status_of
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.truncation import fair_share, room_for, shortened, size_of
from tallystick.toolsets.work.answers import ANSWER_BYTES_MAX, PART_BYTES_MAX
from tallystick.toolsets.work.arguments import LIMIT_MAX, HistoryArguments
from tallystick.toolsets.work.context import Call
from tallystick.toolsets.work.errors import invalid, unknown_node
from tallystick.toolsets.work.view import View

_STEPS_READ = 500
_ABSENT: JsonObject = {"resolved": False, "properties": {}, "context_links": [], "evidence": []}
"""How a field that is not there is shown."""
_OF_WORK = ("summary", "parent", "resolved", "state", "properties", "context_links", "evidence")
_OF_TASKS = ("title", "status", "description", "complexity", "tags", "blockedReason")
_OF_FACTS = (STALE_AFTER, VERIFIED, SUPERSEDES, CITES)
_PREFIX = "h"


async def graph_history(call: Call, asked: HistoryArguments) -> Answer:
    end = _place(asked.cursor) if asked.cursor is not None else None

    found: JsonObject = await call.read(
        Action.READ, lambda view: _told(view, asked, end, call.principal), resource=asked.node_id
    )
    return Answer(found)


def _told(view: View, asked: HistoryArguments, end: int | None, reader: Principal) -> Breathing[JsonObject]:
    found = view.state.lineage(asked.node_id, "direct", 0, 0, view.read_filter)
    if found is None or found.type != NODE:
        raise unknown_node(view, asked.node_id)
    seqs = yield from view.state.commits_of(asked.node_id, "full", view.read_filter)
    place = len(seqs) if end is None else min(end, len(seqs))
    events: list[JsonObject] = []
    left, event_bytes_max = room_for(reader, ANSWER_BYTES_MAX), room_for(reader, PART_BYTES_MAX)
    for seq in reversed(seqs[max(place - _STEPS_READ, 0) : place]):
        event = _event(view, asked.node_id, view.state.step(seq))
        if event is not None:
            event["changes"] = _fitted(event["changes"], event_bytes_max)
            left -= size_of(event) + 1
            if events and (left < 0 or len(events) == min(asked.limit, LIMIT_MAX)):
                break
            events.append(event)
        place -= 1
        yield
    return {"events": events} | ({"next_cursor": f"{_PREFIX}{place}"} if place > 0 else {})


def _place(cursor: str) -> int:
    number = cursor.removeprefix(_PREFIX)
    if number == cursor or not number.isascii() or not number.isdigit() or len(number) > 15:
        raise invalid("field 'cursor' is none that graph_history gave")
    return int(number)


# -- events


def _event(view: View, node_id: str, step: Step) -> JsonObject | None:
    """None for what is no event of this node: the far end of an edge, and the grave of a merged one."""
    if step.commit.operation in EDGE_VERBS:
        event_kind = _edge_event(node_id, step)
    elif step.commit.operation is Verb.UPSERT_NODE:
        event_kind = _node_event(view, node_id, step)
    elif step.commit.operation is Verb.REDACT_NODE:
        event_kind = "redacted", []
    else:
        event_kind = None if "merged_into" in _before(view, node_id, step) else ("deleted", [])
    if event_kind is None:
        return None
    action, changes = event_kind
    event: JsonObject = {"timestamp": step.commit.timestamp, "agent": step.commit.actor, "action": action}
    if step.commit.reason is not None:
        event["reason"] = step.commit.reason
    return event | {"changes": changes}


Event = tuple[str, list[JsonObject]]


def _edge_event(node_id: str, step: Step) -> Event | None:
    edge = step.commit.document()
    if edge["from"] != node_id or step.action in ("UPDATE_EDGE", "REDACT_EDGE"):
        return None
    if step.action == "CREATE_EDGE":
        return "edge_added", [_change(edge["rel"], None, edge["to"])]
    return "edge_removed", [_change(edge["rel"], edge["to"], None)]


def _node_event(view: View, node_id: str, step: Step) -> Event:
    after = _readable(view, step.commit.document()["attrs"])
    now = _fields(after)
    if step.action == "CREATE_NODE":
        return "created", [_change(name, None, value) for name, value in now.items() if value != _ABSENT.get(name)]
    before = _readable(view, _before(view, node_id, step))
    was = _fields(before)
    changes = [
        _change(name, was.get(name), now.get(name))
        for name in (*_OF_WORK, *_OF_TASKS, *_OF_FACTS)
        if not is_same(was.get(name), now.get(name))
    ]
    merged = _merged(view, before, after, step)
    if merged is not None:
        return "merged", [*changes, *merged]
    return _action(step.commit.tool, before, after), changes


def _fields(attrs: JsonObject) -> JsonObject:
    """Of work, whether it still holds, and what tasks say beyond it."""
    fields: JsonObject = {name: attrs.get(name, _ABSENT.get(name)) for name in (*_OF_WORK, *_OF_FACTS)}
    said = said_of(attrs)
    if said:
        fields |= {name: said.get(name) for name in _OF_TASKS} | {"status": status_of(attrs)}
    return fields


def _readable(view: View, attrs: JsonObject) -> JsonObject:
    """Without the names of nodes that may not be read."""
    if not view.narrows:
        return attrs
    named: JsonObject = {name: view.reference(attrs[name]) for name in ("parent", "merged_into") if name in attrs}
    listed = {name: view.readable(list_of(attrs, name), str) for name in ("merged", SUPERSEDES) if name in attrs}
    return {**attrs, **named, **listed}


def _action(tool: str, before: JsonObject, after: JsonObject) -> str:
    was, is_ = before.get("resolved") is True, after.get("resolved") is True
    if is_ and not was:
        return "dropped" if is_dropped(after) else "resolved"
    if was and not is_:
        return "reopened"
    if tool == "graph_next":
        return "claimed"
    return "moved" if before.get("parent") != after.get("parent") else "updated"


def _merged(view: View, before: JsonObject, after: JsonObject, step: Step) -> list[JsonObject] | None:
    """What the node became part of; or what it absorbed, as that was last."""
    if after.get("merged_into") is not None and before.get("merged_into") is None:
        return [_change("merged_into", None, after["merged_into"])]
    absorbed = list_of(after, "merged")[len(list_of(before, "merged")) :]
    if not absorbed:
        return None
    return [_change("merged", None, view.warned(source, _last_words(view, source, step))) for source in absorbed]


def _last_words(view: View, source: str, step: Step) -> JsonObject:
    node = view.state.node(source, at=view.state.resolve(step.commit.lamport))
    attrs = node.attrs if node is not None else {}
    kept = ("summary", "resolved", "state", "properties", "context_links", "task")
    return {"id": source} | {name: attrs[name] for name in kept if name in attrs}


def _before(view: View, node_id: str, step: Step) -> JsonObject:
    node = view.state.node(node_id, at=view.state.resolve(step.commit.lamport) - 1)
    return node.attrs if node is not None else {}


def _change(field: str, before: Any, after: Any) -> JsonObject:
    return {"field": field, "before": before, "after": after}


# -- what is too large


def _fitted(changes: list[JsonObject], bytes_max: int) -> list[JsonObject]:
    """Whole values, as long as an event is no page of its own; then the longest are cut: memory.lineage has them."""
    if size_of(changes) <= bytes_max:
        return changes
    share = fair_share([size_of(change[side]) for change in changes for side in _SIDES], bytes_max)
    return [_cut(change, share) for change in changes]


_SIDES = ("before", "after")


def _cut(change: JsonObject, bytes_max: int) -> JsonObject:
    cut = {side: shortened(change[side], bytes_max) for side in _SIDES}
    return change | cut | ({"truncated": True} if any(cut[side] != change[side] for side in _SIDES) else {})
