"""The page of an entity: what it says now or said at a moment, its history as a tally, and exports of that."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import orjson

from tallystick.clock import from_text, wall_clock
from tallystick.errors import InvalidArgument, NotFound
from tallystick.extensions.web.addresses import JSON_SUFFIX, entity_address
from tallystick.extensions.web.recall import RECALLING
from tallystick.extensions.web.redact import redaction_of
from tallystick.extensions.web.reports.entity_comparison import Comparison, compare_entity
from tallystick.extensions.web.reports.entity_report import EntityReport, HistoryStep, Neighbour, report_entity
from tallystick.extensions.web.reports.marks import origin_of
from tallystick.extensions.web.timeline import LENGTH, Tick, Timeline, chosen, ticks, timeline
from tallystick.extensions.web.visit import Document, Download, Redirect, Visit
from tallystick.log import checkpoint_path

_SKIP_MAX = 10_000_000
_NUMBER_MAX = 1 << 53
_TIME_MAX = 253_402_300_799_000
"""The end of the year 9999."""
_LOG = "log"


class Notch(msgspec.Struct, frozen=True, kw_only=True):
    """A commit on the tally."""

    step: int
    position: int
    timestamp: str
    did: str
    place: int
    """Where it stands, from 0 to 1000 for now."""
    is_later: bool


class Relation(msgspec.Struct, frozen=True):
    rel: str
    direction: str
    neighbours: list[Neighbour]


class EntityView(msgspec.Struct, frozen=True, kw_only=True):
    entity: EntityReport
    notches: list[Notch]
    """Of the commits in the history, oldest first."""
    ticks: list[Tick]
    """Round times between them, on the same line."""
    until: int
    """Where the line ends: now, in milliseconds since 1970."""
    place: int
    """Of the moment."""
    step: int
    """Which of the notches the moment is at; 0 is before all."""
    earlier: int | None
    later: int | None
    """Positions to go to; None where there is none."""
    relations: list[Relation]
    """Without those that tell an origin."""
    derived_from: list[Neighbour]
    derives: list[Neighbour]
    """What came of it."""
    changed_since: int
    latest: HistoryStep | None
    """The commit that made it what it is at the moment."""
    first: HistoryStep | None
    proof: str | None
    """Where its proof for others is to be had."""
    may_redact: bool = False
    may_recall: bool = False
    changed_since_by: list[str] = []
    """Who did, as far as those commits are in the history."""
    comparison: Comparison | None = None
    """Of the two moments that the address names."""
    is_oldest_first: bool = False


async def entity_page(visit: Visit) -> EntityView | Download | Document | Redirect:
    entity_id = id_of(visit)
    export = visit.said("export")
    if export is not None:
        if export not in _EXPORTS:
            raise InvalidArgument(f"there is no export '{export[:20]}'; there are {', '.join(_EXPORTS)}")
        made = await _EXPORTS[export](visit, entity_id)
        visit.note_export()
        return made
    report = await report_entity(
        visit.context.offer.store,
        visit.principal,
        entity_id,
        as_of=visit.as_of,
        skip=visit.number("skip", 0, most=_SKIP_MAX),
        claims=visit.context.claims,
        log=visit.context.system_of(visit.principal.tenant) / _LOG,
    )
    visit.context.report_times.asked(visit.visitor)
    view = _view(visit, report)
    if visit.said("place") is not None:
        return Redirect(entity_address(entity_id, as_of=_chosen(visit, report)))
    compared = visit.moment("compare")
    if compared is not None:
        other = visit.as_of if visit.moment("with") is None else visit.moment("with")
        found = await compare_entity(visit.context.offer.store, visit.principal, entity_id, compared, other)
        view = msgspec.structs.replace(view, comparison=found)
    if report.moment is None:
        may_redact, may_recall = await visit.may(redaction_of(entity_id)), await visit.may(RECALLING)
        view = msgspec.structs.replace(view, may_redact=may_redact[0], may_recall=may_recall[0])
    return view


def id_of(visit: Visit) -> str:
    """As the address says it; what is no id names nothing."""
    raw = visit.request.scope["raw_path"].decode("latin-1").partition("?")[0]
    entity_id = visit.request.path_params.get("id") or visit.said("id") or ""
    if raw.endswith(JSON_SUFFIX) and "id" in visit.request.path_params:
        entity_id = entity_id.removesuffix(JSON_SUFFIX)
    if not entity_id or len(entity_id) > 1_000:
        raise NotFound("an address of an entity ends in its id")
    return entity_id


def _view(visit: Visit, report: EntityReport) -> EntityView:
    steps = report.history[::-1]
    now = wall_clock()
    line = _line(steps, now)
    done = [step for step in steps if not step.is_later]
    step = len(done)
    later = steps[step : step + 1]
    is_past = report.moment is not None
    earlier = steps[step - 2].position if step > 1 else None
    origins = [(each, origin_of(each.rel, each.direction)) for each in report.neighbours]
    return EntityView(
        entity=report,
        notches=[_notch(*each) for each in zip(range(1, len(steps) + 1), steps, line.places, strict=False)],
        ticks=ticks(line),
        until=now,
        place=(line.places[step - 1] if step else 0) if is_past else LENGTH,
        step=step,
        earlier=earlier,
        later=later[0].position if is_past and later else None,
        relations=_relations([each for each, origin in origins if origin is None]),
        derived_from=[each for each, origin in origins if origin == "from"],
        derives=[each for each, origin in origins if origin == "to"],
        changed_since=report.commits - report.commits_until,
        latest=report.latest,
        first=steps[0] if steps and not report.skipped and len(steps) == report.commits else None,
        proof=_proof(visit, report.latest) if report.latest else None,
        changed_since_by=list(dict.fromkeys(each.actor for each in steps if each.is_later)),
        is_oldest_first=visit.said("order") == "oldest",
    )


def _notch(number: int, step: HistoryStep, place: int) -> Notch:
    return Notch(
        step=number,
        position=step.position,
        timestamp=step.timestamp,
        did=step.did,
        place=place,
        is_later=step.is_later,
    )


def _line(steps: Sequence[HistoryStep], now: int) -> Timeline:
    return timeline([from_text(step.timestamp) for step in steps], now)


def _chosen(visit: Visit, report: EntityReport) -> int | None:
    """The position that somebody meant by a place, None for now. The line is the one that they saw: it says when it was
    drawn, and up to which commit."""
    head = visit.number("head", report.position, most=_NUMBER_MAX)
    steps = [step for step in reversed(report.history) if step.position <= head]
    line = _line(steps, visit.number("until", wall_clock(), most=_TIME_MAX))
    was = len(steps) if report.moment is None else sum(not step.is_later for step in steps) - 1
    found = chosen(line, was, visit.number("place", 0, most=LENGTH))
    return steps[found].position if found < len(steps) else None


def _relations(neighbours: list[Neighbour]) -> list[Relation]:
    found: dict[tuple[str, str], list[Neighbour]] = {}
    for each in neighbours:
        found.setdefault((each.direction, each.rel), []).append(each)
    return [Relation(rel, direction, each) for (direction, rel), each in sorted(found.items(), reverse=True)]


def _proof(visit: Visit, step: HistoryStep) -> str | None:
    home = visit.context.home_of(visit.principal.tenant)
    return f"/proof/{step.commit_id}" if checkpoint_path(home).exists() else None


# -- exports


async def _as_json(visit: Visit, entity_id: str) -> Download:
    pages = await _pages(visit, entity_id, "json")
    whole = {**pages[0], "lineage": [each for page in pages for each in page["lineage"]]}
    whole["pagination"] = pages[-1]["pagination"]
    return _download(entity_id, "json", "application/json", orjson.dumps(whole, option=orjson.OPT_INDENT_2))


async def _as_csv(visit: Visit, entity_id: str) -> Download:
    pages = await _pages(visit, entity_id, "csv")
    first, *rest = (page["csv"] for page in pages)
    text = "".join([first, *(each.partition("\r\n")[2] for each in rest)])
    return _download(entity_id, "csv", "text/csv; charset=utf-8", text.encode())


async def _as_openlineage(visit: Visit, entity_id: str) -> Download:
    pages = await _pages(visit, entity_id, "openlineage_v1")
    events = [event for page in pages for event in page["events"]]
    lines = b"".join(orjson.dumps(event) + b"\n" for event in events)
    return _download(entity_id, "openlineage.jsonl", "application/x-ndjson", lines)


async def _as_report(visit: Visit, entity_id: str) -> Document:
    log = visit.context.system_of(visit.principal.tenant) / _LOG
    report = await report_entity(visit.context.offer.store, visit.principal, entity_id, as_of=visit.as_of, log=log)
    return Document(_view(visit, report), _file_headers(entity_id, "html", "text/html; charset=utf-8"))


_EXPORTS: dict[str, Callable[[Visit, str], Awaitable[Download | Document]]] = {
    "report": _as_report,
    "json": _as_json,
    "csv": _as_csv,
    "openlineage": _as_openlineage,
}


async def _pages(visit: Visit, entity_id: str, form: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    offset: int | None = 0
    while offset is not None:
        page = await visit.ask("memory.lineage", entity_id=entity_id, format=form, limit=1000, offset=offset)
        found.append(page)
        offset = page["pagination"]["next_offset"]
    return found


def _download(entity_id: str, ending: str, kind: str, content: bytes) -> Download:
    return Download(content, _file_headers(entity_id, ending, kind))


def _file_headers(entity_id: str, ending: str, kind: str) -> dict[str, str]:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", entity_id)[:80].strip("-") or "entity"
    return {"Content-Type": kind, "Content-Disposition": f'attachment; filename="lineage-{name}.{ending}"'}
