"""query_nodes, query_connections, get_connected_nodes, search_content: ids, a page at a time.

Pages are as long as an agent can take in. An answer that holds everything says nothing of pages;
otherwise `next_offset` says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import msgspec

from tallystick.extensions.ontology import lookup
from tallystick.extensions.ontology.arguments import GetConnectedNodes, QueryConnections, QueryNodes, SearchContent
from tallystick.extensions.ontology.context import Call
from tallystick.extensions.ontology.members import IdPage, find_connections, find_neighbours, find_nodes
from tallystick.policy import Action, Principal
from tallystick.projections.text import RANKED_LIMIT, ContentHit
from tallystick.state import Breathing
from tallystick.state.ontology import ConnectionType, Ontology, check_properties
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import Answer, JsonObject
from tallystick.toolsets.truncation import cut_short, room_for

PAGE_BYTES_MAX = 50_000
PAGE_IDS_MAX = 5_000
SKIPPED_MAX = 100


async def query_nodes(call: Call, asked: QueryNodes) -> Answer:
    check_properties(asked.properties or {})

    def look(state: State, read_filter: ReadFilter) -> Breathing[JsonObject]:
        find = partial(find_nodes, state, _types(state, asked.type), asked.properties or {})
        found = yield from _readable(find, read_filter, read_filter.allows, asked.offset or 0, _limit(asked.limit))
        return _page("node_ids", found, asked.offset or 0, read_filter, call.principal)

    return Answer(await call.read(Action.SEARCH, look))


async def query_connections(call: Call, asked: QueryConnections) -> Answer:
    check_properties(asked.properties or {})

    def look(state: State, read_filter: ReadFilter) -> Breathing[JsonObject]:
        find = partial(
            find_connections,
            state,
            _kinds(state, asked.type),
            asked.properties or {},
            source=asked.from_node_id,
            target=asked.to_node_id,
        )
        found = yield from _readable(find, read_filter, read_filter.allows_edge, asked.offset or 0, _limit(asked.limit))
        return _page("connection_ids", found, asked.offset or 0, read_filter, call.principal)

    return Answer(await call.read(Action.SEARCH, look))


async def get_connected_nodes(call: Call, asked: GetConnectedNodes) -> Answer:
    offset = asked.offset or 0

    def look(state: State, read_filter: ReadFilter) -> JsonObject:
        lookup.get_type(state, asked.node_id)
        if not read_filter.allows(asked.node_id):
            raise lookup.no_node(asked.node_id)
        kinds = _kinds(state, asked.connection_type)
        found = [
            each for each in find_neighbours(state, asked.node_id, kinds, asked.direction) if read_filter.allows(each)
        ]
        page = IdPage(found[offset : offset + _limit(asked.limit)], len(found))
        return _page("node_ids", page, offset, read_filter, call.principal)

    return Answer(await call.read(Action.SEARCH, look, resource=asked.node_id))


async def search_content(call: Call, asked: SearchContent) -> Answer:
    """The index holds the contents of every toolset; what is no typed memory is left out here."""
    ranked = asked.mode == "ranked"
    offset, limit = asked.offset or 0, _limit(asked.limit or (RANKED_LIMIT if ranked else None))
    most = offset + limit + 1
    # Who may not search does not reach the index.
    await call.read(Action.SEARCH, lambda state, read_filter: None)
    while True:
        found = await call.text().contents(asked.query, node_type=asked.node_type, limit=most, mode=asked.mode)
        look = partial(_typed, hits=found.hits, ranked=ranked, start=offset, stop=offset + limit)
        typed, flags, settled = await call.read(Action.SEARCH, look)
        if settled or len(found.hits) < most:
            break
        most *= 2
    page = _fitting_hits(typed[offset : offset + limit], room_for(call.principal, PAGE_BYTES_MAX), ranked=ranked)
    answer: JsonObject = {"node_ids": [hit.node_id for hit in page]}
    if ranked:
        answer["hits"] = list(map(_hit, page))
    if page and offset + len(page) < len(typed):
        answer["next_offset"] = offset + len(page)
    answer |= cut_short(len(page), limit=limit, left=len(typed) - offset)
    too_long = found.skipped[: SKIPPED_MAX + 1]
    if too_long and (
        skipped := await call.read(Action.SEARCH, lambda state, read_filter: read_filter.readable(too_long))
    ):
        answer["skipped"] = skipped[:SKIPPED_MAX]
        answer |= cut_short(SKIPPED_MAX, limit=SKIPPED_MAX + 1, left=len(skipped), note="skipped_truncated")
    for name, flagged in flags.items():
        if shown := [hit.node_id for hit in page if hit.node_id in flagged]:
            answer[name] = shown
    return Answer(answer)


def _hit(hit: ContentHit) -> JsonObject:
    score = {} if hit.score is None else {"score": hit.score}
    return {"node_id": hit.node_id, **score, "snippet": hit.snippet}


def _typed(
    state: State, read_filter: ReadFilter, *, hits: list[ContentHit], ranked: bool, start: int, stop: int
) -> tuple[list[ContentHit], dict[str, list[str]], bool]:
    """Those that are typed memories and may be read; which on the page were recalled or are stale; whether the page
    would be the same if there were more hits behind these."""
    ontology = state.derived(Ontology)
    types = ((hit, state.owner(hit.node_id)) for hit in hits)
    typed = [hit for hit, known in types if known is not None and ontology.has_node_type(known[0])]
    seen = [hit for hit in typed if read_filter.allows(hit.node_id)]
    if read_filter.narrows:
        # Words weigh by how common they are in the whole memory, so a score depends on what may not be read.
        seen = [msgspec.structs.replace(hit, score=None) for hit in seen]
    end = stop
    if not ranked:
        seen, end = _by_creation(state, seen, start, stop)
    return seen, read_filter.flags(hit.node_id for hit in seen[start:stop]), end < len(seen)


def _by_creation(state: State, hits: list[ContentHit], start: int, stop: int) -> tuple[list[ContentHit], int]:
    """The index gives hits in commit order. From `start` to `stop`, those created at the same time now go by
    id; also where those end that were created together with the last of them."""
    created = cache(lambda at: state.created_at(hits[at].node_id))
    while 0 < start < len(hits) and created(start - 1) == created(start):
        start -= 1
    while stop < len(hits) and created(stop - 1) == created(stop):
        stop += 1
    order = sorted(range(start, min(stop, len(hits))), key=lambda at: (created(at), hits[at].node_id))
    return [*hits[:start], *(hits[at] for at in order), *hits[stop:]], stop


def _readable(
    find: Callable[..., Breathing[IdPage]],
    read_filter: ReadFilter,
    shows: Callable[[str], bool],
    offset: int,
    limit: int,
) -> Breathing[IdPage]:
    """The page of what may be read; where something may be withheld the total only says whether there is more."""
    if not read_filter.narrows:
        return (yield from find(offset=offset, limit=limit))
    end = offset + limit
    taken = end + 1
    while True:
        found: IdPage = yield from find(offset=0, limit=taken)
        seen = [each for each in found.ids if shows(each)]
        if len(seen) > end or taken >= found.total or read_filter.pending:
            return IdPage(seen[offset:end], min(len(seen), end + 1), is_at_least=len(seen) > end)
        taken *= 4


def _fitting_hits(hits: list[ContentHit], bytes_max: int, *, ranked: bool) -> list[ContentHit]:
    said = [f"{hit.node_id}{hit.node_id}{hit.snippet or ''}{' ' * 50}" if ranked else hit.node_id for hit in hits]
    return hits[: len(_fitting(said, bytes_max))]


def _types(state: State, wanted: str | None) -> list[str]:
    """Those of the ontology; a type that it does not name has no members."""
    return [name for name in state.derived(Ontology).node_types if wanted in (None, name)]


def _kinds(state: State, wanted: str | None) -> list[ConnectionType]:
    return [kind for kind in state.derived(Ontology).connection_types if wanted in (None, kind.name)]


def _limit(asked: int | None) -> int:
    return min(asked or PAGE_IDS_MAX, PAGE_IDS_MAX)


def _page(key: str, found: IdPage, offset: int, read_filter: ReadFilter, principal: Principal) -> JsonObject:
    shown = _fitting(found.ids, room_for(principal, PAGE_BYTES_MAX))
    end = offset + len(shown)
    more: JsonObject = {"next_offset": end, "total": found.total} if shown and end < found.total else {}
    more |= {"at_least": True} if more and found.is_at_least else {}
    more |= cut_short(len(shown), limit=len(found.ids), left=len(found.ids))
    return {key: shown, **more, **read_filter.flags(shown)}


def _fitting(ids: list[str], bytes_max: int) -> list[str]:
    left = bytes_max
    for number, each in enumerate(ids):
        left -= len(each.encode()) + 3
        if left < 0 and number > 0:
            return ids[:number]
    return ids
