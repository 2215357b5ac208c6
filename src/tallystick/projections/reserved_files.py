"""The reserved: what the settings name, which no tool may read or change, wherever it lies and whatever it is called.

A place is known in two ways. By its names below the home, compared as a careless file system
would: that holds for what is not there yet. And by its identity (device and inode), looked at
when a file is open and each time a directory is entered: that holds for other spellings, for
links that lead to it, and for whatever is swapped while we walk. A file with several names may
be a reserved one under another name, so then everything reserved is looked through.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

import msgspec

from tallystick.errors import InvalidArgument
from tallystick.projections.sandboxed_files import Parts, is_unfinished

Identity = tuple[int, int]

_OWN = ("tenants", "tallystick.toml", "graph.config.yaml")
_DATABASES = (".db", ".db-wal", ".db-shm", ".db-journal")
_ENTRIES_MAX = 100_000
_LINKS_MAX = 40
_TOO_MANY: Identity = (-1, -1)
"""Where there is too much to look through: then a file with several names may be any of it."""


def folded(name: str) -> str:
    """As a careless file system compares names."""
    return "".join(
        character
        for character in unicodedata.normalize("NFKC", name).casefold()
        if unicodedata.category(character) != "Cf"
    )


def is_own(parts: Parts) -> bool:
    """Whether it belongs to the store."""
    top = folded(parts[0])
    return (
        top.startswith(("_", ".", "graph.db"))
        or top in _OWN
        or parts[-1].casefold().endswith(_DATABASES)
        or is_unfinished(parts[-1])
    )


class Reserved:
    """A guard for one call's `SandboxedFiles`: what is there is looked at when it is first needed."""

    def __init__(self, root: Path, named: Sequence[Path], base: Path | None = None) -> None:
        """`base` is the directory of all tenants: the store's own files in it are reserved too, under whatever name."""
        self._root = root
        self._named = named
        self._base = base

    # -- the guard

    def check_use(self, parts: Parts) -> None:
        """Raises for a reserved place and for what lies below it."""
        if self.hides(parts, None):
            raise _reserved(parts)

    def check_change(self, parts: Parts) -> None:
        """Raises for what a reserved place lies below, too: it would go, or come, with it."""
        self.check_use(parts)
        names = _folded(parts)
        if any(names == each.names[: len(names)] for each in self._below_home):
            raise _reserved(parts)

    def check_found(self, found: os.stat_result, parts: Parts) -> None:
        """What was opened or entered."""
        if self._is_reserved(found, parts):
            raise _reserved(parts)

    def check_changed(self, found: os.stat_result, parts: Parts) -> None:
        """What is about to be moved, replaced or removed."""
        if _identity(found) in self._above or self._is_reserved(found, parts):
            raise _reserved(parts)

    def hides(self, parts: Parts, found: os.stat_result | None) -> bool:
        names = _folded(parts)
        if any(each.covers(names) for each in self._below_home):
            return True
        return found is not None and self._is_reserved(found, parts)

    # -- below

    def _is_reserved(self, found: os.stat_result, parts: Parts) -> bool:
        if _identity(found) in self._identities:
            return True
        if found.st_nlink == 1 or not stat.S_ISREG(found.st_mode):
            return False
        kept = self._named_files if is_own(parts) else self._named_files | self._own_files
        return _TOO_MANY in kept or _identity(found) in kept

    @cached_property
    def _named_files(self) -> frozenset[Identity]:
        return _identities_below(self._places)

    @cached_property
    def _own_files(self) -> frozenset[Identity]:
        """What the store keeps for itself, which is reserved under every name but its own."""
        tops = () if self._base is None else _entries(self._base)
        return _identities_below(Path(each.path) for each in tops if is_own((each.name,)))

    @cached_property
    def _places(self) -> list[Path]:
        """As they are spelled, each link on the way, where they lead, and where the links in a directory lead."""
        places = dict.fromkeys(each for path in self._named for each in _spellings(path))
        linked = (link for place in places for link in islice(_links_below(place), _ENTRIES_MAX))
        return list(places | dict.fromkeys(each for link in linked for each in _spellings(link)))

    @cached_property
    def _below_home(self) -> list[_Name]:
        found = []
        for root in dict.fromkeys((Path(os.path.abspath(self._root)), Path(os.path.realpath(self._root)))):
            for place in self._places:
                if root.is_relative_to(place):
                    found.append(_Name((), True))
                elif place.is_relative_to(root):
                    found.append(_Name(_folded(place.relative_to(root).parts), place.is_dir()))
        return found

    @cached_property
    def _identities(self) -> frozenset[Identity]:
        return frozenset(map(_identity, filter(None, map(_find, self._places))))

    @cached_property
    def _above(self) -> frozenset[Identity]:
        """What a reserved place lies in."""
        above = dict.fromkeys(parent for place in self._places for parent in place.parents)
        return frozenset(map(_identity, filter(None, map(_find, above))))


class _Name(msgspec.Struct, frozen=True):
    """Of a reserved place below the home; none for one that holds the home."""

    names: Parts
    is_directory: bool

    def covers(self, names: Parts) -> bool:
        """Also `mirror.sqlite-wal`, `tls.key.bak`, `policy.rego~`: what programs keep beside a file."""
        if names[: len(self.names)] == self.names:
            return True
        at = len(self.names) - 1
        if self.is_directory or len(names) <= at or names[:at] != self.names[:-1]:
            return False
        return names[at].startswith(tuple(f"{self.names[-1]}{mark}" for mark in "-.~"))


def _folded(parts: Iterable[str]) -> Parts:
    return tuple(map(folded, parts))


def _spellings(path: Path) -> Iterator[Path]:
    """The path itself, what it links to step by step, and where it is in the end."""
    for _ in range(_LINKS_MAX):
        path = Path(os.path.abspath(path))
        yield path
        try:
            path = path.parent / os.readlink(path)
        except OSError:
            break
    yield Path(os.path.realpath(path))


def _identities_below(places: Iterable[Path]) -> frozenset[Identity]:
    found = frozenset(islice((each for place in places for each in _files_below(place)), _ENTRIES_MAX + 1))
    return found if len(found) <= _ENTRIES_MAX else frozenset([_TOO_MANY])


def _files_below(place: Path) -> Iterator[Identity]:
    """Of a file or directory. What cannot be looked at is passed over: tools cannot reach into it either."""
    found = _find(place)
    if found is None:
        return
    yield _identity(found)
    if stat.S_ISDIR(found.st_mode):
        for each in _entries(place):
            yield from _files_below(Path(each.path))


def _links_below(place: Path) -> Iterator[Path]:
    for each in _entries(place):
        if each.is_symlink():
            yield Path(each.path)
        elif each.is_dir(follow_symlinks=False):
            yield from _links_below(Path(each.path))


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []


def _find(path: Path) -> os.stat_result | None:
    """The link itself, where it is one: what it leads to is a place of its own."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def _reserved(parts: Parts) -> InvalidArgument:
    return InvalidArgument(
        f"'{'/'.join(parts) or '.'}' belongs to the settings of the server, or holds something that does",
        code="PATH_RESERVED",
        hint="choose another name",
    )
