"""The catalogue: what is known of each project, found by file, by molecule and in order.

It holds names, patterns and who belongs to whom; the knowledge itself stays in the log.
Attributes may be anything at all (a redaction leaves words where lists were): what makes no
sense counts as not said.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.state import Breathing
from tallystick.state.attributes import find_text, text_of
from tallystick.state.derived_index import EdgeVersion, NodeVersion
from tallystick.state.knowledge import ATOM, CHANGELOG, MOLECULE
from tallystick.state.knowledge.globs import Route, parse
from tallystick.state.knowledge.index import GlobIndex, Place, read_place
from tallystick.state.stored_index import encoded, loading

Parent = Literal["atom", "molecule"]


class Molecule(msgspec.Struct, frozen=True, gc=False, array_like=True):
    id: str
    project: str | None
    name: str
    order: tuple[str, str]
    """What lists are sorted by: the name in any case, then the id."""


class Atom(msgspec.Struct, frozen=True, gc=False, array_like=True):
    id: str
    project: str | None
    name: str
    order: tuple[str, str]
    molecule: str | None
    pinned: bool
    routes: tuple[Route, ...]


class ProjectKnowledge:
    """One project."""

    def __init__(self, root: Place[str] | None = None) -> None:
        self.molecules: dict[str, Molecule] = {}
        self.atoms: dict[str, Atom] = {}
        self.globs: GlobIndex[str] = GlobIndex(root)


class _StoredKnowledge(msgspec.Struct, frozen=True, array_like=True):
    molecules: list[bytes]
    """In slices, as the others."""
    atoms: list[bytes]
    entries: list[bytes]
    globs: dict[str, msgspec.Raw]


class Knowledge:
    types: ClassVar[frozenset[str]] = frozenset({MOLECULE, ATOM, CHANGELOG})
    stored_as: ClassVar[str] = "knowledge-2"

    def __init__(self) -> None:
        self.molecules: dict[str, Molecule] = {}
        self.atoms: dict[str, Atom] = {}
        self._by_project: dict[str, ProjectKnowledge] = {}
        self._members: dict[str, dict[str, Atom]] = {}
        self._entries: dict[tuple[str, str], list[tuple[int, str]]] = {}
        """Of each parent, oldest first: when an entry was made, and its id."""

    # -- what is known

    def of_project(self, project_id: str) -> ProjectKnowledge:
        return self._by_project.get(project_id) or ProjectKnowledge()

    def projects(self) -> list[str]:
        """The ids of those of which something is known."""
        return list(self._by_project)

    def members(self, molecule_id: str) -> list[Atom]:
        return in_order(self._members.get(molecule_id, {}).values())

    def is_orphan(self, atom: Atom) -> bool:
        """Also when its molecule is gone."""
        return atom.molecule not in self.molecules

    def changelog(self, kind: Parent, parent_id: str) -> list[str]:
        """The ids of its entries, newest first."""
        return [entry_id for _, entry_id in reversed(self._entries.get((kind, parent_id), ()))]

    # -- what is stored

    def dump(self) -> bytes:
        entries = ((kind, parent, made) for (kind, parent), made in self._entries.items())
        globs = {project: known.globs.root for project, known in self._by_project.items()}
        slices = encoded(self.molecules.values()), encoded(self.atoms.values()), encoded(entries)
        return msgspec.msgpack.encode((*slices, globs))

    def load(self, content: memoryview) -> Breathing[None]:
        with loading():
            stored = _read_stored(content)
            yield
            for project, root in stored.globs.items():
                self._by_project[project] = ProjectKnowledge((yield from read_place(root)))
            for molecules in map(_read_molecules, stored.molecules):
                for molecule in molecules:
                    self._add_molecule(molecule)
                yield
            for atoms in map(_read_atoms, stored.atoms):
                for atom in atoms:
                    self._add_atom(atom)
                yield
            for entries in map(_read_entries, stored.entries):
                self._entries.update(((kind, parent), made) for kind, parent, made in entries)
                yield

    # -- what changes

    def node_changed(self, before: NodeVersion | None, after: NodeVersion | None) -> None:
        if before is not None:
            _CHANGES[before.type][1](self, before)
        if after is not None:
            _CHANGES[after.type][0](self, after)

    def edge_changed(self, before: EdgeVersion | None, after: EdgeVersion | None) -> None:
        """Knowledge is joined by ids, not by edges."""

    def _learn_molecule(self, version: NodeVersion) -> None:
        name = text_of(version.attrs, "name")
        project = find_text(version.attrs, "projectId")
        self._add_molecule(Molecule(version.id, project, name, (name.casefold(), version.id)))

    def _add_molecule(self, molecule: Molecule) -> None:
        self.molecules[molecule.id] = molecule
        if molecule.project is not None:
            self._open(molecule.project).molecules[molecule.id] = molecule

    def _forget_molecule(self, version: NodeVersion) -> None:
        molecule = self.molecules.pop(version.id)
        if molecule.project is not None:
            del self._by_project[molecule.project].molecules[molecule.id]
            self._close(molecule.project)

    def _learn_atom(self, version: NodeVersion) -> None:
        atom = _read_atom(version)
        self._add_atom(atom)
        if atom.project is not None:
            self._by_project[atom.project].globs.add(atom.id, atom.routes)

    def _add_atom(self, atom: Atom) -> None:
        """Everywhere but to the globs."""
        self.atoms[atom.id] = atom
        if atom.molecule is not None:
            self._members.setdefault(atom.molecule, {})[atom.id] = atom
        if atom.project is not None:
            self._open(atom.project).atoms[atom.id] = atom

    def _forget_atom(self, version: NodeVersion) -> None:
        atom = self.atoms.pop(version.id)
        if atom.molecule is not None:
            del self._members[atom.molecule][atom.id]
            if not self._members[atom.molecule]:
                del self._members[atom.molecule]
        if atom.project is not None:
            of_project = self._by_project[atom.project]
            of_project.globs.remove(atom.id, atom.routes)
            del of_project.atoms[atom.id]
            self._close(atom.project)

    def _learn_entry(self, version: NodeVersion) -> None:
        insort(self._entries.setdefault(_parent(version), []), (version.created, version.id))

    def _forget_entry(self, version: NodeVersion) -> None:
        parent = _parent(version)
        entries = self._entries[parent]
        del entries[bisect_left(entries, (version.created, version.id))]
        if not entries:
            del self._entries[parent]

    def _open(self, project_id: str) -> ProjectKnowledge:
        of_project = self._by_project.get(project_id)
        if of_project is None:
            of_project = self._by_project[project_id] = ProjectKnowledge()
        return of_project

    def _close(self, project_id: str) -> None:
        of_project = self._by_project[project_id]
        if not of_project.atoms and not of_project.molecules:
            del self._by_project[project_id]


_CHANGES = {
    MOLECULE: (Knowledge._learn_molecule, Knowledge._forget_molecule),
    ATOM: (Knowledge._learn_atom, Knowledge._forget_atom),
    CHANGELOG: (Knowledge._learn_entry, Knowledge._forget_entry),
}
"""By type: how a version is learnt, and how it is forgotten."""

_read_stored = msgspec.msgpack.Decoder(_StoredKnowledge).decode
_read_molecules = msgspec.msgpack.Decoder(list[Molecule]).decode
_read_atoms = msgspec.msgpack.Decoder(list[Atom]).decode
_read_entries = msgspec.msgpack.Decoder(list[tuple[str, str, list[tuple[int, str]]]]).decode

E = TypeVar("E", Atom, Molecule)


def in_order(entries: Iterable[E]) -> list[E]:
    return sorted(entries, key=lambda entry: entry.order)


def _read_atom(version: NodeVersion) -> Atom:
    attrs = version.attrs
    name = text_of(attrs, "name")
    return Atom(
        version.id,
        find_text(attrs, "projectId"),
        name,
        (name.casefold(), version.id),
        find_text(attrs, "moleculeId"),
        isinstance(attrs.get("pin"), dict),
        routes_of(attrs.get("paths")),
    )


def routes_of(patterns: Any) -> tuple[Route, ...]:
    """What can be read of it."""
    found: dict[Route, None] = {}
    for pattern in patterns if isinstance(patterns, list) else ():
        try:
            found.update(dict.fromkeys(parse(pattern) if isinstance(pattern, str) else ()))
        except InvalidArgument:
            continue
    return tuple(found)


def _parent(version: NodeVersion) -> tuple[str, str]:
    return str(version.attrs.get("parentType")), str(version.attrs.get("parentId"))
