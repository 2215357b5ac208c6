"""The shapes of what is answered, and how much of it fits into an agent's context."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeVar

import msgspec

from tallystick.state.knowledge.catalogue import Knowledge, Parent
from tallystick.state.state import State

T = TypeVar("T")
Said = dict[str, Any]

ANSWER_BYTES_MAX = 50_000
"""25,000 tokens at two bytes each."""
LISTED_LEAST = 10
"""So many of a list are shown even where not all of them fit."""


def atom_of(knowledge: Knowledge, atom_id: str, attrs: Said) -> Said:
    """All its fields. Without the pin: what became of that is told by `fresh`."""
    return {
        "id": atom_id,
        "projectId": attrs.get("projectId"),
        "moleculeId": attrs.get("moleculeId"),
        "name": attrs.get("name"),
        "paths": listed(attrs, "paths"),
        "knowledge": text(attrs, "knowledge"),
        "relatedAtoms": related_atoms(knowledge, attrs),
        **_bookkeeping(attrs),
    }


def molecule_of(knowledge: Knowledge, molecule_id: str, attrs: Said) -> Said:
    return {
        "id": molecule_id,
        "projectId": attrs.get("projectId"),
        "name": attrs.get("name"),
        "knowledge": text(attrs, "knowledge"),
        "relatedMolecules": related_molecules(knowledge, attrs),
        **_bookkeeping(attrs),
    }


def entity_of(knowledge: Knowledge, kind: str, entity_id: str, attrs: Said) -> Said:
    return (atom_of if kind == "atom" else molecule_of)(knowledge, entity_id, attrs)


def _bookkeeping(attrs: Said) -> Said:
    return {name: attrs.get(name) for name in ("createdByTaskId", "lastTaskId", "version", "createdAt", "updatedAt")}


def related_atoms(knowledge: Knowledge, attrs: Said) -> list[Said]:
    """With the names they have now; null for what is not there any more."""
    names = {each.id: each.name for each in map(knowledge.atoms.get, _ids(attrs, "relatedAtoms", "atomId")) if each}
    return [
        {"atomId": entry.get("atomId"), "name": names.get(entry.get("atomId", "")), "reason": entry.get("reason")}
        for entry in listed(attrs, "relatedAtoms")
        if isinstance(entry, dict)
    ]


def related_molecules(knowledge: Knowledge, attrs: Said) -> list[Said]:
    ids = _ids(attrs, "relatedMolecules", "moleculeId")
    names = {each.id: each.name for each in map(knowledge.molecules.get, ids) if each}
    return [
        {
            "moleculeId": entry.get("moleculeId"),
            "name": names.get(entry.get("moleculeId", "")),
            "reason": entry.get("reason"),
        }
        for entry in listed(attrs, "relatedMolecules")
        if isinstance(entry, dict)
    ]


def _ids(attrs: Said, field: str, key: str) -> list[str]:
    entries = (entry.get(key) for entry in listed(attrs, field) if isinstance(entry, dict))
    return [entry for entry in entries if isinstance(entry, str)]


def changelog_of(
    state: State, knowledge: Knowledge, kind: Parent, parent_id: str, limit: int, at: int | None = None
) -> list[Said]:
    """The newest entries, as they are shown with their parent; `at` where others may have written since."""
    nodes = (state.node(entry_id, at) for entry_id in knowledge.changelog(kind, parent_id))
    return [
        {name: ({"id": node.id} | node.attrs).get(name) for name in ("id", "taskId", "summary", "createdAt")}
        for node in islice((node for node in nodes if node is not None), limit)
    ]


def listed(attrs: Said, field: str) -> list[Any]:
    found = attrs.get(field)
    return found if isinstance(found, list) else []


def text(attrs: Said, field: str) -> str:
    found = attrs.get(field)
    return found if isinstance(found, str) else ""


# -- how much


def size_of(value: Any) -> int:
    return len(msgspec.json.encode(value))


def fitting(items: Iterable[T], bytes_max: int) -> list[T]:
    """As many from the start as fit; the first one always."""
    found: list[T] = []
    left = bytes_max
    for item in items:
        left -= size_of(item) + 1
        if found and left < 0:
            break
        found.append(item)
    return found


def cut_list(entry: Said, name: str, most: int = LISTED_LEAST) -> None:
    if name in entry and len(entry[name]) > most:
        entry[f"{name}Omitted"] = len(entry[name]) - most
        entry[name] = entry[name][:most]


def shorten(entry: Said, bytes_max: int) -> None:
    """Cut its knowledge to about so many bytes, and say so."""
    whole = entry["knowledge"]
    if len(whole.encode()) > bytes_max:
        entry["knowledge"] = whole.encode()[:bytes_max].decode(errors="ignore") + "…"
        entry["knowledgeTruncated"] = True
