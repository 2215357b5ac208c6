"""memory.lineage: who changed an entity, when, how and why."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from tallystick.commits import EDGE_VERBS, REDACTIONS, Commit
from tallystick.commits.mask import REDACTED
from tallystick.errors import NotFound
from tallystick.extension import installed
from tallystick.policy import Action, Principal
from tallystick.state import Lineage, Step
from tallystick.state.lineage import leaves
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.system.turns import paced
from tallystick.toolsets import Answer
from tallystick.toolsets.memory.answers import ANSWER_BYTES_MAX, edge_of, entity_of, pagination, slim
from tallystick.toolsets.memory.arguments import PAGE_DEFAULT, PAGE_MAX, LineageArguments, agree, refuse
from tallystick.toolsets.truncation import room_for, size_of, while_fitting

if TYPE_CHECKING:
    from tallystick.engine.store import Store

PROOFS_MAX = 50
"""On a page: each has about two thousand characters."""

T = TypeVar("T")

Depth = Literal["direct", "full"]
Answering = Generator[None, None, "dict[str, Any] | Page"]
Prove = Callable[[str, Sequence["PlacedCommit"]], list[str | None]]
"""By tenant: for each a proof that others can check; None where it is not signed yet. Raises NotFound where nothing was
signed. Reads files."""


class PlacedCommit(msgspec.Struct, frozen=True):
    commit: Commit
    index: int
    """In the log, counted from 0."""
    prev_record_hash: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a history, for whom it is and how much they can hold."""

    depth: Depth
    offset: int
    limit: int
    read_filter: ReadFilter
    bytes_max: int
    is_proved: bool = False


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What was found of it. It is put into words when the state no longer waits for that."""

    wanted: Wanted
    total: int
    entity: dict[str, Any]
    items: Sequence[Any]
    """As the form of the answer takes them: records, lines, commits."""
    earlier: Any
    """The state of the form after earlier pages."""
    placed: Sequence[PlacedCommit] = ()
    """Where each of them is, if that is to be proved."""
    proofs: Sequence[str | None] = ()

    def pagination(self, shown: int) -> dict[str, Any]:
        wanted = self.wanted
        return pagination(total=self.total, offset=wanted.offset, limit=wanted.limit, shown=shown)


async def lineage(store: Store, principal: Principal, asked: LineageArguments, prove: Prove | None = None) -> Answer:
    problems: list[str] = []
    form = agree(problems, export_format=asked.export_format, format=asked.format) or "json"
    if asked.depth == "summary":
        given = {
            "limit": asked.limit,
            "offset": asked.offset,
            "export_format": None if form == "json" else form,
            "proof": asked.proof or None,
        }
        problems += [f"field '{name}' does not go with depth 'summary'" for name in given if given[name] is not None]
    elif asked.proof and form != "json":
        problems.append(f"field 'proof' does not go with export_format '{form}'")
    if asked.proof and prove is None:
        problems.append("field 'proof' is not answered here")
    refuse(problems)
    # To load one takes a while the first time, and others need not wait for it.
    shape = FORMS[form] if form in FORMS else await asyncio.to_thread(_contributed, form)
    bytes_max = room_for(principal, ANSWER_BYTES_MAX)

    def look(state: State, read_filter: ReadFilter) -> dict[str, Any] | Page | Answering:
        if asked.depth == "summary":
            return _summary(state, asked.entity_id, read_filter, bytes_max)
        wanted = Wanted(
            depth=asked.depth,
            offset=asked.offset or 0,
            limit=min(PAGE_DEFAULT if asked.limit is None else asked.limit, PROOFS_MAX if asked.proof else PAGE_MAX),
            read_filter=read_filter,
            bytes_max=bytes_max,
            is_proved=asked.proof,
        )
        return _history(state, asked.entity_id, wanted, shape)

    found: dict[str, Any] | Page = await store.read(principal, Action.READ, look, resource=asked.entity_id)
    if isinstance(found, Page) and prove is not None and found.placed:
        proofs = await asyncio.to_thread(prove, principal.tenant, found.placed)
        found = msgspec.structs.replace(found, proofs=proofs)
    return Answer(await shape.answer(found) if isinstance(found, Page) else found)


def _history(state: State, entity_id: str, wanted: Wanted, form: Form) -> Answering:
    """The commits of the page are read one after the other, until there is no room for the next."""
    found = state.lineage(entity_id, "direct", 0, 0, wanted.read_filter)
    if found is None:
        raise _unknown(entity_id)
    entity = _entity(wanted.read_filter, found, wanted.bytes_max)
    seqs = yield from state.commits_of(entity_id, wanted.depth, wanted.read_filter)
    earlier = None if form.earlier is None else (yield from form.earlier(state, found, seqs[: wanted.offset]))
    items: list[Any] = []
    placed: list[PlacedCommit] = []
    left = form.room(wanted.bytes_max, entity)
    for seq in seqs[wanted.offset : wanted.offset + wanted.limit]:
        step = state.step(seq)
        item = form.item(found.id, step, wanted.bytes_max)
        left -= form.size(item) + 1
        if items and left < 0:
            break
        items.append(item)
        if wanted.is_proved:
            placed.append(_placed(state, step.commit))
        yield
    return Page(wanted=wanted, total=len(seqs), entity=entity, items=items, earlier=earlier, placed=placed)


def _placed(state: State, commit: Commit) -> PlacedCommit:
    at = state.head_at(commit.lamport).count
    return PlacedCommit(commit, at - 1, state.commit(at - 1).record_hash if at > 1 else "")


def _summary(state: State, entity_id: str, read_filter: ReadFilter, bytes_max: int) -> dict[str, Any]:
    summary = state.summary(entity_id)
    found = state.lineage(entity_id, "direct", 0, 1, read_filter)
    if summary is None or found is None:
        raise _unknown(entity_id)
    return {"entity": _entity(read_filter, found, bytes_max), "summary": msgspec.to_builtins(summary)}


def _unknown(entity_id: str) -> NotFound:
    return NotFound(f"no entity '{entity_id}' was ever written", hint="memory.search finds entities by type and attrs")


# -- as JSON


async def _as_json(page: Page) -> dict[str, Any]:
    records = list(page.items)
    if page.placed:
        proved = ({**each, "proof": proof} for each, proof in zip(records, page.proofs, strict=True))
        records = await gathered(while_fitting(proved, page.wanted.bytes_max - size_of(page.entity)))
    return {
        "entity": page.entity,
        "lineage": records,
        "pagination": page.pagination(len(records)),
        "export_format": "json",
    }


def _entity(read_filter: ReadFilter, found: Lineage, bytes_max: int) -> dict[str, Any]:
    current = entity_of(found.current) if found.current else edge_of(found.edge) if found.edge else None
    shown = slim(current, "attrs", bytes_max // 4) if current else None
    return read_filter.warned(found.id, {"id": found.id, "type": found.type, "current_state": shown})


def record_of(step: Step, bytes_max: int) -> dict[str, Any]:
    commit = step.commit
    record: dict[str, Any] = {
        "commit_id": commit.commit_id,
        "timestamp": commit.timestamp,
        "actor": commit.actor,
        "operation": step.action,
        "lamport": commit.lamport,
        "content_hash": commit.content_hash,
        "tool": commit.tool,
        "policy_version": commit.policy_version,
        "run_context": commit.run_context,
    }
    if commit.reason is not None:
        record["reason"] = commit.reason
    if step.changes is not None:
        record |= {"changes": step.changes, "before": step.before}
    record |= _subject(step)
    return slim(slim(record, "before", bytes_max // 4), "changes", bytes_max // 4)


def _subject(step: Step) -> dict[str, Any]:
    """What the commit is about, where that is not the whole entity itself."""
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
    "before",
    "policy_version",
    "oversize",
)
"""`changes` and `before` have the new and the old values: of a creation all that it says, of a deletion all that was
said. What was left out because it is larger than a page is marked `oversize`."""


async def _as_csv(page: Page) -> dict[str, Any]:
    return {
        "export_format": "csv",
        "csv": csv_line(list(COLUMNS)) + "".join(page.items),
        "pagination": page.pagination(len(page.items)),
    }


def row_of(entity_id: str, step: Step, bytes_max: int) -> list[str]:
    record = record_of(_with_values(step), bytes_max)
    masked = dict.fromkeys(record.get("redacted_fields", ()), REDACTED) or None
    cells: dict[str, Any] = {"entity_id": entity_id, "changes": masked, **(record["run_context"] or {}), **record}
    return [csv_cell(cells.get(column)) for column in COLUMNS]


def _with_values(step: Step) -> Step:
    """Return the step with the values of what it created or deleted as changes."""
    match step.action.partition("_")[0]:
        case "CREATE":
            return msgspec.structs.replace(step, changes=dict(leaves(step.commit.document())))
        case "DELETE":
            return msgspec.structs.replace(step, changes=dict.fromkeys(step.before or ()))
    return step


def csv_cell(value: Any) -> str:
    """Of a value that anybody may have written."""
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


# -- the forms


async def gathered(items: Iterator[T]) -> list[T]:
    """Others are served in between: the records of a thousand commits may take a second to write."""
    return [item async for item in paced(items)]


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A form of the answer. Items are made while the state is looked at, the rest when it no longer waits."""

    item: Callable[[str, Step, int], Any]
    """Of an entity id, a step and the bytes of the whole answer."""
    size: Callable[[Any], int]
    room: Callable[[int, dict[str, Any]], int]
    """The bytes that all items may have, of those of the answer and the entity in it."""
    answer: Callable[[Page], Awaitable[dict[str, Any]]]
    earlier: Callable[[State, Lineage, Sequence[int]], Generator[None, None, Any]] | None = None
    """Of the commits on earlier pages, by their numbers."""


FORMS: dict[str, Form] = {
    "json": Form(
        item=lambda entity_id, step, bytes_max: record_of(step, bytes_max),
        size=size_of,
        room=lambda bytes_max, entity: bytes_max - size_of(entity),
        answer=_as_json,
    ),
    "csv": Form(
        item=lambda entity_id, step, bytes_max: csv_line(row_of(entity_id, step, bytes_max)),
        size=size_of,
        room=lambda bytes_max, entity: bytes_max,
        answer=_as_csv,
    ),
}


def _contributed(name: str) -> Form:
    """Return the form of an extension. Raises NotFound."""
    form: Form = installed().handler(f"memory.lineage {name}")
    return form
