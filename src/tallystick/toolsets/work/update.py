"""graph_update: changes to nodes, and what they set free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tallystick.state.attributes import list_of, object_of
from tallystick.state.conditions import is_same
from tallystick.state.work import CLAIMED_BY, CLAIMED_SESSION, DROPPED
from tallystick.state.work.attributes import is_dropped, reopened, said_over
from tallystick.state.work.board import Row
from tallystick.state.work.draft_builder import DraftBuilder, revision
from tallystick.state.work.required_evidence import REQUIRE_EVIDENCE, missing, required
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.work.answers import evidence_entry, newly_actionable
from tallystick.toolsets.work.arguments import UpdateArgument, UpdateArguments
from tallystick.toolsets.work.context import AnswerBuilder, Call
from tallystick.toolsets.work.errors import evidence_missing, get_row, invalid
from tallystick.toolsets.work.plan import check_node_size
from tallystick.toolsets.work.view import View

RECEIPTS_MAX = 10
"""In a call: each takes several thousand characters of an answer."""


async def graph_update(call: Call, asked: UpdateArguments) -> Answer:
    return await update(call, asked)


async def update(call: Call, asked: UpdateArguments, checked: Sequence[JsonObject] = ()) -> Answer:
    """`checked`: evidence of what was run, which each of the nodes gets."""
    finished = _to_be_receipted(call, asked) if asked.receipt else []

    def draw(builder: DraftBuilder, view: View) -> AnswerBuilder:
        answer = AnswerBuilder({"updated": []})
        resolved = False
        claimant = call.claimant(view.state)
        for each in asked.updates:
            row = get_row(view, each.node_id)
            answer.warn(claimant.warning(row))
            was_resolved = row.resolved
            _apply(call, builder, call.principal.actor, each, checked)
            attrs = builder.attrs(each.node_id)
            answer.data["updated"].append({"node_id": each.node_id, "rev": revision(attrs)})
            if row.resolved and not was_resolved:
                resolved = True
                _check_evidence(call, answer, each.node_id, attrs)
                _check_required(builder, row, attrs)
        for node_id in finished:
            _check_receipt(node_id, builder.attrs(node_id))
        newly = newly_actionable(builder, view)
        if resolved or newly["newly_actionable"]:
            answer.data |= newly
        return answer

    ids = {each.node_id for each in asked.updates}
    answer, _ = await call.write(draw, resource=ids.pop() if len(ids) == 1 else None)
    if finished and call.context.receipts is not None:
        answer.data["receipts"], problems = await call.context.receipts.make(call.store, call.principal, finished)
        answer.warnings += problems
    return Answer(answer.complete())


def _to_be_receipted(call: Call, asked: UpdateArguments) -> list[str]:
    """Raises InvalidArgument where there could be no receipt: before anything is written."""
    finished = list(dict.fromkeys(each.node_id for each in asked.updates if each.resolved))
    if not finished:
        raise invalid("a receipt is of work that is done: 'receipt' goes with an update that says resolved: true")
    if len(finished) > RECEIPTS_MAX:
        raise invalid(f"a call has receipts of at most {RECEIPTS_MAX} nodes; resolve them in several")
    if call.context.receipts is None:
        raise invalid("receipts are made by a server; 'tallystick receipt TASK' makes one here")
    call.context.receipts.require(call.principal.tenant)
    return finished


def _check_receipt(node_id: str, attrs: JsonObject) -> None:
    if is_dropped(attrs):
        raise invalid(f"'{node_id}' is dropped, not done: there is no receipt of that")
    if not list_of(attrs, "evidence"):
        raise invalid(f"'{node_id}' has no evidence, and a receipt is of evidence: say what shows that it is done")


def _check_evidence(call: Call, answer: AnswerBuilder, node_id: str, attrs: JsonObject) -> None:
    if list_of(attrs, "evidence"):
        return
    if call.context.settings.require_evidence:
        raise invalid(f"'{node_id}' cannot be resolved without evidence: say what shows that it is done")
    answer.warnings.append(f"'{node_id}' was resolved without evidence")


def required_of(builder: DraftBuilder, row: Row) -> list[str]:
    """Also by nodes that the caller may not read: what they ask for holds all the same."""
    if REQUIRE_EVIDENCE not in builder.graph.properties:
        return []
    return required(builder.attrs(each.id) for each in (row, *row.above()))


def _check_required(builder: DraftBuilder, row: Row, attrs: JsonObject) -> None:
    """What is given up needs none."""
    lacking = [] if is_dropped(attrs) else missing(attrs, required_of(builder, row))
    if lacking:
        raise evidence_missing(row.id, lacking)


def _apply(call: Call, builder: DraftBuilder, agent: str, asked: UpdateArgument, checked: Sequence[JsonObject]) -> None:
    before = builder.attrs(asked.node_id)
    changes = _changes(before, asked)
    if asked.add_evidence or checked:
        now = call.context.now(builder.state)
        added = [evidence_entry(each.type, each.ref, agent, now) for each in asked.add_evidence or ()]
        added += [{**evidence_entry(each["type"], each["ref"], agent, now), **each} for each in checked]
        changes["evidence"] = [*list_of(before, "evidence"), *added]
    if changes:
        changes |= _over(before, {**before, **changes}, asked)
        check_node_size({**before, **changes}, asked.node_id)
        builder.revise(asked.node_id, **changes)


def _over(before: JsonObject, after: JsonObject, asked: UpdateArgument) -> JsonObject:
    """More evidence makes nothing dropped, or done, that was over before."""
    if after.get("resolved") is not True:
        return reopened(after)
    if before.get("resolved") is True:
        return said_over(after, dropped=is_dropped(before))
    newest = (asked.add_evidence or [])[-1:]
    return said_over(after, dropped=bool(newest) and newest[0].type == DROPPED)


def _changes(before: JsonObject, asked: UpdateArgument) -> JsonObject:
    """What would be different, besides evidence; None where something goes."""
    wanted: dict[str, Any] = {}
    if asked.resolved is not None:
        wanted["resolved"] = asked.resolved
    if "state" in asked.model_fields_set:
        wanted["state"] = asked.state
    if asked.summary is not None:
        wanted["summary"] = asked.summary
    if asked.properties is not None:
        # A claim is one thing: who names another owner does not speak of the old one's session.
        unsaid = {CLAIMED_SESSION: None} if CLAIMED_BY in asked.properties else {}
        merged = {**object_of(before, "properties"), **unsaid, **asked.properties}
        wanted["properties"] = {key: value for key, value in merged.items() if value is not None} or None
    if asked.add_context_links or asked.remove_context_links:
        removed = set(asked.remove_context_links or ())
        kept = [link for link in list_of(before, "context_links") if link not in removed]
        wanted["context_links"] = list(dict.fromkeys([*kept, *(asked.add_context_links or ())])) or None
    return {name: value for name, value in wanted.items() if not is_same(before.get(name), value)}
