"""The scope of a search: the entities of a project, of a vocabulary, or around one of them."""

from __future__ import annotations

import msgspec

from tallystick.state import Breathing, Condition, Query, Walk
from tallystick.state.ontology import Ontology
from tallystick.state.read_filter import ReadFilter
from tallystick.state.stale_facts import find_stale
from tallystick.state.state import State
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.memory.arguments import Scope, Vocabulary

IDS_MAX = 20_000
_PROJECT = "work/project"
BELONGS_BY = ("project", "projectId")
HANGS_ON = ("entityId", "parentId")
"""What sections and changelogs belong to."""
_PREFIXES: dict[Vocabulary, tuple[str, ...]] = {
    "work": ("work/",),
    "tasks": ("tasks/", "work/"),
    "knowledge": ("knowledge/",),
    "ontology": ("ontology/",),
}


class Within(msgspec.Struct, frozen=True):
    """What a search is restricted to; None where it is not."""

    ids: list[str] | None = None
    types: frozenset[str] | None = None
    truncated: bool = False

    def among(self, ids: list[str], *, truncated: bool = False) -> Within:
        """Restricted to these, too."""
        known = None if self.ids is None else frozenset(self.ids)
        kept = [each for each in ids if known is None or each in known]
        return Within(kept, self.types, self.truncated or truncated)


def problems_of(scope: Scope | None) -> list[str]:
    if scope is None:
        return []
    given = [name for name in ("project", "vocabulary", "around") if getattr(scope, name) is not None]
    problems = [] if len(given) == 1 else ["field 'scope' takes one of 'project', 'vocabulary' and 'around'"]
    if scope.hops is not None and scope.around is None:
        problems.append("field 'scope.hops' goes with 'scope.around'")
    return problems


def resolve(state: State, read_filter: ReadFilter, scope: Scope | None, at: int) -> Breathing[Within]:
    if scope is None:
        return Within()
    if scope.vocabulary is not None:
        return Within(types=_types(state, scope.vocabulary))
    if scope.around is not None:
        return (yield from _around(state, read_filter, scope.around, scope.hops or 1, at))
    return (yield from _project(state, read_filter, scope.project or "", at))


def only_stale(state: State, read_filter: ReadFilter, within: Within) -> Breathing[Within]:
    found = yield from find_stale(state, read_filter)
    return within.among(list(found))


def _types(state: State, vocabulary: Vocabulary) -> frozenset[str]:
    """Of all that there is or was: in the past there may have been others."""
    types = state.known_types()
    if vocabulary in _PREFIXES:
        named = frozenset(name for name in types if name.startswith(_PREFIXES[vocabulary]))
        return named | (frozenset(state.derived(Ontology).node_types) if vocabulary == "ontology" else frozenset())
    ours = {prefix for prefixes in _PREFIXES.values() for prefix in prefixes}
    return frozenset(name for name in types if not name.startswith(tuple(ours)))


def _around(state: State, read_filter: ReadFilter, entity_id: str, hops: int, at: int) -> Breathing[Within]:
    walk = Walk(start=entity_id, hops=hops, direction="both", at=at, entities_max=IDS_MAX, read_filter=read_filter)
    found = yield from state.reach(walk)
    return Within(ids=[*found.nodes, *found.edges], truncated=found.truncated)


def _project(state: State, read_filter: ReadFilter, project: str, at: int) -> Breathing[Within]:
    """By its name, its root or its id: what says that it belongs to it, and what hangs on that."""
    board = state.derived(WorkGraph).project(project)
    named = yield from _ids(state, at, "name", [project], type=_PROJECT)
    found = (*named, project) if board is None else (*named, board.id, project)
    projects = [each for each in dict.fromkeys(found) if each == project or read_filter.allows(each)]
    members = dict.fromkeys(each for each in projects if state.knows(each))
    for key in BELONGS_BY:
        members |= dict.fromkeys((yield from _ids(state, at, key, projects)))
    hanging = list(members)
    for start in range(0, len(hanging), _CHOICES):
        for key in HANGS_ON:
            members |= dict.fromkeys((yield from _ids(state, at, key, hanging[start : start + _CHOICES])))
    return Within(ids=list(members)[:IDS_MAX], truncated=len(members) > IDS_MAX)


_CHOICES = 1_000


def _ids(state: State, at: int, key: str, values: list[str], type: str | None = None) -> Breathing[list[str]]:
    query = Query(type=type, conditions=(Condition(key, "in", values),), at=at)
    return (yield from state.find_ids(query, IDS_MAX)) or []
