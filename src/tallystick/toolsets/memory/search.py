"""memory.search: entities by what they are, when they were written, and what they are linked to."""

from __future__ import annotations

import time
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.clock import from_text
from tallystick.commits.canonical import canonical_bytes
from tallystick.errors import InvalidArgument
from tallystick.policy import Action, Principal
from tallystick.state import Condition, Node, Page, Path, Query, Test, Walk, Walked
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.memory.answers import (
    ANSWER_BYTES_MAX,
    entity_of,
    only,
    pagination,
    path_of,
    provenance_of,
    slim,
)
from tallystick.toolsets.memory.arguments import (
    PAGE_DEFAULT,
    SearchArguments,
    SearchFilters,
    TimeWindow,
    Traversal,
    agree,
    check_fields,
    refuse,
)
from tallystick.toolsets.truncation import room_for, size_of, within_budget

if TYPE_CHECKING:
    from tallystick.store import Store

HOPS_MAX = 3
REACHED_MAX = 100
PATHS_MAX = 100
CONDITIONS_MAX = 50
CHOICES_MAX = 1000

Looked = Generator[None, None, dict[str, Any]]


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One question, whichever of its shapes the caller chose."""

    entity_id: str | None
    type: str | None
    conditions: tuple[Condition, ...]
    since: int | None
    until: int | None
    traversal: Traversal | None
    limit: int
    offset: int
    bytes_max: int
    """What the caller can hold."""


async def search(store: Store, principal: Principal, asked: SearchArguments, *, hops_max: int = HOPS_MAX) -> Answer:
    sought = understand(asked, room_for(principal, ANSWER_BYTES_MAX))
    find = _searched if sought.traversal is None else partial(_walked, hops_max=hops_max)

    def look(state: State, read_filter: ReadFilter) -> Looked:
        position = state.position
        if asked.if_position == position:
            return {"unchanged": True, "position": position}
        started = time.perf_counter()
        answer = yield from find(state, sought, asked, read_filter)
        answer["position"] = position
        answer["query_latency_ms"] = round((time.perf_counter() - started) * 1000, 3)
        return answer

    return Answer(await store.read(principal, Action.SEARCH, look, resource=sought.entity_id))


# -- what is asked


def understand(asked: SearchArguments, bytes_max: int) -> SearchQuery:
    problems: list[str] = []
    nested = asked.filters or SearchFilters()
    window, inner = asked.time_window or TimeWindow(), nested.time_window or TimeWindow()
    since = agree(
        problems,
        since=asked.since,
        time_window__since=window.since,
        filters__since=nested.since,
        filters__time_window__since=inner.since,
    )
    until = agree(
        problems,
        until=asked.until,
        time_window__until=window.until,
        filters__until=nested.until,
        filters__time_window__until=inner.until,
    )
    entity_id = agree(
        problems, id=asked.id, entity_id=asked.entity_id, filters__id=nested.id, filters__entity_id=nested.entity_id
    )
    limit = agree(problems, limit=asked.limit, filters__limit=nested.limit)
    sought = SearchQuery(
        entity_id=entity_id,
        type=agree(problems, type=asked.type, filters__type=nested.type),
        conditions=conditions_of(problems, agree(problems, attrs=asked.attrs, filters__attrs=nested.attrs) or {}),
        since=from_text(since) if since is not None else None,
        until=from_text(until) if until is not None else None,
        traversal=agree(problems, traversal=asked.traversal, filters__traversal=nested.traversal),
        limit=PAGE_DEFAULT if limit is None else limit,
        offset=agree(problems, offset=asked.offset, filters__offset=nested.offset) or 0,
        bytes_max=bytes_max,
    )
    _check_together(problems, sought)
    check_fields(problems, asked.fields)
    refuse(problems)
    return sought


def _check_together(problems: list[str], sought: SearchQuery) -> None:
    if sought.since is not None and sought.until is not None and sought.until < sought.since:
        problems.append("field 'until' must not be before 'since'")
    traversal = sought.traversal
    if traversal is None:
        return
    if sought.entity_id is None:
        problems.append("field 'entity_id' is required by 'traversal'")
    if traversal.min_hops is not None and traversal.min_hops > traversal.hops:
        problems.append("field 'traversal.min_hops' must not be more than 'traversal.hops'")


# -- conditions on attributes


def conditions_of(problems: list[str], attrs: dict[str, Any]) -> tuple[Condition, ...]:
    try:
        canonical_bytes(attrs)
    except InvalidArgument as error:
        problems.append(f"field 'attrs': {error.message}")
        return ()
    found = [condition for key, value in attrs.items() for condition in _conditions_on(problems, key, value)]
    if len(found) > CONDITIONS_MAX:
        problems.append(f"field 'attrs' has {len(found)} conditions, the limit is {CONDITIONS_MAX}")
    return tuple(found)


def _conditions_on(problems: list[str], key: str, value: Any) -> list[Condition]:
    if not isinstance(value, dict):
        return [Condition(key, "eq", value)]
    if not value:
        problems.append(f"field 'attrs.{key}' needs an operator: {', '.join(VALUES)}")
    found: list[Condition] = []
    for operator, operand in value.items():
        if operator not in VALUES:
            problems.append(
                f"field 'attrs.{key}' has the unknown operator '{operator}'; there are {', '.join(VALUES)}"
                f" (for a nested value write '{key}.{operator}')"
            )
        elif not _fits(operator, operand):
            problems.append(f"field 'attrs.{key}.{operator}' must be {VALUES[operator]}")
        else:
            test: Test = operator
            found.append(Condition(key, test, operand))
    return found


_ORDERED = "a number or a string"
VALUES: dict[str, str] = {
    "eq": "a value",
    "ne": "a value",
    "gt": _ORDERED,
    "gte": _ORDERED,
    "lt": _ORDERED,
    "lte": _ORDERED,
    "in": f"an array of at most {CHOICES_MAX} values",
    "regex": "a pattern",
    "exists": "true or false",
}


def _fits(operator: str, operand: Any) -> bool:
    if operator == "exists":
        return isinstance(operand, bool)
    if operator == "in":
        return isinstance(operand, list) and len(operand) <= CHOICES_MAX
    if operator == "regex":
        return isinstance(operand, str)
    if operator in ("eq", "ne"):
        return True
    return isinstance(operand, int | float | str) and not isinstance(operand, bool)


# -- what is found


def _searched(state: State, sought: SearchQuery, asked: SearchArguments, read_filter: ReadFilter) -> Looked:
    page = yield from _readable(
        state,
        Query(
            ids=None if sought.entity_id is None else (sought.entity_id,),
            type=sought.type,
            conditions=sought.conditions,
            since=sought.since,
            until=sought.until,
            at=_moment(state, asked, read_filter),
            offset=sought.offset,
            limit=sought.limit,
        ),
        read_filter,
    )
    answer = _listed(read_filter, page.nodes, page.total, sought, asked.fields, sought.bytes_max)
    return answer | {"cache_hit": page.indexed and asked.as_of is None}


def _readable(state: State, query: Query, read_filter: ReadFilter) -> Generator[None, None, Page]:
    """The page of what the principal may read.

    Looked through from the start, only as far as the page needs: the total is then one more than the page
    ends at, and exact when the page is the last. How much was withheld shows nowhere.
    """
    if not read_filter.narrows:
        return (yield from state.search(query))
    end = query.offset + query.limit
    taken = end + 1
    while True:
        page: Page = yield from state.search(msgspec.structs.replace(query, offset=0, limit=taken))
        seen = [node for node in page.nodes if read_filter.allows(node.id)]
        if len(seen) > end or taken >= page.total or read_filter.pending:
            return Page(seen[query.offset : end], min(len(seen), end + 1), page.indexed)
        taken *= 4


def _walked(
    state: State, sought: SearchQuery, asked: SearchArguments, read_filter: ReadFilter, *, hops_max: int
) -> Looked:
    at = _moment(state, asked, read_filter)
    traversal = sought.traversal or Traversal()
    walked = yield from state.walk(_walk_of(sought, traversal, at, hops_max, read_filter))
    nodes, paths = yield from _narrowed(state, sought, at, walked)
    half = sought.bytes_max // 2
    shown = within_budget((slim(path_of(path, read_filter), "edges", half) for path in paths), half)
    reached = nodes[sought.offset : sought.offset + sought.limit]
    left = sought.bytes_max - size_of(shown)
    return _listed(read_filter, reached, len(nodes), sought, asked.fields, left) | {
        "paths": shown,
        "edges_traversed": walked.edges_traversed,
        "truncated": walked.truncated or traversal.hops > hops_max or len(shown) < len(paths),
        "delegated_to": None,
        "cache_hit": False,
    }


def _moment(state: State, asked: SearchArguments, read_filter: ReadFilter) -> int:
    """Pinned: others may write while a long search pauses, and the answer is of one moment."""
    return state.count if asked.as_of is None else read_filter.look_back(asked.as_of)


def _walk_of(sought: SearchQuery, traversal: Traversal, at: int, hops_max: int, read_filter: ReadFilter) -> Walk:
    return Walk(
        start=sought.entity_id or "",
        hops=min(traversal.hops, hops_max),
        min_hops=None if traversal.min_hops is None else min(traversal.min_hops, hops_max),
        edge_types=tuple(traversal.edge_types or ()),
        direction=traversal.direction,
        since=sought.since,
        until=sought.until,
        at=at,
        entities_max=REACHED_MAX,
        paths_max=PATHS_MAX,
        read_filter=read_filter,
    )


def _narrowed(
    state: State, sought: SearchQuery, at: int, walked: Walked
) -> Generator[None, None, tuple[list[Node], list[Path]]]:
    """With a type or attributes asked for: the entities that have them, and the paths that end in one."""
    if sought.type is None and not sought.conditions:
        return walked.nodes, walked.paths
    ids = tuple(node.id for node in walked.nodes)
    query = Query(ids=ids, type=sought.type, conditions=sought.conditions, at=at, limit=len(ids))
    page: Page = yield from state.search(query)
    kept = {node.id for node in page.nodes}
    return [node for node in walked.nodes if node.id in kept], [p for p in walked.paths if p.ids[-1] in kept]


def _listed(
    read_filter: ReadFilter,
    nodes: list[Node],
    total: int,
    sought: SearchQuery,
    fields: list[str] | None,
    bytes_max: int,
) -> dict[str, Any]:
    documents = (read_filter.warned(node.id, _result_of(node, fields, bytes_max)) for node in nodes)
    entities = within_budget(documents, bytes_max)
    newest = max(nodes[: len(entities)], key=lambda node: node.provenance.lamport, default=None)
    return {
        "entities": entities,
        "provenance": provenance_of(newest.provenance) if newest else None,
        "pagination": pagination(total=total, offset=sought.offset, limit=sought.limit, shown=len(entities)),
    }


def _result_of(node: Node, fields: list[str] | None, bytes_max: int) -> dict[str, Any]:
    whole = entity_of(node) | {"provenance": provenance_of(node.provenance)}
    return slim(only(fields, whole), "attrs", bytes_max)
