"""The knowledge whose files changed since it was pinned, at a glance: what was compared before is good enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tallystick.engine.store import Store
from tallystick.extensions.web.reports.kept_knowledge import KeptKnowledge, patterns_of
from tallystick.policy import Action, Principal
from tallystick.state.knowledge.catalogue import Atom, Knowledge
from tallystick.state.read_filter import VERIFIES_ATOM, ReadFilter
from tallystick.state.state import State
from tallystick.state.work.claims import ClaimTime
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.knowledge.context import Pins, ToolContext
from tallystick.toolsets.knowledge.reverify import find_nodes

PATTERNS_MAX = 5


class VerifyingTask(msgspec.Struct, frozen=True):
    id: str
    claimed_by: str | None
    """None while it waits for somebody."""


class StaleAtom(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    patterns: tuple[str, ...]
    pinned_at: str
    changed: int | None
    """How many of its files; None where that is not known."""
    changed_files: tuple[str, ...]
    """Some of them."""
    task: VerifyingTask | None
    """To look at it again."""


class StaleKnowledge(msgspec.Struct, frozen=True, kw_only=True):
    atoms: list[StaleAtom]
    """Those that were pinned longest ago, first."""
    stale: int
    pinned: int
    """Of how many: all others cannot be compared with any file."""
    unknown: int
    """Of which git does not know, or not yet."""
    compared_at: str | None
    is_compared: bool
    """False while git looks at some of them for the first time."""


async def list_stale_knowledge(
    context: ToolContext, store: Store, principal: Principal, kept: KeptKnowledge, most: int
) -> StaleKnowledge:
    """Waits for git the first time only, and not for long."""

    def look(state: State, read_filter: ReadFilter) -> tuple[Pins, dict[str, Atom]]:
        atoms = _readable(state.derived(Knowledge), read_filter)
        return kept.pins(state, atoms), {atom.id: atom for atom in atoms}

    pins, atoms = await store.read(principal, Action.SEARCH, look)
    comparison = await kept.glance(context, pins, atoms)
    stale = {atom: said for atom, said in comparison.said.items() if not said["fresh"]}
    listed = sorted(stale, key=lambda atom: (stale[atom]["pinnedAt"], atoms[atom].order))[:most]
    return StaleKnowledge(
        atoms=await _details(context, store, principal, {atom: stale[atom] for atom in listed}),
        stale=len(stale),
        pinned=len(pins),
        unknown=len(pins) - len(comparison.said),
        compared_at=comparison.at,
        is_compared=comparison.is_whole,
    )


def _readable(knowledge: Knowledge, read_filter: ReadFilter) -> list[Atom]:
    """Those that are pinned, of projects that may be read too."""
    projects = set(read_filter.readable(knowledge.projects()))
    pinned = [atom for atom in knowledge.atoms.values() if atom.pinned and atom.project in projects]
    return read_filter.readable(pinned, lambda atom: atom.id)


async def _details(
    context: ToolContext, store: Store, principal: Principal, stale: Mapping[str, Mapping[str, Any]]
) -> list[StaleAtom]:
    def look(state: State, read_filter: ReadFilter) -> list[StaleAtom]:
        atoms, graph = state.derived(Knowledge).atoms, state.derived(WorkGraph)
        seen, moment = read_filter.readable(each for each in stale if each in atoms), context.work.moment(state)
        return [_drawn(state, read_filter, graph, atoms[each], stale[each], moment) for each in seen]

    return await store.read(principal, Action.SEARCH, look) if stale else []


def _drawn(
    state: State, read_filter: ReadFilter, graph: WorkGraph, atom: Atom, said: Mapping[str, Any], moment: ClaimTime
) -> StaleAtom:
    node = state.node(atom.id)
    changed: Sequence[str] | None = said.get("changedFiles")
    return StaleAtom(
        id=atom.id,
        name=atom.name,
        patterns=tuple(patterns_of(node.attrs if node is not None else {})[:PATTERNS_MAX]),
        pinned_at=said["pinnedAt"],
        changed=None if changed is None else len(changed) + said.get("changedFilesOmitted", 0),
        changed_files=tuple(changed or ()),
        task=_task(read_filter, graph, atom, moment),
    )


def _task(read_filter: ReadFilter, graph: WorkGraph, atom: Atom, moment: ClaimTime) -> VerifyingTask | None:
    rows = (row for row in find_nodes(graph, VERIFIES_ATOM, atom.id) if row.open)
    found = read_filter.first(rows, lambda row: read_filter.allows(row.id), 1)
    return VerifyingTask(found[0].id, found[0].owner if moment.is_claimed(found[0]) else None) if found else None
