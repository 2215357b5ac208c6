"""The search query: one question, whichever of the many shapes of its arguments the caller chose."""

from __future__ import annotations

from typing import Any

import msgspec

from tallystick.clock import from_text
from tallystick.commits.canonical import canonical_bytes
from tallystick.errors import InvalidArgument
from tallystick.state import Condition, Query, Test, Walk
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets.memory import scope
from tallystick.toolsets.memory.arguments import (
    HIT_FIELD_ROOTS,
    PAGE_DEFAULT,
    Scope,
    SearchArguments,
    SearchFilters,
    TimeWindow,
    Traversal,
    agree,
    check_fields,
    refuse,
)

HITS_DEFAULT = 10
REACHED_MAX = 100
CLOSURE_MAX = 1000
"""Entities, and so edges of the longest way to one of them."""
PATHS_MAX = 100
CONDITIONS_MAX = 50
CHOICES_MAX = 1000
_BYTES_PER_TOKEN = 2


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One question, whichever of its shapes the caller chose."""

    words: str | None
    scope: Scope | None
    entity_id: str | None
    type: str | None
    conditions: tuple[Condition, ...]
    author: str | None
    since: int | None
    until: int | None
    traversal: Traversal | None
    limit: int
    offset: int
    bytes_max: int
    """What the caller can hold."""


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
        words=asked.query,
        scope=asked.scope,
        entity_id=entity_id,
        type=agree(problems, type=asked.type, filters__type=nested.type),
        conditions=conditions_of(problems, agree(problems, attrs=asked.attrs, filters__attrs=nested.attrs) or {}),
        author=asked.author,
        since=from_text(since) if since is not None else None,
        until=from_text(until) if until is not None else None,
        traversal=agree(problems, traversal=asked.traversal, filters__traversal=nested.traversal),
        limit=limit or (PAGE_DEFAULT if asked.query is None else HITS_DEFAULT),
        offset=agree(problems, offset=asked.offset, filters__offset=nested.offset) or 0,
        bytes_max=bytes_max if asked.max_tokens is None else min(bytes_max, asked.max_tokens * _BYTES_PER_TOKEN),
    )
    _check_together(problems, sought)
    problems += scope.problems_of(asked.scope)
    if asked.stale:
        problems += [
            f"field '{name}' does not go with 'stale': it is judged now" for name in sorted(_given(asked) & _PAST)
        ]
    if asked.facets:
        problems += [f"field '{name}' does not go with 'facets'" for name in sorted(_given(asked) - _WITH_FACETS)]
    check_fields(problems, asked.fields, HIT_FIELD_ROOTS)
    refuse(problems)
    return sought


_PAST = {"as_of", "if_position"}
"""Things become stale without a commit, and what was once stale is told by reading it as of then."""
_WITH_FACETS = {"facets", "type", "max_tokens", "if_position"}


def _given(asked: SearchArguments) -> set[str]:
    """False is how clients leave something out, as null is."""
    return {
        name
        for name in asked.model_fields_set
        if getattr(asked, name) is not None and getattr(asked, name) is not False
    }


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
    if traversal.closure:
        problems += [
            f"field 'traversal.{name}' does not go with 'traversal.closure'"
            for name in ("hops", "min_hops", "to")
            if name in traversal.model_fields_set
        ]


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


# -- as the state is asked


def filter_of(sought: SearchQuery, at: int) -> Query:
    return Query(
        type=sought.type,
        conditions=sought.conditions,
        author=sought.author,
        since=sought.since,
        until=sought.until,
        at=at,
    )


def pinned_moment(state: State, asked: SearchArguments, read_filter: ReadFilter) -> int:
    """Pinned: others may write while a long search pauses, and the answer is of one moment."""
    return state.count if asked.as_of is None else read_filter.look_back(asked.as_of)


def walk_of(sought: SearchQuery, traversal: Traversal, at: int, hops_max: int, read_filter: ReadFilter | None) -> Walk:
    shortest = traversal.to is not None and "hops" not in traversal.model_fields_set
    return Walk(
        start=sought.entity_id or "",
        target=traversal.to,
        shortest=shortest,
        hops=CLOSURE_MAX if shortest or traversal.closure else min(traversal.hops, hops_max),
        min_hops=None if traversal.min_hops is None else min(traversal.min_hops, hops_max),
        edge_types=tuple(traversal.edge_types or ()),
        direction=traversal.direction,
        since=sought.since,
        until=sought.until,
        at=at,
        entities_max=CLOSURE_MAX if traversal.closure else REACHED_MAX,
        paths_max=0 if traversal.closure else PATHS_MAX,
        read_filter=read_filter,
    )
