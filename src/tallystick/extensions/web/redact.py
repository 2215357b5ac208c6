"""`/redact`: the step before values are erased. It says what it will touch, and wants a reason."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tallystick.engine.store import Target
from tallystick.errors import Conflict, InvalidArgument, NotFound
from tallystick.extensions.web.addresses import entity_address
from tallystick.extensions.web.forms import confirmed_reason
from tallystick.extensions.web.reports.entity_report import EntityReport, report_entity
from tallystick.extensions.web.reports.redaction_plan import RedactionPlan, plan_redaction
from tallystick.extensions.web.visit import Redirect, Visit
from tallystick.policy import Action

FIELD = "field:"
"""How the names of the fields begin that stand for attributes."""


class RedactView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    type: str
    kind: str
    if_commit: str
    """What is confirmed is what was shown."""
    plan: RedactionPlan
    uncleaned: list[str] = []
    """It is done just now, and these copies could not be cleaned of it yet."""


async def redact_step(visit: Visit) -> RedactView:
    """Raises NotFound, also for who may not."""
    return await _view(visit, visit.said("id") or "")


async def _view(visit: Visit, entity_id: str) -> RedactView:
    report = await _report(visit, entity_id)
    if report.latest is None or not (await visit.may(redaction_of(report.id)))[0]:
        raise NotFound("there is nothing to redact")
    return RedactView(
        id=report.id,
        title=report.title,
        type=report.type,
        kind=report.kind,
        if_commit=report.history[0].commit_id,
        plan=await plan_redaction(visit.context.offer.store, visit.principal, report),
    )


async def redact(visit: Visit, form: Mapping[str, str]) -> RedactView | Redirect:
    visit.check_may_act()
    reason = confirmed_reason(form)
    report = await _report(visit, form.get("id", ""))
    fields = [name.removeprefix(FIELD) for name in form if name.startswith(FIELD)]
    if not fields and form.get("what") != "all":
        raise InvalidArgument("choose what to redact: everything, or some of its attributes")
    if not {f"attrs.{each.name}" for each in report.attributes}.issuperset(fields):
        raise InvalidArgument("only attributes that it has can be chosen", hint="go back and look again")
    if report.history[0].commit_id != form.get("if_commit"):
        raise Conflict("it is not what you were shown: something was written meanwhile", hint="go back and look again")
    is_edge = report.kind == "edge"
    done = await visit.act(
        "memory.write",
        op="REDACT_EDGE" if is_edge else "REDACT_NODE",
        node_id=None if is_edge else report.id,
        edge_id=report.id if is_edge else None,
        redacted_fields=None if form.get("what") == "all" else fields,
        reason=reason,
    )
    if "erasure" in done:
        return msgspec.structs.replace(await _view(visit, report.id), uncleaned=done["erasure"]["pending"])
    return Redirect(entity_address(report.id))


def redaction_of(entity_id: str) -> Target:
    return Target(Action.DELETE, entity_id)


async def _report(visit: Visit, entity_id: str) -> EntityReport:
    if not entity_id:
        raise NotFound("an address of this page names an entity")
    return await report_entity(visit.context.offer.store, visit.principal, entity_id)
