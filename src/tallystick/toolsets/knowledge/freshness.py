"""The freshness of knowledge: whether the files that an atom is about are still as they were when it was pinned.

A pin notes the git blob of each file that the atom's globs match, committed or not: tracked,
changed and new files alike, all but ignored ones; of a submodule the commit that is checked
out, since its files are another repository's. Everything here asks git, so it may block, belongs
in a thread, and gives up (None) rather than take long: then nothing is said of freshness, and
nothing is refused.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import threading
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from tallystick.state.knowledge.catalogue import routes_of
from tallystick.state.knowledge.globs import Route, literal_head, segments_of
from tallystick.state.knowledge.index import GlobIndex
from tallystick.system.git import blob_id, filter_drivers, find_work_tree, lfs_pointer, run_git
from tallystick.system.repository import relative_to_root

K = TypeVar("K", bound=Hashable)
Files = dict[str, str]
"""Path → blob id."""
Routes = Mapping[str, tuple[Route, ...]]
"""Of each pattern."""

SECONDS_MAX = 3.0
FILES_MAX = 200_000
PINNED_FILES_MAX = 500
"""With more of them only the hash over all is kept: then it is not known which ones changed."""
HASHED_FILES_MAX = 2_000
HASHED_BYTES_MAX = 64 << 20
HEADS_MAX = 500
CHANGED_SHOWN = 20

_BLOB_CHARACTERS = 12
_SHA1_CHARACTERS = 40
_CACHED_PATTERNS = 10_000

logger = logging.getLogger(__name__)


class Origin(Protocol):
    """Where something was pinned."""

    @property
    def commit(self) -> str | None: ...

    @property
    def work_tree(self) -> str | None: ...


class Pin(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept in the atom's attribute `pin`."""

    hash: str
    """Over all files and their blobs."""
    at: str = ""
    commit: str | None = None
    """HEAD at that time: a repository that does not know it is another one."""
    files: str | None = None
    """A line for each: the beginning of its blob id, and its path. One text, since it is not searched by."""
    work_tree: str | None = None
    """Where there was no commit yet: a hash of the place, by which to know it again."""


class Freshness(msgspec.Struct, frozen=True):
    fresh: bool
    changed: tuple[str, ...] | None = None
    """None when it is not known which."""
    matches_nothing: tuple[str, ...] = ()
    """Those of the patterns that no file fits. Where that is all of them, nothing is fresh."""


class Blobs(msgspec.Struct, frozen=True):
    """Of files that are named one by one."""

    files: dict[str, str | None]
    """None for what is no file that git would know."""
    ours: frozenset[Any]
    """The keys of what was pinned in this repository."""
    commit: str | None
    work_tree: str | None
    """As in a pin."""


def read_pin(attrs: Mapping[str, Any]) -> Pin | None:
    try:
        return msgspec.convert(attrs.get("pin"), Pin)
    except msgspec.ValidationError:
        return None


def describe(found: Freshness, pin: Pin) -> dict[str, Any]:
    """What is said of it in an answer."""
    said: dict[str, Any] = {"fresh": found.fresh, "pinnedAt": pin.at}
    if found.changed is not None:
        said["changedFiles"] = list(found.changed[:CHANGED_SHOWN])
        if len(found.changed) > CHANGED_SHOWN:
            said["changedFilesOmitted"] = len(found.changed) - CHANGED_SHOWN
    if found.matches_nothing:
        said["matchesNothing"] = list(found.matches_nothing)
    return said


class Unknown(Exception):
    """Git does not know, or not in time."""


