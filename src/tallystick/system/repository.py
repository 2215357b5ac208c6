"""The git repository around a directory, found as git finds it, and the memory that lies in it.

Nothing but the standard library and no process is started: the hook asks this before everything else. Who put the
files there is unknown, so they are read within bounds, and whatever is odd about them means "no repository".
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tallystick.system.regular_files import open_regular

MEMORY = "tallystick"
"""The directory of a repository's memory, in what its work trees have in common: outside version control, and in no
clone."""

_POINTER_BYTES_MAX = 8192
_LEVELS_MAX = 256


class Repository(NamedTuple):
    root: Path
    """Of this work tree."""
    common: Path
    """What all its work trees share: the directory `.git` of the main one."""

    @property
    def memory(self) -> Path:
        """Where its memory lies, or would."""
        return self.common / MEMORY


def find_repository(start: Path) -> Repository | None:
    """The nearest around `start`; None where there is none, or it is another user's. A directory without `.git` that
    looks like a bare repository is none: it could be part of what was cloned. Nor are git's variables looked at."""
    try:
        start = Path(os.path.abspath(start))
        for directory in (start, *start.parents)[:_LEVELS_MAX]:
            if _exists(directory / ".git"):
                common = _common(directory / ".git")
                return None if common is None else Repository(directory, common)
    except (OSError, ValueError):
        pass
    return None


def find_memory(start: Path) -> Path | None:
    """The memory of the repository around `start`, where somebody made one (`tallystick init`) and it is ours."""
    found = find_repository(start)
    if found is None or found.memory.is_symlink() or not _is_own_directory(found.memory):
        return None
    return found.memory


def lies_in_repository(path: Path) -> bool:
    """Whether a work tree or a git directory holds this file, by any of its names. A clone or an archive may have
    brought what does, whoever owns it now. True if a directory above it cannot be read."""
    names = {Path(os.path.abspath(path)), Path(os.path.realpath(path))}
    try:
        return any(
            _exists(directory / ".git") or (_exists(directory / "HEAD") and _exists(directory / "objects"))
            for directory in {parent for name in names for parent in name.parents}
        )
    except OSError:
        return True


def find_link(base: Path) -> Path | None:
    """Return a symbolic link in the place of a file or a directory that only programs write there, in any tenant."""
    return next(_links_of_home(base), None)


def _links_of_home(home: Path) -> Iterator[Path]:
    for entry in _entries(home):
        is_ours = entry.name in ("_system", "tenants") or entry.name.startswith("graph.db")
        if is_ours and entry.is_symlink():
            yield Path(entry.path)
        elif entry.name == "_system":
            yield from _links_below(Path(entry.path))
        elif entry.name == "tenants":
            for tenant in _entries(Path(entry.path)):
                yield from [Path(tenant.path)] if tenant.is_symlink() else _links_of_home(Path(tenant.path))


def _links_below(directory: Path) -> Iterator[Path]:
    for entry in _entries(directory):
        if entry.is_symlink():
            yield Path(entry.path)
        elif entry.is_dir(follow_symlinks=False):
            yield from _links_below(Path(entry.path))


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    """None if it is not there or cannot be read."""
    with suppress(OSError), os.scandir(directory) as entries:
        return list(entries)
    return []


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _common(dot_git: Path) -> Path | None:
    """`.git` is the repository itself, or a file that names the part of it that belongs to this work tree."""
    if dot_git.lstat().st_uid != os.geteuid():
        # Whoever may write above us must not choose which of our repositories this is.
        return None
    place = dot_git
    if not dot_git.is_dir():
        said = _read_line(dot_git)
        if not said.startswith(b"gitdir: "):
            return None
        place = _joined(dot_git.parent, said.removeprefix(b"gitdir: "))
    elsewhere = place / "commondir"
    common = _joined(place, _read_line(elsewhere)) if _exists(elsewhere) else place
    return common if _is_own_directory(place) and _is_git_directory(common) else None


def _is_git_directory(path: Path) -> bool:
    return _is_own_directory(path) and _exists(path / "HEAD") and (path / "objects").is_dir()


def _is_own_directory(path: Path) -> bool:
    try:
        seen = path.stat()
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()


def _joined(directory: Path, said: bytes) -> Path:
    if not said:
        raise ValueError("it names nothing")
    return Path(os.path.realpath(directory / os.fsdecode(said), strict=True))


def _read_line(path: Path) -> bytes:
    """Raises ValueError for what is too long, and OSError."""
    with open_regular(path) as file:
        said = file.read(_POINTER_BYTES_MAX + 1)
    if len(said) > _POINTER_BYTES_MAX:
        raise ValueError(f"{path} is too long")
    return said.rstrip(b"\r\n")


def relative_to_root(path: str, root: Path) -> str:
    """Return an absolute path or pattern below a repository's root relative to it, any other unchanged.

    Spellings are compared first, then real paths: a link on the way to the root must not matter, but a link inside the
    repository is a file of its own.
    """
    if not path.startswith("/"):
        return path
    real_root = os.path.realpath(root)
    for prefix, spelling in ((str(root), path), (real_root, path), (real_root, os.path.realpath(path))):
        below = spelling.removeprefix(prefix.rstrip("/") + "/")
        if below and below != spelling:
            return below + ("/" if path.endswith("/") and not below.endswith("/") else "")
    return path
