"""All facts that are stale, and the contradictions that can be seen without understanding them.

Contradictions are listed, not judged: two authors gave the same attribute of an entity different values within a
short time; facts supersede each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from tallystick.clock import from_text
from tallystick.commits import reserved_attributes
from tallystick.commits.mask import REDACTED
from tallystick.errors import Corrupt
from tallystick.state import Breathing, Node, staleness
from tallystick.state.read_filter import ReadFilter
from tallystick.state.staleness import Stale
from tallystick.state.state import State

SHORT_MILLISECONDS = 3_600_000
VERSIONS_MAX = 50
"""Of an entity, newest first, so many are compared."""
_BREATH = 50

_NOT_FACTS = ("work/", "tasks/", "trust/", "ontology/")
"""What several authors write on purpose: plans move on."""
_BOOKKEEPING = reserved_attributes.NAMES | {
    *("version", "updatedAt", "createdAt", "lastTaskId", "pin", reserved_attributes.IMPORTED),
}


class Claim(msgspec.Struct, frozen=True):
    """What somebody said, and when."""

    by: str
    at: str
    value: Any


class Contradiction(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    what: str
    """`values differ`, `supersede each other`, or `file is gone`."""
    attribute: str | None = None
    claims: tuple[Claim, ...] = ()
    others: tuple[str, ...] = ()
    """The entities it contradicts."""
    file: str | None = None


def find_stale(
    state: State, read_filter: ReadFilter, among: Iterable[str] | None = None
) -> Breathing[dict[str, Stale]]:
    """Of nodes, and of edges that were superseded: what an edge says of itself is not indexed."""
    found: dict[str, Stale] = {}
    if among is None:
        pinned = state.pinned() if read_filter.judges_pins else ()
        among = dict.fromkeys((*state.maybe_stale(read_filter.now), *pinned))
    for number, entity_id in enumerate(among):
        if is_readable(state, read_filter, entity_id) and (stale := read_filter.stale(entity_id)) is not None:
            found[entity_id] = stale
        if number % _BREATH == 0:
            yield
    return found


def is_readable(state: State, read_filter: ReadFilter, entity_id: str) -> bool:
    if state.owner(entity_id) is not None:
        return read_filter.allows(entity_id)
    return state.edge_owner(entity_id) is not None and read_filter.allows_edge(entity_id)


def find_differing(state: State, read_filter: ReadFilter, among: Iterable[str]) -> Breathing[list[Contradiction]]:
    """Where two authors said different things."""
    found: list[Contradiction] = []
    for number, node_id in enumerate(among):
        known = state.owner(node_id)
        if known is not None and not known[0].startswith(_NOT_FACTS) and read_filter.allows(node_id):
            # What is damaged is said to whoever reads it.
            with suppress(Corrupt):
                found += _differing(node_id, _versions(state, node_id))
        if number % _BREATH == 0:
            yield
    return found


def find_rings(state: State, read_filter: ReadFilter, among: Iterable[str]) -> Breathing[list[Contradiction]]:
    """Facts that supersede each other."""
    found: list[Contradiction] = []
    for number, node_id in enumerate(among):
        ring = _ring(state, read_filter, node_id)
        if ring and node_id == min((node_id, *ring)):
            found.append(Contradiction(node_id, "supersede each other", others=ring))
        if number % _BREATH == 0:
            yield
    return found


def _versions(state: State, node_id: str) -> list[Node]:
    """Newest first, of its last life."""
    found: list[Node] = []
    at = state.count
    while len(found) < VERSIONS_MAX and (node := state.node(node_id, at)) is not None:
        found.append(node)
        at = state.resolve(node.provenance.lamport) - 1
    return found


def _differing(node_id: str, versions: list[Node]) -> list[Contradiction]:
    found: list[Contradiction] = []
    verified = staleness.verified_at(versions[0].attrs) if versions else None
    for name in versions[0].attrs.keys() - _BOOKKEEPING if versions else ():
        claims = _claims(name, versions)
        if len(claims) < 2 or claims[0].by == claims[1].by or REDACTED in (claims[0].value, claims[1].value):
            continue
        newer, older = from_text(claims[0].at), from_text(claims[1].at)
        if newer - older <= SHORT_MILLISECONDS and not (verified is not None and verified > newer):
            found.append(Contradiction(node_id, "values differ", name, (claims[1], claims[0])))
    return sorted(found, key=lambda each: each.attribute or "")


def _claims(name: str, versions: list[Node]) -> list[Claim]:
    """The last two values, newest first, each as its author set it."""
    claims: list[Claim] = []
    for version, before in zip(versions, [*versions[1:], None], strict=True):
        if name not in version.attrs:
            break
        if before is not None and name in before.attrs and before.attrs[name] == version.attrs[name]:
            continue
        claims.append(Claim(version.provenance.updated_by, version.provenance.timestamp, version.attrs[name]))
        if len(claims) == 2:
            break
    return claims


def _ring(state: State, read_filter: ReadFilter, node_id: str) -> tuple[str, ...]:
    """The facts on the way from one back to itself, if there is one that may be read."""
    way: list[str] = []
    each = node_id
    while len(way) < staleness.CHAIN_MAX and read_filter.allows(each):
        node = state.node(each)
        named = staleness.superseded_by_it(node.attrs) if node is not None else []
        if node_id in named:
            return tuple(way)
        further = next((other for other in named if other not in way and state.owner(other) is not None), None)
        if further is None:
            return ()
        way.append(further)
        each = further
    return ()


def find_cited(state: State, read_filter: ReadFilter, among: Iterable[str]) -> Breathing[dict[str, list[str]]]:
    """The files that each fact cites, pinned or not."""
    found: dict[str, list[str]] = {}
    for number, node_id in enumerate(among):
        node = state.node(node_id) if read_filter.allows(node_id) else None
        if node is not None:
            found[node_id] = [path for path in reserved_attributes.cited_paths(node.attrs) if staleness.is_path(path)]
        if number % _BREATH == 0:
            yield
    return found
