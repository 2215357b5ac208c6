"""The clients' files: read and replaced with care, and the record of what was put into them.

The files are other people's, and in a cloned repository a stranger's: a link may lead anywhere. So what is outside of
the project is not touched through it, a file is replaced whole or not at all, what it said before is kept, and the
record is written before the first file, so that a crash leaves nothing that `--remove` does not know.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from tallystick.errors import Conflict
from tallystick.extensions.clients.entries import ConfigEntry
from tallystick.extensions.clients.splice import Unreadable
from tallystick.system.file_locks import locked
from tallystick.system.private_files import make_directory, replace_file, replacing, sync_directory
from tallystick.system.regular_files import open_regular, read_regular

RECORD = "clients.json"
BACKUPS = "client-backups"
_FILE_BYTES_MAX = 32 << 20
_LOCK_SECONDS = 30.0
_MODE_SHARED, _MODE_PRIVATE = 0o644, 0o600


class RecordedSplice(msgspec.Struct, frozen=True):
    entry: ConfigEntry
    at: int
    """In characters, of the text as the splices before this one left it."""
    text: str
    made: int


class RecordedFile(msgspec.Struct, frozen=True, kw_only=True):
    clients: tuple[str, ...]
    created: bool
    directories: tuple[str, ...] = ()
    """Those that were made for it, the outermost first."""
    before: str | None
    """Hash of what it said; None where it was not there, or is no longer known."""
    after: str
    splices: tuple[RecordedSplice, ...]
    comments: bool = False


class Record(msgspec.Struct, frozen=True):
    files: dict[str, RecordedFile] = {}
    version: int = 1


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


# -- the record


def read_record(system: Path) -> Record:
    """Empty where there is none. A damaged one too: entries are then recognised by what they say."""
    try:
        return msgspec.json.decode(read_regular(system / RECORD), type=Record)
    except (OSError, msgspec.MsgspecError):
        return Record()


def write_record(system: Path, record: Record) -> None:
    """Without files it is removed, and with it the directories that nothing else is in."""
    if record.files:
        replace_file(system / RECORD, msgspec.json.format(msgspec.json.encode(record)))
        return
    for name in (RECORD, f"{RECORD}.new"):
        (system / name).unlink(missing_ok=True)
    for directory in (system / BACKUPS, system, system.parent):
        with suppress(OSError):
            directory.rmdir()


@contextmanager
def recording(system: Path) -> Iterator[None]:
    """One at a time; the directory is made where it is missing. Raises Conflict."""
    make_directory(system)
    with locked(system, timeout_seconds=_LOCK_SECONDS, create=False) as held:
        if not held:
            raise Conflict(f"another 'tallystick init' is at work in {system}", hint="wait for it, then run this again")
        yield


# -- files


def resolve(file: Path, root: Path | None) -> Path:
    """Where its bytes lie. Raises Unreadable where that is not the project's (`root`) and not for us to write."""
    target = Path(os.path.realpath(file))
    if root is not None:
        top = os.path.realpath(root)
        if not target.is_relative_to(top) or ".git" in map(str.lower, target.relative_to(top).parts):
            raise Unreadable("it is a link that leads out of the project")
    if file.is_symlink() and not target.exists():
        raise Unreadable("it is a link that leads nowhere")
    return target


def read_file(target: Path) -> bytes | None:
    """None where there is none. Raises Unreadable for what is no file of a sensible size, or may not be written."""
    try:
        with open_regular(target) as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from None
    if len(data) > _FILE_BYTES_MAX:
        raise Unreadable(f"it is larger than {_FILE_BYTES_MAX} bytes")
    return data


def check_writable(target: Path) -> None:
    """Raises Unreadable. To rename a file over one that is read-only would go around its owner's will."""
    nearest = next(each for each in (target.parent, *target.parents) if each.exists())
    if target.exists() and (not os.access(target, os.W_OK) or not target.stat().st_mode & 0o222):
        raise Unreadable("it is read-only")
    if not nearest.is_dir() or not os.access(nearest, os.W_OK) or not nearest.stat().st_mode & 0o222:
        raise Unreadable(f"{nearest} is read-only")


def decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"byte {error.start} is not UTF-8") from None


def own_directories(target: Path, record: Mapping[str, RecordedFile]) -> tuple[str, ...]:
    """Those around a file that are missing, or were made for any that is recorded; the outermost first."""
    ours = {name for each in record.values() for name in each.directories}
    return tuple(str(each) for each in reversed(target.parents) if str(each) in ours or not each.exists())


def replace(target: Path, before: bytes | None, after: bytes, *, private: bool) -> bool:
    """Whether it was done: not where the file has changed since `before` was read. Keeps its mode and its owner."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(target)
    # Of no name that a repository could have brought, as a link to somewhere else.
    unfinished = target.with_name(f".{target.name}.tallystick-{secrets.token_hex(8)}")
    mode = _MODE_PRIVATE if private else _MODE_SHARED
    seen = target.stat() if before is not None else None
    if read_file(target) != before:
        return False
    with replacing(target, unfinished=unfinished, mode=mode) as file:
        if seen is not None:
            os.fchmod(file.fileno(), stat.S_IMODE(seen.st_mode))
            if (seen.st_uid, seen.st_gid) != (os.geteuid(), os.getegid()):
                with suppress(PermissionError):
                    os.fchown(file.fileno(), seen.st_uid, seen.st_gid)
        file.write(after)
    return True


def remove(target: Path, before: bytes, directories: tuple[str, ...]) -> bool:
    """The same for a file that is to go, with those of the directories that are empty then."""
    if read_file(target) != before:
        return False
    target.unlink()
    sync_directory(target.parent)
    remove_directories(directories)
    return True


def remove_directories(directories: tuple[str, ...]) -> None:
    for each in reversed(directories):
        with suppress(OSError):
            os.rmdir(each)


def remove_unfinished(target: Path) -> None:
    """What a crash left of an earlier attempt."""
    for each in target.parent.glob(f".{target.name}.tallystick-{'[0-9a-f]' * 16}"):
        each.unlink(missing_ok=True)


# -- backups


def back_up(system: Path, target: Path, data: bytes) -> Path:
    """The file as it was, for its owner alone: it may hold other servers' tokens. The last one is kept."""
    make_directory(system / BACKUPS)
    kept = backup_of(system, target)
    replace_file(kept, data)
    return kept


def backup_of(system: Path, target: Path) -> Path:
    return system / BACKUPS / f"{digest(os.fsencode(target))[:12]}-{target.name}"
