"""The derived indexes that the tools of each toolset read."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.extension import installed, load
from tallystick.state.derived_index import DerivedIndex
from tallystick.state.knowledge.catalogue import Knowledge
from tallystick.state.ontology import Ontology
from tallystick.state.trust import Trust
from tallystick.state.work.graph import WorkGraph
from tallystick.state.work.sections import Sections

_BY_TOOLSET: dict[str, tuple[type[DerivedIndex], ...]] = {
    "memory": (Ontology, Trust),
    "work": (WorkGraph, Sections, Knowledge, Ontology),
    "knowledge": (Knowledge, WorkGraph, Ontology),
}


def indexes_of(offered: Sequence[str]) -> list[type[DerivedIndex]]:
    """Return each index once that one of these toolsets reads, or any if `all` are offered."""
    core = [kind for name, kinds in _BY_TOOLSET.items() if _is_offered(name, offered) for kind in kinds]
    contributed = [
        load(reference)
        for name, references in installed().indexes().items()
        if _is_offered(name, offered)
        for reference in references
    ]
    return list(dict.fromkeys([*core, *contributed]))


def _is_offered(name: str, offered: Sequence[str]) -> bool:
    return name in offered or "all" in offered
