"""Sandboxed files: everything that is done to files under one directory, and to none outside it.

Always true: a path is walked name by name from the root's own descriptor, and no name on the
way, the last one included, is followed if it is a symbolic link. So it does not matter what
somebody swaps while we walk: an operation ends inside the root or fails.
A file is replaced whole or not at all: a crash leaves the old one, and at worst a hidden
`*.new` beside it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec

from tallystick.errors import Conflict, InvalidArgument, LimitExceeded, NotFound
from tallystick.system.private_files import make_directory, sync_file, write_all

NAME_BYTES_MAX = 255
PATH_CHARACTERS_MAX = 4096
UNFINISHED = ".new"
"""The end of a file's name, hidden by a dot in front, while it is being written."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20
_COPY_BYTES = 1 << 30

Parts = tuple[str, ...]


class Seen(msgspec.Struct, frozen=True):
    """A name in a directory. `kind` is "other" for links, sockets and the like, which are never opened."""

    name: str
    kind: str
    bytes: int


def parts_of(path: str) -> Parts:
    """The names a path is made of; none for the root. Raises InvalidArgument for what could lead elsewhere."""
    if len(path) > PATH_CHARACTERS_MAX:
        raise _refused("the path is too long")
    if path.startswith("/") or "\\" in path or (len(path) > 1 and path[1] == ":"):
        raise _refused("the path must be relative to the base directory, with / between names")
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    for part in parts:
        if part == "..":
            raise _refused("the path must not contain '..'")
        if any(ord(character) < 32 or ord(character) == 127 for character in part):
            raise _refused("the path must not contain control characters")
        if len(part.encode("utf-8", "replace")) > NAME_BYTES_MAX or not _is_encodable(part):
            raise _refused("a name in the path is too long or not valid text")
    return parts


class Guard(Protocol):
    """Says what is out of reach although it lies below the root. By names where they are walked, and by what is found
    there, which no renaming can deceive."""

    def check_use(self, parts: Parts) -> None: ...

    def check_change(self, parts: Parts) -> None:
        """Also raises for a directory that holds something that is out of reach."""

    def check_found(self, found: os.stat_result, parts: Parts) -> None: ...

    def check_changed(self, found: os.stat_result, parts: Parts) -> None:
        """The same as `check_change`, of what is about to be moved, replaced or removed."""

    def hides(self, parts: Parts, found: os.stat_result | None) -> bool: ...


class _Open:
    """Where nothing below the root is out of reach."""

    def check_use(self, parts: Parts) -> None: ...

    def check_change(self, parts: Parts) -> None: ...

    def check_found(self, found: os.stat_result, parts: Parts) -> None: ...

    def check_changed(self, found: os.stat_result, parts: Parts) -> None: ...

    def hides(self, parts: Parts, found: os.stat_result | None) -> bool:
        return False