class Repository:
    """What patterns are relative to: the directory that is named; else the root of the work tree around the working
    directory, or where there is none the working directory itself. One that is in no work tree knows nothing."""

    def __init__(
        self,
        named: Path | None = None,
        *,
        base: Path | None = None,
        falls_back: bool = True,
        seconds_max: float | None = None,
    ) -> None:
        """What lies in the `base` is never looked at: contents of all tenants do. Without `falls_back` it must be
        named: callers other than the one who started the process do not get at its working directory."""
        self._named = named
        self._base = base
        self._falls_back = falls_back
        self._seconds_max = SECONDS_MAX if seconds_max is None else seconds_max
        self._lock = threading.Lock()
        self._seen: _Seen | None = None
        self._places: dict[Path, tuple[str, Path]] = {}
        """For each root (the working directory may change): where it is in its work tree, and git's index."""
        self._commits: set[tuple[Path, str]] = set()
        """Those that are known to be there, and so remain."""
        self._outside: set[Path] = set()
        """Of which it was said that there is no work tree around them."""

    @property
    def is_missing(self) -> bool:
        """Whether one would have to be named, and is not."""
        return self._named is None and not self._falls_back

    @property
    def root(self) -> Path:
        """Raises OSError when the working directory is gone."""
        if self._named is not None:
            return self._named
        working = Path.cwd()
        found = find_work_tree(working)
        if found is None and working not in self._outside:
            self._outside.add(working)
            logger.info("there is no git work tree around %s: paths of knowledge are relative to it", working)
        return found or working

    def relative(self, path: str) -> str:
        """Return an absolute path or pattern below the root relative to it, any other unchanged."""
        if self.is_missing:
            return path
        try:
            return relative_to_root(path, self.root)
        except OSError:
            return path

    def pin(self, patterns: Sequence[str], at: str, *, instead_of: Pin | None = None) -> Pin | None:
        """None too where another repository's pin would be replaced: what is here says nothing of its files."""
        patterns = _texts(patterns)
        with self._lock:
            try:
                git = self._git()
                if instead_of is not None and not self._ours(git, {0: instead_of}):
                    raise Unknown("the pin is another repository's")
                files = _united(self._matched(git, patterns), patterns)
                return _pin(files, at, git.find("rev-parse", "--verify", "--quiet", "HEAD"), _place(git))
            except (Unknown, OSError) as error:
                logger.debug("no pin: %s", error)
                return None

    def compare(self, pins: Mapping[K, tuple[Sequence[str], Pin]]) -> dict[K, Freshness]:
        """What is known of it."""
        if not pins:
            return {}
        with self._lock:
            try:
                git = self._git()
                ours = self._ours(git, {key: pin for key, (_, pin) in pins.items()})
                asked = {key: (_texts(patterns), pin) for key, (patterns, pin) in pins.items() if key in ours}
                matched = self._matched(git, [pattern for patterns, _ in asked.values() for pattern in patterns])
            except (Unknown, OSError) as error:
                logger.debug("freshness is not known: %s", error)
                return {}
        return {key: _compare(matched, patterns, pin) for key, (patterns, pin) in asked.items()}

    def blobs(self, paths: Sequence[str], origins: Mapping[K, Origin]) -> Blobs | None:
        """What these files are now; None where git does not know."""
        with self._lock:
            try:
                git = self._git()
                ours = frozenset(self._ours(git, origins))
                tracked = self._seen_at(git).tracked
                listed = git.ask(*_CHANGED, *paths) if paths else b""
                names = {os.fsdecode(line[2:]) for line in listed.split(b"\0") if line}
                changed = [path for path in paths if path in names and path not in git.hidden]
                hashed = _hash(git, changed)
                files = {path: hashed.get(path) if path in names else tracked.get(path) for path in paths}
                commit = git.find("rev-parse", "--verify", "--quiet", "HEAD")
                return Blobs(files, ours, commit, None if commit else _place(git))
            except (Unknown, OSError) as error:
                logger.debug("files are not known: %s", error)
                return None

    def files(self) -> list[str] | None:
        """What git tracks here, in order; None where it does not know. The same list for as long as it is the same:
        not to be changed."""
        try:
            git = self._git()
            # Without the lock, which whoever compares files holds while git looks at all of them.
            seen = self._seen
            if seen is not None and git.root in self._places and seen.stamp == self._stamp(git):
                return seen.names
            with self._lock:
                return self._seen_at(git).names
        except (Unknown, OSError) as error:
            logger.debug("files are not known: %s", error)
            return None

    def _git(self) -> _Git:
        if self.is_missing:
            raise Unknown("no repository is named")
        root = self.root
        return _Git(root, time.monotonic() + self._seconds_max, HiddenPaths(root, self._base))

    def _ours(self, git: _Git, pins: Mapping[K, Origin]) -> set[K]:
        """Those that were made in this repository, in whichever of its work trees."""
        self._learn_commits(git, {pin.commit for pin in pins.values() if pin.commit})
        return {key for key, pin in pins.items() if self._is_ours(git, pin)}

    def _is_ours(self, git: _Git, pin: Origin) -> bool:
        if pin.commit is not None:
            return (git.root, pin.commit) in self._commits
        return pin.work_tree is None or pin.work_tree == _place(git)

    def _learn_commits(self, git: _Git, commits: set[str]) -> None:
        unknown = sorted(commit for commit in commits if (git.root, commit) not in self._commits)
        if unknown:
            lines = git.ask("cat-file", "--batch-check", said="\n".join(unknown).encode() + b"\n").split(b"\n")
            words = [line.decode(errors="replace").split(" ") for line in lines]
            self._commits |= {(git.root, found[0]) for found in words if found[1:2] == ["commit"]}

    def _matched(self, git: _Git, patterns: Sequence[str]) -> dict[str, Files]:
        """The files that each pattern matches now, with what the working tree holds of them."""
        if not patterns:
            return {}
        routes = {pattern: routes_of([pattern]) for pattern in set(patterns)}
        tracked = self._tracked(git, routes)
        changed = _changed(git, routes)
        return {pattern: _overlaid(tracked[pattern], changed[pattern]) for pattern in routes}

    def _tracked(self, git: _Git, routes: Routes) -> dict[str, Files]:
        seen = self._seen_at(git)
        missing = {pattern: each for pattern, each in routes.items() if pattern not in seen.matched}
        if missing:
            seen.matched.update(_assign(seen.tracked, missing))
        return {pattern: seen.matched[pattern] for pattern in routes}

    def _seen_at(self, git: _Git) -> _Seen:
        """As the index has them; remembered for as long as the index stays as it is."""
        stamp = self._stamp(git)
        if self._seen is None or self._seen.stamp != stamp or len(self._seen.matched) > _CACHED_PATTERNS:
            tracked = _list_tracked(git)
            self._seen = _Seen(stamp, tracked, sorted(tracked), {})
        return self._seen

    def _stamp(self, git: _Git) -> tuple[Any, ...]:
        place = self._places.get(git.root)
        if place is None or not place[1].exists():
            prefix, _, said = os.fsdecode(git.ask("rev-parse", "--show-prefix", "--git-path", "index")).partition("\n")
            place = self._places[git.root] = (prefix, git.root / said.rstrip("\n"))
        git.prefix, index = place
        try:
            found = index.stat()
        except OSError:
            return (index, None)
        return (index, found.st_mtime_ns, found.st_size, found.st_ino)


