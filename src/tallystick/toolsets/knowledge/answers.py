"""The shapes of what is answered, and how much of it fits into an agent's context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallystick.state import Node
from tallystick.state.attributes import integer_of, list_of, text_of
from tallystick.state.knowledge.catalogue import Atom, Molecule, Parent
from tallystick.toolsets import JsonObject
from tallystick.toolsets.knowledge.view import View

ANSWER_BYTES_MAX = 50_000
"""25,000 tokens at two bytes each."""
LISTED_LEAST = 10
"""So many of a list are shown even where not all of them fit."""


def entity_of(view: View, kind: str, entity_id: str, attrs: JsonObject) -> JsonObject:
    """All its fields, and whether it was recalled."""
    describe = _atom if kind == "atom" else _molecule
    return view.warned(entity_id, {"id": entity_id, **describe(view, attrs)})


def _atom(view: View, attrs: JsonObject) -> JsonObject:
    """Without the pin: `fresh` says what became of that."""
    return {
        "projectId": view.reference(attrs.get("projectId")),
        "moleculeId": view.reference(attrs.get("moleculeId")),
        "name": attrs.get("name"),
        "paths": list_of(attrs, "paths"),
        "knowledge": text_of(attrs, "knowledge"),
        "relatedAtoms": related_atoms(view, attrs),
        **_bookkeeping(view, attrs),
    }


def _molecule(view: View, attrs: JsonObject) -> JsonObject:
    return {
        "projectId": view.reference(attrs.get("projectId")),
        "name": attrs.get("name"),
        "knowledge": text_of(attrs, "knowledge"),
        "relatedMolecules": related_molecules(view, attrs),
        **_bookkeeping(view, attrs),
    }


def _bookkeeping(view: View, attrs: JsonObject) -> JsonObject:
    tasks = {name: view.reference(attrs.get(name)) for name in ("createdByTaskId", "lastTaskId")}
    times = {name: attrs.get(name) for name in ("createdAt", "updatedAt")}
    # The one that update and delete want, also where a redaction left a word.
    return tasks | {"version": integer_of(attrs, "version", 1)} | times


def related_atoms(view: View, attrs: JsonObject) -> list[JsonObject]:
    return _related(view, view.knowledge.atoms, attrs, "relatedAtoms", "atomId")


def related_molecules(view: View, attrs: JsonObject) -> list[JsonObject]:
    return _related(view, view.knowledge.molecules, attrs, "relatedMolecules", "moleculeId")


def _related(
    view: View, known: Mapping[str, Atom] | Mapping[str, Molecule], attrs: JsonObject, field: str, key: str
) -> list[JsonObject]:
    """With the names they have now; null for what is not there any more."""

    def name_of(entry: JsonObject) -> str:
        return str(entry.get(key))

    entries = (entry for entry in list_of(attrs, field) if isinstance(entry, dict))
    related = []
    for entry in entries:
        other = known.get(name_of(entry))
        line = {key: entry.get(key), "name": other.name if other else None, "reason": entry.get("reason")}
        if view.read_filter.allows_reference(name_of(entry)):
            related.append(view.warned(name_of(entry), line))
    return related


ENTRY_FIELDS = ("taskId", "summary", "createdAt")


def changelog_of(view: View, kind: Parent, parent_id: str, limit: int, at: int | None = None) -> list[JsonObject]:
    """The newest entries, as they are shown with their parent; `at` where others may have written since."""
    nodes = (view.state.node(entry_id, at) for entry_id in view.knowledge.changelog(kind, parent_id))
    newest = view.read_filter.first(
        (node for node in nodes if node is not None), lambda node: view.allows(node.id), limit
    )
    return [entry_of(view, node, ENTRY_FIELDS) for node in newest]


def entry_of(view: View, node: Node, fields: Sequence[str]) -> JsonObject:
    """Of a changelog."""
    said = {name: node.attrs.get(name) for name in fields} | {"taskId": view.reference(node.attrs.get("taskId"))}
    return view.warned(node.id, {"id": node.id, **said})


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