class SandboxedFiles:
    """Paths are tuples of names, as `parts_of` makes them. OSErrors of the disk itself are passed on."""

    def __init__(self, root: Path, guard: Guard | None = None) -> None:
        self.root = root
        self._guard = guard or _Open()

    # -- looking

    def read(self, parts: Parts, *, bytes_max: int | None = None) -> bytes:
        with self._opened(parts) as fd:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise _refused(f"'{_shown(parts)}' is not a file", code="NOT_A_FILE")
            if bytes_max is not None and found.st_size > bytes_max:
                raise LimitExceeded(
                    f"'{_shown(parts)}' has {found.st_size} bytes, more than {bytes_max}", code="FILE_TOO_LARGE"
                )
            return _read_all(fd, found.st_size)

    def digest(self, parts: Parts) -> str:
        """SHA-256 of a file, in hexadecimal, without holding all of it in memory."""
        hashed = sha256()
        with self._opened(parts) as fd:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise _refused(f"'{_shown(parts)}' is not a file", code="NOT_A_FILE")
            while piece := os.read(fd, _CHUNK_BYTES):
                hashed.update(piece)
        return hashed.hexdigest()

    def find(self, parts: Parts) -> os.stat_result | None:
        """What is there, links not followed; None when nothing is."""
        try:
            if not parts:
                return os.stat(self.root)
            self._guard.check_use(parts)
            with self.directory(parts[:-1]) as fd:
                return os.stat(parts[-1], dir_fd=fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, NotFound):
            return None

    def list(self, parts: Parts, *, to_change: bool = False) -> list[Seen]:
        """What is out of reach is left out; or, of what is to be changed, refused."""
        with self.directory(parts) as fd, os.scandir(fd) as names:
            shown = []
            for name in names:
                found, place = name.stat(follow_symlinks=False), (*parts, name.name)
                if to_change:
                    self._guard.check_changed(found, place)
                if to_change or not self._guard.hides(place, found):
                    shown.append(_seen(name, found))
            return sorted(shown, key=lambda seen: seen.name)

    # -- changing

    def write(
        self, parts: Parts, data: bytes, *, overwrite: bool = True, sync: bool = False, sync_name: bool = False
    ) -> os.stat_result:
        """Have these bytes under this name, atomically. Missing directories are made.

        `sync` makes the bytes durable before they have the name, `sync_name` the name too.
        `overwrite=False` raises Conflict when the name is taken, however late that happened.
        """
        return self.write_stream(parts, [data], overwrite=overwrite, sync=sync, sync_name=sync_name)

    def write_stream(
        self,
        parts: Parts,
        pieces: Iterable[bytes],
        *,
        overwrite: bool = True,
        sync: bool = False,
        sync_name: bool = False,
    ) -> os.stat_result:
        """Like `write`, piece by piece. What was under the name stays if `pieces` raises."""

        def fill(file: int) -> None:
            for piece in pieces:
                write_all(file, piece)

        self._guard.check_change(parts)
        with self.directory(parts[:-1], make=True) as fd:
            self._check_there(fd, parts)
            with _unfinished(fd, fill, sync=sync) as (fresh, found):
                self._place(fd, fresh, fd, parts, overwrite=overwrite)
            if sync_name:
                sync_file(fd)
            return found

    def copy(self, source: Parts, target: Parts, *, sync: bool = False) -> os.stat_result:
        """Within the kernel: a large file is not read into memory, and shares blocks where it can."""
        with (
            self._opened(source) as origin,
            self.directory(target[:-1], make=True) as fd,
            _unfinished(fd, lambda file: _copy(origin, file), sync=sync) as (fresh, found),
        ):
            os.rename(fresh, target[-1], src_dir_fd=fd, dst_dir_fd=fd)
            return found

    def rename(self, source: Parts, target: Parts, *, overwrite: bool = False, make: bool = True) -> None:
        self._guard.check_change(source)
        self._guard.check_change(target)
        with self.directory(source[:-1]) as origin, self.directory(target[:-1], make=make) as fd:
            self._check_there(origin, source)
            self._check_there(fd, target)
            try:
                self._place(origin, source[-1], fd, target, overwrite=overwrite)
            except FileNotFoundError:
                raise _missing(source) from None

    def set_time(self, parts: Parts, mtime_ns: int) -> None:
        with self.directory(parts[:-1]) as fd:
            os.utime(parts[-1], ns=(mtime_ns, mtime_ns), dir_fd=fd, follow_symlinks=False)

    def remove(self, parts: Parts) -> None:
        """A file, or a directory with everything in it; a link itself, never what it leads to."""
        self._guard.check_change(parts)
        with self.directory(parts[:-1]) as fd:
            self._check_there(fd, parts)
            try:
                _remove(fd, parts[-1])
            except FileNotFoundError:
                raise _missing(parts) from None

    @contextmanager
    def directory(self, parts: Parts, *, make: bool = False) -> Iterator[int]:
        self._guard.check_use(parts)
        fd = self._root_descriptor(make)
        try:
            self._guard.check_found(os.fstat(fd), ())
            for depth, name in enumerate(parts, 1):
                below = _enter(fd, name, parts[:depth], make=make)
                os.close(fd)
                fd = below
                self._guard.check_found(os.fstat(fd), parts[:depth])
            yield fd
        finally:
            os.close(fd)

    # -- below

    def _root_descriptor(self, make: bool) -> int:
        if make:
            make_directory(self.root)
        return os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    @contextmanager
    def _opened(self, parts: Parts) -> Iterator[int]:
        if not parts:
            raise _refused("the base directory is not a file", code="NOT_A_FILE")
        self._guard.check_use(parts)
        with self.directory(parts[:-1]) as fd:
            try:
                file = os.open(parts[-1], _READ, dir_fd=fd)
            except FileNotFoundError:
                raise _missing(parts) from None
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENXIO):
                    raise _refused(f"'{_shown(parts)}' is a symbolic link or no ordinary file") from None
                raise
        try:
            self._guard.check_found(os.fstat(file), parts)
            yield file
        finally:
            os.close(file)

    def _check_there(self, fd: int, parts: Parts) -> None:
        """What has this name now."""
        with suppress(FileNotFoundError):
            self._guard.check_changed(os.stat(parts[-1], dir_fd=fd, follow_symlinks=False), parts)

    def _place(self, origin: int, name: str, fd: int, target: Parts, *, overwrite: bool) -> None:
        if overwrite:
            os.rename(name, target[-1], src_dir_fd=origin, dst_dir_fd=fd)
            return
        taken = Conflict(f"'{_shown(target)}' exists already", code="FILE_EXISTS")
        if not stat.S_ISDIR(os.stat(name, dir_fd=origin, follow_symlinks=False).st_mode):
            try:
                # A link fails when the name is taken, which a rename would not.
                os.link(name, target[-1], src_dir_fd=origin, dst_dir_fd=fd, follow_symlinks=False)
            except FileExistsError:
                raise taken from None
            os.unlink(name, dir_fd=origin)
            return
        with suppress(FileNotFoundError):
            os.stat(target[-1], dir_fd=fd, follow_symlinks=False)
            raise taken
        # Whoever takes the name just now keeps it, unless it is an empty directory.
        os.rename(name, target[-1], src_dir_fd=origin, dst_dir_fd=fd)