class _Seen(msgspec.Struct):
    stamp: tuple[Any, ...]
    tracked: Files
    names: list[str]
    matched: dict[str, Files]


class HiddenPaths:
    """Which paths of a work tree lie in the base. Raises Unknown when all of them do."""

    def __init__(self, root: Path, base: Path | None) -> None:
        self._root, self._base = Path(os.path.realpath(root)), None if base is None else Path(os.path.realpath(base))
        self._head = ""
        if self._base is None:
            return
        if self._root.is_relative_to(self._base):
            raise Unknown("the repository lies in the base")
        if self._base.is_relative_to(self._root):
            self._head = f"{self._base.relative_to(self._root).as_posix()}/"

    def __contains__(self, path: str) -> bool:
        if not self._head:
            return False
        top = f"{path}/"[: len(self._head)]
        return top == self._head or (top.casefold() == self._head.casefold() and self._is_base(top))

    def _is_base(self, path: str) -> bool:
        """In other letters: whether the file system takes them for the same."""
        try:
            return self._base is not None and os.path.samefile(self._root / path, self._base)
        except OSError:
            return False


# -- what git is asked


class _Git:
    def __init__(self, root: Path, deadline: float, hidden: HiddenPaths) -> None:
        self.root = root
        self.hidden = hidden
        self.prefix = ""
        """What `hash-object` wants in front of a path: it looks from the top of the work tree."""
        self._deadline = deadline
        self._drivers: dict[str, frozenset[str]] = {}

    def ask(self, *arguments: str, said: bytes = b"", within: str = "") -> bytes:
        """Raises Unknown when there is no git, no repository, no answer in time, or anything else is amiss."""
        if not self._left:
            raise Unknown(f"no time is left to ask {arguments[0]}")
        try:
            drivers = self.drivers(within)
            return run_git(self.root / within, *arguments, data=said, seconds=self._left, drivers=drivers)
        except (OSError, subprocess.SubprocessError) as error:
            raise Unknown(f"{arguments[0]}: {error}") from None

    def drivers(self, within: str = "") -> frozenset[str]:
        """The filters of the repository, listed once."""
        if within not in self._drivers:
            self._drivers[within] = filter_drivers(self.root / within, self._left)
        return self._drivers[within]

    @property
    def _left(self) -> float:
        """Seconds."""
        return max(self._deadline - time.monotonic(), 0.0)

    def find(self, *arguments: str, within: str = "") -> str | None:
        try:
            return self.ask(*arguments, within=within).decode().strip() or None
        except Unknown:
            return None


