"""The repository as knowledge sees it: which files something is known of, of which nothing, and what is out of date."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.policy import Action, Principal
from tallystick.state.attributes import list_of
from tallystick.state.knowledge.catalogue import Atom, Knowledge, in_order
from tallystick.state.knowledge.globs import segments_of
from tallystick.state.knowledge.index import GlobIndex
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.state.work.graph import WorkGraph
from tallystick.store import Store
from tallystick.toolsets.knowledge.context import Pins, ToolContext
from tallystick.toolsets.knowledge.freshness import read_pin

ATOMS_MAX = 50
ENTRIES_MAX = 100
"""Shown at a time."""
COMPARED_MAX = 500
"""Atoms whose files are looked at, besides those that are shown: by them files are known to be stale."""
FILES_MAX = 20_000
"""More are not matched one by one."""
_PATTERNS_MAX = 20

Freshness = Literal["fresh", "stale", "unknown"]
"""`unknown` where the files were not noted, or git does not know them."""


class KnownProject(msgspec.Struct, frozen=True):
    id: str
    name: str
    atoms: int


class AtomName(msgspec.Struct, frozen=True):
    id: str
    name: str
    freshness: Freshness


class AtomLine(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    project: str
    molecule: str | None
    patterns: tuple[str, ...]
    updated_by: str
    updated_at: str
    freshness: Freshness
    pinned_at: str | None
    changed_files: tuple[str, ...]
    untrusted: str | None
    """Why it was recalled."""


class PathInRepository(msgspec.Struct, frozen=True, kw_only=True):
    """A directory or a file."""

    name: str
    path: str
    is_directory: bool
    files: int
    known: int
    """Of these files, those that some knowledge is about; and of those, the ones whose knowledge is out of date."""
    stale: int
    atoms: tuple[AtomName, ...]
    """Of a file: what is known of it."""


class KnownFiles(msgspec.Struct, frozen=True, kw_only=True):
    position: int
    projects: list[KnownProject]
    project: KnownProject | None
    """None: of all."""
    path: str
    files: int
    known: int
    stale: int
    """Below the path, as with an entry."""
    entries: list[PathInRepository]
    entries_before: int
    entries_more: int
    gap: str | None
    """Why there are no files to show."""
    atoms: list[AtomLine]
    """By name."""
    atoms_before: int
    atoms_more: int


async def show_known_files(
    context: ToolContext,
    store: Store,
    principal: Principal,
    project: str | None = None,
    path: str = "",
    *,
    skip_entries: int = 0,
    skip_atoms: int = 0,
) -> KnownFiles:
    """`project` is an id; one that may not be read has nothing in it. Raises InvalidArgument for a path that leads
    out of the repository."""
    inside = _inside(path)
    shown = slice(skip_atoms, skip_atoms + ATOMS_MAX)

    def look(state: State, read_filter: ReadFilter) -> _Known:
        for derived in (WorkGraph, Trust):
            state.derived(derived)
        return _known(state, read_filter, project, shown)

    known = await store.read(principal, Action.SEARCH, look)
    compared = await context.compare(known.pins)
    fresh = {atom: bool(said["fresh"]) for atom, said in compared.items()}
    files = await asyncio.to_thread(context.repository.files)
    drawn = await asyncio.to_thread(_draw, known.atoms, fresh, files or [], inside)
    lines = [_line(known, atom, compared.get(atom.id)) for atom in known.atoms[shown]]
    return KnownFiles(
        position=known.position,
        projects=known.projects,
        project=next((each for each in known.projects if each.id == project), None),
        path=inside,
        files=drawn.files,
        known=drawn.known,
        stale=drawn.stale,
        entries=drawn.entries[skip_entries : skip_entries + ENTRIES_MAX],
        entries_before=skip_entries,
        entries_more=max(0, len(drawn.entries) - skip_entries - ENTRIES_MAX),
        gap=_gap(files, inside, drawn),
        atoms=lines,
        atoms_before=skip_atoms,
        atoms_more=max(0, len(known.atoms) - skip_atoms - ATOMS_MAX),
    )


def _inside(path: str) -> str:
    segments = segments_of(path) if path else ()
    if segments is None or ".." in segments:
        raise InvalidArgument(f"'{path}' is no directory of the repository")
    return "/".join(segments)


def _gap(files: Sequence[str] | None, path: str, drawn: _Drawn) -> str | None:
    if files is None:
        return "no git repository is known here: start the server in one, or name it with the setting 'repo'"
    if drawn.is_cut:
        return f"only the first {FILES_MAX} files are counted: open a directory to see the others"
    return None if drawn.entries else f"git tracks nothing below '{path}'" if path else "git tracks no file here yet"


# -- what is known


class _Known(msgspec.Struct, frozen=True):
    position: int
    projects: list[KnownProject]
    atoms: list[Atom]
    details: dict[str, AtomLine]
    pins: Pins


def _known(state: State, read_filter: ReadFilter, project: str | None, shown: slice) -> _Known:
    knowledge, boards = state.derived(Knowledge), state.derived(WorkGraph).boards
    names: dict[str, str] = {}
    projects: list[KnownProject] = []
    atoms: list[Atom] = []
    for project_id in read_filter.readable(knowledge.projects()):
        board = boards.get(project_id)
        names[project_id] = (board.name if board is not None else None) or project_id
        seen = read_filter.readable(knowledge.of_project(project_id).atoms.values(), lambda atom: atom.id)
        projects.append(KnownProject(project_id, names[project_id], len(seen)))
        if project in (None, project_id):
            atoms += seen
    atoms = in_order(atoms)
    details: dict[str, AtomLine] = {}
    pins: Pins = {}
    for atom in {atom.id: atom for atom in (*atoms[:COMPARED_MAX], *atoms[shown])}.values():
        details[atom.id] = _details(state, read_filter, knowledge, names, atom, pins)
    return _Known(state.position, sorted(projects, key=lambda each: each.name.casefold()), atoms, details, pins)


def _details(
    state: State, read_filter: ReadFilter, knowledge: Knowledge, names: Mapping[str, str], atom: Atom, pins: Pins
) -> AtomLine:
    node = state.node(atom.id)
    assert node is not None
    patterns = [each for each in list_of(node.attrs, "paths") if isinstance(each, str)]
    pin = read_pin(node.attrs)
    if pin is not None:
        pins[atom.id] = patterns, pin
    molecule = knowledge.molecules.get(atom.molecule or "")
    recall = state.derived(Trust).find(atom.id)
    return AtomLine(
        id=atom.id,
        name=atom.name,
        project=names.get(atom.project or "", ""),
        molecule=molecule.name if molecule is not None and read_filter.allows(molecule.id) else None,
        patterns=tuple(patterns[:_PATTERNS_MAX]),
        updated_by=node.provenance.updated_by,
        updated_at=node.provenance.timestamp,
        freshness="unknown",
        pinned_at=None if pin is None else pin.at,
        changed_files=(),
        untrusted=None if recall is None else recall.reason,
    )


def _line(known: _Known, atom: Atom, said: Mapping[str, object] | None) -> AtomLine:
    line = known.details[atom.id]
    if said is None:
        return line
    changed = said.get("changedFiles")
    files = tuple(str(each) for each in changed) if isinstance(changed, list) else ()
    return msgspec.structs.replace(line, freshness="fresh" if said["fresh"] else "stale", changed_files=files)


# -- the tree, a directory of it


class _Drawn(msgspec.Struct, frozen=True):
    entries: list[PathInRepository]
    files: int
    known: int
    stale: int
    is_cut: bool


def _draw(atoms: Sequence[Atom], fresh: Mapping[str, bool], files: Sequence[str], path: str) -> _Drawn:
    """Directories first."""
    prefix = f"{path}/" if path else ""
    below = [file for file in files if file.startswith(prefix)]
    globs: GlobIndex[str] = GlobIndex()
    for atom in atoms:
        globs.add(atom.id, atom.routes)
    by_id = {atom.id: atom for atom in atoms}
    counted: dict[tuple[bool, str], list[int]] = {}
    named: dict[str, list[Atom]] = {}
    for file in below[:FILES_MAX]:
        owners = globs.match(segments_of(file) or ())
        name, slash, _ = file.removeprefix(prefix).partition("/")
        count = counted.setdefault((not slash, name), [0, 0, 0])
        count[0] += 1
        count[1] += bool(owners)
        count[2] += any(fresh.get(owner) is False for owner in owners)
        if not slash:
            named[name] = in_order(by_id[owner] for owner in owners)
    entries = [
        PathInRepository(
            name=_shown(name),
            path=_shown(prefix + name),
            is_directory=not is_file,
            files=count[0],
            known=count[1],
            stale=count[2],
            atoms=tuple(AtomName(each.id, each.name, _word(fresh.get(each.id))) for each in named.get(name, ())),
        )
        for (is_file, name), count in sorted(counted.items())
    ]
    files_below, known, stale = (sum(count[place] for count in counted.values()) for place in range(3))
    return _Drawn(entries, files_below, known, stale, len(below) > FILES_MAX)


def _word(fresh: bool | None) -> Freshness:
    return "unknown" if fresh is None else "fresh" if fresh else "stale"


def _shown(name: str) -> str:
    """A name that is no text cannot be shown as it is."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
