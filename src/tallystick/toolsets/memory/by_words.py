"""By words: what they are looked for in, what is found, and the answer for a model or a program to read."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tallystick.clock import elapsed_ms
from tallystick.policy import Action, Principal
from tallystick.projections.text.ranking import asked_words
from tallystick.state import Breathing, EntityKind, Path
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.memory import scope, word_search
from tallystick.toolsets.memory.answers import ANSWER_BYTES_MAX, as_lines, listed_hits, listed_paths
from tallystick.toolsets.memory.arguments import SearchArguments
from tallystick.toolsets.memory.scope import Within
from tallystick.toolsets.memory.search_query import SearchQuery, filter_of, pinned_moment, walk_of
from tallystick.toolsets.memory.word_search import Matches, Wanted
from tallystick.toolsets.truncation import room_for, size_of

if TYPE_CHECKING:
    from tallystick.engine.store import Store
    from tallystick.projections.text import Hit, TextIndex

TOKENS_DEFAULT = 900
"""Of an answer to words, unless the caller says otherwise."""
CANDIDATES = 500
"""How many that the index finds now are looked at for the past."""
AMONG_MAX = 20_000
NEAREST_MAX = 5
TYPES_MAX = 20
NODES: frozenset[EntityKind] = frozenset({"node"})
NODES_AND_EDGES: frozenset[EntityKind] = frozenset({"node", "edge"})


async def search(
    store: Store,
    principal: Principal,
    sought: SearchQuery,
    asked: SearchArguments,
    indexes: Indexes,
    hops_max: int,
) -> Answer:
    started = time.perf_counter_ns()

    def prepare(state: State, read_filter: ReadFilter) -> Breathing[_Prepared | None]:
        if asked.if_position == state.position:
            return None
        return (yield from _prepare(state, sought, asked, read_filter, hops_max))

    # Who may not search does not reach the index.
    prepared: _Prepared | None = await store.read(principal, Action.SEARCH, prepare, resource=sought.entity_id)
    if prepared is None:
        return Answer({"unchanged": True, "position": asked.if_position})
    hits: Sequence[Hit] | None = None
    indexed: int | None = None
    most = CANDIDATES if asked.as_of is not None else sought.offset + sought.limit + 1
    index, near = indexes.text, await _near(indexes, sought, prepared)
    if indexes.near is not None and near:
        most = max(most, indexes.near.words_min)
    while True:
        is_complete = True
        if index is not None:
            found = await index.search(
                sought.words or "",
                types=prepared.types,
                kinds=NODES if sought.conditions else NODES_AND_EDGES,
                among=prepared.within.ids,
                limit=most,
                spreads=prepared.spreads,
            )
            # However common its words are, the index has no more than this to give.
            hits, is_complete, indexed = found.hits, len(found.hits) < most, found.position
            if indexes.near is not None and near:
                hits = indexes.near.fused(found.hits, near)
        look = partial(_ranked, sought, asked, prepared, hits, indexed, principal)
        told: tuple[dict[str, Any], bool] = await store.read(principal, Action.SEARCH, look, resource=sought.entity_id)
        answer, is_short = told
        if is_complete or not is_short:
            break
        if asked.as_of is not None:
            answer["truncated"] = True
            break
        most *= 4
    if not answer["entities"] and index is not None and "types" in answer:
        answer["nearest"] = await index.nearest_words(sought.words or "", NEAREST_MAX)
    answer["query_latency_ms"] = elapsed_ms(started)
    return Answer(answer, text=as_lines(answer) if asked.fields is None and not principal.is_program else None)


class NearSearch(Protocol):
    """Finds entities of one tenant that mean about what words mean, whichever words they use."""

    words_min: int
    """So many that words find, if there are, have to be known for the order to be the same on every page."""

    async def search(
        self,
        words: str,
        *,
        types: Collection[str] | None,
        kinds: Collection[EntityKind],
        among: Collection[str] | None,
    ) -> list[Hit]:
        """Best first; the filters are those of the text index. None where it cannot be used: words are left."""
        ...

    def fused(self, by_words: Sequence[Hit], near: Sequence[Hit]) -> list[Hit]:
        """Return both in one order, best first."""
        ...


class Indexes(msgspec.Struct, frozen=True):
    """Of a tenant. Without one of words everything is read."""

    text: TextIndex | None
    near: NearSearch | None = None


async def _near(indexes: Indexes, sought: SearchQuery, prepared: _Prepared) -> list[Hit]:
    """What means about the same. Ranks tell how many come before, so nobody gets them from whom something is
    withheld; and the past is searched by words alone."""
    if indexes.text is None or indexes.near is None or not prepared.spreads:
        return []
    return await indexes.near.search(
        sought.words or "",
        types=prepared.types,
        kinds=NODES if sought.conditions else NODES_AND_EDGES,
        among=prepared.within.ids,
    )


class _Prepared(msgspec.Struct, frozen=True):
    within: Within
    types: frozenset[str] | None
    """Of nodes, and relations."""
    spreads: bool
    """Not into the past, nor where something is withheld: a hit would tell what its neighbour says."""
    paths: list[Path] | None = None
    edges_traversed: int = 0


def _prepare(
    state: State, sought: SearchQuery, asked: SearchArguments, read_filter: ReadFilter, hops_max: int
) -> Breathing[_Prepared]:
    """What the words are looked for in, and which way led there."""
    read_filter.judges_pins = True
    at = pinned_moment(state, asked, read_filter)
    within = yield from scope.resolve(state, read_filter, sought.scope, at)
    if asked.stale:
        within = yield from scope.only_stale(state, read_filter, within)
    paths, crossed = None, 0
    if sought.traversal is not None:
        walk = walk_of(sought, sought.traversal, at, hops_max, read_filter)
        walked = yield from state.walk(msgspec.structs.replace(walk, reads_nodes=False))
        within = within.among(walked.ids, truncated=walked.truncated)
        paths, crossed = walked.paths, walked.edges_traversed
    elif sought.entity_id is not None:
        within = within.among([sought.entity_id])
    if sought.conditions and within.ids is None:
        ids = yield from state.find_ids(msgspec.structs.replace(filter_of(sought, at), types=within.types), AMONG_MAX)
        within = within if ids is None else within.among(ids)
    types = None if within.types is None else within.types | frozenset(state.relations())
    if sought.type is not None:
        types = frozenset([sought.type])
    return _Prepared(within, types, asked.as_of is None and not read_filter.narrows, paths, crossed)


def _ranked(
    sought: SearchQuery,
    asked: SearchArguments,
    prepared: _Prepared,
    hits: Sequence[Hit] | None,
    indexed: int | None,
    principal: Principal,
    state: State,
    read_filter: ReadFilter,
) -> Breathing[tuple[dict[str, Any], bool]]:
    """The answer, and whether more of what the index finds may belong to it. `indexed`: where the index stands that is
    not at the head."""
    read_filter.judges_pins = True
    at = pinned_moment(state, asked, read_filter)
    # A walk through time uses its window for the edges.
    timed = sought if sought.traversal is None else msgspec.structs.replace(sought, since=None, until=None)
    wanted = Wanted(
        query=sought.words or "",
        filter=filter_of(timed, at),
        within=prepared.within,
        nodes_only=bool(sought.conditions),
        offset=sought.offset,
        limit=sought.limit,
    )
    if hits is not None and indexed is not None:
        hits = yield from _untouched(state, hits, indexed)
    if asked.as_of is None and hits is not None:
        found = yield from word_search.page_of(state, read_filter, wanted, hits)
    else:
        found = yield from word_search.past(state, read_filter, wanted, hits)
    # A model reads lines of text, whose tokens it limits; the structured content beside them has its own limit.
    bytes_max = room_for(principal, ANSWER_BYTES_MAX) if asked.fields is None else sought.bytes_max
    ways = yield from _ways(prepared, found, read_filter, bytes_max // 2)
    left = bytes_max - size_of(ways)
    tokens_max = _tokens_for(asked, principal)
    answer = yield from listed_hits(state, read_filter, wanted, found, asked.fields, tokens_max, left)
    if not found.hits and not sought.offset:
        answer |= _nothing_found(state, read_filter, wanted)
    if _is_deleted(state, read_filter, wanted.query):
        answer["deleted"] = wanted.query
    answer |= ways
    truncated = found.truncated or prepared.within.truncated or indexed is not None
    answer |= {"position": state.position, "cache_hit": False} | ({"truncated": True} if truncated else {})
    if indexed is not None:
        answer["indexed_position"] = indexed
    return answer, found.is_short


def _untouched(state: State, hits: Sequence[Hit], indexed: int) -> Breathing[list[Hit]]:
    """Those that are as the index knows them: of the others, what it says may have been redacted since."""
    touched = frozenset((yield from state.touched_since(indexed)))
    return [hit for hit in hits if (hit.kind, hit.id) not in touched]


def _tokens_for(asked: SearchArguments, principal: Principal) -> int | None:
    """None where a program reads, and can hold any number."""
    return asked.max_tokens or (None if principal.is_program else TOKENS_DEFAULT)


def _nothing_found(state: State, read_filter: ReadFilter, wanted: Wanted) -> dict[str, Any]:
    """What was looked for; and, where nothing is withheld, what there is instead."""
    told: dict[str, Any] = {"looked_for": asked_words(wanted.query)}
    if not read_filter.narrows:
        types = state.types()
        told["types"] = sorted(types, key=lambda name: -types[name])[:TYPES_MAX]
    return told


def _is_deleted(state: State, read_filter: ReadFilter, query: str) -> bool:
    """Return whether the query is the id of an entity that was deleted, and that the caller may read."""
    exists = state.owner(query) is not None or state.edge_owner(query) is not None
    return not exists and read_filter.allows_entity(query)


def _ways(prepared: _Prepared, found: Matches, read_filter: ReadFilter, bytes_max: int) -> Breathing[dict[str, Any]]:
    if prepared.paths is None:
        return {}
    ends = {hit.entity.id for hit in found.hits}
    paths = [path for path in prepared.paths if path.ids[-1] in ends]
    shown = yield from listed_paths(paths, read_filter, bytes_max)
    return {**shown, "edges_traversed": prepared.edges_traversed, "delegated_to": None}
