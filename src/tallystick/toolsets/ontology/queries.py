"""query_nodes, query_connections, get_connected_nodes, search_content: ids, a page at a time.

Pages are as long as an agent can take in. Whoever gets everything is told nothing of pages;
otherwise `next_offset` says where to go on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tallystick.policy import Action, Principal
from tallystick.projections.text import RANKED_LIMIT, Hit
from tallystick.state import Breathing
from tallystick.state.members import Found, find_connections, find_neighbours, find_nodes
from tallystick.state.ontology import ConnectionType, Ontology, check_properties
from tallystick.state.state import State
from tallystick.toolsets import Answer
from tallystick.toolsets.ontology import lookup
from tallystick.toolsets.ontology.arguments import GetConnectedNodes, QueryConnections, QueryNodes, SearchContent
from tallystick.toolsets.ontology.desk import Desk

if TYPE_CHECKING:
    from tallystick.store import Store

PAGE_BYTES_MAX = 50_000
PAGE_IDS_MAX = 5_000
SKIPPED_MAX = 100


async def query_nodes(desk: Desk, store: Store, principal: Principal, asked: QueryNodes) -> Answer:
    check_properties(asked.properties or {})

    def look(state: State) -> Breathing[Found]:
        types = _types(state, asked.type)
        return find_nodes(state, types, asked.properties or {}, offset=asked.offset or 0, limit=_limit(asked.limit))

    found: Found = await store.read(principal, Action.SEARCH, look)
    return Answer(_page("node_ids", found, asked.offset or 0))


async def query_connections(desk: Desk, store: Store, principal: Principal, asked: QueryConnections) -> Answer:
    check_properties(asked.properties or {})

    def look(state: State) -> Breathing[Found]:
        return find_connections(
            state,
            _kinds(state, asked.type),
            asked.properties or {},
            source=asked.from_node_id,
            target=asked.to_node_id,
            offset=asked.offset or 0,
            limit=_limit(asked.limit),
        )

    found: Found = await store.read(principal, Action.SEARCH, look)
    return Answer(_page("connection_ids", found, asked.offset or 0))


async def get_connected_nodes(desk: Desk, store: Store, principal: Principal, asked: GetConnectedNodes) -> Answer:
    offset = asked.offset or 0

    def look(state: State) -> Found:
        lookup.get_type(state, asked.node_id)
        kinds = _kinds(state, asked.connection_type)
        found = find_neighbours(state, asked.node_id, kinds, asked.direction)
        return Found(found[offset : offset + _limit(asked.limit)], len(found))

    found = await store.read(principal, Action.SEARCH, look, resource=asked.node_id)
    return Answer(_page("node_ids", found, offset))


async def search_content(desk: Desk, store: Store, principal: Principal, asked: SearchContent) -> Answer:
    """The index holds the contents of every toolset; what is no typed memory is left out here."""
    ranked = asked.mode == "ranked"
    offset, limit = asked.offset or 0, _limit(asked.limit or (RANKED_LIMIT if ranked else None))
    most = offset + limit + 1
    await store.read(principal, Action.SEARCH, lambda state: None)  # Who may not search does not reach the index.
    while True:
        found = await desk.text_of(principal).search(
            asked.query, node_type=asked.node_type, limit=most, mode=asked.mode
        )
        typed = await store.read(principal, Action.SEARCH, partial(_typed, hits=found.hits))
        if len(typed) > offset + limit or len(found.hits) < most:
            break
        most *= 2
    page = _fitting_hits(typed[offset : offset + limit], ranked=ranked)
    answer: dict[str, Any] = {"node_ids": [hit.node_id for hit in page]}
    if ranked:
        answer["hits"] = [{"node_id": hit.node_id, "score": hit.score, "snippet": hit.snippet} for hit in page]
    if page and offset + len(page) < len(typed):
        answer["next_offset"] = offset + len(page)
    if found.skipped:
        answer["skipped"] = found.skipped[:SKIPPED_MAX]
    return Answer(answer)


def _typed(state: State, hits: list[Hit]) -> list[Hit]:
    ontology = state.aspect(Ontology)
    types = ((hit, state.owner(hit.node_id)) for hit in hits)
    return [hit for hit, known in types if known is not None and ontology.has_node_type(known[0])]


def _fitting_hits(hits: list[Hit], *, ranked: bool) -> list[Hit]:
    said = [f"{hit.node_id}{hit.node_id}{hit.snippet or ''}{' ' * 50}" if ranked else hit.node_id for hit in hits]
    return hits[: len(_fitting(said))]


def _types(state: State, wanted: str | None) -> list[str]:
    """Those of the ontology; a type that it does not name has no members."""
    return [name for name in state.aspect(Ontology).node_types if wanted in (None, name)]


def _kinds(state: State, wanted: str | None) -> list[ConnectionType]:
    return [kind for kind in state.aspect(Ontology).connection_types if wanted in (None, kind.name)]


def _limit(asked: int | None) -> int:
    return min(asked or PAGE_IDS_MAX, PAGE_IDS_MAX)


def _page(key: str, found: Found, offset: int) -> dict[str, Any]:
    shown = _fitting(found.ids)
    end = offset + len(shown)
    more = {"next_offset": end, "total": found.total} if shown and end < found.total else {}
    return {key: shown, **more}


def _fitting(ids: list[str]) -> list[str]:
    left = PAGE_BYTES_MAX
    for number, each in enumerate(ids):
        left -= len(each.encode()) + 3
        if left < 0 and number > 0:
            return ids[:number]
    return ids
