"""What a redaction would touch, before anybody decides on it. Names and counts, and no values."""

from __future__ import annotations

import msgspec

from tallystick.engine.store import Store
from tallystick.errors import TallystickError
from tallystick.extensions.web.reports.entity_report import EntityReport
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State


class FieldPlan(msgspec.Struct, frozen=True):
    name: str
    """As a redaction names it: attrs.email"""
    versions: int
    """Stored ones that would be masked."""


class RedactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    versions: int
    """That hold any value, of whatever attribute."""
    edges: int
    """Whose values go with all of a node's."""
    fields: list[FieldPlan]
    """Those that it has now, and that hold a value."""


async def plan_redaction(store: Store, principal: Principal, report: EntityReport) -> RedactionPlan:
    """Raises Denied, and NotFound for what may not be read."""

    def versions(state: State, fields: tuple[str, ...] | None) -> Breathing[int]:
        plan = state.redaction if report.kind == "node" else state.edge_redaction
        try:
            return len((yield from plan(report.id, fields)))
        except TallystickError:
            return 0

    def look(state: State, read_filter: ReadFilter) -> Breathing[RedactionPlan]:
        names = [f"attrs.{each.name}" for each in report.attributes if not each.is_redacted]
        counted = []
        for name in names:
            counted.append(FieldPlan(name, (yield from versions(state, (name,)))))
        edges = 0
        for _ in state.edge_redactions(report.id) if report.kind == "node" else ():
            edges += 1
            yield
        return RedactionPlan(
            versions=(yield from versions(state, None)),
            edges=edges,
            fields=[each for each in counted if each.versions],
        )

    return await store.read(principal, Action.READ, look, resource=report.id)
