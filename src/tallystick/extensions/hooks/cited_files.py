"""Whether files are still as they were when something was said about them: by their git blobs.

A file that has other bytes may still be the same to git, which can be told to change line ends: only then is git asked.
Programs that the repository names as filters do not run; what Git LFS would commit is computed here.
"""

from __future__ import annotations

import os
from pathlib import Path

_FILE_BYTES_MAX = 4 << 20
_GIT_SECONDS = 0.3
_SHA1_CHARACTERS = 40


class WorkTree:
    """Of one repository. Everything about it that cannot be known counts as unchanged."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._blobs: dict[str, bool] = {}

    def relative(self, path: str, cwd: Path) -> str | None:
        """As patterns see it; None for what lies elsewhere."""
        try:
            place = os.path.realpath(cwd / os.path.expanduser(path))
            found = os.path.relpath(place, os.path.realpath(self.root))
        except (OSError, ValueError):
            return None
        return None if found.startswith("..") or found == "." else found.replace(os.sep, "/")

    def is_file(self, path: str) -> bool:
        return (self.root / path).is_file()

    def has_changed(self, path: str, blob: str, commit: str | None) -> bool:
        """Whether the file is another one than that blob, of which the beginning may be given."""
        key = f"{blob} {path}"
        if key not in self._blobs:
            self._blobs[key] = self._has_changed(path, blob, commit)
        return self._blobs[key]

    def _has_changed(self, path: str, blob: str, commit: str | None) -> bool:
        place = self.root / path
        try:
            if place.is_symlink() or (place.is_file() and place.stat().st_size > _FILE_BYTES_MAX):
                return False
            data = place.read_bytes() if place.is_file() else None
        except OSError:
            return False
        from tallystick.system.git import blob_id, lfs_pointer

        is_sha256 = len(blob) > _SHA1_CHARACTERS
        if data is not None and any(
            blob_id(each, is_sha256=is_sha256).startswith(blob) for each in (data, lfs_pointer(data))
        ):
            return False
        return self._git_agrees(path, blob, commit, is_there=data is not None)

    def _git_agrees(self, path: str, blob: str, commit: str | None, *, is_there: bool) -> bool:
        """A repository that does not know the commit is another one, of whose files nothing was said."""
        if commit is not None and self._ask("cat-file", "-e", f"{commit}^{{commit}}") is None:
            return False
        if not is_there:
            return True
        found = self._ask("hash-object", "--", path)
        return found is not None and not found.startswith(blob)

    def _ask(self, *arguments: str) -> str | None:
        import subprocess

        from tallystick.system.git import run_git

        try:
            return run_git(self.root, *arguments, seconds=_GIT_SECONDS).decode(errors="replace").strip()
        except (OSError, subprocess.SubprocessError):
            return None
