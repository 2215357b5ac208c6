"""The sessions of clients: which of them live, as every process of the base on this machine can see.

A claim names the session that made it. Each process that serves sessions has one file in
`_system/sessions`, with a byte for each of its sessions, and holds it locked: when the process
dies, by whatever signal, the kernel frees the lock, and with it all that its sessions had
claimed. A session that any process may serve (HTTP) can be ended and can claim through all of
them; the byte is its place for all. What is not known (another machine, an older process whose
file was cleared away) counts neither as alive nor as ended.

Nothing here is truth: the files may be deleted at any time, and then names and times decide.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from tallystick.errors import StorageRefused
from tallystick.system.file_locks import locked, take
from tallystick.system.private_files import make_directory, replace_file, sync_file
from tallystick.system.regular_files import read_regular

FILES_MAX = 1_000
"""Of dead processes; past that the oldest go first."""
KEY_BYTES = 32
_KEPT_SECONDS_MIN = 3_600.0
_UNFINISHED = ".new"
_PROCESS_DIGITS = 16
_KEY = "key"
_LOCK = "lock"
"""Held while bytes are changed. Not the file with the bytes: to macOS a lock on some of them and one on all of it are
the same kind, and whoever holds the file would wait for himself."""
_LIVE, _ENDED, _DIED, _UNKNOWN = b"L", b"E", b"D", b"\0"
"""`_DIED`: its process was killed, and what it had claimed is free; another process may go on serving it."""

# Ids come from the log, where agents can write what they like: only these ever name a file.
_ID = re.compile(r"([0-9a-f]{16})(?:[0-9a-f]{8})?-([1-9][0-9]{0,8})", re.ASCII)


class Sessions:
    """Those of this process, and what is known of the others'. Belongs to one thread."""

    def __init__(
        self,
        directory: Path | None = None,
        *,
        kept_seconds: float = 0.0,
        machine: str = "",
        shared_key: Callable[[], bytes] | None = None,
    ) -> None:
        """`kept_seconds` is how long a claim or a session may count: so long it is known how it ended.

        Without a directory only this process knows of its sessions. Where several machines serve one memory,
        `machine` is hexadecimal digits that name this one, with which its ids begin, and `shared_key` gets the key
        that all of them sign with.
        """
        self._directory = directory
        self._kept_seconds = max(kept_seconds, _KEPT_SECONDS_MIN)
        self._machine = machine
        self._shared_key = shared_key
        self._process = (self._machine + secrets.token_hex(8))[:_PROCESS_DIGITS]
        self._count = 0
        self._open: set[str] = set()
        self._live: set[str] = set()
        """Those that claimed something here."""
        self._held: dict[str, int] = {}
        """The files that this process holds locked: its own, and those of dead processes whose sessions claim here."""
        self._unstored: dict[str, bytes] = {}
        """The states where there is no directory."""

    def begin(self, *, shared: bool = False, client_tag: str = "") -> str:
        """The id of a new session. Writes nothing, as most sessions never claim, unless it is `shared`:
        then other processes may end it, and need a place to say so. `client_tag` is that of the client's process,
        by which hooks recognise the session of their own window (`processes.py`)."""
        self._count += 1
        session = f"{self._process}{client_tag}-{self._count}"
        self._open.add(session)
        if shared and self._directory is not None:
            # A disk that refuses is no reason to refuse a session: it is then ended in this process alone.
            with suppress(OSError):
                self._own_file(self._directory)
        return session

    @property
    def open_count(self) -> int:
        """Of this process."""
        return len(self._open)

    def claims(self, session: str) -> None:
        """Show it to be alive, before it claims something. Raises StorageRefused when it cannot be shown.

        Each time anew, since the age of the file tells how old the newest claim may be.
        """
        # What is still under way when a session ends belongs to a session that has ended.
        if session in self._open or not self._is_own(session):
            self._write(session, _LIVE)
            self._live.add(session)

    def end(self, session: str) -> None:
        """Its client said goodbye: what it claimed is free, and no process serves it any longer."""
        self._leave(session, _ENDED)

    def forget(self, session: str) -> None:
        """It is served here no longer, and nobody knows whether its client still works."""
        if session in self._live:
            self._leave(session, _UNKNOWN)
        self._open.discard(session)

    def has_ended(self, session: str) -> bool:
        """Whether its client, through any process, has ended it. One system call for a session of this process."""
        return self._read(session)[0] == _ENDED

    def is_alive(self, session: str) -> bool | None:
        """False when it has ended, None when that is not known."""
        state, is_held = self._read(session)
        if state == _LIVE:
            return is_held
        return False if state in (_ENDED, _DIED) else None

    def elsewhere(self, session: str) -> str | None:
        """The other machine that it began on; None for one of this machine, or where there is but one."""
        if not self._machine or session.startswith(self._machine):
            return None
        return session[: len(self._machine)]

    def signing_key(self) -> bytes:
        """The same for every process of the memory; made by whichever is first. Raises StorageRefused."""
        if self._directory is None:
            return secrets.token_bytes(KEY_BYTES)
        try:
            if self._shared_key is not None:
                return _key_of_all(self._directory, self._shared_key)
            return _shared_key(self._directory)
        except OSError as error:
            raise StorageRefused(f"the key of the sessions cannot be kept: {error.strerror}") from error

    def close(self) -> None:
        """An orderly end of the process. Clients that are still there will come again, to whoever serves them then."""
        for session in list(self._live):
            self.forget(session)
        for file in self._held.values():
            os.close(file)
        self._held.clear()

    # -- below

    def _is_own(self, session: str) -> bool:
        return session.startswith(self._process)

    def _leave(self, session: str, state: bytes) -> None:
        if self._is_own(session) and session not in self._open:
            return
        is_noted = session in self._live or self._process in self._held or not self._is_own(session)
        self._open.discard(session)
        self._live.discard(session)
        if is_noted or self._directory is None:
            # A disk that refuses is no reason to fail: then the claim lasts as long as it would.
            with suppress(StorageRefused):
                self._write(session, state)

    def _read(self, session: str) -> tuple[bytes, bool]:
        """The byte of a session, and whether the process that holds it is there."""
        place = _place(session)
        if place is None or self._directory is None:
            return self._unstored.get(session, b""), True
        process, number = place
        held = self._held.get(process)
        try:
            if held is not None:
                return os.pread(held, 1, number), True
            if process == self._process:
                return b"", True
            file = os.open(self._directory / process, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b"", False
        try:
            state = os.pread(file, 1, number)
            return state, state == _LIVE and _is_locked(file)
        except OSError:
            return b"", False
        finally:
            os.close(file)

    def _write(self, session: str, state: bytes) -> None:
        place = _place(session)
        if place is None:
            return
        if self._directory is None:
            if self._unstored.get(session) != _ENDED:
                self._unstored[session] = state
            return
        process, number = place
        try:
            if process == self._process:
                _write_byte(self._directory, self._own_file(self._directory), number, state)
            else:
                self._write_elsewhere(self._directory, process, number, state)
        except OSError as error:
            raise StorageRefused(f"the session cannot be noted: {error.strerror}") from error

    def _write_elsewhere(self, directory: Path, process: str, number: int, state: bytes) -> None:
        """To the file of another process. Where that one is dead, a claim needs somebody who holds its file: we do."""
        if process not in self._held:
            file = _open_shared(directory / process)
            if state != _LIVE or not _take_over(directory, file):
                try:
                    _write_byte(directory, file, number, state)
                finally:
                    os.close(file)
                return
            self._held[process] = file
        _write_byte(directory, self._held[process], number, state)

    def _own_file(self, directory: Path) -> int:
        if self._process not in self._held:
            self._held[self._process] = self._create(directory)
        return self._held[self._process]

    def _create(self, directory: Path) -> int:
        """Locked before anybody can see it by its name: it never looks like that of a dead process."""
        make_directory(directory)
        self._sweep(directory)
        unfinished = directory / (self._process + _UNFINISHED)
        file = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            # Waits at most for somebody who is sweeping.
            take(file)
            os.rename(unfinished, directory / self._process)
        except BaseException:
            os.close(file)
            raise
        return file

    def _sweep(self, directory: Path) -> None:
        """The files of dead processes whose claims have all grown stale, and the oldest where there are too many."""
        stale = time.time() - self._kept_seconds
        dead = sorted(_dead(directory))
        for number, (modified, path) in enumerate(dead):
            if modified < stale or number < len(dead) - FILES_MAX:
                path.unlink(missing_ok=True)


@lru_cache(maxsize=10_000)
def _place(session: str) -> tuple[str, int] | None:
    """The process whose file has the byte of a session, and which byte it is."""
    found = _ID.fullmatch(session)
    return None if found is None else (found[1], int(found[2]))


def _write_byte(directory: Path, file: int, number: int, state: bytes) -> None:
    """What has ended stays so: without the lock, a claim of one process could undo the end that another writes."""
    with locked(directory / _LOCK):
        if os.pread(file, 1, number) != _ENDED:
            os.pwrite(file, state, number)


def _open_shared(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


def _take_over(directory: Path, file: int) -> bool:
    """Hold the file of a dead process; False where somebody holds it. Who died with the process stays dead."""
    while not take(file, timeout_seconds=0):
        # Others who look hold it, too, for a moment, but not for themselves alone.
        if _is_locked(file):
            return False
    with locked(directory / _LOCK):
        states = os.pread(file, os.fstat(file).st_size, 0)
        os.pwrite(file, states.replace(_LIVE, _DIED), 0)
    return True


def _key_of_all(directory: Path, shared_key: Callable[[], bytes]) -> bytes:
    """The one that all machines have; while they cannot be asked, what they said before."""
    path = directory / _KEY
    try:
        key = shared_key()
    except StorageRefused:
        if not path.exists():
            raise
        return _read_key(path)
    if not path.exists() or path.read_bytes() != key:
        make_directory(directory)
        replace_file(path, key)
    return key


def _shared_key(directory: Path) -> bytes:
    path = directory / _KEY
    with suppress(FileNotFoundError):
        return _read_key(path)
    make_directory(directory)
    unfinished = directory / (secrets.token_hex(8) + _UNFINISHED)
    file = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, secrets.token_bytes(KEY_BYTES))
        sync_file(file)
        # It appears whole or not at all, and never in the place of another.
        with suppress(FileExistsError):
            os.link(unfinished, path)
    finally:
        os.close(file)
        unfinished.unlink(missing_ok=True)
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    key = read_regular(path)
    if len(key) != KEY_BYTES:
        raise OSError(0, f"{path} is damaged; delete it, and clients begin new sessions")
    return key


def _dead(directory: Path) -> Iterator[tuple[float, Path]]:
    """When they were last written, and where they are."""
    for path in directory.iterdir():
        if path.name in (_KEY, _LOCK):
            continue
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if not _is_locked(file):
                    yield os.fstat(file).st_mtime, path
            finally:
                os.close(file)


def _is_locked(file: int) -> bool:
    """Shared, so that two who look at the same time do not take each other for the holder."""
    return not take(file, shared=True, timeout_seconds=0)
