"""The files of a repository as a tree, and which knowledge is about each: kept for as long as both stay as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import is_

from tallystick.state.knowledge.catalogue import Atom
from tallystick.state.knowledge.globs import segments_of
from tallystick.state.knowledge.index import GlobIndex

Child = tuple[bool, str]
"""Whether it is a file, and its name: directories come first."""


class KnownTree:
    """Making it takes time by the number of files; looking into a directory, by what is in it and what is stale."""

    def __init__(self, atoms: Sequence[Atom], files: Sequence[str], *, files_max: int, below: str = "") -> None:
        """Of the files below a directory the first `files_max` are looked at."""
        self._made_of = tuple(atoms), files, below
        prefix = f"{below}/" if below else ""
        chosen = [file for file in files if file.startswith(prefix)]
        self.is_cut = len(chosen) > files_max
        self.owners: dict[str, frozenset[str]] = {}
        """Of each file of which something is known, the ids of what that is."""
        self._files: Counter[str] = Counter()
        self._known: Counter[str] = Counter()
        self._children: dict[str, dict[Child, None]] = {}
        self._files_of: dict[str, list[str]] = {}
        globs: GlobIndex[str] = GlobIndex()
        for atom in atoms:
            globs.add(atom.id, atom.routes)
        for file in chosen[:files_max]:
            self._add(file, frozenset(globs.match(segments_of(file) or ())))
        self._sorted: dict[str, list[Child]] = {}

    def is_of(self, atoms: Sequence[Atom], files: Sequence[str], below: str) -> bool:
        """An atom that was changed in any way is another one."""
        made_of, those, there = self._made_of
        return those is files and there == below and len(atoms) == len(made_of) and all(map(is_, atoms, made_of))

    def children(self, directory: str) -> list[Child]:
        if directory not in self._sorted:
            self._sorted[directory] = sorted(self._children.get(directory, ()))
        return self._sorted[directory]

    def counts(self, path: str) -> tuple[int, int]:
        """How many files there are, and of how many something is known."""
        return self._files[path], self._known[path]

    def stale_below(self, directory: str, stale: Iterable[str]) -> Mapping[str, int]:
        """How many files have knowledge among the `stale`, by the name of the child that they are in."""
        prefix = f"{directory}/" if directory else ""
        files = {file for atom in stale for file in self._files_of.get(atom, ()) if file.startswith(prefix)}
        return Counter(file.removeprefix(prefix).partition("/")[0] for file in files)

    def _add(self, file: str, owners: frozenset[str]) -> None:
        if owners:
            self.owners[file] = owners
        for owner in owners:
            self._files_of.setdefault(owner, []).append(file)
        path, is_file = file, True
        while path:
            self._files[path] += 1
            self._known[path] += bool(owners)
            directory, _, name = path.rpartition("/")
            self._children.setdefault(directory, {})[is_file, name] = None
            path, is_file = directory, False
        self._files[""] += 1
        self._known[""] += bool(owners)
