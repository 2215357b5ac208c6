"""The database: one SQLite file that follows the log and that several processes have open.

Only whoever holds the projection's lock writes it; anybody may read meanwhile (WAL). It can
always be replayed, so a file that cannot be used is not repaired: it makes room for a new one.
Always true: deleted values are overwritten, and after `scrub` no copy of them is left in
free pages, in the write-ahead log or in files that were set aside.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import NoneType
from typing import Any

import msgspec

from tallystick.errors import StorageRefused, TallystickError
from tallystick.log import Entry, Head
from tallystick.system.private_files import close_to_others, create_file, make_directory

Connection = sqlite3.Connection

_BUSY_SECONDS = 10.0
_REST_SHARE = 20
"""A scrub for which nobody waits is followed by a pause so many times as long, so that it costs 5 % at most."""
_OUR_NAME = "graph.db"
_MAGIC = b"SQLite format 3\0"
_REJECTED = ".rejected-"
_USELESS = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_REFUSALS = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
}
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

logger = logging.getLogger(__name__)


def _as_it_is(value: Any) -> Any:
    return value


# Of these two Python asks each time, and by exceptions, what to make of them, unless it was told: a sixth of all that a
# commit costs in a mirror.
sqlite3.register_adapter(NoneType, _as_it_is)
sqlite3.register_adapter(bytes, _as_it_is)


class Damaged(TallystickError):
    """What a projection kept is of no use any more. It starts again when it is next asked for its position."""

    code = "PROJECTION_DAMAGED"


def check_version(found: int, ours: int, name: str) -> None:
    """Of two versions of the program on one base the newer one has what both could build: taking it from each other
    they would build for ever. Raises Damaged for an older file, StorageRefused for a newer one."""
    if found > ours:
        raise newer_version(name)
    if found < ours:
        raise Damaged("it was made by an older version")


def newer_version(name: str) -> StorageRefused:
    return StorageRefused(
        f"{name} was made by a newer version of Tallystick",
        code="PROJECTION_NEWER",
        hint=f"let that version answer, or install it here too; to go back for good, move {name} away",
    )


class Database:
    """The writer's side. `prepare` makes what a new file lacks and raises Damaged for one it cannot use.

    With `require_ours` a person chose the path, or a file of settings that came with a clone: it raises StorageRefused
    for somebody else's database, before anything is changed in it, and a file that is given up is kept.
    """

    def __init__(
        self,
        path: Path,
        prepare: Callable[[Connection], None],
        *,
        require_ours: Callable[[Connection], None] | None = None,
    ) -> None:
        self.path = path
        self._prepare = prepare
        self._require_ours = require_ours
        self._connection: Connection | None = None
        self._inode = 0
        self._doubt: str | None = None
        self._rest_until = 0.0

    def position(self, ask: Callable[[Connection], str]) -> Head:
        """What it says about where it is. Here, and nowhere else, a damaged one makes room for a new one."""
        if self._doubt is not None:
            self.give_up(self._doubt)
        try:
            return self._position(ask)
        except Damaged as error:
            self.give_up(error.message)
            return self._position(ask)

    def distrust(self, why: str) -> None:
        """Somebody met damage: start again when the position is next asked for."""
        self._doubt = why

    def connection(self) -> Connection:
        """Looks whether the file is still the one that was opened: another process may have replaced it."""
        if self._connection is not None and _inode(self.path) != self._inode:
            self.close()
        if self._connection is None:
            try:
                self._connection = self._opened()
            except Damaged as error:
                self.give_up(error.message)
                self._connection = self._opened()
            self._inode = _inode(self.path)
        return self._connection

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All of it or nothing."""
        with self.guarded() as db:
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

    @contextmanager
    def guarded(self) -> Iterator[Connection]:
        """For statements on their own: damage that they meet is remembered."""
        try:
            with translated():
                yield self.connection()
        except Damaged as error:
            self.distrust(error.message)
            raise

    def give_up(self, why: str) -> None:
        """Make room for a new file. Readers that have the old one open notice it by its inode."""
        self.require_replaceable()
        self._doubt = None
        logger.warning("%s cannot be used and is built again from the log: %s", self.path.name, why)
        rejected = self.path.with_name(f"{self.path.name}{_REJECTED}{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}")
        for ending in ("", "-wal", "-shm"):
            file = self.path.with_name(self.path.name + ending)
            with _refusing(), suppress(FileNotFoundError):
                if self._require_ours is not None and not ending.endswith("-shm"):
                    os.replace(file, rejected.with_name(rejected.name + ending))
                else:
                    file.unlink()

    def require_replaceable(self) -> None:
        """Raises StorageRefused for a file that nobody but its owner may take away."""
        self.close()
        # One of a newer version is refused, however strange it looks to this one.
        with suppress(Damaged, sqlite3.Error):
            self._opened().close()
        if self._require_ours is None or self.path.name == _OUR_NAME:
            return
        with _refusing(), suppress(FileNotFoundError), self.path.open("rb") as file:
            if file.read(len(_MAGIC)) not in (_MAGIC, b""):
                raise StorageRefused(
                    "the file for the SQL mirror is no database",
                    hint="let db_path name another file, or move that one away",
                )

    @property
    def rest_seconds(self) -> float:
        """How long a scrub for which nobody waits had better wait."""
        return max(0.0, self._rest_until - time.monotonic())

    @contextmanager
    def paced(self) -> Iterator[None]:
        started = time.monotonic()
        try:
            yield
        finally:
            now = time.monotonic()
            self._rest_until = now + _REST_SHARE * (now - started)

    def scrub(self) -> bool:
        """Leave no copy of what was deleted. False while a reader keeps the write-ahead log from being cut."""
        for rejected in self.path.parent.glob(f"{self.path.name}{_REJECTED}*"):
            with _refusing():
                rejected.unlink(missing_ok=True)
        with self.guarded() as db:
            db.execute("VACUUM")
            # Without waiting: a person's open query must not hold up everybody else.
            db.execute("PRAGMA busy_timeout = 0")
            busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            db.execute(f"PRAGMA busy_timeout = {int(_BUSY_SECONDS * 1000)}")
        return not busy

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _position(self, ask: Callable[[Connection], str]) -> Head:
        with translated():
            said = ask(self.connection())
        try:
            return msgspec.json.decode(said, type=Head) if said else Head()
        except msgspec.MsgspecError:
            raise Damaged("it does not say where it is") from None

    def _opened(self) -> Connection:
        with _refusing():
            make_directory(self.path.parent)
            create_file(self.path)
        with translated():
            self._check_ours()
            db = sqlite3.connect(
                self.path, isolation_level=None, timeout=_BUSY_SECONDS, check_same_thread=False, cached_statements=256
            )
            try:
                if self._require_ours is not None:
                    self._require_ours(db)
                with _refusing():
                    close_to_others(self.path)
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                db.execute("PRAGMA secure_delete = ON")
                self._prepare(db)
            except BaseException:
                db.close()
                raise
            return db

    def _check_ours(self) -> None:
        """Before anything about the file is changed: an ordinary connection may take in a journal that lies beside."""
        if self._require_ours is None:
            return
        db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            self._require_ours(db)
        finally:
            db.close()


