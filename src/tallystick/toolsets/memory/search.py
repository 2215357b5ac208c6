"""memory.search: entities by words, by what they are, when they were written, and what they are linked to."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallystick.clock import elapsed_ms
from tallystick.policy import Action, Principal
from tallystick.state import Breathing, Node, Path, Provenance, Query, Walk
from tallystick.state.facets import Facet
from tallystick.state.read_filter import ReadFilter
from tallystick.state.search import Located
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.memory import by_words, scope
from tallystick.toolsets.memory.answers import (
    ANSWER_BYTES_MAX,
    entity_of,
    listed_paths,
    only,
    origin_of,
    pagination,
    provenance_of,
    slim,
)
from tallystick.toolsets.memory.arguments import SearchArguments, Traversal
from tallystick.toolsets.memory.search_query import SearchQuery, filter_of, pinned_moment, understand, walk_of
from tallystick.toolsets.truncation import fitting, room_for, shortened, size_of

if TYPE_CHECKING:
    from tallystick.engine.store import Store
    from tallystick.projections.text import TextIndex
    from tallystick.toolsets.memory.by_words import NearSearch

HOPS_MAX = 3
FACETS_MAX = 50
EXAMPLE_BYTES_MAX = 80

Looked = Generator[None, None, dict[str, Any]]


class Delegated(msgspec.Struct, frozen=True):
    engine: str
    walk: Walk
    """Along what the engine found."""
    truncated: bool


class Degraded(msgspec.Struct, frozen=True):
    """Why the memory's own walk is the answer."""

    why: str


class LongWalks(Protocol):
    """Takes over walks in one tenant that are longer than the memory walks."""

    async def delegate(
        self, store: Store, principal: Principal, sought: SearchQuery, *, is_long: bool
    ) -> Delegated | Degraded:
        """`is_long`: longer than the memory walks, so that a cut answer would not be what was asked for. Raises
        LimitExceeded for such a one that is too expensive."""
        ...


async def search(
    store: Store,
    principal: Principal,
    asked: SearchArguments,
    *,
    hops_max: int = HOPS_MAX,
    text: Callable[[str], TextIndex] | None = None,
    near: Callable[[str], NearSearch] | None = None,
    walks: Callable[[str], LongWalks] | None = None,
) -> Answer:
    """`text`: the text index of a tenant; without one, words are looked for in everything. `near`: what finds
    other words, too, if anything does. `walks`: what takes over walks that the memory would cut."""
    sought = understand(asked, room_for(principal, ANSWER_BYTES_MAX))
    if asked.consistency == "latest":
        await store.confirm(principal)
    find: Find
    if asked.facets:
        find = partial(_facets, bytes_max=sought.bytes_max)
    elif sought.words is not None:
        indexes = by_words.Indexes(text and text(principal.tenant), near and near(principal.tenant))
        return await by_words.search(store, principal, sought, asked, indexes, hops_max)
    else:
        find = _searched if sought.traversal is None else partial(_walked, hops_max=hops_max)
    ask = partial(_ask, store, principal, sought, asked)
    if walks is None or sought.words is not None or not _may_be_delegated(sought, asked):
        return Answer(await ask(find))
    return Answer(await _heavy(store, principal, sought, walks(principal.tenant), ask, find, hops_max))


async def _ask(
    store: Store, principal: Principal, sought: SearchQuery, asked: SearchArguments, find: Find
) -> dict[str, Any]:
    look = partial(_look, sought, asked, find)
    return await store.read(principal, Action.SEARCH, look, resource=sought.entity_id)


def _may_be_delegated(sought: SearchQuery, asked: SearchArguments) -> bool:
    """An engine has the present alone; and between two entities the memory looks from both ends."""
    traversal = sought.traversal
    return traversal is not None and traversal.to is None and asked.as_of is None and not asked.facets


async def _heavy(
    store: Store,
    principal: Principal,
    sought: SearchQuery,
    walks: LongWalks,
    ask: Callable[[Find], Awaitable[dict[str, Any]]],
    find: Find,
    hops_max: int,
) -> dict[str, Any]:
    """A walk that may be delegated."""
    traversal = sought.traversal or Traversal()
    is_long = traversal.hops > hops_max
    own = None if is_long else await ask(find)
    if own is not None and not own.get("truncated"):
        return own
    found = await walks.delegate(store, principal, sought, is_long=is_long)
    if isinstance(found, Delegated):
        return await ask(partial(_delegated, found=found))
    return (await ask(find) if own is None else own) | {"degraded": found.why}


