"""The repository as knowledge sees it: which files something is known of, of which nothing, and what is out of date."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from tallystick.engine.store import Store
from tallystick.errors import InvalidArgument
from tallystick.extensions.web.reports.kept_knowledge import FILES_MAX, KeptKnowledge, patterns_of
from tallystick.extensions.web.reports.known_tree import Child, KnownTree
from tallystick.policy import Action, Principal
from tallystick.state.knowledge.catalogue import Atom, Knowledge, in_order
from tallystick.state.knowledge.globs import segments_of
from tallystick.state.read_filter import ReadFilter
from tallystick.state.state import State
from tallystick.state.trust import Trust
from tallystick.state.work.graph import WorkGraph
from tallystick.toolsets.knowledge.context import Pins, ToolContext
from tallystick.toolsets.knowledge.freshness import read_pin

ATOMS_MAX = 50
ENTRIES_MAX = 100
"""Shown at a time."""
PATTERNS_MAX = 20
_NO_FILES: list[str] = []

Freshness = Literal["fresh", "stale", "unknown"]
"""`unknown` where the files were not noted, or git does not know them."""


Fresh = Mapping[str, bool]
"""By the id of the atom, where that is known."""


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
    compared_at: str | None
    """When the files were last compared with what is known of them; None where nothing is pinned to any."""
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
    kept: KeptKnowledge,
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
        return _known(state, read_filter, project, shown, kept)

    known = await store.read(principal, Action.SEARCH, look)
    comparison = await kept.compare(context, known.pins, {atom.id: atom for atom in known.atoms})
    fresh = {atom: bool(said["fresh"]) for atom, said in comparison.said.items()}
    files = await asyncio.to_thread(context.repository.files)
    tree = await kept.tree(known.atoms, files or _NO_FILES, inside)
    children, (below, known_below) = tree.children(inside), tree.counts(inside)
    stale = tree.stale_below(inside, (atom for atom, is_fresh in fresh.items() if not is_fresh))
    by_id = {atom.id: atom for atom in known.atoms}
    lines = [_line(known, atom, comparison.said.get(atom.id)) for atom in known.atoms[shown]]
    return KnownFiles(
        position=known.position,
        projects=known.projects,
        project=next((each for each in known.projects if each.id == project), None),
        path=inside,
        files=below,
        known=known_below,
        stale=sum(stale.values()),
        compared_at=comparison.at,
        entries=[
            _entry(tree, inside, child, stale, by_id, fresh)
            for child in children[skip_entries : skip_entries + ENTRIES_MAX]
        ],
        entries_before=skip_entries,
        entries_more=max(0, len(children) - skip_entries - ENTRIES_MAX),
        gap=_gap(files, inside, tree),
        atoms=lines,
        atoms_before=skip_atoms,
        atoms_more=max(0, len(known.atoms) - skip_atoms - ATOMS_MAX),
    )


def _inside(path: str) -> str:
    segments = segments_of(path) if path else ()
    if segments is None or ".." in segments:
        raise InvalidArgument(f"'{path}' is no directory of the repository")
    return "/".join(segments)


def _gap(files: Sequence[str] | None, path: str, tree: KnownTree) -> str | None:
    if files is None:
        return "no git repository is known here: start the server in one, or name it with the setting 'repo'"
    if tree.is_cut:
        return f"only the first {FILES_MAX} files are counted: open a directory to see the others"
    return (
        None if tree.children(path) else f"git tracks nothing below '{path}'" if path else "git tracks no file here yet"
    )


# -- what is known


class _Known(msgspec.Struct, frozen=True):
    position: int
    projects: list[KnownProject]
    atoms: list[Atom]
    details: dict[str, AtomLine]
    pins: Pins


def _known(state: State, read_filter: ReadFilter, project: str | None, shown: slice, kept: KeptKnowledge) -> _Known:
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
    pins = kept.pins(state, atoms)
    for atom in atoms[shown]:
        details[atom.id] = _details(state, read_filter, knowledge, names, atom, pins)
    return _Known(state.position, sorted(projects, key=lambda each: each.name.casefold()), atoms, details, pins)


def _details(
    state: State, read_filter: ReadFilter, knowledge: Knowledge, names: Mapping[str, str], atom: Atom, pins: Pins
) -> AtomLine:
    node = state.node(atom.id)
    assert node is not None
    patterns = patterns_of(node.attrs)
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
        patterns=tuple(patterns[:PATTERNS_MAX]),
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


def _entry(
    tree: KnownTree, path: str, child: Child, stale: Mapping[str, int], atoms: Mapping[str, Atom], fresh: Fresh
) -> PathInRepository:
    is_file, name = child
    whole = f"{path}/{name}" if path else name
    files, known = tree.counts(whole)
    about = in_order(atoms[owner] for owner in tree.owners.get(whole, ())) if is_file else ()
    return PathInRepository(
        name=_shown(name),
        path=_shown(whole),
        is_directory=not is_file,
        files=files,
        known=known,
        stale=stale.get(name, 0),
        atoms=tuple(AtomName(each.id, each.name, _word(fresh.get(each.id))) for each in about),
    )


def _word(fresh: bool | None) -> Freshness:
    return "unknown" if fresh is None else "fresh" if fresh else "stale"


def _shown(name: str) -> str:
    """A name that is no text cannot be shown as it is."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
