"""The context of files: whose globs match them, and what is known there.

`context` is what query_graph answers and what goes with a task; `NodeKnowledge` is the same in
little, for answers of work that are about something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from tallystick.state import Breathing
from tallystick.state.attributes import list_of, text_of
from tallystick.state.knowledge.catalogue import Atom, Knowledge, Molecule, Parent, in_order
from tallystick.state.knowledge.globs import is_directory, segments_of
from tallystick.state.knowledge.index import GlobIndex
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.toolsets import JsonObject
from tallystick.toolsets.knowledge.answers import (
    ANSWER_BYTES_MAX,
    LISTED_LEAST,
    changelog_of,
    cut_list,
    related_atoms,
    related_molecules,
    shorten,
)
from tallystick.toolsets.knowledge.context import Pins, ToolContext
from tallystick.toolsets.knowledge.context_files import files_in
from tallystick.toolsets.knowledge.freshness import read_pin
from tallystick.toolsets.knowledge.view import View
from tallystick.toolsets.truncation import listing, size_of

ATOMS_MAX = 500
"""More are never shown at once, however short they are."""
COMPACT_BYTES_MAX = 12_000
COMPACT_FRESHNESS_BYTES_MAX = 3_000
_KNOWLEDGE_LEAST = 200
_NOTE_BYTES = 40
"""What it takes to say that something was cut."""
_BREATH = 500

T = TypeVar("T")


Relative = Callable[[str], str]


class Context(msgspec.Struct):
    data: JsonObject
    pins: Pins = {}
    """Of the atoms that are shown."""


def context(
    state: State,
    project_id: str,
    paths: Sequence[str],
    read_filter: ReadFilter,
    *,
    relative: Relative = str,
    changelog: int = 0,
    bytes_max: int = ANSWER_BYTES_MAX,
) -> Breathing[Context]:
    """`relative` gives the path in the repository that a caller's spelling means; answers keep the spelling.
    `changelog` entries with each; 0 leaves them out. What does not fit is cut, and said to be."""
    knowledge, asked = state.derived(Knowledge), state.count
    matched, unmatched = yield from _match(knowledge, project_id, paths, read_filter, relative)
    # Among many paths others may have written meanwhile: the answer is as it was when it was asked for.
    builder = _ContextBuilder(View(state, read_filter), asked, changelog)
    atoms = in_order(atom for atom, _ in matched.values())
    for atom in atoms[:ATOMS_MAX]:
        builder.add(atom, matched[atom.id][1])
    data: JsonObject = {"molecules": builder.molecules(), "orphanAtoms": builder.orphans, "unmatchedPaths": unmatched}
    fitted = _fit(data, max(0, len(atoms) - ATOMS_MAX), bytes_max)
    shown = {atom["id"] for atom in _atoms(fitted)}
    return Context(fitted, {atom_id: pin for atom_id, pin in builder.pins.items() if atom_id in shown})


def add_freshness(found: Context, fresh: Mapping[str, JsonObject]) -> None:
    for atom in _atoms(found.data):
        atom |= fresh.get(atom["id"], {})


class NodeKnowledge(msgspec.Struct, frozen=True):
    """What is known of the files of work nodes."""

    tool_context: ToolContext

    def find(
        self,
        state: State,
        project_id: str,
        links: Sequence[str],
        sections: Sequence[tuple[str, str]] = (),
        *,
        read_filter: ReadFilter | None = None,
        bytes_max: int = COMPACT_BYTES_MAX,
    ) -> Context:
        """{molecules?, orphanAtoms?}, each only when there is any; {} for nothing.

        Links may be of any kind: those that are no repository paths are passed over.
        """
        paths = repository_paths(map(self.tool_context.repository.relative, [*links, *files_in(sections)]))
        found = drained(context(state, project_id, paths, read_filter or ReadFilter(state), bytes_max=bytes_max))
        for entry in _entries(found.data):
            for name in ("relatedAtoms", "relatedMolecules"):
                if not entry.get(name):
                    entry.pop(name, None)
        said = {name: value for name, value in found.data.items() if value and name not in ("unmatchedPaths", "hint")}
        return Context(said, found.pins)

    async def add_freshness(self, found: Sequence[Context]) -> None:
        pins = {atom_id: pin for each in found for atom_id, pin in each.pins.items()}
        fresh = await self.tool_context.freshness(pins, bytes_max=COMPACT_FRESHNESS_BYTES_MAX)
        for each in found:
            add_freshness(each, fresh)


def graph_hints(
    state: State | None = None,
    project_id: str | None = None,
    paths: Sequence[str] = (),
    read_filter: ReadFilter | None = None,
) -> JsonObject:
    """What a task that was completed might mean for the knowledge; with the atoms of its files, if they are given."""
    hints: JsonObject = {
        "message": "Task completed. Consider updating the knowledge graph.",
        "suggestedActions": [
            "Update atom knowledge for areas affected by this task",
            "Update atom paths if files were moved or new directories created",
            "Append changelog entries for significant changes",
        ],
    }
    if state is None or project_id is None or not paths:
        return hints
    read_filter = read_filter or ReadFilter(state)
    knowledge = state.derived(Knowledge)
    matched, unmatched = drained(_match(knowledge, project_id, repository_paths(paths), read_filter))
    atoms = in_order(atom for atom, _ in matched.values())
    lines = (read_filter.warned(atom.id, {"id": atom.id, "name": atom.name}) for atom in atoms)
    limited = listing("atoms", lines, len(atoms), 2_000, note="atomsOmitted") | {"unmatchedPaths": unmatched}
    cut_list(limited, "unmatchedPaths")
    return hints | {name: value for name, value in limited.items() if value}


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLACE = re.compile(r"(#.*|:\d+(?:[:-]\d+)*)$")
"""The line or heading that a link may point to."""


def repository_paths(links: Iterable[str]) -> list[str]:
    """Those that look like a path in the repository, without the line they point to; each once."""
    stripped = (_PLACE.sub("", link.strip()) for link in links)
    return list(
        dict.fromkeys(
            link
            for link in stripped
            if link and not _SCHEME.match(link) and not link.startswith(("/", "~")) and ".." not in link.split("/")
        )
    )


def drained(answer: Generator[None, None, T]) -> T:
    """For callers who cannot wait in between."""
    while True:
        try:
            next(answer)
        except StopIteration as done:
            found: T = done.value
            return found


# -- who matches


def projects_knowing(state: State, path: str, read_filter: ReadFilter, most: int) -> list[str]:
    """The ids of the first projects in which something that may be read is known of a path."""
    knowledge = state.derived(Knowledge)

    def knows(project_id: str) -> bool:
        owners = _owners(knowledge.of_project(project_id).globs, path)
        return bool(owners) and read_filter.allows(project_id) and bool(read_filter.readable(owners))

    return [each for each in sorted(knowledge.projects()) if knows(each)][:most]


def _match(
    knowledge: Knowledge, project_id: str, paths: Sequence[str], read_filter: ReadFilter, relative: Relative = str
) -> Breathing[tuple[dict[str, tuple[Atom, list[str]]], list[str]]]:
    """By its id each atom with the paths that it is about, as they were spelt; and the paths that nobody is."""
    of_project = knowledge.of_project(project_id)
    matched: dict[str, tuple[Atom, list[str]]] = {}
    unmatched: list[str] = []
    for number, path in enumerate(paths, 1):
        owners: Iterable[str] = _owners(of_project.globs, relative(path))
        # What only others know of is as if nobody did.
        for atom_id in (owners := read_filter.readable(owners)):
            matched.setdefault(atom_id, (of_project.atoms[atom_id], []))[1].append(path)
        if not owners:
            unmatched.append(path)
        if number % _BREATH == 0:
            yield
    return matched, unmatched


def _owners(globs: GlobIndex[str], path: str) -> set[str]:
    segments = segments_of(path.removesuffix("**") if is_directory(path) else path)
    if segments is None:
        # The root itself; but what is absolute is no directory of the repository.
        return globs.match_below(()) if is_directory(path) and not path.startswith("/") else set()
    return globs.match_below(segments) if is_directory(path) else globs.match(segments)


# -- what is said of them


class _ContextBuilder:
    """An answer in the making, of the state after `at` commits."""

    def __init__(self, view: View, at: int, changelog: int) -> None:
        self.orphans: list[JsonObject] = []
        self.pins: Pins = {}
        self._view = view
        self._at = at
        self._changelog = changelog
        self._molecules: dict[Molecule, JsonObject] = {}

    def molecules(self) -> list[JsonObject]:
        return [self._molecules[molecule] for molecule in in_order(self._molecules)]

    def add(self, atom: Atom, paths: list[str]) -> None:
        attrs = self._attrs(atom.id)
        if attrs is None:
            return
        pin = read_pin(attrs) if atom.pinned else None
        if pin is not None:
            self.pins[atom.id] = (list_of(attrs, "paths"), pin)
        entry: JsonObject = {
            "id": atom.id,
            "name": atom.name,
            "knowledge": text_of(attrs, "knowledge"),
            "matchedPaths": paths,
            "relatedAtoms": related_atoms(self._view, attrs),
        }
        molecule = self._view.knowledge.molecules.get(atom.molecule or "")
        alone = molecule is None or not self._view.allows(molecule.id)
        place = self.orphans if alone or molecule is None else self._molecule(molecule)["atoms"]
        place.append(self._view.warned(atom.id, entry | self._history("atom", atom.id)))

    def _molecule(self, molecule: Molecule) -> JsonObject:
        if molecule not in self._molecules:
            attrs = self._attrs(molecule.id) or {}
            document = {
                "id": molecule.id,
                "name": molecule.name,
                "knowledge": text_of(attrs, "knowledge"),
                "relatedMolecules": related_molecules(self._view, attrs),
                **self._history("molecule", molecule.id),
                "atoms": [],
            }
            self._molecules[molecule] = self._view.warned(molecule.id, document)
        return self._molecules[molecule]

    def _history(self, kind: Parent, entity_id: str) -> JsonObject:
        if not self._changelog:
            return {}
        entries = changelog_of(self._view, kind, entity_id, self._changelog, self._at)
        return {"changelog": entries}

    def _attrs(self, entity_id: str) -> JsonObject | None:
        node = self._view.state.node(entity_id, self._at)
        return None if node is None else node.attrs


# -- how much


def _fit(data: JsonObject, omitted: int, bytes_max: int) -> JsonObject:
    """Whole if it can be; otherwise first without history, then with less of the longest texts, then with less of
    everything."""
    if not omitted and size_of(data) <= bytes_max:
        return data
    for entry in _entries(data):
        entry.pop("changelog", None)
        for name in ("matchedPaths", "relatedAtoms", "relatedMolecules"):
            cut_list(entry, name)
    cut_list(data, "unmatchedPaths", 10 * LISTED_LEAST)
    _share_knowledge(_entries(data), bytes_max - size_of(data))
    omitted += _drop_atoms(data, bytes_max)
    data["truncated"] = True
    if omitted:
        data["atomsOmitted"] = omitted
    data["hint"] = "ask for fewer paths, or get an atom by its id, for all of it"
    return data


def _entries(data: JsonObject) -> list[JsonObject]:
    return [*data["molecules"], *_atoms(data)]


def _atoms(data: JsonObject) -> Iterator[JsonObject]:
    for molecule in data.get("molecules", ()):
        yield from molecule["atoms"]
    yield from data.get("orphanAtoms", ())


def _share_knowledge(entries: list[JsonObject], room: int) -> None:
    """Make the longest texts as short as each other, until all of them fit. As JSON: there a line end takes two."""
    sizes = [size_of(entry["knowledge"]) for entry in entries]
    room += sum(sizes) - _NOTE_BYTES * (len(entries) + 10)
    share, left = _KNOWLEDGE_LEAST, len(entries)
    for size in sorted(sizes):
        share = max(_KNOWLEDGE_LEAST, room // left)
        if size > share:
            break
        room -= size
        left -= 1
    for entry, size in zip(entries, sizes, strict=True):
        if size > share:
            shorten(entry, len(entry["knowledge"].encode()) * share // size)


def _drop_atoms(data: JsonObject, bytes_max: int) -> int:
    """From the end, until it fits; says how many."""
    left = size_of(data) - bytes_max + 5 * _NOTE_BYTES
    dropped = 0
    lists = [molecule["atoms"] for molecule in data["molecules"]] + [data["orphanAtoms"]]
    for atoms in reversed(lists):
        while left > 0 and atoms:
            left -= size_of(atoms.pop())
            dropped += 1
    data["molecules"] = [molecule for molecule in data["molecules"] if molecule["atoms"]]
    return dropped