Find = Callable[[State, SearchQuery, SearchArguments, ReadFilter], Looked]


def _look(sought: SearchQuery, asked: SearchArguments, find: Find, state: State, read_filter: ReadFilter) -> Looked:
    position = state.position
    if asked.if_position == position:
        return {"unchanged": True, "position": position}
    started = time.perf_counter_ns()
    read_filter.judges_pins = True
    answer = yield from find(state, sought, asked, read_filter)
    answer["position"] = position
    answer["query_latency_ms"] = elapsed_ms(started)
    return answer


# -- what is found


def _searched(state: State, sought: SearchQuery, asked: SearchArguments, read_filter: ReadFilter) -> Looked:
    at = pinned_moment(state, asked, read_filter)
    within = yield from scope.resolve(state, read_filter, sought.scope, at)
    if asked.stale:
        within = yield from scope.only_stale(state, read_filter, within)
    ids = within.ids if sought.entity_id is None else [sought.entity_id]
    if within.ids is not None and sought.entity_id is not None:
        ids = [each for each in within.ids if each == sought.entity_id]
    query = msgspec.structs.replace(
        filter_of(sought, at), ids=None if ids is None else tuple(ids), types=within.types, limit=sought.limit
    )
    page = yield from _readable(state, msgspec.structs.replace(query, offset=sought.offset), read_filter)
    answer = yield from _listed(
        read_filter,
        _nodes(state, page.ids, at),
        page.total,
        sought,
        asked.fields,
        sought.bytes_max,
        at_least=within.truncated or (read_filter.narrows and page.total > sought.offset + sought.limit),
    )
    return answer | {"cache_hit": page.indexed and asked.as_of is None}


def _readable(state: State, query: Query, read_filter: ReadFilter) -> Breathing[Located]:
    """The page of what the principal may read.

    Looked through from the start, only as far as the page needs: the total is then one more than the page
    ends at, and exact when the page is the last. How much was withheld shows nowhere.
    """
    if not read_filter.narrows:
        return (yield from state.locate(query))
    end = query.offset + query.limit
    taken = end + 1
    while True:
        page = yield from state.locate(msgspec.structs.replace(query, offset=0, limit=taken))
        seen: list[str] = []
        for each in page.ids:
            if read_filter.allows(each):
                seen.append(each)
            yield
        if len(seen) > end or taken >= page.total or read_filter.pending:
            return Located(seen[query.offset : end], min(len(seen), end + 1), page.indexed)
        taken *= 4


def _walked(
    state: State, sought: SearchQuery, asked: SearchArguments, read_filter: ReadFilter, *, hops_max: int
) -> Looked:
    at = pinned_moment(state, asked, read_filter)
    traversal = sought.traversal or Traversal()
    walk = walk_of(sought, traversal, at, hops_max, read_filter)
    walked = yield from state.walk(msgspec.structs.replace(walk, reads_nodes=False))
    within = yield from scope.resolve(state, read_filter, sought.scope, at)
    ids = yield from _narrowed(state, sought, asked, within, walked.ids, at, read_filter)
    kept = frozenset(ids)
    paths = [path for path in walked.paths if traversal.to is not None or path.ids[-1] in kept]
    shown, left = yield from _ways(paths, read_filter, sought.bytes_max)
    page = _nodes(state, ids[sought.offset : sought.offset + sought.limit], at)
    return (yield from _listed(read_filter, page, len(ids), sought, asked.fields, left)) | {
        **shown,
        "edges_traversed": walked.edges_traversed,
        "truncated": walked.truncated or within.truncated or traversal.hops > hops_max,
        "delegated_to": None,
        "cache_hit": False,
    }