def _list_tracked(git: _Git) -> Files:
    lines = git.ask("ls-files", "-s", "-z").split(b"\0")
    if len(lines) > FILES_MAX:
        raise Unknown(f"there are more than {FILES_MAX} files")
    found: Files = {}
    for line in filter(None, lines):
        entry, _, path = line.partition(b"\t")
        found[os.fsdecode(path)] = entry.split(b" ")[1].decode()
    return {path: blob for path, blob in found.items() if path not in git.hidden}


_CHANGED = ("ls-files", "-z", "-t", "-m", "-d", "-o", "--exclude-standard", "--")


def _changed(git: _Git, routes: Routes) -> dict[str, dict[str, str | None]]:
    """What the working tree has otherwise than the index: path → blob, None for what is gone."""
    listed = git.ask(*_CHANGED, *_heads(routes.values()))
    names = {name for line in listed.split(b"\0") if line and (name := os.fsdecode(line[2:])) not in git.hidden}
    if len(names) > FILES_MAX:
        raise Unknown(f"more than {FILES_MAX} files were changed")
    per_pattern = _assign(dict.fromkeys(names, ""), routes)
    wanted = sorted({path for files in per_pattern.values() for path in files})
    blobs = _hash(git, wanted)
    return {pattern: {path: blobs.get(path) for path in files} for pattern, files in per_pattern.items()}


def _heads(routes: Iterable[tuple[Route, ...]]) -> list[str]:
    """Where to look at all; nothing for everywhere."""
    heads = {literal_head(route) for each in routes for route in each}
    return [] if "" in heads or len(heads) > HEADS_MAX else sorted(heads)


