"""A directory that appears under its name only when it is complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tallystick.errors import Conflict, InvalidArgument
from tallystick.system.private_files import sync_directory

MARKER = ".tallystick-export"
"""What is in a directory that an export made: only such a one is replaced."""
_README = (
    b"Made by 'tallystick export --as'. With --force the next export replaces this directory with all that is in it.\n"
)


class Directory:
    """Where the files of an export are put. Every name was made by `file_names`, or is the exporter's own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made: set[str] = set()
        self.files = 0

    def write(self, name: str, data: bytes) -> None:
        """A new file, `DIRECTORY/NAME` or `NAME`. Raises OSError."""
        directory = name.rpartition("/")[0]
        if directory and directory not in self._made:
            os.makedirs(self._path / directory, exist_ok=True)
            self._made.add(directory)
        # Exclusively: a name that came twice would be an entity that is lost.
        fd = os.open(f"{self._path}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with open(fd, "wb", buffering=0) as file:
            view = memoryview(data)
            while view:
                view = view[file.write(view) or 0 :]
        self.files += 1


@contextmanager
def whole_directory(path: Path, *, force: bool = False) -> Iterator[Directory]:
    """Raises Conflict for one that is not empty; with `force` one that an export made is replaced.

    A crash leaves what was there before, or all of the new one; at worst a directory `.NAME.part-PID` beside it, or
    the one that was there before as `.NAME.old-PID`.
    """
    target = Path(os.path.realpath(path))
    check_target(target, shown=path, force=force)
    partial = target.with_name(f".{target.name}.part-{os.getpid()}")
    try:
        partial.mkdir()
        try:
            yield (directory := Directory(partial))
            directory.write(MARKER, _README)
            # One for all of them: a name must not lead to files that a power cut emptied.
            os.sync()
            _take_name(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise InvalidArgument(f"cannot write {path}: {error.strerror}", code="FILE_UNWRITABLE") from error


def check_target(target: Path, *, shown: Path, force: bool) -> None:
    try:
        found = os.listdir(target)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise Conflict(f"{shown} is a file", code="FILE_EXISTS", hint="name a directory, or a new name") from None
    except OSError as error:
        raise InvalidArgument(f"cannot write {shown}: {error.strerror}", code="FILE_UNWRITABLE") from None
    if found and not force:
        hint = "choose another name" + (", or add --force to replace that export" if MARKER in found else "")
        raise Conflict(f"{shown} is not empty", code="NOT_EMPTY", hint=hint)
    if found and MARKER not in found:
        raise Conflict(
            f"{shown} is not empty, and not from an export: it is left alone",
            code="NOT_EMPTY",
            hint="choose another name; --force replaces what an earlier export wrote",
        )


def _take_name(partial: Path, target: Path) -> None:
    former = target.with_name(f".{target.name}.old-{os.getpid()}")
    try:
        os.rename(partial, target)  # Also in place of an empty one.
    except OSError:
        if not target.is_dir() or MARKER not in os.listdir(target):
            raise
        os.rename(target, former)
        try:
            os.rename(partial, target)
        except BaseException:
            with suppress(OSError):
                os.rename(former, target)
            raise
    sync_directory(target.parent)
    shutil.rmtree(former, ignore_errors=True)