def _delegated(
    state: State,
    sought: SearchQuery,
    asked: SearchArguments,
    read_filter: ReadFilter,
    *,
    found: Delegated,
) -> Looked:
    """As `_walked`, of what an engine found; only what is shown is read."""
    at = state.count
    walk = msgspec.structs.replace(found.walk, at=at, read_filter=read_filter, reads_nodes=False)
    reached = yield from state.reach(walk)
    within = yield from scope.resolve(state, read_filter, sought.scope, at)
    ids = yield from _narrowed(state, sought, asked, within, reached.nodes[1:], at, read_filter)
    walked = yield from state.walk(walk)
    ends = frozenset(ids)
    paths = [path for path in walked.paths if path.ids[-1] in ends]
    shown, left = yield from _ways(paths, read_filter, sought.bytes_max)
    page = _nodes(state, ids[sought.offset : sought.offset + sought.limit], at)
    return (yield from _listed(read_filter, page, len(ids), sought, asked.fields, left)) | {
        **shown,
        "edges_traversed": walked.edges_traversed,
        "truncated": found.truncated or walked.truncated or within.truncated,
        "delegated_to": found.engine,
        "cache_hit": False,
    }


def _narrowed(
    state: State,
    sought: SearchQuery,
    asked: SearchArguments,
    within: scope.Within,
    ids: list[str],
    at: int,
    read_filter: ReadFilter,
) -> Breathing[list[str]]:
    """Those that are of the type and by the author, have the attributes, lie within the scope, and are stale, where
    that is asked for."""
    if sought.type is not None or sought.conditions or sought.author is not None or within.types is not None:
        # A walk uses its window of time for the edges.
        query = filter_of(msgspec.structs.replace(sought, since=None, until=None), at)
        found = msgspec.structs.replace(query, ids=tuple(ids), types=within.types, limit=len(ids))
        page = yield from state.locate(found)
        kept = frozenset(page.ids)
        ids = [each for each in ids if each in kept]
    ids = within.among(ids).ids or []
    return [each for each in ids if read_filter.stale(each) is not None] if asked.stale else ids


def _nodes(state: State, ids: Iterable[str], at: int) -> Iterator[Node]:
    return (node for each in ids if (node := state.node(each, at)) is not None)


def _ways(paths: list[Path], read_filter: ReadFilter, bytes_max: int) -> Breathing[tuple[dict[str, Any], int]]:
    """The paths that fit into half of an answer, and the bytes that they leave to the rest."""
    shown = yield from listed_paths(paths, read_filter, bytes_max // 2)
    return shown, bytes_max - size_of(shown)


def _listed(
    read_filter: ReadFilter,
    nodes: Iterable[Node],
    total: int,
    sought: SearchQuery,
    fields: list[str] | None,
    bytes_max: int,
    *,
    at_least: bool = False,
) -> Looked:
    """The nodes are read one after the other, until there is no room for the next."""
    origins: list[Provenance] = []

    def documents() -> Iterator[dict[str, Any]]:
        for node in nodes:
            origins.append(node.provenance)
            yield read_filter.warned(node.id, _result_of(node, fields, bytes_max))

    entities = yield from fitting(documents(), bytes_max)
    newest = max(origins[: len(entities)], key=lambda origin: origin.lamport, default=None)
    return {
        "entities": entities,
        "provenance": origin_of(newest) if newest else None,
        "pagination": pagination(
            total=total, offset=sought.offset, limit=sought.limit, shown=len(entities), at_least=at_least
        ),
    }


def _result_of(node: Node, fields: list[str] | None, bytes_max: int) -> dict[str, Any]:
    whole = {"id": node.id, "type": node.type, "attrs": node.attrs} | origin_of(node.provenance)
    if fields is not None:
        whole = only(fields, entity_of(node) | whole | {"provenance": provenance_of(node.provenance)})
    return slim(whole, "attrs", bytes_max)


# -- which there are


def _facets(
    state: State, sought: SearchQuery, asked: SearchArguments, read_filter: ReadFilter, *, bytes_max: int
) -> Looked:
    found = yield from state.facets(read_filter, sought.type, FACETS_MAX)
    share = bytes_max // 3
    kinds = {"types": found.types, "attributes": found.attributes, "relations": found.relations}
    shown = {}
    for name, facets in kinds.items():
        shown[name] = yield from fitting(map(_facet, facets), share)
    omitted = found.omitted + sum(len(kinds[name]) - len(shown[name]) for name in kinds)
    return {"facets": shown | ({"omitted": omitted} if omitted else {})}


def _facet(facet: Facet) -> dict[str, Any]:
    count = {} if facet.count is None else {"count": facet.count}
    example = {} if facet.example is None else {"example": shortened(facet.example, EXAMPLE_BYTES_MAX)}
    return {"name": facet.name, **count, **example}