def _hash(git: _Git, paths: list[str]) -> Files:
    """The blobs that these files would be. What is no file any more is left out."""
    regular, links, submodules, size = [], [], [], 0
    for path in paths:
        place = git.root / path
        if place.is_symlink():
            links.append(path)
        elif place.is_file() and "\n" not in path:
            regular.append(path)
            size += place.stat().st_size
        elif not path.endswith("/") and (place / ".git").exists():
            # With a slash it is a repository that git only found lying there.
            submodules.append(path)
    if len(regular) > HASHED_FILES_MAX or size > HASHED_BYTES_MAX:
        raise Unknown(f"{len(regular)} changed files of {size} bytes are too many to be hashed")
    blobs: Files = {}
    if regular:
        said = os.fsencode("".join(f"{git.prefix}{path}\n" for path in regular))
        hashes = git.ask("hash-object", "--stdin-paths", said=said).decode().split()
        if len(hashes) != len(regular):
            raise Unknown("a file went away while it was hashed")
        blobs.update(zip(regular, hashes, strict=True))
        for path in _lfs_files(git, regular):
            pointer = lfs_pointer((git.root / path).read_bytes())
            blobs[path] = blob_id(pointer, is_sha256=len(blobs[path]) > _SHA1_CHARACTERS)
    for path in links:
        target = os.fsencode(os.readlink(git.root / path))
        blobs[path] = git.ask("hash-object", "--stdin", said=target).decode().strip()
    for path in submodules:
        head = git.find("rev-parse", "--verify", "--quiet", "HEAD", within=path)
        blobs |= {path: head} if head else {}
    return blobs


def _lfs_files(git: _Git, paths: Sequence[str]) -> Iterable[str]:
    """Those of these files that Git LFS keeps. What its filter prints is known without running it."""
    if "filter.lfs" not in git.drivers():
        return ()
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    words = git.ask("check-attr", "-z", "--stdin", "filter", said=names).split(b"\0")
    return [os.fsdecode(path) for path, value in zip(words[::3], words[2::3], strict=False) if value == b"lfs"]


# -- what follows


def _assign(files: Files, routes: Routes) -> dict[str, Files]:
    index: GlobIndex[str] = GlobIndex()
    for pattern, each in routes.items():
        index.add(pattern, each)
    found: dict[str, Files] = {pattern: {} for pattern in routes}
    for path, blob in files.items():
        segments = segments_of(path)
        for pattern in index.match(segments) if segments else ():
            found[pattern][path] = blob
    return found


def _overlaid(tracked: Files, changed: Mapping[str, str | None]) -> Files:
    if not changed:
        return tracked
    merged = {**tracked, **changed}
    return {path: blob for path, blob in merged.items() if blob is not None}


def _united(matched: Mapping[str, Files], patterns: Sequence[str]) -> Files:
    found: Files = {}
    for pattern in patterns:
        found |= matched[pattern]
    return found


def _texts(patterns: Sequence[Any]) -> list[str]:
    """What others than the tools have written may be anything."""
    return [pattern for pattern in patterns if isinstance(pattern, str)]


def _place(git: _Git) -> str:
    return hashlib.sha256(os.fsencode(git.root.resolve())).hexdigest()


def _pin(files: Files, at: str, commit: str | None, place: str) -> Pin:
    lines = "".join(f"{blob[:_BLOB_CHARACTERS]} {path}\n" for path, blob in sorted(files.items()))
    kept = lines if len(files) <= PINNED_FILES_MAX and _is_text(lines, len(files)) else None
    return Pin(_digest(files), at, commit, kept, None if commit else place)


def _compare(matched: Mapping[str, Files], patterns: Sequence[str], pin: Pin) -> Freshness:
    files = _united(matched, patterns)
    empty = tuple(pattern for pattern in patterns if not matched[pattern])
    if _digest(files) == pin.hash:
        return Freshness(bool(files), (), empty)
    if pin.files is None:
        return Freshness(False, None, empty)
    before = {path: blob for blob, _, path in (line.partition(" ") for line in pin.files.split("\n") if line)}
    now = {path: blob[:_BLOB_CHARACTERS] for path, blob in files.items()}
    changed = (_shown(path) for path in before | now if before.get(path) != now.get(path))
    return Freshness(False, tuple(sorted(changed)), empty)


def _digest(files: Files) -> str:
    lines = sorted(os.fsencode(f"{blob} {path}") for path, blob in files.items())
    return hashlib.sha256(b"\0".join(lines)).hexdigest()


def _is_text(lines: str, count: int) -> bool:
    """Names may hold bytes that are no text, or line ends: those cannot be listed."""
    return lines == _shown(lines) and lines.count("\n") == count


def _shown(path: str) -> str:
    return path.encode(errors="replace").decode()
