"""What was said in a session of a client: ids and positions, never texts, so that nothing is said twice.

One file a session below `_system/hooks`, a line for each time something was said. Two hooks of a session may run at
once: a line is appended by one write. The files can be deleted at any time; then things may be said again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from tallystick.system.private_files import FILE_MODE, make_directory

FILE_BYTES_MAX = 128 << 10
FILES_MAX = 200
KEPT_SECONDS = 7 * 86_400
_LINE_BYTES_MAX = 16 << 10


class Item(msgspec.Struct, frozen=True):
    """Something that was said, and why."""

    id: str
    why: str
    score: float | None = None


class Said(msgspec.Struct, frozen=True):
    at: str
    event: str
    position: int
    items: tuple[Item, ...] = ()


def directory(home: Path) -> Path:
    return home / "_system" / "hooks"


class SessionFile:
    def __init__(self, home: Path, client: str, session: str) -> None:
        # Only the hash names a file: a session's id is whatever the client says.
        self.name = sha256(f"{client}\0{session}".encode("utf-8", "replace")).hexdigest()[:32]
        self.path = directory(home) / f"{client}-{self.name}.jsonl"

    def read(self) -> list[Said]:
        return read(self.path)

    def is_full(self) -> bool:
        try:
            return self.path.stat().st_size > FILE_BYTES_MAX
        except OSError:
            return False

    def add(self, event: str, position: int, items: tuple[Item, ...]) -> None:
        """Raises OSError when it cannot be noted."""
        said = Said(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), event, position, items)
        line = msgspec.json.encode(said) + b"\n"
        if len(line) > _LINE_BYTES_MAX:
            raise OSError("too much to be noted")
        make_directory(self.path.parent)
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        try:
            os.write(file, line)
        finally:
            os.close(file)


def read(path: Path) -> list[Said]:
    """What can be read of it: a process that was killed may have left half a line."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(FILE_BYTES_MAX + _LINE_BYTES_MAX)
    except OSError:
        return []
    return list(_lines(data))


def _lines(data: bytes) -> Iterator[Said]:
    for line in data.split(b"\n"):
        with suppress(msgspec.MsgspecError):
            if line:
                yield msgspec.json.decode(line, type=Said)


def last_position(home: Path, client: str) -> int:
    """Up to where any session of the client was told what changed; 0 for never."""
    newest = sorted(_files(home, f"{client}-"), reverse=True)[:3]
    return max((said.position for _, path in newest for said in read(path)), default=0)


def sweep(home: Path) -> None:
    """Sessions that ended long ago, and the oldest where there are too many."""
    now = time.time()
    for number, (modified, path) in enumerate(sorted(_files(home, ""), reverse=True)):
        if number >= FILES_MAX or now - modified > KEPT_SECONDS:
            with suppress(OSError):
                path.unlink()


def _files(home: Path, prefix: str) -> Iterator[tuple[float, Path]]:
    try:
        found = list(os.scandir(directory(home)))
    except OSError:
        return
    for each in found:
        with suppress(OSError):
            if each.name.startswith(prefix) and each.name.endswith(".jsonl") and each.is_file(follow_symlinks=False):
                yield each.stat(follow_symlinks=False).st_mtime, Path(each.path)


def sessions(home: Path) -> list[Path]:
    """Newest first."""
    return [path for _, path in sorted(_files(home, ""), reverse=True)]
