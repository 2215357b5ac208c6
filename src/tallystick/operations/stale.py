"""What may not hold any more: stale facts, knowledge whose files changed, and contradictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from tallystick.commits import reserved_attributes
from tallystick.engine.store import Store
from tallystick.operations import OperationContext
from tallystick.policy import Action, Principal
from tallystick.state import Breathing
from tallystick.state.read_filter import ReadFilter
from tallystick.state.stale_facts import Contradiction, find_cited, find_differing, find_rings, find_stale
from tallystick.state.staleness import CHANGED
from tallystick.state.state import State
from tallystick.toolsets.cited_files import CitedFiles
from tallystick.toolsets.knowledge.context import ToolContext
from tallystick.toolsets.knowledge.reverify import add_work
from tallystick.toolsets.knowledge.stale import find_stale as find_stale_atoms

TOOL = "stale"
_AT_ONCE = 500
"""A look at the state may take a second: so many entities are a small part of that."""

T = TypeVar("T")
Finding = Callable[[State, ReadFilter, list[str]], Breathing[T]]


class StaleFact(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    type: str
    """The relation, of an edge."""
    why: str
    since: str
    superseded_by: str | None = None
    files: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True):
    stale: list[StaleFact]
    """Those that have been so for longest first."""
    contradictions: list[Contradiction]


async def find(context: OperationContext, tools: ToolContext) -> Report:
    """Reads every fact that says how long it holds, and the last versions of what several authors wrote. With the
    setting stale_makes_work, work is made of what it finds."""
    principal = msgspec.structs.replace(context.principal, tool=TOOL)
    async with context.open_store_under_policy() as store:
        look = _Look(store, principal)
        facts = await _stale(look)
        contradictions = await _contradictions(look, CitedFiles(tools.repository))
        atoms = await find_stale_atoms(tools, store, principal)
        if tools.stale_makes_work:
            await add_work(tools, store, principal, atoms, tool=TOOL, most=len(atoms))
    known = {fact.id for fact in facts}
    facts += [_of_atom(atom) for atom in atoms if atom["id"] not in known]
    return Report(sorted(facts, key=lambda each: (each.since, each.id)), contradictions)


class _Look(msgspec.Struct, frozen=True):
    store: Store
    principal: Principal

    async def ids(self, of: Callable[[State, ReadFilter], list[str]]) -> list[str]:
        return await self.store.read(self.principal, Action.SEARCH, of)

    async def at_each(self, find: Finding[Iterable[T]], ids: list[str]) -> list[T]:
        found: list[T] = []
        for start in range(0, len(ids), _AT_ONCE):
            several = ids[start : start + _AT_ONCE]

            def look(state: State, read_filter: ReadFilter, several: list[str] = several) -> Breathing[list[T]]:
                return list((yield from find(state, read_filter, several)))

            part: list[T] = await self.store.read(self.principal, Action.SEARCH, look)
            found += part
        return found


async def _stale(look: _Look) -> list[StaleFact]:
    def facts(state: State, read_filter: ReadFilter, ids: list[str]) -> Breathing[list[StaleFact]]:
        found = yield from find_stale(state, read_filter, ids)
        for entity_id in found:
            read_filter.tell(entity_id)
        types = {each: (state.owner(each) or state.edge_owner(each) or ("", ""))[0] for each in found}
        return [
            StaleFact(entity_id, types[entity_id], stale.why, stale.since, stale.superseded_by, stale.files)
            for entity_id, stale in found.items()
        ]

    ids = await look.ids(lambda state, read_filter: state.maybe_stale(read_filter.now))
    return await look.at_each(facts, ids)


async def _contradictions(look: _Look, files: CitedFiles) -> list[Contradiction]:
    def cited(state: State, read_filter: ReadFilter, ids: list[str]) -> Breathing[list[tuple[str, str]]]:
        found = yield from find_cited(state, read_filter, ids)
        return [(entity_id, path) for entity_id, paths in found.items() for path in paths]

    several = await look.ids(lambda state, read_filter: state.written_by_several())
    superseding = await look.ids(lambda state, read_filter: state.having(reserved_attributes.SUPERSEDES))
    citing = await look.ids(lambda state, read_filter: state.having(reserved_attributes.CITES))
    pairs = await look.at_each(cited, citing)
    missing = await files.missing(path for _, path in pairs)
    return [
        *await look.at_each(find_differing, several),
        *await look.at_each(find_rings, superseding),
        *(Contradiction(entity_id, "file is gone", file=path) for entity_id, path in pairs if path in missing),
    ]


def _of_atom(atom: dict[str, Any]) -> StaleFact:
    files = tuple(atom.get("changedFiles") or ())
    return StaleFact(atom["id"], "knowledge/atom", CHANGED, atom["pinnedAt"], files=files)