class Reader:
    """Somebody who only looks; for one thread at a time. Raises Damaged when there is nothing to look at."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection: Connection | None = None
        self._inode = 0

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Every statement inside sees the same moment."""
        with translated():
            db = self._current()
            db.execute("BEGIN")
            try:
                yield db
            finally:
                db.execute("ROLLBACK")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _current(self) -> Connection:
        inode = _inode(self._path)
        if self._connection is None or inode != self._inode:
            self.close()
            self._connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?{mode_of(self._path)}",
                uri=True,
                isolation_level=None,
                timeout=_BUSY_SECONDS,
                check_same_thread=False,
            )
            self._connection.execute("PRAGMA query_only = ON")
            self._inode = inode
        return self._connection


def check_follows(said: str, entries: Sequence[Entry], head: Head) -> None:
    """The file may have been replaced since its position was asked for. Raises Damaged."""
    at = msgspec.json.decode(said, type=Head) if said else Head()
    if at.count != head.count - len(entries):
        raise Damaged(f"it is at commit {at.count}, and commits up to {head.count - len(entries)} were not given to it")


@contextmanager
def translated() -> Iterator[None]:
    """SQLite's errors in the words of this house."""
    try:
        yield
    except UnicodeDecodeError as error:
        # SQLite's own message quotes what it found in a damaged schema.
        raise Damaged("its schema is no text") from error
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        # Our statements are right: what they do not find, or find to be no text, was changed by somebody else.
        if code in _USELESS or str(error).startswith(("no such ", "Could not decode to UTF-8")):
            raise Damaged(str(error)) from error
        if code in _REFUSALS:
            raise _refused(str(error)) from error
        if code in _BUSY:
            raise TallystickError(f"the database is busy: {error}", code="PROJECTION_BUSY", hint="try again") from error
        raise


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _refused(error.strerror or str(error)) from error


def _refused(why: str) -> StorageRefused:
    return StorageRefused(
        f"a projection could not be written: {why}",
        hint="free some space or make the file system writable; nothing was lost, it follows the log later",
    )


def mode_of(path: Path) -> str:
    """In which a reader opens it, as SQLite's addresses say it.

    Where nothing can be written a reader has no room for the index of a write-ahead log; if there is no such log
    either, nobody is at it and none is needed."""
    is_still = not os.access(path.parent, os.W_OK) and not _size(path.with_name(f"{path.name}-wal"))
    return "mode=ro&immutable=1" if is_still else "mode=rw"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return 0
