"""The report on an entity: what it says now or said at a moment, who set what, and every change with its author,
reason, policy and hashes. What an auditor asks for, in one look at the state.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from tallystick.clock import wall_clock
from tallystick.commits import REDACTIONS, Commit, reserved_attributes
from tallystick.commits.mask import REDACTED
from tallystick.engine.store import Store
from tallystick.errors import NotFound
from tallystick.extensions.web.reports.marks import NO_MARKS, Marks, mark_node
from tallystick.extensions.web.reports.titles import title_of
from tallystick.log.segments import segment_files, segment_path
from tallystick.policy import Action, Principal
from tallystick.state import Breathing, Edge, Node, Step
from tallystick.state.conditions import is_same
from tallystick.state.lineage import leaves
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.work.claims import ClaimTime
from tallystick.toolsets.claims import Claims

STEPS_MAX = 200
"""Commits that are read for one report; the newest up to the page that is asked for."""
EDGES_MAX = 100
_BREATH = 25
_TEXT_CHARACTERS = 160
"""A longer attribute is a text to be read, and not a value."""
_ATTRS = "attrs."

Did = Literal["created", "written", "deleted", "redacted"]
_DID: dict[str, Did] = {"CREATE": "created", "UPDATE": "written", "DELETE": "deleted", "REDACT": "redacted"}


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """`was` and `now` are texts as people read them; None where there was or is nothing."""

    name: str
    was: Any = None
    now: Any = None
    is_redacted: bool = False


class HistoryStep(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    timestamp: str
    actor: str
    did: Did
    tool: str
    reason: str | None
    run_context: dict[str, str] | None
    policy_version: str
    commit_id: str
    content_hash: str
    record_hash: str
    previous: str | None
    """The commit before it in the log, whatever that is about."""
    changes: list[Change]
    redacted_fields: list[str]
    is_later: bool
    """After the moment that is looked at."""


class Attribute(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: Any
    is_text: bool
    is_redacted: bool
    set_by: str | None
    """None where it was set before the commits that were read."""
    set_on: str | None
    set_at: int | None
    redacted_because: str | None = None
    """Of what was redacted, who did it is named instead, and why."""


class Text(msgspec.Struct, frozen=True):
    name: str
    format: str
    text: str


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    edge_id: str
    rel: str
    direction: Literal["out", "in"]
    id: str
    type: str
    title: str
    marks: Marks


class Ends(msgspec.Struct, frozen=True):
    """Of an edge."""

    source: str
    rel: str
    target: str


class LogPlace(msgspec.Struct, frozen=True):
    file: str
    line: int


class EntityReport(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kind: Literal["node", "edge"]
    type: str
    """The relation of an edge."""
    title: str
    ends: Ends | None
    position: int
    """Of the log, now."""
    moment: int | None
    """The position that is looked at; None is now."""
    moment_time: str | None
    exists: bool
    """At the moment."""
    stale: dict[str, Any] | None
    untrusted: dict[str, Any] | None
    is_fresh: bool
    """It says what it depends on or how long it holds, and it still does."""
    redacted: int
    """Attributes whose values were redacted."""
    attributes: list[Attribute]
    texts: list[Text]
    neighbours: list[Neighbour]
    has_more_neighbours: bool
    history: list[HistoryStep]
    """Newest first."""
    latest: HistoryStep | None
    """The commit that made it what it is at the moment."""
    place: LogPlace | None
    """Where that commit is in the log, as far as this machine keeps it in files."""
    commits: int
    """In all."""
    commits_until: int
    """Up to the moment."""
    skipped: int
    """Newer ones than those in `history`."""
    authors: list[str]
    """Of those in `history`."""


async def report_entity(
    store: Store,
    principal: Principal,
    entity_id: str,
    *,
    as_of: str | int | None = None,
    skip: int = 0,
    claims: Claims | None = None,
    log: Path | None = None,
) -> EntityReport:
    """Also of what was deleted. `claims` judges who works on its neighbours; `log` is where its segments lie. Raises
    NotFound for what was never written or may not be read, Denied, and InvalidArgument for a moment that is none."""

    def look(state: State, read_filter: ReadFilter) -> Breathing[EntityReport]:
        at = None if as_of is None else read_filter.look_back(as_of)
        report = yield from _report(state, read_filter, entity_id, at, skip, claims)
        return report if log is None else msgspec.structs.replace(report, place=_place(state, log, report.latest))

    return await store.read(principal, Action.READ, look, resource=entity_id)


def _report(
    state: State, read_filter: ReadFilter, entity_id: str, at: int | None, skip: int, claims: Claims | None
) -> Breathing[EntityReport]:
    known = state.lineage(entity_id, "direct", 0, 1, read_filter)
    if known is None:
        raise NotFound(f"no entity '{entity_id}' was ever written")
    moment = None if at is None else state.commit(at).lamport if at else 0
    done = (
        known.total if moment is None else (yield from count_until(state, read_filter, entity_id, known.total, moment))
    )
    # Without a page that was asked for, the one that the moment is on.
    skip = skip or max(0, known.total - done - STEPS_MAX // 2)
    steps = yield from _steps(state, read_filter, entity_id, max(0, known.total - skip - STEPS_MAX), known.total - skip)
    before = steps
    if skip:
        before = yield from _steps(state, read_filter, entity_id, max(0, done - STEPS_MAX), done)
    node = state.node(entity_id, at)
    is_node = not known.steps or known.steps[0].action.endswith("_NODE")
    edge = None if is_node else state.edge_by_id(entity_id, at)
    entity = node or edge
    attrs = {} if entity is None else entity.attrs
    warned = read_filter.warned(entity_id, {}, None if edge is None else edge.attrs) if entity is not None else {}
    neighbours = state.edges(entity_id, at=at, limit=EDGES_MAX + 1, read_filter=read_filter) if node else []
    history = list(_history(steps, moment))[::-1]
    attributes = [_with_redactor(each, (*before, *steps)) for each in _attributes(attrs, before, moment)]
    now = None if claims is None or at is not None else claims.moment(state.time_after(wall_clock()))
    named = attrs or next((_attrs_of(step.commit) for step in reversed(before) if _says(step.commit)), {})
    return EntityReport(
        id=entity_id,
        kind="node" if is_node else "edge",
        type=node.type if node is not None else known.type,
        title=title_of(entity_id, named),
        ends=_ends(edge, known.steps),
        position=state.position,
        moment=moment,
        moment_time=state.timestamp(at) if at else None,
        exists=entity is not None,
        stale=warned.get("stale"),
        untrusted=warned.get("untrusted"),
        is_fresh="stale" not in warned and not reserved_attributes.NAMES.isdisjoint(attrs),
        redacted=sum(each.is_redacted for each in attributes),
        attributes=attributes,
        texts=_texts(entity),
        neighbours=[_neighbour(state, read_filter, entity_id, each, at, now) for each in neighbours[:EDGES_MAX]],
        has_more_neighbours=len(neighbours) > EDGES_MAX,
        history=history,
        latest=next((each for each in reversed(list(_history(before, moment))) if not each.is_later), None),
        place=None,
        commits=known.total,
        commits_until=done,
        skipped=skip,
        authors=list(dict.fromkeys(each.actor for each in history)),
    )


def count_until(state: State, read_filter: ReadFilter, entity_id: str, total: int, moment: int) -> Breathing[int]:
    """How many of its commits are not later; found by halving, since there may be very many."""
    low, high = 0, total
    while low < high:
        middle = (low + high) // 2
        page = state.lineage(entity_id, "direct", middle, 1, read_filter)
        if page is not None and page.steps and page.steps[0].commit.lamport <= moment:
            low = middle + 1
        else:
            high = middle
        yield
    return low


def _steps(state: State, read_filter: ReadFilter, entity_id: str, start: int, end: int) -> Breathing[list[Step]]:
    steps: list[Step] = []
    for begin in range(start, max(start, end), _BREATH):
        page = state.lineage(entity_id, "direct", begin, min(_BREATH, end - begin), read_filter)
        steps += page.steps if page is not None else []
        yield
    return steps


# -- what changed


def _history(steps: Sequence[Step], moment: int | None) -> Iterator[HistoryStep]:
    before: dict[str, Any] | None = None
    for step in steps:
        commit, did = step.commit, _DID[step.action.partition("_")[0]]
        said = commit.document()
        if did in ("created", "written"):
            changes = _changes(before if did == "written" else {}, said, step)
            before = said
        else:
            changes = []
            before = before if did == "redacted" else None
        yield HistoryStep(
            position=commit.lamport,
            timestamp=commit.timestamp,
            actor=commit.actor,
            did=did,
            tool=commit.tool,
            reason=commit.reason,
            run_context=commit.run_context,
            policy_version=commit.policy_version,
            commit_id=commit.commit_id,
            content_hash=commit.content_hash,
            record_hash=commit.record_hash,
            previous=commit.prev,
            changes=changes,
            redacted_fields=list(said.get("redacted_fields") or ["attrs"]) if commit.operation in REDACTIONS else [],
            is_later=moment is not None and commit.lamport > moment,
        )


def _changes(before: Mapping[str, Any] | None, said: dict[str, Any], step: Step) -> list[Change]:
    """`before` is None where the version before is on an earlier page: then the step has the values it replaced."""
    if before is None:
        was = step.before or {}
        return [_change(name, was.get(name), value) for name, value in (step.changes or {}).items()]
    return changes_between(before, said)


def changes_between(before: Mapping[str, Any], said: Mapping[str, Any]) -> list[Change]:
    """Of two documents of an entity; empty is for what was or is not there."""
    was, now = dict(leaves(dict(before))), dict(leaves(dict(said)))
    names = dict.fromkeys((*now, *was))
    return [
        _change(name, was.get(name), now.get(name))
        for name in names
        if name not in was or name not in now or not is_same(was[name], now[name])
    ]


def _change(name: str, was: Any, now: Any) -> Change:
    return Change(name.removeprefix(_ATTRS), was, now, REDACTED in (was, now))


# -- what it says


def _attributes(attrs: Mapping[str, Any], steps: Sequence[Step], moment: int | None) -> list[Attribute]:
    setting = _setters(steps, moment)
    return [_attribute(name, value, setting.get(name)) for name, value in attrs.items()]


def _attribute(name: str, value: Any, setter: Commit | None) -> Attribute:
    return Attribute(
        name=name,
        value=value,
        is_text=_is_text(value),
        is_redacted=value == REDACTED,
        set_by=setter.actor if setter else None,
        set_on=setter.timestamp if setter else None,
        set_at=setter.lamport if setter else None,
    )


def _with_redactor(attribute: Attribute, steps: Sequence[Step]) -> Attribute:
    """Of what was redacted: who did that, also later than the moment, since nobody can look behind it."""
    if not attribute.is_redacted:
        return attribute
    for step in reversed(steps):
        commit = step.commit
        fields = commit.document().get("redacted_fields") if commit.operation in REDACTIONS else ()
        if fields is None or f"{_ATTRS}{attribute.name}" in fields:
            by = {"set_by": commit.actor, "set_on": commit.timestamp, "set_at": commit.lamport}
            return msgspec.structs.replace(attribute, **by, redacted_because=commit.reason or "")
    return attribute


def _setters(steps: Sequence[Step], moment: int | None) -> dict[str, Commit]:
    """By attribute: the commit that gave it the value that it has at the moment, as far as they were read."""
    found: dict[str, Commit] = {}
    before: dict[str, Any] | None = None
    for step in steps:
        commit = step.commit
        if moment is not None and commit.lamport > moment:
            break
        if not _says(commit):
            before, found = (before, found) if commit.operation in REDACTIONS else ({}, {})
            continue
        attrs = _attrs_of(commit)
        if before is None and step.changes is not None:
            changed = {name for name in attrs if _is_named(name, step.changes)}
        else:
            known = before or {}
            changed = {name for name in attrs if name not in known or not is_same(known[name], attrs[name])}
        found = {name: commit if name in changed else found[name] for name in attrs if name in changed | found.keys()}
        before = attrs
    return found


def _is_named(name: str, changes: Mapping[str, Any]) -> bool:
    path = f"{_ATTRS}{name}"
    return any(each == path or each.startswith(f"{path}.") for each in changes)


def _says(commit: Commit) -> bool:
    return commit.operation.value.startswith("UPSERT")


def _attrs_of(commit: Commit) -> dict[str, Any]:
    return commit.document().get("attrs") or {}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and ("\n" in value or len(value) > _TEXT_CHARACTERS)


def _texts(entity: Node | Edge | None) -> list[Text]:
    if entity is None:
        return []
    content = entity.content or {}
    own = [Text("content", str(content.get("format", "")), content["text"])] if "text" in content else []
    return own + [Text(name, "md", value) for name, value in entity.attrs.items() if _is_text(value)]


# -- what it is linked to


def _ends(edge: Edge | None, steps: Sequence[Step]) -> Ends | None:
    if edge is not None:
        return Ends(edge.source, edge.rel, edge.target)
    said = steps[0].commit.document() if steps else {}
    return Ends(said["from"], said["rel"], said["to"]) if "rel" in said else None


def _neighbour(
    state: State, read_filter: ReadFilter, entity_id: str, edge: Edge, at: int | None, now: ClaimTime | None
) -> Neighbour:
    outwards = edge.source == entity_id
    other = edge.target if outwards else edge.source
    node = state.node(other, at)
    return Neighbour(
        edge_id=edge.id,
        rel=edge.rel,
        direction="out" if outwards else "in",
        id=other,
        type=node.type if node else "",
        title=title_of(other, node.attrs if node else None),
        marks=NO_MARKS if node is None else mark_node(state, read_filter, node, now),
    )


# -- where it is kept


def _place(state: State, log: Path, step: HistoryStep | None) -> LogPlace | None:
    """A segment is named by its first position, or a lower one that nobody got, and has a line for each commit."""
    begun = [int(path.stem) for path in segment_files(log)]
    index = 0 if step is None else bisect_right(begun, step.position)
    if step is None or not index:
        return None
    first = begun[index - 1]
    line = state.head_at(step.position).count - state.head_at(first - 1).count
    return LogPlace(segment_path(log, first).name, line)
