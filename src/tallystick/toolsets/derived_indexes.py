"""Which derived indexes the tools of each toolset look at."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.state.derived_index import DerivedIndex
from tallystick.state.knowledge.catalogue import Knowledge
from tallystick.state.ontology import Ontology
from tallystick.state.tasks import Sections, TaskCards
from tallystick.state.trust import Trust
from tallystick.state.work.graph import WorkGraph

_BY_TOOLSET: dict[str, tuple[type[DerivedIndex], ...]] = {
    "memory": (Ontology, Trust),
    "work": (WorkGraph, Sections, Knowledge, Ontology),
    "knowledge": (Knowledge, WorkGraph, Ontology),
    "tasks": (WorkGraph, TaskCards, Sections, Knowledge, Ontology),
    "ontology": (Ontology,),
    "files": (Ontology,),
}


def indexes_of(offered: Sequence[str]) -> list[type[DerivedIndex]]:
    names = _BY_TOOLSET if "all" in offered else [name for name in _BY_TOOLSET if name in offered]
    return list(dict.fromkeys(kind for name in names for kind in _BY_TOOLSET[name]))
