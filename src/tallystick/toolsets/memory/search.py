"""memory.search: entities by words, by what they are, when they were written, and what they are linked to."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick.clock import elapsed_ms
from tallystick.policy import Action, Principal
from tallystick.state import Breathing, Node, Page, Query, Walked
from tallystick.state.facets import Facet
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.memory import by_words, delegation, scope
from tallystick.toolsets.memory.answers import (
    ANSWER_BYTES_MAX,
    entity_of,
    only,
    origin_of,
    pagination,
    path_of,
    provenance_of,
    slim,
)
from tallystick.toolsets.memory.arguments import SearchArguments, Traversal
from tallystick.toolsets.memory.search_query import SearchQuery, filter_of, pinned_moment, understand, walk_of
from tallystick.toolsets.truncation import room_for, shortened, size_of, within_budget

if TYPE_CHECKING:
    from tallystick.projections.cypher.walks import GraphWalks
    from tallystick.projections.text import TextIndex
    from tallystick.projections.vectors import VectorIndex
    from tallystick.store import Store

HOPS_MAX = 3
FACETS_MAX = 50
EXAMPLE_BYTES_MAX = 80

Looked = Generator[None, None, dict[str, Any]]


async def search(
    store: Store,
    principal: Principal,
    asked: SearchArguments,
    *,
    hops_max: int = HOPS_MAX,
    text: Callable[[str], TextIndex] | None = None,
    vectors: Callable[[str], VectorIndex] | None = None,
    walks: delegation.Walks | None = None,
) -> Answer:
    """`text`: the text index of a tenant; without one, words are looked for in everything. `vectors`: what finds
    other words, too, if anything does. `walks`: who takes over what the memory would cut."""
    sought = understand(asked, room_for(principal, ANSWER_BYTES_MAX))
    if asked.consistency == "latest":
        await store.confirm(principal)
    find: Find
    if asked.facets:
        find = partial(_facets, bytes_max=sought.bytes_max)
    elif sought.words is not None:
        indexes = by_words.Indexes(text and text(principal.tenant), vectors and vectors(principal.tenant))
        return await by_words.search(store, principal, sought, asked, indexes, hops_max)
    else:
        find = _searched if sought.traversal is None else partial(_walked, hops_max=hops_max)
    ask = partial(_ask, store, principal, sought, asked)
    if walks is None or sought.words is not None or not delegation.may_be_delegated(sought, asked):
        return Answer(await ask(find))
    return Answer(await _heavy(store, principal, sought, walks(principal.tenant), ask, find, hops_max))


async def _ask(
    store: Store, principal: Principal, sought: SearchQuery, asked: SearchArguments, find: Find
) -> dict[str, Any]:
    look = partial(_look, sought, asked, find)
    return await store.read(principal, Action.SEARCH, look, resource=sought.entity_id)


async def _heavy(
    store: Store,
    principal: Principal,
    sought: SearchQuery,
    walks: GraphWalks,
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
    found = await delegation.delegate(store, principal, sought, walks, is_long=is_long)
    if isinstance(found, delegation.Delegated):
        return await ask(partial(_delegated, found=found))
    return (await ask(find) if own is None else own) | {"degraded": found.why}


Find = Callable[[State, SearchQuery, SearchArguments, ReadFilter], Looked]


def _look(sought: SearchQuery, asked: SearchArguments, find: Find, state: State, read_filter: ReadFilter) -> Looked:
    position = state.position
    if asked.if_position == position:
        return {"unchanged": True, "position": position}
    started = time.perf_counter_ns()
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
    at = pinned_moment(state, asked, read_filter)
    traversal = sought.traversal or Traversal()
    walked = yield from state.walk(walk_of(sought, traversal, at, hops_max, read_filter))
    within = yield from scope.resolve(state, read_filter, sought.scope, at)
    nodes = within.of((yield from _narrowed(state, sought, at, walked)))
    if asked.stale:
        nodes = [node for node in nodes if read_filter.stale(node.id) is not None]
    kept = {node.id for node in nodes}
    paths = [path for path in walked.paths if traversal.to is not None or path.ids[-1] in kept]
    half = sought.bytes_max // 2
    shown = within_budget((slim(path_of(path, read_filter), "edges", half) for path in paths), half)
    reached = nodes[sought.offset : sought.offset + sought.limit]
    left = sought.bytes_max - size_of(shown)
    return _listed(read_filter, reached, len(nodes), sought, asked.fields, left) | {
        "paths": shown,
        "edges_traversed": walked.edges_traversed,
        "truncated": walked.truncated or within.truncated or traversal.hops > hops_max or len(shown) < len(paths),
        "delegated_to": None,
        "cache_hit": False,
    }


def _delegated(
    state: State,
    sought: SearchQuery,
    asked: SearchArguments,
    read_filter: ReadFilter,
    *,
    found: delegation.Delegated,
) -> Looked:
    """As `_walked`, of what an engine found; only what is shown is read."""
    at = state.count
    walk = msgspec.structs.replace(found.walk, at=at, read_filter=read_filter, reads_nodes=False)
    reached = yield from state.reach(walk)
    ids = reached.nodes[1:]
    within = yield from scope.resolve(state, read_filter, sought.scope, at)
    if sought.type is not None or sought.conditions or within.types is not None:
        query = Query(ids=tuple(ids), type=sought.type, types=within.types, conditions=sought.conditions, at=at)
        kept = frozenset((yield from state.find_ids(query, len(ids))) or ())
        ids = [each for each in ids if each in kept]
    ids = within.among(ids).ids or []
    if asked.stale:
        ids = [each for each in ids if read_filter.stale(each) is not None]
    walked = yield from state.walk(walk)
    ends = frozenset(ids)
    paths = [path for path in walked.paths if path.ids[-1] in ends]
    half = sought.bytes_max // 2
    shown = within_budget((slim(path_of(path, read_filter), "edges", half) for path in paths), half)
    page = [node for each in ids[sought.offset : sought.offset + sought.limit] if (node := state.node(each, at))]
    return _listed(read_filter, page, len(ids), sought, asked.fields, sought.bytes_max - size_of(shown)) | {
        "paths": shown,
        "edges_traversed": walked.edges_traversed,
        "truncated": found.truncated or walked.truncated or within.truncated or len(shown) < len(paths),
        "delegated_to": found.engine,
        "cache_hit": False,
    }


def _narrowed(state: State, sought: SearchQuery, at: int, walked: Walked) -> Breathing[list[Node]]:
    """With a type or attributes asked for: the entities that have them."""
    if sought.type is None and not sought.conditions:
        return walked.nodes
    ids = tuple(node.id for node in walked.nodes)
    query = Query(ids=ids, type=sought.type, conditions=sought.conditions, at=at, limit=len(ids))
    page: Page = yield from state.search(query)
    kept = {node.id for node in page.nodes}
    return [node for node in walked.nodes if node.id in kept]


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
        "provenance": origin_of(newest.provenance) if newest else None,
        "pagination": pagination(total=total, offset=sought.offset, limit=sought.limit, shown=len(entities)),
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
    shown = {name: within_budget(map(_facet, facets), share) for name, facets in kinds.items()}
    omitted = found.omitted + sum(len(kinds[name]) - len(shown[name]) for name in kinds)
    return {"facets": shown | ({"omitted": omitted} if omitted and not read_filter.narrows else {})}


def _facet(facet: Facet) -> dict[str, Any]:
    count = {} if facet.count is None else {"count": facet.count}
    example = {} if facet.example is None else {"example": shortened(facet.example, EXAMPLE_BYTES_MAX)}
    return {"name": facet.name, **count, **example}
