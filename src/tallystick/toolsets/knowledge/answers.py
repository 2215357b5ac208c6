"""The shapes of what is answered, and how much of it fits into an agent's context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallystick.state import Node
from tallystick.state.attributes import list_of, text_of
from tallystick.state.knowledge.catalogue import Atom, Knowledge, Molecule, Parent
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import JsonObject

ANSWER_BYTES_MAX = 50_000
"""25,000 tokens at two bytes each."""
LISTED_LEAST = 10
"""So many of a list are shown even where not all of them fit."""


def entity_of(
    knowledge: Knowledge, read_filter: ReadFilter, kind: str, entity_id: str, attrs: JsonObject
) -> JsonObject:
    """All its fields, and whether it was recalled."""
    describe = _atom if kind == "atom" else _molecule
    return read_filter.warned(entity_id, {"id": entity_id, **describe(knowledge, read_filter, attrs)})


def _atom(knowledge: Knowledge, read_filter: ReadFilter, attrs: JsonObject) -> JsonObject:
    """Without the pin: `fresh` says what became of that."""
    return {
        "projectId": read_filter.reference(attrs.get("projectId")),
        "moleculeId": read_filter.reference(attrs.get("moleculeId")),
        "name": attrs.get("name"),
        "paths": list_of(attrs, "paths"),
        "knowledge": text_of(attrs, "knowledge"),
        "relatedAtoms": related_atoms(knowledge, read_filter, attrs),
        **_bookkeeping(read_filter, attrs),
    }


def _molecule(knowledge: Knowledge, read_filter: ReadFilter, attrs: JsonObject) -> JsonObject:
    return {
        "projectId": read_filter.reference(attrs.get("projectId")),
        "name": attrs.get("name"),
        "knowledge": text_of(attrs, "knowledge"),
        "relatedMolecules": related_molecules(knowledge, read_filter, attrs),
        **_bookkeeping(read_filter, attrs),
    }


def _bookkeeping(read_filter: ReadFilter, attrs: JsonObject) -> JsonObject:
    tasks = {name: read_filter.reference(attrs.get(name)) for name in ("createdByTaskId", "lastTaskId")}
    return tasks | {name: attrs.get(name) for name in ("version", "createdAt", "updatedAt")}


def related_atoms(knowledge: Knowledge, read_filter: ReadFilter, attrs: JsonObject) -> list[JsonObject]:
    return _related(knowledge.atoms, read_filter, attrs, "relatedAtoms", "atomId")


def related_molecules(knowledge: Knowledge, read_filter: ReadFilter, attrs: JsonObject) -> list[JsonObject]:
    return _related(knowledge.molecules, read_filter, attrs, "relatedMolecules", "moleculeId")


def _related(
    known: Mapping[str, Atom] | Mapping[str, Molecule], read_filter: ReadFilter, attrs: JsonObject, field: str, key: str
) -> list[JsonObject]:
    """With the names they have now; null for what is not there any more."""

    def name_of(entry: JsonObject) -> str:
        return str(entry.get(key))

    entries = (entry for entry in list_of(attrs, field) if isinstance(entry, dict))
    related = []
    for entry in entries:
        other = known.get(name_of(entry))
        line = {key: entry.get(key), "name": other.name if other else None, "reason": entry.get("reason")}
        if read_filter.allows_reference(name_of(entry)):
            related.append(read_filter.warned(name_of(entry), line))
    return related


ENTRY_FIELDS = ("taskId", "summary", "createdAt")


def changelog_of(
    state: State,
    knowledge: Knowledge,
    read_filter: ReadFilter,
    kind: Parent,
    parent_id: str,
    limit: int,
    at: int | None = None,
) -> list[JsonObject]:
    """The newest entries, as they are shown with their parent; `at` where others may have written since."""
    nodes = (state.node(entry_id, at) for entry_id in knowledge.changelog(kind, parent_id))
    newest = read_filter.first(
        (node for node in nodes if node is not None), lambda node: read_filter.allows(node.id), limit
    )
    return [entry_of(read_filter, node, ENTRY_FIELDS) for node in newest]


def entry_of(read_filter: ReadFilter, node: Node, fields: Sequence[str]) -> JsonObject:
    """Of a changelog."""
    said = {name: node.attrs.get(name) for name in fields} | {"taskId": read_filter.reference(node.attrs.get("taskId"))}
    return read_filter.warned(node.id, {"id": node.id, **said})


# -- how much


def cut_list(entry: JsonObject, name: str, most: int = LISTED_LEAST) -> None:
    if name in entry and len(entry[name]) > most:
        entry[f"{name}Omitted"] = len(entry[name]) - most
        entry[name] = entry[name][:most]


def shorten(entry: JsonObject, bytes_max: int) -> None:
    """Cut its knowledge to about so many bytes, and say so."""
    whole = entry["knowledge"]
    if len(whole.encode()) > bytes_max:
        entry["knowledge"] = whole.encode()[:bytes_max].decode(errors="ignore") + "…"
        entry["knowledgeTruncated"] = True
