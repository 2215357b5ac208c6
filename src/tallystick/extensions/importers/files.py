"""Reading files that nobody vouches for: bounded, in pieces, and nothing outside of what was named.

Symbolic links below the named directory are told and not followed: they may lead outside, or round in circles.
"""

from __future__ import annotations

import os
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tallystick.errors import InvalidArgument
from tallystick.extensions.importers import Unmapped
from tallystick.formats import strict_json
from tallystick.system import regular_files

LINE_BYTES_MAX = 1 << 20
"""More does not fit into a node."""
TEXT_BYTES_MAX = 1 << 20
JSON_BYTES_MAX = 256 << 20
FILES_MAX = 200_000
DEPTH_MAX = 64
_SAMPLE_BYTES = 64 << 10


def open_regular(path: Path) -> BinaryIO:
    """Raises InvalidArgument, also for what is no regular file."""
    try:
        return regular_files.open_regular(path)
    except OSError as error:
        raise unreadable(path, error.strerror or "it cannot be opened") from None


def unreadable(path: Path, why: str) -> InvalidArgument:
    return InvalidArgument(f"cannot read {path}: {why}", code="FILE_UNREADABLE")


def first_bytes(path: Path) -> bytes:
    """To guess by; empty for what cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(_SAMPLE_BYTES).removeprefix(BOM_UTF8)
    except (InvalidArgument, OSError):
        return b""


def read_bytes(path: Path, bytes_max: int) -> bytes:
    """Raises InvalidArgument for what cannot be read or is too large."""
    with open_regular(path) as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise unreadable(path, f"it has more than {bytes_max:,} bytes")
    return data


def read_json(path: Path) -> Any:
    """A whole file. Raises InvalidArgument."""
    try:
        return strict_json.parse(read_bytes(path, JSON_BYTES_MAX).removeprefix(BOM_UTF8))
    except strict_json.JsonFault as fault:
        raise InvalidArgument(f"{path} is not JSON: {fault}", code="FILE_UNREADABLE") from None


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]] | Unmapped]:
    """The object on each line, with where it stands."""
    with open_regular(path) as file:
        number = 0
        while line := file.readline(LINE_BYTES_MAX + 1):
            number += 1
            if number == 1:
                # Editors and shells of Windows put it there.
                line = line.removeprefix(BOM_UTF8)
            where = f"{path.name}:{number}"
            if len(line) > LINE_BYTES_MAX and not line.endswith(b"\n"):
                while (rest := file.readline(LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
                    continue
                yield Unmapped(where, excerpt(line), f"the line has more than {LINE_BYTES_MAX:,} bytes")
            elif line.strip():
                yield _object_on(where, line)


def _object_on(where: str, line: bytes) -> tuple[str, dict[str, Any]] | Unmapped:
    try:
        found = strict_json.parse(line)
    except strict_json.JsonFault as fault:
        cut = "" if line.endswith(b"\n") else "; the last line is not whole"
        return Unmapped(where, excerpt(line), f"not JSON: {fault}{cut}")
    return (where, found) if isinstance(found, dict) else Unmapped(where, excerpt(line), "not a JSON object")


def texts(root: Path, suffix: str, *, skip: frozenset[str] = frozenset()) -> Iterator[tuple[str, str] | Unmapped]:
    """Every file below a directory whose name ends so: its path from there and what it says. In order of names."""
    for found in files(root, suffix, skip=skip):
        yield found if isinstance(found, Unmapped) else read_text(root, found)


def read_text(root: Path, path: Path) -> tuple[str, str] | Unmapped:
    where = path.relative_to(root).as_posix()
    try:
        return where, read_bytes(path, TEXT_BYTES_MAX).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Unmapped(where, path.name, f"not UTF-8 at byte {error.start}")
    except InvalidArgument as error:
        return Unmapped(where, path.name, error.message.rpartition(": ")[2])


def files(root: Path, suffix: str, *, skip: frozenset[str] = frozenset()) -> Iterator[Path | Unmapped]:
    """Directories whose names begin with a dot, and those to `skip`, are not looked into."""
    count = 0
    for found in _below(root, root, skip, DEPTH_MAX):
        if isinstance(found, Path) and not found.name.endswith(suffix):
            continue
        count += 1
        if count > FILES_MAX:
            yield Unmapped(str(root), "", f"more than {FILES_MAX:,} files: the rest is left out")
            return
        yield found


def _below(root: Path, directory: Path, skip: frozenset[str], depth: int) -> Iterator[Path | Unmapped]:
    try:
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        yield Unmapped(_shown(root, directory), directory.name, f"cannot be read: {error.strerror}")
        return
    for entry in entries:
        path = directory / entry.name
        if entry.is_symlink():
            yield Unmapped(_shown(root, path), entry.name, "a symbolic link is not followed")
        elif entry.is_dir(follow_symlinks=False):
            if entry.name in skip or entry.name.startswith("."):
                continue
            if depth == 0:
                yield Unmapped(_shown(root, path), entry.name, f"deeper than {DEPTH_MAX} directories")
                continue
            yield from _below(root, path, skip, depth - 1)
        else:
            yield path


def _shown(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix() if path != root else str(root)


def excerpt(data: bytes | str) -> str:
    text = data[:200].decode("utf-8", "replace") if isinstance(data, bytes) else data
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:79] + "…"


# -- values that may be anything


def text_in(found: dict[str, Any], key: str) -> str | None:
    """What is there, if it is a text that says something."""
    value = found.get(key)
    return value if isinstance(value, str) and value.strip() else None


def texts_in(found: dict[str, Any], key: str) -> list[str]:
    value = found.get(key)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def objects_in(found: dict[str, Any], key: str) -> list[dict[str, Any]]:
    value = found.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
