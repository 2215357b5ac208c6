"""memory.lineage: who changed an entity, when, how and why."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tallystick.commits import EDGE_VERBS, REDACTIONS
from tallystick.errors import NotFound
from tallystick.policy import Action, Principal
from tallystick.state import Lineage, Sees, Step
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.toolsets import Answer
from tallystick.toolsets.fitting import fitting, size_of
from tallystick.toolsets.memory.answers import ANSWER_BYTES_MAX, edge_of, entity_of, pagination, slim
from tallystick.toolsets.memory.arguments import PAGE_DEFAULT, LineageArguments, agree, refuse
from tallystick.toolsets.trust import warned

if TYPE_CHECKING:
    from tallystick.projections.openlineage import Event, Telling
    from tallystick.store import Sight, Store

STEPS = 250

Depth = Literal["direct", "full"]
Told = Generator[None, None, dict[str, Any]]
Shape = Callable[[State, Lineage, Depth, int, int, Sees | None], dict[str, Any] | Told]


async def lineage(store: Store, principal: Principal, asked: LineageArguments) -> Answer:
    problems: list[str] = []
    form = agree(problems, export_format=asked.export_format, format=asked.format) or "json"
    if asked.depth == "summary":
        given = {"limit": asked.limit, "offset": asked.offset, "export_format": None if form == "json" else form}
        problems += [f"field '{name}' does not go with depth 'summary'" for name in given if given[name] is not None]
    refuse(problems)
    if form == "openlineage_v1":
        # Takes a while the first time, and others need not wait for it.
        await asyncio.to_thread(import_module, "tallystick.projections.openlineage")

    def look(state: State, sight: Sight) -> dict[str, Any] | Told:
        sees = sight.sees if sight.narrows else None
        if asked.depth == "summary":
            return _summary(state, asked.entity_id, sees)
        limit = PAGE_DEFAULT if asked.limit is None else asked.limit
        return _history(state, asked.entity_id, asked.depth, asked.offset or 0, limit, SHAPES[form], sees)

    return Answer(await store.narrowed(principal, Action.READ, look, resource=asked.entity_id))


def _history(
    state: State, entity_id: str, depth: Depth, offset: int, limit: int, shape: Shape, sees: Sees | None
) -> dict[str, Any] | Told:
    found = state.lineage(entity_id, depth, offset, limit, sees)
    if found is None:
        raise _unknown(entity_id)
    return shape(state, found, depth, offset, limit, sees)


def _summary(state: State, entity_id: str, sees: Sees | None) -> dict[str, Any]:
    summary = state.summary(entity_id)
    found = state.lineage(entity_id, "direct", 0, 1, sees)
    if summary is None or found is None:
        raise _unknown(entity_id)
    return {"entity": _entity(state, found), "summary": msgspec.to_builtins(summary)}


def _unknown(entity_id: str) -> NotFound:
    return NotFound(f"no entity '{entity_id}' was ever written", hint="memory.search finds entities by type and attrs")


# -- as JSON


def _as_json(state: State, found: Lineage, depth: Depth, offset: int, limit: int, sees: Sees | None) -> dict[str, Any]:
    entity = _entity(state, found)
    records = fitting(map(record_of, found.steps), ANSWER_BYTES_MAX - size_of(entity))
    return {
        "entity": entity,
        "lineage": records,
        "pagination": pagination(total=found.total, offset=offset, limit=limit, shown=len(records)),
        "export_format": "json",
    }


def _entity(state: State, found: Lineage) -> dict[str, Any]:
    current = entity_of(found.current) if found.current else edge_of(found.edge) if found.edge else None
    shown = slim(current, "attrs", ANSWER_BYTES_MAX // 4) if current else None
    return warned(state.aspect(Trust), found.id, {"id": found.id, "type": found.type, "current_state": shown})


def record_of(step: Step) -> dict[str, Any]:
    commit = step.commit
    record: dict[str, Any] = {
        "commit_id": commit.commit_id,
        "timestamp": commit.timestamp,
        "actor": commit.actor,
        "operation": step.action,
        "lamport": commit.lamport,
        "content_hash": commit.content_hash,
        "tool": commit.tool,
        "run_context": commit.run_context,
    }
    if commit.reason is not None:
        record["reason"] = commit.reason
    if step.changes is not None:
        record["changes"] = step.changes
    record |= _subject(step)
    return slim(record, "changes", ANSWER_BYTES_MAX // 4)


def _subject(step: Step) -> dict[str, Any]:
    """What the commit speaks of, where that is not the whole entity itself."""
    verb = step.commit.operation
    document = step.commit.document()
    subject = {"edge": {key: document[key] for key in ("from", "rel", "to")}} if verb in EDGE_VERBS else {}
    if verb in REDACTIONS:
        subject["redacted_fields"] = document.get("redacted_fields", ["attrs"])
    return subject


# -- as CSV

COLUMNS = (
    "commit_id",
    "timestamp",
    "actor",
    "operation",
    "lamport",
    "entity_id",
    "edge",
    "run_id",
    "job_id",
    "dataset_id",
    "tool",
    "reason",
    "changes",
    "content_hash",
)


def _as_csv(state: State, found: Lineage, depth: Depth, offset: int, limit: int, sees: Sees | None) -> dict[str, Any]:
    rows = fitting(({"row": csv_line(row_of(found.id, step))} for step in found.steps), ANSWER_BYTES_MAX)
    return {
        "export_format": "csv",
        "csv": csv_line(list(COLUMNS)) + "".join(row["row"] for row in rows),
        "pagination": pagination(total=found.total, offset=offset, limit=limit, shown=len(rows)),
    }


def row_of(entity_id: str, step: Step) -> list[str]:
    record = record_of(step)
    told: dict[str, Any] = {"entity_id": entity_id, **(record["run_context"] or {}), **record}
    return [_cell(told.get(column)) for column in COLUMNS]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"'{text}" if _FORMULA.match(text) else text


# Spreadsheets run what starts like a formula, also after what they take for nothing: blanks, control characters,
# marks without width. Some run the same signs in full width. An apostrophe makes it text.
_NOTHING = r"\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_FORMULA = re.compile(rf"[\t\r\n]|[{_NOTHING}]*[=+\-@\uff1d\uff0b\uff0d\uff20]")


def csv_line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\r\n").writerow(cells)
    return line.getvalue()


# -- as OpenLineage events


def _as_openlineage(state: State, found: Lineage, depth: Depth, offset: int, limit: int, sees: Sees | None) -> Told:
    """A run starts with its first commit on this entity, also when that is on an earlier page."""
    from tallystick.projections.openlineage import Telling

    telling = Telling(lambda commit: found.type)
    yield from _pass_by(state, found.id, depth, offset, telling, sees)
    entity = _entity(state, found)
    told = fitting(_events(found, telling), ANSWER_BYTES_MAX - size_of(entity))
    return {
        "entity": entity,
        "events": [event for commit in told for event in commit["events"]],
        "pagination": pagination(total=found.total, offset=offset, limit=limit, shown=len(told)),
        "export_format": "openlineage_v1",
    }


def _events(found: Lineage, telling: Telling) -> Iterator[dict[str, list[Event]]]:
    return ({"events": telling.tell(step.commit)} for step in found.steps)


def _pass_by(
    state: State, entity_id: str, depth: Depth, until: int, telling: Telling, sees: Sees | None
) -> Generator[None, None, None]:
    for start in range(0, until, STEPS):
        earlier = state.lineage(entity_id, depth, start, min(STEPS, until - start), sees)
        for step in earlier.steps if earlier else ():
            telling.pass_by(step.commit)
        yield


SHAPES: dict[str, Shape] = {"json": _as_json, "csv": _as_csv, "openlineage_v1": _as_openlineage}