def is_unfinished(name: str) -> bool:
    return name.startswith(".") and name.endswith(UNFINISHED)


def _enter(fd: int, name: str, parts: Parts, *, make: bool) -> int:
    for attempt in (1, 2):
        try:
            return os.open(name, _DIRECTORY, dir_fd=fd)
        except FileNotFoundError:
            if not make or attempt == 2:
                raise _missing(parts) from None
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=fd)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            raise _refused(f"'{_shown(parts)}' is not a directory (symbolic links are not followed)") from None
    raise AssertionError("unreachable")


@contextmanager
def _unfinished(fd: int, fill: Callable[[int], None], *, sync: bool) -> Iterator[tuple[str, os.stat_result]]:
    """A new file under a hidden name, to be given its own inside; where that fails it is gone."""
    name = f".{secrets.token_hex(8)}{UNFINISHED}"
    try:
        file = os.open(name, _CREATE, 0o600, dir_fd=fd)
        try:
            fill(file)
            if sync:
                sync_file(file)
            found = os.fstat(file)
        finally:
            os.close(file)
        yield name, found
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=fd)
        raise


def _copy(origin: int, file: int) -> None:
    os.lseek(origin, 0, os.SEEK_SET)
    while _copy_some(origin, file):
        pass


def _copy_some(origin: int, file: int) -> int:
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(origin, file, _COPY_BYTES)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
    piece = os.read(origin, _CHUNK_BYTES)
    write_all(file, piece)
    return len(piece)


def _read_all(fd: int, size: int) -> bytes:
    pieces = []
    while piece := os.read(fd, max(_CHUNK_BYTES, size + 1)):
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _remove(fd: int, name: str) -> None:
    if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=fd)
        return
    below = os.open(name, _DIRECTORY, dir_fd=fd)
    try:
        for each in os.listdir(below):
            _remove(below, each)
    finally:
        os.close(below)
    os.rmdir(name, dir_fd=fd)


def _seen(entry: os.DirEntry[str], found: os.stat_result) -> Seen:
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    return Seen(entry.name, kind, found.st_size)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(parts: Sequence[str]) -> str:
    return "/".join(parts)


def _refused(message: str, *, code: str = "PATH_NOT_ALLOWED") -> InvalidArgument:
    return InvalidArgument(message, code=code)


def _missing(parts: Sequence[str]) -> NotFound:
    return NotFound(f"there is no file or directory '{_shown(parts)}'", code="FILE_NOT_FOUND")
