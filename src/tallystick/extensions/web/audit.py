"""`/audit`: the decisions of the policy, and one of them explained by the rules that fired."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from tallystick.clock import from_text, to_text, wall_clock
from tallystick.errors import InvalidArgument
from tallystick.extensions.web.addresses import with_query
from tallystick.extensions.web.context import TOOL
from tallystick.extensions.web.policy import NOT_SHOWN, shows_rules
from tallystick.extensions.web.recall import RECALLING
from tallystick.extensions.web.reports.decisions import (
    CountedDenials,
    DecisionExport,
    DecisionLine,
    Decisions,
    DecisionTally,
    Explanation,
    Wanted,
    count_denials,
    explain_decision,
    list_decisions,
    open_export,
    tally_decisions,
)
from tallystick.extensions.web.visit import Download, Visit
from tallystick.policy import Action
from tallystick.toolsets.memory.lineage import csv_cell, csv_line

ACTIONS = tuple(Action)
OUTCOMES = ("allowed", "denied")
_SEQ_MAX = 1 << 53


class FilterPart(msgspec.Struct, frozen=True):
    name: str
    value: str
    without: str


_WORDS = {"since": "beginning", "until": "end", "policy": "policy version"}


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """As the address says it."""

    actor: str | None
    action: str | None
    resource: str | None
    outcome: str | None
    policy: str | None
    since: str | None
    until: str | None
    looks: str | None
    """Set where looks at these pages are shown too."""

    @property
    def query(self) -> dict[str, Any]:
        """To go on with in another address."""
        return msgspec.structs.asdict(self)

    @property
    def parts(self) -> list[FilterPart]:
        """What it says, each with the address of the same without it."""
        said = {name: value for name, value in self.query.items() if value and name != "looks"}
        return [
            FilterPart(_WORDS.get(name, name), value, with_query("/audit", **{**self.query, name: None}))
            for name, value in said.items()
        ]


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    filter: AuditFilter
    decisions: Decisions
    denials: CountedDenials
    """Of the last 24 hours."""
    explained: Explanation | None
    tally: DecisionTally | None
    """None where it cannot be counted."""
    may_recall: bool
    """Whether the visitor could take back trust in what somebody wrote."""


async def audit(visit: Visit) -> AuditView | Download:
    context, principal = visit.context, visit.principal
    store, index = context.offer.store, context.audit(principal.tenant)
    asked = AuditFilter(**{name: visit.said(name) for name in AuditFilter.__struct_fields__})
    wanted = _wanted(visit, asked)
    export = visit.said("export")
    if export is not None:
        if export not in _EXPORTS:
            raise InvalidArgument(f"there is no export '{export[:20]}'; there are {', '.join(_EXPORTS)}")
        opened = await open_export(store, principal, index, wanted)
        visit.note_export()
        return _download(opened, export)
    seq = visit.number("seq", 0, most=_SEQ_MAX)
    explained = await _explained(visit, seq) if seq else None
    found = await list_decisions(store, principal, index, wanted)
    return AuditView(
        filter=asked,
        decisions=found,
        tally=await tally_decisions(index, wanted, found, wall_clock()),
        may_recall=(await visit.may(RECALLING))[0],
        denials=await count_denials(store, principal, index, wall_clock()),
        explained=explained,
    )


async def _as_csv(export: DecisionExport) -> AsyncGenerator[bytes]:
    yield csv_line(list(DecisionLine.__struct_fields__)).encode()
    async for part in export.parts():
        yield "".join(csv_line(_cells(line)) for line in part).encode()
    if export.outcome.is_cut:
        yield csv_line([f"incomplete: decisions before line {export.outcome.older} could not be read"]).encode()


def _cells(line: DecisionLine) -> list[str]:
    return [csv_cell(value) for value in msgspec.structs.astuple(line)]


async def _as_json(export: DecisionExport) -> AsyncGenerator[bytes]:
    """One object as `Decisions` is encoded, with a line of text for each decision."""
    between = b"\n"
    yield b'{"lines":['
    async for part in export.parts():
        if part:
            yield between + b",\n".join(map(msgspec.json.encode, part))
            between = b",\n"
    yield b"\n]," + msgspec.json.encode(export.outcome)[1:] + b"\n"


_EXPORTS: dict[str, tuple[str, Callable[[DecisionExport], AsyncGenerator[bytes]]]] = {
    "csv": ("text/csv; charset=utf-8", _as_csv),
    "json": ("application/json", _as_json),
}


def _download(export: DecisionExport, ending: str) -> Download:
    kind, write = _EXPORTS[ending]
    headers = {"Content-Type": kind, "Content-Disposition": f'attachment; filename="decisions.{ending}"'}
    return Download(write(export), headers)


async def _explained(visit: Visit, seq: int) -> Explanation:
    context, principal = visit.context, visit.principal
    policy = context.policy_source if await shows_rules(visit) else None
    found = await explain_decision(context.offer.store, principal, context.audit_of(principal.tenant), seq, policy)
    if policy is None and context.policy_source is not None:
        return msgspec.structs.replace(found, gap=f"the rules: {NOT_SHOWN}")
    return found


def _wanted(visit: Visit, asked: AuditFilter) -> Wanted:
    for name, words in (("action", ACTIONS), ("outcome", OUTCOMES)):
        if getattr(asked, name) not in (None, *words):
            raise InvalidArgument(f"'{name}' in the address must be one of {', '.join(words)}")
    return Wanted(
        actor=asked.actor,
        action=asked.action,
        resource=asked.resource,
        outcome=asked.outcome,  # type: ignore[arg-type]  # one of OUTCOMES
        policy=asked.policy,
        since=_time("since", asked.since),
        until=_time("until", asked.until),
        before=visit.number("before", 0, most=_SEQ_MAX) or None,
        except_looks_by=None if asked.looks else TOOL,
    )


def _time(name: str, text: str | None) -> str | None:
    try:
        return None if text is None else to_text(from_text(text))
    except (ValueError, OverflowError):
        raise InvalidArgument(f"'{name}' in the address is no time; write it like 2025-01-04T12:00:00Z") from None
